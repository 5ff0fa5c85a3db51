//! How is a connection to an origin made? As Pingora makes it, but in turn, and the wait is a part of `connect`. Counted as long as it is open.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora_core::connectors::l4::Connect;
use pingora_core::protocols::l4::ext::{connect, connect_uds};
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_core::protocols::l4::stream::Stream;
use pingora_core::upstreams::peer::{PeerOptions, Tracing};
use pingora_core::{Error, ErrorType, OrErr, Result};
use tokio::time::timeout;

use crate::pool::{Connecting, Origin};

/// Connects to one origin when it is its turn.
#[derive(Debug)]
struct Dial {
    connecting: Connecting,
    limit: Duration,
}

/// Has connections by `options` made in turn, waiting and connecting for at most `limit`.
pub(super) fn in_turn(options: &mut PeerOptions, connecting: &Connecting, limit: Duration) {
    options.custom_l4 = Some(Arc::new(Dial { connecting: connecting.clone(), limit }));
}

#[async_trait]
impl Connect for Dial {
    async fn connect(&self, address: &SocketAddr) -> Result<Stream> {
        let connected = timeout(self.limit, self.dial(address)).await;
        let connected = connected.or_err(ErrorType::ConnectTimedout, "connecting in turn")?;
        connected.map_err(|error| match error.etype() {
            // what our side ran out of is nobody's evidence
            ErrorType::SocketError | ErrorType::BindError => {
                Error::because(ErrorType::InternalError, "connecting in turn", error)
            }
            _ => error,
        })
    }
}

impl Dial {
    async fn dial(&self, address: &SocketAddr) -> Result<Stream> {
        let _turn = self.connecting.next().await;
        match address {
            SocketAddr::Inet(address) => connect(address, None).await.map(Stream::from),
            SocketAddr::Unix(address) => match address.as_pathname() {
                Some(path) => connect_uds(path).await.map(Stream::from),
                None => Error::e_explain(ErrorType::ConnectRefused, "a socket without a path"),
            },
        }
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
