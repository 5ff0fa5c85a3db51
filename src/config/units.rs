//! What does a written value mean? Durations, sizes, shares, rates and names, parsed once at the edge: after
//! `config` no string stands for a number or a choice.
//!
//! Every type prints what it parses (`parse(print(x)) == x`), so that `dump` writes a file that loads again.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::fault::refuse;
use super::reader::OFF;
use super::report::Invalid;
use super::written::{Written, written};

pub use super::address::Address;

/// A length of time, written as a number and a unit: `us`, `ms`, `s`, `m` or `h` (`500ms`, `1.5s`, `5m`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Duration(pub time::Duration);

/// A number of bytes, written plain or with `KiB`, `MiB` or `GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bytes(pub u64);

/// A share between 0 % and 100 %, written with its sign (`20%`).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Percent(pub f64);

/// A multiple above 1, written with its sign (`3x`).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Times(pub f64);

/// Events in a second, written `10/s` (also `/m` and `/h`).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Rate(pub f64);

/// `off` (also `false`), or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Off<T> {
    /// Switched off.
    #[default]
    Off,
    /// Switched on, with its settings.
    On(T),
}

/// `auto`, or a number chosen by the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Auto<T> {
    /// Derived from the machine at start.
    #[default]
    Auto,
    /// As written.
    Fixed(T),
}

/// What something is called in logs, metrics and on the ring: no spaces, no control characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name(pub(super) String);

written!(Duration, Bytes, Percent, Times, Rate, Name);

impl Duration {
    /// So many seconds.
    pub(super) const fn seconds(n: u64) -> Self {
        Self(time::Duration::from_secs(n))
    }
}

/// Nanoseconds of each unit, the largest first.
const TIME_UNITS: [(&str, u128); 5] =
    [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];

impl Written for Duration {
    const EXPECTED: &'static str = "a time with its unit, such as 500ms, 10s or 5m";

    fn parse(text: &str) -> Option<Self> {
        if text == "0" {
            return Some(Self::default());
        }
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = text.split_at(digits);
        let (_, nanos) = TIME_UNITS.iter().find(|(name, _)| *name == unit)?;
        let total = times(number, *nanos)?;
        Some(Self(time::Duration::from_nanos(u64::try_from(total).ok()?)))
    }

    fn print(&self) -> String {
        let nanos = self.0.as_nanos();
        let fits = TIME_UNITS.iter().find(|(_, unit)| nanos > 0 && nanos.is_multiple_of(*unit));
        match fits {
            Some((name, unit)) => format!("{}{name}", nanos / unit),
            None if nanos == 0 => "0s".to_owned(),
            None => format!("{}.{:03}us", nanos / 1000, nanos % 1000),
        }
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["string", "integer"], "pattern": r"^\d+(\.\d+)?(us|ms|s|m|h)$", "maximum": 0 })
    }
}

/// `number` (digits, at most one point and nine decimals) times `unit`, when that is a whole.
fn times(number: &str, unit: u128) -> Option<u128> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || part.is_empty() || part.len() > 9 || part.contains('.') {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(part.len()).ok()?);
    let whole: u128 = whole.parse::<u64>().ok()?.into();
    let part = part.parse::<u128>().ok()?.checked_mul(unit)?;
    if !part.is_multiple_of(scale) {
        return None;
    }
    whole.checked_mul(unit)?.checked_add(part / scale)
}

/// Bytes of each unit, the largest first.
const SIZE_UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

impl Written for Bytes {
    const EXPECTED: &'static str = "a number of bytes, plain or in KiB, MiB or GiB";

    fn parse(text: &str) -> Option<Self> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let (_, bytes) = SIZE_UNITS.iter().find(|(name, _)| *name == unit)?;
        number.parse::<u64>().ok()?.checked_mul(*bytes).map(Self)
    }

    fn print(&self) -> String {
        let fits = SIZE_UNITS.iter().find(|(_, unit)| self.0 > 0 && self.0.is_multiple_of(*unit));
        let (name, unit) = fits.unwrap_or(&("", 1));
        format!("{}{name}", self.0 / unit)
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["string", "integer"], "pattern": r"^\d+(KiB|MiB|GiB)?$", "minimum": 0 })
    }
}

impl Written for Percent {
    const EXPECTED: &'static str = "a share from 0% to 100%, with its sign";

