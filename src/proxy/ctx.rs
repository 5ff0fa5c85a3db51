//! What is known about this request so far.
//!
//! One `Ctx` per request, owned by Pingora's loop; dropping it gives everything back that the request holds: its lease,
//! its watch, its snapshot. The snapshot is pinned in `new_ctx` and given up when the final header is out; what the
//! log still needs then is held by itself ([`RouteTail`], [`PoolTail`]).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pingora_core::upstreams::peer::HttpPeer;
use smallvec::SmallVec;

use super::dial::Dial;
use super::encode::Encoding;
use super::idle::Loan;
use super::limit;
use super::mirror::Mirroring;
use super::request::Host;
use super::shared::Shared;
use super::watchdog::Watch;
use super::wire::{Serving, Wire};
use crate::health::Endpoint;
use crate::observe::trace::Context;
use crate::observe::{OriginMeters, RequestId};
use crate::pool::{Lease, Pick, Reason};
use crate::resilience::Class;
use crate::resilience::failure::Answer;
use crate::snapshot::{PoolTail, Route, RouteTail, Snapshot, Upstream};
use crate::traffic::Noted;

/// Stands for the ends of a connection that is not ours.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The state of one request.
pub struct Ctx {
    pub(super) began: Instant,
    pub(super) snapshot: Option<Arc<Snapshot>>,
    pub(super) wire: Option<Arc<Wire>>,
    pub(super) serving: Option<Serving>,
    pub(super) id: Id,
    pub(super) caller: Caller,
    pub(super) host: Host,
    /// Which headers it has, once it was admitted.
    pub(super) noted: Noted,
    pub(super) route: Option<usize>,
    pub(super) route_tail: Option<Arc<RouteTail>>,
    /// The target an origin gets, where its route makes another of it.
    pub(super) rewritten: Option<Box<[u8]>>,
    /// The pool it goes to, chosen when it was admitted: a number for [`Snapshot::upstream`].
    pub(super) pool: Option<usize>,
    pub(super) pool_tail: Option<Arc<PoolTail>>,
    pub(super) placement: Option<Placement>,
    /// Origins tried, by their number in the pool.
    pub(super) tried: SmallVec<[usize; 4]>,
    pub(super) attempts: SmallVec<[Attempt; 1]>,
    /// Tries that count: rule T2.
    pub(super) tries: u32,
    pub(super) stale_used: bool,
    /// How often it was not processed by the origin it is at, as that said.
    pub(super) unprocessed: u32,
    /// Where the next try goes, chosen before the last answer was given up.
    pub(super) next: Option<Pick>,
    /// The try under way looks for a connection once more: another request made one.
    pub(super) again: Option<Box<HttpPeer>>,
    pub(super) running: Option<Running>,
    /// When the header of the last answer came from its origin.
    pub(super) headed: Option<Instant>,
    /// Why the answer is ours, or was cut.
    pub(super) error: Option<Class>,
    /// Its header is all of the answer, as the origin says by the frame it came in.
    pub(super) is_bare: bool,
    /// The answer may be silent for as long as a stream.
    pub(super) streams: bool,
    pub(super) body: Body,
    /// When the client gives the request up, if it says so.
    pub(super) deadline: Option<Instant>,
    /// The body was read whole before an origin was asked.
    pub(super) read_ahead: bool,
    /// For how long the connection would have been kept, before an interim answer went out.
    pub(super) alive: Option<u64>,
    /// What the answer goes through.
    pub(super) encoding: Option<Box<Encoding>>,
    pub(super) limits: limit::Held,
    pub(super) mirror: Mirroring,
    /// Its place in a trace, if anything is traced.
    pub(super) trace: Option<Context>,
}

/// Where the body of the request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// With the client, which waits to be told to go on (`Expect: 100-continue`).
    Held,
    /// The client owes some of it.
    Owed,
    /// All of it is on its way, or there is none.
    Sent,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller {
    /// Who connected to us: whom the PROXY header names, or the socket's other end.
    pub(super) connected: IpAddr,
    /// On whose behalf.
    pub(super) client: IpAddr,
    /// The word of who connected counts.
    pub(super) trusted: bool,
}

/// The request's id.
#[derive(Debug)]
pub(super) enum Id {
    /// Made by us.
    Made(RequestId),
    /// The client's, which is visible ASCII.
    Kept(Box<str>),
}

/// The key of a request.
#[derive(Debug)]
pub(super) struct Placement {
    pub(super) key: SmallVec<[u8; 64]>,
    /// `None`: without a key, spread.
    pub(super) hash: Option<u32>,
}

/// The attempt under way.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) lease: Lease,
    /// The number of its connection, if it makes one.
    pub(super) connection: u64,
    /// What it may be a connection of: the group of its peer.
    pub(super) group: u64,
    /// How its connection is made, if it makes one.
    pub(super) dial: Option<Arc<Dial>>,
    /// Whether a connection that it shares is heard of.
    pub(super) shared: Option<Shared>,
    pub(super) watch: Option<Watch>,
    /// The connection takes no further request.
    pub(super) last_on_connection: bool,
    /// The answer was given up for another try.
    pub(super) given_up: bool,
    pub(super) answer: Answer,
    /// Interim answers that came.
    pub(super) interims: u32,
}

