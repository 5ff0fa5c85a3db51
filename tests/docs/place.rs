//! Where are the commands of a page typed? In a folder of the test's, whose ports stand for those of the page: two runs at
//! once do not meet, and what the page says is told with its own ports.

use std::fs;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::socket::sockopt::ReuseAddr;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket};
use regex::{Captures, Regex};
use tempfile::TempDir;

use super::page::{Block, Page, Typed};
use super::ports;
use super::said;
use super::shell::{Ended, Shell};

/// How long may be asked until the answer is the one shown.
const PATIENCE: Duration = Duration::from_secs(40);
/// What the pages listen on and ask.
const PORTS: [u16; 5] = [8080, 9180, 9001, 9002, 9003];
/// What only looks is asked again, as a reader would.
const LOOKS: [&str; 5] = ["curl ", "cat ", "tail ", "moorgate status", "moorgate key"];

pub(crate) struct Place {
    pub(crate) shell: Shell,
    pub(crate) home: TempDir,
    /// What was typed so far, and what it printed.
    pub(crate) record: Vec<(String, String)>,
    /// Is what was printed what is shown?
    pub(crate) compare: fn(&str, &str) -> bool,
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

/// Ports on this machine; what elsewhere is the name of an origin stays what it is.
fn numbers(text: &str, other: impl Fn(u16) -> Option<u16>) -> String {
    let replaced = |found: &Captures<'_>| {
        let other = found[2].parse().ok().and_then(&other);
        other.map_or_else(|| found[0].to_owned(), |other| format!("{}{other}", &found[1]))
    };
    Regex::new(r"(127\.0\.0\.1:|http\.server )(\d{4,5})\b").unwrap().replace_all(text, replaced).into_owned()
}

impl Place {
    pub(crate) fn new() -> Self {
        let home = TempDir::new().unwrap();
        let held: Vec<_> = PORTS.iter().map(|_| ports::bound(reserved).unwrap()).collect();
        let own = held.iter().map(|listener| listener.local_addr().unwrap().port());
        Self {
            shell: Shell::new(home.path()),
            ports: PORTS.into_iter().zip(own).collect(),
            _reserved: held,
            record: Vec::new(),
            compare: said::is_as_shown,
            home,
        }
    }

    /// Says it with the ports of this place, and with its folder for the root of the page.
    fn here(&self, text: &str) -> String {
        let home = self.home.path().display();
        let text =
            Regex::new(r"(^|[ =:\n])/(etc|usr|run|var)/").unwrap().replace_all(text, format!("${{1}}{home}/$2/"));
        let text = text.replace("0.0.0.0:", "127.0.0.1:").replace("--origin 10.20.", "--origin 127.20.");
        numbers(&text, |port| self.ports.iter().find(|(page, _)| *page == port).map(|(_, own)| *own))
    }

    /// Says it with the ports of the page.
    fn as_on_the_page(&self, text: &str) -> String {
        let text = text.replace(&format!("{}/", self.home.path().display()), "/");
        numbers(&text, |port| self.ports.iter().find(|(_, own)| *own == port).map(|(page, _)| *page))
    }

    /// A file of the page, from the folder where the shell is. An address for commands that it leaves to the default is one of
    /// this place.
    pub(crate) fn write(&mut self, name: &str, text: &str) {
        let folder = self.shell.type_in("pwd").printed;
        let socket = self.home.path().join("control.sock");
        let own = format!("process: {{ admin: {{ address: 127.0.0.1:9180 }}, control_socket: {}, ", socket.display());
        let text = if name.ends_with(".yaml") { text.replacen("process: { ", &own, 1) } else { text.to_owned() };
        let path = Path::new(folder.trim()).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = text.replace("$HOME", &self.home.path().display().to_string());
        fs::write(path, self.here(&text)).unwrap();
    }

    /// Does all that the page says, but for the commands that begin with one of these.
    pub(crate) fn walk(&mut self, page: &Page, but: &[&str]) {
        for block in &page.blocks {
            self.block(page, block, but);
        }
    }

    /// Does what a block of the page says.
    pub(crate) fn block(&mut self, page: &Page, block: &Block, but: &[&str]) {
        if let Some(name) = &block.file {
            self.write(name, &block.text);
        }
        for typed in block.typed().unwrap_or_default() {
            if !but.iter().any(|command| typed.command.starts_with(command)) {
                self.does(&typed, &format!("{}:{}", page.path, block.line));
            }
        }
    }

    /// Types it in preparation: it has to go well.
    pub(crate) fn prepare(&mut self, command: &str) {
        self.does(&Typed { command: command.to_owned(), prints: String::new() }, "before the page");
    }

    fn does(&mut self, typed: &Typed, at: &str) {
        let (command, began) = (self.here(&until_told(&typed.command)), Instant::now());
        loop {
            let Ended { printed, code } = self.shell.type_in(&command);
            let printed = self.as_on_the_page(&printed);
            // 3: a guard would refuse, which is an answer.
            let well = code == 0 || code == 3 && command.starts_with("moorgate plan ");
            let right = if typed.prints.is_empty() { well } else { (self.compare)(&typed.prints, &printed) };
            if right {
                self.record.push((typed.command.clone(), printed));
                return;
            }
            let again = LOOKS.iter().any(|look| command.starts_with(look)) && began.elapsed() < PATIENCE;
            let told = || format!("$ {}\n--- shown:\n{}--- printed ({code}):\n{printed}", typed.command, typed.prints);
            assert!(again, "{at}: {}", told());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// What would serve until somebody ends it is ended once it serves: by INT, which it says by its exit code.
fn until_told(command: &str) -> String {
    let serves = ["moorgate run ", "moorgate supervise "].iter().any(|serves| command.starts_with(serves));
    if !serves || command.contains('&') {
        return command.to_owned();
    }
    format!(
        "{command} >served 2>&1 & served=$!; for n in $(seq 600); do grep -q 'listening on' served && break; sleep 0.05; done; \
         cat served; kill -INT $served; wait $served; [ $? = 130 ]"
    )
}
