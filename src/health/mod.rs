//! May this origin be used? Evidence in, verdict out: pure state, the clock is an argument.
//!
//! [`Live`] is what an origin's verdict is read from, [`Board`] the same for a whole pool at a glance.

pub mod address;
pub mod board;
pub mod live;
pub mod verdict;

pub use address::{Address, Endpoint};
pub use board::Board;
pub use live::Live;
pub use verdict::Verdict;