    fn parse(text: &str) -> Option<Self> {
        let share = plain_number(text.strip_suffix('%')?.trim_end())?;
        (share <= 100.0).then_some(Self(share))
    }

    fn print(&self) -> String {
        format!("{}%", self.0)
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^\d+(\.\d+)?\s*%$" })
    }
}

impl Percent {
    /// A part of one as people read it: `38.4%`.
    pub fn told(part: f64) -> String {
        format!("{:.1}%", part * 100.0)
    }

    /// As a part of one.
    pub fn ratio(self) -> f64 {
        self.0 / 100.0
    }
}

impl Written for Times {
    const EXPECTED: &'static str = "a multiple above 1 with its sign, such as 3x";

    fn parse(text: &str) -> Option<Self> {
        let times = plain_number(text.strip_suffix('x')?)?;
        (times > 1.0).then_some(Self(times))
    }

    fn print(&self) -> String {
        format!("{}x", self.0)
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^\d+(\.\d+)?x$" })
    }
}

/// Seconds of each unit.
const RATE_UNITS: [(&str, f64); 3] = [("s", 1.0), ("m", 60.0), ("h", 3600.0)];

impl Written for Rate {
    const EXPECTED: &'static str = "a rate such as 10/s, 30/m or 5/h";

    fn parse(text: &str) -> Option<Self> {
        let (number, unit) = text.split_once('/')?;
        let (_, seconds) = RATE_UNITS.iter().find(|(name, _)| *name == unit)?;
        Some(Self(plain_number(number)? / seconds))
    }

    fn print(&self) -> String {
        let whole = |(_, seconds): &&(&str, f64)| {
            let number = (self.0 * seconds).round();
            number / seconds == self.0
        };
        match RATE_UNITS.iter().find(whole) {
            Some((name, seconds)) => format!("{}/{name}", (self.0 * seconds).round()),
            None => format!("{}/s", self.0),
        }
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^\d+(\.\d+)?/(s|m|h)$" })
    }
}

/// Digits with at most one point; no sign, no exponent, no "inf".
pub(super) fn plain_number(text: &str) -> Option<f64> {
    let is_plain =
        text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.parse().ok().filter(|n: &f64| is_plain && n.is_finite())
}

impl Written for Name {
    const EXPECTED: &'static str = "a name without spaces and control characters";

    fn parse(text: &str) -> Option<Self> {
        let is_name =
            !text.is_empty() && text.len() <= 255 && !text.contains(|c: char| c.is_whitespace() || c.is_control());
        is_name.then(|| Self(text.to_owned()))
    }

    fn print(&self) -> String {
        self.0.clone()
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["string", "number"], "pattern": r"^\S{1,255}$" })
    }
}

impl<T> Off<T> {
    /// The settings, or `None` when off.
    pub fn on(&self) -> Option<&T> {
        match self {
            Self::Off => None,
            Self::On(value) => Some(value),
        }
    }
}

impl<T: Serialize> Serialize for Off<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_str("off"),
            Self::On(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Off<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OffOr<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for OffOr<T> {
            type Value = Off<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("off or a value")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Off<T>, E> {
                Ok(Off::Off)
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Off<T>, D::Error> {
                T::deserialize(deserializer).map(Off::On)
            }
        }

        deserializer.deserialize_newtype_struct(OFF, OffOr(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Off<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OffOr{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "enum": ["off", false] }, generator.subschema_for::<T>()] })
    }
}

impl<T: Serialize> Serialize for Auto<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Fixed(value) => value.serialize(serializer),
        }
    }
}

impl<T: JsonSchema> JsonSchema for Auto<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("AutoOr{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": "auto" }, generator.subschema_for::<T>()] })
    }
}

/// A time that has to pass at least once, for `#[serde(deserialize_with = "time_above_zero")]`.
pub(super) fn time_above_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let time = Duration::deserialize(deserializer)?;
    if time.0.is_zero() {
        return Err(refuse(&Invalid::new(format!("found \"{}\"", time.print()), "expected a time above zero")));
    }
    Ok(time)
}

/// A part of a share that is some of it: without any request nothing would be learned of an origin.
pub(super) fn share_above_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Percent, D::Error> {
    let share = Percent::deserialize(deserializer)?;
    if share.0 <= 0.0 {
        return Err(refuse(&Invalid::new(format!("found \"{}\"", share.print()), "expected a share above 0%")));
    }
    Ok(share)
}