/// One try, for the record.
pub(super) struct Attempt {
    pub(super) meters: Arc<OriginMeters>,
    pub(super) origin: Arc<str>,
    pub(super) endpoint: Endpoint,
    /// Why it went there.
    pub(super) reason: Reason,
    pub(super) began: Instant,
    pub(super) status: Option<u16>,
    pub(super) connect_time: Option<Duration>,
    pub(super) response_time: Duration,
    pub(super) reused: bool,
    /// Empty while it runs.
    pub(super) outcome: &'static str,
    /// What the origin said of its own cache.
    pub(super) cache: Option<&'static str>,
}

impl Running {
    /// A try that begins; a connection of this group is looked for, or made.
    pub(super) fn new(lease: Lease, connection: u64, group: u64, dial: Option<Arc<Dial>>) -> Self {
        Self {
            lease,
            connection,
            group,
            dial,
            shared: None,
            watch: None,
            last_on_connection: false,
            given_up: false,
            answer: Answer::Nothing,
            interims: 0,
        }
    }

    /// What is lent for it.
    pub(super) fn loan(&self) -> Option<&Loan> {
        self.dial.as_ref()?.loan().map(|loan| &**loan)
    }
}

impl Ctx {
    /// A request that begins now, on `snapshot`.
    pub(super) fn new(snapshot: Arc<Snapshot>, now: Instant) -> Self {
        Self {
            began: now,
            snapshot: Some(snapshot),
            wire: None,
            serving: None,
            id: Id::made(),
            caller: Caller { connected: NOWHERE.ip(), client: NOWHERE.ip(), trusted: false },
            host: Host::default(),
            noted: Noted::default(),
            route: None,
            route_tail: None,
            rewritten: None,
            pool: None,
            pool_tail: None,
            placement: None,
            tried: SmallVec::new(),
            attempts: SmallVec::new(),
            tries: 0,
            stale_used: false,
            unprocessed: 0,
            next: None,
            again: None,
            running: None,
            headed: None,
            error: None,
            is_bare: false,
            streams: false,
            body: Body::Sent,
            deadline: None,
            read_ahead: false,
            alive: None,
            encoding: None,
            limits: limit::Held::default(),
            mirror: Mirroring::No,
            trace: None,
        }
    }

    /// Its route, as long as the snapshot is held.
    pub(super) fn route(&self) -> Option<&Route> {
        self.snapshot.as_deref()?.route(self.route?)
    }

    /// Its route and the pool chosen for it, as long as the snapshot is held.
    pub(super) fn target(&self) -> Option<(&Route, &Upstream)> {
        let snapshot = self.snapshot.as_deref()?;
        let route = snapshot.route(self.route?)?;
        Some((route, snapshot.upstream(self.pool?)?))
    }

    /// Does a body go to an origin, with every try? One that was read ahead does.
    pub(super) fn has_body(&self) -> bool {
        self.body != Body::Sent || self.read_ahead
    }

    /// The other end of the socket.
    pub(super) fn peer(&self) -> SocketAddr {
        self.wire.as_ref().map_or(NOWHERE, |wire| wire.peer())
    }

    /// The listener it came in by, as configured.
    pub(super) fn listener(&self) -> SocketAddr {
        self.wire.as_ref().map_or(NOWHERE, |wire| wire.listener())
    }

    /// `https` if it came by TLS, else `http`.
    pub(super) fn scheme(&self) -> &'static str {
        self.wire.as_ref().map_or("http", |wire| wire.scheme())
    }

    /// Who asks, after trusted proxies.
    pub(super) fn client(&self) -> IpAddr {
        self.caller.client
    }

    /// The final header is out: what the snapshot was needed for is over.
    pub(super) fn settle(&mut self) {
        self.snapshot = None;
        self.next = None;
    }

    /// What is lent for the attempt under way.
    pub(super) fn loan(&self) -> Option<&Loan> {
        self.running.as_ref()?.loan()
    }

    /// The connection under way, if it is lent: did it serve a request before, and which is it?
    pub(super) fn lent(&self) -> Option<(bool, RawFd)> {
        self.loan()?.lent()
    }

    /// The attempt under way, for the record.
    pub(super) fn attempt(&mut self) -> Option<&mut Attempt> {
        self.attempts.last_mut()
    }
}

impl Id {
    pub(super) fn made() -> Self {
        Self::Made(RequestId::random())
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Made(id) => id.as_str(),
            Self::Kept(id) => id,
        }
    }

    /// The same, which nobody has to look at to see that it is text.
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Made(id) => id.as_bytes(),
            Self::Kept(id) => id.as_bytes(),
        }
    }
}
