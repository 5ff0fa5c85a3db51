//! What does it cost to make the key of a request, and the arguments in it?

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use http::HeaderMap;
use moorgate::config::pool::Args;
use moorgate::template::{Facts, Scope, Template, args::Policy};

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

fn args(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("args");
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let policies = [
        ("all", Args::All),
        ("keep", Args::Keep(names(&["v", "w", "id"]))),
        ("drop", Args::Drop(names(&["utm_*", "fbclid", "gclid"]))),
    ];
    let queries = [
        ("sorted", "v=3&w=640"),
        ("unsorted", "w=640&utm_source=letter&v=3&utm_campaign=june&fbclid=IwAR0abc&id=0815"),
        ("spelt oddly", "w=%36%34%30&%76=3&caf%c3%a9=%41&a+b=c%20d"),
    ];
    for (policy, written) in policies {
        let compiled = Policy::compile(&written).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        for (name, query) in queries {
            let mut out = Vec::with_capacity(1024);
            group.throughput(Throughput::Bytes(query.len() as u64));
            group.bench_function(BenchmarkId::new(policy, name), |bench| {
                bench.iter(|| {
                    out.clear();
                    compiled.render(black_box(query.as_bytes()), &mut out);
                    out.len()
                });
            });
        }
    }
    group.finish();
}

/// All of it.
pub(crate) fn benches(criterion: &mut Criterion) {
    key(criterion);
    args(criterion);
}
