//! All a request may read, compiled once and never changed.
