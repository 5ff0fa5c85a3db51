//! What would a change of a pool move? As a refused reload tells it: in the shape of `plan`, by the hash circle.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::config::units::Percent;
use crate::snapshot::guard::Judgement;

/// Pairs that are told at most; between a thousand origins there are more than anybody reads.
const PAIRS: usize = 100;

/// What moves in a pool whose guard refuses that; all numbers are parts of the hash circle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Movement {
    /// The part that gets another owner, all of it when keys are made in another way.
    pub moved_ratio: f64,
    /// The least that has to move to get from the shares before to those after.
    pub least_possible: f64,
    /// From whom to whom, the greatest first.
    pub pairs: Vec<PairMoved>,
    /// What each origin owns, by name.
    pub shares: IndexMap<String, ShareMoved>,
    /// What the guard says of it.
    pub guard: Guarded,
}

/// A part that goes from one origin to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairMoved {
    /// The owner before.
    pub from: String,
    /// The owner after.
    pub to: String,
    /// How much.
    pub share: f64,
}

/// What an origin owns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ShareMoved {
    /// Before the change.
    pub before: f64,
    /// After it.
    pub after: f64,
}

/// A guard's word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Guarded {
    /// The most that may move.
    pub max_moved: f64,
    /// What counts as moved, with all of the last ten minutes, and without what nobody may use.
    pub moved: f64,
    /// Is it more?
    pub refused: bool,
    /// The greatest step that would pass.
    pub step: Option<StepThatPasses>,
}

/// A part of the change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepThatPasses {
    /// What counts as moved then.
    pub moved: f64,
    /// Which origins change.
    pub origins: Vec<OriginEdit>,
}

/// An origin that gets another weight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginEdit {
    /// Its name.
    pub name: String,
    /// Weight before; 0: it is new.
    pub before: u32,
    /// Weight after; 0: it goes.
    pub after: u32,
}

impl Movement {
    /// As a guard judged it.
    pub(super) fn of(judgement: Judgement) -> Self {
        let guard = Guarded::of(&judgement);
        let circle = judgement.circle;
        let pairs = circle.pairs.into_iter().take(PAIRS);
        let shares = circle.shares.into_iter();
        Self {
            moved_ratio: if guard.moved >= 1.0 { guard.moved } else { circle.ratio },
            least_possible: circle.least_possible,
            pairs: pairs.map(|pair| PairMoved { from: pair.from, to: pair.to, share: pair.share }).collect(),
            shares: shares.map(|(name, one)| (name, ShareMoved { before: one.before, after: one.after })).collect(),
            guard,
        }
    }
}

impl Guarded {
    /// What it says of a change.
    pub fn of(judgement: &Judgement) -> Self {
        let step = judgement.step.as_ref().map(|step| {
            let edits = step.edits.iter();
            let edits = edits.map(|edit| OriginEdit { name: edit.name.clone(), before: edit.from, after: edit.to });
            StepThatPasses { moved: step.moved, origins: edits.collect() }
        });
        Self { max_moved: judgement.max_moved, moved: judgement.moved, refused: judgement.refuses(), step }
    }
}

impl fmt::Display for Movement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} would move, guard.max_moved is {}",
            Percent::told(self.guard.moved),
            Percent::told(self.guard.max_moved)
        )?;
        match &self.guard.step {
            Some(step) => {
                let edits: Vec<String> = step.origins.iter().map(ToString::to_string).collect();
                write!(f, "; a step that passes: {} ({})", edits.join(", "), Percent::told(step.moved))
            }
            None => f.write_str("; no step passes now"),
        }
    }
}

impl fmt::Display for OriginEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.before, self.after) {
            (0, 1) => write!(f, "add {}", self.name),
            (0, weight) => write!(f, "add {} with weight {weight}", self.name),
            (_, 0) => write!(f, "remove {}", self.name),
            (_, weight) => write!(f, "give {} weight {weight}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_reads_as_what_to_do_instead() {
        let edit = |name: &str, before, after| OriginEdit { name: name.to_owned(), before, after };
        let origins = vec![edit("a", 0, 1), edit("b", 0, 3), edit("c", 2, 0), edit("d", 2, 5)];
        let step = Some(StepThatPasses { moved: 0.182, origins });
        let mut movement = Movement {
            moved_ratio: 0.384,
            least_possible: 0.33,
            pairs: Vec::new(),
            shares: IndexMap::new(),
            guard: Guarded { max_moved: 0.2, moved: 0.384, refused: true, step },
        };
        let steps = "add a, add b with weight 3, remove c, give d weight 5 (18.2%)";
        let said = "38.4% would move, guard.max_moved is 20.0%";
        assert_eq!(movement.to_string(), format!("{said}; a step that passes: {steps}"));
        movement.guard.step = None;
        assert_eq!(movement.to_string(), format!("{said}; no step passes now"));
    }
}
