//! Sockets to clients: accepted, dealt to shards, parked between requests.
//!
//! [`bind()`] opens the sockets, or takes those that were [handed over](Handed), [`Listeners::start`] the shards, which accept,
//! once it is started as a service of Pingora, while its [`Doors`] are open. Everything a client may cost is bounded here or in `proxy`:
//! connections, time, bytes.

mod accept;
mod alarm;
mod bind;
mod clients;
mod connection;
mod connections;
mod doors;
mod drain;
mod greeting;
mod handed;
mod handshake;
mod held_back;
mod http2;
mod keepalive;
mod newcomers;
mod outbox;
mod pace;
mod pipelined;
mod preface;
mod proxy_protocol;
mod secured;
mod shard;
mod socket;
mod streams;

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use pingora::proxy::ProxyHttp;
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;

pub use bind::{BindError, Bound, bind};
pub use connections::Connections;
pub use doors::Doors;
pub use drain::Drain;
pub use handed::{Handed, HandedError, Unfit};
pub use shard::Hooks;

use crate::observe::Metrics;
use crate::proxy::wire::Buffers;
use accept::{Door, Hall};
use shard::Shard;

/// All listening sockets and the shards behind them: a service of Pingora's server.
pub struct Listeners {
    bound: Vec<Bound>,
    hall: Hall,
}

impl Listeners {
    /// Starts `shards` shards, each with hooks of its own from `hooks`, and returns when all of them can serve.
    ///
    /// # Errors
    /// The machine gives no further thread or descriptor.
    pub fn start<P>(
        bound: Vec<Bound>,
        connections: Arc<Connections>,
        drain: Drain,
        metrics: Metrics,
        buffers: Arc<Buffers>,
        shards: impl Iterator<Item = Hooks<P>>,
    ) -> io::Result<Self>
    where
        P: ProxyHttp + Send + Sync + 'static,
        P::CTX: Send + Sync,
    {
        let starting: Vec<_> = shards
            .enumerate()
            .map(|(index, hooks)| Shard::start(index, hooks, drain.clone()))
            .collect::<Result<_, _>>()?;
        let shards = starting.into_iter().map(shard::Starting::finish).collect::<io::Result<Vec<_>>>()?;
        Ok(Self { bound, hall: Hall { metrics, connections, shards: shards.into(), drain, buffers } })
    }
}

#[async_trait]
impl Service for Listeners {
    async fn start_service(&mut self, _fds: Option<ListenFds>, _shutdown: ShutdownWatch, _tasks: usize) {
        let shards = self.hall.shards.clone();
        let turns = shards.iter().enumerate().cycle();
        for (bound, (at, shard)) in std::mem::take(&mut self.bound).into_iter().zip(turns) {
            shard.open(Door::new(&bound, self.hall.clone(), at).at(bound.socket));
        }
        // Pingora must not take the end of this for the end of the service
        std::future::pending::<()>().await;
    }

    fn name(&self) -> &str {
        "listeners"
    }

