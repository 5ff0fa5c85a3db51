//! Origins serving the same thing, and what was learned of them.
