//! Who of a pool goes, and who is kept? Rules H2, H3 and H5, over all origins of a pool at once.
//!
//! Always holds: soft evidence leaves at least `min_healthy` of the pool in service by count and by weight, unless
//! `panic: fail` finds nobody well anyway; it never takes the last one while another answer is possible; and the same
//! cases give the same rulings in whatever order evidence came. Judged anew at every change, so whoever was ejected
//! softly comes back as kept when hard evidence uses the limit up.

use std::time::{Duration, Instant};

use super::span::{Span, Spans};
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
    /// Requests hang there since ten seconds: when the last of them timed out.
    pub hangs: Option<Instant>,
    /// Its latest run of bad probes, if it counts: from the first of them to when the last was asked for.
    pub failed: Option<Span>,
    /// Its latest probe passed.
    pub passes: bool,
    /// The run of good probes that it belongs to, if that counts.
    pub passed: Option<Span>,
    /// Every probe of the last ten seconds passed.
    pub passes_long: bool,
    /// It answered a request within the last ten seconds.
    pub answers: bool,
    /// Since when it answers without a long gap, if it does still.
    pub answers_since: Option<Instant>,
}

/// Who was awake for so long before a request to another timed out would have seen that one answer as well: all that
/// pause in step answer again within less of each other.
const BESIDE: Duration = Duration::from_millis(2500);

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

/// What in the pool vouches for the rest: evidence against one counts only beside another that did well meanwhile.
struct Others {
    answering: usize,
    /// The first since when one answers that does so still.
    answering_since: Option<Instant>,
    /// Runs of good probes of ten seconds or more.
    passing_long: Spans,
}

impl Others {
    fn count(cases: &[Case]) -> Self {
        let vouching = || cases.iter().filter(|case| case.proven && case.vouches());
        let is_quiet = |case: &Case| case.due.is_some_and(|due| due.quiet);
        // Nobody asks for them otherwise.
        let asked = cases.iter().any(is_quiet);
        let long = cases.iter().filter(|case| asked && case.proven && case.passes_long);
        Self {
            answering: vouching().count(),
            answering_since: vouching().filter_map(|case| case.answers_since).min(),
            passing_long: long.filter_map(|case| case.passed).collect(),
        }
    }

    /// Did another pass all its probes for ten seconds, while this one failed its own?
    fn passed_beside(&self, case: &Case) -> bool {
        case.failed.is_some_and(|failed| self.passing_long.meeting(&failed) > 0)
    }

    /// Did another answer for a while before the last request to this one timed out, and does it still? It was silent
    /// for ten seconds itself, so that it is not the one that did.
    fn answered_beside(&self, case: &Case) -> bool {
        let pair = self.answering_since.zip(case.hangs);
        pair.is_some_and(|(since, timed_out)| timed_out.saturating_duration_since(since) >= BESIDE)
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
    /// Of those serving, the ones whose latest probe passed,
    passing: usize,
    /// and their runs of good ones.
    passed: Spans,
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
        ruling.hangs = others.answered_beside(case);
        let hung = ruling.hangs || case.due.is_some_and(|due| due.hung);
        ruling.silent = case.due.is_some_and(|due| due.quiet) && others.passed_beside(case);
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
        case.passed.iter().for_each(|run| self.passed.remove(run));
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
        if due.is_empty() {
            return;
        }
        let serves = |(case, ruling): &(&Case, &Ruling)| !case.outside && ruling.verdict.usable() && case.counts();
        self.passed = cases.iter().zip(&*rulings).filter(serves).filter_map(|(case, _)| case.passed).collect();
        due.sort_by_key(|at| cases.get(*at).map(|case| (!case.backup, !case.out, case.due.map(|due| due.since))));
        for at in due {
            if let (Some(case), Some(ruling)) = (cases.get(at), rulings.get_mut(at))
                && self.may_go(case, ruling, policy)
            {
                ruling.verdict = Verdict::Down;
                self.dismiss(case);
            }
        }
    }

    fn may_go(&self, case: &Case, ruling: &Ruling, policy: &Policy) -> bool {
        let others = self.serving.saturating_sub(usize::from(case.counts()));
        let by_probes = !ruling.hangs && case.due.is_some_and(|due| !due.hung);
        let vouched = self.passing_beside(case, by_probes) * 2 >= others;
        let by_count = self.out < policy.spare_of(self.members);
        let by_weight = (self.out_weight + u64::from(case.weight)) as f64 <= policy.spare_weight(self.weight);
        others > 0 && vouched && (case.backup || by_count && by_weight)
    }

