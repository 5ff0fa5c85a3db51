//! When does the process start, change its configuration, and leave?
//!
//! Signals become wishes ([`signals`]), wishes to reload are granted one at a time by the one task that writes snapshots
//! ([`reload`]), and the wish to leave ends [`serve`] once everybody has gone or had their time ([`Leave`]).

mod descriptors;
mod difference;
mod leave;
mod movement;
mod outcome;
pub mod probing;
mod readiness;
pub mod reload;
mod server;
pub mod signals;

pub use descriptors::{max_connections, raise};
pub use leave::Leave;
pub use movement::Movement;
pub use outcome::{InForce, ReloadAsk, ReloadOutcome};
pub use readiness::Readiness;
pub use server::{Work, serve};
