//! When does the process start, change its configuration, and leave?
//!
//! Signals become wishes ([`signals`]), wishes to reload are granted one at a time by the one task that writes snapshots
//! ([`reload`]), and the wish to leave ends [`serve`] once everybody has gone or had their time ([`Leave`]).

mod activation;
mod announce;
mod confirm;
mod descriptors;
mod difference;
mod engine;
mod growth;
pub mod handoff;
mod history;
mod inherited;
pub mod kept;
pub mod learned;
mod leave;
mod ledger;
mod movement;
mod notify;
mod outcome;
mod pending;
pub mod probing;
mod readiness;
pub mod recording;
pub mod reload;
pub mod renewal;
pub mod resolving;
mod server;
pub mod signals;
mod succession;
pub mod supervise;
pub mod watch;
mod wish;

pub use activation::{ActivationError, activated};
pub use announce::warn;
pub use descriptors::{max_connections, raise};
pub use engine::warn_of_engines;
pub use learned::{Learned, Teller, Unreadable, hear_since, none_under_way};
pub use leave::Leave;
pub use ledger::{ConfirmStatus, Ledger, TextStatus};
pub use movement::{Guarded, Movement, OriginEdit, PairMoved, ShareMoved, StepThatPasses};
pub use notify::Manager;
pub use outcome::{By, InForce, ReloadAsk, ReloadOutcome};
pub use readiness::Readiness;
pub use server::{Work, in_turn, serve};
pub use succession::Succession;
pub use wish::{Inbox, Reloads, Wish, wishes};
