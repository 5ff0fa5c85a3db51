//! How is a connection to an origin made? As Pingora makes it, but in turn, and the wait is a part of `connect`. One that
//! requests may share is made once for all of them. Counted as long as it is open.
//!
//! A turn is over when the connection may be used: its handshakes are a part of it.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pingora_core::connectors::l4::Connect;
use pingora_core::protocols::l4::ext::{connect, connect_uds};
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_core::protocols::l4::stream::Stream;
use pingora_core::upstreams::peer::{HttpPeer, Peer as _, Tracing};
use pingora_core::{Error, ErrorType, OrErr, Result};
use tokio::time::{Instant, timeout, timeout_at};

use super::at_once::at_once;
use super::flight::{End, Flights, Making, Part};
use super::idle::Loan;
use super::line::Socket;
use crate::pool::{Connecting, Origin, Turn};

/// Nothing was sent, and another connection is to be looked for: another request made it, or the one there was is dead.
const LOOK_AGAIN: ErrorType = ErrorType::Custom("LookAgain");

/// So often a request waits for others. An origin may allow fewer streams than a connection was made for, and its
/// connections are not to be made one after the other for those that are left.
const WAITS: u8 = 2;

/// Connects to one origin when it is its turn.
#[derive(Debug)]
pub(super) struct Dial {
    connecting: Option<Connecting>,
    limit: Duration,
    shared: Option<Flown>,
    loan: Option<Arc<Loan>>,
    state: Mutex<State>,
}

/// Where connections of this kind are made, by whatever makes one unlike another, and for how many.
#[derive(Debug)]
struct Flown {
    flights: Arc<Flights>,
    key: u64,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    until: Option<Instant>,
    waits: u8,
    shares_failure: bool,
    making: Option<Making>,
    turn: Option<Turn>,
}

/// Has connections to `peer` made in turn, waiting and connecting for at most `limit`; with `flights`, by one request for
/// all that may share them; with a `loan`, one that waits is taken before. `None`: as Pingora makes them.
pub(super) fn dial(
    peer: &mut HttpPeer,
    connecting: Option<&Connecting>,
    flights: Option<&Arc<Flights>>,
    loan: Option<Arc<Loan>>,
    limit: Duration,
) -> Option<Arc<Dial>> {
    let most = peer.options.max_h2_streams;
    let flights = flights.filter(|_| most > 1 && peer.options.alpn.get_min_http_version() == 2);
    let shared = flights.map(|flights| Flown { flights: Arc::clone(flights), key: peer.reuse_hash(), most });
    if connecting.is_none() && shared.is_none() && loan.is_none() {
        return None;
    }
    let dial = Dial { connecting: connecting.cloned(), limit, shared, loan, state: Mutex::default() };
    let dial = Arc::new(dial);
    let connect: Arc<Dial> = Arc::clone(&dial);
    peer.options.custom_l4 = Some(connect);
    Some(dial)
}

/// Is it to be looked for in the pool once more?
pub(super) fn looks_again(error: &Error) -> bool {
    *error.root_etype() == LOOK_AGAIN
}

/// It is.
pub(super) fn look_again() -> Box<Error> {
    Error::explain(LOOK_AGAIN, "nothing was sent")
}

impl Connect for Dial {
    at_once! {
        /// Nearly always one waits.
        fn connect<'a>(self, address: &'a SocketAddr) -> Result<Stream> {
            match self.loan.as_ref().and_then(Loan::found) {
                Some(stream) => Box::pin(ready(Ok(stream))),
                None => Box::pin(self.make(address)),
            }
        }
    }
}

impl Dial {
    async fn make(&self, address: &SocketAddr) -> Result<Stream> {
        // Once: who looks again has no more time than the others.
        let until = *self.state.lock().until.get_or_insert_with(|| Instant::now() + self.limit);
        let connected = timeout_at(until, self.connect_in_turn(address)).await;
        let connected = connected.or_err(ErrorType::ConnectTimedout, "connecting in turn")?;
        connected.map_err(|error| match error.etype() {
            // what our side ran out of is nobody's evidence
            ErrorType::SocketError | ErrorType::BindError => {
                Error::because(ErrorType::InternalError, "connecting in turn", error)
            }
            _ => error,
        })
    }

    async fn connect_in_turn(&self, address: &SocketAddr) -> Result<Stream> {
        self.make_or_wait().await?;
        if let Some(connecting) = &self.connecting {
            let turn = connecting.next().await;
            self.state.lock().turn = turn;
        }
        match address {
            SocketAddr::Inet(address) => self.made(Socket::Tcp(connect(address, None).await?)),
            SocketAddr::Unix(address) => match address.as_pathname() {
                Some(path) => self.made(Socket::Unix(connect_uds(path).await?)),
                None => Error::e_explain(ErrorType::ConnectRefused, "a socket without a path"),
            },
        }
    }

