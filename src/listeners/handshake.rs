//! Does a client get through its handshake?
//!
//! It has a time for all of it, from the first byte that is awaited to the last. Always: between the computations of two
//! handshakes on a shard everybody else on it has a turn, so that a crowd of newcomers does not stop those who are here.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use openssl::ssl::SslContext;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::proxy_protocol::piece;
use super::secured::Secured;

/// How long a handshake may take where `header_timeout` is longer.
const LONGEST: Duration = Duration::from_secs(10);

/// How a record begins that holds a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// Why there is no secured connection.
#[derive(Debug)]
pub(super) enum Failed {
    /// It ended, or its time did, before a byte came.
    Silent,
    /// It speaks HTTP: this is how it begins.
    Plain(Vec<u8>),
    /// It went wrong, or took too long.
    Handshake,
}

/// Which handshake of a shard computes.
#[derive(Debug)]
pub(super) struct Turns(Semaphore);

impl Default for Turns {
    fn default() -> Self {
        Self(Semaphore::new(1))
    }
}

/// Makes a secured connection of `socket`, of which `ahead` was read already, in at most `patience`.
pub(super) async fn accept(
    socket: &Arc<TcpStream>,
    mut ahead: Vec<u8>,
    terms: &SslContext,
    turns: &Turns,
    patience: Duration,
) -> Result<Box<Secured>, Failed> {
    let (mut began, patience) = (false, patience.min(LONGEST));
    let through = timeout(patience, async {
        if ahead.is_empty() && !piece(socket, &mut ahead).await {
            return Err(Failed::Silent);
        }
        began = true;
        match ahead.first() {
            Some(&HANDSHAKE) => shake(socket, ahead, terms, turns).await,
            Some(first) if first.is_ascii_uppercase() => Err(Failed::Plain(ahead)),
            _ => Err(Failed::Handshake),
        }
    });
    match through.await {
        Ok(through) => through,
        Err(_) if began => Err(Failed::Handshake),
        Err(_) => Err(Failed::Silent),
    }
}

async fn shake(
    socket: &Arc<TcpStream>,
    ahead: Vec<u8>,
    terms: &SslContext,
    turns: &Turns,
) -> Result<Box<Secured>, Failed> {
    let secured = Secured::new(socket.clone(), ahead, terms);
    let mut secured = Box::new(secured.map_err(|_| Failed::Handshake)?);
    loop {
        // never closed
        let turn = turns.0.acquire().await;
        let shaken = secured.shake_hands();
        yield_now().await;
        drop(turn);
        match shaken {
            Ok(()) => return Ok(secured),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                poll_fn(|cx| secured.poll_wanted(cx)).await.map_err(|_| Failed::Handshake)?;
            }
            Err(error) => {
                log::debug!("{:?}: handshake: {error}", socket.peer_addr());
                return Err(Failed::Handshake);
            }
        }
    }
}
