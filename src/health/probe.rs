//! What does one probe of one origin come to? By Pingora's engines, within one time for all of it.
//!
//! TCP probes are [`TcpHealthCheck`]. Its HTTP sibling asks every origin for one Host, cannot bound or read a body and
//! loads the system's certificates anew for each pool, so HTTP probes are a check of our own. A connector of Pingora's holds
//! those certificates as well, some 2 MiB that plain HTTP has no use for: there is one once something is probed over TCP, and
//! one once something is probed over TLS.
//! Every probe opens a connection of its own: one that is reused would say nothing about new ones. What our own side
//! runs out of is no result.

use std::error::Error as StdError;
use std::io;
use std::os::unix::net::SocketAddr as UnixAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use nix::errno::Errno;
use pingora_core::connectors::TransportConnector;
use pingora_core::connectors::http::v2::{H2HandshakeSettings, handshake};
use pingora_core::protocols::http::client::HttpSession;
use pingora_core::protocols::http::v1::client::HttpSession as Http1Session;
use pingora_core::protocols::l4::ext::{connect, connect_uds};
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_core::protocols::l4::stream::Stream;
use pingora_core::protocols::{ALPN, Stream as Connection};
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorType, OrErr, Result};
use pingora_http::RequestHeader;
use pingora_load_balancing::Backend;
use pingora_load_balancing::health_check::{HealthCheck, TcpHealthCheck};
use tokio::time::{Instant, timeout_at};

use super::{Endpoint, Fault, Grade};
use crate::config::pool::{self, Protocol, StatusRange};
use crate::config::{Complaint, Invalid};
use crate::trust::Trust;

/// As much of a body is read.
const BODY: usize = 64 * 1024;
/// Interim answers before the final one.
const INTERIM: usize = 8;
const OVERLOADED: ErrorType = ErrorType::Custom("overloaded");
const BODY_LACKS: ErrorType = ErrorType::Custom("body lacks what was expected");
const NO_HTTP2: ErrorType = ErrorType::Custom("no HTTP/2 agreed on");
/// The name of the code in [`ErrorType::CustomCode`].
const STATUS: &str = "status";

/// How the origins of a pool are asked over HTTP.
#[derive(Debug, Clone)]
pub struct HttpProbe {
    /// All but the Host.
    request: RequestHeader,
    /// `None`: the origin's name.
    host: Option<String>,
    expect: Vec<StatusRange>,
    overloaded: Vec<StatusRange>,
    body_contains: Option<String>,
    protocol: Protocol,
    trust: Option<Arc<Trust>>,
}

/// What all probes of a process share.
#[derive(Default)]
pub struct Engines {
    tcp: OnceLock<TcpHealthCheck>,
    tls: OnceLock<TransportConnector>,
}

impl HttpProbe {
    /// The `health.probe.http` section of a pool, if it has one. Paths of complaints begin at the pool.
    pub fn compile(written: &pool::Pool) -> Result<Option<Self>, Complaint> {
        let Some(http) = written.health.probe.on().and_then(|probe| probe.http.as_ref()) else { return Ok(None) };
        let literal = if let pool::Host::Literal(host) = &written.host { Some(host.clone()) } else { None };
        Ok(Some(Self {
            request: request(http).map_err(|invalid| invalid.at("health.probe.http.path"))?,
            host: http.host.clone().or(literal),
            expect: http.expect.clone(),
            overloaded: http.overloaded.clone(),
            body_contains: http.body_contains.clone(),
            protocol: written.protocol,
            trust: None,
        }))
    }

    /// The same under this trust.
    #[must_use]
    pub fn under(self, trust: Option<&Arc<Trust>>) -> Self {
        Self { trust: trust.cloned(), ..self }
    }

    fn expects(&self, status: u16) -> Result<()> {
        let is_one_of = |ranges: &[StatusRange]| ranges.iter().any(|range| range.contains(status));
        if is_one_of(&self.overloaded) {
            return Error::err(OVERLOADED);
        }
        if is_one_of(&self.expect) { Ok(()) } else { Error::err(ErrorType::CustomCode(STATUS, status)) }
    }

