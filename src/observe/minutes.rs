//! How did the last minutes go? Requests, errors and retries in steps of a few seconds, of all and of each pool.
//!
//! Nothing is counted for it: each step is what the counters of `/metrics` grew by, looked at from time to time. What is
//! kept is bounded by the number of pools. The clock is an argument.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::metrics::{Metrics, NONE};
use super::series::{Counter, Family, Labels};

/// The length of a step.
pub const STEP: Duration = Duration::from_secs(5);

/// Steps that are remembered: ten minutes.
const STEPS: usize = 120;

/// What was counted in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// Requests that were answered.
    pub requests: u64,
    /// Those of them that were answered by 5xx.
    pub errors: u64,
    /// Further tries.
    pub retries: u64,
    /// Failed tries that were not repeated, although their condition is listed.
    pub suppressed: u64,
}

/// The last minutes.
pub struct Minutes {
    metrics: Metrics,
    book: Mutex<Book>,
}

/// What is remembered of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// How long ago the last step ended; `None`: there is none yet.
    pub age: Option<Duration>,
    /// The steps of all requests, of no pool's as well; the oldest first.
    pub all: Vec<Step>,
    /// Those of each pool, as many.
    pub pools: BTreeMap<Box<str>, Vec<Step>>,
}

#[derive(Default)]
struct Book {
    looked: Option<Instant>,
    requests: HashMap<Labels, u64>,
    retries: HashMap<Labels, u64>,
    suppressed: HashMap<Labels, u64>,
    all: VecDeque<Step>,
    pools: BTreeMap<Box<str>, VecDeque<Step>>,
}

/// What was counted since the look before, by pool.
type Grown = BTreeMap<Box<str>, Step>;

impl std::fmt::Debug for Minutes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Minutes").field("steps", &self.book.lock().all.len()).finish_non_exhaustive()
    }
}

impl Minutes {
    /// Nothing is remembered.
    pub fn new(metrics: Metrics) -> Self {
        Self { metrics, book: Mutex::default() }
    }

    /// Ends a step; to be called after every [`STEP`]. The first call begins the first one.
    pub fn look(&self, now: Instant) {
        let mut book = self.book.lock();
        let grown = book.grown(&self.metrics);
        if let Some(before) = book.looked.replace(now) {
            let passed = now.saturating_duration_since(before).as_secs_f64() / STEP.as_secs_f64();
            book.enter(&grown, (passed.round() as usize).clamp(1, STEPS));
        }
    }

    /// What is remembered.
    pub fn remembered(&self, now: Instant) -> Remembered {
        let book = self.book.lock();
        let series = |steps: &VecDeque<Step>| {
            // one that came later counted nothing before
            let missing = book.all.len().saturating_sub(steps.len());
            let before = std::iter::repeat_n(Step::default(), missing);
            before.chain(steps.iter().copied()).collect()
        };
        Remembered {
            age: book.looked.filter(|_| !book.all.is_empty()).map(|at| now.saturating_duration_since(at)),
            all: book.all.iter().copied().collect(),
            pools: book.pools.iter().map(|(name, steps)| (name.clone(), series(steps))).collect(),
        }
    }
}

impl Book {
    fn grown(&mut self, metrics: &Metrics) -> Grown {
        let (all, mut grown) = (metrics.all(), Grown::new());
        each(&all.requests, &mut self.requests, |labels, more| {
            let [_, pool, _, code] = labels else { return };
            let step = grown.entry(pool.clone()).or_default();
            step.requests += more;
            step.errors += if code.starts_with('5') { more } else { 0 };
        });
        each(&all.retries, &mut self.retries, |labels, more| {
            let [pool, ..] = labels else { return };
            grown.entry(pool.clone()).or_default().retries += more;
        });
        each(&all.retries_suppressed, &mut self.suppressed, |labels, more| {
            let [pool, ..] = labels else { return };
            grown.entry(pool.clone()).or_default().suppressed += more;
        });
        grown
    }

    /// So much was counted in so many steps. A pool that nobody counts for is forgotten.
    fn enter(&mut self, grown: &Grown, steps: usize) {
        let mut all = Step::default();
        grown.values().for_each(|step| all.add(step));
        enter(&mut self.all, &all, steps);
        self.pools.retain(|pool, _| grown.contains_key(pool));
        for (pool, step) in grown.iter().filter(|(pool, _)| &***pool != NONE) {
            enter(self.pools.entry(pool.clone()).or_default(), step, steps);
        }
    }
}

