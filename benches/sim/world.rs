//! Time, requests, probes and the judge: the real pool, its ring, pick, leases and health, on a clock of its own.
//!
//! Nothing of the gateway is rebuilt here. Origins are made up, and so is what a socket would do: an answer that does
//! not come in time times out, and nothing is tried twice, as by default.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use moorgate::balance::hash;
use moorgate::config;
use moorgate::health::schedule::{Kind, Schedule};
use moorgate::health::{Course, Evidence, Grade, Probing, Verdict};
use moorgate::pool::{Ask, Lease, Outcome, Pool};
use moorgate::resilience::Class;

use crate::origin::{CAPACITY, Origin};

/// Seconds since the start.
pub(crate) type Seconds = f64;

/// How long a request waits for its answer.
pub(crate) const READ: Seconds = 3.0;
/// Nobody likes to wait for longer.
pub(crate) const LONG: Seconds = 0.2;
/// How often the judge looks.
const TURN: Seconds = 0.1;
/// Keys for each origin.
const KEYS: usize = 200;

/// Everything there is.
pub(crate) struct World {
    pub(crate) origins: Vec<Origin>,
    /// Requests a second, as a part of what all origins can do with everything in their caches.
    pub(crate) load: f64,
    /// What was counted: requests by the stretch of time in which they were sent.
    counts: Vec<Counts>,
    pool: Pool,
    probing: Probing,
    course: Course,
    schedules: Vec<Schedule>,
    hashes: Vec<u32>,
    start: Instant,
    now: Seconds,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: HashMap<u64, Event>,
    ids: u64,
    random: Rng,
}

/// What happens at some time.
enum Event {
    /// The next request comes.
    Request,
    /// The judge looks.
    Turn,
    /// An attempt ends: by an answer of this status, or by its time.
    Ends(Attempt, Option<u16>),
    /// A probe ends.
    Probed { member: usize, id: u64, kind: Kind, began: Instant, grade: Grade },
}

/// An attempt under way.
struct Attempt {
    member: usize,
    lease: Lease,
    began: Seconds,
    limit: Seconds,
    /// The stretch of time it is counted in.
    stretch: usize,
}

/// What became of requests, and of origins.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) requests: u32,
    /// Answered with 200.
    pub(crate) good: u32,
    /// Answered with 503: by an origin, or because nobody could be asked.
    pub(crate) busy: u32,
    /// Not answered in time.
    pub(crate) late: u32,
    /// Not answered within [`LONG`].
    pub(crate) waited: u32,
    /// Not in the cache where they went.
    pub(crate) misses: u32,
    /// Sent elsewhere than to the owner of the key.
    pub(crate) away: u32,
    /// Most origins that were out at once.
    pub(crate) out: usize,
}

impl World {
    /// So many origins that do well; `overload`: what the configuration says of it.
    #[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
    pub(crate) fn new(origins: usize, load: f64, overload: &str, seed: u64) -> Self {
        let start = Instant::now();
        let pool = pool_of(origins, overload, start);
        let probing = pool.roster().policy.probing.unwrap_or_else(|| panic!("it probes"));
        let mut random = Rng::with_seed(seed);
        let mut world = Self {
            origins: (0..origins).map(|_| Origin::new(KEYS)).collect(),
            load,
            counts: Vec::new(),
            probing,
            course: Course::default(),
            schedules: (0..origins).map(|_| Schedule::new(&probing, random.f64(), start)).collect(),
            hashes: (0..origins * KEYS).map(|key| hash(format!("/obj/{key}").as_bytes())).collect(),
            pool,
            start,
            now: 0.0,
            queue: BinaryHeap::new(),
            events: HashMap::new(),
            ids: 0,
            random,
        };
        world.warm();
        world.at(0.0, Event::Request);
        world.at(0.0, Event::Turn);
        world
    }

    /// Every key is in the cache of its owner: a pool that was never asked is overloaded by itself.
    fn warm(&mut self) {
        for (key, hash) in self.hashes.iter().enumerate() {
            let owner = self.pool.ring().owner(*hash).and_then(|owner| self.origins.get_mut(owner));
            owner.into_iter().for_each(|owner| owner.learn(key as u32));
        }
    }

    /// Lets so many seconds pass, which are counted by themselves.
    pub(crate) fn run(&mut self, seconds: Seconds) {
        self.counts.push(Counts::default());
        let end = self.now + seconds;
        while let Some(Reverse((at, id))) = self.queue.peek().copied() {
            if at as f64 / 1e6 > end {
                break;
            }
            self.queue.pop();
            self.now = at as f64 / 1e6;
            if let Some(event) = self.events.remove(&id) {
                self.happens(event);
            }
        }
        self.now = end;
    }

    /// What was counted in each stretch; the last requests of the last one may still be on their way.
    pub(crate) fn counts(&self) -> &[Counts] {
        &self.counts
    }

    fn counted(&mut self, stretch: usize) -> &mut Counts {
        &mut self.counts[stretch]
    }

    /// Now, as the gateway's clock has it.
    fn instant(&self) -> Instant {
        self.start + Duration::from_secs_f64(self.now)
    }

    /// All of these pause from now on.
    pub(crate) fn pause(&mut self, seconds: Seconds) {
        let now = self.now;
        self.origins.iter_mut().for_each(|origin| origin.pause(seconds, now));
    }

