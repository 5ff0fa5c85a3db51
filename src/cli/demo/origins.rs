//! Who serves? Small HTTP/1.1 servers on loopback, each with a cache of its own before the database of all.
//!
//! An origin can die and return as a killed process does: its listening socket and every connection are closed, in the
//! middle of whatever they did, and it comes back on the same port with an empty cache. Always holds: the port stays
//! its own meanwhile (a bound socket that does not listen holds it, and connects to it are refused), and an answer is
//! one write, so that a death cuts between answers, never within one.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context as _;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::cache::Cache;
use super::database::Database;
use super::stage::Stage;

/// The header in which an origin names itself.
pub(super) const NAME: &str = "x-origin";
/// A header line that asks for the name alone: neither cache nor database is touched.
pub(super) const ONLY_NAME: &str = "x-only-name: yes\r\n";
/// What probes ask for.
pub(super) const HEALTH: &str = "/healthz";
/// Opening and closing is a matter of the own machine.
const PATIENCE: Duration = Duration::from_secs(5);
/// Header lines of a request at most.
const HEADERS: usize = 64;
/// A header is no longer than this.
const HEAD: usize = 16 * 1024;

/// What an origin counted. Relaxed: numbers that order nothing.
#[derive(Debug, Default)]
pub(super) struct Tally {
    hits: AtomicU64,
    misses: AtomicU64,
    probes: AtomicU64,
    /// Probes answered before the first request of a client, plus one; 0 before that.
    proven: AtomicU64,
}

/// The numbers of a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) hits: u64,
    pub(super) misses: u64,
}

/// An origin, seen from outside.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    serving: Arc<Serving>,
    wish: watch::Sender<bool>,
    is_open: watch::Receiver<bool>,
}

/// What its connections share.
#[derive(Debug)]
struct Serving {
    name: String,
    tally: Tally,
    cache: Mutex<Cache>,
    /// Keys its cache holds at least.
    holds: usize,
    database: Arc<Database>,
}

impl Origin {
    /// One that is down, on a port of its own.
    pub(super) fn new(stage: &Stage, name: String, holds: usize, database: Arc<Database>) -> io::Result<Self> {
        let port = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = port.local_addr()?;
        let cache = Mutex::new(Cache::new(holds));
        let serving = Arc::new(Serving { name: name.clone(), tally: Tally::default(), cache, holds, database });
        let (wish, wished) = watch::channel(false);
        let (open, is_open) = watch::channel(false);
        stage.handle().spawn(live(port, Arc::clone(&serving), wished, open));
        Ok(Self { name, address, serving, wish, is_open })
    }

    /// Comes up, and returns when it accepts.
    pub(super) async fn rise(&self) -> anyhow::Result<()> {
        self.becomes(true).await.with_context(|| format!("{} cannot listen on {}", self.name, self.address))
    }

    /// Dies, and returns when nothing of it is left.
    pub(super) async fn die(&self) -> anyhow::Result<()> {
        self.becomes(false).await.with_context(|| format!("{} does not end", self.name))
    }

    async fn becomes(&self, open: bool) -> anyhow::Result<()> {
        self.wish.send_replace(open);
        let mut is_open = self.is_open.clone();
        timeout(PATIENCE, is_open.wait_for(|is| *is == open)).await??;
        Ok(())
    }

    /// What it counted so far.
    pub(super) fn counted(&self) -> Counted {
        let Tally { hits, misses, .. } = &self.serving.tally;
        Counted { hits: hits.load(Relaxed), misses: misses.load(Relaxed) }
    }

    /// Probes it had answered when the first client came; `None` while none did.
    pub(super) fn proven_by(&self) -> Option<u64> {
        self.serving.tally.proven.load(Relaxed).checked_sub(1)
    }

    /// Keys in its cache.
    pub(super) fn cached(&self) -> usize {
        self.serving.cache.lock().len()
    }
}

/// A socket that can listen later. With this option two may have the address as long as one listens at most.
fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn listen(port: &TcpSocket) -> io::Result<TcpListener> {
    bind(port.local_addr()?)?.listen(1024)
}

/// Up and down as wished, until nobody can wish any more.
async fn live(port: TcpSocket, me: Arc<Serving>, mut wish: watch::Receiver<bool>, open: watch::Sender<bool>) {
    while wish.wait_for(|up| *up).await.is_ok() {
        // whoever waits for it sees that it does not come
        let Ok(listener) = listen(&port) else { return };
        let mut connections = JoinSet::new();
        open.send_replace(true);
        tokio::select! {
            _ = wish.wait_for(|up| !*up) => {}
            () = accept(&listener, &mut connections, &me) => {}
        }
        drop(listener);
        connections.shutdown().await;
        *me.cache.lock() = Cache::new(me.holds);
        open.send_replace(false);
    }
}

