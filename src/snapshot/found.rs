//! Which origins has a pool that finds them by DNS, in this snapshot? Rule J7.
//!
//! A snapshot has whoever was found when it was compiled; the next one takes the [`Source`] over and has whoever is
//! found then. So a change of the answer is a change as any other: compiled as a whole, published once, live state taken
//! over by name. It is no other configuration, though: text, digest and version stay.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{Snapshot, Upstream};
use crate::age::Age;
use crate::config::pool::{Origin, State};
use crate::config::units::{Address, Off};
use crate::config::{self, Complaint};
use crate::observe::Metrics;
use crate::pool::discovery::{Sought, Source};

/// Where a pool has its origins from, and which it has.
#[derive(Debug)]
pub struct Found {
    /// Where from.
    pub source: Arc<Source>,
    origins: Arc<[Origin]>,
}

/// What a process tells the next of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Carried {
    origins: Vec<(Address, String, u16)>,
    #[serde(default)]
    asked: bool,
    #[serde(default)]
    answered: Option<Age>,
    #[serde(default)]
    failure: Option<String>,
}

impl Carried {
    fn origins(&self) -> Arc<[Origin]> {
        let origin = |(address, name, weight): &(Address, String, u16)| Origin {
            weight: (*weight).max(1),
            ..Origin::at(address.clone(), name.clone())
        };
        self.origins.iter().map(origin).collect()
    }
}

impl Found {
    /// For the section of pool `name`, if it finds its origins; `before`: the pool that runs, `previous`: its snapshot.
    pub(super) fn of(
        name: &str,
        written: &config::Pool,
        (before, previous): (Option<&Upstream>, Option<&Snapshot>),
        told: Option<&Carried>,
        now: Instant,
    ) -> Option<Self> {
        let Off::On(discovery) = &written.discovery else { return None };
        let source = before.and_then(|before| before.found.as_ref()).map(|found| &found.source);
        let there = || match source {
            Some(source) => source.found(),
            // Those that are written serve until it is known who takes their place.
            None => previous.and_then(|all| all.config.pools.get(name)).map_or_else(nobody, serving),
        };
        let there = || told.map_or_else(there, Carried::origins);
        let source = Source::of(&Arc::from(name), discovery, source, there);
        if let Some(told) = told {
            source.hear(told.asked, told.answered.map(|answered| answered.at(now)), told.failure.clone());
        }
        Some(Self { origins: source.found(), source })
    }

    /// The section with who was found.
    pub(super) fn section<'w>(found: Option<&Self>, written: &'w config::Pool) -> Cow<'w, config::Pool> {
        match found {
            None => Cow::Borrowed(written),
            Some(found) => Cow::Owned(config::Pool { origins: found.origins.to_vec(), ..written.clone() }),
        }
    }

    /// The last good answer, and what came of later questions.
    pub(super) fn export(&self, now: Instant) -> Carried {
        let told = self.source.told();
        Carried {
            origins: self.origins.iter().map(|one| (one.address.clone(), one.name.clone(), one.weight)).collect(),
            asked: told.asked,
            answered: told.answered.map(|answered| Age::of(answered, now)),
            failure: told.failure,
        }
    }

    fn is_current(&self) -> bool {
        Arc::ptr_eq(&self.origins, &self.source.found())
    }
}

fn nobody() -> Arc<[Origin]> {
    Arc::new([])
}

fn serving(written: &config::Pool) -> Arc<[Origin]> {
    let serves = |origin: &&Origin| !origin.backup && origin.state == State::Serve;
    written.origins.iter().filter(serves).cloned().collect()
}

impl Snapshot {
    /// The same configuration with whoever was found since; `None`: nobody came or went.
    ///
    /// # Errors
    /// It does not compile with them.
    pub fn with_found(&self, metrics: &Metrics, now: Instant) -> Option<Result<Self, Vec<Complaint>>> {
        let is_current = |upstream: &Upstream| upstream.found.as_ref().is_none_or(Found::is_current);
        if self.pools.iter().all(is_current) {
            return None;
        }
        Some(self.brought_up(&self.config, metrics, now).map(|next| next.in_place_of(self)))
    }

    /// Pools that find their origins.
    pub fn sought(&self) -> impl Iterator<Item = Sought> {
        self.pools.iter().filter_map(|upstream| {
            let source = Arc::clone(&upstream.found.as_ref()?.source);
            Some(Sought { source, roster: Arc::clone(upstream.pool.roster()) })
        })
    }

