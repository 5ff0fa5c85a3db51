//! Who comes in? Accepts, leaves alone, closes or refuses new connections, as told.
//!
//! While connections are refused the port stays bound to us: listening ends with `shutdown` and begins again with
//! `listen` on the same socket, so that no one else can take it meanwhile. While they are left without an answer the
//! queue of the socket is short and full, and the kernel drops what does not fit.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::{Backlog, Shutdown, listen, shutdown};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::connection;
use crate::ports::BACKLOG;
use crate::script::Door;
use crate::stage::Stage;

/// A connection on loopback that is not there by then is not coming.
const PROMPT: Duration = Duration::from_millis(200);

/// Runs the data port; ends only with an error.
pub(crate) async fn keep(listener: TcpListener, stage: Arc<Stage>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut door = stage.door();
    let mut listening = None;
    let mut crowd = Vec::new();
    loop {
        let now = *door.borrow_and_update();
        let deaf = !std::mem::take(&mut crowd).is_empty();
        if matches!(now, Door::Refuse | Door::Deaf) && (listening.take().is_some() || deaf) {
            shutdown(listener.as_raw_fd(), Shutdown::Both)?;
        }
        if now == Door::Deaf {
            listen(&listener, Backlog::new(0)?)?;
            crowd = fill(listener.local_addr()?).await;
        } else if now != Door::Refuse && listening.is_none() {
            listen(&listener, Backlog::new(BACKLOG)?)?;
            listening = Some(tokio::net::TcpListener::from_std(listener.try_clone()?)?);
        }
        stage.door_is(now);
        tokio::select! {
            accepted = accept(listening.as_ref()) => welcome(accepted, now, &stage),
            _ = door.changed() => {}
        }
    }
}

/// Connections nobody accepts, until no further one comes about.
async fn fill(address: SocketAddr) -> Vec<TcpStream> {
    let mut crowd = Vec::new();
    while let Ok(Ok(stream)) = timeout(PROMPT, TcpStream::connect(address)).await {
        crowd.push(stream);
    }
    crowd
}

async fn accept(listening: Option<&tokio::net::TcpListener>) -> TcpStream {
    loop {
        match listening {
            Some(listener) => {
                if let Ok((stream, _)) = listener.accept().await {
                    return stream;
                }
            }
            None => std::future::pending().await,
        }
    }
}

fn welcome(stream: TcpStream, door: Door, stage: &Arc<Stage>) {
    match door {
        Door::Open => {
            tokio::spawn(connection::serve(stream, Arc::clone(stage)));
        }
        Door::Close(how) => {
            tokio::spawn(connection::close(stream, how));
        }
        Door::Hang | Door::Refuse | Door::Deaf => {
            tokio::spawn(connection::leave_alone(stream, Arc::clone(stage)));
        }
    }
}
