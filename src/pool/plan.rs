//! What does a change of the pool do to these keys? Pure: from two compiled pools and keys with their requests to what
//! moves, from whom to whom.
//!
//! Every key is placed by the pick of the data plane, in both pools. A key that both make alike is one key; where they
//! make different keys of a request, each pair of them counts as one. Always holds: memory is bounded. When there are
//! too many keys only those are kept whose own random number is below a bound that halves as often as needed; all
//! requests of a kept key are counted, so ratios stay true and totals are multiplied.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::time::Instant;

use fastrand::Rng;

use crate::balance::{self, Moved, moved};
use crate::template::Key;

use super::{Ask, Pool};

/// Keys that are kept at most: some 200 MiB.
const MOST: usize = 4_000_000;

/// Collects keys.
#[derive(Debug)]
pub struct Planner<'p> {
    before: &'p Pool,
    after: &'p Pool,
    now: Instant,
    /// Are keys made the same way in both?
    alike: bool,
    /// For each member after the change its number before it, if it was there.
    known: Vec<Option<usize>>,
    keys: HashMap<u64, Entry>,
    most: usize,
    /// Only keys whose number has none of these bits are kept.
    left_out: u64,
    one_of: u64,
    spread: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    before: u32,
    /// `None`: what is made of it after the change cannot be told.
    after: Option<u32>,
    requests: u64,
}

/// A key of which nothing else is known.
#[derive(Debug, Clone, Copy)]
pub enum Literal<'a> {
    /// Its bytes.
    Key(&'a [u8]),
    /// Its place on the circle alone.
    Hash(u32),
}

/// What a change does to the keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// All keys.
    pub keys: Count,
    /// Those that get another origin.
    pub moved: Count,
    /// From whom to whom, the most keys first; what goes nobody knows where is in none.
    pub pairs: Vec<Pair>,
    /// What each origin of either pool has of the requests, by name.
    pub traffic: HashMap<String, [u64; 2]>,
    /// Requests without a key, which go anywhere.
    pub spread: u64,
    /// The same of the whole circle, exactly.
    pub circle: Moved,
    /// Only one of so many keys was looked at; counts are multiplied.
    pub one_of: u64,
}

/// So many keys, and the requests for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Distinct keys.
    pub keys: u64,
    /// Requests.
    pub requests: u64,
}

/// Keys that go from one origin to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The origin before.
    pub from: String,
    /// The origin after.
    pub to: String,
    /// How many.
    pub count: Count,
}

impl<'p> Planner<'p> {
    /// For a change of `before` to `after`.
    pub fn new(before: &'p Pool, after: &'p Pool, now: Instant) -> Self {
        Self::with_room(before, after, now, MOST)
    }

    fn with_room(before: &'p Pool, after: &'p Pool, now: Instant, most: usize) -> Self {
        let alike = before.keys_as(after);
        let numbers: HashMap<&str, usize> =
            before.members().iter().enumerate().map(|(number, member)| (&**member.name(), number)).collect();
        let known = after.members().iter().map(|member| numbers.get(&**member.name()).copied()).collect();
        Self { before, after, now, alike, known, keys: HashMap::new(), most, left_out: 0, one_of: 1, spread: 0 }
    }

    /// The pools.
    pub fn pools(&self) -> (&'p Pool, &'p Pool) {
        (self.before, self.after)
    }

    /// What keys are made by; `None`: requests have none.
    pub fn keys(&self) -> [Option<&'p Key>; 2] {
        [self.before.key(), self.after.key()]
    }

    /// How many keys there are so far.
    pub fn count(&self) -> u64 {
        self.keys.len() as u64 * (self.left_out + 1)
    }

    /// Are keys made the same way in both pools?
    pub fn alike(&self) -> bool {
        self.alike
    }

    /// So many requests with this key before the change, and this one after it.
    pub fn key(&mut self, before: &[u8], after: &[u8], requests: u64) {
        let mut hasher = DefaultHasher::new();
        hasher.write(before);
        if before != after {
            hasher.write_u8(0xff);
            hasher.write(after);
        }
        let entry = || Entry { before: balance::hash(before), after: Some(balance::hash(after)), requests: 0 };
        self.enter(hasher.finish(), requests, entry);
    }

    /// So many requests with this key, of which nothing else is known: when keys are made in another way, what it will
    /// be cannot be told, and it counts as moved. Where no key places, nobody can say anything of it.
    pub fn literal(&mut self, key: Literal<'_>, requests: u64) {
        if self.before.key().is_none() {
            return self.spread(requests);
        }
        let mut hasher = DefaultHasher::new();
        let before = match key {
            Literal::Key(key) => {
                hasher.write(key);
                balance::hash(key)
            }
            Literal::Hash(hash) => {
                hasher.write_u32(hash);
                hash
            }
        };
        let after = self.alike.then_some(before);
        self.enter(hasher.finish(), requests, || Entry { before, after, requests: 0 });
    }

