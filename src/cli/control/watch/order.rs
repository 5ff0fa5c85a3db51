//! In which order do origins stand?

use std::cmp::Ordering;

use super::facts::{Origin, Text};
use super::trouble;

/// By what they are sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum By {
    /// Who needs you first.
    #[default]
    Need,
    Name,
    Share,
    Served,
    InFlight,
    Rate,
    Errors,
    P99,
}

impl By {
    const ALL: [Self; 8] =
        [Self::Need, Self::Name, Self::Share, Self::Served, Self::InFlight, Self::Rate, Self::Errors, Self::P99];

    /// What it is called.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Need => "need",
            Self::Name => "name",
            Self::Share => "share",
            Self::Served => "served",
            Self::InFlight => "in flight",
            Self::Rate => "req/s",
            Self::Errors => "errors",
            Self::P99 => "p99",
        }
    }
}

/// By what, and from which end; who is equal stays as in the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) by: By,
    pub(super) is_reversed: bool,
}

impl Order {
    /// By the next of all.
    pub(super) fn next(&mut self) {
        let at = By::ALL.iter().position(|by| *by == self.by).unwrap_or(0);
        let by = By::ALL.get(at + 1).copied().unwrap_or_default();
        *self = Self { by, is_reversed: false };
    }

    /// From the other end.
    pub(super) fn reverse(&mut self) {
        self.is_reversed = !self.is_reversed;
    }

    pub(super) fn sort(self, all: &mut [(&Text, &Origin)]) {
        let figure = |origin: &Origin| match self.by {
            By::Need | By::Name => 0.0,
            By::Share => origin.share,
            By::Served => origin.served.unwrap_or(-1.0),
            By::InFlight => origin.in_flight as f64,
            By::Rate => origin.rate,
            By::Errors => origin.error_ratio.unwrap_or(-1.0),
            By::P99 => origin.p99.unwrap_or(-1.0),
        };
        let compare = |(a, x): &(&Text, &Origin), (b, y): &(&Text, &Origin)| match self.by {
            By::Need => need(y).cmp(&need(x)),
            By::Name => a.cmp(b),
            _ => figure(y).total_cmp(&figure(x)),
        };
        all.sort_by(|a, b| {
            let order: Ordering = compare(a, b);
            if self.is_reversed { order.reverse() } else { order }
        });
    }
}

/// Who is parked needs nobody.
fn need(origin: &Origin) -> (bool, trouble::Grade) {
    (origin.belongs(), trouble::state(&origin.state.0).0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::facts::Pool;
    use super::*;

    #[test]
    fn every_order_is_reached_and_sorts_by_what_it_says() {
        let pool: Pool = serde_json::from_value(json!({ "origins": {
            "a": { "state": "up", "share": 0.5, "served": 0.1, "in_flight": 1, "rate": 9.0, "error_ratio": 0.0, "p99": 0.1 },
            "b": { "state": "parked", "share": 0.0 },
            "c": { "state": "down", "share": 0.2, "served": 0.9, "in_flight": 7, "rate": 1.0, "error_ratio": 0.5, "p99": 0.3 },
            "d": { "state": "up", "share": 0.3, "served": null, "in_flight": 0, "rate": 5.0, "error_ratio": null, "p99": 0.2 },
        } }))
        .unwrap();
        let mut order = Order::default();
        let mut seen = Vec::new();
        for _ in By::ALL {
            let mut all: Vec<_> = pool.origins.iter().collect();
            order.sort(&mut all);
            seen.push((order.by.word(), all.iter().map(|(name, _)| name.0.as_str()).collect::<String>()));
            order.next();
        }
        assert_eq!(order, Order::default());
        let seen: Vec<_> = seen.iter().map(|(word, names)| format!("{word} {names}")).collect();
        assert_eq!(
            seen,
            [
                "need cadb",
                "name abcd",
                "share adcb",
                "served cabd",
                "in flight cabd",
                "req/s adcb",
                "errors cabd",
                "p99 cdab"
            ]
        );
        order.reverse();
        let mut all: Vec<_> = pool.origins.iter().collect();
        order.sort(&mut all);
        assert_eq!(all[0].0.0, "b");
    }
}
