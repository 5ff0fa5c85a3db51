//! Does a change of a pool move more than its guard allows? Rule C3.
//!
//! What counts is the exact part of the hash circle whose owner differs between two rings as configured: no sample, no
//! load, and of what is learned only that an origin nobody may use gives up nothing. A [`Trail`] remembers where keys
//! were ten minutes ago, so that many small steps are held to what they are together. The clock is an argument.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{Snapshot, Upstream};
use crate::age::Age;
use crate::balance::step::greatest;
use crate::balance::{Moved, Ring, Scale, Step, moved};
use crate::config::units::Off;
use crate::pool::{Member, Pool};

/// Changes within this time count as one.
const TOGETHER: Duration = Duration::from_secs(600);

/// Places of one pool that are remembered at most; beyond that the older of two stands for both.
const PLACES: usize = 64;
/// The same, of those that are told another process.
const TOLD: usize = 8;
/// No weight in a file is greater.
const WEIGHT: u32 = 1000;

/// What the guard of a pool says of a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The part of the circle that counts as moved; all of it when keys are made in another way.
    pub moved: f64,
    /// The most that may.
    pub max_moved: f64,
    /// The greatest step towards the new pool that would pass, when the whole does not and there is one.
    pub step: Option<Step>,
    /// From whom to whom, whether it counts or not.
    pub circle: Moved,
}

impl Judgement {
    /// Is the change refused?
    pub fn refuses(&self) -> bool {
        self.moved > self.max_moved
    }
}

/// What the guard that `after` has for `pool` says of the change, as if nothing had changed before it and every origin
/// were well; `None` without a guard, and for a pool that is new or gone.
pub fn judge(before: &Snapshot, after: &Snapshot, pool: &str) -> Option<Judgement> {
    let max_moved = limit(after, pool)?;
    let (old, new) = (&before.named(pool)?.pool, &after.named(pool)?.pool);
    Some(Change { old, new, past: None, free: &HashSet::new() }.judge(max_moved))
}

/// What the last change of this pool was seen to move, and what may, when that is more and the change still comes in.
pub fn overrun(snapshot: &Snapshot, pool: &Upstream) -> Option<(f64, f64)> {
    let most = limit(snapshot, pool.pool.name())?.max(pool.may_move);
    let comes = pool.pool.members().iter().any(|member| member.origin().health().comes());
    let observed = if comes { pool.tail.sample.observed()? } else { return None };
    observed.is_above(most).then_some((observed.moved, most))
}

/// Where the keys of each pool were, as far back as it matters.
#[derive(Debug, Default)]
pub struct Trail(HashMap<Arc<str>, Past>);

/// The past of one pool, the oldest first.
#[derive(Debug, Default)]
struct Past {
    places: Vec<(Instant, Place)>,
    /// Origins that were out when they were removed, and when that was.
    out: Vec<(Instant, Arc<str>)>,
}

/// Where keys were: all that it takes to know.
#[derive(Debug)]
struct Place {
    keying: [String; 4],
    members: Vec<(Arc<str>, u32)>,
}

impl Trail {
    /// The judgements of all pools with a guard whose placement `after` changes, in the order of the file. `allowed`
    /// stands in for `max_moved` of each, once.
    pub fn judge(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        allowed: Option<f64>,
        now: Instant,
    ) -> IndexMap<String, Judgement> {
        let judged = after.upstreams().iter().filter_map(|upstream| {
            let (new, name) = (&upstream.pool, upstream.pool.name());
            let (old, limit) = (&before.named(name)?.pool, limit(after, name)?);
            if old.fingerprint() == new.fingerprint() {
                return None;
            }
            let past = self.0.get(name);
            let free = out(old).chain(past.iter().flat_map(|past| past.removed(now))).collect();
            let change = Change { old, new, past: past.and_then(|past| past.place(now)), free: &free };
            Some((name.to_string(), change.judge(allowed.unwrap_or(limit))))
        });
        judged.collect()
    }

    /// `before` gave way to `after` now, for whatever reason.
    pub fn left(&mut self, before: &Snapshot, after: &Snapshot, now: Instant) {
        self.0.retain(|_, past| past.forget(now));
        for upstream in before.upstreams() {
            let (old, name) = (&upstream.pool, upstream.pool.name());
            let new = after.named(name).map(|upstream| &upstream.pool);
            if new.is_none_or(|new| new.fingerprint() != old.fingerprint()) {
                self.0.entry(Arc::clone(name)).or_default().left(old, new, now);
            }
        }
    }
}

