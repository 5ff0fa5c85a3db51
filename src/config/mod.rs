//! What did the operator write? Plain data: no `Arc`, no atomics, no regex.

pub mod pool;
pub mod process;
pub mod report;
pub mod route;
pub mod units;

use indexmap::IndexMap;

pub use pool::Pool;
pub use process::{ClientLimits, Process};
pub use report::{Complaint, Invalid, Mistake, Report, Severity};
pub use route::Route;

/// The whole file, every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Always 1.
    pub version: u32,
    /// Fixed while the process lives.
    pub process: Process,
    /// What a client may cost us.
    pub client_limits: ClientLimits,
    /// Pools by name, in the order of the file.
    pub pools: IndexMap<String, Pool>,
    /// Routes in the order of the file (which has no meaning); never empty once loaded: without `routes`
    /// everything goes to the only pool.
    pub routes: Vec<Route>,
}
