//! Which origin owns this key? Pure arithmetic: time and randomness are arguments.
//!
//! A key is hashed once ([`hash`]); everything else about its place follows from that number and from the names
//! and weights of the pool: the [`ring`] says who owns it and who comes next, [`moved()`] what a change of the pool
//! moves, [`step`] how far it may go at once. Nothing here knows health, load or configuration, so equal pools place keys
//! equally on every replica.

pub mod arcs;
pub mod least;
pub mod moved;
pub mod ring;
pub mod step;

pub use arcs::Arcs;
pub use moved::{Moved, moved};
pub use ring::Ring;
pub use step::{Edit, Scale, Step};

/// The place of a key on the hash circle: its CRC-32, as nginx's `hash … consistent` takes it.
pub fn hash(key: &[u8]) -> u32 {
    crc32fast::hash(key)
}

/// A number in [0, 1) that depends on the key alone, the same for every origin: an origin that may take the part
/// `f` of its share takes the keys with `u < f`.
pub fn u(hash: u32) -> f64 {
    f64::from(fmix32(hash)) / 4_294_967_296.0
}

/// The finaliser of murmur3: every bit of the input changes every bit of the result, so that `u` says nothing
/// about where on the circle a key is.
fn fmix32(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x85eb_ca6b);
    h ^= h >> 13;
    h = h.wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u_has_its_published_values() {
        assert_eq!(fmix32(1), 0x514e_28b7);
        assert_eq!(format!("{:.6}", u(hash(b"/obj/0"))), "0.072554");
        assert_eq!(format!("{:.6}", u(hash(b"/obj/1"))), "0.476650");
    }

    #[test]
    fn u_is_below_one_for_every_hash() {
        assert!([0, 1, u32::MAX, 0x8000_0000].into_iter().all(|h| (0.0..1.0).contains(&u(h))));
    }
}