async fn accept(listener: &TcpListener, connections: &mut JoinSet<()>, me: &Arc<Serving>) {
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve(stream, Arc::clone(me)))),
                Err(_) => sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Answers one request after the other.
async fn serve(mut stream: TcpStream, me: Arc<Serving>) {
    let mut read = Vec::new();
    let _ = stream.set_nodelay(true);
    loop {
        let asked = match Asked::parse(&read) {
            Ok(Some(asked)) => asked,
            Ok(None) if read.len() < HEAD && stream.read_buf(&mut read).await.is_ok_and(|more| more > 0) => continue,
            _ => return,
        };
        read.drain(..asked.length);
        let answer = me.answer(asked).await;
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A request without a body.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    /// Without arguments: a file is the same whenever it is asked for.
    path: String,
    only_name: bool,
    length: usize,
}

impl Asked {
    fn parse(read: &[u8]) -> Result<Option<Self>, httparse::Error> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(length) = request.parse(read)? else { return Ok(None) };
        let name = ONLY_NAME.split(':').next().unwrap_or_default();
        let only_name = request.headers.iter().any(|header| header.name.eq_ignore_ascii_case(name));
        let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
        Ok(Some(Self { path, only_name, length }))
    }
}

impl Serving {
    async fn answer(&self, asked: Asked) -> String {
        if asked.path == HEALTH {
            self.tally.probes.fetch_add(1, Relaxed);
            return self.page("ok\n", "");
        }
        let before = self.tally.probes.load(Relaxed) + 1;
        let _ = self.tally.proven.compare_exchange(0, before, Relaxed, Relaxed);
        if asked.only_name {
            return self.page("", "");
        }
        let body = format!("{} from {}\n", asked.path, self.name);
        if self.cache.lock().knows(&asked.path) {
            self.tally.hits.fetch_add(1, Relaxed);
            return self.page(&body, "x-cache: hit\r\n");
        }
        self.tally.misses.fetch_add(1, Relaxed);
        self.database.query().await;
        self.cache.lock().add(asked.path);
        self.page(&body, "x-cache: miss\r\n")
    }

    fn page(&self, body: &str, headers: &str) -> String {
        format!("HTTP/1.1 200 OK\r\n{NAME}: {}\r\n{headers}content-length: {}\r\n\r\n{body}", self.name, body.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::talk::Talk;
    use super::*;

    #[test]
    fn a_request_is_read_without_its_arguments() {
        let all = "GET /a?ts=1 HTTP/1.1\r\nHost: x\r\nX-Only-Name: yes\r\n\r\n";
        assert_eq!(Asked::parse(&all.as_bytes()[..20]), Ok(None));
        let asked = Asked::parse(format!("{all}GET").as_bytes()).unwrap().unwrap();
        assert_eq!(asked, Asked { path: "/a".into(), only_name: true, length: all.len() });
    }

    #[tokio::test]
    async fn an_origin_that_died_refuses_and_returns_on_its_port_with_an_empty_cache() {
        let stage = Stage::new("origins").unwrap();
        let origin = Origin::new(&stage, "a".into(), 10, Arc::new(Database::new())).unwrap();
        let mut talk = Talk::to(origin.address);
        assert!(talk.ask("GET", "/x", "").await.is_err(), "it is not up yet");
        for _ in 0..2 {
            origin.rise().await.unwrap();
            let missed = origin.counted().misses;
            for ts in 0..2 {
                let answer = talk.ask("GET", &format!("/x?ts={ts}"), "").await.unwrap();
                assert_eq!((answer.status, answer.origin.as_deref()), (200, Some("a")));
            }
            assert_eq!((origin.counted().misses, origin.cached()), (missed + 1, 1));
            origin.die().await.unwrap();
            assert!(talk.ask("GET", "/x", "").await.is_err(), "the kept connection is gone");
            let refused = talk.ask("GET", "/x", "").await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            assert_eq!(origin.cached(), 0);
        }
    }

    #[tokio::test]
    async fn who_asks_for_the_name_alone_leaves_no_trace_in_the_cache() {
        let stage = Stage::new("origins").unwrap();
        let database = Arc::new(Database::new());
        let origin = Origin::new(&stage, "a".into(), 10, Arc::clone(&database)).unwrap();
        origin.rise().await.unwrap();
        let mut talk = Talk::to(origin.address);
        talk.ask("GET", HEALTH, "").await.unwrap();
        assert_eq!(origin.proven_by(), None);
        talk.ask("GET", "/x", ONLY_NAME).await.unwrap();
        assert_eq!(origin.proven_by(), Some(1));
        assert_eq!((origin.counted(), database.queries()), (Counted::default(), 0));
    }
}
