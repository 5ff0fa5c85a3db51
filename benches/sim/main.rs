//! What do the rules about health and overload do for a pool in trouble? The table, with stepping beside without.
//!
//! The real ring, pick and state machine under made-up origins and requests, on a clock of its own: `make sim` plays hours
//! of trouble in seconds. What must hold of it stands in `tests/sim.rs`, which plays the same scenes.

#![allow(clippy::print_stdout, reason = "the table is what it is for")]
#![allow(clippy::panic, reason = "a scene that cannot be set up shows nothing")]

mod origin;
mod scene;
mod world;

use scene::{ALL, Outcome};

const SEEDS: std::ops::Range<u64> = 1..4;

fn main() {
    println!(
        "| trouble | stepping | goodput | 503 | not in time | above 0.2 s | misses | away | out | after: goodput | away | out |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for scene in ALL {
        for (overload, word) in [(false, "off"), (true, "on")] {
            let outcomes: Vec<Outcome> = SEEDS.map(|seed| scene.play(overload, seed)).collect();
            println!("| {} | {word} | {} |", scene.name, figures(&outcomes).join(" | "));
        }
    }
}

/// Means over the seeds, and the most origins that were out.
fn figures(outcomes: &[Outcome]) -> [String; 10] {
    let mean = |of: fn(&Outcome) -> f64| {
        format!("{:.1} %", 100.0 * outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64)
    };
    let most = |of: fn(&Outcome) -> usize| outcomes.iter().map(of).max().unwrap_or_default().to_string();
    [
        mean(|one| one.during.goodput()),
        mean(|one| one.during.part(one.during.busy)),
        mean(|one| one.during.part(one.during.late)),
        mean(|one| one.during.part(one.during.waited)),
        mean(|one| one.during.part(one.during.misses)),
        mean(|one| one.during.part(one.during.away)),
        most(|one| one.during.out),
        mean(|one| one.after.goodput()),
        mean(|one| one.after.part(one.after.away)),
        most(|one| one.after.out),
    ]
}
