//! Who comes in? Accepts, leaves alone, closes or refuses new connections, as told.
//!
//! While connections are refused the port stays bound to us: listening ends with `shutdown` and begins again with
//! `listen` on the same socket, so that no one else can take it meanwhile.

use std::io;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use nix::sys::socket::{Backlog, Shutdown, listen, shutdown};
use tokio::net::TcpStream;

use crate::connection;
use crate::script::Door;
use crate::stage::Stage;

pub(crate) const BACKLOG: i32 = 1024;

/// Runs the data port; ends only with an error.
pub(crate) async fn keep(listener: TcpListener, stage: Arc<Stage>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut door = stage.door();
    let mut listening = None;
    loop {
        let now = *door.borrow_and_update();
        if now == Door::Refuse && listening.take().is_some() {
            shutdown(listener.as_raw_fd(), Shutdown::Both)?;
        }
        if now != Door::Refuse && listening.is_none() {
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
        Door::Hang | Door::Refuse => {
            tokio::spawn(connection::leave_alone(stream, Arc::clone(stage)));
        }
    }
}
