//! What is known of one origin's health, shared by the data plane, the judge and those who look on.
//!
//! One `Live` per pool and origin name lives as long as a snapshot names it, so nothing learned is lost by a reload. The
//! data plane reads the verdict and the factor, and writes the time of its last answer, without a lock; they order
//! nothing else, hence `Relaxed`. Only what fails takes the short lock of the [`State`] and rings the judge's [`Bell`].

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use super::answers::Answers;
use super::board::Takes;
use super::course::{Look, Pace, Standing};
use super::floor::{Case, Ruling};
use super::overload::{Sight, Strain};
use super::passive::{Heard, Passive};
use super::policy::Overload;
use super::shed::Shed;
use super::{Bell, Board, Evidence, Grade, Policy, Seen, SlowStart, Span, State, Tally, Target, Verdict, Why};
use crate::balance::Factor;

/// The health of one origin.
#[derive(Debug)]
pub struct Live {
    verdict: AtomicU8,
    /// A [`Factor`], and the one beyond.
    factor: AtomicU64,
    beyond: AtomicU64,
    /// It is new to its pool, and has not all of its share yet.
    new: AtomicBool,
    answers: Answers,
    state: Mutex<State>,
    tally: Tally,
    passive: Passive,
    /// Where the verdict is shown as well. A board of a departed snapshot is forgotten when the next one comes.
    boards: Mutex<Vec<(Weak<Board>, usize)>>,
    /// Traffic was refused since the judge looked.
    refused: AtomicBool,
    /// It is in the bell's list.
    listed: AtomicBool,
    bell: OnceLock<Arc<Bell>>,
}

/// What is known of an origin, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// What is held of it.
    pub verdict: Verdict,
    /// Why.
    pub why: Why,
    /// The latest probe, and when it ended.
    pub last_probe: Option<(Grade, Instant)>,
    /// When a request was last answered.
    pub last_answer: Option<Instant>,
}

impl Live {
    /// An origin that is assumed up, or has to prove itself first; `known`: its address is.
    pub fn new(proven: bool, known: bool) -> Self {
        let state = State::new(proven, known);
        Self {
            verdict: AtomicU8::new(state.verdict().0 as u8),
            factor: AtomicU64::new(state.factors().0.to_bits()),
            beyond: AtomicU64::new(state.factors().1.to_bits()),
            new: AtomicBool::new(state.share.is_new()),
            answers: Answers::default(),
            state: Mutex::new(state),
            tally: Tally::default(),
            passive: Passive::default(),
            boards: Mutex::new(Vec::new()),
            refused: AtomicBool::new(false),
            listed: AtomicBool::new(false),
            bell: OnceLock::new(),
        }
    }

    /// What is held of the origin now.
    pub fn verdict(&self) -> Verdict {
        Verdict::stored(self.verdict.load(Relaxed))
    }

    /// The part of its share it may take now: all growth and every limit on it together.
    pub fn factor(&self) -> Factor {
        Factor::from_bits(self.factor.load(Relaxed))
    }

    /// The same for its points beyond the weight it had before that was raised; where it was not, or no longer, the
    /// same.
    pub fn factor_beyond(&self) -> Factor {
        Factor::from_bits(self.beyond.load(Relaxed))
    }

    /// Is it new to its pool, and has not all of its share yet?
    pub fn is_new(&self) -> bool {
        self.new.load(Relaxed)
    }

    /// Does it grow into a weight that was raised?
    pub fn is_raised(&self) -> bool {
        self.state.lock().share.is_raised()
    }

    /// Does it grow into what a change gave it: a share of its own, or a weight that was raised?
    pub fn comes(&self) -> bool {
        self.is_new() || self.is_raised()
    }

    /// It is drained as long as it is known.
    pub fn begin_drained(&self, now: Instant) {
        let mut state = self.state.lock();
        state.share.begin_drained(now);
        self.publish_state(&state);
    }

    /// It belongs to no pool from now on, and is kept as it is.
    pub fn park(&self, now: Instant) {
        self.state.lock().share.park(now);
    }

    /// It belongs to a pool again, as it was.
    pub fn unpark(&self) {
        self.state.lock().share.unpark();
    }