    /// As the configuration that `old` is; keys that are counted apart go on to be.
    #[must_use]
    pub fn in_place_of(mut self, old: &Self) -> Self {
        for upstream in &mut self.pools {
            let trial = old.named(upstream.pool.name()).and_then(|before| before.tail.trial.clone());
            // Nobody else holds the tail before it is published.
            if let (Some(trial), Some(tail)) = (trial, Arc::get_mut(&mut upstream.tail)) {
                tail.trial = Some(trial);
            }
        }
        Self { text: old.text.clone(), digest: old.digest.clone(), version: old.version, ..self }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;
    use crate::health::Verdict;
    use crate::pool::discovery::Place;

    const FOUND: &str = "discovery: { dns: o.test, port: 80 }";

    /// The snapshot of a pool `p`.
    fn snapshot(pool: &str, previous: Option<&Snapshot>) -> Snapshot {
        let text = format!(
            "version: 1\nprocess: {{ listeners: [ {{ address: 0.0.0.0:80 }} ] }}\npools: {{ p: {{ {pool} }} }}\n"
        );
        let metrics = Metrics::new().unwrap();
        let compile = |config: &config::Config| Snapshot::compile(config, previous, &metrics, Instant::now());
        let (loaded, snapshot) = config::parse_with("f", &text, compile).unwrap_or_else(|report| panic!("{report}"));
        snapshot.read_from(&loaded)
    }

    /// These are found.
    fn find(snapshot: &Snapshot, numbers: &[u8]) {
        let places: Vec<_> = numbers.iter().map(|number| Place::at(([10, 0, 0, *number], 80).into())).collect();
        snapshot.sought().for_each(|sought| drop(sought.source.find(places.iter())));
    }

    fn next(snapshot: &Snapshot) -> Option<Snapshot> {
        snapshot.with_found(&Metrics::new().unwrap(), Instant::now()).map(|next| next.unwrap())
    }

    fn members(snapshot: &Snapshot) -> Vec<(&str, Verdict)> {
        let pool = &snapshot.named("p").unwrap().pool;
        pool.members().iter().map(|member| (&**member.name(), member.origin().verdict())).collect()
    }

    #[test]
    fn a_pool_is_empty_until_somebody_is_found_and_the_first_are_assumed_up() {
        let empty = snapshot(FOUND, None);
        assert_eq!((members(&empty), next(&empty).is_none()), (vec![], true));
        let pool = &empty.named("p").unwrap().pool;
        let ask = crate::pool::Ask { hash: Some(7), tried: &[], now: Instant::now() };
        assert!(pool.pick(&ask, &mut fastrand::Rng::with_seed(0)).is_none());
        find(&empty, &[1, 2]);
        let first = next(&empty).unwrap();
        assert_eq!(members(&first), [("10.0.0.1:80", Verdict::Up), ("10.0.0.2:80", Verdict::Up)]);
        find(&first, &[2, 3]);
        let second = next(&first).unwrap();
        assert_eq!(members(&second), [("10.0.0.2:80", Verdict::Up), ("10.0.0.3:80", Verdict::Joining)]);
        assert_eq!(second.parked().flat_map(|parked| parked.stays(Instant::now())).count(), 1);
        assert!(next(&second).is_none());
    }

    #[test]
    fn who_is_found_makes_no_other_configuration_and_the_ring_of_those_who_are_written() {
        let empty = snapshot(FOUND, None);
        find(&empty, &[1, 2]);
        let found = next(&empty).unwrap();
        let told = |snapshot: &Snapshot| (snapshot.version(), snapshot.digest().to_owned(), snapshot.text().to_owned());
        assert_eq!(told(&found), told(&empty));
        let written = snapshot("origins: [\"10.0.0.2:80\", \"10.0.0.1:80\"]", None);
        let print = |snapshot: &Snapshot| snapshot.named("p").unwrap().pool.fingerprint().to_owned();
        assert_eq!(print(&found), print(&written));
    }

    #[test]
    fn a_reload_keeps_who_was_found_and_who_was_written_until_others_are() {
        let written = snapshot("origins: [\"10.0.0.1:80\", { address: \"10.0.0.2:80\", name: b }]", None);
        let reloaded = snapshot(FOUND, Some(&written));
        assert_eq!(members(&reloaded), [("10.0.0.1:80", Verdict::Up), ("b", Verdict::Up)]);
        find(&reloaded, &[1, 3]);
        let found = next(&reloaded).unwrap();
        assert_eq!(members(&found), [("10.0.0.1:80", Verdict::Up), ("10.0.0.3:80", Verdict::Joining)]);
        let same = snapshot(&format!("protocol: h2c, {FOUND}"), Some(&found));
        assert_eq!(members(&same), members(&found));
        let other = snapshot(&FOUND.replace("o.test", "other.test"), Some(&same));
        assert_eq!(members(&other), members(&found));
        find(&same, &[9]);
        assert!(next(&other).is_none(), "what the name of before says does not count any more");
    }

    #[test]
    fn keys_that_are_counted_apart_go_on_to_be() {
        let empty = snapshot(FOUND, None);
        find(&empty, &[1, 2]);
        let before = next(&empty).unwrap();
        let changed = snapshot(&format!("balance: {{ key: \"{{path}}\" }}, {FOUND}"), Some(&before)).on_trial(&before);
        find(&changed, &[1, 2, 3]);
        let after = next(&changed).unwrap();
        let trial = |snapshot: &Snapshot| snapshot.named("p").unwrap().tail.trial.clone().unwrap();
        assert!(Arc::ptr_eq(&trial(&changed), &trial(&after)));
    }
}
