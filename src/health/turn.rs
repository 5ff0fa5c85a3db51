//! One turn of the [`Prober`](super::Prober): what is due, what has ended, what follows from it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::task::{AbortHandle, JoinSet};

use super::probe::Engines;
use super::prober::Fact;
use super::reserve::Reserve;
use super::schedule::{Kind, Pace, Schedule};
use super::{Bell, Endpoint, Evidence, Fault, Grade, Live, Roster, Verdict};

/// A turn comes at least this often, so that time can be judged by and a stall be seen.
const TURN: Duration = Duration::from_millis(100);
/// A turn that comes later than planned by more says that we were held up.
const STALL: Duration = Duration::from_millis(250);
/// Looking through great pools and judging them takes time, on a busy machine a multiple of it; the probes that run need
/// the same thread. So each is followed by a rest of so many times as long,
const REST: u32 = 19;
/// but not longer than this.
const LONGEST_REST: Duration = Duration::from_millis(500);
/// What answers say is looked at this often, whatever else happens.
const LOOK: Duration = Duration::from_secs(1);
/// Probes that wait longer than this say that there are more than may run.
const BEHIND: Duration = Duration::from_millis(500);
/// What waits for the pace is looked at again after this: some probes then start at once.
const PAUSE: Duration = Duration::from_millis(20);
/// Descriptors kept for probes.
const RESERVE: usize = 16;

/// The clock of the runtime: the real one, but for tests that hold it.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// How long what began so long ago is not done again.
fn rest(began: Instant) -> Duration {
    now().saturating_duration_since(began).saturating_mul(REST).min(LONGEST_REST)
}

/// Tells origins apart while they live.
fn place(live: &Arc<Live>) -> usize {
    Arc::as_ptr(live) as usize
}

/// A pool in the loop.
struct Book {
    roster: Arc<Roster>,
    /// One for each of its targets.
    schedules: Vec<Schedule>,
    /// Something was learned.
    dirty: bool,
    /// That something waits for a new snapshot was told.
    ripe: bool,
    restless: bool,
    judged: Instant,
    /// How long it is not judged again.
    rest: Duration,
}

/// A probe that ended.
pub(super) struct Done {
    id: u64,
    live: Arc<Live>,
    kind: Kind,
    endpoint: Endpoint,
    began: Instant,
    /// `None`: a failure of our own.
    grade: Option<Grade>,
}

/// Everything that one turn hands to the next.
pub(super) struct Work<'p, S> {
    bell: &'p Arc<Bell>,
    sink: S,
    engines: Arc<Engines>,
    books: Vec<Book>,
    /// Where each origin stands in the books, by its address in memory.
    places: HashMap<usize, (usize, usize)>,
    pub(super) running: JoinSet<Done>,
    aborts: HashMap<u64, AbortHandle>,
    ids: u64,
    pace: Pace,
    reserve: Reserve,
    random: Rng,
    /// Until then nothing is due: to look through the schedules of ten thousand origins at every turn, and so at the
    /// end of every probe, would take half a core.
    look: Instant,
    /// Probes wait too long for the pace.
    behind: bool,
    /// When the next turn is to be.
    pub(super) planned: Instant,
}

impl<'p, S: Fn(Fact)> Work<'p, S> {
    pub(super) fn new(bell: &'p Arc<Bell>, sink: S) -> Self {
        let engines = Arc::new(Engines::new());
        Self {
            bell,
            sink,
            engines,
            books: Vec::new(),
            places: HashMap::new(),
            running: JoinSet::new(),
            aborts: HashMap::new(),
            ids: 0,
            pace: Pace::new(now()),
            reserve: Reserve::new(RESERVE),
            random: Rng::new(),
            look: now(),
            behind: false,
            planned: now(),
        }
    }

    /// Were we held up? Then nothing counts that was gathered meanwhile, and what ran is begun again.
    pub(super) fn was_held_up(&mut self) -> bool {
        let now = now();
        let late = now.saturating_duration_since(self.planned);
        if late <= STALL {
            return false;
        }
        self.running = JoinSet::new();
        self.aborts.clear();
        for book in &mut self.books {
            book.roster.targets.iter().for_each(|target| target.live.take(Evidence::Stalled, now));
            book.schedules.iter_mut().for_each(|schedule| {
                schedule.repeat(now);
            });
            book.dirty = true;
        }
        self.look = now;
        (self.sink)(Fact::Stalled(late));
        true
    }