impl Trail {
    /// Origins were found or lost between the two: where keys are now is where the next change starts from.
    pub fn found(&mut self, before: &Snapshot, after: &Snapshot) {
        let is_as_before = |name: &Arc<str>| {
            let [before, after] = [before, after].map(|all| all.named(name).map(|one| one.pool.fingerprint()));
            before == after
        };
        self.0.retain(|name, _| is_as_before(name));
    }
}

/// What a process tells the next of where keys were.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Trailed(HashMap<String, PastCarried>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PastCarried {
    places: Vec<(Age, PlaceCarried)>,
    out: Vec<(Age, String)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PlaceCarried {
    keying: [String; 4],
    members: Vec<(String, u32)>,
}

impl Trail {
    /// What is remembered, as seen `now`.
    pub fn export(&self, now: Instant) -> Trailed {
        Trailed(self.0.iter().map(|(pool, past)| (pool.to_string(), past.export(now))).collect())
    }

    /// This is remembered, and nothing else.
    pub fn import(&mut self, told: &Trailed, now: Instant) {
        self.0 = told.0.iter().map(|(pool, past)| (Arc::from(&**pool), Past::told(past, now))).collect();
    }
}

impl Past {
    /// Of many places few are told; one stands for those that follow it.
    fn export(&self, now: Instant) -> PastCarried {
        let runs = self.places.chunks(self.places.len().div_ceil(TOLD).max(1));
        let places = runs.filter_map(|run| Some((Age::of(run.last()?.0, now), PlaceCarried::of(&run.first()?.1))));
        let out = self.out.iter().map(|(when, name)| (Age::of(*when, now), name.to_string()));
        PastCarried { places: places.collect(), out: out.collect() }
    }

    fn told(told: &PastCarried, now: Instant) -> Self {
        Self {
            places: told.places.iter().take(PLACES).map(|(age, place)| (age.at(now), Place::told(place))).collect(),
            out: told.out.iter().map(|(age, name)| (age.at(now), Arc::from(&**name))).collect(),
        }
    }
}

impl PlaceCarried {
    fn of(place: &Place) -> Self {
        let members = place.members.iter().map(|(name, weight)| (name.to_string(), *weight));
        Self { keying: place.keying.clone(), members: members.collect() }
    }
}

impl Past {
    /// Where keys were ten minutes ago, if not where they are now.
    fn place(&self, now: Instant) -> Option<&Place> {
        self.places.iter().find(|(until, _)| is_recent(*until, now)).map(|(_, place)| place)
    }

    fn removed(&self, now: Instant) -> impl Iterator<Item = &str> {
        self.out.iter().filter(move |(when, _)| is_recent(*when, now)).map(|(_, name)| &**name)
    }

    /// Answers whether anything is left.
    fn forget(&mut self, now: Instant) -> bool {
        self.places.retain(|(until, _)| is_recent(*until, now));
        self.out.retain(|(when, _)| is_recent(*when, now));
        !self.places.is_empty()
    }

    fn left(&mut self, old: &Pool, new: Option<&Pool>, now: Instant) {
        let kept: HashSet<&str> = new.into_iter().flat_map(Pool::members).map(|member| &**member.name()).collect();
        let gone = out(old).filter(|name| !kept.contains(name)).map(|name| (now, Arc::from(name)));
        self.out.extend(gone);
        let is_full = self.places.len() >= PLACES;
        match self.places.last_mut() {
            Some((until, _)) if is_full => *until = now,
            _ => self.places.push((now, Place::of(old))),
        }
    }
}

impl Place {
    fn told(told: &PlaceCarried) -> Self {
        let members = told.members.iter().map(|(name, weight)| (Arc::from(&**name), (*weight).min(WEIGHT)));
        Self { keying: told.keying.clone(), members: members.collect() }
    }

    fn of(pool: &Pool) -> Self {
        let members = pool.placed().map(|(name, weight)| (Arc::clone(name), weight));
        Self { keying: pool.keying(), members: members.collect() }
    }

    fn ring(&self) -> Ring {
        Ring::new(&self.members.iter().map(|(name, weight)| (&**name, *weight)).collect::<Vec<_>>())
    }
}

fn is_recent(then: Instant, now: Instant) -> bool {
    now.saturating_duration_since(then) < TOGETHER
}

