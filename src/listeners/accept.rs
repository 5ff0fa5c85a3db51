//! Which shard gets a new client?
//!
//! One task a listening socket takes connections and deals each to the shard with the fewest. It runs on a shard itself, so that
//! no other thread has to wake for those which stay there; the sockets of several listeners are taken by turns. Always: a connection over
//! `max_connections` is closed at once and counted; running out of descriptors makes the task wait, not spin; when its
//! door closes, whomever the kernel has told that they are connected is still taken, unless another process serves the
//! same socket.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout_at};

use super::bind::Bound;
use super::connections::{Connections, Held, OpenDoor};
use super::doors::{Doors, Theirs};
use super::drain::Drain;
use super::newcomers;
use super::shard::{Accepted, Came, Shard, Who};
use crate::config::client::ProxyProtocol;
use crate::observe::{ListenerMeters, Metrics};
use crate::proxy::wire::{Buffers, Home};

/// Wait after an error that would come again at once.
const PAUSE: Duration = Duration::from_millis(100);

/// The way of connections from one listening socket to the shards.
pub(super) struct Door {
    h2c: bool,
    proxy_protocol: ProxyProtocol,
    tls: Option<usize>,
    home: Arc<Home>,
    meters: Arc<ListenerMeters>,
    metrics: Metrics,
    connections: Arc<Connections>,
    shards: Arc<[Shard]>,
    /// The number of the shard it is on.
    at: usize,
    doors: Doors,
    open: OpenDoor,
}

/// A door and its socket, on their way to a shard.
pub(super) struct Opening {
    door: Door,
    socket: std::net::TcpListener,
}

impl Opening {
    /// Takes connections from now on, on this shard.
    pub(super) fn open(self) {
        match TcpListener::from_std(self.socket) {
            Ok(socket) => drop(tokio::spawn(self.door.run(socket))),
            Err(error) => log::error!("{}: cannot accept: {error}", self.door.home.listener()),
        }
    }
}

/// What all doors of a process share.
#[derive(Clone)]
pub(super) struct Hall {
    pub(super) metrics: Metrics,
    pub(super) connections: Arc<Connections>,
    pub(super) shards: Arc<[Shard]>,
    pub(super) drain: Drain,
    pub(super) buffers: Arc<Buffers>,
}

impl Door {
    /// The door at `bound`, on the shard of number `at`.
    pub(super) fn new(bound: &Bound, hall: Hall, at: usize) -> Self {
        let (draining, farewell) = (hall.drain.flag(), hall.drain.farewell());
        let home = Home::new(bound.address, bound.tls.is_some(), draining, farewell, hall.buffers);
        Self {
            h2c: bound.h2c,
            proxy_protocol: bound.proxy_protocol,
            tls: bound.tls,
            meters: hall.metrics.listener(&bound.address.to_string()),
            home: Arc::new(home.naming_clients(bound.names_clients)),
            metrics: hall.metrics,
            open: hall.connections.door(),
            connections: hall.connections,
            shards: hall.shards,
            at,
            doors: hall.drain.doors().clone(),
        }
    }

    /// With the socket it takes connections from.
    pub(super) fn at(self, socket: std::net::TcpListener) -> Opening {
        Opening { door: self, socket }
    }

    /// Takes connections as long as its doors may.
    async fn run(self, socket: TcpListener) {
        let mut turn = self.doors.one();
        let (mut complained, mut burst) = (false, Burst::default());
        let theirs = loop {
            let taking = match turn.begin().await {
                Ok(taking) => taking,
                Err(theirs) => break theirs,
            };
            let taken = tokio::select! {
                taken = socket.accept() => taken,
                () = turn.end() => continue,
            };
            match taken {
                Ok((client, peer)) => {
                    complained = false;
                    self.deal(client, peer);
                    burst.one_more().await;
                }
                Err(error) if is_the_peers(&error) => {}
                Err(error) => {
                    if !std::mem::replace(&mut complained, true) {
                        log::warn!("{}: cannot accept: {error}; trying again", self.home.listener());
                    }
                    drop(taking);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        self.close(socket, &theirs).await;
    }

    async fn close(self, socket: TcpListener, theirs: &Theirs) {
        let is_ours = socket.local_addr().is_ok_and(|local| !theirs.has(local));
        if is_ours && !self.doors.outlive_us() {
            self.close_to_newcomers(&socket).await;
        }
        let Ok(socket) = socket.into_std() else { return };
        let mut burst = Burst::default();
        while is_ours && let Ok((client, peer)) = socket.accept() {
            if let Ok(client) = client.set_nonblocking(true).and_then(|()| TcpStream::from_std(client)) {
                self.deal(client, peer);
            }
            burst.one_more().await;
        }
        drop(socket);
        drop(self.open);
    }

    /// Nobody else begins to connect; who has begun may still come.
    async fn close_to_newcomers(&self, socket: &TcpListener) {
        if let Err(error) = newcomers::refuse(socket) {
            log::warn!("{}: who connects just now may be reset: {error}", self.home.listener());
        }
        if self.connections.since_latest().is_none() {
            return;
        }
        let end = Instant::now() + newcomers::HANDSHAKE;
        while let Ok(taken) = timeout_at(end, socket.accept()).await {
            match taken {
                Ok((client, peer)) => self.deal(client, peer),
                Err(error) if is_the_peers(&error) => {}
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    fn deal(&self, socket: TcpStream, peer: SocketAddr) {
        let Some(place) = self.connections.admit() else {
            self.metrics.connection_rejected("max_connections");
            return;
        };
        // of those with the fewest, this one: whoever stays need not be handed over
        let shards = self.shards.iter().enumerate();
        let Some((at, shard)) = shards.min_by_key(|(at, shard)| (shard.load(), *at != self.at)) else { return };
        // a socket that cannot leave its reactor is closed, and its client comes again
        let came = if at == self.at { Ok(Came::Here(socket)) } else { socket.into_std().map(Came::Elsewhere) };
        let Ok(socket) = came else { return };
        let held = Box::new(Held::new(place, self.meters.connection(), shard.counter()));
        let (home, h2c, proxy_protocol, tls) = (self.home.clone(), self.h2c, self.proxy_protocol, self.tls);
        shard.send(Accepted { socket, who: Who { peer, home, h2c, proxy_protocol, tls }, held });
    }
}

/// Connections taken one after the other, while others of the shard wait.
#[derive(Debug, Default)]
struct Burst(u8);

impl Burst {
    /// Of one thread's time at most.
    const MOST: u8 = 16;

    /// Another one was taken: now and then it is the others' turn.
    async fn one_more(&mut self) {
        self.0 = (self.0 + 1) % Self::MOST;
        if self.0 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Errors of one connection that was gone before we took it.
fn is_the_peers(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted)
        || matches!(error.raw_os_error(), Some(code) if code == nix::errno::Errno::EPROTO as i32)
}
