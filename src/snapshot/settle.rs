//! What follows when something in a snapshot is ripe? The same configuration compiled again takes it over, in one store:
//! an address that has proven itself, or the end of a pool that was replaced. A replacement that failed is undone.

use std::time::Instant;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::Snapshot;
use crate::config::{self, Config};
use crate::health::Ripe;
use crate::observe::Metrics;

/// What was in force before pools were replaced, in case that fails.
#[derive(Debug, Clone)]
pub(super) struct Before {
    /// The sections of the pools that are being replaced.
    sections: IndexMap<String, config::Pool>,
    config: Config,
    text: String,
    digest: String,
}

impl Before {
    /// For `pools` that are replaced in the snapshot that follows `previous`.
    pub(super) fn of(previous: &Snapshot, pools: Vec<&str>) -> Option<Self> {
        let first = previous.before.as_ref();
        let section = |pool: &str| {
            let section = first.and_then(|before| before.sections.get(pool)).or(previous.config.pools.get(pool))?;
            Some((pool.to_owned(), section.clone()))
        };
        let sections: IndexMap<_, _> = pools.into_iter().filter_map(section).collect();
        if sections.is_empty() {
            return None;
        }
        Some(first.map_or_else(
            || Self {
                sections: sections.clone(),
                config: previous.config.clone(),
                text: previous.text.clone(),
                digest: previous.digest.clone(),
            },
            |first| Self { sections: sections.clone(), ..first.clone() },
        ))
    }
}

/// What a process tells the next of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Carried {
    text: String,
    digest: String,
    /// A whole configuration with the sections of the pools that are replaced.
    sections: String,
    pools: Vec<String>,
}

impl Before {
    pub(super) fn export(&self) -> Carried {
        let mut all = self.config.clone();
        all.pools.extend(self.sections.clone());
        Carried {
            text: self.text.clone(),
            digest: self.digest.clone(),
            sections: config::dump(&all),
            pools: self.sections.keys().cloned().collect(),
        }
    }

    /// What another process told, for one with these settings; `None`: it makes no sense here.
    pub(super) fn told(carried: &Carried, process: &config::process::Process) -> Option<Self> {
        let read = |text: &str| Some(config::parse("before", text).ok()?.config);
        let sections = read(&carried.sections)?.pools.into_iter();
        let (text, digest) = (carried.text.clone(), carried.digest.clone());
        let config = Config { process: process.clone(), ..read(&text)? };
        let sections = sections.filter(|(pool, _)| carried.pools.contains(pool)).collect();
        Some(Self { sections, config, text, digest })
    }
}

/// A snapshot with what was ripe in the one before.
pub struct Settled {
    /// To be published.
    pub next: Snapshot,
    /// Pools that are as they were before their replacement.
    pub undone: Vec<String>,
    /// Pools in which something was taken over.
    pub taken: Vec<(String, Ripe)>,
}

impl Snapshot {
    /// The snapshot that takes over what is ripe; `None`: nothing is.
    pub fn settle(&self, metrics: &Metrics, now: Instant) -> Option<Settled> {
        let ripe =
            |upstream: &super::Upstream| Some((upstream.pool.name().to_string(), upstream.pool.roster().ripe(now)?));
        // What DNS says is no reload that could be undone: those that it does not name any more serve on.
        let is_written =
            |pool: &str| self.config.pools.get(pool).is_some_and(|section| section.discovery.on().is_none());
        let ripe = self.pools.iter().filter_map(ripe).filter(|(pool, ripe)| *ripe != Ripe::Failed || is_written(pool));
        let (failed, taken): (Vec<_>, Vec<_>) = ripe.partition(|(_, ripe)| *ripe == Ripe::Failed);
        let undone: Vec<String> = failed.into_iter().map(|(pool, _)| pool).collect();
        if undone.is_empty() && taken.is_empty() {
            return None;
        }
        let mut config = self.config.clone();
        for pool in &undone {
            let section = self.before.as_ref().and_then(|before| before.sections.get(pool));
            if let (Some(section), Some(place)) = (section, config.pools.get_mut(pool)) {
                section.clone_into(place);
            }
        }
        // It was compiled once, each pool of it: it can be again.
        let next = self.brought_up(&config, metrics, now).ok()?;
        let next = if undone.is_empty() { next.in_place_of(self) } else { next.undone(self.before.as_ref()) };
        Some(Settled { next, undone, taken })
    }