/// A size that leaves room for something.
pub(super) fn bytes_above_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    let bytes = Bytes::deserialize(deserializer)?;
    if bytes.0 == 0 {
        return Err(refuse(&Invalid::new("found \"0\"", "expected a size above zero")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Written + PartialEq + fmt::Debug>(text: &str, value: T, printed: &str) {
        assert_eq!(T::parse(text), Some(value), "{text}");
        assert_eq!(T::parse(text).unwrap().print(), printed, "{text}");
    }

    #[test]
    fn durations_take_a_number_and_a_unit() {
        let nanos = |n| Duration(time::Duration::from_nanos(n));
        check("10s", Duration::seconds(10), "10s");
        check("90s", Duration::seconds(90), "90s");
        check("120s", Duration::seconds(120), "2m");
        check("1.5s", nanos(1_500_000_000), "1500ms");
        check("500ms", nanos(500_000_000), "500ms");
        check("24h", Duration::seconds(86_400), "24h");
        check("7us", nanos(7_000), "7us");
        check("1.001us", nanos(1_001), "1.001us");
        check("0", nanos(0), "0s");
        check("0h", nanos(0), "0s");
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in
            ["", "s", "10", "10 s", "-1s", "1e3s", "10sec", ".5s", "5.s", "1.2.3s", "1.00000000001s", "1.0001us"]
        {
            assert_eq!(Duration::parse(text), None, "{text}");
        }
        assert_eq!(Duration::parse("99999999999999999999h"), None);
    }

    #[test]
    fn sizes_are_plain_or_binary() {
        check("64KiB", Bytes(65_536), "64KiB");
        check("1048576", Bytes(1 << 20), "1MiB");
        check("2GiB", Bytes(2 << 30), "2GiB");
        check("1000", Bytes(1000), "1000");
        check("0", Bytes(0), "0");
        for text in ["", "64KB", "64k", "-1", "1.5KiB", "KiB", "99999999999GiB"] {
            assert_eq!(Bytes::parse(text), None, "{text}");
        }
    }

    #[test]
    fn shares_carry_their_sign() {
        check("20%", Percent(20.0), "20%");
        check("0.5%", Percent(0.5), "0.5%");
        check("100%", Percent(100.0), "100%");
        assert_eq!(Percent(20.0).ratio(), 0.2);
        for text in ["", "20", "0.2", "101%", "-1%", "inf%", "nan%", "1e1%", "%"] {
            assert_eq!(Percent::parse(text), None, "{text}");
        }
    }

    #[test]
    fn multiples_are_above_one() {
        check("3x", Times(3.0), "3x");
        check("1.5x", Times(1.5), "1.5x");
        for text in ["", "3", "x", "1x", "0.5x", "-2x", "infx", "3 x", "1e1x"] {
            assert_eq!(Times::parse(text), None, "{text}");
        }
    }

    #[test]
    fn rates_are_by_second_minute_or_hour() {
        check("10/s", Rate(10.0), "10/s");
        check("90/m", Rate(1.5), "90/m");
        check("5/h", Rate(5.0 / 3600.0), "5/h");
        check("0/s", Rate(0.0), "0/s");
        for text in ["", "10", "10/d", "-1/s", "/s", "10/", "inf/s"] {
            assert_eq!(Rate::parse(text), None, "{text}");
        }
    }

    #[test]
    fn names_hold_no_spaces() {
        assert!(Name::parse("10.0.0.1:80").is_some());
        assert!(Name::parse("bücher").is_some());
        for text in ["", "two words", "tab\t", "nul\0", &"x".repeat(256)] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_printed_parses_to_the_same(nanos in any::<u64>(), bytes in any::<u64>(), share in 0.0..=100.0) {
            let time = Duration(time::Duration::from_nanos(nanos));
            prop_assert_eq!(Duration::parse(&time.print()), Some(time));
            prop_assert_eq!(Bytes::parse(&Bytes(bytes).print()), Some(Bytes(bytes)));
            prop_assert_eq!(Percent::parse(&Percent(share).print()), Some(Percent(share)));
            prop_assert_eq!(Rate::parse(&Rate(share).print()), Some(Rate(share)));
        }

        #[test]
        fn no_text_panics(text in any::<String>(), number in "[0-9.]{0,40}(us|ms|s|m|h|KiB|GiB|%|/m)") {
            for text in [text, number] {
                let _ = (Duration::parse(&text), Bytes::parse(&text), Percent::parse(&text), Rate::parse(&text));
            }
        }
    }
}
