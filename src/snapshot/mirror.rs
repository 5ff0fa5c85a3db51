//! Copies of a route's requests, as requests meet it: where they go, and which of them are copied.

use std::sync::Arc;

use crate::config::{Config, route};
use crate::observe::{Metrics, MirrorMeters};

/// One more than the greatest number that is drawn.
const DRAWS: f64 = 4_294_967_296.0;

/// A compiled `mirror` section.
pub struct Mirror {
    /// The pool that gets the copies: a number for [`Snapshot::upstream`](super::Snapshot::upstream).
    pub pool: usize,
    /// What became of them.
    pub meters: Arc<MirrorMeters>,
    /// Of all that may be drawn, those below are copied.
    below: u64,
}

impl Mirror {
    /// Of a written route; `None`: nothing is copied.
    pub(super) fn compile(written: &route::Route, config: &Config, metrics: &Metrics) -> Option<Self> {
        let mirror = written.mirror.on()?;
        // `config` has made sure that the pool exists.
        let pool = config.pools.get_index_of(&mirror.pool)?;
        let meters = metrics.mirror(&written.name, &mirror.pool);
        Some(Self { pool, meters, below: (mirror.share.ratio() * DRAWS).round() as u64 })
    }

    /// Is a request copied for which this was drawn?
    pub fn takes(&self, drawn: u32) -> bool {
        u64::from(drawn) < self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 1000 draws, spread evenly, are taken at this share.
    fn taken(share: &str) -> usize {
        let text = format!(
            "version: 1\nprocess: {{ listeners: [ {{ address: 0.0.0.0:80 }} ] }}\npools: {{ a: {{ origins: [a] }}, b: {{ origins: [b] }} }}\n\
             routes: [ {{ pool: a, mirror: {{ pool: b, share: {share} }} }} ]\n"
        );
        let config = crate::config::parse("f", &text).unwrap().config;
        let mirror = Mirror::compile(&config.routes[0], &config, &Metrics::new().unwrap()).unwrap();
        assert_eq!(mirror.pool, 1);
        (0..1000_u32).filter(|n| mirror.takes(n * 4_294_967 + if *n == 999 { 4_295 } else { 0 })).count()
    }

    #[test]
    fn share_says_how_many_are_copied() {
        for (share, count) in [("0%", 0), ("0.5%", 5), ("10%", 100), ("99.9%", 999), ("100%", 1000)] {
            assert!(taken(share).abs_diff(count) <= 1, "{share}: {}", taken(share));
        }
        assert_eq!((taken("0%"), taken("100%")), (0, 1000));
    }
}