    /// What is told is only one of so many keys.
    pub fn thinned(&mut self, one_of: u64) {
        self.one_of = one_of;
    }

    /// Where the keys of these hashes go, before and after; the same number is the same name.
    pub fn homes(&self, before: u32, after: u32) -> [Option<usize>; 2] {
        let mut random = Rng::with_seed(0);
        let new = owner(self.after, self.now, after, &mut random);
        // A newcomer's number comes behind all numbers of before.
        let known = |new: usize| self.known.get(new).copied().flatten().unwrap_or(self.before.members().len() + new);
        [owner(self.before, self.now, before, &mut random), new.map(known)]
    }

    /// So many requests without a key, before or after the change.
    pub fn spread(&mut self, requests: u64) {
        self.spread += requests;
    }

    fn enter(&mut self, number: u64, requests: u64, entry: impl FnOnce() -> Entry) {
        if number & self.left_out != 0 {
            return;
        }
        self.keys.entry(number).or_insert_with(entry).requests += requests;
        if self.keys.len() > self.most {
            self.left_out = self.left_out << 1 | 1;
            let left_out = self.left_out;
            self.keys.retain(|number, _| number & left_out == 0);
        }
    }

    /// Places them all.
    pub fn finish(self) -> Plan {
        let one_of = (self.left_out + 1) * self.one_of;
        let mut tally = Tally::new(&self);
        for entry in self.keys.values() {
            tally.place(entry);
        }
        tally.plan(self.spread, one_of)
    }
}

/// Counts by the numbers of members; names come at the end.
struct Tally<'p> {
    before: &'p Pool,
    after: &'p Pool,
    now: Instant,
    known: &'p [Option<usize>],
    random: Rng,
    keys: Count,
    moved: Count,
    pairs: HashMap<(usize, usize), Count>,
    traffic: [Vec<u64>; 2],
}

impl<'p> Tally<'p> {
    fn new(planner: &'p Planner<'_>) -> Self {
        let (before, after) = planner.pools();
        Self {
            before,
            after,
            now: planner.now,
            known: &planner.known,
            random: Rng::with_seed(0),
            keys: Count::default(),
            moved: Count::default(),
            pairs: HashMap::new(),
            traffic: [before, after].map(|pool| vec![0; pool.members().len()]),
        }
    }

    fn place(&mut self, entry: &Entry) {
        let from = owner(self.before, self.now, entry.before, &mut self.random);
        let to = entry.after.and_then(|hash| owner(self.after, self.now, hash, &mut self.random));
        self.keys.add(entry.requests);
        let [old, new] = &mut self.traffic;
        for (owner, traffic) in [(from, old), (to, new)] {
            if let Some(of) = owner.and_then(|owner| traffic.get_mut(owner)) {
                *of += entry.requests;
            }
        }
        let Some(to) = to else { return self.moved.add(entry.requests) };
        let Some(from) = from else { return };
        if self.known.get(to).copied().flatten() != Some(from) {
            self.moved.add(entry.requests);
            self.pairs.entry((from, to)).or_default().add(entry.requests);
        }
    }

    fn plan(self, spread: u64, one_of: u64) -> Plan {
        let name =
            |pool: &Pool, number: usize| pool.member(number).map_or_else(String::new, |one| one.name().to_string());
        let pair = |((from, to), count): (&(usize, usize), &Count)| Pair {
            from: name(self.before, *from),
            to: name(self.after, *to),
            count: count.times(one_of),
        };
        let mut pairs: Vec<Pair> = self.pairs.iter().map(pair).collect();
        pairs.sort_by(|a, b| b.count.keys.cmp(&a.count.keys).then_with(|| (&a.from, &a.to).cmp(&(&b.from, &b.to))));
        let mut traffic: HashMap<String, [u64; 2]> = HashMap::new();
        for (side, pool) in [self.before, self.after].into_iter().enumerate() {
            for (number, requests) in self.traffic[side].iter().enumerate() {
                traffic.entry(name(pool, number)).or_default()[side] = requests * one_of;
            }
        }
        Plan {
            keys: self.keys.times(one_of),
            moved: self.moved.times(one_of),
            pairs,
            traffic,
            spread,
            circle: moved(&self.before.placement(), &self.after.placement()),
            one_of,
        }
    }
}

/// Where the data plane sends the key when every origin is well and has nothing to do.
fn owner(pool: &Pool, now: Instant, hash: u32, random: &mut Rng) -> Option<usize> {
    pool.pick(&Ask { hash: Some(hash), tried: &[], now }, random).map(|pick| pick.member)
}

impl Count {
    fn add(&mut self, requests: u64) {
        self.keys += 1;
        self.requests += requests;
    }

    fn times(self, factor: u64) -> Self {
        Self { keys: self.keys * factor, requests: self.requests * factor }
    }

