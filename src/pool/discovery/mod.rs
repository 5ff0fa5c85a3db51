//! Where are the origins? Names -> origins.
//!
//! An origin that is written by name is at one address, which [`Names`] keeps; a pool that names a DNS name instead of
//! its origins has whoever [`Seeker`] finds there. Both ask in the background, so that no request waits for a name, and
//! to both an answer that failed says nothing: a DNS server that is away takes no origin away. [`Dns`] is who is asked.

mod dns;
mod names;
mod roll;
mod seeker;
mod source;

pub use dns::{Answer, Dns, Unanswered};
pub use names::{Addresses, Names, Resolution, resolve};
pub use roll::{Answered, Place, Roll};
pub use seeker::{Finding, Seeker, Sought};
pub use source::{Source, Told};