/// Tells of each series what it grew by. One that begins anew has grown by all that it counts.
fn each(family: &Family<Counter>, seen: &mut HashMap<Labels, u64>, mut tell: impl FnMut(&[Box<str>], u64)) {
    let before = std::mem::take(seen);
    family.each(|labels, counter| {
        let (now, then) = (counter.value(), before.get(labels).copied().unwrap_or_default());
        seen.insert(labels.into(), now);
        tell(labels, now.checked_sub(then).unwrap_or(now));
    });
}

/// Spreads what was counted over the steps it took; there is more than one when the machine was busy or asleep.
fn enter(series: &mut VecDeque<Step>, sum: &Step, steps: usize) {
    let count = steps as u64;
    for number in 0..count {
        let part = |sum: u64| sum / count + u64::from(number < sum % count);
        series.push_back(Step {
            requests: part(sum.requests),
            errors: part(sum.errors),
            retries: part(sum.retries),
            suppressed: part(sum.suppressed),
        });
    }
    series.drain(..series.len().saturating_sub(STEPS));
}

impl Step {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.retries += other.retries;
        self.suppressed += other.suppressed;
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn requests(steps: &[Step]) -> Vec<u64> {
        steps.iter().map(|step| step.requests).collect()
    }

    #[test]
    fn a_step_is_what_was_counted_in_it_by_pool() {
        let (metrics, now) = (Metrics::new().unwrap(), Instant::now());
        let (route, pool, ours) = (metrics.route("r", Some("p")), metrics.pool("p"), metrics.unrouted());
        route.answered("GET", 200, MS);
        let minutes = Minutes::new(metrics.clone());
        assert_eq!(minutes.remembered(now), Remembered::default());
        minutes.look(now);
        assert_eq!(minutes.remembered(now).age, None, "what was before is in no step");
        route.answered("GET", 200, MS);
        route.answered("POST", 503, MS);
        pool.retried("connect");
        pool.suppressed("budget");
        ours.answered("GET", 404, MS);
        minutes.look(now + STEP);
        minutes.look(now + 2 * STEP);
        let remembered = minutes.remembered(now + 2 * STEP + MS);
        let step = Step { requests: 2, errors: 1, retries: 1, suppressed: 1 };
        assert_eq!(remembered.pools["p"], [step, Step::default()]);
        assert_eq!(remembered.all, [Step { requests: 3, ..step }, Step::default()]);
        assert_eq!((remembered.age, remembered.pools.len()), (Some(MS), 1));
    }

    #[test]
    fn a_pool_that_comes_later_counted_nothing_before_and_one_that_goes_is_forgotten() {
        let (metrics, now) = (Metrics::new().unwrap(), Instant::now());
        let minutes = Minutes::new(metrics.clone());
        minutes.look(now);
        minutes.look(now + STEP);
        let (pool, route) = (metrics.pool("p"), metrics.route("r", Some("p")));
        route.answered("GET", 200, MS);
        minutes.look(now + 2 * STEP);
        assert_eq!(requests(&minutes.remembered(now).pools["p"]), [0, 1]);
        drop((pool, route));
        minutes.look(now + 3 * STEP);
        assert!(minutes.remembered(now).pools.is_empty());
        assert_eq!(requests(&minutes.remembered(now).all), [0, 1, 0]);
        // one of the same name counts from its start
        let route = metrics.route("r", Some("p"));
        route.answered("GET", 200, MS);
        minutes.look(now + 4 * STEP);
        assert_eq!(requests(&minutes.remembered(now).all), [0, 1, 0, 1]);
    }

    #[test]
    fn ten_minutes_are_remembered_and_what_a_pause_held_up_is_spread_over_it() {
        let (metrics, now) = (Metrics::new().unwrap(), Instant::now());
        let (minutes, route) = (Minutes::new(metrics.clone()), metrics.route("r", Some("p")));
        minutes.look(now);
        (0..7).for_each(|_| route.answered("GET", 200, MS));
        minutes.look(now + 3 * STEP + 10 * MS);
        assert_eq!(requests(&minutes.remembered(now).all), [3, 2, 2]);
        route.answered("GET", 200, MS);
        minutes.look(now + 1000 * STEP);
        let all = requests(&minutes.remembered(now).all);
        assert_eq!((all.len(), all.iter().sum::<u64>()), (STEPS, 1));
        (0..300).for_each(|step| minutes.look(now + (1001 + step) * STEP));
        assert_eq!(minutes.remembered(now).all.len(), STEPS);
    }
}
