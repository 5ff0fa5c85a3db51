//! A real HAProxy as a process of the test's own, to stand in front of gateways.
//!
//! One process, no daemon, all its files in a folder of its own.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::process::Process;
use super::{PATIENCE, ports, within};

/// A running HAProxy.
pub(crate) struct Haproxy {
    pub(crate) address: SocketAddr,
    process: Process,
    _folder: TempDir,
}

/// Starts one that balances over these `server` lines, with this in its only `listen` section, and waits until it accepts.
pub(crate) fn haproxy(section: &str) -> Haproxy {
    let program = program();
    for _ in 0..10 {
        if let Some(haproxy) = start(&program, section) {
            return haproxy;
        }
    }
    panic!("ten times somebody else took the port")
}

/// `None`: somebody else had the port.
fn start(program: &Path, section: &str) -> Option<Haproxy> {
    let folder = TempDir::new().unwrap();
    let (file, output) = (folder.path().join("haproxy.cfg"), folder.path().join("output"));
    let reserved = ports::listener().unwrap();
    let address = reserved.local_addr().unwrap();
    // what has no default or is warned about without a value; everything else is HAProxy's own
    let text = format!(
        "defaults\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\nlisten gateways\n  bind {address}\n{section}\n"
    );
    std::fs::write(&file, text).unwrap();
    drop(reserved);
    let mut command = Command::new(program);
    let log = std::fs::File::options().create(true).append(true).open(&output).unwrap();
    command.arg("-db").arg("-f").arg(&file).stdin(Stdio::null()).stdout(Stdio::from(log));
    let mut process = Process::start("haproxy", &mut command, &output);
    let up = within(PATIENCE, || match process.wait(Duration::ZERO) {
        Some(_) => Some(false),
        None => TcpStream::connect(address).is_ok().then_some(true),
    });
    let lost = up == Some(false) && process.output().to_lowercase().contains("in use");
    assert!(up == Some(true) || lost, "HAProxy did not start");
    (!lost).then_some(Haproxy { address, process, _folder: folder })
}

impl Haproxy {
    /// What it said, of its servers' checks among others.
    pub(crate) fn output(&self) -> String {
        self.process.output()
    }
}

/// Has HAProxy check this file: what it says, and whether it would start with it.
pub(crate) fn haproxy_checks(file: &Path) -> (String, bool) {
    let checked = Command::new(program()).arg("-c").arg("-f").arg(file).output().unwrap();
    let said = [checked.stdout, checked.stderr].concat();
    (String::from_utf8_lossy(&said).into_owned(), checked.status.success())
}

/// Where HAProxy is: a test that needs it does not do without.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A user's path may lack the folders of the system's servers.
    let places = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = places.map(|place| place.join("haproxy")).find(|program| program.is_file());
    found.expect("missing: haproxy; on Debian and Ubuntu: sudo .ci/needs haproxy")
}
