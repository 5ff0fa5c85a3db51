//! Who of a pool goes, and who is kept? Rules H2, H3 and H5, over all origins of a pool at once.
//!
//! Always holds: soft evidence leaves at least `min_healthy` of the pool in service by count and by weight, unless
//! `panic: fail` finds nobody well anyway; it never takes the last one while another answer is possible; and the same
//! cases give the same rulings in whatever order evidence came. Judged anew at every change, so whoever was ejected
//! softly comes back as kept when hard evidence uses the limit up.

use std::time::Instant;

use super::{Policy, Verdict};

/// What one origin's own evidence says.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Units of weight.
    pub weight: u32,
    /// It serves only while no other may be asked: it counts as one of the pool only while it passes its probes.
    pub backup: bool,
    /// Its address is known.
    pub known: bool,
    /// It passed its first probes, or was assumed to.
    pub proven: bool,
    /// It is no part of the pool any more: the floor neither counts nor keeps it, and only hard evidence ejects it.
    pub outside: bool,
    /// It is out now.
    pub out: bool,
    /// It is due out.
    pub due: Option<Due>,
    /// Requests hang there since ten seconds.
    pub hangs: bool,
    /// Its latest probe passed.
    pub passes: bool,
    /// So did every probe of the last ten seconds.
    pub passes_long: bool,
    /// It answered a request within the last ten seconds.
    pub answers: bool,
}

/// Why it is due.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    /// Since when.
    pub since: Instant,
    /// It takes no connection: hard.
    pub refused: bool,
    /// For ten seconds no probe passed and nothing was answered: hard while another origin passes its probes.
    pub quiet: bool,
    /// Requests hang there: hard with HTTP probes, while another origin answers.
    pub hung: bool,
}

/// What is held of one origin from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruling {
    /// The verdict.
    pub verdict: Verdict,
    /// Its address is known.
    pub known: bool,
    /// It was found to hang just now.
    pub hangs: bool,
    /// It is out for its silence.
    pub silent: bool,
}

/// Judges a pool: a ruling for each case, in their order.
pub fn judge(cases: &[Case], policy: &Policy) -> Vec<Ruling> {
    let others = Others::count(cases);
    let mut bench = Bench::default();
    let mut rulings: Vec<Ruling> = cases.iter().map(|case| bench.first_look(case, &others, policy)).collect();
    bench.soft(cases, &mut rulings, policy);
    let well = |(case, ruling): (&Case, &Ruling)| !case.outside && ruling.verdict == Verdict::Up;
    if policy.fail && !cases.iter().zip(&rulings).any(well) {
        // Nobody is well: the last ones go as well, and the pool says so at once.
        rulings.iter_mut().filter(|ruling| ruling.verdict == Verdict::Kept).for_each(|ruling| {
            ruling.verdict = Verdict::Down;
        });
    }
    rulings
}

/// Is a pool whose origins stand so short of them: more out than `min_healthy` allows, or somebody in service that
/// should not be? With each verdict: is it a backup's?
pub fn is_short(verdicts: impl IntoIterator<Item = (Verdict, bool)>, policy: &Policy) -> bool {
    let (mut members, mut out, mut kept) = (0, 0, 0);
    for (verdict, backup) in verdicts {
        members += usize::from(if backup { verdict == Verdict::Up } else { verdict != Verdict::Joining });
        out += usize::from(verdict == Verdict::Down && !backup);
        kept += usize::from(verdict == Verdict::Kept && !backup);
    }
    out > policy.spare_of(members) || kept > 0
}

impl Case {
    /// Does it count as one of the pool, while it is in service?
    fn counts(&self) -> bool {
        !self.backup || self.passes
    }

    /// Does it show that requests can be answered? Not if it takes no connection any more.
    fn vouches(&self) -> bool {
        self.answers && !self.due.is_some_and(|due| due.refused)
    }
}

/// How many of the pool vouch for the rest: evidence against one counts only beside another that does well.
struct Others {
    passing_long: usize,
    answering: usize,
}

impl Others {
    fn count(cases: &[Case]) -> Self {
        let proven = || cases.iter().filter(|case| case.proven);
        Self {
            passing_long: proven().filter(|case| case.passes_long).count(),
            answering: proven().filter(|case| case.vouches()).count(),
        }
    }

    fn passes_long(&self, but: &Case) -> bool {
        self.passing_long > usize::from(but.proven && but.passes_long)
    }

    fn answers(&self, but: &Case) -> bool {
        self.answering > usize::from(but.proven && but.vouches())
    }
}

/// The pool while it is judged. Joining origins stand outside, and so do those that go.
#[derive(Default)]
struct Bench {
    members: usize,
    weight: u64,
    out: usize,
    out_weight: u64,
    serving: usize,
    /// Of those serving, the ones whose latest probe passed.
    passing: usize,
}