/// Origins that nobody may use, and those that go already: what they own is somebody else's now, and stays so when they
/// are gone.
fn out(pool: &Pool) -> impl Iterator<Item = &str> {
    let goes = |member: &&Member| !member.is_placed() || !member.origin().verdict().usable();
    pool.members().iter().filter(goes).map(|member| &**member.name())
}

fn limit(after: &Snapshot, pool: &str) -> Option<f64> {
    match after.config().pools.get(pool)?.guard {
        Off::On(guard) => Some(guard.max_moved.ratio()),
        Off::Off => None,
    }
}

/// A change of one pool.
struct Change<'a> {
    old: &'a Pool,
    new: &'a Pool,
    /// Where it starts from, if not from `old`.
    past: Option<&'a Place>,
    /// Origins that give up nothing.
    free: &'a HashSet<&'a str>,
}

impl Change<'_> {
    /// Does it leave nobody who is to have keys?
    fn empties(&self) -> bool {
        self.old.placed().next().is_some() && self.new.placed().next().is_none()
    }

    fn judge(&self, max_moved: f64) -> Judgement {
        let start = self.past.map_or_else(|| self.old.placement(), |past| Cow::Owned(past.ring()));
        let (scale, new) = (Scale { start: &start, free: self.free }, self.new.placement());
        let circle = moved(scale.start, &new);
        let keying = self.past.map_or_else(|| self.old.keying(), |past| past.keying.clone());
        if keying != self.new.keying() || self.empties() {
            return Judgement { moved: 1.0, max_moved, step: None, circle };
        }
        let counted = circle.but_from(|name| self.free.contains(name));
        let step = (counted > max_moved).then(|| greatest(&weights(self.old), &weights(self.new), max_moved, scale));
        Judgement { moved: counted, max_moved, step: step.flatten(), circle }
    }
}

