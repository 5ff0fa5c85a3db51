//! Whom does the PROXY header at the start of a connection name, and may it?
//!
//! Rule U8. A trusted proxy's header is taken, and awaited where it is required; anybody else's closes the connection,
//! and the address in it is never recorded. What came behind the header, or in its place, is handed on. Always: a header
//! has `header_timeout` and at most some 4 KiB; a client that says nothing holds no more than a parked connection.

use std::io::ErrorKind;
use std::net::SocketAddr;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::client::ProxyProtocol;
use crate::proxy::wire::Limits;
use crate::traffic::proxy_header::Start;

/// Bytes read at a time: a header, and mostly the request behind it.
const PIECE: usize = 1024;

/// How a connection began.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// It ended, or its time did, before a byte came.
    Silent,
    /// `caller` made it; `ahead` was read of what it says.
    By { caller: SocketAddr, ahead: Vec<u8> },
}

/// Why a connection is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A trusted proxy sent no header where one is required.
    Missing,
    /// A header of somebody who is not trusted.
    Untrusted,
    /// A header that is none, or is not complete in time.
    Invalid,
}

impl Refusal {
    /// The word it is counted by.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Missing => "proxy_missing",
            Self::Untrusted => "proxy_untrusted",
            Self::Invalid => "proxy_invalid",
        }
    }
}

/// From whom a connection comes, and what is asked of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// The socket's other end.
    pub(super) peer: SocketAddr,
    /// Its word counts.
    pub(super) trusted: bool,
    /// What its listener wants.
    pub(super) wanted: ProxyProtocol,
}

/// Reads the header of `socket`, if it has one.
pub(super) async fn read(socket: &TcpStream, asked: Asked, limits: Limits) -> Result<Begun, Refusal> {
    let Asked { peer, trusted, wanted } = asked;
    let awaited = trusted && wanted == ProxyProtocol::Required;
    let patience = if awaited { limits.header_timeout } else { limits.keepalive };
    let mut read = Vec::new();
    match timeout(patience, piece(socket, &mut read)).await {
        Ok(true) => {}
        Err(_) if awaited => return Err(Refusal::Missing),
        Ok(false) | Err(_) => return Ok(Begun::Silent),
    }
    // cut short by its time, it is judged by what came
    let _ = timeout(limits.header_timeout, fill(socket, &mut read, trusted)).await;
    match (Start::of(&read), trusted) {
        (Start::Other | Start::Undecided, _) if awaited => Err(Refusal::Missing),
        (Start::Other | Start::Undecided, _) => Ok(Begun::By { caller: peer, ahead: read }),
        (_, false) => Err(Refusal::Untrusted),
        (Start::Partial | Start::Malformed, true) => Err(Refusal::Invalid),
        (Start::Header { length, source }, true) => {
            let ahead = read.split_off(length.min(read.len()));
            Ok(Begun::By { caller: source.unwrap_or(peer), ahead })
        }
    }
}

/// Reads until it is decided what this is, the end of a `whole` header included.
async fn fill(socket: &TcpStream, read: &mut Vec<u8>, whole: bool) {
    loop {
        let goes_on = match Start::of(read) {
            Start::Undecided => true,
            Start::Partial => whole,
            _ => false,
        };
        if !goes_on || !piece(socket, read).await {
            return;
        }
    }
}

/// Reads on; false at the end.
pub(super) async fn piece(socket: &TcpStream, read: &mut Vec<u8>) -> bool {
    read.reserve(PIECE);
    while socket.readable().await.is_ok() {
        match socket.try_read_buf(read) {
            Ok(count) => return count > 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::preface::tests::fed;
    use super::*;

    const LINE: &[u8] = b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 80\r\n";

    /// What becomes of a client that sends these parts, and then goes on or closes.
    async fn begun(
        wanted: ProxyProtocol,
        trusted: bool,
        parts: &[&[u8]],
        closes: bool,
    ) -> Result<(bool, Vec<u8>), Option<Refusal>> {
        let told = fed(parts, closes, async |socket, peer, limits| {
            read(&socket, Asked { peer, trusted, wanted }, limits).await
        });
        match told.await {
            Ok(Begun::By { caller, ahead }) => Ok((caller == "192.0.2.7:4711".parse().unwrap(), ahead)),
            Ok(Begun::Silent) => Err(None),
            Err(refusal) => Err(Some(refusal)),
        }
    }

    #[tokio::test]
    async fn u8_a_trusted_proxy_s_header_is_taken_however_it_comes() {
        for wanted in [ProxyProtocol::Required, ProxyProtocol::Optional] {
            let whole = [LINE, b"GET /"].concat();
            assert_eq!(begun(wanted, true, &[&whole], false).await, Ok((true, b"GET /".to_vec())));
            let bytes: Vec<&[u8]> = LINE.chunks(1).collect();
            assert_eq!(begun(wanted, true, &bytes, false).await, Ok((true, vec![])));
            let unknown = b"PROXY UNKNOWN\r\nGET /";
            assert_eq!(begun(wanted, true, &[unknown], false).await, Ok((false, b"GET /".to_vec())));
        }
    }

    #[tokio::test]
    async fn u8_where_it_is_required_a_trusted_proxy_has_to_send_it() {
        let (required, optional) = (ProxyProtocol::Required, ProxyProtocol::Optional);
        for plain in [b"GET / HTTP/1.1\r\n".as_slice(), b"P"] {
            assert_eq!(begun(required, true, &[plain], false).await, Err(Some(Refusal::Missing)));
            assert_eq!(begun(optional, true, &[plain], false).await, Ok((false, plain.to_vec())));
        }
        assert_eq!(begun(required, true, &[], false).await, Err(Some(Refusal::Missing)));
        assert_eq!(begun(optional, true, &[], false).await, Err(None));
    }

    #[tokio::test]
    async fn u8_nobody_else_may_send_it() {
        for wanted in [ProxyProtocol::Required, ProxyProtocol::Optional] {
            for header in [LINE, &LINE[..7], b"\r\n\r\n\0\r\nQUIT\n"] {
                assert_eq!(begun(wanted, false, &[header], false).await, Err(Some(Refusal::Untrusted)));
            }
            let plain = b"GET / HTTP/1.1\r\n";
            assert_eq!(begun(wanted, false, &[plain], false).await, Ok((false, plain.to_vec())));
            assert_eq!(begun(wanted, false, &[b"PROX"], false).await, Ok((false, b"PROX".to_vec())));
        }
    }

    #[tokio::test]
    async fn a_header_that_is_none_or_takes_too_long_is_invalid() {
        for parts in [b"PROXY TCP4 x\r\n".as_slice(), &LINE[..20]] {
            let told = begun(ProxyProtocol::Optional, true, &[parts], false).await;
            assert_eq!(told, Err(Some(Refusal::Invalid)));
        }
        assert_eq!(begun(ProxyProtocol::Required, true, &[&LINE[..20]], true).await, Err(Some(Refusal::Invalid)));
    }

    #[tokio::test]
    async fn who_leaves_before_the_first_byte_is_silent() {
        for (wanted, trusted) in [(ProxyProtocol::Required, true), (ProxyProtocol::Optional, false)] {
            assert_eq!(begun(wanted, trusted, &[], true).await, Err(None));
        }
    }
}
