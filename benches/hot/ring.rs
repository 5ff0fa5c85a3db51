//! What does it cost to build a ring, to find an owner on it, and to walk on from there?

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use moorgate::balance::{Ring, hash, moved};

const SIZES: [usize; 3] = [10, 100, 1000];

fn ring_of(origins: usize) -> Ring {
    let names = names(origins);
    Ring::new(&members(&names))
}

fn names(origins: usize) -> Vec<String> {
    (0..origins).map(|number| format!("10.20.{}.{}:8080", number / 250, number % 250)).collect()
}

fn members(names: &[String]) -> Vec<(&str, u32)> {
    names.iter().map(|name| (name.as_str(), 1)).collect()
}

/// Hashes of as many keys as no cache holds the way to.
fn hashes() -> Vec<u32> {
    (0..65_536).map(|number| hash(format!("/obj/{number}").as_bytes())).collect()
}

fn lookup(criterion: &mut Criterion) {
    let hashes = hashes();
    let mut group = criterion.benchmark_group("lookup");
    for origins in SIZES {
        let ring = ring_of(origins);
        let mut next = hashes.iter().copied().cycle();
        group.bench_function(BenchmarkId::new("owner", origins), |bench| {
            bench.iter(|| ring.owner(black_box(next.next().unwrap_or_default())));
        });
        group.bench_function(BenchmarkId::new("owner and successor", origins), |bench| {
            bench.iter(|| ring.walk(black_box(next.next().unwrap_or_default())).nth(1));
        });
        group.bench_function(BenchmarkId::new("whole walk", origins), |bench| {
            bench.iter(|| ring.walk(black_box(next.next().unwrap_or_default())).count());
        });
    }
    let heavy = Ring::new(&[("a:1", 1000), ("b:1", 1000), ("c:1", 1)]);
    let mut next = hashes.iter().copied().cycle();
    group.bench_function("whole walk past heavy members", |bench| {
        bench.iter(|| heavy.walk(black_box(next.next().unwrap_or_default())).count());
    });
    group.finish();
}

fn build(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("build");
    for origins in SIZES {
        let names = names(origins);
        let members = members(&names);
        group.bench_function(BenchmarkId::new("ring", origins), |bench| bench.iter(|| Ring::new(black_box(&members))));
        let (before, after) = (ring_of(origins), ring_of(origins + origins / 2));
        group.bench_function(BenchmarkId::new("moved", origins), |bench| bench.iter(|| moved(&before, &after)));
    }
    group.finish();
}

/// All of it.
pub(crate) fn benches(criterion: &mut Criterion) {
    lookup(criterion);
    build(criterion);
}
