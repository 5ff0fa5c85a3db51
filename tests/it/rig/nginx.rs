//! A real nginx as a process of the test's own, to stand beside the gateway.
//!
//! One process, no daemon; all its files are in a folder of its own, which relative paths in the text start from.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::process::Process;
use super::{PATIENCE, ports, within};

/// A running nginx.
pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    _process: Process,
    folder: TempDir,
}

/// Starts one with this in its `http` section and this in its first `server`, and waits until it accepts. `$address` in the
/// text stands for where it listens.
pub(crate) fn nginx(http: &str, server: &str) -> Nginx {
    started(http, server, "")
}

/// The same, for HTTP/2 by prior knowledge alone.
pub(crate) fn nginx_h2c(http: &str, server: &str) -> Nginx {
    started(http, server, " http2")
}

fn started(http: &str, server: &str, speaks: &str) -> Nginx {
    let program = program();
    for _ in 0..10 {
        if let Some(nginx) = start(&program, http, server, speaks) {
            return nginx;
        }
    }
    panic!("ten times somebody else took the port")
}

/// `None`: somebody else had the port.
fn start(program: &Path, http: &str, server: &str, speaks: &str) -> Option<Nginx> {
    let folder = TempDir::new().unwrap();
    let (file, output) = (folder.path().join("nginx.conf"), folder.path().join("output"));
    let reserved = ports::listener().unwrap();
    let address = reserved.local_addr().unwrap();
    std::fs::write(&file, document(address, http, server, speaks)).unwrap();
    drop(reserved);
    let mut command = Command::new(program);
    command.arg("-p").arg(folder.path()).arg("-c").arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
    let mut process = Process::start("nginx", &mut command, &output);
    let up = within(PATIENCE, || match process.wait(Duration::ZERO) {
        Some(_) => Some(false),
        None => TcpStream::connect(address).is_ok().then_some(true),
    });
    let lost = up == Some(false) && process.output().contains("Address already in use");
    assert!(up == Some(true) || lost, "nginx did not start");
    (!lost).then_some(Nginx { address, _process: process, folder })
}

fn document(address: SocketAddr, http: &str, server: &str, speaks: &str) -> String {
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|of| format!("{of}_temp_path {of};\n"));
    let [http, server] = [http, server].map(|text| text.replace("$address", &address.to_string()));
    format!(
        "daemon off;\nmaster_process off;\npid pid;\nerror_log stderr crit;\nevents {{ }}\nhttp {{\n{}{http}\n\
         server {{\nlisten {address} default_server{speaks};\nserver_name \"\";\n{server}\n}}\n}}\n",
        folders.concat()
    )
}

/// Where nginx is: a test that needs it does not do without.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A user's path may lack the folders of the system's servers.
    let places = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = places.map(|place| place.join("nginx")).find(|program| program.is_file());
    found.expect("missing: nginx; on Debian and Ubuntu: sudo .ci/needs nginx")
}

impl Nginx {
    /// A file in its folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
