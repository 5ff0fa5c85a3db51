//! Pingora hooks, and nothing that decides.

pub mod wire;
