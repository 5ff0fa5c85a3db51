//! What does a template say for this request?
