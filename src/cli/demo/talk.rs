//! How does the demo ask? One request after the other on a kept HTTP/1.1 connection.
//!
//! Always holds: an answer is whole or it is an error, an error closes the connection, and nobody waits longer than
//! [`PATIENCE`]. Nothing is ever asked twice: a request that failed is a failure.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::str;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::origins::NAME;

/// The host of every request of the load.
pub(super) const HOST: &str = "demo.test";
/// For one answer, above all that the gateway may take to find one.
const PATIENCE: Duration = Duration::from_secs(10);
/// Header lines of an answer at most.
const HEADERS: usize = 32;

/// A connection to one address, opened when it is needed.
#[derive(Debug)]
pub(super) struct Talk {
    to: SocketAddr,
    host: String,
    stream: Option<TcpStream>,
    /// Bytes read and not yet understood.
    read: Vec<u8>,
}

/// A whole answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The origin that names itself in it.
    pub(super) origin: Option<String>,
    pub(super) body: Vec<u8>,
}

/// The header of an answer.
struct Head {
    status: u16,
    origin: Option<String>,
    /// Bytes of header and body.
    ends: (usize, usize),
    keeps: bool,
}

impl Talk {
    /// Asks the gateway at this address as a client.
    pub(super) fn to(address: SocketAddr) -> Self {
        Self { to: address, host: HOST.to_owned(), stream: None, read: Vec::new() }
    }

    /// Asks an admin address, which answers to no other host.
    pub(super) fn to_admin(address: SocketAddr) -> Self {
        Self { host: address.to_string(), ..Self::to(address) }
    }

    /// Asks for `target`; `headers` are whole lines.
    pub(super) async fn ask(&mut self, method: &str, target: &str, headers: &str) -> io::Result<Answer> {
        let request = format!("{method} {target} HTTP/1.1\r\nhost: {}\r\n{headers}\r\n", self.host);
        // the stream is put back only by an exchange that came to its end
        timeout(PATIENCE, self.exchange(request.as_bytes())).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
    }

    async fn exchange(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.read.clear();
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => TcpStream::connect(self.to).await?,
        };
        stream.set_nodelay(true)?;
        stream.write_all(request).await?;
        let head = loop {
            more(&mut stream, &mut self.read).await?;
            if let Some(head) = Head::parse(&self.read)? {
                break head;
            }
        };
        while self.read.len() < head.ends.1 {
            more(&mut stream, &mut self.read).await?;
        }
        self.stream = head.keeps.then_some(stream);
        let body = self.read.get(head.ends.0..head.ends.1).unwrap_or_default().to_vec();
        Ok(Answer { status: head.status, origin: head.origin, body })
    }
}

async fn more(stream: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<()> {
    if stream.read_buf(read).await? == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

impl Head {
    /// `None` while there is not all of it.
    fn parse(read: &[u8]) -> io::Result<Option<Self>> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let invalid = |why: &str| io::Error::new(ErrorKind::InvalidData, why.to_owned());
        let parsed = response.parse(read).map_err(|error| invalid(&error.to_string()))?;
        let httparse::Status::Complete(end) = parsed else { return Ok(None) };
        let value = |name: &str| {
            let header = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
            str::from_utf8(header.value).ok()
        };
        let length: usize = value("content-length")
            .and_then(|length| length.parse().ok())
            .ok_or_else(|| invalid("an answer without a length"))?;
        Ok(Some(Self {
            status: response.code.unwrap_or_default(),
            origin: value(NAME).map(str::to_owned),
            ends: (end, end.saturating_add(length)),
            keeps: !value("connection").is_some_and(|word| word.eq_ignore_ascii_case("close")),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> io::Result<Option<Head>> {
        Head::parse(text.as_bytes())
    }

    #[test]
    fn a_header_is_read_when_all_of_it_is_there() {
        let all = "HTTP/1.1 200 OK\r\nX-Origin: cache-1\r\nContent-Length: 5\r\nConnection: Close\r\n\r\n";
        assert!(head(&all[..all.len() - 1]).unwrap().is_none());
        let read = head(&format!("{all}hello")).unwrap().unwrap();
        assert_eq!((read.status, read.origin.as_deref(), read.keeps), (200, Some("cache-1"), false));
        assert_eq!(read.ends, (all.len(), all.len() + 5));
    }

    #[test]
    fn an_answer_whose_end_cannot_be_known_is_an_error() {
        assert!(head("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
        assert!(head("nonsense\r\n\r\n").is_err());
    }
}
