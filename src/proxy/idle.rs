//! Which connections to origins wait for a request?
//!
//! Those of HTTP/1.1 without TLS: a shard keeps them itself. Pingora would give each a task that watches it, with a timer, and
//! wait for that task to end before it hands one out. Here one that was closed is found out when it is wanted, or at the
//! next look at all of them. Pingora asks for a new connection each time, and gets one that is [`Lent`].

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pingora_core::protocols::l4::stream::Stream;
use pingora_core::protocols::l4::virt::VirtualSocketStream;
use pingora_core::upstreams::peer::{HttpPeer, Peer as _};
use tokio::sync::Notify;

use super::Gateway;
use super::lent::Lent;
use super::line::{Line, Socket};
use crate::pool::{Origin, Pool};

/// How late a connection is closed whose time is over, or whose origin has closed it.
const TICK: Duration = Duration::from_millis(50);

/// So long waits a connection of a pool that has more than it keeps: under load it is wanted again at once, and none is made
/// for each request.
const GRACE: Duration = Duration::from_millis(10);

/// The connections of a shard that wait, by what tells one kind from another.
#[derive(Debug, Default)]
pub(super) struct Idle {
    all: Mutex<BTreeMap<u64, Vec<Waiting>>>,
    /// Woken when the first one comes.
    some: Notify,
}

#[derive(Debug)]
struct Waiting {
    line: Line,
    until: Instant,
}

impl Idle {
    /// The latest that came and is still good.
    fn take(&self, kind: u64, now: Instant) -> Option<Line> {
        let mut all = self.all.lock();
        let lines = all.get_mut(&kind)?;
        std::iter::from_fn(|| lines.pop()).find(|waiting| waiting.is_good(now)).map(|waiting| waiting.line)
    }

    /// It waits from now on, for so long.
    fn put(&self, kind: u64, line: Line, time: Duration) {
        let mut all = self.all.lock();
        let was_empty = all.is_empty();
        all.entry(kind).or_default().push(Waiting { line, until: Gateway::now() + time });
        if was_empty {
            self.some.notify_one();
        }
    }

    /// Closes those whose time is over and those their origins closed, for as long as the shard lives.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            if self.all.lock().is_empty() {
                self.some.notified().await;
            }
            tokio::time::sleep(TICK).await;
            self.look(Gateway::now());
        }
    }

    fn look(&self, now: Instant) {
        self.all.lock().retain(|_, lines| {
            lines.retain(|waiting| waiting.is_good(now));
            !lines.is_empty()
        });
    }
}

impl Waiting {
    fn is_good(&self, now: Instant) -> bool {
        now < self.until && self.line.is_quiet()
    }
}

/// How long a connection may wait, and how many open ones its pool may have then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) time: Duration,
    pub(super) most: usize,
}

impl Terms {
    /// What a pool says of it.
    pub(super) fn of(pool: &Pool) -> Self {
        Self { time: pool.settings().connections.keepalive_timeout, most: pool.most_idle() }
    }
}

/// The connection of one try: where one is looked for beside Pingora's pool, and what becomes of it.
#[derive(Debug)]
pub(super) struct Loan {
    idle: Arc<Idle>,
    kind: u64,
    terms: Terms,
    origin: Arc<Origin>,
    /// The number of one that is made.
    number: u64,
    /// What was lent: did it serve a request before, and which is it?
    lent: Mutex<Option<(bool, RawFd)>>,
    sends_chunks: AtomicBool,
    is_whole: AtomicBool,
}

impl Loan {
    /// One for `peer`, of which Pingora finds none in its own pool from now on; a connection that is made gets this number.
    pub(super) fn of(
        peer: &mut HttpPeer,
        idle: &Arc<Idle>,
        terms: Terms,
        origin: &Arc<Origin>,
        number: u64,
    ) -> Arc<Self> {
        let kind = peer.reuse_hash();
        peer.group_key ^= number.wrapping_add(1).reverse_bits();
        peer.options.idle_timeout = Some(Duration::ZERO);
        Arc::new(Self {
            idle: Arc::clone(idle),
            kind,
            terms,
            origin: Arc::clone(origin),
            number,
            lent: Mutex::default(),
            sends_chunks: AtomicBool::new(false),
            is_whole: AtomicBool::new(false),
        })
    }

    /// One that waits, if any does.
    pub(super) fn found(self: &Arc<Self>) -> Option<Stream> {
        self.idle.take(self.kind, Gateway::now()).map(|line| self.lend(line, true))
    }

    /// One that was just made.
    pub(super) fn made(self: &Arc<Self>, socket: Socket) -> Stream {
        self.lend(Line::new(socket, Arc::clone(&self.origin), self.number), false)
    }

    fn lend(self: &Arc<Self>, line: Line, served: bool) -> Stream {
        *self.lent.lock() = Some((served, line.fd()));
        Stream::from(VirtualSocketStream::new(Box::new(Lent::new(line, Arc::clone(self)))))
    }

    /// What was lent: did it serve a request before, and which is it?
    pub(super) fn lent(&self) -> Option<(bool, RawFd)> {
        *self.lent.lock()
    }

    /// The request's body goes in chunks.
    pub(super) fn send_chunks(&self) {
        self.sends_chunks.store(true, Relaxed);
    }

    pub(super) fn sends_chunks(&self) -> bool {
        self.sends_chunks.load(Relaxed)
    }

    /// The answer came to its end: its connection may serve another request, if Pingora has nothing against it.
    pub(super) fn answer_is_whole(&self) {
        self.is_whole.store(true, Relaxed);
    }

    pub(super) fn is_whole(&self) -> bool {
        self.is_whole.load(Relaxed)
    }

