//! How many connections to the origins of a pool may idle, if its section leaves that to us, and does it leave too few?
//!
//! Each thread has connections of its own: a pool that keeps fewer than its origins times the threads has to make one for
//! many a request.

use std::thread::available_parallelism;

use super::Config;
use super::pool::Pool;
use super::process::Process;
use super::report::{Complaint, Invalid};
use super::units::Auto;

/// As many may idle in any pool.
pub const FEW: usize = 320;

/// More than this may idle only where a section says so.
const MANY: usize = 16_384;

/// So many, in a pool of so many origins, where the process has so many shards and may have so many descriptors: most of
/// those are for clients and for requests on their way.
pub fn enough(origins: usize, shards: usize, descriptors: u64) -> usize {
    let most = usize::try_from(descriptors / 4).unwrap_or(MANY).clamp(FEW, MANY);
    origins.saturating_mul(shards).saturating_add(FEW).min(most)
}

impl Process {
    /// Threads that serve.
    pub fn shards(&self) -> usize {
        match self.threads {
            Auto::Auto => available_parallelism().map_or(1, usize::from),
            Auto::Fixed(threads) => threads.into(),
        }
    }
}

/// Pools whose section keeps too few. How many threads `auto` stands for is for the machine to say that serves.
pub(super) fn check(config: &Config) -> Vec<Complaint> {
    let threads = match config.process.threads {
        Auto::Auto => 1,
        Auto::Fixed(threads) => threads.into(),
    };
    config.pools.iter().filter_map(|(name, pool)| too_few(name, pool, threads)).collect()
}

fn too_few(name: &str, pool: &Pool, threads: usize) -> Option<Complaint> {
    let (origins, Auto::Fixed(kept)) = (pool.origins.len(), pool.connections.keepalive) else { return None };
    let wanted = origins.saturating_mul(threads);
    // none at all is meant
    if kept == 0 || kept as usize >= wanted {
        return None;
    }
    let on = if threads > 1 { format!(", each asked by {threads} threads") } else { String::new() };
    let found = format!("{kept} for {origins} origins{on}: many a request has to make a connection");
    let why = Invalid::new(found, format!("set \"auto\", or {wanted} at least"));
    Some(why.at(format!("pools.{name}.connections.keepalive")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::said;
    use super::*;

    #[test]
    fn more_origins_on_more_threads_keep_more_as_far_as_descriptors_go() {
        assert_eq!(enough(0, 2, 65_536), 320);
        assert_eq!(enough(4, 2, 65_536), 328);
        assert_eq!(enough(1000, 2, 65_536), 2320);
        assert_eq!(enough(10_000, 2, 65_536), 16_384);
        assert_eq!(enough(10_000, 64, u64::MAX), 16_384);
        assert_eq!(enough(1000, 2, 4096), 1024);
        assert_eq!(enough(1000, 2, 1024), 320);
        assert_eq!(enough(usize::MAX, 2, 0), 320);
    }

    #[test]
    fn a_pool_that_keeps_too_few_is_warned_of() {
        let warned = |threads: &str, keepalive: &str| {
            let origins = (0..5).map(|n| format!("o{n}, ")).collect::<String>();
            said(&format!(
                "version: 1\nprocess: {{ listeners: [ {{ address: 0.0.0.0:80 }} ], threads: {threads} }}\n\
                 pools: {{ a: {{ origins: [ {origins} ], connections: {{ keepalive: {keepalive} }}, health: {{ probe: off }} }} }}\n\
                 routes: [ {{ name: r, pool: a }} ]\n"
            ))
        };
        for (threads, keepalive) in [("auto", "5"), ("1", "5"), ("2", "10"), ("2", "0"), ("8", "auto")] {
            assert_eq!(warned(threads, keepalive), [""; 0], "{threads} {keepalive}");
        }
        for (threads, keepalive, expected) in [
            ("auto", "4", "4 for 5 origins: many a request has to make a connection, set \"auto\", or 5 at least"),
            (
                "2",
                "9",
                "9 for 5 origins, each asked by 2 threads: many a request has to make a connection, set \"auto\", or 10 at least",
            ),
        ] {
            let said = warned(threads, keepalive);
            assert!(said.len() == 1 && said[0].contains("pools.a.connections.keepalive: "), "{said:?}");
            assert!(said[0].starts_with("warning: ") && said[0].ends_with(expected), "{said:?}");
        }
    }
}
