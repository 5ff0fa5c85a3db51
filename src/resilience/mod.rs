//! What may be tried again, and when is it enough?
//!
//! [`Retry::decide`] is asked after every failed try of a request and answers where the next one goes, or why there
//! is none. A request that may have been processed is never repeated unless its method is idempotent (or the operator
//! said `non_idempotent`) and the policy lists the condition; nothing is repeated once a final header went to the
//! client. Three things are free, drawing nothing and counting nothing: walking on after an origin refused, the first
//! repeat on a fresh connection after a stale one, and as many as [`UNPROCESSED`] after an origin said that it did not
//! process the request; but one if all it did was to refuse it. Pure: the clock is an argument.

pub mod budget;
mod class;
mod condition;
pub mod failure;

use std::time::{Duration, Instant};

use http::Method;

use crate::config::route;

use condition::Conditions;

pub use budget::Budget;
pub use class::Class;

/// How often a request goes on freely because an origin did not process it: on a new connection, and on one of its own,
/// where nobody else can use up what the origin takes. One that refuses that as well has too much to do.
pub const UNPROCESSED: u32 = 2;

/// The same where the origin refused the request alone and kept the connection, as who sheds load does: once may be by
/// chance, and what it does not take twice is not pressed on it for nothing.
const REFUSED: u32 = 1;

/// The retry policy of a route.
#[derive(Debug, Clone)]
pub struct Retry {
    tries: u32,
    within: Duration,
    safe: Conditions,
    other: Conditions,
    methods: Vec<(Method, Conditions)>,
}

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No whole answer came.
    Class(Class),
    /// A whole header came, with this status.
    Status(u16),
}

/// One failed try, as [`Retry::decide`] needs to know it.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The request's method.
    pub method: &'a Method,
    /// What failed.
    pub failure: Failure,
    /// Tries that count so far: 1 with the first attempt, one more for each [`Decision::Again`] that is not `free`.
    pub tries: u32,
    /// Time since the first attempt began.
    pub since_first: Duration,
    /// All of the body that was read can be sent again.
    pub replayable: bool,
    /// A final header went to the client.
    pub response_started: bool,
    /// An origin is left that this request has not tried.
    pub untried_left: bool,
    /// The free repeat after a stale connection was used.
    pub stale_used: bool,
    /// How often the origin of this try did not process this request and said so, before this try.
    pub unprocessed: u32,
    /// If it did so again: it refused this request alone, and goes on with those beside it.
    pub refused: bool,
}

/// What follows a failed try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Another try.
    Again {
        /// At which origin.
        place: Place,
        /// Why: the label of `retries_total`.
        reason: Reason,
        /// It counts towards no limit and drew nothing from the budget.
        free: bool,
    },
    /// No further try: the last failure stands. `None` when the policy lists nothing for it.
    Stop(Option<Suppressed>),
}

/// Where the next try goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The next distinct origin of the pick.
    Next,
    /// The same origin, on a new connection.
    Same,
}

/// Why there is another try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No connection came about.
    Connect,
    /// A pooled connection was closed.
    Stale,
    /// A connection was closed before the header.
    Reset,
    /// The origin was silent for too long.
    Timeout,
    /// The answer's status.
    Status,
}

/// Why a listed condition led to no further try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Suppressed {
    /// The pool's budget is empty.
    Budget,
    /// All tries are used.
    Tries,
    /// Too late for a new try.
    Within,
    /// The body cannot be sent again.
    Body,
    /// Listed, but not for this method.
    Method,
    /// Every usable origin was tried.
    NoOrigin,
}

impl Retry {
    /// The policy of a route; `None`: the built-in one.
    pub fn compile(written: Option<&route::Retry>) -> Self {
        let Some(written) = written else { return Self::default() };
        let methods = &written.methods;
        Self {
            tries: written.tries,
            within: written.within.0,
            safe: Conditions::of(&written.safe, true),
            other: Conditions::of(&written.other, false),
            methods: methods
                .iter()
                .map(|(m, listed)| (m.clone(), Conditions::of(listed, condition::repeatable(m))))
                .collect(),
        }
    }

