//! What kind of memory does a gateway hold?

use std::fs;

use crate::rig::{Gateway, gateway, origin};

const POOL: &str = "pools: { p: { origins: $origins, health: { probe: off } } }\n";

/// May the kernel give it huge pages, and how many KiB are in such? `None`: a kernel that has none.
fn huge_pages(gateway: &Gateway) -> Option<(bool, u64)> {
    let number = |file: &str, name: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/{file}", gateway.pid())).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_end_matches("kB").trim().parse().unwrap())
    };
    fs::metadata("/sys/kernel/mm/transparent_hugepage").ok()?;
    Some((number("status", "THP_enabled:")? == 1, number("smaps_rollup", "AnonHugePages:")?))
}

#[test]
fn memory_is_in_small_pages_unless_huge_ones_are_asked_for() {
    let a = origin("a");
    let usual = gateway(POOL).origins([&a]).start();
    assert_eq!(usual.get("/").status, 200);
    let Some(pages) = huge_pages(&usual) else { return };
    assert_eq!(pages, (false, 0));
    let other = gateway(POOL).origins([&a]).environment("MIMALLOC_ALLOW_THP", "1").start();
    assert_eq!(other.get("/").status, 200);
    assert!(huge_pages(&other).is_some_and(|(may, _)| may));
}
