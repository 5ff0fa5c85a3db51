//! Steady requests in the background, every one accounted for.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::client::{Answer, Ask, Client};
use super::eventually;
use super::streams::Streams;

type Maker = Arc<dyn Fn(u64) -> Ask + Send + Sync>;

/// Load to be started.
pub(crate) struct Load {
    to: SocketAddr,
    clients: u32,
    rate: f64,
    make: Maker,
    fresh: bool,
    ends: bool,
    random: bool,
    apart: bool,
    streams: bool,
}

/// Whoever sends them.
enum Caller {
    Http1(Box<Client>),
    Http2(Streams),
}

/// Load that runs; it ends when it is stopped or dropped.
pub(crate) struct Running {
    state: Arc<State>,
    clients: Vec<JoinHandle<Tally>>,
}

#[derive(Default)]
struct State {
    stop: AtomicBool,
    next: AtomicU64,
    done: AtomicU64,
}

/// What became of the requests.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) by_status: BTreeMap<u16, u64>,
    pub(crate) by_origin: BTreeMap<String, u64>,
    /// Requests without an answer, and why.
    pub(crate) failed: Vec<String>,
    /// Answers after which the gateway closed the connection.
    pub(crate) closed: u64,
    pub(crate) slowest: Duration,
}

/// 8 kept connections, 400 requests a second in all, `GET /obj/N`.
pub(crate) fn load(to: SocketAddr) -> Load {
    let make = Arc::new(|n| Ask::get(&format!("/obj/{}", n % 1000)));
    Load { to, clients: 8, rate: 400.0, make, fresh: false, ends: false, random: false, apart: false, streams: false }
}

impl Load {
    pub(crate) fn clients(mut self, clients: u32) -> Self {
        self.clients = clients;
        self
    }

    /// Requests a second in all.
    pub(crate) fn rate(mut self, rate: f64) -> Self {
        self.rate = rate;
        self
    }

    /// The n-th request.
    pub(crate) fn asking(mut self, make: impl Fn(u64) -> Ask + Send + Sync + 'static) -> Self {
        self.make = Arc::new(make);
        self
    }

    /// A new connection for each request.
    pub(crate) fn fresh_connections(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// A client ends with its connection: its answer said so, or it was cut.
    pub(crate) fn never_reconnecting(mut self) -> Self {
        self.ends = true;
        self
    }

    /// Each client has an address of its own.
    pub(crate) fn apart(mut self) -> Self {
        self.apart = true;
        self
    }

    /// By HTTP/2, each client's on one connection.
    pub(crate) fn http2(mut self) -> Self {
        self.streams = true;
        self
    }

    /// Gaps of any length up to twice the mean, not all alike.
    pub(crate) fn random_gaps(mut self) -> Self {
        self.random = true;
        self
    }

    pub(crate) fn start(self) -> Running {
        let clients = self.clients;
        let load = Arc::new(self);
        let state = Arc::new(State::default());
        let client = |n| {
            let (load, state) = (Arc::clone(&load), Arc::clone(&state));
            std::thread::spawn(move || load.client(n, &state))
        };
        Running { clients: (0..clients).map(client).collect(), state }
    }

    fn client(&self, n: u32, state: &State) -> Tally {
        let gap = Duration::from_secs_f64(f64::from(self.clients) / self.rate);
        let mut due = Instant::now() + gap.mul_f64(f64::from(n) / f64::from(self.clients));
        let mut tally = Tally::default();
        let new = || match self.apart {
            _ if self.streams => Caller::Http2(Streams::new(self.to, self.ends)),
            true => Caller::Http1(Client::new(self.to).from([127, 0, 1, (n % 250) as u8 + 1].into()).into()),
            false => Caller::Http1(Client::new(self.to).into()),
        };
        let mut client = new();
        while !state.stop.load(Relaxed) {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            // A client that fell behind does not catch up in a burst.
            let gap = if self.random { gap.mul_f64(2.0 * fastrand::f64()) } else { gap };
            due = (due + gap).max(Instant::now());
            if self.fresh {
                client = new();
            }
            let goes_on = tally.count(&mut client, &(self.make)(state.next.fetch_add(1, Relaxed)));
            state.done.fetch_add(1, Relaxed);
            if self.ends && !goes_on {
                break;
            }
        }
        tally
    }
}

impl Caller {
    /// What came of it, and whether there is a connection for the next one.
    fn send(&mut self, ask: &Ask) -> (io::Result<Answer>, bool) {
        match self {
            Self::Http1(client) => (client.send(ask), client.is_connected()),
            Self::Http2(streams) => (streams.send(ask), true),
        }
    }
}

impl Running {
    /// Waits for that many further answers.
    pub(crate) fn further(&self, count: u64) {
        let from = self.state.done.load(Relaxed);
        eventually("further answers", || (self.state.done.load(Relaxed) >= from + count).then_some(()));
    }

    /// Waits until every client has ended by itself.
    pub(crate) fn await_end(&self) {
        eventually("every client ends", || self.clients.iter().all(JoinHandle::is_finished).then_some(()));
    }

    /// Ends the load and adds up.
    pub(crate) fn stop(mut self) -> Tally {
        self.state.stop.store(true, Relaxed);
        let mut all = Tally::default();
        for client in self.clients.drain(..) {
            all.add(client.join().unwrap());
        }
        all
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.state.stop.store(true, Relaxed);
    }
}

impl Tally {
    /// Whether the client goes on.
    fn count(&mut self, client: &mut Caller, ask: &Ask) -> bool {
        let start = Instant::now();
        let (answer, goes_on) = client.send(ask);
        match answer {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => return false,
            Ok(answer) => {
                self.closed += u64::from(answer.closes());
                *self.by_status.entry(answer.status).or_default() += 1;
                *self.by_origin.entry(answer.origin().to_owned()).or_default() += 1;
            }
            Err(error) => self.failed.push(format!("{} {}: {error}", ask.method, ask.target)),
        }
        self.slowest = self.slowest.max(start.elapsed());
        goes_on
    }

    fn add(&mut self, other: Self) {
        other.by_status.into_iter().for_each(|(status, n)| *self.by_status.entry(status).or_default() += n);
        other.by_origin.into_iter().for_each(|(origin, n)| *self.by_origin.entry(origin).or_default() += n);
        self.failed.extend(other.failed);
        self.closed += other.closed;
        self.slowest = self.slowest.max(other.slowest);
    }

    /// Requests sent.
    pub(crate) fn sent(&self) -> u64 {
        self.by_status.values().sum::<u64>() + self.failed.len() as u64
    }

    /// Every request was answered with 200.
    pub(crate) fn assert_all_good(&self) {
        assert!(self.failed.is_empty(), "{} without an answer: {:?}", self.failed.len(), self.failed.first());
        assert!(self.by_status.keys().eq([&200]), "{:?}", self.by_status);
    }
}
