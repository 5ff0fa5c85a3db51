//! When does the process start, change its configuration, and leave?

mod outcome;

pub use outcome::{InForce, ReloadAsk, ReloadOutcome};
