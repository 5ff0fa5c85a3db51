//! How does a copy reach its origin? By a client of the shard's own: one try, within the pool's times, and its answer is read
//! and thrown away.
//!
//! An attempt like any other as far as its origin is concerned: in flight, counted, evidence of health. Nobody waits for it,
//! and what is under way when the process leaves is lost.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use pingora_core::connectors::ConnectorOptions;
use pingora_core::connectors::http::Connector;
use pingora_core::protocols::UniqueID;
use pingora_core::protocols::http::client::HttpSession;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorType, Result};
use pingora_http::RequestHeader;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::Copy;
use crate::observe::OriginMeters;
use crate::pool::{Lease, Outcome, Settings};
use crate::proxy::Gateway;
use crate::proxy::dial::Dial;
use crate::proxy::peer::lacks_h2;
use crate::proxy::served::Connections;
use crate::resilience::Class;
use crate::resilience::failure::{Answer, Stage, classify};

/// As much of an answer is read for the sake of its connection, which ends with a larger one.
const ANSWER: usize = 1 << 20;

/// Interim answers before the final one.
const INTERIM: usize = 8;

/// Idle connections kept at most; the pools' own `keepalive` is below.
const IDLE: usize = 1024;

/// Connections of a shard for copies. Made when the first copy is sent: most shards never send any.
#[derive(Clone, Default)]
pub(super) struct Client(Arc<Connected>);

#[derive(Default)]
struct Connected {
    connector: OnceCell<Connector>,
    served: Connections,
}

/// What is sent.
pub(super) struct Message {
    pub(super) header: Box<RequestHeader>,
    /// `None`: there is none.
    pub(super) body: Option<Vec<u8>>,
}

/// A copy on its way to its origin.
pub(super) struct Errand {
    pub(super) peer: Box<HttpPeer>,
    pub(super) dial: Option<Arc<Dial>>,
    /// The number of its connection, if it makes one.
    pub(super) connection: u64,
    pub(super) lease: Lease,
    pub(super) settings: Settings,
    pub(super) meters: Arc<OriginMeters>,
    pub(super) copy: Copy,
    pub(super) shard: usize,
}

impl Client {
    async fn connector(&self) -> Option<&Connector> {
        // It reads the system's certificates, for longer than a shard may stand still.
        let make = || tokio::task::spawn_blocking(|| Connector::new(Some(ConnectorOptions::new(IDLE))));
        self.0.connector.get_or_try_init(make).await.ok()
    }
}

impl Errand {
    /// Sends the message, and throws the answer away.
    pub(super) async fn run(mut self, message: Message, client: Client) {
        let Some(connector) = client.connector().await else { return };
        let (began, total) = (Gateway::now(), self.settings.timeouts.total);
        let exchange = self.exchange(message, connector, &client.0.served);
        let ended = match total {
            Some(total) => timeout(total, exchange).await.unwrap_or(Err(Class::ResponseTimeout)),
            None => exchange.await,
        };
        let (outcome, word) = match ended {
            Ok(status) => (Outcome::Answered { status }, "ok"),
            Err(class) => (Outcome::Failed(class), class.as_str()),
        };
        let now = Gateway::now();
        self.meters.attempted(word, now.saturating_duration_since(began));
        self.lease.finish(outcome, now);
    }

    /// The status of its answer.
    async fn exchange(
        &mut self,
        mut message: Message,
        connector: &Connector,
        served: &Connections,
    ) -> Result<u16, Class> {
        let began = Gateway::now();
        let connected = connector.get_http_session(&*self.peer).await;
        if let Some(dial) = self.dial.take() {
            dial.ended(connected.as_ref().map(|_| ()).map_err(|error| error.etype()));
        }
        let (mut session, reused) = connected.map_err(|error| classify(&error.into_up(), Stage::Connecting))?;
        if self.connected(&session, reused, served, began) && session.as_http1().is_some() {
            // It cannot fail: lines of a header are bounded far below what it could hold.
            let _ = message.header.insert_header(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if lacks_h2(&self.settings, session.digest()) {
            return Err(Class::TlsFailed);
        }
        let mut answer = Answer::Nothing;
        let asked = self.ask(message, &mut session, &mut answer).await;
        let read = self.settings.timeouts.read;
        let ended = match asked {
            Ok(status) => timeout(read, drain(&mut session)).await.unwrap_or(Ok(false)).map(|whole| (status, whole)),
            Err(error) => Err(error),
        };
        match ended {
            Ok((status, true)) => {
                connector.release_http_session(session, &*self.peer, self.peer.options.idle_timeout).await;
                Ok(status)
            }
            Ok((status, false)) => {
                session.shutdown().await;
                Ok(status)
            }
            Err(error) => {
                session.shutdown().await;
                let class = classify(&error.into_up(), Stage::Connected { reused, answer, watchdog: false });
                if matches!(class, Class::Stale | Class::Unprocessed) {
                    self.lease.origin().hide_idle(self.shard);
                }
                Err(class)
            }
        }
    }

    /// A connection is held; `true`: this is the last request on it.
    fn connected(&self, session: &HttpSession, reused: bool, served: &Connections, began: Instant) -> bool {
        let now = Gateway::now();
        self.lease.connected(now);
        let fd = descriptor(session);
        if reused {
            self.meters.reused();
        } else {
            self.meters.opened(now.saturating_duration_since(began));
            self.lease.origin().connection_has(self.connection, fd);
        }
        let (requests, age) = served.count(fd, reused, now);
        let limits = &self.settings.connections;
        let last =
            limits.max_requests.is_some_and(|most| requests >= most) || limits.max_age.is_some_and(|most| age >= most);
        if last && session.as_http2().is_some() {
            self.lease.origin().hide_idle(self.shard);
        }
        last
    }

    /// Sends it all and waits for the header of the answer.
    async fn ask(&mut self, message: Message, session: &mut HttpSession, answer: &mut Answer) -> Result<u16> {
        let Message { header, body } = message;
        session.set_write_timeout(Some(self.settings.timeouts.send));
        session.write_request_header(header).await?;
        if let Some(body) = body {
            session.write_request_body(Bytes::from(body), false).await?;
        }
        session.finish_request_body().await?;
        let late = |_| Error::new_up(ErrorType::ReadTimedout);
        let status = timeout(self.settings.timeouts.read, final_status(session, answer)).await.map_err(late)??;
        *answer = Answer::Header;
        self.lease.answered(status, Gateway::now());
        self.copy.result = "sent";
        Ok(status)
    }
}

/// The status of the final header.
async fn final_status(session: &mut HttpSession, answer: &mut Answer) -> Result<u16> {
    for _ in 0..INTERIM {
        session.read_response_header().await?;
        let status = session.response_header().map_or(0, |header| header.status.as_u16());
        match status {
            // Over HTTP/2 only a final header is read, and it is read once. Nobody asked for another protocol.
            101 => break,
            100..=199 if session.as_http1().is_some() => *answer = Answer::Interim,
            200.. => return Ok(status),
            _ => break,
        }
    }
    Err(Error::new_up(ErrorType::InvalidHTTPHeader))
}

/// Reads the answer to its end; `false`: there is too much of it.
async fn drain(session: &mut HttpSession) -> Result<bool> {
    let mut read = 0;
    while let Some(piece) = session.read_response_body().await? {
        read += piece.len();
        if read > ANSWER {
            return Ok(false);
        }
    }
    Ok(true)
}

fn descriptor(session: &HttpSession) -> RawFd {
    match session {
        HttpSession::H1(http1) => http1.id(),
        HttpSession::H2(http2) => http2.fd(),
        HttpSession::Custom(()) => -1,
    }
}