    fn threads(&self) -> Option<usize> {
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use bytes::Bytes;
    use parking_lot::Mutex;
    use pingora::http::ResponseHeader;
    use pingora::prelude::{Error, HttpPeer, Result};
    use pingora::proxy::Session;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::config::process::Listener;
    use crate::proxy::wire::{
        End, Fault, Limits, Serving, Wire,
        tests::{limits, plenty},
    };

    /// Longer than anything here takes.
    const SOON: Duration = Duration::from_secs(10);

    /// Answers with what it saw: method, target and bytes of body.
    pub(super) struct Echo;

    #[derive(Default)]
    pub(super) struct Ctx(Option<Serving>);

    #[async_trait]
    impl ProxyHttp for Echo {
        type CTX = Ctx;

        fn new_ctx(&self) -> Ctx {
            Ctx::default()
        }

        async fn early_request_filter(&self, session: &mut Session, ctx: &mut Ctx) -> Result<()> {
            let wire = Wire::of(session).unwrap();
            ctx.0 = Some(wire.hook_ran());
            if !session.downstream_session.is_body_empty() {
                let length = session.get_header("content-length").and_then(|n| n.to_str().ok()?.parse().ok());
                assert!(wire.body_wanted(length.map_or(End::Chunked, End::Length)).is_some());
            }
            if wire.must_close() {
                session.set_keepalive(None);
            }
            Ok(())
        }

        async fn request_filter(&self, session: &mut Session, _ctx: &mut Ctx) -> Result<bool> {
            let line = format!("{} {}", session.req_header().method, session.req_header().uri);
            assert!(!line.ends_with("/panic"), "as the test wants");
            let body = if line.ends_with("/refuse") { 0 } else { read(session).await? };
            let much = if line.ends_with("/much") { 32 << 20 } else { 0 };
            let answer = format!("{line} {body}\n{}", "x".repeat(much));
            let mut header = ResponseHeader::build(200, None)?;
            header.insert_header("content-length", answer.len())?;
            session.write_response_header(Box::new(header), false).await?;
            session.write_response_body(Some(Bytes::from(answer)), true).await?;
            Ok(true)
        }

        async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut Ctx) -> Result<Box<HttpPeer>> {
            Err(Error::new_str("no origin here"))
        }

        async fn logging(&self, session: &mut Session, _error: Option<&Error>, _ctx: &mut Ctx) {
            let wire = Wire::of(session).unwrap();
            let Some(http1) = session.downstream_session.as_http1() else { return };
            wire.request_finished(http1.get_headers_raw_bytes().len(), session.downstream_session.body_bytes_read());
        }
    }

    async fn read(session: &mut Session) -> Result<usize> {
        let mut body = 0;
        while let Some(bytes) = session.downstream_session.read_request_body().await? {
            body += bytes.len();
        }
        Wire::of(session).unwrap().body_ended();
        Ok(body)
    }

    /// A request no hook saw: why it ended, and how it began.
    type Noted = (Fault, Vec<u8>);

    /// A running gateway of one shard.
    struct Gate {
        address: SocketAddr,
        connections: Arc<Connections>,
        drain: Drain,
        metrics: Metrics,
        unheard: Arc<Mutex<Vec<Noted>>>,
    }

    impl Gate {
        fn with(limits: Limits, max_connections: usize) -> Self {
            let proxy_protocol = crate::config::client::ProxyProtocol::Off;
            let listener = Listener {
                address: ([127, 0, 0, 1], 0).into(),
                h2c: true,
                proxy_protocol,
                tls: crate::config::units::Off::Off,
            };
            let bound = bind(&[listener], Vec::new()).unwrap();
            let address = bound[0].local().unwrap();
            let (connections, drain) = (Connections::new(max_connections), Drain::default());
            let metrics = Metrics::new().unwrap();
            let unheard = Arc::new(Mutex::new(Vec::new()));
            let (seen, rejected) = (unheard.clone(), metrics.clone());
            let hooks = Hooks {
                proxy: Echo,
                limits: Box::new(move || Arc::new(limits)),
                unheard: Box::new(move |unheard| seen.lock().push((unheard.fault, unheard.head.to_vec()))),
                trust: Box::new(|_| true),
                terms: Box::new(|_| None),
                rejected: Box::new(move |reason| rejected.connection_rejected(reason)),
                beside: Box::pin(async {}),
            };
            // shards report their start over a blocking channel
            let start = {
                let (connections, drain, metrics) = (connections.clone(), drain.clone(), metrics.clone());
                move || Listeners::start(bound, connections, drain, metrics, plenty(), std::iter::once(hooks))
            };
            let mut listeners = std::thread::spawn(start).join().unwrap().unwrap();
            tokio::spawn(async move {
                let shutdown = tokio::sync::watch::channel(false).1;
                listeners.start_service(None, shutdown, 1).await;
            });
            Self { address, connections, drain, metrics, unheard }
        }

        fn new(limits: Limits) -> Self {
            Self::with(limits, 100)
        }

        async fn connect(&self) -> Client {
            let socket = TcpStream::connect(self.address).await.unwrap();
            socket.set_nodelay(true).unwrap();
            Client { socket, read: Vec::new() }
        }