    /// It belongs to a pool again, as an origin that was out for as long as it was parked; `slow`: how it grows.
    pub fn come_back(&self, slow: Option<&SlowStart>, now: Instant) {
        let mut state = self.state.lock();
        state.share.come_back(slow, now);
        self.tally.cut();
        self.publish_state(&state);
    }

    /// Does it grow into its share?
    pub fn is_growing(&self) -> bool {
        match self.verdict() {
            Verdict::Ramping => true,
            Verdict::Overloaded => self.state.lock().grows_since().is_some(),
            _ => false,
        }
    }

    /// Did it pass its probes once, or was it assumed to?
    pub fn is_proven(&self) -> bool {
        self.state.lock().is_proven()
    }

    /// It is somewhere else in the snapshot about to be published, which has proven itself.
    pub fn moved(&self) {
        self.state.lock().moved();
    }

    /// Its weight was raised in the snapshot about to be published: what is beyond the old one comes slowly.
    pub fn raise(&self, slow: &SlowStart, now: Instant) {
        let mut state = self.state.lock();
        state.share.raise(slow, now);
        self.tally.cut();
        self.publish_state(&state);
    }

    /// What attempts at it came to.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What is known of it, for people.
    pub fn report(&self) -> Report {
        let state = self.state.lock();
        let (verdict, why) = state.verdict();
        Report { verdict, why, last_probe: state.last_probe(), last_answer: self.last_answer() }
    }

    /// Did a probe of it ever end?
    pub fn was_probed(&self) -> bool {
        self.state.lock().last_probe().is_some()
    }

    /// Shows the verdict on a board from now on, as that of `member`.
    pub fn show_on(&self, board: &Arc<Board>, member: usize) {
        let mut boards = self.boards.lock();
        boards.retain(|(board, _)| board.strong_count() > 0);
        boards.push((Arc::downgrade(board), member));
        board.set(member, self.shown().takes());
    }

    /// A request was answered, whatever the answer said.
    pub fn answered(&self, now: Instant) {
        self.answers.note(now);
    }

    /// When a request was last answered, to the millisecond below.
    pub fn last_answer(&self) -> Option<Instant> {
        Some(self.answers.run()?.to)
    }

    /// Since when requests were answered without a long gap, and when the last one was.
    pub(super) fn answers(&self) -> Option<Span> {
        self.answers.run()
    }

    /// This was the run in another process.
    pub(super) fn resume_answers(&self, run: Span) {
        self.answers.resume(run);
    }

    /// What the answers to requests say of it.
    pub(super) fn passive(&self) -> &Passive {
        &self.passive
    }

    /// An answer's header came, or none came in time.
    pub fn heard(&self, heard: &Heard) {
        self.passive.heard(heard);
    }

    /// A request ended, well or not.
    pub fn ended(self: &Arc<Self>, failed: bool) {
        if self.passive.ended(failed) {
            self.ring();
        }
    }

    /// A request was refused a connection, or the origin was unreachable: to be confirmed at once, if it is in service.
    pub fn refused(self: &Arc<Self>) {
        if self.verdict().serves() && !self.refused.swap(true, Relaxed) {
            self.ring();
        }
    }

    /// A request on `key` that went out at `since` got no answer in time.
    pub fn timed_out(self: &Arc<Self>, key: u32, since: Instant, now: Instant) {
        self.take(Evidence::TimedOut { key, since }, now);
        self.ring();
    }

    /// A request that tried it while every origin was out got through: it is in at once.
    pub fn connected(self: &Arc<Self>, now: Instant) {
        if !self.verdict().usable() {
            self.take(Evidence::Connected, now);
            self.ring();
        }
    }

    /// Changes the verdict everywhere it is shown, with all of its share or none: the word of whoever judges.
    pub fn publish(&self, verdict: Verdict) {
        self.publish_part(verdict, if verdict.usable() { Factor::FULL } else { Factor::NONE });
    }

    /// The same with a part of its share.
    pub fn publish_part(&self, verdict: Verdict, factor: Factor) {
        self.show(&Shown { verdict, factor, beyond: factor, new: verdict == Verdict::Joining });
    }

