//! What was counted here that another process is to count on from? Rule U3: no series ever falls, and what both
//! processes count of an upgrade adds up to what happened.
//!
//! Every counter and histogram takes part, by family and labels, and none has to be named here. What was told once is
//! not told again ([`Told`]), so the first account is of totals and each later one of what came since. Of what nobody
//! counts any more where it is heard (an origin that is gone) nothing is shown.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::metrics::{All, Metrics};
use super::series::{Family, Labels, Series};

/// Counts by family.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counted(HashMap<String, Vec<Count>>);

/// Values of the labels of a series, and its numbers.
type Count = (Vec<String>, Vec<u64>);

/// What was told so far.
#[derive(Debug, Default)]
pub struct Told(HashMap<&'static str, HashMap<Labels, Vec<u64>>>);

/// A family whose series only grow.
pub(super) trait Grows: Send + Sync {
    fn name(&self) -> &'static str;

    fn labels(&self) -> &'static [&'static str];

    /// What came since it was told last.
    fn tell(&self, told: &mut HashMap<Labels, Vec<u64>>) -> Vec<Count>;

    /// So much was counted elsewhere.
    fn hear(&self, values: &[&str], numbers: &[u64]);
}

impl<S: Series> Grows for Family<S> {
    fn name(&self) -> &'static str {
        self.named().name
    }

    fn labels(&self) -> &'static [&'static str] {
        self.named().labels
    }

    fn tell(&self, told: &mut HashMap<Labels, Vec<u64>>) -> Vec<Count> {
        let mut found = Vec::new();
        self.each(|values, series| {
            let numbers = series.numbers();
            let before = told.get(values).map(Vec::as_slice).unwrap_or_default();
            if before == numbers {
                return;
            }
            let before = before.iter().copied().chain(std::iter::repeat(0));
            let since = numbers.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect();
            found.push((values.iter().map(ToString::to_string).collect(), since));
            told.insert(values.into(), numbers);
        });
        found
    }

    fn hear(&self, values: &[&str], numbers: &[u64]) {
        self.with(values).add_numbers(numbers);
    }
}

impl Counted {
    /// Was nothing counted?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Metrics {
    /// What was counted and not told yet.
    pub fn tell(&self, told: &mut Told) -> Counted {
        let families = self.all().growing.iter();
        let account =
            families.map(|family| (family.name().to_owned(), family.tell(told.0.entry(family.name()).or_default())));
        Counted(account.filter(|(_, series)| !series.is_empty()).collect())
    }

    /// So much was counted in a process that this one goes on for.
    pub fn hear(&self, counted: &Counted) {
        for family in &self.all().growing {
            for (values, numbers) in counted.0.get(family.name()).into_iter().flatten() {
                let values: Vec<&str> = values.iter().map(String::as_str).collect();
                if values.len() == family.labels().len() && self.all().is_counted(family.labels(), &values) {
                    family.hear(&values, numbers);
                }
            }
        }
    }
}

impl All {
    /// Does anybody here count what has these labels?
    fn is_counted(&self, labels: &[&str], values: &[&str]) -> bool {
        match (labels, values) {
            (["pool", "origin", ..], [pool, origin, ..]) => {
                let name = [Box::from(*pool), Box::from(*origin)];
                self.by_origin.lives(&name) || self.times_by_origin.lives(&name)
            }
            (["limit"], [limit]) => self.by_shared.lives(&Box::from(*limit)),
            (["route", "limit"], [route, limit]) => self.by_limit.lives(&[Box::from(*route), Box::from(*limit)]),
            (["route", "pool", ..], [route, pool, ..]) => self.by_route.lives(&[Box::from(*route), Box::from(*pool)]),
            (["route", ..], [route, ..]) => self.times_by_route.lives(&Box::from(*route)),
            (["pool", ..], [pool, ..]) => self.by_pool.lives(&Box::from(*pool)),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The shown lines of counters and histograms, but for those that are zero.
    fn shown(metrics: &Metrics) -> Vec<String> {
        let counts = |line: &&str| {
            !line.starts_with('#')
                && ["_total", "_bucket", "_count", "_sum"].iter().any(|kind| line.contains(&format!("{kind}{{")))
                && !line.ends_with(" 0")
        };
        metrics.encode().unwrap().lines().filter(counts).map(str::to_owned).collect()
    }

    fn elsewhere(counted: &Counted) -> Counted {
        serde_json::from_str(&serde_json::to_string(counted).unwrap()).unwrap()
    }

    #[test]
    fn what_two_processes_count_adds_up() {
        let [old, new, both] = [(); 3].map(|()| Metrics::new().unwrap());
        let held = [&old, &new, &both]
            .map(|metrics| (metrics.route("r", Some("p")), metrics.pool("p"), metrics.origins("p", ["a", "b"])));
        let count = |which: usize, times: u32| {
            for (route, pool, origins) in [&held[which], &held[2]] {
                for time in 0..times {
                    route.answered("GET", 200, MS * time);
                    pool.retried("connect");
                    origins[0].attempted("ok", MS * time * 20);
                    origins[0].opened(MS);
                    origins[1].ejected("refused");
                }
            }
        };
        let mut told = Told::default();
        count(0, 7);
        new.hear(&elsewhere(&old.tell(&mut told)));
        assert_eq!(shown(&new), shown(&both));
        for step in 1..4 {
            count(0, step);
            count(1, 2 * step);
            new.hear(&elsewhere(&old.tell(&mut told)));
            assert_eq!(shown(&new), shown(&both));
        }
        assert!(old.tell(&mut told).is_empty());
    }

    #[test]
    fn of_whom_nobody_counts_nothing_is_shown_and_what_was_heard_goes_with_its_origin() {
        let [old, new] = [(); 2].map(|()| Metrics::new().unwrap());
        let origins = old.origins("p", ["a", "gone"]);
        origins.iter().for_each(|origin| origin.attempted("reset", MS));
        let here = new.origins("p", ["a"]);
        new.hear(&old.tell(&mut Told::default()));
        assert!(shown(&new).iter().any(|line| line.contains("origin=\"a\"")));
        assert!(!shown(&new).iter().any(|line| line.contains("gone")));
        drop(here);
        assert_eq!(shown(&new), Vec::<String>::new());
    }

    #[test]
    fn what_makes_no_sense_changes_nothing() {
        let metrics = Metrics::new().unwrap();
        let _held = metrics.origins("p", ["a"]);
        for text in [
            r#"{"moorgate_attempts_total":[[["p","a"],[1]],[["p","a","ok"],[]],[["p","a","ok"],[1,2]]]}"#,
            r#"{"moorgate_attempt_duration_seconds":[[["p","a"],[1,2,3]]],"moorgate_unknown_total":[[[],[1]]]}"#,
            r#"{"moorgate_origin_up":[[["p","a"],[1]]]}"#,
        ] {
            metrics.hear(&serde_json::from_str(text).unwrap());
            assert_eq!(shown(&metrics), Vec::<String>::new(), "{text}");
        }
    }
}