impl Bench {
    /// Everything but soft evidence; whoever is due softly is kept for now.
    fn first_look(&mut self, case: &Case, others: &Others, policy: &Policy) -> Ruling {
        let mut ruling = Ruling { verdict: Verdict::Up, known: case.known, hangs: false, silent: false };
        if !case.proven {
            ruling.verdict = if case.known { Verdict::Joining } else { Verdict::Down };
            return ruling;
        }
        let http = policy.probing.is_some_and(|probing| probing.http);
        ruling.hangs = case.hangs && others.answers(case);
        let hung = ruling.hangs || case.due.is_some_and(|due| due.hung);
        ruling.silent = case.due.is_some_and(|due| due.quiet) && others.passes_long(case);
        let refused = case.due.is_some_and(|due| due.refused);
        let hard = refused || ruling.silent || (hung && http && others.answers(case));
        if hard || !case.known {
            ruling.verdict = Verdict::Down;
        } else if !case.outside && (case.due.is_some() || ruling.hangs) {
            ruling.verdict = Verdict::Kept;
        }
        if !case.outside {
            self.seat(case, ruling.verdict);
        }
        ruling
    }

    fn seat(&mut self, case: &Case, verdict: Verdict) {
        if case.backup && (verdict == Verdict::Down || !case.counts()) {
            return;
        }
        self.members += 1;
        self.weight += u64::from(case.weight);
        if verdict == Verdict::Down {
            self.out += 1;
            self.out_weight += u64::from(case.weight);
        } else {
            self.serving += 1;
            self.passing += usize::from(case.passes);
        }
    }

    /// One that was kept goes after all.
    fn dismiss(&mut self, case: &Case) {
        if !case.counts() {
            return;
        }
        self.serving -= 1;
        self.passing -= usize::from(case.passes);
        if case.backup {
            self.members -= 1;
            self.weight -= u64::from(case.weight);
        } else {
            self.out += 1;
            self.out_weight += u64::from(case.weight);
        }
    }

    /// Takes out whom soft evidence may: backups first, since they count no longer then, those already out, and then in
    /// the order in which they became due.
    fn soft(&mut self, cases: &[Case], rulings: &mut [Ruling], policy: &Policy) {
        let kept = |at: &usize| rulings.get(*at).is_some_and(|ruling| ruling.verdict == Verdict::Kept);
        let mut due: Vec<usize> = (0..cases.len()).filter(kept).collect();
        due.sort_by_key(|at| cases.get(*at).map(|case| (!case.backup, !case.out, case.due.map(|due| due.since))));
        for at in due {
            if let (Some(case), Some(ruling)) = (cases.get(at), rulings.get_mut(at))
                && self.may_go(case, policy)
            {
                ruling.verdict = Verdict::Down;
                self.dismiss(case);
            }
        }
    }