    /// Takes the rosters of the moment over; origins that stay keep their schedules.
    pub(super) fn refresh(&mut self, rosters: Vec<Arc<Roster>>) {
        let same = |(roster, book): (&Arc<Roster>, &Book)| Arc::ptr_eq(roster, &book.roster);
        if rosters.len() == self.books.len() && rosters.iter().zip(&self.books).all(same) {
            return;
        }
        let now = now();
        let old = std::mem::take(&mut self.books);
        let mut schedules: HashMap<usize, Schedule> = HashMap::new();
        for book in old {
            let lives = book.roster.targets.iter().map(|target| place(&target.live));
            schedules.extend(lives.zip(book.schedules));
        }
        self.places.clear();
        for roster in rosters {
            self.open(roster, &mut schedules, now);
        }
    }

    fn open(&mut self, roster: Arc<Roster>, schedules: &mut HashMap<usize, Schedule>, now: Instant) {
        let mut own = Vec::with_capacity(roster.targets.len());
        for (number, target) in roster.targets.iter().enumerate() {
            let who = place(&target.live);
            self.places.insert(who, (self.books.len(), number));
            let chance = self.random.f64();
            let mut schedule = match (&roster.policy.probing, schedules.remove(&who)) {
                (Some(probing), Some(known)) => known.adopt(probing, now),
                (Some(probing), None) => Schedule::new(probing, chance, now),
                (None, known) => known.unwrap_or_else(|| Schedule::idle(now)),
            };
            if target.live.attach(self.bell) && target.live.look() {
                schedule.ask();
            }
            own.push(schedule);
        }
        self.look = now;
        self.books.push(Book {
            roster,
            schedules: own,
            dirty: true,
            ripe: false,
            restless: false,
            judged: now,
            rest: Duration::ZERO,
        });
    }

    /// What did traffic tell?
    pub(super) fn hear(&mut self) {
        if self.bell.take_all() {
            self.books.iter_mut().for_each(|book| book.dirty = true);
        }
        for live in self.bell.take() {
            let refused = live.look();
            let Some((book, number)) = self.places.get(&place(&live)) else { continue };
            let Some(book) = self.books.get_mut(*book) else { continue };
            book.dirty = true;
            if let (true, Some(schedule)) = (refused, book.schedules.get_mut(*number)) {
                schedule.ask();
                self.look = now();
            }
        }
    }

    /// Starts the probes that are due, as far as the pace allows; answers whether some wait too long for it.
    pub(super) fn start_due(&mut self) -> bool {
        let now = now();
        if now < self.look {
            return self.behind;
        }
        self.behind = false;
        self.look = now + TURN;
        let mut pause = TURN;
        for (kind, since, at, number) in self.due(now) {
            self.behind |= now.saturating_duration_since(since) > BEHIND;
            if !self.pace.take(self.running.len(), now) {
                pause = PAUSE;
                break;
            }
            self.start(kind, at, number, now);
        }
        self.look = self.look.min(now + pause).max(now + rest(now));
        self.behind
    }

    /// What is due and may start at once or is the next to: by kind, then by age. Looks for the next one, too.
    fn due(&mut self, now: Instant) -> Vec<(Kind, Instant, usize, usize)> {
        let mut due: Vec<(Kind, Instant, usize, usize)> = Vec::new();
        for (at, book) in self.books.iter().enumerate().filter(|(_, book)| book.roster.policy.probing.is_some()) {
            for (number, schedule) in book.schedules.iter().enumerate() {
                match (schedule.due(now), schedule.next()) {
                    (Some(kind), next) => due.push((kind, next.unwrap_or(now), at, number)),
                    (None, Some(next)) => self.look = self.look.min(next),
                    (None, None) => {}
                }
            }
        }
        let order = |(kind, since, ..): &(Kind, Instant, usize, usize)| (*kind == Kind::Regular, *since);
        if due.len() > Pace::AT_ONCE {
            due.select_nth_unstable_by_key(Pace::AT_ONCE, order);
            due.truncate(Pace::AT_ONCE + 1);
        }
        due.sort_unstable_by_key(order);
        due
    }

