//! Which request is this? 32 hex digits for a request that came without an id of its own.
//!
//! Not a secret and not a UUID: it only has to be unlikely twice. The generator is the thread's own, so that no
//! lock, no system call and no allocation is on the way of a request.

use std::fmt;

/// 32 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RequestId([u8; 32]);

impl RequestId {
    /// A new one.
    pub fn random() -> Self {
        Self::from_bits(fastrand::u128(..))
    }

    fn from_bits(bits: u128) -> Self {
        let mut digits = [0; 32];
        for (place, half) in digits.chunks_exact_mut(8).zip([96, 64, 32, 0].map(|shift| (bits >> shift) as u32)) {
            place.copy_from_slice(&hex(half).to_be_bytes());
        }
        Self(digits)
    }

    /// Its digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Eight hex digits, the first in the highest byte: all at once, where a table would be asked for each.
fn hex(bits: u32) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut nibbles = u64::from(bits);
    nibbles = (nibbles << 16 | nibbles) & 0x0000_ffff_0000_ffff;
    nibbles = (nibbles << 8 | nibbles) & 0x00ff_00ff_00ff_00ff;
    nibbles = (nibbles << 4 | nibbles) & 0x0f0f_0f0f_0f0f_0f0f;
    // six more carries what is above nine into the half above
    let letters = (nibbles + 6 * ONES) >> 4 & ONES;
    nibbles + u64::from(b'0') * ONES + letters * u64::from(b'a' - b'0' - 10)
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_its_bits_in_hex() {
        let id = RequestId::from_bits(0x0123_4567_89ab_cdef_0000_0000_0000_000f);
        assert_eq!(id.as_str(), "0123456789abcdef000000000000000f");
    }

    #[test]
    fn ids_differ_between_requests_and_threads() {
        let many = || (0..1000).map(|_| RequestId::random().to_string()).collect::<Vec<_>>();
        let other = std::thread::spawn(many);
        let mut all = many();
        all.extend(other.join().unwrap());
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), 2000);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_id_reads_back_as_its_bits(bits in any::<u128>()) {
            let id = RequestId::from_bits(bits);
            prop_assert_eq!(id.as_str().len(), 32);
            prop_assert_eq!(u128::from_str_radix(id.as_str(), 16), Ok(bits));
        }
    }
}
