//! How does the next process take over from this one, without a request lost? Rules U1 to U4.
//!
//! Two processes and a line between them. Each side is a state machine without sockets or clocks ([`giver`],
//! [`taker`]); [`give`] and [`take`] do what these decide; what is said is [`message`]. Always: at most one of them
//! accepts, and until the next one has served for a while, whatever goes wrong leads back to the running one serving as
//! if nothing had happened.

#[cfg(test)]
mod faults;
pub mod give;
pub mod giver;
pub mod line;
pub mod message;
#[cfg(test)]
mod model;
pub mod rights;
pub mod take;
pub mod taker;
pub mod upgrades;
