//! Which trace is a request part of, and what is its origin told of it? W3C Trace Context, level 1.
//!
//! What cannot be read is as if it had not come. The trace a client names goes on whatever is recorded of it; one that is
//! not recorded here, and was not before, goes on byte for byte.

use std::fmt;

/// The version that is written, and its length: `00-<trace>-<parent>-<flags>`.
const LENGTH: usize = 55;
const SAMPLED: u8 = 1;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// 16 bytes, not all of them zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceId(u128);

/// The value of a `traceparent` line.
pub type Header = [u8; LENGTH];

/// Where a trace comes from: what `traceparent` of a request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    trace: TraceId,
    span: u64,
    recorded: bool,
}

/// The place of a request in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    trace: TraceId,
    parent: Option<u64>,
    span: u64,
    recorded: bool,
    /// What came can go on as it is.
    passes: bool,
}

impl TraceId {
    /// As bytes.
    pub(super) fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// As 32 hex digits.
    pub fn hex(self) -> [u8; 32] {
        let mut digits = [0; 32];
        write_hex(&self.bytes(), &mut digits);
        digits
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Origin {
    /// Reads the value of the only `traceparent` line; of a version to come what is known of it.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (known, more) = value.split_at_checked(LENGTH)?;
        let dashes = [2, 35, 52].iter().all(|at| known.get(*at) == Some(&b'-'));
        let version = number(known.get(..2)?)?;
        let may_go_on = more.is_empty() || version > 0 && more.first() == Some(&b'-');
        if !dashes || version == 0xff || !may_go_on {
            return None;
        }
        let trace = number(known.get(3..35)?).filter(|id| *id > 0)?;
        let span = number(known.get(36..52)?).filter(|id| *id > 0)?;
        let flags = number(known.get(53..)?)?;
        let (trace, span) = (TraceId(trace), u64::try_from(span).ok()?);
        Some(Self { trace, span, recorded: flags & u128::from(SAMPLED) > 0 })
    }

    /// Does it say that it is recorded?
    pub(super) fn is_recorded(&self) -> bool {
        self.recorded
    }
}

impl Context {
    /// A request that came from there, or begins a trace of its own.
    pub(super) fn new(from: Option<Origin>, recorded: bool) -> Self {
        let trace = from.map_or_else(|| TraceId(fastrand::u128(1..)), |from| from.trace);
        let passes = !recorded && from.is_some_and(|from| !from.recorded);
        Self { trace, parent: from.map(|from| from.span), span: fastrand::u64(1..), recorded, passes }
    }

    /// Its trace.
    pub fn trace(&self) -> TraceId {
        self.trace
    }

    /// Are its spans kept?
    pub fn is_recorded(&self) -> bool {
        self.recorded
    }

    /// Did it come with a trace?
    pub fn has_parent(&self) -> bool {
        self.parent.is_some()
    }

    /// What the origin of its try of this number, from 1, is told in place of what came; `None`: that goes on.
    pub fn header(&self, attempt: usize) -> Option<Header> {
        if self.passes {
            return None;
        }
        let mut header = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_hex(&self.trace.bytes(), &mut header[3..35]);
        write_hex(&self.attempt(attempt), &mut header[36..52]);
        write_hex(&[if self.recorded { SAMPLED } else { 0 }], &mut header[53..]);
        Some(header)
    }

    pub(super) fn parent(&self) -> Option<[u8; 8]> {
        self.parent.map(u64::to_be_bytes)
    }

    pub(super) fn span(&self) -> [u8; 8] {
        self.span.to_be_bytes()
    }

    /// The span of the try of this number, from 1: it follows from the request's, so that nobody has to remember it.
    pub(super) fn attempt(&self, number: usize) -> [u8; 8] {
        // The finaliser of SplitMix64, which gives different numbers for different ones.
        let mut mixed = self.span.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).max(1).to_be_bytes()
    }
}

/// Lower-case hex digits, as the specification has them.
fn number(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

fn write_hex(bytes: &[u8], digits: &mut [u8]) {
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAME: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn parse(text: &str) -> Option<Origin> {
        Origin::parse(text.as_bytes())
    }

    fn text(header: Option<Header>) -> String {
        header.map_or_else(String::new, |header| String::from_utf8(header.to_vec()).unwrap())
    }

    #[test]
    fn a_trace_is_read_as_the_specification_has_it() {
        let came = parse(CAME).unwrap();
        assert_eq!((came.trace.0, came.span), (0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7));
        assert!(came.recorded);
        for (flags, recorded) in [("00", false), ("02", false), ("03", true), ("ff", true)] {
            let came = parse(&format!("{}{flags}", &CAME[..53])).unwrap();
            assert_eq!(came.recorded, recorded, "{flags}");
        }
        let later = format!("cc{}", &CAME[2..]);
        assert_eq!(parse(&later), Some(came));
        assert_eq!(parse(&format!("{later}-what-will-be")), Some(came));
    }

    #[test]
    fn what_is_no_trace_is_as_if_it_had_not_come() {
        let upper = CAME.to_uppercase();
        let wrong = [
            "",
            "00",
            upper.as_str(),
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
        ];
        for wrong in wrong {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_origin_is_told_of_the_span_of_its_own_try() {
        let context = Context::new(parse(CAME), true);
        let told = [1, 2].map(|attempt| parse(&text(context.header(attempt))).unwrap());
        assert_eq!([told[0].trace, told[1].trace], [context.trace; 2]);
        assert_eq!(told.map(|told| told.span.to_be_bytes()), [1, 2].map(|attempt| context.attempt(attempt)));
        assert!(told[0].span != told[1].span && told[0].span != context.span && told[0].recorded);
        assert_eq!(context.parent, Some(0x00f0_67aa_0ba9_02b7));
    }

    #[test]
    fn what_is_not_recorded_goes_on_as_it_came_unless_it_says_otherwise() {
        let not_recorded = format!("{}00", &CAME[..53]);
        assert_eq!(Context::new(parse(&not_recorded), false).header(1), None);
        let taken_back = parse(&text(Context::new(parse(CAME), false).header(1))).unwrap();
        let came = parse(CAME).unwrap();
        assert!(!taken_back.recorded && taken_back.trace == came.trace && taken_back.span != came.span);
        let made = Context::new(None, false);
        assert!(text(made.header(1)).ends_with("-00") && !made.has_parent());
        assert_ne!(made.trace, Context::new(None, false).trace);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_written_reads_back(trace in 1u128.., span in 1u64.., recorded: bool, attempt in 1usize..100) {
            let context = Context { trace: TraceId(trace), parent: None, span, recorded, passes: false };
            let read = Origin::parse(&context.header(attempt).unwrap()).unwrap();
            prop_assert_eq!((read.trace, read.recorded), (context.trace, recorded));
            prop_assert_eq!(read.span.to_be_bytes(), context.attempt(attempt));
        }

        #[test]
        fn any_bytes_may_come(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            Origin::parse(&bytes);
        }
    }
}
