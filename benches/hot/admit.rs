//! What does a request cost within our own hooks, on a connection like a client's?
//!
//! `admit`: from the first hook to "this is your route, and you may", and what was held given back. `to an origin`: the same,
//! then the key, the pick, the peer to connect to, and the end, with its line in the log. `alone` has one pool and nothing
//! else; `dutiful` has a thousand routes, proxies that are trusted, networks that are let in, and a rate for each client.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion};
use moorgate::config;
use moorgate::config::process::{AccessFormat, Sink};
use moorgate::observe::access_log::Format;
use moorgate::observe::{AccessLog, Metrics};
use moorgate::proxy::Gateway;
use moorgate::proxy::wire::{Buffers, Farewell, Home, Wire};
use moorgate::snapshot::{Snapshot, Store};
use pingora_core::protocols::GetProxyDigest as _;
use pingora_core::protocols::l4::stream::Stream;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_http::ResponseHeader;
use pingora_proxy::{ProxyHttp as _, Session};
use tokio::runtime::{Builder, Runtime};

const REQUEST: &[u8] = b"GET /images/2024/06/large/photo-0815.jpg?v=3&w=640 HTTP/1.1\r\nHost: img-7.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0)\r\nAccept: image/*\r\nAccept-Encoding: gzip, br\r\n\
    X-Forwarded-For: 192.0.2.7\r\n\r\n";

/// One pool of ten origins, and nothing beside.
fn alone() -> String {
    let mut text = String::from(
        "version: 1\nprocess: { listeners: [ { address: 127.0.0.1:0 } ] }\n\
         client_limits: { keepalive_requests: 4000000000 }\npools:\n  p:\n    origins:\n",
    );
    (0..10).for_each(|number| _ = writeln!(text, "      - 10.20.1.{number}:8080"));
    text
}

/// The same with all that is asked before an origin is.
fn dutiful() -> String {
    let mut text = alone() + "trusted_proxies: [ 127.0.0.0/8 ]\nroutes:\n";
    for number in 0..1000 {
        let _ = writeln!(
            text,
            "  - {{ name: r{number}, pool: p, match: {{ hosts: [ img-{number}.example.com ], path: {{ prefix: /images }} }}, \
             access: {{ allow: [ 192.0.2.0/24, 198.51.100.0/24 ], deny: [ 192.0.2.128/25 ] }}, \
             limits: {{ rate: [ {{ name: per-client, rate: 1000000/s, burst: 1000000 }} ] }} }}"
        );
    }
    text
}

/// A shard of the gateway, and a request that came to it.
struct Shard {
    runtime: Runtime,
    gateway: Gateway,
    session: Session,
    _log: AccessLog,
    _client: TcpStream,
}

impl Shard {
    fn new(text: &str) -> Self {
        let loaded = config::parse("bench.yaml", text).unwrap_or_else(|report| panic!("{report}"));
        let metrics = Metrics::new().unwrap_or_else(|error| panic!("{error}"));
        let snapshot = Snapshot::compile(&loaded.config, None, &metrics, Instant::now());
        let snapshot = snapshot.unwrap_or_else(|complaints| panic!("{complaints:?}"));
        let limits = Arc::clone(snapshot.client_limits());
        let format = Format::compile(&AccessFormat::Json).unwrap_or_else(|error| panic!("{error:?}"));
        let log = AccessLog::open(&Sink::File(PathBuf::from("/dev/null")), &format, 1, &metrics);
        let log = log.unwrap_or_else(|error| panic!("{error}"));
        let gateway = Gateway::new(Arc::new(Store::new(snapshot)), log.shard(0), 0, Arc::new(|| Ok(())));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap_or_else(|error| panic!("{error}"));
        let home = Home::new(
            SocketAddr::from(([127, 0, 0, 1], 80)),
            false,
            Arc::new(AtomicBool::new(false)),
            Farewell::default(),
            Buffers::new(1 << 20, &metrics),
        );
        let (client, session) = runtime.block_on(async {
            let (client, server, peer) = connection().unwrap_or_else(|error| panic!("{error}"));
            let wire = Wire::new(peer, peer, Arc::new(home), limits);
            let header = Box::new(ResponseHeader::build(200, None).unwrap_or_else(|error| panic!("{error}")));
            let mut stream = Stream::from(server);
            stream.set_proxy_digest(ProxyDigest::new(header, Some(Box::new(wire))));
            let mut session = Session::new_h1(Box::new(stream));
            let read = session.as_downstream_mut().read_request().await;
            assert!(read.unwrap_or_else(|error| panic!("{error}")), "no request");
            (client, session)
        });
        Self { runtime, gateway, session, _log: log, _client: client }
    }

    /// So many times: is it ours to send on?
    fn admit(&mut self, times: u64) {
        let Self { runtime, gateway, session, .. } = self;
        runtime.block_on(async {
            for _ in 0..times {
                let mut ctx = gateway.new_ctx();
                let begun = gateway.early_request_filter(session, &mut ctx).await;
                let answered = gateway.request_filter(session, &mut ctx).await;
                assert!(begun.is_ok() && matches!(answered, Ok(false)), "not admitted");
            }
        });
    }

    /// So many times: whom is it sent to, and what is told of it in the end?
    fn send_on(&mut self, times: u64) {
        let Self { runtime, gateway, session, .. } = self;
        runtime.block_on(async {
            for _ in 0..times {
                let mut ctx = gateway.new_ctx();
                let begun = gateway.early_request_filter(session, &mut ctx).await;
                let answered = gateway.request_filter(session, &mut ctx).await;
                let peer = gateway.upstream_peer(session, &mut ctx).await;
                assert!(begun.is_ok() && matches!(answered, Ok(false)) && peer.is_ok(), "not sent on");
                gateway.logging(session, None, &mut ctx).await;
            }
        });
    }
}

/// Both ends of one, with the request on its way.
fn connection() -> std::io::Result<(TcpStream, tokio::net::TcpStream, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    client.write_all(REQUEST)?;
    let (server, peer) = listener.accept()?;
    server.set_nonblocking(true)?;
    Ok((client, tokio::net::TcpStream::from_std(server)?, peer))
}

/// All of it.
pub(crate) fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hooks");
    for (name, text) in [("alone", alone()), ("dutiful", dutiful())] {
        let mut shard = Shard::new(&text);
        let mut measure = |part: &str, run: fn(&mut Shard, u64)| {
            group.bench_function(BenchmarkId::new(part, name), |bench| {
                bench.iter_custom(|times| {
                    let began = Instant::now();
                    run(&mut shard, times);
                    began.elapsed()
                });
            });
        };
        measure("admit", Shard::admit);
        measure("to an origin", Shard::send_on);
    }
    group.finish();
}