fn weights(pool: &Pool) -> Vec<(&str, u32)> {
    pool.placed().map(|(name, weight)| (&**name, weight)).collect()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;
    use crate::config;
    use crate::health::Verdict;
    use crate::observe::Metrics;
    use crate::observe::sample::Sighting;

    fn snapshot(pools: &str, before: Option<&Snapshot>) -> Snapshot {
        let text = format!("version: 1\nprocess: {{ listeners: [ {{ address: 127.0.0.1:0 }} ] }}\n{pools}\n");
        let metrics = Metrics::new().unwrap();
        let compile = |config: &config::Config| Snapshot::compile(config, before, &metrics, Instant::now());
        config::parse_with("f", &text, compile).unwrap_or_else(|report| panic!("{report}")).1
    }

    /// A pool `p` of so many origins, with further keys.
    fn pool(more: &str, origins: std::ops::Range<u32>) -> String {
        let origins: Vec<String> = origins.map(|n| format!("\"10.0.0.{n}:80\"")).collect();
        let all = "routes: [ { pool: p } ]";
        format!("pools: {{ p: {{ {more} origins: [{}] }} }}\n{all}", origins.join(", "))
    }

    const HALF: &str = "guard: { max_moved: 50% },";
    const FIFTH: &str = "guard: { max_moved: 20% },";
    /// Two newcomers beside eight, and no third one.
    const STEPS: &str = "guard: { max_moved: 22% },";

    fn ask(trail: &Trail, before: &Snapshot, after: &str, now: Instant) -> Option<Judgement> {
        trail.judge(before, &snapshot(after, Some(before)), None, now).swap_remove("p")
    }

    fn minutes(n: u64) -> Duration {
        Duration::from_secs(60 * n)
    }

    #[test]
    fn c3_a_change_above_max_moved_is_refused_and_told_the_greatest_step() {
        let before = snapshot(&pool("", 0..8), None);
        let told = ask(&Trail::default(), &before, &pool(FIFTH, 0..12), Instant::now()).unwrap();
        assert!(told.refuses() && (0.25..0.42).contains(&told.moved), "{}", told.moved);
        assert!((told.circle.least_possible - told.moved).abs() < 1e-9, "only newcomers take keys");
        let step = told.step.unwrap();
        assert!((0.05..=0.2).contains(&step.moved), "{}", step.moved);
        assert!(step.edits.iter().all(|edit| (edit.from, edit.to) == (0, 1)), "{:?}", step.edits);
        assert!(!ask(&Trail::default(), &before, &pool(HALF, 0..12), Instant::now()).unwrap().refuses());
    }

    #[test]
    fn c3_more_than_may_move_is_told_while_the_change_comes_in() {
        let now = Instant::now();
        let see = |snapshot: &Snapshot, key: u32, origin: usize| {
            let (pool, hash) = (&snapshot.upstreams()[0], key.wrapping_mul(0x9e37_79b9));
            let origin = pool.pool.members()[origin].name();
            let sighting = Sighting { hash, key: b"k", origin, away: None };
            pool.tail.sample.see(&sighting, now, || None);
        };
        let told = |snapshot: &Snapshot| overrun(snapshot, &snapshot.upstreams()[0]);
        let before = snapshot(&pool(FIFTH, 0..3), None);
        (0..1000).for_each(|key| see(&before, key, 0));
        let after = |allowed| snapshot(&pool(FIFTH, 0..4), Some(&before)).guarded(&before, allowed);
        let judged = after(None);
        judged.replaces(&before);
        (0..1000).for_each(|key| see(&judged, key, if key < 300 { 3 } else { 0 }));
        assert_eq!(told(&judged), Some((0.3, 0.2)), "the newcomer is not there yet");
        assert_eq!(told(&after(Some(0.5))), None, "it was allowed once");
        assert_eq!(told(&snapshot(&pool(FIFTH, 0..4), Some(&before))), None, "nobody asked the guard");
        let tightened = snapshot(&pool("guard: { max_moved: 10% },", 0..4), Some(&judged)).guarded(&judged, None);
        assert_eq!(told(&tightened), Some((0.3, 0.1)));
        assert_eq!(told(&snapshot(&pool(HALF, 0..4), Some(&judged)).guarded(&judged, None)), None);
        assert_eq!(told(&snapshot(&pool("", 0..4), Some(&judged)).guarded(&judged, None)), None, "no guard");
        judged.upstreams()[0].pool.members()[3].origin().health().publish(Verdict::Up);
        assert_eq!(told(&judged), None, "nobody grows any more");
    }

    #[test]
    fn c3_backups_and_origins_that_no_key_places_move_nothing() {
        let backup = "origins: [10.0.0.1:80, 10.0.0.2:80, { address: \"10.0.0.3:80\", backup: true, weight: 50 }]";
        let before = snapshot(&format!("pools: {{ p: {{ {backup} }} }}"), None);
        let gone = "pools: { p: { guard: { max_moved: 1% }, origins: [10.0.0.1:80, 10.0.0.2:80] } }";
        assert!(ask(&Trail::default(), &before, gone, Instant::now()).is_none(), "they are in no fingerprint");
        let serving = gone.replace("2:80]", "2:80, 10.0.0.3:80]");
        let told = ask(&Trail::default(), &before, &serving, Instant::now()).unwrap();
        assert!(told.refuses() && (0.2..0.45).contains(&told.moved), "now it takes keys: {}", told.moved);
        let turns = |guard: &str, origins| pool(&format!("{guard} balance: {{ algorithm: round_robin }},"), origins);
        let before = snapshot(&turns("", 0..8), None);
        let told = ask(&Trail::default(), &before, &turns(FIFTH, 0..12), Instant::now()).unwrap();
        assert!(!told.refuses() && told.moved == 0.0, "{}", told.moved);
    }

    #[test]
    fn c3_a_drain_counts_when_it_is_written_and_not_when_the_origin_goes() {
        let with = |guard: &str, third: &str| {
            format!("pools: {{ p: {{ {guard} origins: [10.0.0.1:80, 10.0.0.2:80{third}] }} }}")
        };
        let (serving, drained) = (", 10.0.0.3:80", ", { address: \"10.0.0.3:80\", state: drain }");
        let before = snapshot(&with("", serving), None);
        let told = ask(&Trail::default(), &before, &with(FIFTH, drained), Instant::now()).unwrap();
        assert!(told.refuses() && (0.2..0.45).contains(&told.moved), "{}", told.moved);
        let (mut trail, now) = (Trail::default(), Instant::now());
        let during = snapshot(&with(FIFTH, drained), Some(&before));
        trail.left(&before, &during, now);
        assert!(ask(&trail, &during, &with(FIFTH, ""), now).is_none(), "its removal moves nothing");
        let moved = ask(&trail, &during, &with(FIFTH, ", 10.0.0.4:80"), now).unwrap();
        let newcomer = ask(&Trail::default(), &during, &with(FIFTH, ", 10.0.0.4:80"), now).unwrap();
        assert!((0.0..=newcomer.moved).contains(&moved.moved), "what it had before counts for nothing");
    }

    #[test]
    fn c3_a_pool_of_which_all_are_drained_has_moved_as_a_whole() {
        let all =
            |state: &str| format!("pools: {{ p: {{ {HALF} origins: [{{ address: \"10.0.0.1:80\"{state} }}] }} }}");
        let before = snapshot(&all(""), None);
        let told = ask(&Trail::default(), &before, &all(", state: drain"), Instant::now()).unwrap();
        assert!(told.refuses() && told.moved >= 1.0, "{}", told.moved);
    }

    #[test]
    fn c3_what_is_allowed_once_stands_in_for_every_guard() {
        let before = snapshot(&pool("", 0..8), None);
        let after = snapshot(&pool(FIFTH, 0..12), Some(&before));
        let judged = |allowed| Trail::default().judge(&before, &after, allowed, Instant::now()).swap_remove("p");
        assert!(judged(None).unwrap().refuses() && !judged(Some(0.6)).unwrap().refuses());
        assert!(judged(Some(0.1)).unwrap().refuses());
    }

    #[test]
    fn c3_a_change_in_how_keys_are_made_counts_as_everything_and_no_step_helps() {
        let before = snapshot(&pool("", 0..2), None);
        for how in [
            "balance: { key: \"{path}\" },",
            "args: { keep: [id] },",
            "balance: { on_missing: \"{client_ip}\" },",
            "balance: { algorithm: p2c },",
        ] {
            let after = pool(&format!("guard: {{ max_moved: 99% }}, {how}"), 0..2);
            let told = ask(&Trail::default(), &before, &after, Instant::now()).unwrap();
            assert_eq!((told.refuses(), told.moved, &told.step), (true, 1.0, &None), "{how}");
        }
    }

    #[test]
    fn c3_only_a_change_of_placement_in_a_guarded_pool_that_was_there_is_judged() {
        let before = snapshot(&pool(FIFTH, 0..4), None);
        let now = Instant::now();
        let asked = |after: &str| ask(&Trail::default(), &before, after, now);
        assert_eq!(asked(&pool("", 0..2)), None, "no guard");
        assert_eq!(asked(&pool(&format!("{FIFTH} timeouts: {{ read: 5s }},"), 0..4)), None, "no change of placement");
        assert_eq!(asked(&pool(FIFTH, 0..4).replace(" p: {", " q: {").replace("pool: p", "pool: q")), None, "new");
    }

    #[test]
    fn c3_small_steps_add_up_for_ten_minutes() {
        let (start, mut trail) = (Instant::now(), Trail::default());
        let sizes = [8_u32, 9, 10];
        let snapshots: Vec<Snapshot> = sizes.iter().map(|size| snapshot(&pool(STEPS, 0..*size), None)).collect();
        for (step, pair) in snapshots.windows(2).enumerate() {
            let [before, after] = pair else { unreachable!() };
            let now = start + minutes(4 * step as u64);
            let judged = trail.judge(before, after, None, now).swap_remove("p").unwrap();
            assert!(!judged.refuses(), "step {step} moves {}", judged.moved);
            trail.left(before, after, now);
        }
        let (ten, eleven) = (&snapshots[2], pool(STEPS, 0..11));
        let third = ask(&trail, ten, &eleven, start + minutes(9)).unwrap();
        assert!(third.refuses() && third.step.is_none(), "three of eleven are new: {}", third.moved);
        let back = ask(&trail, ten, &pool(STEPS, 0..8), start + minutes(9)).unwrap();
        assert_eq!(back.moved, 0.0, "back to where keys were");
        let later = ask(&trail, ten, &eleven, start + minutes(11)).unwrap();
        assert!(!later.refuses() && later.moved < third.moved, "the first step is forgotten: {}", later.moved);
        let alone = ask(&trail, ten, &eleven, start + minutes(15)).unwrap();
        assert_eq!(alone, ask(&Trail::default(), ten, &eleven, start).unwrap(), "and so is the second");
    }

    #[test]
    fn c3_after_a_step_that_was_allowed_what_moves_nothing_still_passes() {
        let (now, mut trail) = (Instant::now(), Trail::default());
        let (before, after) = (snapshot(&pool(FIFTH, 0..4), None), snapshot(&pool(FIFTH, 0..8), None));
        trail.left(&before, &after, now);
        assert_eq!(ask(&trail, &after, &pool(&format!("{FIFTH} protocol: h2c,"), 0..8), now), None);
        assert!(ask(&trail, &after, &pool(FIFTH, 0..9), now).unwrap().refuses());
    }

    #[test]
    fn c3_what_nobody_may_use_gives_up_nothing() {
        let before = snapshot(&pool(FIFTH, 0..4), None);
        let take_out = |number: usize| {
            before.upstreams()[0].pool.members()[number].origin().health().publish(Verdict::Down);
        };
        let (start, mut trail) = (Instant::now(), Trail::default());
        assert!(ask(&trail, &before, &pool(FIFTH, 2..4), start).unwrap().refuses());
        take_out(0);
        let one = ask(&trail, &before, &pool(FIFTH, 2..4), start).unwrap();
        let step = one.step.as_ref().map(|step| step.edits[0].name.as_str());
        assert!(one.refuses() && step == Some("10.0.0.0:80"), "the other one has keys: {one:?}");
        take_out(1);
        let both = ask(&trail, &before, &pool(FIFTH, 2..4), start).unwrap();
        assert!((both.moved, both.refuses()) == (0.0, false) && both.circle.ratio > 0.2, "{both:?}");
        let after = snapshot(&pool(FIFTH, 2..4), Some(&before));
        trail.left(&before, &after, start);
        let grown = ask(&trail, &after, &pool("guard: { max_moved: 99% },", 2..5), start + minutes(5)).unwrap();
        let alone = ask(&Trail::default(), &after, &pool("guard: { max_moved: 99% },", 2..5), start).unwrap();
        assert!(grown.moved <= alone.moved, "they were out when they went: {} of {}", grown.moved, alone.moved);
    }

    #[test]
    fn a_plan_is_judged_as_if_all_were_well() {
        let before = snapshot(&pool("", 0..4), None);
        before.upstreams()[0].pool.members()[0].origin().health().publish(Verdict::Down);
        let after = snapshot(&pool(FIFTH, 1..4), None);
        assert!(judge(&before, &after, "p").unwrap().refuses());
        assert_eq!(judge(&before, &snapshot(&pool("", 1..4), None), "p"), None);
        assert_eq!(judge(&before, &after, "q"), None);
    }

    #[test]
    fn places_beyond_the_bound_are_merged_into_the_older_one() {
        let (start, mut trail) = (Instant::now(), Trail::default());
        let sides = [snapshot(&pool("", 0..2), None), snapshot(&pool("", 0..3), None)];
        for n in 0..500_u64 {
            let (from, to) = (&sides[n as usize % 2], &sides[(n as usize + 1) % 2]);
            trail.left(from, to, start + Duration::from_secs(n));
        }
        let past = &trail.0["p"];
        assert!(past.places.len() <= PLACES && past.places.is_sorted_by_key(|(until, _)| *until));
        assert_eq!(past.places.last().map(|(until, _)| *until), Some(start + Duration::from_secs(499)));
        trail.left(&sides[0], &sides[0], start + minutes(60));
        assert!(trail.0.is_empty(), "and forgotten in time");
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    /// A past of places, each with the seconds it was left before now.
    fn past() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::vec(0_u64..2000, 0..12)
    }

    proptest! {
        #[test]
        #[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
        fn the_place_of_ten_minutes_ago_is_the_first_one_left_since(ages in past()) {
            let now = Instant::now() + Duration::from_secs(4000);
            let mut ages = ages;
            ages.sort_unstable_by(|a, b| b.cmp(a));
            let place = |age: &u64| Place { keying: [age.to_string(), String::new(), String::new(), String::new()], members: Vec::new() };
            let mut past = Past::default();
            past.places.extend(ages.iter().map(|age| (now - Duration::from_secs(*age), place(age))));
            let found = |past: &Past| past.place(now).map(|place| place.keying[0].clone());
            let expected = ages.iter().find(|age| **age < TOGETHER.as_secs()).map(u64::to_string);
            prop_assert_eq!(found(&past), expected.clone());
            let left = past.forget(now);
            prop_assert_eq!((found(&past), left), (expected.clone(), expected.is_some()));
        }
    }
}
