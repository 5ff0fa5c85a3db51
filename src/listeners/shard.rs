//! What runs on one core? A thread with a single-threaded runtime and its own `HttpProxy`.
//!
//! A client connection, the connections to origins it uses and all their timers live on one shard and never cross
//! threads. Always: a panic in one connection ends that connection alone, and its counts are given back.

use std::future::Future;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::{io, thread};

use pingora::apps::HttpServerOptions;
use pingora::proxy::{HttpProxy, ProxyHttp};
use pingora::server::configuration::ServerConf;
use tokio::sync::{mpsc, oneshot};

use super::accept::Opening;
use super::connections::Held;
use super::drain::Drain;
use super::handshake::Turns;
use super::keepalive::{self, Desk};
use crate::config::client::ProxyProtocol;
use crate::proxy::wire::{Home, Limits, Unheard};
use crate::tls::Terms;

/// Idle connections to origins a shard keeps at most, over all pools; the pools' own `keepalive` is far below.
const IDLE_UPSTREAM: usize = 16_384;

/// Tries Pingora allows for a request; how many there are is ours to decide.
const TRIES: usize = 1_000_000;

/// Work that goes on as long as its shard.
type Beside = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a shard is given to serve requests with.
pub struct Hooks<P> {
    /// Pingora's hooks.
    pub proxy: P,
    /// The client limits of the current snapshot.
    pub limits: Box<dyn Fn() -> Arc<Limits> + Send + Sync>,
    /// Records a request that ended before any hook saw it.
    pub unheard: Box<dyn Fn(&Unheard<'_>) + Send + Sync>,
    /// Whether the word of this address about the client counts, in the current snapshot.
    pub trust: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    /// The terms on which the listener of this number speaks TLS now.
    pub terms: Box<dyn Fn(usize) -> Option<Terms> + Send + Sync>,
    /// Counts a connection that ended before its first request, by this word.
    pub rejected: Box<dyn Fn(&'static str) + Send + Sync>,
    /// Work beside the connections, on the shard's own thread.
    pub beside: Beside,
}

/// One shard, as the doors see it.
#[derive(Debug)]
pub(super) struct Shard {
    work: mpsc::UnboundedSender<Work>,
    load: Arc<AtomicUsize>,
}

/// What a shard is given to do.
enum Work {
    Client(Box<Accepted>),
    Door(Box<Opening>),
}

/// A connection on its way to a shard.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) socket: Came,
    pub(super) who: Who,
    pub(super) held: Box<Held>,
}

/// A socket that came.
#[derive(Debug)]
pub(super) enum Came {
    /// On the shard that serves it: it stays where it is registered.
    Here(tokio::net::TcpStream),
    /// On another.
    Elsewhere(TcpStream),
}

/// Where a connection comes from, and what may be spoken on it.
#[derive(Debug)]
pub(super) struct Who {
    pub(super) peer: SocketAddr,
    pub(super) home: Arc<Home>,
    pub(super) h2c: bool,
    pub(super) proxy_protocol: ProxyProtocol,
    /// The number of its listener, if that speaks TLS.
    pub(super) tls: Option<usize>,
}

impl Shard {
    /// Starts shard `index` and waits on `ready` for it in [`Starting::finish`]: shards start side by side, since
    /// each reads the system's certificates.
    pub(super) fn start<P>(index: usize, hooks: Hooks<P>, drain: Drain) -> io::Result<Starting>
    where
        P: ProxyHttp + Send + Sync + 'static,
        P::CTX: Send + Sync,
    {
        let (work, queue) = mpsc::unbounded_channel();
        let (tell, ready) = oneshot::channel();
        let load = Arc::new(AtomicUsize::new(0));
        let run = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(tell.send(Err(error))),
            };
            runtime.block_on(async move {
                let (desk, beside) = desk(hooks, drain);
                let desk = Arc::new(desk);
                tokio::spawn(beside);
                // nobody waits only when the start was given up
                let _ = tell.send(Ok(()));
                // a task of its own: to wake what the runtime itself waits for takes a system call, even from here
                let _ = tokio::spawn(async move { work_off(&desk, queue).await }).await;
            });
        };
        thread::Builder::new().name(format!("shard-{index}")).spawn(run)?;
        Ok(Starting { shard: Self { work, load }, ready })
    }

    /// Connections on it now.
    pub(super) fn load(&self) -> usize {
        self.load.load(Relaxed)
    }

    /// Where a connection on it is counted.
    pub(super) fn counter(&self) -> Arc<AtomicUsize> {
        self.load.clone()
    }

    /// Hands a connection over.
    pub(super) fn send(&self, accepted: Accepted) {
        // a shard ends only with the process: then the connection just closes
        let _ = self.work.send(Work::Client(Box::new(accepted)));
    }

    /// Has the connections of a door taken there.
    pub(super) fn open(&self, opening: Opening) {
        // as above
        let _ = self.work.send(Work::Door(Box::new(opening)));
    }
}

/// A shard that may not be ready yet.
pub(super) struct Starting {
    shard: Shard,
    ready: oneshot::Receiver<io::Result<()>>,
}

impl Starting {
    /// Waits until the shard can serve.
    pub(super) fn finish(self) -> io::Result<Shard> {
        match self.ready.blocking_recv() {
            Ok(Ok(())) => Ok(self.shard),
            Ok(Err(error)) => Err(error),
            Err(_dropped) => Err(io::Error::other("a shard ended while it started")),
        }
    }
}

fn desk<P>(hooks: Hooks<P>, drain: Drain) -> (Desk<P>, Beside)
where
    P: ProxyHttp + Send + Sync + 'static,
    P::CTX: Send + Sync,
{
    let conf = ServerConf {
        threads: 1,
        upstream_keepalive_pool_size: IDLE_UPSTREAM,
        max_retries: TRIES,
        ..ServerConf::default()
    };
    let Hooks { proxy, limits, unheard, trust, terms, rejected, beside } = hooks;
    let mut proxy = HttpProxy::new(proxy, Arc::new(conf));
    let mut options = HttpServerOptions::default();
    // refused by our own hook, which logs it and answers in our words
    options.allow_connect_method_proxying = true;
    proxy.server_options = Some(options);
    proxy.handle_init_modules();
    let leaving = drain.watch();
    let turns = Turns::default();
    (Desk { proxy: Arc::new(proxy), limits, unheard, trust, terms, turns, rejected, drain, leaving }, beside)
}

async fn work_off<P>(desk: &Arc<Desk<P>>, mut queue: mpsc::UnboundedReceiver<Work>)
where
    P: ProxyHttp + Send + Sync + 'static,
    P::CTX: Send + Sync,
{
    while let Some(work) = queue.recv().await {
        match work {
            Work::Client(accepted) => drop(tokio::spawn(keepalive::serve(desk.clone(), accepted))),
            Work::Door(opening) => opening.open(),
        }
    }
}