    fn request_to(&self, host: &str) -> Result<Box<RequestHeader>> {
        let mut request = Box::new(self.request.clone());
        if request.headers.get("host").is_none() {
            request.insert_header("host", host)?;
        }
        if self.protocol != Protocol::Http1 {
            // Without an authority the engine would say https.
            let scheme = if self.trust.is_some() { "https" } else { "http" };
            let target = request.uri.path_and_query().map_or("/", |target| target.as_str());
            let uri = format!("{scheme}://{host}{target}").parse();
            request.set_uri(uri.or_err(ErrorType::InvalidHTTPHeader, "no authority")?);
        }
        Ok(request)
    }

    /// The Host that `name` at `endpoint` is asked for.
    fn host_of(&self, name: &str, endpoint: &Endpoint) -> String {
        let host = self.host.as_deref().unwrap_or(name);
        match (http::uri::Authority::try_from(host), endpoint) {
            (Ok(_), _) => host.to_owned(),
            // A name may be any text, a Host may not.
            (Err(_), Endpoint::Ip(address)) => address.to_string(),
            (Err(_), Endpoint::Unix(_)) => "localhost".to_owned(),
        }
    }
}

impl Engines {
    /// Nothing is opened or loaded yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Connects, and no more. `None`: a failure of our own.
    pub async fn connect(&self, endpoint: &Endpoint, within: Duration) -> Option<Grade> {
        let backend = backend(endpoint, String::new())?;
        let tcp = self.tcp.get_or_init(|| {
            let mut tcp = TcpHealthCheck::default();
            // The time of a probe is one for all of it.
            tcp.peer_template.options.connection_timeout = None;
            tcp
        });
        match tokio::time::timeout(within, tcp.check(&backend)).await {
            Ok(result) => grade(result),
            Err(_) => Some(Grade::Bad(Fault::ConnectTimeout)),
        }
    }

    /// Connects and shakes hands in TLS, and no more. `None`: a failure of our own.
    pub async fn greet(&self, trust: &Trust, endpoint: &Endpoint, within: Duration) -> Option<Grade> {
        let backend = backend(endpoint, String::new())?;
        match tokio::time::timeout(within, self.secured(trust, &backend.addr)).await {
            Ok(result) => grade(result.map(drop)),
            Err(_) => Some(Grade::Bad(Fault::ConnectTimeout)),
        }
    }

    /// A connection over TLS, as requests have them.
    async fn secured(&self, trust: &Trust, address: &SocketAddr) -> Result<Connection> {
        let sni = trust.sni().to_owned();
        let mut peer = match address {
            SocketAddr::Inet(address) => HttpPeer::new(*address, true, sni),
            SocketAddr::Unix(address) => {
                let path = address.as_pathname().and_then(Path::to_str);
                HttpPeer::new_uds(path.ok_or_else(|| Error::new(ErrorType::InternalError))?, true, sni)?
            }
        };
        trust.govern(&mut peer);
        if trust.h2() {
            peer.options.set_http_version(2, 2);
        }
        let stream = self.tls.get_or_init(|| TransportConnector::new(None)).new_stream(&peer).await?;
        if trust.h2() && stream.selected_alpn_proto() != Some(ALPN::H2) {
            return Error::err(NO_HTTP2);
        }
        Ok(stream)
    }

    /// Asks the origin `name` over HTTP. `None`: a failure of our own.
    pub async fn ask(&self, probe: &HttpProbe, endpoint: &Endpoint, name: &str, within: Duration) -> Option<Grade> {
        let backend = backend(endpoint, probe.host_of(name, endpoint))?;
        let deadline = Instant::now() + within;
        grade(Asking { engines: self, probe, deadline }.check(&backend).await)
    }
}

/// One question over HTTP.
struct Asking<'a> {
    engines: &'a Engines,
    probe: &'a HttpProbe,
    deadline: Instant,
}

/// The Host that an origin is asked for.
#[derive(Debug, Clone)]
struct Host(String);

