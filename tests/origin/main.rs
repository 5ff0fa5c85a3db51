//! An HTTP origin (1.1, and 2 by prior knowledge) that does exactly what a test tells it to: answers, delays, cuts, resets, refuses, hangs.
//!
//! `moorgate-test-origin --name NAME [--listen ADDRESS | --everywhere] [--with-parent]` prints one line, `DATA CONTROL`: the address for
//! requests and the one for commands (see `script.rs`). Plain sockets, one thread: what goes out is what was asked
//! for, byte for byte, in that order.

mod body;
mod connection;
mod control;
mod door;
mod h2c;
mod pattern;
mod perform;
mod ports;
mod script;
mod stage;

use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::process::ExitCode;
use std::sync::Arc;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, setsockopt, socket, sockopt,
};
use stage::Stage;

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "moorgate-test-origin: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> io::Result<()> {
    let mut name = "origin".to_owned();
    let mut listener = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), arguments.len()) {
            ("--name", 1..) => name = arguments.next().unwrap_or_default(),
            ("--listen", 1..) => listener = Some(TcpListener::bind(arguments.next().unwrap_or_default())?),
            ("--everywhere", _) => listener = Some(ports::bound(everywhere)?),
            ("--with-parent", _) => leave_with_parent(),
            _ => return Err(io::Error::other(format!("unknown or incomplete argument `{argument}`"))),
        }
    }
    let data = listener.map_or_else(ports::listener, Ok)?;
    let control = ports::listener()?;
    writeln!(io::stdout(), "{} {}", data.local_addr()?, control.local_addr()?)?;
    io::stdout().flush()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stage = Arc::new(Stage::new(name));
        tokio::spawn(door::keep(data, Arc::clone(&stage)));
        control::listen(control, stage).await
    })
}

/// A listener on every address of the loopback interface, and on no other: 16 million origins in one.
fn everywhere(port: u16) -> io::Result<TcpListener> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::BindToDevice, &"lo".into())?;
    bind(socket.as_raw_fd(), &SockaddrIn::new(0, 0, 0, 0, port))?;
    listen(&socket, Backlog::new(ports::BACKLOG)?)?;
    Ok(TcpListener::from(socket))
}

/// The parent holds the other end of standard input: when it is gone, so are we.
fn leave_with_parent() {
    std::thread::spawn(|| {
        let mut rest = Vec::new();
        let _ = io::stdin().read_to_end(&mut rest);
        std::process::exit(0);
    });
}
