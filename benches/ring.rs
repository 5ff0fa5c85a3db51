//! What does it cost to build a ring, to find an owner on it, and to make a key?

#![allow(missing_docs, reason = "criterion's macros write undocumented items")]

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use http::HeaderMap;
use moorgate::balance::{Ring, hash, moved};
use moorgate::template::{Facts, Scope, Template, args::Policy};

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

fn key(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("key");
    let headers = HeaderMap::new();
    let template = Template::compile("{host}{path}{args}", Scope::Key);
    let Ok(template) = template else { return };
    let long = format!("/?{}", "a&".repeat(4096));
    let unsorted = format!("/?{}", (0..1000).rev().map(|n| format!("{n:03}=%41&")).collect::<String>());
    let targets = [
        ("usual", "/images/2024/06/large/photo-0815.jpg?v=3&w=640"),
        ("odd", "/a/%7euser/./x%2fy/../caf\u{e9}?z=1&a=%41&t=b"),
        ("8 KiB of one name", &long),
        ("1000 names in reverse", &unsorted),
    ];
    for (name, target) in targets {
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 4711));
        let facts = Facts {
            method: "GET",
            scheme: "http",
            host: "img.example.com",
            host_port: "img.example.com",
            target: target.as_bytes(),
            headers: &headers,
            client_ip: peer.ip(),
            peer,
        };
        group.throughput(Throughput::Bytes(target.len() as u64));
        group.bench_function(BenchmarkId::new("render", name), |bench| {
            bench.iter_batched_ref(
                || Vec::with_capacity(32 * 1024),
                |out| template.render(black_box(&facts), &Policy::All, out).is_ok(),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, lookup, build, key);
criterion_main!(benches);