#[async_trait]
impl HealthCheck for Asking<'_> {
    async fn check(&self, target: &Backend) -> Result<()> {
        let host = target.ext.get::<Host>().map_or("", |Host(host)| host);
        let late = |stage: ErrorType| move |_| Error::new_up(stage);
        let opened = timeout_at(self.deadline, self.open(target)).await;
        let mut session = opened.map_err(late(ErrorType::ConnectTimedout))??;
        timeout_at(self.deadline, self.exchange(&mut session, host)).await.map_err(late(ErrorType::ReadTimedout))?
    }

    fn health_threshold(&self, _success: bool) -> usize {
        // Results in a row are counted elsewhere.
        1
    }
}

impl Asking<'_> {
    async fn open(&self, target: &Backend) -> Result<HttpSession> {
        let stream: Connection = match &self.probe.trust {
            Some(trust) => self.engines.secured(trust, &target.addr).await?,
            None => Box::new(connected(&target.addr).await?),
        };
        if self.probe.protocol == Protocol::Http1 {
            return Ok(HttpSession::H1(Http1Session::new(stream)));
        }
        let mut settings = H2HandshakeSettings::new();
        settings.max_streams = 1;
        let stream = handshake(stream, settings).await?.spawn_stream().await?;
        stream.map(HttpSession::H2).ok_or_else(|| Error::new_up(ErrorType::ConnectionClosed))
    }

    async fn exchange(&self, session: &mut HttpSession, host: &str) -> Result<()> {
        session.write_request_header(self.probe.request_to(host)?).await?;
        session.finish_request_body().await?;
        self.probe.expects(final_status(session).await?)?;
        self.read_body(session).await
    }

    /// To its end, which has to come in time, or as far as is of interest.
    async fn read_body(&self, session: &mut HttpSession) -> Result<()> {
        let wanted = self.probe.body_contains.as_deref().unwrap_or_default().as_bytes();
        let mut body = Vec::new();
        let mut found = wanted.is_empty();
        while let Some(more) = session.read_response_body().await? {
            // Only what is new, and as much before it as the text could reach back.
            let from = body.len().saturating_sub(wanted.len());
            body.extend_from_slice(more.get(..BODY - body.len()).unwrap_or(&more));
            found = found || memchr::memmem::find(body.get(from..).unwrap_or_default(), wanted).is_some();
            if body.len() >= BODY {
                break;
            }
        }
        if found { Ok(()) } else { Error::err(BODY_LACKS) }
    }
}

async fn connected(address: &SocketAddr) -> Result<Stream> {
    let mut stream: Stream = match address {
        SocketAddr::Inet(address) => connect(address, None).await?.into(),
        SocketAddr::Unix(address) => {
            let path = address.as_pathname().ok_or_else(|| Error::new(ErrorType::InternalError))?;
            connect_uds(path).await?.into()
        }
    };
    stream.set_nodelay()?;
    Ok(stream)
}

async fn final_status(session: &mut HttpSession) -> Result<u16> {
    for _ in 0..=INTERIM {
        session.read_response_header().await?;
        match session.response_header().map(|header| header.status.as_u16()) {
            Some(100 | 102..=199) => {}
            Some(status) => return Ok(status),
            None => break,
        }
    }
    Error::err(ErrorType::InvalidHTTPHeader)
}

fn request(http: &pool::ProbeHttp) -> Result<RequestHeader, Invalid> {
    let invalid = |_| Invalid::new(format!("{:?}", http.path), "a path and query of visible ASCII that begins with /");
    let mut request = RequestHeader::build(http.method.as_str(), http.path.as_bytes(), None).map_err(invalid)?;
    for (name, value) in &http.headers {
        request.append_header(name.clone(), value.clone()).map_err(invalid)?;
    }
    if request.headers.get("user-agent").is_none() {
        request.append_header("user-agent", "moorgate").map_err(invalid)?;
    }
    Ok(request)
}

/// The origin as the engines take it; `None`: a path no socket can have.
fn backend(endpoint: &Endpoint, host: String) -> Option<Backend> {
    let addr = match endpoint {
        Endpoint::Ip(address) => SocketAddr::Inet(*address),
        Endpoint::Unix(path) => SocketAddr::Unix(UnixAddr::from_pathname(path).ok()?),
    };
    let mut ext = http::Extensions::new();
    ext.insert(Host(host));
    Some(Backend { addr, weight: 1, ext })
}