        /// Waits until `open` connections are open.
        async fn has(&self, open: usize) {
            let settled = async {
                while self.connections.open() != open {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            timeout(SOON, settled).await.expect("connections come and go");
        }

        async fn all_closed(&self) {
            self.has(0).await;
        }
    }

    struct Client {
        socket: TcpStream,
        read: Vec<u8>,
    }

    impl Client {
        async fn send(&mut self, text: impl AsRef<[u8]>) {
            self.socket.write_all(text.as_ref()).await.unwrap();
        }

        /// Reads on until `end` is there; what came, `end` included.
        async fn until(&mut self, end: &str) -> String {
            let all = async {
                while self.find(end).is_none() {
                    let n = self.socket.read_buf(&mut self.read).await.unwrap();
                    assert_ne!(n, 0, "closed after {:?}", String::from_utf8_lossy(&self.read));
                }
            };
            timeout(SOON, all).await.expect("an answer");
            let rest = self.read.split_off(self.find(end).unwrap());
            String::from_utf8(std::mem::replace(&mut self.read, rest)).unwrap()
        }

        /// Where what came goes on behind `end`.
        fn find(&self, end: &str) -> Option<usize> {
            Some(self.read.windows(end.len()).position(|window| window == end.as_bytes())? + end.len())
        }

        /// Reads to a clean end.
        async fn rest(&mut self) -> String {
            timeout(SOON, self.socket.read_to_end(&mut self.read)).await.expect("an end").expect("no reset");
            String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()
        }
    }

    fn quick() -> Limits {
        let short = Duration::from_millis(150);
        Limits { header_timeout: short, body_timeout: short, send_timeout: short, keepalive: short, ..limits() }
    }

    #[tokio::test]
    async fn requests_follow_each_other_on_a_connection() {
        let gate = Gate::new(Limits { keepalive_requests: 100, ..limits() });
        let mut client = gate.connect().await;
        for target in ["/a", "/b", "/c"] {
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            assert!(client.until("\n\r\n").await.starts_with("HTTP/1.1 200 OK\r\n"));
            assert_eq!(client.until("\n").await, format!("GET {target} 0\n"));
        }
        drop(client);
        gate.all_closed().await;
    }

    #[tokio::test]
    async fn who_idled_on_before_a_request_or_between_two_is_served_like_any() {
        let gate = Gate::new(Limits { keepalive_requests: 100, ..limits() });
        let mut client = gate.connect().await;
        for target in ["/a", "/b"] {
            tokio::time::sleep(2 * connection::BRIEF).await;
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            client.until("\n\r\n").await;
            assert_eq!(client.until("\n").await, format!("GET {target} 0\n"));
        }
    }

    #[tokio::test]
    async fn pipelined_requests_are_answered_in_order() {
        let gate = Gate::new(Limits { keepalive_requests: 100, ..limits() });
        let mut client = gate.connect().await;
        client
            .send(
                "GET /a HTTP/1.1\r\nHost: a\r\n\r\nPOST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                 3\r\nabc\r\n0\r\n\r\nPOST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxyGET /d HTTP/1.1\r\nHo",
            )
            .await;
        for line in ["GET /a 0\n", "POST /b 3\n", "POST /c 2\n"] {
            client.until("\n\r\n").await;
            assert_eq!(client.until("\n").await, line);
        }
        client.send("st: a\r\n\r\n").await;
        client.until("\n\r\n").await;
        assert_eq!(client.until("\n").await, "GET /d 0\n");
    }

    #[tokio::test]
    async fn a_connection_is_parked_after_a_chunked_request_too() {
        let gate = Gate::new(Limits { keepalive: Duration::from_millis(100), header_timeout: SOON, ..limits() });
        let mut client = gate.connect().await;
        client.send("POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n").await;
        assert!(client.rest().await.ends_with("POST /b 3\n"), "idles, then closes");
    }

    #[tokio::test]
    async fn a_malformed_request_gets_our_answer_even_when_much_more_follows() {
        let gate = Gate::new(limits());
        let mut client = gate.connect().await;
        client.send([b"\x16\x03\x01 this is no HTTP\r\n\r\n".to_vec(), vec![b'x'; 200 << 10]].concat()).await;
        let answer = client.rest().await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
        assert!(answer.to_ascii_lowercase().contains("\r\nx-request-id: "), "{answer}");
        assert!(!answer.to_ascii_lowercase().contains("pingora"), "{answer}");
        drop(client);
        gate.all_closed().await;
        let (fault, head) = gate.unheard.lock().pop().unwrap();
        assert_eq!(fault, Fault::BadRequest);
        assert!(head.starts_with(b"\x16\x03\x01 this"));
    }

    #[tokio::test]
    async fn a_header_that_drips_is_cut_at_its_deadline() {
        let gate = Gate::new(quick());
        let (mut reader, mut writer) = gate.connect().await.socket.into_split();
        let started = Instant::now();
        let dripping = tokio::spawn(async move {
            let header = format!("GET / HTTP/1.1\r\nHost: {}", "a".repeat(200));
            for byte in header.as_bytes().chunks(1) {
                tokio::time::sleep(Duration::from_millis(10)).await;
                writer.write_all(byte).await?;
            }
            std::io::Result::Ok(())
        });
        let mut answer = String::new();
        timeout(SOON, reader.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
        assert!(started.elapsed() >= Duration::from_millis(150));
        dripping.abort();
        drop(reader);
        gate.all_closed().await;
        assert_eq!(gate.unheard.lock().pop().unwrap().0, Fault::HeaderTimeout);
    }

    #[tokio::test]
    async fn a_second_header_has_the_same_deadline() {
        let gate = Gate::new(Limits { keepalive: SOON, ..quick() });
        let mut client = gate.connect().await;
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        client.until("GET /a 0\n").await;
        client.send("GET /b HT").await;
        assert!(client.rest().await.starts_with("HTTP/1.1 408 "));
    }

    #[tokio::test]
    async fn a_header_beyond_its_size_is_refused() {
        let gate = Gate::new(Limits { header_bytes: 16 << 10, ..limits() });
        for (name, status, fault) in [
            ("x", "431", Fault::HeaderTooLarge),
            ("", "414", Fault::UriTooLong),
            ("lines", "431", Fault::HeaderTooLarge),
        ] {
            let mut client = gate.connect().await;
            let head = match name {
                "x" => format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(17 << 10)),
                "lines" => format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(500)),
                _ => format!("GET /{}", "y".repeat(17 << 10)),
            };
            client.send(head).await;
            let answer = client.rest().await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{name}: {answer}");
            drop(client);
            gate.all_closed().await;
            assert_eq!(gate.unheard.lock().pop().unwrap().0, fault);
        }
    }

