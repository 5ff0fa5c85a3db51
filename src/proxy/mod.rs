//! Pingora's hooks, and nothing that decides.
//!
//! Each hook takes from [`Ctx`], calls one function of the file that does the work, and stores or maps its result:
//! [`admit`] before the origin, [`itself`] in its place, [`forward`] towards it and back, [`again`] when a try failed,
//! [`reject`] for every answer that is ours, [`record`] when all is over. What is decided is decided by the rooms below.

mod admit;
mod again;
mod answer;
mod at_once;
mod certificate;
mod chunk;
pub mod ctx;
mod dial;
mod edit;
mod encode;
mod flight;
mod form;
mod forward;
mod grpc;
mod hold;
mod idle;
mod itself;
mod kept;
mod lent;
mod limit;
mod line;
mod mirror;
mod peer;
mod pressure;
mod read_ahead;
mod record;
pub mod reject;
mod request;
mod served;
mod shared;
mod trace;
pub mod unheard;
mod value;
pub mod watchdog;
pub mod wire;

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;
use pingora_core::modules::http::HttpModules;
use pingora_core::protocols::Digest;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{FailToProxy, ProxyHttp, ProxyWarnLogContext, Session};

use crate::observe::access_log;
use crate::observe::trace::Shard as Spans;
use crate::snapshot::Store;

use admit::Admitted;
use at_once::{at_once, done, goes_on, nothing, yes};
pub use ctx::Ctx;
use flight::Flights;
use idle::Idle;
use mirror::Mirrors;
use served::Connections;
use watchdog::Watchdog;

/// Boxed, because Pingora moves it through the states of a future that is itself moved to the heap.
type Held = Box<Ctx>;

/// The hooks of one shard.
pub struct Gateway {
    store: Arc<Store>,
    log: Arc<access_log::Shard>,
    watchdog: Arc<Watchdog>,
    shard: usize,
    connections: Connections,
    flights: Arc<Flights>,
    idle: Arc<Idle>,
    ready: Ready,
    mirror: Mirrors,
    spans: Option<Spans>,
}

/// Is the process ready for requests, and if not, why? Asking counts: a lame duck waits for who asks.
pub type Ready = Arc<dyn Fn() -> Result<(), &'static str> + Send + Sync>;

impl Gateway {
    /// The hooks of shard number `shard`; lines go to `log`.
    pub fn new(store: Arc<Store>, log: Arc<access_log::Shard>, shard: usize, ready: Ready) -> Self {
        let (watchdog, connections, mirror) = (Arc::default(), Connections::default(), Mirrors::default());
        let (flights, idle) = (Arc::default(), Arc::default());
        Self { store, log, watchdog, shard, connections, flights, idle, ready, mirror, spans: None }
    }

    /// What enforces time-outs of attempts and of connections that wait: to be spawned on the shard's own thread.
    pub fn beside(&self) -> impl Future<Output = ()> + Send + use<> {
        let (watchdog, idle) = (Arc::clone(&self.watchdog), Arc::clone(&self.idle));
        async { _ = tokio::join!(watchdog.run(), idle.run()) }
    }

    /// The clock of the data plane.
    #[expect(clippy::disallowed_methods, reason = "hooks are where requests meet the clock")]
    fn now() -> Instant {
        Instant::now()
    }
}

#[async_trait]
impl ProxyHttp for Gateway {
    type CTX = Held;

    /// None: Pingora's own would add a compression that is switched off, and walk past it five times a request.
    fn init_downstream_modules(&self, _: &mut HttpModules) {}

    fn new_ctx(&self) -> Held {
        Box::new(Ctx::new(self.store.load(), Self::now()))
    }

    at_once! {
        /// The header is complete; nothing was looked at.
        fn early_request_filter<'s, 'c>(self, session: &'s mut Session, ctx: &'c mut Held) -> Result<()> {
            admit::begin(session, ctx);
            self.place_in_trace(session, ctx);
            done(Ok(()))
        }

        /// No origin was chosen; `true`: the answer is out. Nearly every request is admitted without a wait.
        fn request_filter<'s, 'c>(self, session: &'s mut Session, ctx: &'c mut Held) -> Result<bool> {
            match admit::admit(session, ctx, Self::now) {
                Ok(Admitted::Fully) if ctx.pool.is_some() => goes_on(),
                admitted => Box::pin(self.instead(session, ctx, admitted)),
            }
        }

        /// Whatever was to be asked was asked.
        fn proxy_upstream_filter<'s, 'c>(self, _session: &'s mut Session, _ctx: &'c mut Held) -> Result<bool> {
            yes()
        }
    }

