//! Which codings does a client take? `Accept-Encoding` with its weights (RFC 9110, section 12.5.3).
//!
//! Always: a coding that is refused anywhere in the header is not used, and no header at all asks for none.

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

use crate::config::compression::Algorithm;

/// The weight of what is named without one, in thousandths.
const FULL: u16 = 1000;

/// What a client said of the codings we know, in thousandths; `None`: nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Accepted {
    zstd: Option<u16>,
    br: Option<u16>,
    gzip: Option<u16>,
    identity: Option<u16>,
    other: Option<u16>,
}

impl Accepted {
    /// What the header says, all of its lines together.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut accepted = Self::default();
        for line in headers.get_all(ACCEPT_ENCODING) {
            for element in line.as_bytes().split(|byte| *byte == b',') {
                accepted.note(element);
            }
        }
        accepted
    }

    /// What the client likes best of `ours`, of equals the first; `None`: that nothing is done.
    pub(super) fn best(&self, ours: &[Algorithm]) -> Option<Algorithm> {
        let weighed = ours.iter().map(|algorithm| (*algorithm, self.weight(*algorithm)));
        let (best, weight) = weighed.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        (weight > 0 && self.identity.is_none_or(|identity| identity <= weight)).then_some(best)
    }

    fn weight(&self, algorithm: Algorithm) -> u16 {
        let said = match algorithm {
            Algorithm::Zstd => self.zstd,
            Algorithm::Br => self.br,
            Algorithm::Gzip => self.gzip,
        };
        said.or(self.other).unwrap_or(0)
    }

    fn note(&mut self, element: &[u8]) {
        let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        let place = match name {
            b"*" => &mut self.other,
            _ if is("gzip") || is("x-gzip") => &mut self.gzip,
            _ if is("br") => &mut self.br,
            _ if is("zstd") => &mut self.zstd,
            _ if is("identity") => &mut self.identity,
            _ => return,
        };
        let weight = parts.find_map(weight).unwrap_or(FULL);
        *place = Some(place.map_or(weight, |before| before.min(weight)));
    }
}

/// The weight, if `part` is one; what is no number is none at all.
fn weight(part: &[u8]) -> Option<u16> {
    let value = part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q="))?;
    Some(thousandths(value).unwrap_or(0))
}

fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, decimals) = match value {
        [whole] => (whole, &b""[..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let digit = |byte: u8| byte.is_ascii_digit().then(|| u16::from(byte - b'0'));
    let mut sum = digit(*whole)? * FULL;
    for (byte, unit) in decimals.iter().zip([100, 10, 1]) {
        sum += digit(*byte)? * unit;
    }
    (sum <= FULL).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: [Algorithm; 3] = [Algorithm::Zstd, Algorithm::Br, Algorithm::Gzip];

    fn best(lines: &[&str]) -> Option<Algorithm> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(ACCEPT_ENCODING, line.parse().unwrap());
        }
        Accepted::of(&headers).best(&OURS)
    }

    #[test]
    fn the_client_s_weights_decide_and_then_the_operator_s_order() {
        let (zstd, br, gzip) = (Some(Algorithm::Zstd), Some(Algorithm::Br), Some(Algorithm::Gzip));
        for (line, expected) in [
            ("gzip", gzip),
            ("x-gzip", gzip),
            ("GZIP", gzip),
            ("gzip, deflate, br, zstd", zstd),
            ("gzip, deflate, br", br),
            ("gzip;q=1.0, br;q=0.9", gzip),
            ("br ; q=0.001", br),
            ("br;Q=0.5,\tgzip;q=0.50", br),
            ("*", zstd),
            ("zstd;q=0, *", br),
            ("*;q=0.1, gzip;q=0.2", gzip),
            ("gzip, *;q=0", gzip),
            ("identity;q=0", None),
            ("identity;q=0, *;q=0.5", zstd),
            ("identity, gzip;q=0.5", None),
            ("identity;q=0.5, gzip;q=0.5", gzip),
            ("gzip;q=0", None),
            ("gzip;q=0.000, br;q=0", None),
            ("*;q=0", None),
            ("", None),
            ("deflate, compress", None),
            // a weight that is none, or a second word on the same coding, is no consent
            ("gzip;q=2", None),
            ("gzip;q=1.0000", None),
            ("gzip;q=", None),
            ("gzip;q=-1", None),
            ("gzip, gzip;q=0", None),
            ("gzip;level=9", gzip),
            (",, ,gzip,", gzip),
            ("gzipped, brotli", None),
        ] {
            assert_eq!(best(&[line]), expected, "{line:?}");
        }
    }

    #[test]
    fn lines_count_together_and_none_asks_for_nothing() {
        assert_eq!(best(&[]), None);
        assert_eq!(best(&["gzip;q=0.5", "br"]), Some(Algorithm::Br));
        assert_eq!(best(&["gzip", "gzip;q=0"]), None);
    }
}

#[cfg(test)]
mod properties {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn accepted(line: &[u8]) -> Accepted {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_bytes(line).unwrap());
        Accepted::of(&headers)
    }

    proptest! {
        #[test]
        fn any_header_is_read(line in proptest::collection::vec(prop_oneof![0x20_u8..0x7f, Just(b'\t'), 0x80_u8..], 0..60)) {
            accepted(&line).best(&[Algorithm::Gzip, Algorithm::Zstd]);
        }

        #[test]
        fn a_weight_prints_as_it_reads(weight in 0_u16..=FULL) {
            let text = format!("{}.{:03}", weight / FULL, weight % FULL);
            prop_assert_eq!(thousandths(text.as_bytes()), Some(weight));
            let short = text.trim_end_matches('0').trim_end_matches('.');
            prop_assert_eq!(thousandths(short.as_bytes()), Some(weight), "{}", short);
        }

        /// A plain model: the list sorted by weight, then by our order.
        #[test]
        fn the_best_is_the_heaviest(weights in proptest::array::uniform3(proptest::option::of(0_u16..=FULL)), identity in proptest::option::of(0_u16..=FULL), spaces in "[ \t]{0,2}") {
            let names = ["zstd", "br", "gzip"];
            let ours = [Algorithm::Zstd, Algorithm::Br, Algorithm::Gzip];
            let said = names.iter().zip(weights).chain([(&"identity", identity)]);
            let said = said.filter_map(|(name, weight)| {
                weight.map(|weight| format!("{name}{spaces};{spaces}q={}.{:03}", weight / FULL, weight % FULL))
            });
            let line = said.collect::<Vec<_>>().join(&format!("{spaces},{spaces}"));
            let mut order: Vec<_> = ours.iter().zip(weights).map(|(one, weight)| (weight.unwrap_or(0), *one)).collect();
            order.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
            let (weight, best) = order[0];
            let expected = (weight > 0 && identity.unwrap_or(0) <= weight).then_some(best);
            prop_assert_eq!(accepted(line.as_bytes()).best(&ours), expected, "{}", line);
        }
    }
}
