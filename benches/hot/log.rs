//! What does the line of a request cost its shard, in each format?

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use criterion::{BatchSize, Criterion, Throughput};
use http::{HeaderMap, HeaderValue, header};
use moorgate::config::process::{AccessFormat, Sink};
use moorgate::observe::access_log::Format;
use moorgate::observe::{AccessLog, Attempt, Metrics, Peer, Record};
use moorgate::template::Facts;

/// Fewer than what its writer is woken for, so that a shard has its buffer to itself.
const LINES: u64 = 100;

/// A request that the first origin answered.
fn with(measure: impl FnOnce(&Record<'_>)) {
    let agent = HeaderValue::from_static("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0");
    let headers = HeaderMap::from_iter([(header::USER_AGENT, agent)]);
    let peer = SocketAddr::from(([192, 0, 2, 7], 5000));
    let attempt = Attempt {
        origin: "10.20.1.11:8080",
        address: Peer::Ip(SocketAddr::from(([10, 20, 1, 11], 8080))),
        status: Some(200),
        connect_time: None,
        response_time: Duration::from_micros(11_042),
        reused: true,
        outcome: "ok",
        cache: Some("hit"),
    };
    let (host, target) = ("img.example.com", b"/images/2024/06/large/photo-0815.jpg?v=3&w=640");
    let facts = Facts {
        method: "GET",
        scheme: "http",
        host,
        host_port: host,
        target,
        headers: &headers,
        client_ip: peer.ip(),
        peer,
    };
    measure(&Record {
        facts,
        request_line: None,
        protocol: "HTTP/1.1",
        time: UNIX_EPOCH + Duration::from_millis(1_795_984_501_042),
        status: 200,
        bytes_sent: 48_213,
        bytes_received: 0,
        request_time: Duration::from_micros(11_345),
        request_id: "0123456789abcdef0123456789abcdef",
        route: Some("images"),
        pool: Some("origin"),
        ring: Some("00112233aabbccdd"),
        key: Some(b"img.example.com/images/2024/06/large/photo-0815.jpg?v=3&w=640"),
        attempts: &[attempt],
        error: None,
        limited: None,
        trace: None,
    });
}

/// All of it.
pub(crate) fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("log/100 lines");
    group.throughput(Throughput::Elements(LINES));
    let template = "{client_ip} {method} {host}{uri} {status} {request_time} {upstream_addr} {upstream_status}";
    let formats = [
        ("json", AccessFormat::Json),
        ("upstream", AccessFormat::Upstream),
        ("combined", AccessFormat::Combined),
        ("template", AccessFormat::Template(template.to_owned())),
    ];
    for (name, format) in formats {
        let metrics = Metrics::new().unwrap_or_else(|error| panic!("{error}"));
        let format = Format::compile(&format).unwrap_or_else(|error| panic!("{error:?}"));
        let sink = Sink::File(PathBuf::from("/dev/null"));
        let open = || AccessLog::open(&sink, &format, 1, &metrics).unwrap_or_else(|error| panic!("{error}"));
        let open = || {
            let log = open();
            (log.shard(0), log)
        };
        with(|record| {
            group.bench_function(name, |bench| {
                bench.iter_batched_ref(
                    open,
                    |(shard, _)| (0..LINES).for_each(|_| shard.write(record)),
                    BatchSize::PerIteration,
                );
            });
        });
        assert_eq!(metrics.access_log_lost(), 0);
    }
    group.finish();
}
