//! A scriptable origin for the tests.
fn main() {}
