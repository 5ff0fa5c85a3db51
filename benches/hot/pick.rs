//! What does it cost to choose an origin: all well, the owner out, nearly all out, all out, and without a key by each
//! algorithm?

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion};
use fastrand::Rng;
use moorgate::balance::hash;
use moorgate::config;
use moorgate::health::Verdict;
use moorgate::pool::{Ask, Pool};

const SIZES: [usize; 4] = [10, 100, 1000, 10_000];

fn pool_of(origins: usize, algorithm: &str, panic: &str) -> Pool {
    let mut text = String::from("version: 1\nprocess: { listeners: [ { address: 127.0.0.1:0 } ] }\npools:\n  p:\n");
    let _ = writeln!(text, "    balance: {{ algorithm: {algorithm} }}\n    health: {{ panic: {panic} }}\n    origins:");
    for number in 0..origins {
        let _ = writeln!(text, "      - 10.20.{}.{}:8080", number / 250, number % 250);
    }
    let loaded = config::parse("bench.yaml", &text).unwrap_or_else(|report| panic!("{report}"));
    let pool = loaded.config.pools.get("p").and_then(|pool| Pool::compile("p", pool, None, Instant::now()).ok());
    pool.unwrap_or_else(|| panic!("no pool"))
}

fn set(pool: &Pool, verdict: impl Fn(usize) -> Verdict) {
    for (number, member) in pool.members().iter().enumerate() {
        member.origin().health().publish(verdict(number));
    }
}

/// Hashes of as many keys as no cache holds the way to.
fn hashes() -> impl Iterator<Item = u32> {
    let hashes: Vec<u32> = (0..65_536).map(|number| hash(format!("/obj/{number}").as_bytes())).collect();
    hashes.into_iter().cycle()
}

fn pick(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pick");
    for origins in SIZES {
        let pool = pool_of(origins, "hash", "keep");
        let (mut next, mut random) = (hashes(), Rng::with_seed(1));
        let now = Instant::now();
        let mut run = |pool: &Pool, name: &str| {
            group.bench_function(BenchmarkId::new(name, origins), |bench| {
                bench.iter(|| {
                    let ask = Ask { hash: black_box(next.next()), tried: &[], now };
                    pool.pick(&ask, &mut random).map(|pick| pick.member)
                });
            });
        };
        run(&pool, "all up");
        set(&pool, |number| if number % 2 == 0 { Verdict::Down } else { Verdict::Up });
        run(&pool, "half down");
        set(&pool, |number| if number == 7 { Verdict::Up } else { Verdict::Down });
        run(&pool, "all but one down");
        set(&pool, |_| Verdict::Down);
        run(&pool, "all down, keep");
        let failing = pool_of(origins, "hash", "fail");
        set(&failing, |_| Verdict::Down);
        run(&failing, "all down, fail");
    }
    group.finish();
}

fn lease(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pick and lease");
    for origins in SIZES {
        let pool = pool_of(origins, "hash", "keep");
        let (mut next, mut random) = (hashes(), Rng::with_seed(1));
        let now = Instant::now();
        group.bench_function(BenchmarkId::new("by key", origins), |bench| {
            bench.iter(|| {
                let ask = Ask { hash: black_box(next.next()), tried: &[], now };
                pool.pick(&ask, &mut random).map(|pick| pick.lease(now))
            });
        });
        group.bench_function(BenchmarkId::new("spread", origins), |bench| {
            bench.iter(|| pool.pick(&Ask { hash: None, tried: &[], now }, &mut random).map(|pick| pick.lease(now)));
        });
    }
    group.finish();
}

fn without_a_key(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pick without a key");
    for origins in SIZES {
        for algorithm in ["round_robin", "least_in_flight", "p2c", "peak_ewma", "random"] {
            let pool = pool_of(origins, algorithm, "keep");
            let (mut random, now) = (Rng::with_seed(1), Instant::now());
            group.bench_function(BenchmarkId::new(algorithm, origins), |bench| {
                bench.iter(|| pool.pick(&Ask { hash: None, tried: &[], now }, &mut random).map(|pick| pick.member));
            });
        }
    }
    group.finish();
}

/// All of it.
pub(crate) fn benches(criterion: &mut Criterion) {
    pick(criterion);
    lease(criterion);
    without_a_key(criterion);
}
