//! How are figures written for people? One way for all tables of commands: `12.3%`, `2.1ms`, `2h 3m`; a dash for none.

use crate::config::units::Percent;

/// A part of a whole.
pub(super) fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), Percent::told)
}

/// A number without a needless fraction.
pub(super) fn number(number: Option<f64>) -> String {
    match number {
        Some(number) if number.fract() == 0.0 => format!("{number:.0}"),
        Some(number) => format!("{number:.2}"),
        None => "-".into(),
    }
}

/// So many a second.
pub(super) fn rate(number: f64) -> String {
    match number {
        0.0 => "0".into(),
        few if few < 0.05 => "<0.1".into(),
        some if some < 100.0 => format!("{some:.1}"),
        many => format!("{many:.0}"),
    }
}

/// The time of an answer.
pub(super) fn time(seconds: Option<f64>) -> String {
    match seconds {
        Some(seconds) if seconds < 1.0 => format!("{:.1}ms", seconds * 1000.0),
        Some(seconds) => format!("{seconds:.2}s"),
        None => "-".into(),
    }
}

/// A length of time, in its two largest units.
pub(super) fn span(seconds: Option<f64>) -> String {
    let Some(seconds) = seconds else { return "-".into() };
    if seconds < 60.0 {
        return format!("{seconds:.1}s");
    }
    let minutes = seconds as u64 / 60;
    match (minutes / 1440, minutes / 60 % 24, minutes % 60) {
        (0, 0, minutes) => format!("{minutes}m {}s", seconds as u64 % 60),
        (0, hours, minutes) => format!("{hours}h {minutes}m"),
        (days, hours, _) => format!("{days}d {hours}h"),
    }
}

/// A digest as far as it is needed to tell it from another.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_two_units() {
        for (seconds, expected) in
            [(0.04, "0.0s"), (59.0, "59.0s"), (61.0, "1m 1s"), (3_660.0, "1h 1m"), (90_000.0, "1d 1h")]
        {
            assert_eq!(span(Some(seconds)), expected);
        }
    }

    #[test]
    fn rates_have_the_digits_that_matter() {
        for (number, expected) in [(0.0, "0"), (0.01, "<0.1"), (0.25, "0.2"), (99.94, "99.9"), (1234.4, "1234")] {
            assert_eq!(rate(number), expected);
        }
    }
}
