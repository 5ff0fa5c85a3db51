//! A client of HTTP/2 with one connection that is kept, for requests one after the other.

use std::io;
use std::net::SocketAddr;
use std::sync::LazyLock;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::PATIENCE;
use super::client::{Answer, Ask};
use super::h2c::{head, whole};

/// Where connections of all such clients are kept going between requests.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());

/// Such a client.
pub(crate) struct Streams {
    to: SocketAddr,
    /// It makes no second connection.
    ends: bool,
    began: bool,
    connection: Option<SendRequest<Bytes>>,
}

impl Streams {
    pub(crate) fn new(to: SocketAddr, ends: bool) -> Self {
        Self { to, ends, began: false, connection: None }
    }

    /// Sends a request, on a new connection where there is none or it was told to go; `NotConnected`: it was, and makes no
    /// other.
    pub(crate) fn send(&mut self, ask: &Ask) -> io::Result<Answer> {
        RUNTIME.block_on(async {
            match timeout(PATIENCE, self.answer(ask)).await {
                Ok(answer) => answer,
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            }
        })
    }

    async fn answer(&mut self, ask: &Ask) -> io::Result<Answer> {
        loop {
            let connection = match self.connection.take() {
                Some(connection) => connection,
                None if self.ends && self.began => return Err(io::ErrorKind::NotConnected.into()),
                None => connect(self.to).await?,
            };
            self.began = true;
            // whoever was told to go has sent nothing
            let Ok(mut connection) = connection.ready().await else { continue };
            let Ok((answer, mut body)) = connection.send_request(head(ask), ask.body.is_none()) else { continue };
            self.connection = Some(connection);
            if let Some(bytes) = &ask.body {
                body.send_data(bytes.clone().into(), true).map_err(io::Error::other)?;
            }
            match answer.await {
                Ok(answer) => return whole(answer).await.map_err(io::Error::other),
                // GOAWAY names an earlier stream as the last, as when this one crossed it: nobody has seen it
                // (RFC 9113, section 6.8), and any client sends it again
                Err(error)
                    if error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR) => {}
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}

async fn connect(to: SocketAddr) -> io::Result<SendRequest<Bytes>> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let (client, connection) = h2::client::handshake(stream).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    Ok(client)
}