    fn show(&self, shown: &Shown) {
        // The lock keeps a board that is being added from missing the change.
        let boards = self.boards.lock();
        self.verdict.store(shown.verdict as u8, Relaxed);
        self.factor.store(shown.factor.to_bits(), Relaxed);
        self.beyond.store(shown.beyond.to_bits(), Relaxed);
        self.new.store(shown.new, Relaxed);
        for (board, member) in boards.iter().filter_map(|(board, member)| Some((board.upgrade()?, *member))) {
            board.set(member, shown.takes());
        }
    }

    /// What is shown of it now.
    fn shown(&self) -> Shown {
        let (verdict, factor, beyond) = (self.verdict(), self.factor(), self.factor_beyond());
        Shown { verdict, factor, beyond, new: self.is_new() }
    }

    /// Takes evidence that came `now`; what follows from it shows when the pool is judged.
    pub fn take(&self, evidence: Evidence, now: Instant) {
        if matches!(evidence, Evidence::Stalled | Evidence::Connected) {
            self.passive.forget();
        }
        self.state.lock().take(evidence, self.last_answer(), now);
    }

    pub(super) fn case(&self, seen: &Seen, policy: &Policy, short: bool, now: Instant) -> Case {
        let mut state = self.state.lock();
        if state.weigh_requests(self.passive.requests(), policy, now) {
            self.passive.forget();
        }
        state.case(seen, policy, short, now)
    }

    /// How it did since `began`, among the others of its pool.
    pub(super) fn sight(&self, target: &Target, rule: &Overload, began: Instant) -> Sight {
        let state = self.state.lock();
        let busy = |(grade, at): (Grade, Instant)| grade == Grade::Overloaded && at >= began;
        let strain = Strain::of(&self.passive.answers(), state.last_probe().is_some_and(busy));
        state.sight(strain, target, rule)
    }

    /// It gives up a part of its share, or gets it back; nobody sees it before [`go_on`](Self::go_on).
    pub(super) fn shed(&self, change: impl FnOnce(&mut Shed)) {
        change(self.state.lock().share.shed());
    }

    /// Takes a ruling over; nobody sees it before [`go_on`](Self::go_on).
    pub(super) fn settle(&self, ruling: &Ruling, seen: &Seen, policy: &Policy, needed: bool, now: Instant) -> Standing {
        let mut state = self.state.lock();
        let before = state.grows_since();
        let place = state.settle(ruling, seen, policy, needed, now);
        let grows = state.grows_since();
        if grows > before {
            // What it did before says nothing about how it does as it grows.
            self.tally.cut();
        }
        Standing { place, weight: seen.weight, grows }
    }

    /// Time passed: publishes how it stands now. Answers what was and is held of it and why, if that changed or its
    /// growth came to a halt or goes on, and whether time alone may change it again.
    pub(super) fn go_on(
        &self,
        pace: Pace,
        looked: Option<Look>,
        policy: &Policy,
        now: Instant,
    ) -> (Option<(Verdict, Verdict, Why)>, bool) {
        let mut state = self.state.lock();
        let (from, before) = (self.verdict(), state.share.milestones());
        let shed = state.share.shed().tell();
        state.share.go_on(pace, looked, policy, now);
        self.publish_state(&state);
        let (to, why) = state.verdict();
        let changed = shed || from != to || before != state.share.milestones();
        (changed.then_some((from, to, why)), state.is_restless())
    }

    /// All that follows from evidence, as it stands.
    pub(super) fn state(&self) -> State {
        self.state.lock().clone()
    }

    /// It stands like this, from now on and wherever it is shown.
    pub(super) fn begin_as(&self, known: State) {
        let mut state = self.state.lock();
        *state = known;
        self.publish_state(&state);
    }

    fn publish_state(&self, state: &State) {
        let (verdict, (factor, beyond)) = (state.verdict().0, state.factors());
        let shown = Shown { verdict, factor, beyond, new: state.share.is_new() };
        if self.shown() != shown {
            self.show(&shown);
        }
    }

    /// Rings this bell from now on; answers whether something was learned before.
    pub fn attach(&self, bell: &Arc<Bell>) -> bool {
        self.bell.get_or_init(|| Arc::clone(bell));
        self.listed.load(Relaxed)
    }