    fn start(&mut self, kind: Kind, at: usize, number: usize, began: Instant) {
        let Some(book) = self.books.get_mut(at) else { return };
        let roster = Arc::clone(&book.roster);
        let (Some(target), Some(schedule)) = (roster.targets.get(number), book.schedules.get_mut(number)) else {
            return;
        };
        let (Some(endpoint), Some(probing)) = (target.address.endpoint(), roster.policy.probing) else {
            schedule.put_off(began + TURN);
            return;
        };
        self.ids += 1;
        let id = self.ids;
        if let Some(replaced) = schedule.started(id, kind, began).and_then(|id| self.aborts.remove(&id)) {
            replaced.abort();
        }
        let (engines, live, name) = (Arc::clone(&self.engines), Arc::clone(&target.live), Arc::clone(&target.name));
        let probe = async move {
            let grade = match (&roster.http, &roster.tls, kind) {
                (Some(http), _, Kind::Regular) => engines.ask(http, &endpoint, &name, probing.timeout).await,
                (None, Some(trust), Kind::Regular) => engines.greet(trust, &endpoint, probing.timeout).await,
                _ => engines.connect(&endpoint, probing.timeout).await,
            };
            Done { id, live, kind, endpoint, began, grade }
        };
        self.aborts.insert(id, self.running.spawn(probe));
    }

    /// Takes in a probe that ended, and all others that have.
    pub(super) fn take_in(&mut self, first: Option<Done>) {
        let mut next = first;
        loop {
            if let Some(done) = next {
                self.ended(&done);
            }
            match self.running.try_join_next() {
                Some(done) => next = done.ok(),
                None => return,
            }
        }
    }

    fn ended(&mut self, done: &Done) {
        let now = now();
        self.aborts.remove(&done.id);
        let Some((at, number)) = self.places.get(&place(&done.live)) else { return };
        let Some(book) = self.books.get_mut(*at) else { return };
        let (Some(target), Some(schedule)) = (book.roster.targets.get(*number), book.schedules.get_mut(*number)) else {
            return;
        };
        let Some(probing) = book.roster.policy.probing else { return };
        let serving = done.live.verdict().serves();
        if !schedule.ended(done.id, done.began, serving, &probing, self.random.f64()) {
            return;
        }
        self.look = self.look.min(schedule.next().unwrap_or(now));
        if target.address.endpoint().as_ref() != Some(&done.endpoint) {
            // It moved meanwhile: this was about somebody else.
            schedule.put_off(now);
            self.look = now;
            return;
        }
        if now.saturating_duration_since(done.began) > probing.timeout + STALL {
            // Its own timer came late: the answer may have been there, and nobody looked.
            self.pace.late(done.began, self.running.len(), now);
            match done.kind {
                Kind::Regular => schedule.put_off(now),
                Kind::Confirm => schedule.ask(),
            }
            self.look = now;
            return;
        }
        self.pace.in_time();
        let Some(grade) = done.grade else {
            if self.reserve.lend() {
                schedule.put_off(now);
                self.look = now;
            }
            return;
        };
        if done.kind == Kind::Regular && serving && grade.fault().is_some_and(Fault::is_refusal) {
            schedule.ask();
            self.look = now;
        }
        let evidence = match done.kind {
            Kind::Regular => Evidence::Probe(grade),
            Kind::Confirm => Evidence::Confirm(grade),
        };
        target.live.take(evidence, now);
        book.dirty = true;
        let (pool, origin) = (Arc::clone(&book.roster.pool), Arc::clone(&target.name));
        (self.sink)(Fact::Probed { pool, origin, grade });
    }

    /// Judges the pools of which something was learned, and those that time alone may change.
    pub(super) fn judge(&mut self) {
        self.reserve.refill();
        let now = now();
        for book in &mut self.books {
            let (age, began) = (now.saturating_duration_since(book.judged), self::now());
            let looks = book.roster.policy.looks_at_answers() && age >= LOOK;
            let wanted = book.dirty || looks || book.restless && age >= TURN;
            if !wanted || age < book.rest {
                continue;
            }
            let short = book.roster.memory.is_short();
            let judged = book.roster.judge_again(now);
            let is_short = book.roster.memory.is_short();
            for (number, change) in judged.changes {
                let out = change.to == Verdict::Down;
                if let (true, Some(probing), Some(schedule)) =
                    (out, &book.roster.policy.probing, book.schedules.get_mut(number))
                {
                    schedule.hurry(probing, self.random.f64(), now);
                    self.look = now;
                }
                (self.sink)(Fact::Changed(change));
            }
            let told = std::mem::replace(&mut book.ripe, judged.ripe);
            if judged.ripe && !told {
                (self.sink)(Fact::Ripe { pool: Arc::clone(&book.roster.pool) });
            }
            if is_short != short {
                (self.sink)(Fact::Short { pool: Arc::clone(&book.roster.pool), short: !short });
            }
            (book.dirty, book.restless, book.judged) = (false, judged.restless, now);
            book.rest = rest(began);
        }
    }

