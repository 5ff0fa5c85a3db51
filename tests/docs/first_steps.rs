//! Does a newcomer get through? Every line of `docs/first-steps.md` is typed, and every answer is the one on the page.

use super::page::Page;
use super::place::Place;

/// The binary of the tests is the one that these would build.
const BUILDS: [&str; 3] = ["make demo", "cargo build", "export PATH="];

#[test]
fn a_newcomer_gets_through() {
    Place::new().walk(&Page::read("docs/first-steps.md"), &BUILDS);
}
