//! What does a template say for this request?

mod facts;

pub use facts::Facts;
