//! Whose is a new connection, and what is spoken on it?
//!
//! In this order: the PROXY header, the client's own limit, TLS, HTTP/2 or HTTP/1. Whoever is turned away on the way is
//! counted by a word, and gets what was said to it.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::net::TcpStream;

use super::connection::Connection;
use super::connections::Held;
use super::handshake::{self, Failed};
use super::keepalive::{Desk, SILENT, linger};
use super::preface::{self, Spoken};
use super::proxy_protocol::{self, Asked, Begun, Refusal};
use super::secured::Secured;
use super::shard::Who;
use super::socket::Socket;
use crate::config::client::ProxyProtocol;
use crate::proxy::wire::{Fault, Wire};
use crate::tls::client;

/// The word for a client that does not get through its handshake.
const HANDSHAKE: &str = "tls_handshake";

/// The protocol of RFC 7301 that HTTP/2 goes by.
const H2: &[u8] = b"h2";

/// A connection of which it is known whose it is, and what it speaks.
pub(super) struct Met {
    pub(super) wire: Arc<Wire>,
    pub(super) spoken: Spoken,
    pub(super) connection: Box<Connection>,
}

/// Learns whose connection it is, and what is spoken; `None`: it was turned away.
pub(super) async fn meet<P>(desk: &Desk<P>, socket: &Arc<TcpStream>, held: &mut Held, who: Who) -> Option<Met> {
    match begun(desk, socket, &who).await {
        Ok(Begun::By { caller, .. }) if !may_stay(desk, held, caller.ip()) => {
            (desk.rejected)("connections_per_client");
            linger(socket, false).await;
        }
        Ok(Begun::By { caller, ahead }) => {
            let wire = Wire::new(who.peer, caller, who.home, (desk.limits)());
            if let Some(listener) = who.tls {
                return Box::pin(secure(desk, socket, wire, ahead, listener)).await;
            }
            let (spoken, ahead) = if who.h2c {
                Box::pin(preface::read(socket, ahead, wire.limits())).await
            } else {
                (Spoken::Http1, ahead)
            };
            let connection = Box::new(Connection::new(Socket::Plain(socket.clone()), wire.clone(), ahead));
            return Some(Met { wire, spoken, connection });
        }
        Ok(Begun::Silent) => (desk.rejected)(SILENT),
        Err(refusal) => {
            (desk.rejected)(refusal.word());
            linger(socket, false).await;
        }
    }
    None
}

/// Gets the client through its handshake.
async fn secure<P>(
    desk: &Desk<P>,
    socket: &Arc<TcpStream>,
    wire: Arc<Wire>,
    ahead: Vec<u8>,
    listener: usize,
) -> Option<Met> {
    // whoever has begun goes on as it was, also when certificates change meanwhile
    let terms = (desk.terms)(listener)?;
    let patience = wire.limits().header_timeout;
    match handshake::accept(socket, ahead, &terms.context, &desk.turns, patience).await {
        Ok(secured) if terms.needs_alpn && secured.ssl().selected_alpn_protocol().is_none() => {
            (desk.rejected)(HANDSHAKE);
            log::debug!("{:?}: handshake: no ALPN, and `alpn` has no http/1.1", socket.peer_addr());
        }
        Ok(secured) => {
            let told = terms.names_clients.then(|| client::told(secured.ssl())).flatten();
            let wire = told.map_or(wire.clone(), |told| wire.of_client(&told));
            return Some(met(wire, secured));
        }
        Err(Failed::Silent) => (desk.rejected)(SILENT),
        Err(Failed::Handshake) => {
            (desk.rejected)(HANDSHAKE);
            linger(socket, false).await;
        }
        Err(Failed::Plain(head)) => {
            (desk.rejected)(HANDSHAKE);
            let _ = wire.note_received(&head);
            wire.set_fault(Fault::PlainHttp);
            let answer = wire.unheard(|unheard| {
                (desk.unheard)(&unheard);
                unheard.answer()
            });
            // so short an answer fits the socket's buffer, and who has left needs none
            let _ = socket.try_write(&answer.flatten().unwrap_or_default());
            linger(socket, true).await;
        }
    }
    None
}

fn met(wire: Arc<Wire>, secured: Box<Secured>) -> Met {
    let is_h2 = secured.ssl().selected_alpn_protocol() == Some(H2);
    let connection = Box::new(Connection::new(Socket::Tls(secured), wire.clone(), Vec::new()));
    Met { wire, spoken: if is_h2 { Spoken::Http2 } else { Spoken::Http1 }, connection }
}

/// Who made the connection, and what was read to learn it.
async fn begun<P>(
    desk: &Desk<P>,
    socket: &TcpStream,
    &Who { peer, proxy_protocol: wanted, .. }: &Who,
) -> Result<Begun, Refusal> {
    if wanted == ProxyProtocol::Off {
        return Ok(Begun::By { caller: peer, ahead: Vec::new() });
    }
    let asked = Asked { peer, trusted: (desk.trust)(peer.ip()), wanted };
    Box::pin(proxy_protocol::read(socket, asked, *(desk.limits)())).await
}

/// A client may have so many connections; a proxy has those of all its clients.
fn may_stay<P>(desk: &Desk<P>, held: &mut Held, caller: IpAddr) -> bool {
    (desk.limits)().connections_per_client.is_none_or(|most| (desk.trust)(caller) || held.is_of(caller, most))
}
