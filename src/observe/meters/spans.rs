//! Spans of requests and their tries, by what became of them.

use super::super::metrics::Metrics;
use super::super::series::Counter;

/// Counts spans.
#[derive(Clone)]
pub(in crate::observe) struct SpanMeters {
    sent: Counter,
    dropped: Counter,
    refused: Counter,
    unsent: Counter,
}

impl Metrics {
    /// The meters of spans, all shown from then on.
    pub(in crate::observe) fn spans(&self) -> SpanMeters {
        let [sent, dropped, refused, unsent] =
            ["sent", "dropped", "refused", "unsent"].map(|result| self.all().spans.with(&[result]));
        SpanMeters { sent, dropped, refused, unsent }
    }
}

impl SpanMeters {
    /// The collector took so many.
    pub(in crate::observe) fn sent(&self, spans: u64) {
        self.sent.add(spans);
    }

    /// There was no room for so many.
    pub(in crate::observe) fn dropped(&self, spans: u64) {
        self.dropped.add(spans);
    }

    /// The collector does not want so many.
    pub(in crate::observe) fn refused(&self, spans: u64) {
        self.refused.add(spans);
    }

    /// So many were left when the process ended.
    pub(in crate::observe) fn unsent(&self, spans: u64) {
        self.unsent.add(spans);
    }

    /// How many were lost so far.
    pub(in crate::observe) fn lost(&self) -> u64 {
        self.dropped.value() + self.refused.value() + self.unsent.value()
    }
}
