//! How long does it take to find a request's route, among 10, 100 and 1,000?
//!
//! `hosts`: each route has a host of its own. `prefixes`: all share one host. `regexes`: the same with a regex each.
//! `open regexes`: regexes that could begin with anything, the only kind whose time grows with their number.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use http::{HeaderMap, Method};
use moorgate::config::Route;
use moorgate::config::route::{Match, PathMatch};
use moorgate::routing::{Request, Table};

fn matches(host: String, path: PathMatch) -> Match {
    Match { hosts: vec![host], path: Some(path), ..Match::default() }
}

fn measure(c: &mut Criterion, name: &str, of: impl Fn(usize) -> Match, host: &str, path: &str) {
    let mut group = c.benchmark_group(format!("route/{name}"));
    for count in [10, 100, 1000] {
        let routes: Vec<_> = (0..count).map(|index| Route { matches: of(index), ..Route::default() }).collect();
        let Ok(table) = Table::compile(&routes) else { continue };
        let headers = HeaderMap::new();
        let (method, query, listener) = (&Method::GET, b"id=1&v=2", ([127, 0, 0, 1], 80).into());
        let request = Request { host, path, method, headers: &headers, query, scheme: "http", listener };
        assert_eq!(table.find(&request), Some(7));
        group.bench_with_input(BenchmarkId::from_parameter(count), &table, |bencher, table| {
            bencher.iter(|| table.find(black_box(&request)));
        });
    }
}

/// All of it.
pub(crate) fn benches(c: &mut Criterion) {
    let prefix = |index| PathMatch::Prefix(format!("/service-{index}/api"));
    let of_host = |index| matches(format!("shop-{index}.example.com"), prefix(index));
    measure(c, "hosts", of_host, "shop-7.example.com", "/service-7/api/items/42");
    let of_prefix = |index| matches("*.example.com".to_owned(), prefix(index));
    measure(c, "prefixes", of_prefix, "shop.example.com", "/service-7/api/items/42");
    let regex = |index| PathMatch::Regex(format!("/service-{index}/[a-z]+/[0-9]+"));
    let of_regex = |index| matches("*.example.com".to_owned(), regex(index));
    measure(c, "regexes", of_regex, "shop.example.com", "/service-7/items/42");
    let open = |index| PathMatch::Regex(format!("/[a-z]+/service-{index}"));
    let of_open = |index| matches("*.example.com".to_owned(), open(index));
    measure(c, "open regexes", of_open, "shop.example.com", "/items/service-7");
}