    fn may_go(&self, case: &Case, policy: &Policy) -> bool {
        let others = self.serving.saturating_sub(usize::from(case.counts()));
        let passing = self.passing.saturating_sub(usize::from(case.passes));
        let vouched = passing * 2 >= others;
        let by_count = self.out < policy.spare_of(self.members);
        let by_weight = (self.out_weight + u64::from(case.weight)) as f64 <= policy.spare_weight(self.weight);
        others > 0 && vouched && (case.backup || by_count && by_weight)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::Verdict::{Down, Kept, Up};
    use super::*;

    /// An origin of this weight: `None` is well, `Some(passes)` due out by soft evidence.
    fn case((weight, due): (u32, Option<bool>)) -> Case {
        Case {
            weight,
            backup: false,
            known: true,
            proven: true,
            outside: false,
            out: false,
            due: due.map(|_| Due { since: Instant::now(), refused: false, quiet: false, hung: false }),
            hangs: false,
            passes: due.unwrap_or(true),
            passes_long: false,
            answers: false,
        }
    }

    #[test]
    fn whoever_goes_is_neither_counted_nor_kept_and_softly_never_put_out() {
        let going = Case { outside: true, ..case((9, Some(false))) };
        let refused = going.due.map(|due| Due { refused: true, ..due });
        let gone = Case { due: refused, ..going };
        let cases = [case((1, Some(false))), case((1, None)), going, gone];
        let rulings = judge(&cases, &Policy { spare: 0.5, ..Policy::default() });
        assert_eq!(rulings.iter().map(|ruling| ruling.verdict).collect::<Vec<_>>(), [Down, Up, Up, Down]);
    }

    #[track_caller]
    fn check<const N: usize>(spare: f64, pool: [(u32, Option<bool>); N], expected: [Verdict; N]) {
        let rulings = judge(&pool.map(case), &Policy { spare, ..Policy::default() });
        assert_eq!(rulings.iter().map(|ruling| ruling.verdict).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_floor_holds_by_count_and_by_weight() {
        const BAD: Option<bool> = Some(false);
        check(0.5, [(10, None), (1, BAD), (1, None)], [Up, Down, Up]);
        check(0.5, [(10, None), (1, BAD), (1, BAD)], [Up, Down, Kept]);
        check(0.5, [(10, BAD), (1, None), (1, None)], [Kept, Up, Up]);
    }

    #[test]
    fn the_last_one_in_service_is_kept_even_without_a_floor() {
        check(1.0, [(1, Some(true))], [Kept]);
        check(1.0, [(1, Some(false)), (1, Some(true))], [Down, Kept]);
    }
}

#[cfg(test)]
mod properties {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::health::simulation::HTTP;

    proptest! {
        #[test]
        #[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
        fn soft_evidence_stays_within_the_floor_and_never_takes_the_last_one(
            cases in proptest::collection::vec(case(), 1..12),
            min_healthy in 0..=100_u32,
        ) {
            let policy = policy(min_healthy, false);
            let rulings = judge(&cases, &policy);
            let counts = |(case, ruling): &(&Case, &Ruling)| {
                case.proven && (!case.backup || case.passes && ruling.verdict.usable())
            };
            let members = cases.iter().zip(&rulings).filter(counts);
            let weight: u64 = members.clone().map(|(case, _)| u64::from(case.weight)).sum();
            let is_out = |(case, ruling): &(&Case, &Ruling)| {
                case.proven && !case.backup && ruling.verdict == Verdict::Down
            };
            let out = || cases.iter().zip(&rulings).filter(is_out);
            let is_hard = |case: &Case, silent: bool| !case.known || silent || case.due.is_some_and(|due| due.refused || due.hung);
            let soft = out().filter(|(case, ruling)| !is_hard(case, ruling.silent) && !ruling.hangs).count();
            if soft > 0 {
                prop_assert!(out().count() <= policy.spare_of(members.count()));
                let out_weight: u64 = out().map(|(case, _)| u64::from(case.weight)).sum();
                prop_assert!(out_weight as f64 <= policy.spare_weight(weight));
                prop_assert!(rulings.iter().any(|ruling| ruling.verdict.usable()), "the last one went");
            }
            for (case, ruling) in cases.iter().zip(&rulings) {
                prop_assert_eq!(ruling.verdict == Verdict::Joining, !case.proven && case.known);
                if case.proven && case.known && case.due.is_none() && !case.hangs {
                    prop_assert_eq!(ruling.verdict, Verdict::Up);
                }
            }
        }

        #[test]
        fn order_of_origins_means_nothing(cases in proptest::collection::vec(case(), 1..12), turn in 0..12_usize, fail: bool) {
            let policy = policy(50, fail);
            let mut cases = cases;
            // Ties are the one thing that position decides.
            for (at, case) in cases.iter_mut().enumerate() {
                if let Some(due) = &mut case.due {
                    due.since += Duration::from_millis(at as u64);
                }
                case.hangs = false;
            }
            let mut expected = judge(&cases, &policy);
            let turn = turn % cases.len();
            cases.rotate_left(turn);
            expected.rotate_left(turn);
            prop_assert_eq!(judge(&cases, &policy), expected);
        }

        #[test]
        fn panic_fail_changes_nothing_while_one_is_up(cases in proptest::collection::vec(case(), 1..12)) {
            let kept = judge(&cases, &policy(50, false));
            let failed = judge(&cases, &policy(50, true));
            if kept.iter().any(|ruling| ruling.verdict == Verdict::Up) {
                prop_assert_eq!(failed, kept);
            } else {
                prop_assert!(!failed.iter().any(|ruling| ruling.verdict.usable()));
            }
        }
    }

    fn policy(min_healthy: u32, fail: bool) -> Policy {
        Policy { probing: Some(HTTP), spare: 1.0 - f64::from(min_healthy) / 100.0, fail, slow_start: None }
    }

    prop_compose! {
        #[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
        fn case()(
            weight in 1..5_u32,
            known in prop::bool::weighted(0.95),
            proven in prop::bool::weighted(0.9),
            out: bool,
            since in prop::option::of(0..10_u64),
            refused in prop::bool::weighted(0.2),
            flags in any::<[bool; 6]>(),
            backup in prop::bool::weighted(0.2),
        ) -> Case {
            let [quiet, hung, hangs, passes, passes_long, answers] = flags;
            let due = since.map(|s| Due { since: Instant::now() + Duration::from_secs(s), refused, quiet, hung });
            Case {
                weight,
                backup,
                known,
                proven,
                outside: false,
                out,
                due,
                hangs,
                passes,
                passes_long: passes && passes_long,
                answers,
            }
        }
    }
}
