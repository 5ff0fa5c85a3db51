//! What does it cost to let a request in, with 10, 100 and 1,000 networks to look it up in, and to send its header on?

use std::hint::black_box;
use std::net::IpAddr;

use criterion::{BatchSize, BenchmarkId, Criterion};
use http::{HeaderValue, Version};
use ipnet::{IpNet, Ipv4Net};
use moorgate::config::{ClientLimits, route};
use moorgate::traffic::headers::{Sender, towards_client};
use moorgate::traffic::limits::{Size, check_host};
use moorgate::traffic::{Access, Answered, Forwarding, Limits, Target};
use pingora_http::{RequestHeader, ResponseHeader};

const TARGET: &[u8] = b"/images/2024/06/large/photo-0815.jpg?v=3&w=640";

/// A request with so many lines.
fn request(lines: usize) -> RequestHeader {
    let request = RequestHeader::build("GET", TARGET, Some(lines));
    let mut request = request.unwrap_or_else(|error| panic!("{error}"));
    let _ = request.insert_header("Host", "img.example.com");
    for line in 1..lines {
        let _ = request.append_header(format!("X-Line-{line}"), "some value of usual length");
    }
    request
}

fn answer() -> ResponseHeader {
    let mut answer = ResponseHeader::build(200, None).unwrap_or_else(|error| panic!("{error}"));
    for (name, value) in [("Server", "origin"), ("Content-Length", "97"), ("Connection", "keep-alive")] {
        let _ = answer.append_header(name, value);
    }
    answer
}

fn network(number: usize) -> Option<IpNet> {
    let address = [10, (number / 128) as u8, (number % 128 * 2) as u8, 0];
    Ipv4Net::new(address.into(), 24).ok().map(IpNet::V4)
}

fn access(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("access");
    for count in [10, 100, 1000] {
        let deny = (0..count).filter_map(network).collect();
        let access = Access::compile(&route::Access { allow: Vec::new(), deny });
        let client = IpAddr::from([10, 0, 7, 1]);
        assert!(access.admits(client));
        group.bench_function(BenchmarkId::from_parameter(count), |bench| {
            bench.iter(|| access.admits(black_box(client)));
        });
    }
    group.finish();
}

fn form(criterion: &mut Criterion) {
    let limits = Limits::compile(&ClientLimits::default());
    let mut group = criterion.benchmark_group("form");
    for lines in [1, 10, 100] {
        let request = request(lines);
        let size = Size { header_bytes: 64 * lines, uri_bytes: TARGET.len() };
        group.bench_function(BenchmarkId::new("lines", lines), |bench| {
            bench.iter(|| {
                let sized = limits.check(black_box(size), &request.headers);
                let hosted = check_host(Version::HTTP_11, None, &request.headers);
                (sized, hosted, Target::parse(b"GET", black_box(TARGET)).is_ok())
            });
        });
    }
    group.finish();
}

fn headers(criterion: &mut Criterion) {
    let forwarding = Forwarding::compile(&route::Forwarded::default());
    let host = HeaderValue::from_static("img.example.com");
    let peer = IpAddr::from([192, 0, 2, 7]);
    let id = b"0123456789abcdef0123456789abcdef";
    let sender = Sender { peer, client: peer, trusted: false, scheme: "http", host: Some(&host), request_id: id };
    let mut group = criterion.benchmark_group("headers");
    for lines in [1, 10, 100] {
        let request = request(lines);
        group.bench_function(BenchmarkId::new("towards the origin", lines), |bench| {
            let sent = |request: &mut RequestHeader| forwarding.towards_origin(request, &sender, None);
            bench.iter_batched_ref(|| request.clone(), sent, BatchSize::SmallInput);
        });
    }
    let answer = answer();
    group.bench_function("towards the client", |bench| {
        let sent = |answer: &mut ResponseHeader| towards_client(answer, Answered::of(&answer.headers));
        bench.iter_batched_ref(|| answer.clone(), sent, BatchSize::SmallInput);
    });
    group.finish();
}

/// All of it.
pub(crate) fn benches(criterion: &mut Criterion) {
    access(criterion);
    form(criterion);
    headers(criterion);
}
