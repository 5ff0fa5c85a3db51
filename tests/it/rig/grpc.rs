//! A gRPC server and client of python3-grpcio, as processes of the test's own.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::PATIENCE;
use super::certificates::Identity;
use super::process::Process;

/// The system's own, for which there is a package.
const PYTHON: &str = "/usr/bin/python3";

/// A running server.
pub(crate) struct Server {
    /// Without TLS.
    pub(crate) plain: SocketAddr,
    /// With it.
    pub(crate) secure: SocketAddr,
    process: Process,
    _folder: TempDir,
}

/// A client at work.
pub(crate) struct Caller {
    said: BufReader<ChildStdout>,
    process: Process,
    _folder: TempDir,
}

fn script(name: &str) -> Command {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/grpc").join(name);
    let mut command = Command::new(PYTHON);
    // It would write what it compiled beside the script, and look for a proxy between it and the gateway.
    command.arg("-B").arg(path).env_remove("http_proxy").env_remove("https_proxy").env("GRPC_VERBOSITY", "ERROR");
    command
}

/// Starts a server that shows this certificate.
pub(crate) fn server(identity: &Identity) -> Server {
    let folder = TempDir::new().unwrap();
    identity.write(folder.path(), "cert", "key");
    let mut command = script("server.py");
    command.args(["cert.pem", "key.pem"].map(|file| folder.path().join(file)));
    let output = folder.path().join("output");
    let mut process = Process::start("gRPC server", command.stdin(Stdio::piped()).stdout(Stdio::piped()), &output);
    let mut line = String::new();
    BufReader::new(process.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (plain, secure) = line
        .trim()
        .split_once(' ')
        .unwrap_or_else(|| panic!("no gRPC server: on Debian and Ubuntu: sudo .ci/needs grpc\n{}", process.output()));
    Server { plain: plain.parse().unwrap(), secure: secure.parse().unwrap(), process, _folder: folder }
}

impl Server {
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }
}

/// Plays `scene` through the gateway at `to`, asking for `authority`; what came of it.
pub(crate) fn call(to: SocketAddr, authority: &str, scene: &str) -> Value {
    Caller::begin(to, authority, scene, None).end()
}

impl Caller {
    /// Begins a scene; over TLS with the file of an authority.
    pub(crate) fn begin(to: SocketAddr, authority: &str, scene: &str, ca: Option<&Path>) -> Self {
        let folder = TempDir::new().unwrap();
        let mut command = script("client.py");
        command.arg(to.to_string()).args([authority, scene]).args(ca).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Process::start("gRPC client", &mut command, &folder.path().join("output"));
        let said = BufReader::new(process.child.stdout.take().unwrap());
        Self { said, process, _folder: folder }
    }

    /// Waits for a line.
    pub(crate) fn says(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Waits for what came of it.
    pub(crate) fn end(mut self) -> Value {
        let mut text = String::new();
        self.said.read_to_string(&mut text).unwrap();
        let status = self.process.wait(PATIENCE).expect("the client ends");
        assert!(status.success(), "{}", self.process.output());
        serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}