    /// It is free again, and waits if it may.
    pub(super) fn take_back(&self, line: Line) {
        let Terms { time, most } = self.terms;
        if most > 0 && !time.is_zero() && line.is_quiet() {
            let many = self.origin.connections_of_pool() > most;
            self.idle.put(self.kind, line, if many { GRACE.min(time) } else { time });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const MANY: Terms = Terms { time: LONG, most: 320 };

    /// A shard and an origin.
    struct Both {
        idle: Arc<Idle>,
        origin: Arc<Origin>,
        listener: TcpListener,
    }

    impl Both {
        fn new() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            Self { idle: Arc::default(), origin: Arc::new(Origin::alone()), listener }
        }

        fn address(&self) -> SocketAddr {
            self.listener.local_addr().unwrap()
        }

        async fn until_none_is_open(&self, look: impl Fn()) {
            let gone = async {
                while self.open() > 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    look();
                }
            };
            timeout(LONG, gone).await.unwrap();
        }

        fn loan(&self, terms: Terms, number: u64) -> Arc<Loan> {
            let mut peer = HttpPeer::new(self.address(), false, String::new());
            let unlike = peer.reuse_hash();
            let loan = Loan::of(&mut peer, &self.idle, terms, &self.origin, number);
            assert_ne!(peer.reuse_hash(), unlike, "Pingora finds none of its own");
            loan
        }

        async fn socket(&self) -> Socket {
            Socket::Tcp(TcpStream::connect(self.address()).await.unwrap())
        }

        /// One that served a request and came back; the other side of it.
        async fn served(&self, terms: Terms, number: u64) -> std::net::TcpStream {
            let loan = self.loan(terms, number);
            let mut stream = loan.made(self.socket().await);
            let far = self.listener.accept().unwrap().0;
            loan.answer_is_whole();
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
            far
        }

        fn open(&self) -> u64 {
            self.origin.connections_open()
        }
    }

    #[tokio::test]
    async fn a_connection_comes_back_behind_a_whole_answer_and_is_handed_out_again() {
        let both = Both::new();
        let first = both.loan(MANY, 0);
        assert!(first.found().is_none());
        let mut stream = first.made(both.socket().await);
        let mut far = both.listener.accept().unwrap().0;
        let (served, fd) = first.lent().unwrap();
        assert!(!served && fd >= 0);
        stream.write_all(b"ask").await.unwrap();
        far.read_exact(&mut [0; 3]).unwrap();
        far.write_all(b"ab").unwrap();
        for byte in [b'a', b'b'] {
            let mut one = [0];
            stream.read_exact(&mut one).await.unwrap();
            assert_eq!(one, [byte], "a single byte of an answer is one");
        }
        assert!(timeout(Duration::from_millis(20), stream.read(&mut [0])).await.is_err(), "it is not over");
        first.answer_is_whole();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        assert!(stream.write(b"more").await.is_err(), "it is another's now");
        drop(stream);
        assert_eq!(both.open(), 1);
        let second = both.loan(MANY, 1);
        let again = second.found().unwrap();
        assert_eq!(second.lent(), Some((true, fd)));
        assert!(both.loan(MANY, 2).found().is_none(), "there is one");
        drop(again);
        assert_eq!((both.open(), both.origin.connections_opened()), (0, 1), "one that is not given back ends");
    }

    #[tokio::test]
    async fn who_was_closed_or_said_something_waits_no_longer() {
        for with in [b"".as_slice(), b"x"] {
            let both = Both::new();
            let mut far = both.served(MANY, 0).await;
            both.idle.look(Gateway::now());
            assert_eq!(both.open(), 1, "nothing was heard of it");
            far.write_all(with).unwrap();
            let _open = (!with.is_empty()).then_some(far);
            both.until_none_is_open(|| both.idle.look(Gateway::now())).await;
            assert!(both.loan(MANY, 1).found().is_none());
        }
    }

    #[tokio::test]
    async fn who_waits_too_long_is_closed_and_who_is_one_too_many_soon() {
        let both = Both::new();
        let few = Terms { time: LONG, most: 2 };
        let mut far = Vec::new();
        for number in 0..2 {
            far.push(both.served(few, number).await);
        }
        both.idle.look(Gateway::now() + LONG / 2);
        assert_eq!(both.open(), 2, "as many as may wait");
        let busy = [both.loan(few, 2).found(), both.loan(few, 3).found()];
        assert!(busy.iter().all(Option::is_some));
        far.push(both.served(few, 4).await);
        assert_eq!(both.open(), 3, "wanted again at once, it would be there");
        both.idle.look(Gateway::now() + GRACE);
        assert_eq!(both.open(), 2);
        drop(busy);
        far.push(both.served(few, 5).await);
        assert!(both.idle.take(both.loan(few, 6).kind, Gateway::now() + LONG).is_none(), "not even if nobody looked");
        assert_eq!(both.open(), 0);
        far.push(both.served(few, 7).await);
        both.idle.look(Gateway::now() + LONG);
        assert_eq!(both.open(), 0);
    }

    #[tokio::test]
    async fn nothing_waits_where_nothing_is_kept() {
        let both = Both::new();
        for (number, terms) in
            [Terms { time: LONG, most: 0 }, Terms { time: Duration::ZERO, most: 9 }].into_iter().enumerate()
        {
            let _far = both.served(terms, number as u64).await;
            assert_eq!(both.open(), 0, "{terms:?}");
        }
    }

    #[tokio::test]
    async fn what_a_shard_keeps_is_closed_without_being_asked_for() {
        let both = Both::new();
        let runs = tokio::spawn(Arc::clone(&both.idle).run());
        for (number, time) in [(0, Duration::from_millis(1)), (1, LONG)] {
            drop(both.served(Terms { time, most: 9 }, number).await);
            both.until_none_is_open(|| ()).await;
        }
        runs.abort();
    }
}