    /// The judge looks: was traffic refused since it last did?
    pub fn look(&self) -> bool {
        self.listed.store(false, Relaxed);
        self.refused.swap(false, Relaxed)
    }

    fn ring(self: &Arc<Self>) {
        if !self.listed.swap(true, Relaxed)
            && let Some(bell) = self.bell.get()
        {
            bell.ring_for(self);
        }
    }
}

/// What the data plane sees of an origin.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    verdict: Verdict,
    factor: Factor,
    beyond: Factor,
    new: bool,
}

impl Shown {
    fn takes(&self) -> Takes {
        let usable = self.verdict.usable();
        let partial = if usable { !self.beyond.is_full() } else { !self.factor.is_none() };
        // Whoever is new is to be met on the walk as long as its keys are not all there.
        Takes { usable, partial: partial || self.new }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use std::time::Duration;

    use super::*;

    fn up() -> Arc<Live> {
        Arc::new(Live::new(true, true))
    }

    #[test]
    fn origin_begins_up_joining_or_unresolved() {
        let begin = |proven, known| Live::new(proven, known).verdict();
        assert_eq!(
            [begin(true, true), begin(false, true), begin(true, false), begin(false, false)],
            [Verdict::Up, Verdict::Joining, Verdict::Down, Verdict::Down]
        );
    }

    #[test]
    fn change_of_verdict_shows_on_every_board() {
        let live = up();
        let (old, new) = (Arc::new(Board::new(1)), Arc::new(Board::new(4)));
        live.show_on(&old, 0);
        live.show_on(&new, 3);
        assert!(old.holds(0) && new.holds(3));
        live.publish(Verdict::Down);
        assert!(!old.holds(0) && !new.holds(3));
        drop(old);
        live.publish(Verdict::Kept);
        assert!(new.holds(3));
    }

    #[test]
    fn part_of_a_share_shows_on_every_board_as_long_as_it_is_one() {
        let (live, board) = (up(), Arc::new(Board::new(1)));
        live.show_on(&board, 0);
        assert!(board.is_even() && live.factor().is_full());
        live.publish_part(Verdict::Up, Factor::new(0.5));
        assert!(!board.is_even() && board.holds(0) && !board.is_full(0));
        let later = Arc::new(Board::new(1));
        live.show_on(&later, 0);
        assert!(later.is_partial(0), "a board that comes later sees it too");
        live.publish(Verdict::Down);
        assert!(board.is_even() && !board.holds(0) && live.factor().is_none());
        live.publish(Verdict::Up);
        assert!(board.is_even() && board.is_full(0));
    }

    #[test]
    fn boards_of_departed_snapshots_are_forgotten() {
        let live = up();
        for _ in 0..100 {
            live.show_on(&Arc::new(Board::new(1)), 0);
        }
        assert!(live.boards.lock().len() <= 2);
    }

    #[test]
    fn last_answer_is_the_time_of_the_last_one() {
        let live = up();
        let start = Instant::now();
        assert_eq!(live.last_answer(), None);
        live.answered(start);
        assert_eq!(live.last_answer(), Some(start));
        live.answered(start + Duration::from_millis(2500));
        assert_eq!(live.last_answer(), Some(start + Duration::from_millis(2500)));
    }

    #[test]
    fn each_origin_rings_once_until_it_was_looked_at() {
        let (live, bell) = (up(), Arc::new(Bell::default()));
        assert!(!live.attach(&bell));
        (0..3).for_each(|_| live.refused());
        assert_eq!(bell.take().len(), 1);
        assert!(live.look());
        assert!(!live.look(), "looked at");
        live.timed_out(1, Instant::now(), Instant::now());
        assert_eq!((bell.take().len(), live.look()), (1, false));
    }

    #[test]
    fn what_was_learned_before_there_was_a_bell_is_not_lost() {
        let live = up();
        live.refused();
        assert!(live.attach(&Arc::new(Bell::default())));
        assert!(live.look());
    }

    #[test]
    fn refusals_by_an_origin_that_is_out_are_no_news() {
        let (live, bell) = (up(), Arc::new(Bell::default()));
        live.attach(&bell);
        live.publish(Verdict::Down);
        live.refused();
        assert!(bell.take().is_empty());
    }
}
