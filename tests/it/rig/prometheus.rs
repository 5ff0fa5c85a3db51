//! A real Prometheus as a process of the test's own, that asks a gateway every second.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::client::Client;
use super::process::Process;
use super::{Gateway, PATIENCE, ports, within};

/// A running Prometheus.
pub(crate) struct Prometheus {
    address: SocketAddr,
    _process: Process,
    _folder: TempDir,
}

/// Starts one that scrapes this gateway.
pub(crate) fn prometheus(of: &Gateway) -> Prometheus {
    for _ in 0..10 {
        if let Some(prometheus) = start(of.admin) {
            return prometheus;
        }
    }
    panic!("ten times somebody else took the port")
}

/// `None`: somebody else had the port.
fn start(target: SocketAddr) -> Option<Prometheus> {
    let address = ports::listener().unwrap().local_addr().unwrap();
    let folder = TempDir::new().unwrap();
    let (file, output) = (folder.path().join("prometheus.yaml"), folder.path().join("output"));
    let text = format!(
        "global: {{ scrape_interval: 1s }}\n\
         scrape_configs: [ {{ job_name: moorgate, static_configs: [ {{ targets: [ \"{target}\" ] }} ] }} ]\n"
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", file.display())).arg(format!("--web.listen-address={address}"));
    command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut process = Process::start("prometheus", &mut command, &output);
    let ready = || matches!(ask(address, "/-/ready"), Some((200, _)));
    let up = within(PATIENCE, || match process.wait(Duration::ZERO) {
        Some(_) => Some(false),
        None => ready().then_some(true),
    });
    let lost = up == Some(false) && process.output().contains("address already in use");
    assert!(up == Some(true) || lost, "prometheus did not start (missing? sudo .ci/needs promtool)");
    (!lost).then_some(Prometheus { address, _process: process, _folder: folder })
}

fn ask(address: SocketAddr, target: &str) -> Option<(u16, String)> {
    std::net::TcpStream::connect(address).ok()?;
    let answer = Client::new(address).send(&super::Ask::get(target)).ok()?;
    Some((answer.status, answer.text()))
}

impl Prometheus {
    /// The figures an expression has now; those that are no number are left out.
    pub(crate) fn query(&self, expression: &str) -> Vec<f64> {
        let escaped: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let (status, text) = ask(self.address, &format!("/api/v1/query?query={escaped}")).expect("an answer");
        assert_eq!(status, 200, "{expression}: {text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        let found = answer["data"]["result"].as_array().expect("a vector").iter();
        let figures = found.filter_map(|one| one["value"][1].as_str()?.parse().ok());
        figures.filter(|figure: &f64| !figure.is_nan()).collect()
    }
}
