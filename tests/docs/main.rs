//! Do the documents tell the truth? Their commands are typed into a shell, the shipped binary at hand, and have to say what
//! stands below them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails, and it measures real time"
)]

mod errors;
mod first_steps;
mod in_passing;
mod meanings;
mod meanings_of_keys;
mod meanings_of_wishes;
mod page;
mod pages;
mod place;
#[allow(dead_code, reason = "nothing listens here but what the pages start")]
#[path = "../origin/ports.rs"]
mod ports;
mod refusals;
mod said;
mod shell;
