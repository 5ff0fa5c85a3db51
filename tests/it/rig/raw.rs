//! A client connection that sends exactly these bytes and sees exactly what comes back.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket};

use super::PATIENCE;
use super::client::Answer;

/// A connection to a listener.
pub(crate) struct Raw {
    stream: BufReader<TcpStream>,
}

/// Connects.
pub(crate) fn raw(to: SocketAddr) -> Raw {
    Raw::connect(to).unwrap()
}

/// Can nobody connect any more? Sooner than a kernel that gets no answer tries again, which takes a second.
pub(crate) fn takes_nobody(at: SocketAddr) -> bool {
    TcpStream::connect_timeout(&at, Duration::from_millis(50)).is_err()
}

impl Raw {
    pub(crate) fn connect(to: SocketAddr) -> io::Result<Self> {
        Self::over(TcpStream::connect_timeout(&to, PATIENCE)?)
    }

    /// From an address of this machine's own choice, such as 127.0.0.2.
    pub(crate) fn connect_from(from: IpAddr, to: SocketAddr) -> io::Result<Self> {
        let family = if from.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from, 0)))?;
        connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
        Self::over(TcpStream::from(socket))
    }

    fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap();
    }

    /// May fail when the other side has closed.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes.as_ref())
    }

    /// For a thread that goes on sending while answers are read.
    pub(crate) fn sender(&self) -> TcpStream {
        self.stream.get_ref().try_clone().unwrap()
    }

    /// The next answer to a request with this method.
    pub(crate) fn answer_to(&mut self, method: &str) -> io::Result<Answer> {
        Answer::read(&mut self.stream, method)
    }

    /// The next answer.
    pub(crate) fn answer(&mut self) -> Answer {
        self.answer_to("GET").unwrap()
    }

    /// Everything up to the end of the connection; a reset counts as an end.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => {
                panic!("the connection stays open: {error}")
            }
            _ => rest,
        }
    }

    /// At least that many further bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The same, unless the connection ends before.
    pub(crate) fn try_bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The first line of the next answer, which stays to be read.
    pub(crate) fn peek_line(&mut self) -> String {
        loop {
            let waiting = self.stream.buffer();
            if let Some(end) = waiting.windows(2).position(|two| two == b"\r\n") {
                return String::from_utf8_lossy(&waiting[..end]).into_owned();
            }
            assert!(waiting.is_empty(), "half a line: {}", waiting.escape_ascii());
            assert!(!self.stream.fill_buf().unwrap().is_empty(), "the connection ended");
        }
    }

    /// One line, without its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end_matches(['\r', '\n']).to_owned()
    }
}