    fn made(&self, socket: Socket) -> Result<Stream> {
        match (&self.loan, socket) {
            (Some(loan), socket) => {
                // For any other Pingora does it.
                socket.send_at_once().or_err(ErrorType::ConnectError, "setting no delay")?;
                Ok(loan.made(socket))
            }
            (None, Socket::Tcp(socket)) => Ok(Stream::from(socket)),
            (None, Socket::Unix(socket)) => Ok(Stream::from(socket)),
        }
    }

    /// What is lent for this try, unless Pingora has it all to itself.
    pub(super) fn loan(&self) -> Option<&Arc<Loan>> {
        self.loan.as_ref()
    }

    /// Comes back if the connection is ours to make.
    async fn make_or_wait(&self) -> Result<()> {
        let Some(Flown { flights, key, most }) = &self.shared else { return Ok(()) };
        if self.state.lock().waits >= WAITS {
            return Ok(());
        }
        let waiting = match flights.join(*key, *most) {
            Part::Make(making) => {
                self.state.lock().making = Some(making);
                return Ok(());
            }
            Part::Wait(waiting) => waiting,
        };
        self.state.lock().waits += 1;
        // Half of what is left, so that there is time for one of its own.
        match timeout(self.left() / 2, waiting.end()).await {
            Ok(Some(End::Failed(why))) => {
                self.state.lock().shares_failure = true;
                Error::e_explain(why, "another request made the connection for this one too")
            }
            Ok(Some(End::Made) | None) => Err(look_again()),
            Err(_) => {
                flights.pass_over(*key, &waiting);
                Err(look_again())
            }
        }
    }

    /// Did the connection fail that another request made for this one too? It is that one's evidence.
    pub(super) fn shares_failure(&self) -> bool {
        self.state.lock().shares_failure
    }

    /// The connection may be used, or none came about: the turn is over, and those who waited are told.
    pub(super) fn ended(&self, end: Result<(), &ErrorType>) {
        let State { making, turn, .. } = &mut *self.state.lock();
        drop(turn.take());
        let Some(making) = making.take() else { return };
        match end {
            Ok(()) => making.ends(End::Made),
            // Who has more time tries on.
            Err(ErrorType::ConnectTimedout | ErrorType::TLSHandshakeTimedout) => drop(making),
            Err(why) => making.ends(End::Failed(why.clone())),
        }
    }

    /// How much is left of the time for it.
    pub(super) fn left(&self) -> Duration {
        let until = self.state.lock().until;
        until.map_or(self.limit, |until| until.saturating_duration_since(Instant::now()))
    }
}

/// Counts an origin's open connections; this is the one of that number.
#[derive(Debug, Clone)]
pub(super) struct Counted(pub(super) Arc<Origin>, pub(super) u64);

impl Tracing for Counted {
    fn on_connected(&self) {
        self.0.connection_opened();
    }

    fn on_disconnected(&self) {
        self.0.connection_closed(self.1);
    }

    fn boxed_clone(&self) -> Box<dyn Tracing> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use pingora_core::protocols::ALPN;

    use super::*;

    fn shared(group: u64, flights: &Arc<Flights>, limit: Duration) -> (HttpPeer, Arc<Dial>) {
        let mut peer = HttpPeer::new("127.0.0.1:1", false, String::new());
        (peer.group_key, peer.options.max_h2_streams, peer.options.alpn) = (group, 100, ALPN::H2);
        let dial = dial(&mut peer, None, Some(flights), None, limit).unwrap();
        (peer, dial)
    }

    fn makes(dial: &Dial) -> bool {
        dial.state.lock().making.is_some()
    }

    #[tokio::test]
    async fn who_waits_for_one_that_is_late_looks_again_and_makes_another() {
        let (flights, limit) = (Arc::default(), Duration::from_millis(200));
        let [(_, late), (_, next), (_, last)] = [(); 3].map(|()| shared(1, &flights, limit));
        late.make_or_wait().await.unwrap();
        assert!(makes(&late));
        assert!(looks_again(&next.make_or_wait().await.unwrap_err()));
        next.make_or_wait().await.unwrap();
        assert!(makes(&next));
        late.ended(Err(&ErrorType::ConnectRefused));
        let (told, ()) = tokio::join!(last.make_or_wait(), async { next.ended(Err(&ErrorType::ConnectRefused)) });
        assert_eq!(told.unwrap_err().etype(), &ErrorType::ConnectRefused);
        assert_eq!([late, next, last].map(|dial| dial.shares_failure()), [false, false, true]);
    }
}
