//! Which plain numbers are taken? Each field names its limits, once for reading and for the schema.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

use super::fault::refuse;
use super::report::Invalid;
use super::units::{Auto, Off};

/// A number from `MIN` to `MAX`, for `#[serde(deserialize_with = "number::within::<_, _, 1, 1000>")]`.
pub(super) fn within<'de, D, T, const MIN: u32, const MAX: u32>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u32>,
{
    let Within(number) = Within::<MIN, MAX>::deserialize(deserializer)?;
    narrow(number)
}

/// The same, or off.
pub(super) fn within_or_off<'de, D, T, const MIN: u32, const MAX: u32>(deserializer: D) -> Result<Off<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u32>,
{
    match Off::<Within<MIN, MAX>>::deserialize(deserializer)? {
        Off::Off => Ok(Off::Off),
        Off::On(Within(number)) => narrow(number).map(Off::On),
    }
}

/// The same, or `auto`.
pub(super) fn within_or_auto<'de, D, T, const MIN: u32, const MAX: u32>(deserializer: D) -> Result<Auto<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u32>,
{
    match deserializer.deserialize_any(Number { min: MIN, max: MAX, or_auto: true })? {
        None => Ok(Auto::Auto),
        Some(number) => narrow(number).map(Auto::Fixed),
    }
}

/// A number from `MIN` to `MAX` for a key that may be left out.
pub(super) fn within_or_none<'de, D, T, const MIN: u32, const MAX: u32>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u32>,
{
    within::<D, T, MIN, MAX>(deserializer).map(Some)
}

fn narrow<T: TryFrom<u32>, E: de::Error>(number: u32) -> Result<T, E> {
    T::try_from(number).map_err(|_| refuse(&Invalid::new(format!("found \"{number}\""), "expected a smaller number")))
}

struct Within<const MIN: u32, const MAX: u32>(u32);

impl<'de, const MIN: u32, const MAX: u32> Deserialize<'de> for Within<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = deserializer.deserialize_any(Number { min: MIN, max: MAX, or_auto: false })?;
        Ok(Self(number.unwrap_or(MIN)))
    }
}

struct Number {
    min: u32,
    max: u32,
    or_auto: bool,
}

impl de::Visitor<'_> for Number {
    /// `None` is `auto`.
    type Value = Option<u32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let auto = if self.or_auto { "auto or " } else { "" };
        match self.max {
            _ if self.min == self.max => write!(f, "{auto}{}", self.min),
            u32::MAX if self.min == 0 => write!(f, "{auto}a number"),
            u32::MAX => write!(f, "{auto}a number from {}", self.min),
            _ => write!(f, "{auto}a number from {} to {}", self.min, self.max),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Option<u32>, E> {
        if self.or_auto && text == "auto" {
            return Ok(None);
        }
        let is_plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match text.parse() {
            Ok(number) if is_plain && (self.min..=self.max).contains(&number) => Ok(Some(number)),
            _ => Err(E::invalid_type(de::Unexpected::Str(text), &self)),
        }
    }
}
