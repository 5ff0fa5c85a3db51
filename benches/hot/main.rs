//! What do the paths that every request takes cost, one by one?
//!
//! One program, so that it is linked once: `make bench` measures, `make smoke` runs each once without a figure.

#![allow(clippy::panic, reason = "a bench that cannot set up has nothing to measure")]
#![allow(clippy::disallowed_methods, reason = "any instant will do to count from")]

mod admit;
mod compression;
mod form;
mod key;
mod log;
mod pick;
mod ring;
mod route;

use criterion::Criterion;

/// mimalloc, as in what is shipped: allocations are part of what is measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let all = [
        key::benches,
        ring::benches,
        pick::benches,
        route::benches,
        form::benches,
        admit::benches,
        compression::benches,
        log::benches,
    ];
    all.iter().for_each(|benches| benches(&mut criterion));
    criterion.final_summary();
}