    pub(super) fn first_round_is_over(&self, began: Instant) -> bool {
        let probed = self.books.iter().filter_map(|book| Some((book, book.roster.policy.probing?)));
        let longest = probed.clone().map(|(_, probing)| probing.timeout).max().unwrap_or_default();
        now() >= began + longest
            || probed.flat_map(|(book, _)| &book.roster.targets).all(|target| target.live.was_probed())
    }

    pub(super) fn next_turn(&self) -> Instant {
        let now = now();
        // Not at once again: what becomes due meanwhile starts together.
        self.look.clamp(now + Duration::from_millis(5), now + TURN)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::config::units;
    use crate::health::simulation::TCP;
    use crate::health::{Address, Policy, Role, Target};

    fn roster(origins: usize) -> Arc<Roster> {
        let target = |number: usize| Target {
            name: Arc::from(number.to_string()),
            weight: 1,
            backup: false,
            role: Role::Serves,
            live: Arc::new(Live::new(true, true)),
            address: Address::compile(&units::Address::Ip("127.0.0.1:9".parse().unwrap()), None),
        };
        Arc::new(Roster::new(
            Arc::from("p"),
            Policy { probing: Some(TCP), spare: 0.5, ..Policy::default() },
            (0..origins).map(target).collect(),
        ))
    }

    #[tokio::test]
    async fn turn_that_comes_late_drops_what_ran_and_begins_it_again() {
        let (bell, facts) = (Arc::new(Bell::default()), RefCell::new(Vec::new()));
        let mut work = Work::new(&bell, |fact| facts.borrow_mut().push(fact));
        work.refresh(vec![roster(3)]);
        work.books[0].schedules.iter_mut().for_each(|schedule| schedule.put_off(now()));
        work.start_due();
        assert_eq!(work.running.len(), 3);
        work.planned = now();
        assert!(!work.was_held_up() && work.running.len() == 3);
        work.planned = now().checked_sub(STALL * 2).unwrap();
        assert!(work.was_held_up());
        assert!(work.running.is_empty() && work.aborts.is_empty());
        assert!(matches!(facts.borrow()[..], [Fact::Stalled(_)]));
        work.start_due();
        assert_eq!(work.running.len(), 3);
    }

    #[tokio::test]
    async fn more_probes_than_may_run_wait_and_say_so() {
        let bell = Arc::new(Bell::default());
        let mut work = Work::new(&bell, |_| {});
        work.refresh(vec![roster(2000)]);
        work.books[0].schedules.iter_mut().for_each(|schedule| schedule.put_off(now()));
        assert!(!work.start_due(), "they do not wait for long yet");
        assert!(work.running.len() <= 500, "{}", work.running.len());
        let long_ago = now().checked_sub(BEHIND * 2).unwrap();
        work.books[0].schedules.iter_mut().for_each(|schedule| schedule.put_off(long_ago));
        assert!(!work.start_due(), "nobody looks before there may be something to start");
        work.look = now();
        assert!(work.start_due());
    }

    #[tokio::test]
    async fn probe_that_was_not_ended_in_time_is_begun_again() {
        let bell = Arc::new(Bell::default());
        let mut work = Work::new(&bell, |_| {});
        let roster = roster(1);
        work.refresh(vec![Arc::clone(&roster)]);
        let target = &roster.targets[0];
        let mut end = |age: Duration| {
            let began = now().checked_sub(age).unwrap();
            work.start(Kind::Regular, 0, 0, began);
            let (id, live, endpoint) = (work.ids, Arc::clone(&target.live), target.address.endpoint().unwrap());
            let grade = Some(Grade::Bad(Fault::Timeout));
            work.ended(&Done { id, live, kind: Kind::Regular, endpoint, began, grade });
            (target.live.was_probed(), work.books[0].schedules[0].due(now()))
        };
        assert_eq!(end(Duration::from_secs(3)), (false, Some(Kind::Regular)));
        assert_eq!(end(Duration::from_secs(1)), (true, None));
    }

    #[tokio::test]
    async fn schedules_are_not_looked_through_before_one_may_be_due() {
        let bell = Arc::new(Bell::default());
        let mut work = Work::new(&bell, |_| {});
        let roster = roster(300);
        work.refresh(vec![Arc::clone(&roster)]);
        let later = now() + TURN * 10;
        work.books[0].schedules.iter_mut().for_each(|schedule| schedule.put_off(later));
        work.start_due();
        assert!(work.running.is_empty() && work.look > now() && work.next_turn() > now());
        work.look = later;
        roster.targets[7].live.refused();
        work.hear();
        assert!(work.look <= now(), "a refusal is confirmed at once");
        work.start_due();
        assert_eq!(work.running.len(), 1);
    }
}