    fn at(&mut self, when: Seconds, event: Event) {
        self.ids += 1;
        self.queue.push(Reverse(((when * 1e6) as u64, self.ids)));
        self.events.insert(self.ids, event);
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Request => {
                let rate = self.load * CAPACITY * self.origins.len() as f64;
                // Requests come as they like.
                let gap = -self.random.f64().max(1e-9).ln() / rate;
                self.at(self.now + gap, Event::Request);
                self.request();
            }
            Event::Turn => {
                self.at(self.now + TURN, Event::Turn);
                self.turn();
            }
            Event::Ends(attempt, status) => self.ends(attempt, status),
            Event::Probed { member, id, kind, began, grade } => {
                let evidence = match kind {
                    Kind::Regular => Evidence::Probe(grade),
                    Kind::Confirm => Evidence::Confirm(grade),
                };
                self.probed(member, (id, began), evidence);
            }
        }
    }

    fn request(&mut self) {
        let (now, stretch) = (self.instant(), self.counts.len() - 1);
        self.counted(stretch).requests += 1;
        // Some keys are asked for far more often than others.
        let key = (self.random.f64().powi(2) * self.hashes.len() as f64) as usize;
        let hash = self.hashes[key];
        let Some(pick) = self.pool.pick(&Ask { hash: Some(hash), tried: &[], now }, &mut self.random) else {
            self.counted(stretch).busy += 1;
            return;
        };
        let member = pick.member;
        let away = self.pool.ring().owner(hash) != Some(member);
        let lease = pick.lease(now).asked_by([10, 0, 1, self.random.u8(..)].into());
        lease.connected(now);
        let work = self.origins[member].take(key as u32, self.now);
        let counts = self.counted(stretch);
        counts.away += u32::from(away);
        counts.misses += u32::from(work.miss);
        self.answer_at(
            work.at,
            work.status,
            Attempt { member, lease, began: self.now, limit: self.now + READ, stretch },
        );
    }

    /// The answer comes then, or not in time.
    fn answer_at(&mut self, at: Seconds, status: u16, attempt: Attempt) {
        let (at, status) = if at < attempt.limit { (at, Some(status)) } else { (attempt.limit, None) };
        self.at(at, Event::Ends(attempt, status));
    }

    fn ends(&mut self, mut attempt: Attempt, status: Option<u16>) {
        let now = self.instant();
        let waited = self.now - attempt.began;
        let Some(status) = status else {
            let counts = self.counted(attempt.stretch);
            counts.waited += 1;
            counts.late += 1;
            return attempt.lease.finish(Outcome::Failed(Class::ResponseTimeout), now);
        };
        if let Some(at) = self.origins[attempt.member].delayed(self.now) {
            return self.answer_at(at, status, attempt);
        }
        let counts = self.counted(attempt.stretch);
        counts.good += u32::from(status == 200);
        counts.busy += u32::from(status == 503);
        counts.waited += u32::from(waited > LONG);
        attempt.lease.answered(status, now);
        attempt.lease.finish(Outcome::Answered { status }, now);
    }

    /// Starts probes that are due, and judges.
    fn turn(&mut self) {
        let now = self.instant();
        for member in 0..self.origins.len() {
            let Some(kind) = self.schedules[member].due(now) else { continue };
            self.ids += 1;
            self.schedules[member].started(self.ids, kind, now);
            let (ends, grade) = match kind {
                Kind::Regular => self.origins[member].probe(self.now),
                // The kernel takes the connection whatever the process does.
                Kind::Confirm => (self.now, Grade::Good),
            };
            self.at(ends, Event::Probed { member, id: self.ids, kind, began: now, grade });
        }
        let judged = self.pool.roster().judge(&mut self.course, now);
        for (member, _) in judged.changes.iter().filter(|(_, change)| change.to == Verdict::Down) {
            self.schedules[*member].hurry(&self.probing, self.random.f64(), now);
        }
        let out = self.pool.roster().count(Verdict::Down);
        let stretch = self.counts.len() - 1;
        let counts = self.counted(stretch);
        counts.out = counts.out.max(out);
    }

    fn probed(&mut self, member: usize, (id, began): (u64, Instant), evidence: Evidence) {
        let live = Arc::clone(self.pool.members()[member].origin().health());
        let serving = live.verdict().usable();
        if self.schedules[member].ended(id, began, serving, &self.probing, self.random.f64()) {
            live.take(evidence, self.instant());
        }
    }
}

/// The pool as the configuration says; everything is as by default but for what is looked into. `overload`: what is
/// written of it.
fn pool_of(origins: usize, overload: &str, now: Instant) -> Pool {
    let names: Vec<String> = (1..=origins).map(|number| format!("10.20.1.{number}:8080")).collect();
    let text = format!(
        "version: 1\nprocess: {{ listeners: [ {{ address: 127.0.0.1:8080 }} ] }}\npools:\n  p:\n    origins: {names:?}\n    \
         health: {{ probe: {{ http: {{ path: /healthz }} }}, overload: {overload} }}\n"
    );
    let loaded = config::parse("sim.yaml", &text).unwrap_or_else(|report| panic!("{report}"));
    let pool = loaded.config.pools.get("p").and_then(|pool| Pool::compile("p", pool, None, now).ok());
    pool.unwrap_or_else(|| panic!("no pool"))
}
