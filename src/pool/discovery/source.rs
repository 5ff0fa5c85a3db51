//! What is known of the DNS name a pool has its origins from?
//!
//! One `Source` per pool lives as long as its section says the same, and is handed from snapshot to snapshot: a reload
//! forgets nobody who was found. A section that says something else begins with those who served before, who go as any
//! address goes. Only the [`Seeker`](super::Seeker) writes; a snapshot takes what was found when it is compiled.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::Place;
use crate::config::pool::{Discovery, Origin};

/// A DNS name, and who was found there.
#[derive(Debug)]
pub struct Source {
    pool: Arc<str>,
    written: Discovery,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    found: Arc<[Origin]>,
    told: Told,
}

/// What came of the questions so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// Somebody asked and was told something, be it that it failed.
    pub asked: bool,
    /// The last answer that held somebody.
    pub answered: Option<Instant>,
    /// Why there was no later one.
    pub failure: Option<String>,
}

impl Source {
    /// The source of `pool`: `before` if its section says the same, else one that begins with `there`.
    pub fn of(
        pool: &Arc<str>,
        written: &Discovery,
        before: Option<&Arc<Self>>,
        there: impl FnOnce() -> Arc<[Origin]>,
    ) -> Arc<Self> {
        if let Some(same) = before.filter(|before| before.written == *written) {
            return Arc::clone(same);
        }
        let state = State { found: there(), told: Told::default() };
        Arc::new(Self { pool: Arc::clone(pool), written: written.clone(), state: Mutex::new(state) })
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<str> {
        &self.pool
    }

    /// Its section.
    pub fn written(&self) -> &Discovery {
        &self.written
    }

    /// Who was found; another list only when it differs.
    pub fn found(&self) -> Arc<[Origin]> {
        Arc::clone(&self.state.lock().found)
    }

    /// What came of the questions.
    pub fn told(&self) -> Told {
        self.state.lock().told.clone()
    }

    /// These are there now; answers who came and who went.
    pub fn find<'p>(&self, places: impl Iterator<Item = &'p Place>) -> (Vec<String>, Vec<String>) {
        let origins: Vec<Origin> = places.map(Place::origin).collect();
        let mut state = self.state.lock();
        let but = |some: &[Origin], others: &[Origin]| -> Vec<String> {
            some.iter().filter(|one| !others.contains(one)).map(|one| one.name.clone()).collect()
        };
        let (came, went) = (but(&origins, &state.found), but(&state.found, &origins));
        if !came.is_empty() || !went.is_empty() {
            state.found = origins.into();
        }
        (came, went)
    }

    /// This came of questions that another process asked.
    pub fn hear(&self, asked: bool, answered: Option<Instant>, failure: Option<String>) {
        self.state.lock().told = Told { asked, answered, failure };
    }

    /// This came of a question; answers whether a failure is news.
    pub(super) fn tell(&self, ended: Result<Instant, String>) -> bool {
        let told = &mut self.state.lock().told;
        told.asked = true;
        match ended {
            Ok(now) => {
                (told.answered, told.failure) = (Some(now), None);
                false
            }
            Err(why) => told.failure.replace(why).is_none(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;
    use crate::config::pool::{DnsName, Identity};
    use crate::config::units::Duration;

    fn written(dns: &str) -> Discovery {
        let refresh = Duration(std::time::Duration::from_secs(10));
        Discovery { dns: DnsName(dns.to_owned()), port: Some(80), refresh, identity: Identity::Address }
    }

    fn places(numbers: &[u8]) -> Vec<Place> {
        numbers.iter().map(|number| Place::at(([10, 0, 0, *number], 80).into())).collect()
    }

    #[test]
    fn a_reload_keeps_who_was_found_and_another_name_begins_with_them() {
        let pool: Arc<str> = Arc::from("p");
        let nobody = || -> Arc<[Origin]> { Arc::new([]) };
        let first = Source::of(&pool, &written("a"), None, nobody);
        assert_eq!(first.find(places(&[1, 2]).iter()), (vec!["10.0.0.1:80".into(), "10.0.0.2:80".into()], vec![]));
        let same = Source::of(&pool, &written("a"), Some(&first), nobody);
        assert!(Arc::ptr_eq(&first, &same));
        let other = Source::of(&pool, &written("b"), Some(&first), || first.found());
        assert!(!Arc::ptr_eq(&first, &other) && other.found().len() == 2 && !other.told().asked);
    }

    #[test]
    fn an_equal_list_is_the_same_one() {
        let source = Source::of(&Arc::from("p"), &written("a"), None, || Arc::new([]));
        source.find(places(&[1]).iter());
        let before = source.found();
        assert_eq!(source.find(places(&[1]).iter()), (vec![], vec![]));
        assert!(Arc::ptr_eq(&before, &source.found()));
        assert_eq!(source.find(places(&[2]).iter()), (vec!["10.0.0.2:80".into()], vec!["10.0.0.1:80".into()]));
    }

    #[test]
    fn a_failure_is_news_once_until_an_answer_comes() {
        let (source, now) = (Source::of(&Arc::from("p"), &written("a"), None, || Arc::new([])), Instant::now());
        let failed = || Err("no such name".to_owned());
        let news = [failed(), failed(), Ok(now), failed()].map(|ended| source.tell(ended));
        assert_eq!(news, [true, false, false, true]);
        let told = Told { asked: true, answered: Some(now), failure: Some("no such name".into()) };
        assert_eq!(source.told(), told);
    }
}
