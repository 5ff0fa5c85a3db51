//! Pingora hooks, and nothing that decides.

pub mod reject;
pub mod watchdog;
pub mod wire;