    /// What follows the failed try of `ask`. `Again` with [`Place::Next`] is said only when `untried_left`, and a
    /// try that is not free has been drawn from `budget` when it returns.
    pub fn decide(&self, ask: &Ask<'_>, budget: &Budget, now: Instant) -> Decision {
        if ask.response_started {
            return Decision::Stop(None);
        }
        let Some(reason) = Reason::of(ask.failure) else { return Decision::Stop(None) };
        if !self.of(ask.method).hold(reason, ask.failure) {
            let for_others = self.safe.hold(reason, ask.failure);
            return Decision::Stop(for_others.then_some(Suppressed::Method));
        }
        match self.next(ask, reason, budget, now) {
            Ok((place, free)) => Decision::Again { place, reason, free },
            Err(why) => Decision::Stop(Some(why)),
        }
    }

    /// Does any condition of `method` name a status? Without one an answer need not be held up for a decision.
    pub fn looks_at_statuses(&self, method: &Method) -> bool {
        let listed = self.of(method);
        self.tries > 1 && listed.name_a_status()
    }

    fn next(&self, ask: &Ask<'_>, reason: Reason, budget: &Budget, now: Instant) -> Result<(Place, bool), Suppressed> {
        // `tries: 1` switches the free repeats off as well.
        if self.tries <= 1 {
            return Err(Suppressed::Tries);
        }
        if ask.since_first > self.within {
            return Err(Suppressed::Within);
        }
        // Without a connection nothing was sent: any body will do.
        if reason != Reason::Connect && !ask.replayable {
            return Err(Suppressed::Body);
        }
        let unprocessed = ask.failure == Failure::Class(Class::Unprocessed);
        let goes_on = unprocessed && ask.unprocessed < if ask.refused { REFUSED } else { UNPROCESSED };
        let elsewhere = unprocessed && !goes_on && ask.untried_left;
        // A stale connection says nothing about its origin; everything else goes on to the next.
        let place = if reason == Reason::Stale && !elsewhere { Place::Same } else { Place::Next };
        if place == Place::Next && !ask.untried_left {
            return Err(Suppressed::NoOrigin);
        }
        let refused = ask.failure == Failure::Class(Class::ConnectRefused);
        let stale = reason == Reason::Stale && !unprocessed && !ask.stale_used;
        if refused || stale || goes_on {
            return Ok((place, true));
        }
        if ask.tries >= self.tries {
            return Err(Suppressed::Tries);
        }
        // Last, since it takes.
        if budget.draw(now) { Ok((place, false)) } else { Err(Suppressed::Budget) }
    }

    fn of(&self, method: &Method) -> &Conditions {
        match self.methods.iter().find(|(named, _)| named == method) {
            Some((_, conditions)) => conditions,
            None if method.is_safe() => &self.safe,
            None => &self.other,
        }
    }
}

impl Default for Retry {
    /// The built-in policy.
    fn default() -> Self {
        Self::compile(Some(&route::Retry::default()))
    }
}

impl Reason {
    /// The label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Stale => "stale",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::Status => "status",
        }
    }

    /// `None`: no condition can ask for another try.
    fn of(failure: Failure) -> Option<Self> {
        match failure {
            Failure::Status(_) => Some(Self::Status),
            Failure::Class(
                Class::ConnectRefused | Class::ConnectTimeout | Class::TlsFailed | Class::Untrusted | Class::Unspoken,
            ) => Some(Self::Connect),
            Failure::Class(Class::Stale | Class::Unprocessed) => Some(Self::Stale),
            Failure::Class(Class::Reset) => Some(Self::Reset),
            Failure::Class(Class::ResponseTimeout) => Some(Self::Timeout),
            Failure::Class(_) => None,
        }
    }
}

impl Suppressed {
    /// The label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Tries => "tries",
            Self::Within => "within",
            Self::Body => "body",
            Self::Method => "method",
            Self::NoOrigin => "no_origin",
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;
    use crate::config::pool::RetryBudget;
    use crate::config::route::Condition;
    use crate::config::units::{Duration as Written, Percent, Rate};