    #[tokio::test]
    async fn a_header_of_just_its_size_is_served() {
        let gate = Gate::new(Limits { header_bytes: 8000, ..limits() });
        let mut client = gate.connect().await;
        let start = "GET / HTTP/1.1\r\nHost: a\r\nx: ";
        client.send(format!("{start}{}\r\n\r\n", "y".repeat(8000 - start.len() - 4))).await;
        client.until("GET / 0\n").await;
    }

    #[tokio::test]
    async fn one_who_leaves_in_a_header_gets_no_answer_and_is_noted() {
        let gate = Gate::new(limits());
        let mut client = gate.connect().await;
        client.send("GET / HT").await;
        client.socket.shutdown().await.unwrap();
        assert_eq!(client.rest().await, "");
        gate.all_closed().await;
        assert_eq!(gate.unheard.lock().pop(), Some((Fault::Gone, b"GET / HT".to_vec())));
        drop(gate.connect().await);
        // the one shard is done with that one when it answers the next
        let mut next = gate.connect().await;
        next.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        next.until("GET /a 0\n").await;
        drop(next);
        gate.all_closed().await;
        assert_eq!(gate.unheard.lock().pop(), None, "one that never said anything is not worth a line");
    }

    #[tokio::test]
    async fn a_body_that_drips_is_cut() {
        let gate = Gate::new(quick());
        let mut client = gate.connect().await;
        client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n").await;
        let started = Instant::now();
        gate.has(1).await;
        while gate.connections.open() > 0 && started.elapsed() < SOON {
            let _ = client.socket.write_all(b"x").await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(started.elapsed() >= Duration::from_millis(140), "{:?}", started.elapsed());
        assert!(started.elapsed() < SOON);
    }

    #[tokio::test]
    async fn a_body_that_comes_in_time_may_take_longer_than_the_limit() {
        let gate = Gate::new(quick());
        let mut client = gate.connect().await;
        client.send(format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 8 * 16384)).await;
        for _ in 0..8 {
            client.send(vec![b'x'; 16384]).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        client.until(&format!("POST /a {}\n", 8 * 16384)).await;
    }

    #[tokio::test]
    async fn an_early_answer_arrives_although_the_body_is_not_read() {
        let gate = Gate::new(limits());
        let (mut reader, mut writer) = gate.connect().await.socket.into_split();
        let body = 4 << 20;
        writer
            .write_all(format!("POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: {body}\r\n\r\n").as_bytes())
            .await
            .unwrap();
        writer.write_all(&vec![b'x'; body]).await.expect("all of the body is taken");
        let mut answer = String::new();
        timeout(SOON, reader.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.ends_with("POST /refuse 0\n"), "{answer}");
    }

    #[tokio::test]
    async fn one_who_does_not_take_its_answer_is_let_go() {
        let gate = Gate::new(quick());
        let mut client = gate.connect().await;
        client.send("GET /much HTTP/1.1\r\nHost: a\r\n\r\n").await;
        gate.has(1).await;
        gate.all_closed().await;
        let mut all = Vec::new();
        assert!(
            client.socket.read_to_end(&mut all).await.is_err(),
            "a reset, so that the part is not taken for the whole"
        );
    }

    #[tokio::test]
    async fn an_idle_connection_is_closed() {
        let gate = Gate::new(quick());
        let mut fresh = gate.connect().await;
        let mut used = gate.connect().await;
        used.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(used.rest().await.ends_with("GET /a 0\n"));
        assert_eq!(fresh.rest().await, "");
    }

    #[tokio::test]
    async fn the_last_of_the_allowed_requests_closes() {
        let gate = Gate::new(Limits { keepalive_requests: 2, ..limits() });
        let mut client = gate.connect().await;
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(client.until("GET /a 0\n").await.to_ascii_lowercase().contains("connection: keep-alive"));
        client.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(client.rest().await.to_ascii_lowercase().contains("connection: close"));
    }

    #[tokio::test]
    async fn a_drain_ends_connections_gently() {
        let gate = Gate::new(limits());
        let mut idle = gate.connect().await;
        idle.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        idle.until("GET /a 0\n").await;
        let mut queued = gate.connect().await;
        queued.send("GET /queued HTTP/1.1\r\nHost: a\r\n\r\n").await;
        gate.drain.begin();
        assert!(queued.rest().await.ends_with("GET /queued 0\n"), "accepted before, so it is served");
        let refused = async {
            while TcpStream::connect(gate.address).await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, refused).await.expect("the listening socket closes");
        gate.has(1).await;
        idle.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(idle.rest().await.to_ascii_lowercase().contains("connection: close"));
        gate.all_closed().await;
    }

    #[tokio::test]
    async fn connections_over_the_limit_are_turned_away_and_counted() {
        let gate = Gate::with(limits(), 1);
        let mut first = gate.connect().await;
        first.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        first.until("GET /a 0\n").await;
        assert_eq!(gate.connect().await.rest().await, "");
        first.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n").await;
        first.until("GET /b 0\n").await;
        let shown = gate.metrics.encode().unwrap();
        assert!(shown.contains("moorgate_connections_rejected_total{reason=\"max_connections\"} 1\n"), "{shown}");
        assert!(shown.contains(&format!("moorgate_connections{{listener=\"{}\"}} 1\n", "127.0.0.1:0")), "{shown}");
    }

    #[tokio::test]
    async fn a_panic_ends_its_own_connection_alone() {
        let gate = Gate::new(limits());
        let mut other = gate.connect().await;
        other.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        other.until("GET /a 0\n").await;
        let mut client = gate.connect().await;
        client.send("GET /panic HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(client.rest().await, "");
        other.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n").await;
        other.until("GET /b 0\n").await;
        drop(other);
        gate.all_closed().await;
    }

    /// A frame of HTTP/2.
    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// Reads the next frame: its kind and payload.
    async fn next_frame(client: &mut Client) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 9];
        let reading = timeout(SOON, client.socket.read_exact(&mut head)).await.expect("a frame");
        if reading.is_err() {
            return None;
        }
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        client.socket.read_exact(&mut payload).await.unwrap();
        Some((head[3], payload))
    }