    /// Nothing was sent for this try.
    async fn upstream_peer(&self, session: &mut Session, ctx: &mut Held) -> Result<Box<HttpPeer>> {
        if let Some(same) = ctx.again.take() {
            return Ok(same);
        }
        read_ahead::request(session, ctx).await.map_err(again::raise)?;
        self.peer(session, ctx, Self::now()).map_err(again::raise)
    }

    /// Nothing was sent for this try.
    fn fail_to_connect(&self, session: &mut Session, peer: &HttpPeer, ctx: &mut Held, error: Box<Error>) -> Box<Error> {
        self.not_connected(session, peer, ctx, error, Self::now())
    }

    at_once! {
        /// A connection is held; nothing was sent on it for this try.
        fn connected_to_upstream<'s, 'p, 'd, 'c>(
            self, _session: &'s mut Session, reused: bool, peer: &'p HttpPeer, fd: RawFd, digest: Option<&'d Digest>,
            ctx: &'c mut Held,
        ) -> Result<()> {
            let (reused, fd) = ctx.lent().unwrap_or((reused, fd));
            done(self.connected(ctx, &forward::Connected { reused, peer, fd, digest }, Self::now()))
        }

        /// Runs for every try, on a fresh copy of the client's header.
        fn upstream_request_filter<'s, 'o, 'c>(
            self, session: &'s mut Session, out: &'o mut RequestHeader, ctx: &'c mut Held,
        ) -> Result<()> {
            let headed = forward::request_header(session, out, ctx);
            done(headed.map(|()| self.mirror_header(session, out, ctx)))
        }

        /// Runs for every piece of a body, and again for what is replayed.
        fn request_body_filter<'s, 'b, 'c>(
            self, session: &'s mut Session, body: &'b mut Option<Bytes>, end: bool, ctx: &'c mut Held,
        ) -> Result<()> {
            let within = limit::piece(session, body.as_ref(), ctx);
            done(within.map(|()| {
                forward::request_body(session, body, end, ctx, Self::now);
                self.mirror_body(session, body.as_ref(), end, ctx);
            }))
        }

        /// Nothing of this answer went to the client.
        fn upstream_response_filter<'s, 'h, 'c>(
            self, session: &'s mut Session, head: &'h mut ResponseHeader, ctx: &'c mut Held,
        ) -> Result<()> {
            done(self.answered(session, head, ctx, Self::now()))
        }

        /// Runs before that for every header of an answer; `end`: it is all of it.
        fn adjust_upstream_modules<'s, 'h, 'c>(
            self, _session: &'s mut Session, _head: &'h ResponseHeader, end: bool, ctx: &'c mut Held,
        ) -> Result<()> {
            ctx.is_bare = end;
            done(Ok(()))
        }

        /// The last look before the header goes to the client.
        fn response_filter<'s, 'h, 'c>(
            self, session: &'s mut Session, head: &'h mut ResponseHeader, ctx: &'c mut Held,
        ) -> Result<()> {
            forward::response_header(session, head, ctx, Self::now);
            done(Ok(()))
        }
    }

    fn upstream_response_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        end: bool,
        ctx: &mut Held,
    ) -> Result<Option<Duration>> {
        answer::leave_content(session, body, ctx);
        forward::response_body(ctx, end, Self::now()).map(|()| None)
    }

    fn response_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        end: bool,
        ctx: &mut Held,
    ) -> Result<Option<Duration>> {
        encode::piece(body, end, ctx)?;
        Ok(limit::pause(session, body.as_ref(), ctx, Self::now))
    }

    async fn response_trailer_filter(
        &self,
        _: &mut Session,
        _: &mut HeaderMap,
        ctx: &mut Held,
    ) -> Result<Option<Bytes>> {
        encode::rest(ctx)
    }

    /// A connection was held when the try failed.
    fn error_while_proxy(
        &self,
        _: &HttpPeer,
        session: &mut Session,
        error: Box<Error>,
        ctx: &mut Held,
        reused: bool,
    ) -> Box<Error> {
        let reused = ctx.lent().map_or(reused, |(served, _)| served);
        self.failed(session, ctx, error, reused, Self::now())
    }

    /// No further try: the last failure stands.
    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, ctx: &mut Held) -> FailToProxy {
        reject::fail(session, ctx, error).await
    }

    at_once! {
        /// Runs once for every request any hook saw.
        fn logging<'s, 'e, 'c>(self, session: &'s mut Session, _error: Option<&'e Error>, ctx: &'c mut Held) -> () {
            if hold::waits(ctx) {
                return Box::pin(self.finish_later(session, ctx));
            }
            self.finish(session, ctx, Self::now());
            nothing()
        }
    }

    fn suppress_error_log(&self, _: &Session, _: &Held, _: &Error) -> bool {
        true
    }

    fn suppress_proxy_warn_log(&self, _: &Session, _: &Held, _: &Error, _: ProxyWarnLogContext) -> bool {
        true
    }
}
