//! Does growth stop where all origins share what is short? Rule J4 over a model of the first incident: caches that are
//! empty, and one database behind them all.

use std::time::Duration;

use super::growing::{SLOW, World, serve};
use super::{SlowStart, Verdict};

/// Eight origins with caches become twelve before one database that can do so much more than it has to: a key is a miss
/// where it is asked for the first time, and whoever misses waits for all that missed before.
struct Shared {
    world: World,
    /// Queries a second.
    budget: f64,
    /// Seconds of queries that wait, and the most that did.
    backlog: f64,
    most: f64,
    /// Keys that a newcomer has in its cache.
    fetched: f64,
    /// What held growth.
    held: Vec<&'static str>,
}

impl Shared {
    /// Requests a second, keys, misses a second while nothing changes; requests an origin works at together.
    const REQUESTS: f64 = 400.0;
    const KEYS: f64 = 1000.0;
    const MISSES: f64 = 80.0;
    const WORKERS: f64 = 4.0;

    fn new(spare: f64, slow: Option<SlowStart>) -> Self {
        let mut world = World::new(8);
        world.roster.policy.slow_start = slow;
        let mut shared = Self {
            world,
            budget: Self::MISSES * (1.0 + spare),
            backlog: 0.0,
            most: 0.0,
            fetched: 0.0,
            held: Vec::new(),
        };
        (0..60).for_each(|_| shared.second());
        assert_eq!(shared.most, 0.0);
        (0..4).for_each(|_| {
            shared.world.join();
        });
        shared
    }

    fn second(&mut self) {
        self.world.answers.fill((0, 0, 0));
        let twelve = self.world.roster.targets.len() == 12;
        let part = if twelve { self.world.part(8) } else { 0.0 };
        let moved = Self::KEYS / 3.0 * part;
        // A key is asked for as often as any other, at random.
        let first = (moved - self.fetched).max(0.0) * (1.0 - (-Self::REQUESTS / Self::KEYS).exp());
        self.fetched += first;
        self.backlog = (self.backlog + (Self::MISSES + first) / self.budget - 1.0).max(0.0);
        self.most = self.most.max(self.backlog);
        let (old, new) = (1.0 - moved / Self::KEYS, moved / Self::KEYS);
        for (origin, target) in self.world.roster.targets.iter().enumerate() {
            let (part, of, first) = if origin < 8 { (old, 8.0, 0.0) } else { (new, 4.0, first) };
            let (all, misses) = (Self::REQUESTS * part / of, (Self::MISSES * part + first) / of);
            let miss = 0.02 + self.backlog;
            // Those that wait for the database keep the others waiting.
            let hit = if misses * miss < Self::WORKERS { 0.002 } else { miss };
            for (count, seconds) in [(misses, miss), (all - misses, hit)] {
                serve(&target.live, (count.round() as u32, (seconds * 1000.0) as u64, 0), self.world.now);
            }
        }
        self.world.run(1.0);
    }

    /// Until all have their share, and a little longer.
    fn until_all_is_up(mut self) -> Self {
        let up = |shared: &Self| (8..12).all(|origin| shared.world.verdict(origin) == Verdict::Up);
        let seconds = (1..300).find(|_| {
            self.second();
            let why = self.world.why(8);
            let reasons = ["its median is", "the pool's median is"];
            self.held.extend(reasons.iter().filter(|reason| why.contains(**reason)));
            self.held.dedup();
            up(&self)
        });
        assert!(seconds.is_some(), "{:?}", self.world.told);
        (0..10).for_each(|_| self.second());
        self
    }
}

/// The first incident.
#[test]
fn j4_growth_stands_still_instead_of_pushing_a_shared_database_under() {
    let quick = SlowStart { window: Duration::from_secs(15), ..SLOW };
    let at_once = Shared::new(0.2, None).until_all_is_up();
    let held = Shared::new(0.2, Some(quick)).until_all_is_up();
    assert!(at_once.most > 1.5, "a third of the keys at once are too many: {} s", at_once.most);
    assert!(held.most < 0.5, "{} s", held.most);
    assert_eq!(held.held, ["its median is"], "newcomers with empty caches show it first");
}

/// Where newcomers are not looked at by themselves only the pool shows it, once those that wait keep all others waiting.
#[test]
fn j4_a_pool_shows_by_itself_that_what_all_share_is_overloaded() {
    let quick = SlowStart { window: Duration::from_secs(15), latency: None, ..SLOW };
    let at_once = Shared::new(0.05, None).until_all_is_up();
    let held = Shared::new(0.05, Some(quick)).until_all_is_up();
    assert!(held.most < 0.6 * at_once.most, "{} s, and {} s at once", held.most, at_once.most);
    assert_eq!(held.held, ["the pool's median is"]);
}
