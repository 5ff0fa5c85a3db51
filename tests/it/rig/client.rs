//! A small HTTP/1.1 client over one kept connection, which hides nothing: a connection that ends early is an error.

use std::io::{self, BufRead, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd as _;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};

use super::PATIENCE;

/// A request to be sent.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Vec<u8>>,
}

/// An answer as it came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Header lines, names as received.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// What followed the body (HTTP/2).
    pub(crate) trailers: Vec<(String, String)>,
    /// Statuses of interim answers before it.
    pub(crate) interim: Vec<u16>,
}

/// A client with at most one connection.
pub(crate) struct Client {
    to: SocketAddr,
    from: Option<Ipv4Addr>,
    stream: Option<io::BufReader<TcpStream>>,
}

impl Ask {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        Self { method: method.to_owned(), target: target.to_owned(), headers: Vec::new(), body: None }
    }

    pub(crate) fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// `Host` is `test` unless given here.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    pub(crate) fn header_value(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if self.header_value("host").is_none() {
            text.push_str("Host: test\r\n");
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = &self.body {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend(self.body.iter().flatten());
        bytes
    }
}

impl Client {
    pub(crate) fn new(to: SocketAddr) -> Self {
        Self { to, from: None, stream: None }
    }

    /// The same with this address of its own, one of the loopback network.
    pub(crate) fn from(self, address: Ipv4Addr) -> Self {
        Self { from: Some(address), ..self }
    }

    /// Sends a request on the kept connection, or on a new one where there is none.
    pub(crate) fn send(&mut self, ask: &Ask) -> io::Result<Answer> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => io::BufReader::new(self.connect()?),
        };
        stream.get_mut().write_all(&ask.bytes())?;
        let answer = Answer::read(&mut stream, &ask.method)?;
        if !answer.closes() {
            self.stream = Some(stream);
        }
        Ok(answer)
    }

    /// The next request will find a connection: neither an answer nor an error ended it.
    pub(crate) fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.send(&Ask::get(target)).unwrap()
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = match (self.from, self.to) {
            (Some(from), SocketAddr::V4(to)) => connect_from(from, to)?,
            _ => TcpStream::connect_timeout(&self.to, PATIENCE)?,
        };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }
}

fn connect_from(from: Ipv4Addr, to: SocketAddrV4) -> io::Result<TcpStream> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    bind(socket.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(from, 0)))?;
    connect(socket.as_raw_fd(), &SockaddrIn::from(to))?;
    Ok(TcpStream::from(socket))
}

impl Answer {
    /// Reads one answer, interim ones before it included.
    pub(crate) fn read(stream: &mut impl BufRead, method: &str) -> io::Result<Self> {
        let mut interim = Vec::new();
        let mut answer = loop {
            let head = Self::head(stream)?;
            if head.status >= 200 || head.status == 101 {
                break head;
            }
            interim.push(head.status);
        };
        answer.interim = interim;
        if method == "HEAD" || [101, 204, 304].contains(&answer.status) {
            return Ok(answer);
        }
        if answer.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            answer.chunks(stream)?;
        } else if let Some(length) = answer.header("content-length").and_then(|value| value.parse().ok()) {
            answer.body = vec![0; length];
            stream.read_exact(&mut answer.body)?;
        } else {
            stream.read_to_end(&mut answer.body)?;
            answer.headers.push(("connection".to_owned(), "close".to_owned()));
        }
        Ok(answer)
    }

    fn head(stream: &mut impl BufRead) -> io::Result<Self> {
        let first = line(stream)?;
        let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status line: {first:?}")))?;
        let mut answer = Self { status, ..Self::default() };
        loop {
            let line = line(stream)?;
            if line.is_empty() {
                return Ok(answer);
            }
            let (name, value) = line.split_once(':').ok_or_else(|| io::Error::other(format!("no header: {line:?}")))?;
            answer.headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    fn chunks(&mut self, stream: &mut impl BufRead) -> io::Result<()> {
        loop {
            let size = line(stream)?;
            let size = usize::from_str_radix(size.trim(), 16).map_err(|_| io::Error::other("no chunk size"))?;
            let mut chunk = vec![0; size];
            stream.read_exact(&mut chunk)?;
            self.body.extend(chunk);
            line(stream)?;
            if size == 0 {
                return Ok(());
            }
        }
    }

    /// The first header of this name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The origin that gave it; empty when it is an answer of the gateway itself.
    pub(crate) fn origin(&self) -> &str {
        self.header("x-origin").unwrap_or("")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// It is the last one of its connection.
    pub(crate) fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    let Some(line) = line.strip_suffix(b"\r\n") else { return Err(io::ErrorKind::UnexpectedEof.into()) };
    Ok(line.iter().map(|byte| char::from(*byte)).collect())
}