/// The engines' answer in our words.
fn grade(result: Result<()>) -> Option<Grade> {
    let Err(error) = result else { return Some(Grade::Good) };
    let os = root_io(&error).and_then(io::Error::raw_os_error).map(Errno::from_raw);
    Some(Grade::Bad(match (error.etype(), os) {
        (etype, _) if *etype == OVERLOADED => return Some(Grade::Overloaded),
        (etype, _) if *etype == BODY_LACKS => Fault::Body,
        (etype, _) if *etype == NO_HTTP2 => Fault::NoHttp2,
        (ErrorType::InvalidCert, _) => Fault::Certificate,
        (ErrorType::TLSHandshakeFailure, _) => Fault::Tls,
        (ErrorType::CustomCode(STATUS, status), _) => Fault::Status(*status),
        (_, Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS)) => return None,
        (_, Some(Errno::EADDRNOTAVAIL | Errno::EADDRINUSE)) => return None,
        // A Unix socket nobody listens on may have no file; one whose queue is full says "again".
        (_, Some(Errno::ECONNREFUSED | Errno::ENOENT)) => Fault::Refused,
        (_, Some(Errno::EAGAIN)) => Fault::ConnectTimeout,
        (_, Some(Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::EHOSTDOWN | Errno::ENETDOWN)) => Fault::Unreachable,
        // A firewall, or the socket's mode.
        (_, Some(Errno::EACCES | Errno::EPERM)) => Fault::Unreachable,
        (ErrorType::ConnectTimedout, _) => Fault::ConnectTimeout,
        (ErrorType::ReadTimedout | ErrorType::WriteTimedout, _) => Fault::Timeout,
        (ErrorType::InternalError | ErrorType::SocketError | ErrorType::BindError, None) => return None,
        (_, Some(_)) | (ErrorType::ConnectionClosed | ErrorType::ReadError | ErrorType::WriteError, None) => {
            Fault::Closed
        }
        (_, None) => Fault::Malformed,
    }))
}

