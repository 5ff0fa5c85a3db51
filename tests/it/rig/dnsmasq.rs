//! A real DNS server as a process of the test's own, to be asked by the gateway.
//!
//! dnsmasq in the foreground, on a loopback port of its own, knowing what a file of hosts says and nobody else; all its
//! files are in a folder of its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::process::Process;
use super::{PATIENCE, ports, within};

/// A running dnsmasq.
pub(crate) struct Dnsmasq {
    pub(crate) address: SocketAddr,
    process: Process,
    folder: TempDir,
}

/// Starts one that knows these hosts, one `ADDRESS NAME` a line, and these further lines of configuration.
pub(crate) fn dnsmasq(hosts: &str, lines: &str) -> Dnsmasq {
    for _ in 0..10 {
        if let Some(server) = start(hosts, lines) {
            return server;
        }
    }
    panic!("ten times somebody else took the port")
}

/// `None`: somebody else had the port.
fn start(hosts: &str, lines: &str) -> Option<Dnsmasq> {
    let folder = TempDir::new().unwrap();
    let [file, known, output] = ["dnsmasq.conf", "hosts", "output"].map(|name| folder.path().join(name));
    let address = ports::listener().unwrap().local_addr().unwrap();
    let (port, known_as) = (address.port(), known.display());
    std::fs::write(&known, hosts).unwrap();
    let text = format!(
        "port={port}\nlisten-address=127.0.0.1\nbind-interfaces\nno-resolv\nno-hosts\naddn-hosts={known_as}\n\
         local=/test/\nuser=\npid-file=\n{lines}\n"
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(program());
    command.arg("--keep-in-foreground").arg("--log-facility=-").arg("-C").arg(&file).stdin(Stdio::null());
    let mut process = Process::start("dnsmasq", command.stdout(Stdio::null()), &output);
    let up = within(PATIENCE, || match process.wait(Duration::ZERO) {
        Some(_) => Some(false),
        None => process.output().contains("read ").then_some(true),
    });
    let lost = up == Some(false) && process.output().contains("in use");
    assert!(up == Some(true) || lost, "dnsmasq did not start");
    (!lost).then_some(Dnsmasq { address, process, folder })
}

/// Where it is: a test that needs it does not do without.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A user's path may lack the folders of the system's servers.
    let places = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = places.map(|place| place.join("dnsmasq")).find(|program| program.is_file());
    found.expect("missing: dnsmasq; on Debian and Ubuntu: sudo .ci/needs dnsmasq")
}

impl Dnsmasq {
    /// Other hosts from now on.
    pub(crate) fn know(&self, hosts: &str) {
        std::fs::write(self.folder.path().join("hosts"), hosts).unwrap();
        self.process.signal(Signal::SIGHUP);
    }
}
