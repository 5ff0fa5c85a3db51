//! Pingora hooks, and nothing that decides.