    /// It is what was in force before, or a mixture that no file says.
    fn undone(mut self, before: Option<&Before>) -> Self {
        match before.filter(|before| before.config == self.config) {
            Some(Before { text, digest, .. }) => (self.text, self.digest) = (text.clone(), digest.clone()),
            None => {
                self.text = config::dump(&self.config);
                self.digest = config::digest(&self.text);
            }
        }
        self
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use std::time::Duration;

    use super::*;

    fn text(origins: &str, more: &str) -> String {
        let process = "process: { listeners: [ { address: 127.0.0.1:8080 } ] }";
        format!(
            "version: 1\n{process}\npools:\n  p:\n    origins: {origins}\n    health: {{ probe: {{ http: {{}} }} }}\n{more}"
        )
    }

    fn compiled(text: &str, previous: Option<&Snapshot>, metrics: &Metrics, now: Instant) -> Snapshot {
        let compile = |config: &Config| Snapshot::compile(config, previous, metrics, now);
        let (loaded, snapshot) = config::parse_with("m.yaml", text, compile).unwrap();
        snapshot.read_from(&loaded)
    }

    const OLD: &str = "[ \"10.0.0.1:80\", \"10.0.0.2:80\" ]";
    const NEW: &str = "[ \"10.0.0.3:80\", \"10.0.0.4:80\" ]";

    #[test]
    fn replacement_that_failed_is_undone_as_if_it_had_never_been() {
        let (metrics, now) = (Metrics::new().unwrap(), Instant::now());
        let old = compiled(&text(OLD, ""), None, &metrics, now);
        let new = compiled(&text(NEW, ""), Some(&old), &metrics, now);
        assert!(new.settle(&metrics, now + Duration::from_secs(59)).is_none());
        let Settled { next, undone, taken } = new.settle(&metrics, now + Duration::from_secs(60)).unwrap();
        assert_eq!((undone, taken), (vec!["p".to_owned()], vec![]));
        assert_eq!((next.config(), next.digest(), next.text()), (old.config(), old.digest(), old.text()));
        assert_eq!(next.version(), new.version() + 1);
        assert_eq!(next.upstreams()[0].pool.fingerprint(), old.upstreams()[0].pool.fingerprint());
        assert!(next.settle(&metrics, now + Duration::from_secs(600)).is_none());
    }

    #[test]
    fn what_else_the_reload_changed_stays() {
        let (metrics, now) = (Metrics::new().unwrap(), Instant::now());
        let old = compiled(&text(OLD, ""), None, &metrics, now);
        let more = "client_limits: { headers: 50 }\n";
        let new = compiled(&text(NEW, more), Some(&old), &metrics, now);
        let again = compiled(&text(NEW, &format!("{more}# again\n")), Some(&new), &metrics, now);
        let next = again.settle(&metrics, now + Duration::from_secs(60)).unwrap().next;
        assert_eq!(next.config().pools, old.config().pools);
        assert_eq!(next.config().client_limits.headers, 50);
        assert!(next.digest() != old.digest() && next.digest() != again.digest());
    }

    #[test]
    fn nothing_is_settled_while_nothing_is_ripe() {
        let (metrics, now) = (Metrics::new().unwrap(), Instant::now());
        let old = compiled(&text(OLD, ""), None, &metrics, now);
        assert!(old.settle(&metrics, now + Duration::from_secs(600)).is_none());
    }
}