    /// This of `all`: of the keys, and of the requests; nothing of nothing is nothing.
    pub fn of(self, all: Self) -> (f64, f64) {
        let ratio = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        (ratio(self.keys, all.keys), ratio(self.requests, all.requests))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;
    use crate::pool::tests::{compiled, pool, section};

    fn keys() -> impl Iterator<Item = String> {
        (0..4000).map(|number| format!("/obj/{number}"))
    }

    fn planned(before: &Pool, after: &Pool) -> Plan {
        let mut planner = Planner::new(before, after, Instant::now());
        keys().for_each(|key| planner.literal(Literal::Key(key.as_bytes()), 1));
        planner.finish()
    }

    #[test]
    fn b1_what_is_planned_is_what_the_rings_do() {
        let (before, after) = (pool(&["a", "b", "c"]), pool(&["d", "c", "a", "b"]));
        let plan = planned(&before, &after);
        let name = |pool: &Pool, key: &str| {
            pool.ring().owner(balance::hash(key.as_bytes())).and_then(|at| pool.ring().name(at)).unwrap().to_owned()
        };
        let moved = keys().filter(|key| name(&before, key) != name(&after, key)).count() as u64;
        assert_eq!((plan.keys.keys, plan.moved.keys), (4000, moved));
        assert!(plan.pairs.iter().all(|pair| pair.to == "d"), "{:?}", plan.pairs);
        assert_eq!(plan.pairs.iter().map(|pair| pair.count.keys).sum::<u64>(), moved);
        assert!(plan.pairs.is_sorted_by_key(|pair| std::cmp::Reverse(pair.count.keys)));
        let (ratio, _) = plan.moved.of(plan.keys);
        assert!((ratio - plan.circle.ratio).abs() < 0.03, "{ratio} of the keys, {} of the circle", plan.circle.ratio);
    }

    #[test]
    fn a_key_is_placed_by_its_hash_as_well() {
        let (before, after) = (pool(&["a", "b", "c"]), pool(&["a", "b"]));
        let mut planner = Planner::new(&before, &after, Instant::now());
        keys().for_each(|key| planner.literal(Literal::Hash(balance::hash(key.as_bytes())), 1));
        planner.thinned(8);
        let (hashed, whole) = (planner.finish(), planned(&before, &after));
        assert_eq!((hashed.keys.keys, hashed.moved.keys), (whole.keys.keys * 8, whole.moved.keys * 8));
        assert_eq!((hashed.moved.of(hashed.keys), hashed.one_of), (whole.moved.of(whole.keys), 8));
    }

    #[test]
    fn requests_count_by_key_and_traffic_by_origin() {
        let (before, after) = (pool(&["a", "b"]), pool(&["a"]));
        let mut planner = Planner::new(&before, &after, Instant::now());
        let hot = keys().find(|key| before.ring().owner(balance::hash(key.as_bytes())) == Some(1)).unwrap();
        let home = keys().find(|key| before.ring().owner(balance::hash(key.as_bytes())) == Some(0)).unwrap();
        for (key, requests) in [(&hot, 70), (&home, 20), (&hot, 10)] {
            planner.key(key.as_bytes(), key.as_bytes(), requests);
        }
        planner.spread(5);
        let plan = planner.finish();
        assert_eq!((plan.keys, plan.moved), (Count { keys: 2, requests: 100 }, Count { keys: 1, requests: 80 }));
        assert_eq!((plan.traffic["a"], plan.traffic["b"], plan.spread), ([20, 100], [80, 0], 5));
        assert_eq!(plan.moved.of(plan.keys), (0.5, 0.8));
    }

    #[test]
    fn keys_that_will_be_made_in_another_way_count_as_moved_unless_both_are_known() {
        let before = pool(&["a", "b"]);
        let mut changed = section(&["a", "b"]);
        changed.balance.key = "{host}{path}".to_owned();
        let after = compiled(&changed, None);
        assert_eq!(planned(&before, &after).moved.keys, 4000);
        assert_eq!(planned(&before, &after).pairs, []);
        let mut planner = Planner::new(&before, &after, Instant::now());
        keys().for_each(|key| planner.key(key.as_bytes(), format!("h{key}").as_bytes(), 1));
        let plan = planner.finish();
        assert!((1700..2300).contains(&plan.moved.keys), "half of them meet their old origin: {}", plan.moved.keys);
    }

    #[test]
    fn too_many_keys_leave_ratios_true_and_totals_near() {
        let (before, after) = (pool(&["a", "b", "c"]), pool(&["a", "b", "c", "d"]));
        let mut planner = Planner::with_room(&before, &after, Instant::now(), 1000);
        keys().chain(keys()).for_each(|key| planner.literal(Literal::Key(key.as_bytes()), 2));
        let plan = planner.finish();
        assert!(plan.one_of >= 4, "{}", plan.one_of);
        assert!((3200..4800).contains(&plan.keys.keys), "{:?}", plan.keys);
        assert_eq!(plan.keys.requests, plan.keys.keys * 4, "of a kept key every request counts");
        assert!((plan.moved.of(plan.keys).0 - plan.circle.ratio).abs() < 0.06);
    }
}
