//! Which protocol does a client speak on a listener with `h2c`?
//!
//! HTTP/2 by prior knowledge begins with 24 known bytes. They are read, not peeked at, so that a client that sends a
//! part of them costs no spinning; the connection hands on what was read.

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::proxy::wire::Limits;

/// RFC 9113, section 3.4.
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoken {
    /// It left, or never said a thing.
    Nothing,
    /// Something that is not HTTP/2.
    Http1,
    /// HTTP/2.
    Http2,
}

/// Reads until it is clear what `socket` speaks, of which `read` came already. One that stalls within the preface is
/// left to HTTP/1 and its deadline.
pub(super) async fn read(socket: &TcpStream, mut read: Vec<u8>, limits: Limits) -> (Spoken, Vec<u8>) {
    if read.is_empty() && !matches!(timeout(limits.keepalive, socket.ready(Interest::READABLE)).await, Ok(Ok(_))) {
        return (Spoken::Nothing, read);
    }
    let spoken = timeout(limits.header_timeout, tell(socket, &mut read)).await.unwrap_or(Spoken::Http1);
    (spoken, read)
}

async fn tell(socket: &TcpStream, read: &mut Vec<u8>) -> Spoken {
    let mut bytes = [0; PREFACE.len()];
    loop {
        if read.starts_with(PREFACE) {
            return Spoken::Http2;
        }
        if !PREFACE.starts_with(read) {
            return Spoken::Http1;
        }
        if socket.readable().await.is_err() {
            return Spoken::Nothing;
        }
        let space = bytes.get_mut(read.len()..).unwrap_or_default();
        match socket.try_read(space) {
            Ok(0) if read.is_empty() => return Spoken::Nothing,
            Ok(0) => return Spoken::Http1,
            Ok(n) => read.extend_from_slice(space.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return Spoken::Nothing,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn spoken(parts: &[&[u8]], closes: bool) -> (Spoken, Vec<u8>) {
        spoken_behind(b"", parts, closes).await
    }

    async fn spoken_behind(ahead: &[u8], parts: &[&[u8]], closes: bool) -> (Spoken, Vec<u8>) {
        let ahead = ahead.to_vec();
        fed(parts, closes, async |socket, _, limits| read(&socket, ahead, limits).await).await
    }

    /// What `reader` makes of a client that sends these parts, and then closes or says no more; it has 200 ms.
    pub(in super::super) async fn fed<T>(
        parts: &[&[u8]],
        closes: bool,
        reader: impl AsyncFnOnce(TcpStream, SocketAddr, Limits) -> T,
    ) -> T {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        client.set_nodelay(true).unwrap();
        let (socket, peer) = listener.accept().await.unwrap();
        let short = Duration::from_millis(200);
        let limits = Limits { header_timeout: short, keepalive: short, ..crate::proxy::wire::tests::limits() };
        let writes = async {
            for part in parts {
                client.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
            (!closes).then_some(client)
        };
        let (told, _client) = tokio::join!(reader(socket, peer, limits), writes);
        told
    }

    #[tokio::test]
    async fn the_preface_is_told_from_everything_else() {
        let (start, rest) = PREFACE.split_at(3);
        assert_eq!(spoken(&[start, rest], false).await, (Spoken::Http2, PREFACE.to_vec()));
        assert_eq!(spoken(&[b"PROPFIND / HT"], false).await.0, Spoken::Http1);
        assert_eq!(spoken(&[], true).await, (Spoken::Nothing, vec![]));
    }

    #[tokio::test]
    async fn what_was_read_already_counts() {
        let more = [&PREFACE[..], b"\0\0\0"].concat();
        assert_eq!(spoken_behind(&more, &[], false).await, (Spoken::Http2, more.clone()));
        let (start, rest) = PREFACE.split_at(5);
        assert_eq!(spoken_behind(start, &[rest], false).await, (Spoken::Http2, PREFACE.to_vec()));
        assert_eq!(spoken_behind(b"GET / HTTP/1.1\r\nHost: a\r\n", &[], false).await.0, Spoken::Http1);
    }

    #[tokio::test]
    async fn one_that_stalls_within_the_preface_is_left_to_http1() {
        assert_eq!(spoken(&[b"PRI"], false).await, (Spoken::Http1, b"PRI".to_vec()));
        assert_eq!(spoken(&[b"PRI"], true).await, (Spoken::Http1, b"PRI".to_vec()));
    }
}