    /// How many others passed their latest probe? If it is `by_probes` that it is due, while it failed its own: what was
    /// seen of them at another time says nothing, as when all pause and one is found well before the rest. Who is out
    /// already was judged once.
    fn passing_beside(&self, case: &Case, by_probes: bool) -> usize {
        let (passing, own) = match case.failed.filter(|_| by_probes && !case.out) {
            Some(failed) => (self.passed.meeting(&failed), case.passed.is_some_and(|run| run.meets(&failed))),
            None => (self.passing, case.passes),
        };
        passing.saturating_sub(usize::from(own && case.counts()))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::Verdict::{Down, Kept, Up};
    use super::*;
    use crate::health::simulation::HTTP;

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
            hangs: None,
            failed: None,
            passes: due.unwrap_or(true),
            passed: None,
            passes_long: false,
            answers: false,
            answers_since: None,
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

    /// A pool of four HTTP-probed origins whose first hangs, as of second 20; the others answer from a second on.
    fn hung(timed_out: u64, answering_since: Option<u64>) -> Verdict {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let accused = Case { hangs: Some(at(timed_out)), ..case((1, None)) };
        let answers_since = answering_since.map(at);
        let other = Case { answers: true, answers_since, ..case((1, None)) };
        let policy = Policy { probing: Some(HTTP), spare: 0.5, ..Policy::default() };
        judge(&[accused, other, other, other], &policy)[0].verdict
    }

    #[test]
    fn whoever_hangs_goes_beside_those_that_answer_all_the_while() {
        assert_eq!(hung(20, Some(0)), Down);
        assert_eq!(hung(20, Some(17)), Down, "they answered for three seconds, and it did not");
    }

    #[test]
    fn whoever_paused_with_all_is_not_condemned_by_the_first_that_answers_again() {
        assert_eq!(hung(20, Some(18)), Up, "it may be next");
        assert_eq!(hung(20, Some(20)), Up);
        assert_eq!(hung(20, Some(21)), Up, "nothing timed out since");
        assert_eq!(hung(20, None), Up, "they answered when it did, and no more");
    }

    /// Of four one failed its probes from second 10 to 14, the others passed theirs in this time.
    fn failed_beside(out: bool, passed: (u64, u64)) -> Verdict {
        let start = Instant::now();
        let run = |(from, to)| Span { from: start + Duration::from_secs(from), to: start + Duration::from_secs(to) };
        let accused = Case { failed: Some(run((10, 14))), out, ..case((1, Some(false))) };
        let other = Case { passed: Some(run(passed)), ..case((1, None)) };
        let policy = Policy { spare: 0.5, ..Policy::default() };
        judge(&[other, other, accused, other], &policy)[2].verdict
    }

    #[test]
    fn whoever_fails_goes_beside_those_that_passed_meanwhile() {
        assert_eq!(failed_beside(false, (0, 15)), Down);
        assert_eq!(failed_beside(false, (0, 10)), Down);
        assert_eq!(failed_beside(false, (14, 15)), Down);
    }

    #[test]
    fn what_was_seen_of_others_at_another_time_says_nothing() {
        assert_eq!(failed_beside(false, (15, 16)), Kept, "all were bad, and it was not asked since");
        assert_eq!(failed_beside(false, (0, 9)), Kept, "they were not asked since it failed");
        assert_eq!(failed_beside(true, (15, 16)), Down, "who is out comes back by its own probes");
    }

    #[test]
    fn silence_ejects_beside_those_that_passed_meanwhile_only() {
        let start = Instant::now();
        let run = |(from, to)| Span { from: start + Duration::from_secs(from), to: start + Duration::from_secs(to) };
        let ruled = |passed| {
            let accused = Case { failed: Some(run((10, 20))), ..case((9, Some(false))) };
            let due = accused.due.map(|due| Due { quiet: true, ..due });
            let other = Case { passed: Some(run(passed)), passes_long: true, ..case((1, None)) };
            let ruling = judge(&[Case { due, ..accused }, other], &Policy { spare: 0.5, ..Policy::default() })[0];
            (ruling.verdict, ruling.silent)
        };
        assert_eq!(ruled((0, 30)), (Down, true));
        assert_eq!(ruled((21, 35)), (Kept, false), "it was not asked since they are well again");
        assert_eq!(ruled((0, 9)), (Kept, false), "they were not asked since it fell silent");
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
                if case.proven && case.known && case.due.is_none() && case.hangs.is_none() {
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
                case.hangs = None;
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
        Policy { probing: Some(HTTP), spare: 1.0 - f64::from(min_healthy) / 100.0, fail, ..Policy::default() }
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
            runs in any::<[(u8, u8); 2]>(),
            answers_since in prop::option::of(0..10_u64),
        ) -> Case {
            let [quiet, hung, hangs, passes, passes_long, answers] = flags;
            let at = |second| Instant::now() + Duration::from_secs(second);
            let second = |byte: u8| u64::from(byte % 10);
            let run = |(from, length)| Span { from: at(second(from)), to: at(second(from) + second(length)) };
            let due = since.map(|s| Due { since: Instant::now() + Duration::from_secs(s), refused, quiet, hung });
            Case {
                weight,
                backup,
                known,
                proven,
                outside: false,
                out,
                due,
                hangs: hangs.then(|| at(10)),
                failed: due.is_some().then(|| run(runs[0])),
                passes,
                passed: passes.then(|| run(runs[1])),
                passes_long: passes && passes_long,
                answers,
                answers_since: answers_since.map(at).filter(|_| answers),
            }
        }
    }
}