    /// Plays a request whose every try fails the same way, with origins and budget to spare; answers how many tries
    /// there were. Two untried origins are left after the first.
    fn tries(retry: &Retry, method: &Method, failure: Failure) -> u32 {
        let now = Instant::now();
        let budget = generous(now);
        let mut ask = asked(method, failure);
        for made in 1..20 {
            ask.untried_left = made < 3;
            match retry.decide(&ask, &budget, now) {
                Decision::Again { place: Place::Same, free, .. } => {
                    ask.stale_used = true;
                    ask.tries += u32::from(!free);
                    // The repeat runs on a fresh connection, which cannot be stale.
                    ask.failure = Failure::Class(Class::Reset);
                }
                Decision::Again { free, .. } => ask.tries += u32::from(!free),
                Decision::Stop(_) => return made,
            }
        }
        panic!("no end of tries")
    }

    fn asked(method: &Method, failure: Failure) -> Ask<'_> {
        Ask {
            method,
            failure,
            tries: 1,
            since_first: Duration::ZERO,
            replayable: true,
            response_started: false,
            untried_left: true,
            stale_used: false,
            unprocessed: 0,
            refused: false,
        }
    }

    fn generous(now: Instant) -> Budget {
        Budget::new(&RetryBudget { ratio: Percent(100.0), floor: Rate(1000.0) }, now)
    }

    fn empty(now: Instant) -> Budget {
        Budget::new(&RetryBudget { ratio: Percent(0.0), floor: Rate(0.0) }, now)
    }

    fn written(tries: u32, safe: &[Condition], other: &[Condition], methods: &[(Method, &[Condition])]) -> Retry {
        let methods = methods.iter().map(|(m, listed)| (m.clone(), listed.iter().copied().collect())).collect();
        let within = Written(Duration::from_secs(3));
        let (safe, other) = (safe.iter().copied().collect(), other.iter().copied().collect());
        Retry::compile(Some(&route::Retry { tries, within, safe, other, methods }))
    }

    #[track_caller]
    fn check_table(retry: &Retry, table: &[(&[Method], [u32; 8])]) {
        let failures = [
            ("refused", Failure::Class(Class::ConnectRefused)),
            ("connect time-out", Failure::Class(Class::ConnectTimeout)),
            ("stale", Failure::Class(Class::Stale)),
            ("reset before the header", Failure::Class(Class::Reset)),
            ("reset in the body", Failure::Class(Class::ClosedEarly)),
            ("response time-out", Failure::Class(Class::ResponseTimeout)),
            ("502", Failure::Status(502)),
            ("503", Failure::Status(503)),
        ];
        for (methods, expected) in table {
            for method in *methods {
                for ((name, failure), expected) in failures.iter().zip(expected) {
                    assert_eq!(tries(retry, method, *failure), *expected, "{method} {name}");
                }
            }
        }
    }

    const SAFE: &[Method] = &[Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE];
    const OTHER: &[Method] = &[Method::PUT, Method::DELETE, Method::POST, Method::PATCH];

    #[test]
    fn built_in_policy_makes_this_many_tries() {
        // refused walks all three origins; stale: free repeat, then the repeat's reset goes on once, counted
        check_table(&Retry::default(), &[(SAFE, [3, 2, 3, 2, 1, 1, 1, 1]), (OTHER, [3, 2, 1, 1, 1, 1, 1, 1])]);
    }

    #[test]
    fn back_to_origin_profile_sends_other_methods_once() {
        use Condition::{Connect, Reset, Stale};
        let profile = written(2, &[Connect, Stale, Reset], &[], &[]);
        check_table(&profile, &[(SAFE, [3, 2, 3, 2, 1, 1, 1, 1]), (OTHER, [1; 8])]);
    }

    #[test]
    fn one_try_switches_the_free_repeats_off_as_well() {
        use Condition::{Connect, Reset, Stale, Status5xx, Timeout};
        let all = [Connect, Stale, Reset, Timeout, Status5xx];
        check_table(&written(1, &all, &all, &[]), &[(SAFE, [1; 8]), (OTHER, [1; 8])]);
    }

    #[test]
    fn non_idempotent_lifts_the_bar_for_post_patch_and_others() {
        use Condition::{NonIdempotent, Reset, Status};
        let post = Failure::Class(Class::Reset);
        let barred = written(2, &[], &[Reset, Status(502)], &[]);
        assert_eq!(tries(&barred, &Method::POST, post), 1);
        assert_eq!(tries(&barred, &Method::PUT, Failure::Status(502)), 1);
        let lifted = written(2, &[], &[Reset, Status(502), NonIdempotent], &[]);
        assert_eq!(tries(&lifted, &Method::POST, post), 2);
        assert_eq!(tries(&lifted, &Method::PUT, Failure::Status(502)), 2);
        assert_eq!(tries(&lifted, &Method::PUT, Failure::Status(503)), 1);
    }

    #[test]
    fn a_method_of_its_own_replaces_both_lists() {
        use Condition::{Connect, NonIdempotent, Reset, Status5xx};
        let methods: &[(Method, &[Condition])] = &[
            (Method::PUT, &[Reset, Status5xx]),
            (Method::POST, &[Reset]),
            (Method::PATCH, &[Reset, NonIdempotent]),
            (Method::GET, &[]),
        ];
        let retry = written(2, &[Connect, Reset], &[Connect], methods);
        let reset = Failure::Class(Class::Reset);
        assert_eq!(tries(&retry, &Method::PUT, reset), 2);
        assert_eq!(tries(&retry, &Method::PUT, Failure::Status(599)), 2);
        assert_eq!(tries(&retry, &Method::PUT, Failure::Class(Class::ConnectRefused)), 1);
        assert_eq!(tries(&retry, &Method::POST, reset), 1);
        assert_eq!(tries(&retry, &Method::PATCH, reset), 2);
        assert_eq!(tries(&retry, &Method::GET, reset), 1);
        assert_eq!(tries(&retry, &Method::HEAD, reset), 2);
        assert!(retry.looks_at_statuses(&Method::PUT) && !retry.looks_at_statuses(&Method::HEAD));
    }

    #[test]
    fn a_stale_connection_is_repeated_at_the_same_origin_free_once() {
        let now = Instant::now();
        let mut ask = asked(&Method::GET, Failure::Class(Class::Stale));
        (ask.tries, ask.untried_left) = (2, false);
        let free = Decision::Again { place: Place::Same, reason: Reason::Stale, free: true };
        assert_eq!(Retry::default().decide(&ask, &empty(now), now), free);
        ask.stale_used = true;
        assert_eq!(Retry::default().decide(&ask, &generous(now), now), Decision::Stop(Some(Suppressed::Tries)));
        ask.tries = 1;
        let counted = Decision::Again { place: Place::Same, reason: Reason::Stale, free: false };
        assert_eq!(Retry::default().decide(&ask, &generous(now), now), counted);
    }

    #[test]
    fn what_was_not_processed_is_sent_again_whatever_the_method_free_and_bounded() {
        let now = Instant::now();
        let mut ask = asked(&Method::POST, Failure::Class(Class::Unprocessed));
        (ask.tries, ask.stale_used) = (2, true);
        let free = |place| Decision::Again { place, reason: Reason::Stale, free: true };
        for unprocessed in 0..UNPROCESSED {
            ask.unprocessed = unprocessed;
            assert_eq!(Retry::default().decide(&ask, &empty(now), now), free(Place::Same), "{unprocessed}");
        }
        ask.unprocessed = UNPROCESSED;
        assert_eq!(Retry::default().decide(&ask, &generous(now), now), Decision::Stop(Some(Suppressed::Tries)));
        ask.tries = 1;
        for (untried_left, place) in [(true, Place::Next), (false, Place::Same)] {
            ask.untried_left = untried_left;
            let counted = Decision::Again { place, reason: Reason::Stale, free: false };
            assert_eq!(Retry::default().decide(&ask, &generous(now), now), counted);
            assert_eq!(Retry::default().decide(&ask, &empty(now), now), Decision::Stop(Some(Suppressed::Budget)));
        }
        (ask.unprocessed, ask.replayable) = (0, false);
        assert_eq!(Retry::default().decide(&ask, &generous(now), now), Decision::Stop(Some(Suppressed::Body)));
        ask.replayable = true;
        let nothing = written(2, &[Condition::Connect], &[], &[]);
        assert_eq!(nothing.decide(&ask, &generous(now), now), Decision::Stop(Some(Suppressed::Method)));
    }

    #[test]
    fn what_an_origin_refuses_for_its_load_is_sent_again_freely_once() {
        let now = Instant::now();
        let mut ask = asked(&Method::POST, Failure::Class(Class::Unprocessed));
        (ask.refused, ask.untried_left) = (true, false);
        let again = |free, place| Decision::Again { place, reason: Reason::Stale, free };
        assert_eq!(Retry::default().decide(&ask, &empty(now), now), again(true, Place::Same));
        ask.unprocessed = 1;
        assert_eq!(Retry::default().decide(&ask, &empty(now), now), Decision::Stop(Some(Suppressed::Budget)));
        assert_eq!(Retry::default().decide(&ask, &generous(now), now), again(false, Place::Same));
        ask.untried_left = true;
        assert_eq!(Retry::default().decide(&ask, &generous(now), now), again(false, Place::Next));
        ask.tries = 2;
        assert_eq!(Retry::default().decide(&ask, &generous(now), now), Decision::Stop(Some(Suppressed::Tries)));
    }

    #[test]
    fn a_refusal_walks_on_with_an_empty_budget_and_all_tries_used() {
        let now = Instant::now();
        let mut ask = asked(&Method::PUT, Failure::Class(Class::ConnectRefused));
        (ask.tries, ask.replayable) = (2, false);
        let free = Decision::Again { place: Place::Next, reason: Reason::Connect, free: true };
        assert_eq!(Retry::default().decide(&ask, &empty(now), now), free);
    }

    #[track_caller]
    fn check_stop(change: impl Fn(&mut Ask<'_>), expected: Option<Suppressed>) {
        let now = Instant::now();
        let mut ask = asked(&Method::GET, Failure::Class(Class::Reset));
        change(&mut ask);
        assert_eq!(Retry::default().decide(&ask, &generous(now), now), Decision::Stop(expected));
    }

    #[test]
    fn a_try_that_is_not_made_says_why() {
        check_stop(|ask| ask.tries = 2, Some(Suppressed::Tries));
        check_stop(|ask| ask.since_first = Duration::from_millis(3001), Some(Suppressed::Within));
        check_stop(|ask| ask.replayable = false, Some(Suppressed::Body));
        check_stop(|ask| ask.method = &Method::POST, Some(Suppressed::Method));
        check_stop(|ask| ask.untried_left = false, Some(Suppressed::NoOrigin));
        let now = Instant::now();
        let ask = asked(&Method::GET, Failure::Class(Class::Reset));
        assert_eq!(Retry::default().decide(&ask, &empty(now), now), Decision::Stop(Some(Suppressed::Budget)));
    }

    #[test]
    fn what_the_policy_does_not_list_is_not_called_suppressed() {
        check_stop(|ask| ask.failure = Failure::Status(502), None);
        check_stop(|ask| ask.response_started = true, None);
        for class in [Class::ClosedEarly, Class::ClientGone, Class::InvalidResponse, Class::LocalLimit] {
            check_stop(|ask| ask.failure = Failure::Class(class), None);
        }
    }

    #[test]
    fn only_a_try_that_counts_draws_from_the_budget() {
        let now = Instant::now();
        let one = Budget::new(&RetryBudget { ratio: Percent(0.0), floor: Rate(1.0) }, now);
        let refused = asked(&Method::GET, Failure::Class(Class::ConnectRefused));
        let reset = asked(&Method::GET, Failure::Class(Class::Reset));
        let mut stopped = reset;
        stopped.tries = 2;
        for ask in [refused, stopped] {
            Retry::default().decide(&ask, &one, now);
        }
        assert!(matches!(Retry::default().decide(&reset, &one, now), Decision::Again { free: false, .. }));
        assert_eq!(Retry::default().decide(&reset, &one, now), Decision::Stop(Some(Suppressed::Budget)));
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod properties {
    use proptest::prelude::*;

    use super::*;
    use crate::config::pool::RetryBudget;
    use crate::config::route::Condition;
    use crate::config::units::{Duration as Written, Percent, Rate};

    fn method() -> impl Strategy<Value = Method> {
        use Method as M;
        prop::sample::select(vec![M::GET, M::HEAD, M::OPTIONS, M::PUT, M::DELETE, M::POST, M::PATCH])
    }

    fn failure() -> impl Strategy<Value = Failure> {
        prop_oneof![prop::sample::select(Class::ALL).prop_map(Failure::Class), (400u16..600).prop_map(Failure::Status),]
    }

    fn conditions() -> impl Strategy<Value = Vec<Condition>> {
        use Condition::{Connect, NonIdempotent, Reset, Stale, Status, Status5xx, Timeout};
        prop::sample::subsequence(vec![Connect, Stale, Reset, Timeout, Status(502), Status5xx, NonIdempotent], 0..=7)
    }

    prop_compose! {
        fn retry()(tries in 1u32..5, safe in conditions(), other in conditions()) -> Retry {
            let (safe, other) = (safe.into_iter().collect(), other.into_iter().collect());
            let within = Written(Duration::from_secs(3));
            Retry::compile(Some(&route::Retry { tries, within, safe, other, methods: Default::default() }))
        }
    }

    proptest! {
        #[test]
        fn counted_tries_never_exceed_the_policy_and_origins_bound_the_rest(
            retry in retry(), method in method(), failures in prop::collection::vec(failure(), 40), origins in 1usize..6,
            refused: bool,
        ) {
            let now = Instant::now();
            let budget = Budget::new(&RetryBudget { ratio: Percent(0.0), floor: Rate(1000.0) }, now);
            let (mut counted, mut made, mut seen, mut stale_used, mut unprocessed) = (1, 1usize, 1usize, false, 0);
            for failure in failures {
                let ask = Ask {
                    method: &method, failure, tries: counted, since_first: Duration::ZERO, replayable: true,
                    response_started: false, untried_left: seen < origins, stale_used, unprocessed, refused,
                };
                let Decision::Again { place, reason, free } = retry.decide(&ask, &budget, now) else { break };
                made += 1;
                counted += u32::from(!free);
                seen += usize::from(place == Place::Next);
                let was_processed = failure != Failure::Class(Class::Unprocessed);
                stale_used |= reason == Reason::Stale && was_processed;
                unprocessed = if place == Place::Same { unprocessed + u32::from(!was_processed) } else { 0 };
                prop_assert!(seen <= origins);
            }
            prop_assert!(counted <= retry.tries);
            prop_assert!(made <= counted as usize + origins + 1 + origins * UNPROCESSED as usize);
        }

        #[test]
        fn a_request_that_may_have_run_is_repeated_only_as_the_method_allows(
            safe in conditions(), other in conditions(), failure in failure(), replayable: bool,
        ) {
            prop_assume!(!other.contains(&Condition::NonIdempotent));
            let now = Instant::now();
            let budget = Budget::new(&RetryBudget { ratio: Percent(0.0), floor: Rate(10.0) }, now);
            let (safe, other) = (safe.into_iter().collect(), other.into_iter().collect());
            let within = Written(Duration::from_secs(3));
            let retry =
                Retry::compile(Some(&route::Retry { tries: 3, within, safe, other, methods: Default::default() }));
            let ask = Ask {
                method: &Method::POST, failure, tries: 1, since_first: Duration::ZERO, replayable,
                response_started: false, untried_left: true, stale_used: false, unprocessed: 0, refused: false,
            };
            if let Decision::Again { reason, .. } = retry.decide(&ask, &budget, now) {
                let has_not_run = failure == Failure::Class(Class::Unprocessed);
                prop_assert!(reason == Reason::Connect || has_not_run, "{:?}", reason);
            }
        }
    }
}