    #[tokio::test]
    async fn h2_by_prior_knowledge_is_served_and_left_gently_when_idle() {
        let gate = Gate::new(Limits { keepalive: Duration::from_millis(300), keepalive_requests: 100, ..limits() });
        let mut client = gate.connect().await;
        // :method GET, :scheme http, :path /, :authority a
        let request = frame(1, 5, 1, b"\x82\x86\x84\x41\x01a");
        client.send([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, b""), request].concat()).await;
        let mut kinds = Vec::new();
        let mut answer = Vec::new();
        while let Some((kind, payload)) = next_frame(&mut client).await {
            kinds.push(kind);
            if kind == 0 {
                answer.extend_from_slice(&payload);
            }
        }
        assert_eq!(String::from_utf8(answer).unwrap(), "GET http://a/ 0\n");
        assert_eq!(kinds.iter().filter(|kind| **kind == 7).count(), 1, "GOAWAY, then the end: {kinds:?}");
        gate.all_closed().await;
    }

    #[tokio::test]
    async fn a_drain_says_goodbye_to_h2() {
        let gate = Gate::new(limits());
        let mut client = gate.connect().await;
        client.send([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, b"")].concat()).await;
        assert_eq!(next_frame(&mut client).await.unwrap().0, 4);
        gate.drain.begin();
        loop {
            let (kind, _) = next_frame(&mut client).await.expect("GOAWAY");
            if kind == 7 {
                break;
            }
        }
        gate.all_closed().await;
    }

    /// A request that crosses GOAWAY, with all that gRPC's clients send for it, leaves those before it alone.
    #[tokio::test]
    async fn a_request_too_late_ends_no_other() {
        let gate = Gate::new(limits());
        let mut client = gate.connect().await;
        // :method POST, :scheme http, :path /, :authority a
        let block = b"\x83\x86\x84\x41\x01a";
        let begun = frame(1, 4, 1, block);
        client.send([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, b""), begun].concat()).await;
        assert_eq!(next_frame(&mut client).await.unwrap().0, 4);
        gate.drain.begin();
        let (mut goodbyes, mut answer) = (0, Vec::new());
        while let Some((kind, payload)) = next_frame(&mut client).await {
            match kind {
                0 => answer.extend_from_slice(&payload),
                6 => client.send(frame(6, 1, 0, &payload)).await,
                7 if payload[4..8] != [0; 4] => panic!("not in peace: {payload:?}"),
                7 if goodbyes == 0 => goodbyes = 1,
                7 => {
                    goodbyes += 1;
                    let late = [frame(1, 4, 3, block), frame(8, 0, 3, &[0, 0, 0, 9]), frame(0, 1, 3, b"late")];
                    client.send([late.concat(), frame(0, 1, 1, b"body")].concat()).await;
                }
                _ => {}
            }
        }
        assert_eq!((goodbyes, String::from_utf8(answer).unwrap()), (2, "POST http://a/ 4\n".to_owned()));
        drop(client);
        gate.all_closed().await;
    }

    #[tokio::test]
    async fn what_an_h2_client_sends_across_the_end_meets_no_reset() {
        let gate = Gate::new(limits());
        let mut client = gate.connect().await;
        client.send([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, b"")].concat()).await;
        assert_eq!(next_frame(&mut client).await.unwrap().0, 4);
        gate.drain.begin();
        while let Some((kind, payload)) = next_frame(&mut client).await {
            if kind == 6 {
                client.send(frame(6, 1, 0, &payload)).await;
            }
        }
        for stream in [1, 3] {
            client
                .socket
                .write_all(&frame(1, 5, stream, b"\x82\x86\x84\x41\x01a"))
                .await
                .expect("is taken, and left unread");
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(client.rest().await, "");
        drop(client);
        gate.all_closed().await;
    }
}
