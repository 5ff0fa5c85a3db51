//! Did two things go on at the same time? Judgements that compare origins have to be made from what was seen of them
//! together: what one did before the other failed, or after it was asked last, says nothing about the other.

use std::time::Instant;

/// From a first moment to a last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub from: Instant,
    /// The last.
    pub to: Instant,
}

impl Span {
    /// Did both go on at some moment?
    pub fn meets(&self, other: &Self) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// Many spans, of which it can be told fast how many meet another one.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// Where they begin, in order,
    from: Vec<Instant>,
    /// and where they end.
    to: Vec<Instant>,
}

impl Spans {
    /// How many meet this one? All, but for those over before it and those that begin after it.
    pub(super) fn meeting(&self, span: &Span) -> usize {
        let begun = self.from.partition_point(|from| *from <= span.to);
        let over = self.to.partition_point(|to| *to < span.from);
        begun.saturating_sub(over)
    }

    /// One of them goes.
    pub(super) fn remove(&mut self, span: &Span) {
        for (moments, gone) in [(&mut self.from, span.from), (&mut self.to, span.to)] {
            if let Ok(at) = moments.binary_search(&gone) {
                moments.remove(at);
            }
        }
    }
}

impl FromIterator<Span> for Spans {
    fn from_iter<I: IntoIterator<Item = Span>>(spans: I) -> Self {
        let (mut from, mut to): (Vec<_>, Vec<_>) = spans.into_iter().map(|span| (span.from, span.to)).unzip();
        from.sort_unstable();
        to.sort_unstable();
        Self { from, to }
    }
}

#[cfg(test)]
mod properties {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        #[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
        fn as_many_meet_a_span_as_do_one_by_one(
            spans in proptest::collection::vec((0..50_u64, 0..20_u64), 0..40),
            asked in (0..50_u64, 0..20_u64),
            gone in 0..40_usize,
        ) {
            let start = Instant::now();
            let at = |(from, length): (u64, u64)| {
                let from = start + Duration::from_secs(from);
                Span { from, to: from + Duration::from_secs(length) }
            };
            let mut plain: Vec<Span> = spans.into_iter().map(at).collect();
            let mut all: Spans = plain.iter().copied().collect();
            let asked = at(asked);
            let meeting = |plain: &[Span]| plain.iter().filter(|span| span.meets(&asked)).count();
            prop_assert_eq!(all.meeting(&asked), meeting(&plain));
            if gone < plain.len() {
                all.remove(&plain.swap_remove(gone));
            }
            prop_assert_eq!(all.meeting(&asked), meeting(&plain));
        }
    }
}
