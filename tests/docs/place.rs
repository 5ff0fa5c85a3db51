//! Where are the commands of a page typed? In a folder of the test's, whose ports stand for those of the page: two runs at
//! once do not meet, and what the page says is told with its own ports.

use std::fs;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use nix::sys::socket::sockopt::ReuseAddr;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket};
use regex::{Captures, Regex};
use tempfile::TempDir;

use super::page::{Page, Typed};
use super::ports;
use super::said::is_as_shown;
use super::shell::{Ended, Shell};

/// How long may be asked until the answer is the one shown.
const PATIENCE: Duration = Duration::from_secs(40);
/// What the pages listen on and ask.
const PORTS: [u16; 5] = [8080, 9180, 9001, 9002, 9003];
/// What only looks is asked again, as a reader would.
const LOOKS: [&str; 5] = ["curl ", "cat ", "tail ", "moorgate status", "moorgate key"];

pub(crate) struct Place {
    pub(crate) shell: Shell,
    home: TempDir,
    /// Its port in the page, and the one that stands for it here.
    ports: Vec<(u16, u16)>,
    _reserved: Vec<TcpListener>,
}

/// Bound, and nobody listens: whoever is told of the port may, with SO_REUSEADDR, and no other test finds it free.
fn reserved(port: u16) -> std::io::Result<TcpListener> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    bind(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, port))?;
    setsockopt(&socket, ReuseAddr, &true)?;
    Ok(TcpListener::from(socket))
}

fn numbers(text: &str, other: impl Fn(u16) -> Option<u16>) -> String {
    let replaced = |found: &Captures<'_>| {
        let other = found[0].parse().ok().and_then(&other);
        other.map_or_else(|| found[0].to_owned(), |other| other.to_string())
    };
    Regex::new(r"\b\d{4,5}\b").unwrap().replace_all(text, replaced).into_owned()
}

impl Place {
    pub(crate) fn new() -> Self {
        let home = TempDir::new().unwrap();
        let held: Vec<_> = PORTS.iter().map(|_| ports::bound(reserved).unwrap()).collect();
        let own = held.iter().map(|listener| listener.local_addr().unwrap().port());
        Self { shell: Shell::new(home.path()), ports: PORTS.into_iter().zip(own).collect(), _reserved: held, home }
    }

    /// Says it with the ports of this place.
    fn here(&self, text: &str) -> String {
        numbers(text, |port| self.ports.iter().find(|(page, _)| *page == port).map(|(_, own)| *own))
    }

    /// Says it with the ports of the page.
    fn as_on_the_page(&self, text: &str) -> String {
        numbers(text, |port| self.ports.iter().find(|(_, own)| *own == port).map(|(page, _)| *page))
    }

    /// A file of the page. An address for commands that it leaves to the default is one of this place.
    fn write(&mut self, name: &str, text: &str) {
        let folder = self.shell.type_in("pwd").printed;
        let socket = self.home.path().join("control.sock");
        let own = format!("process: {{ admin: {{ address: 127.0.0.1:9180 }}, control_socket: {}, ", socket.display());
        let text = if name.ends_with(".yaml") { text.replacen("process: { ", &own, 1) } else { text.to_owned() };
        fs::write(std::path::Path::new(folder.trim()).join(name), self.here(&text)).unwrap();
    }

    /// Does all that the page says, but for the commands that begin with one of these.
    pub(crate) fn walk(&mut self, page: &Page, but: &[&str]) {
        for block in &page.blocks {
            if let Some(name) = &block.file {
                self.write(name, &block.text);
            }
            for typed in block.typed().unwrap_or_default() {
                if !but.iter().any(|command| typed.command.starts_with(command)) {
                    self.does(&typed, &format!("{}:{}", page.path, block.line));
                }
            }
        }
    }

    fn does(&mut self, typed: &Typed, at: &str) {
        let (command, began) = (self.here(&typed.command), Instant::now());
        loop {
            let Ended { printed, code } = self.shell.type_in(&command);
            let printed = self.as_on_the_page(&printed);
            let right = if typed.prints.is_empty() { code == 0 } else { is_as_shown(&typed.prints, &printed) };
            if right {
                return;
            }
            let again = LOOKS.iter().any(|look| command.starts_with(look)) && began.elapsed() < PATIENCE;
            let told = || format!("$ {}\n--- shown:\n{}--- printed ({code}):\n{printed}", typed.command, typed.prints);
            assert!(again, "{at}: {}", told());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
