//! The shipped binary against real origin processes on real sockets, one feature a file.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails, and it measures real time"
)]

mod offline;
mod origin_does_as_told;
mod placement;
#[allow(dead_code, unused_imports, reason = "the rig is whole, whatever part today's tests use")]
mod rig;
mod signals;
mod slow_clients;