/// The operating system's error at the root, below whatever wraps it.
fn root_io(error: &Error) -> Option<&io::Error> {
    let mut cause: &(dyn StdError + 'static) = error.root_cause();
    loop {
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            return Some(io);
        }
        cause = match cause.downcast_ref::<h2::Error>().and_then(h2::Error::get_io) {
            Some(io) => return Some(io),
            None => cause.source()?,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, UnixListener};

    use super::*;
    use crate::config::pool::ProbeHttp;

    const WITHIN: Duration = Duration::from_millis(400);

    fn probe(change: impl FnOnce(&mut ProbeHttp)) -> HttpProbe {
        let mut http = ProbeHttp {
            method: http::Method::GET,
            path: "/healthz?deep=1".to_owned(),
            host: None,
            headers: indexmap::IndexMap::new(),
            expect: vec![StatusRange { first: 200, last: 399 }],
            overloaded: vec![StatusRange { first: 429, last: 429 }, StatusRange { first: 503, last: 503 }],
            body_contains: None,
        };
        change(&mut http);
        HttpProbe {
            request: request(&http).unwrap(),
            host: http.host,
            expect: http.expect,
            overloaded: http.overloaded,
            body_contains: http.body_contains,
            protocol: Protocol::Http1,
            trust: None,
        }
    }

    /// An origin that answers everything with these bytes, one piece after the other, and then closes or keeps still.
    /// Answers where it is, and a channel with what it was asked.
    async fn origin(pieces: &[&str], closes: bool) -> (Endpoint, tokio::sync::mpsc::UnboundedReceiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, questions) = tokio::sync::mpsc::unbounded_channel();
        let pieces: Vec<String> = pieces.iter().map(|&piece| piece.to_owned()).collect();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut question = Vec::new();
                while !question.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => question.push(byte),
                        Err(_) => break,
                    }
                }
                let _ = asked.send(String::from_utf8(question).unwrap());
                for piece in &pieces {
                    let _ = stream.write_all(piece.as_bytes()).await;
                    tokio::task::yield_now().await;
                }
                if !closes {
                    // Until the probe gives up.
                    let _ = stream.read_u8().await;
                }
            }
        });
        (Endpoint::Ip(address), questions)
    }

    async fn nobody() -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Endpoint::Ip(listener.local_addr().unwrap())
    }

    #[tokio::test]
    async fn answers_are_graded_by_status_body_and_end() {
        let engines = Engines::new();
        let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        let with_body = |text: &str| probe(|http| http.body_contains = Some(text.to_owned()));
        let plain = || probe(|_| {});
        let bad = |fault| Some(Grade::Bad(fault));
        let long = format!("HTTP/1.1 200 OK\r\n\r\n{}needle", "x".repeat(BODY));
        for (probe, pieces, closes, expected) in [
            (plain(), &[ok, "ok"][..], false, Some(Grade::Good)),
            (plain(), &["HTTP/1.1 204 No Content\r\n\r\n"], false, Some(Grade::Good)),
            (plain(), &["HTTP/1.1 100 Continue\r\n\r\n", ok, "ok"], false, Some(Grade::Good)),
            (plain(), &["HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\n"], false, Some(Grade::Overloaded)),
            (plain(), &["HTTP/1.1 429 Slow\r\n\r\n"], false, Some(Grade::Overloaded)),
            (plain(), &["HTTP/1.1 404 No\r\n\r\n"], false, bad(Fault::Status(404))),
            (plain(), &["HTTP/1.1 500 No\r\n\r\n"], true, bad(Fault::Status(500))),
            (plain(), &[], true, bad(Fault::Closed)),
            (plain(), &["HTTP/1.1 200 O"], true, bad(Fault::Closed)),
            (plain(), &["SSH-2.0-OpenSSH_9.6\r\n\r\n"], false, bad(Fault::Malformed)),
            (plain(), &[], false, bad(Fault::Timeout)),
            (plain(), &[ok, "o"], false, bad(Fault::Timeout)),
            (with_body("ok"), &[ok, "ok"], false, Some(Grade::Good)),
            (with_body("ok"), &[ok, "o", "k"], false, Some(Grade::Good)),
            (with_body("fine"), &[ok, "ok"], false, bad(Fault::Body)),
            (with_body("needle"), &[&long], true, bad(Fault::Body)),
            (plain(), &[&long], true, Some(Grade::Good)),
        ] {
            let (endpoint, _asked) = origin(pieces, closes).await;
            let grade = engines.ask(&probe, &endpoint, "a:80", WITHIN).await;
            let head = pieces.first().map(|piece| &piece[..piece.len().min(20)]);
            assert_eq!(grade, expected, "{head:?}, closes: {closes}, {:?}", probe.body_contains);
        }
    }

    #[tokio::test]
    async fn body_that_drips_is_cut_at_the_time_for_the_whole_probe() {
        let engines = Engines::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint::Ip(listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            let mut tick = tokio::time::interval(Duration::from_millis(10));
            while stream.write_all(b"x").await.is_ok() {
                tick.tick().await;
            }
        });
        let begun = Instant::now();
        let grade = engines.ask(&probe(|_| {}), &endpoint, "a", WITHIN).await;
        assert_eq!(grade, Some(Grade::Bad(Fault::Timeout)));
        assert!(begun.elapsed() >= WITHIN && begun.elapsed() < WITHIN * 10, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn origin_is_asked_by_its_own_name_or_by_the_host_of_the_file() {
        let engines = Engines::new();
        let (endpoint, mut asked) = origin(&["HTTP/1.1 204 No\r\n\r\n"], false).await;
        let mut question = async |probe: HttpProbe| {
            engines.ask(&probe, &endpoint, "10.0.0.1:8080", WITHIN).await;
            asked.recv().await.unwrap()
        };
        assert_eq!(
            question(probe(|_| {})).await,
            "GET /healthz?deep=1 HTTP/1.1\r\nuser-agent: moorgate\r\nhost: 10.0.0.1:8080\r\n\r\n"
        );
        let named = probe(|http| {
            http.method = http::Method::HEAD;
            http.host = Some("origin.internal".to_owned());
            http.headers.insert(http::HeaderName::from_static("x-a"), http::HeaderValue::from_static("1"));
            http.headers.insert(http::HeaderName::from_static("user-agent"), http::HeaderValue::from_static("me"));
        });
        assert_eq!(
            question(named).await,
            "HEAD /healthz?deep=1 HTTP/1.1\r\nx-a: 1\r\nuser-agent: me\r\nhost: origin.internal\r\n\r\n"
        );
    }

    #[tokio::test]
    async fn connection_that_is_refused_is_told_from_one_that_hangs() {
        let engines = Engines::new();
        let refused = Some(Grade::Bad(Fault::Refused));
        let gone = nobody().await;
        assert_eq!(engines.connect(&gone, WITHIN).await, refused);
        assert_eq!(engines.ask(&probe(|_| {}), &gone, "a", WITHIN).await, refused);
        let (mute, _asked) = origin(&[], false).await;
        assert_eq!(engines.connect(&mute, WITHIN).await, Some(Grade::Good), "the kernel answers");
    }

    #[tokio::test]
    async fn unix_sockets_are_probed_as_well() {
        let engines = Engines::new();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let endpoint = Endpoint::Unix(Arc::from(&*path));
        assert_eq!(engines.connect(&endpoint, WITHIN).await, Some(Grade::Bad(Fault::Refused)), "no file");
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(engines.connect(&endpoint, WITHIN).await, Some(Grade::Good));
        drop(listener);
        assert_eq!(engines.connect(&endpoint, WITHIN).await, Some(Grade::Bad(Fault::Refused)), "nobody listens");
    }

    #[tokio::test]
    async fn h2c_origins_are_asked_by_prior_knowledge() {
        let engines = Engines::new();
        let h2c =
            || HttpProbe { protocol: Protocol::H2c, ..probe(|http| http.body_contains = Some("fine".to_owned())) };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint::Ip(listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let (request, mut respond) = connection.accept().await.unwrap().unwrap();
            let mut body = respond.send_response(http::Response::new(()), false).unwrap();
            body.send_data("all is fine".into(), true).unwrap();
            while connection.accept().await.is_some_and(|stream| stream.is_ok()) {}
            request.uri().to_string()
        });
        assert_eq!(engines.ask(&h2c(), &endpoint, "a.example", WITHIN).await, Some(Grade::Good));
        assert_eq!(server.await.unwrap(), "http://a.example/healthz?deep=1");
        let (http1, _asked) = origin(&["HTTP/1.1 200 OK\r\n\r\n"], false).await;
        let grade = engines.ask(&h2c(), &http1, "a.example", WITHIN).await;
        assert!(matches!(grade, Some(Grade::Bad(Fault::Malformed | Fault::Closed))), "{grade:?}");
    }

    #[test]
    fn name_that_is_no_host_is_not_asked_for() {
        let host = |name: &str, endpoint: &Endpoint| probe(|_| {}).host_of(name, endpoint);
        let ip = Endpoint::Ip("127.0.0.1:81".parse().unwrap());
        assert_eq!(host("a.example:80", &ip), "a.example:80");
        assert_eq!(host("rack 7, left", &ip), "127.0.0.1:81");
        assert_eq!(host("unix:/run/s", &Endpoint::Unix(Arc::from(std::path::Path::new("/run/s")))), "localhost");
    }

    #[test]
    fn what_we_ran_out_of_is_no_result() {
        let os = |errno: Errno| Error::because(ErrorType::ConnectError, "words", io::Error::from(errno));
        let nested = Error::because(ErrorType::InternalError, "words", os(Errno::EMFILE));
        assert_eq!(grade(Err(nested)), None);
        for errno in [Errno::ENFILE, Errno::ENOMEM, Errno::ENOBUFS, Errno::EADDRNOTAVAIL] {
            assert_eq!(grade(Err(os(errno))), None, "{errno}");
        }
        assert_eq!(grade(Err(os(Errno::EHOSTUNREACH))), Some(Grade::Bad(Fault::Unreachable)));
    }

    #[test]
    fn path_that_cannot_be_asked_for_is_a_mistake() {
        let mut http = ProbeHttp {
            method: http::Method::GET,
            path: "/a b".to_owned(),
            host: None,
            headers: indexmap::IndexMap::new(),
            expect: Vec::new(),
            overloaded: Vec::new(),
            body_contains: None,
        };
        assert!(request(&http).is_err());
        http.path = "/a%20b".to_owned();
        assert!(request(&http).is_ok());
    }
}
