//! The shipped binary, started with a configuration of the test's own.
//!
//! The test writes what its case is about (pools, routes, limits); the `process` section (ports, control socket,
//! access log, short drain) is the rig's, single keys of it can be set. In the text `$origins` stands for the list
//! of all origins of the test, `$NAME` for the address of one, `$listener0`, `$listener1` for those of the listeners,
//! `$dir` for the folder of this gateway.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::client::{Answer, Ask, Client};
use super::footprint::Footprint;
use super::generations::Generations;
use super::metrics::Metrics;
use super::origin::Origin;
use super::process::{Process, children};
use super::way::Way;
use super::{PATIENCE, eventually, ports, within};

/// A gateway to be started.
pub(crate) struct Setup {
    text: String,
    names: BTreeMap<String, String>,
    process: BTreeMap<String, String>,
    listeners: Vec<String>,
    /// Further arguments of `run`.
    arguments: Vec<String>,
    environment: Vec<(String, OsString)>,
    way: Way,
}

/// A running gateway.
pub(crate) struct Gateway {
    setup: Setup,
    /// Its listeners, in order.
    pub(crate) listeners: Vec<SocketAddr>,
    pub(crate) admin: SocketAddr,
    pub(super) generations: Generations,
    process: Process,
    /// The first listener's socket, if it was opened before the process.
    socket: Option<TcpListener>,
    folder: TempDir,
}

/// A gateway with this configuration, the `process` section left out.
pub(crate) fn gateway(text: &str) -> Setup {
    let process = [("threads", "2"), ("drain", "{ lame_duck: 0s, timeout: 5s }")];
    Setup {
        text: text.to_owned(),
        names: BTreeMap::new(),
        process: process.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        listeners: vec![String::new()],
        arguments: Vec::new(),
        environment: Vec::new(),
        way: Way::Plain,
    }
}

impl Setup {
    /// With another configuration.
    pub(crate) fn text(self, text: &str) -> Self {
        Self { text: text.to_owned(), ..self }
    }

    /// The origins that `$origins` and `$NAME` stand for.
    pub(crate) fn origins<'a>(mut self, origins: impl IntoIterator<Item = &'a Origin>) -> Self {
        for origin in origins {
            self.names.insert(origin.name.clone(), origin.address.to_string());
        }
        self
    }

    /// `$NAME` stands for this address.
    pub(crate) fn named(mut self, name: &str, address: SocketAddr) -> Self {
        self.names.insert(name.to_owned(), address.to_string());
        self
    }

    /// Sets a key of the `process` section.
    pub(crate) fn process(mut self, key: &str, value: &str) -> Self {
        self.process.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets further keys of the (first) listener, such as `h2c: true`.
    pub(crate) fn listener(mut self, keys: &str) -> Self {
        self.listeners = vec![format!(", {keys}")];
        self
    }

    /// One more listener, with these keys.
    pub(crate) fn further_listener(mut self, keys: &str) -> Self {
        self.listeners.push(format!(", {keys}"));
        self
    }

    /// Further arguments of `run`.
    pub(crate) fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        self
    }

    /// Sets a variable of its environment.
    pub(crate) fn environment(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Not started by the test itself.
    pub(crate) fn started_by(mut self, way: Way) -> Self {
        self.way = way;
        self
    }

    /// Starts it and waits until it is ready.
    pub(crate) fn start(self) -> Gateway {
        self.run(|_| (), |_| ()).0
    }

    /// Prepares its folder first.
    pub(crate) fn start_with(self, first: impl Fn(&Path)) -> Gateway {
        self.run(first, |_| ()).0
    }

    /// Starts it, does something with its first listener's address at once, and then waits until it is ready.
    pub(crate) fn start_and<T>(self, then: impl Fn(SocketAddr) -> T) -> (Gateway, T) {
        self.run(|_| (), then)
    }

    fn run<T>(self, first: impl Fn(&Path), then: impl Fn(SocketAddr) -> T) -> (Gateway, T) {
        let mut setup = self;
        for _ in 0..10 {
            let folder = TempDir::new().unwrap();
            let mut reserved: Vec<TcpListener> =
                (0..=setup.listeners.len()).map(|_| ports::listener().unwrap()).collect();
            let mut addresses: Vec<SocketAddr> = reserved.iter().map(|l| l.local_addr().unwrap()).collect();
            let admin = addresses.pop().unwrap();
            setup.write(folder.path(), &addresses, admin);
            first(folder.path());
            let socket = (setup.way == Way::Activated).then(|| reserved.swap_remove(0));
            reserved.clear();
            let process = setup.launch(folder.path(), socket.as_ref());
            let mut gateway = Gateway {
                setup,
                listeners: addresses,
                admin,
                generations: Generations::of(folder.path()),
                process,
                socket,
                folder,
            };
            let found = then(gateway.address());
            if gateway.becomes_ready() {
                return (gateway, found);
            }
            setup = gateway.setup;
        }
        panic!("ten times somebody else took the port")
    }

    fn launch(&self, folder: &Path, socket: Option<&TcpListener>) -> Process {
        let mut command = program(self.way.command(folder, socket), folder, &["run"]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let output = folder.join("output");
        let file = std::fs::File::options().create(true).append(true).open(&output).unwrap();
        command.args(&self.arguments).stdout(file);
        Process::start("gateway", &mut command, &output)
    }

    fn write(&self, folder: &Path, listeners: &[SocketAddr], admin: SocketAddr) {
        std::fs::write(folder.join("moorgate.yaml"), self.document(folder, listeners, admin)).unwrap();
    }

    fn document(&self, folder: &Path, listeners: &[SocketAddr], admin: SocketAddr) -> String {
        let mut process = BTreeMap::from([
            ("admin".to_owned(), format!("{{ address: \"{admin}\" }}")),
            ("control_socket".to_owned(), "$dir/control.sock".to_owned()),
            ("access_log".to_owned(), "{ path: $dir/access.log, format: json }".to_owned()),
        ]);
        process.extend(self.process.clone());
        let mut text = "version: 1\nprocess:\n  listeners:\n".to_owned();
        for (address, keys) in listeners.iter().zip(&self.listeners) {
            text.push_str(&format!("    - {{ address: \"{address}\"{keys} }}\n"));
        }
        for (key, value) in process {
            text.push_str(&format!("  {key}: {value}\n"));
        }
        let own = listeners.iter().enumerate().rev();
        text.push_str(&own.fold(self.text.clone(), |text, (n, address)| {
            text.replace(&format!("$listener{n}"), &address.to_string())
        }));
        self.fill(&text, folder)
    }

    fn fill(&self, text: &str, folder: &Path) -> String {
        let entry = |(name, address): (&String, &String)| format!("{{ address: \"{address}\", name: \"{name}\" }}");
        let all: Vec<String> = self.names.iter().map(entry).collect();
        let mut filled = text.replace("$origins", &format!("[{}]", all.join(", ")));
        filled = filled.replace("$dir", &folder.to_string_lossy());
        // Longer names first: `$ab` is not `$a` and a `b`.
        let mut names: Vec<(&String, &String)> = self.names.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names.iter().fold(filled, |text, (name, address)| text.replace(&format!("${name}"), address))
    }
}

pub(super) fn program(mut command: Command, folder: &Path, arguments: &[&str]) -> Command {
    let (name, rest) = arguments.split_first().unwrap();
    command.arg(name).arg("--config").arg(folder.join("moorgate.yaml")).args(rest);
    command
}

impl Gateway {
    /// Ready: true. Somebody else had the port: false, to be started again. Anything else fails the test.
    fn becomes_ready(&mut self) -> bool {
        let admin = self.admin;
        let ready = || Client::new(admin).send(&Ask::get("/readyz")).is_ok_and(|answer| answer.status == 200);
        // Ten thousand origins on a busy machine take their time.
        let state = within(PATIENCE * 3, || match self.process.wait(Duration::ZERO) {
            Some(_) => Some(false),
            None => ready().then_some(true),
        });
        let lost = state == Some(false) && self.process.output().to_lowercase().contains("in use");
        assert!(state == Some(true) || lost, "the gateway did not become ready");
        state == Some(true)
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Kills it and starts it anew: the same file and folder, the same addresses.
    pub(crate) fn start_again(&mut self) {
        self.kill();
        eventually("its ports are free again", || {
            self.process = self.setup.launch(self.folder.path(), self.socket.as_ref());
            self.becomes_ready().then_some(())
        });
    }

    /// The first listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listeners[0]
    }

    /// A client with one kept connection.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.address())
    }

    /// One request on a connection of its own.
    pub(crate) fn get(&self, target: &str) -> Answer {
        self.client().get(target)
    }

    /// One request on a connection of its own.
    pub(crate) fn ask(&self, ask: &Ask) -> Answer {
        self.client().send(ask).unwrap()
    }

    /// One request to the admin address.
    pub(crate) fn admin(&self, method: &str, target: &str) -> Answer {
        let ask = Ask::new(method, target).header("Host", &self.admin.to_string());
        Client::new(self.admin).send(&ask).unwrap()
    }

    pub(crate) fn metrics(&self) -> Metrics {
        Metrics::parse(&self.admin("GET", "/metrics").text())
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_slice(&self.admin("GET", "/status").body).unwrap()
    }

    /// What `/status` says of an origin.
    pub(crate) fn origin(&self, pool: &str, name: &str) -> Value {
        self.status()["pools"][pool]["origins"][name].clone()
    }

    /// Waits until an origin is shown in this state.
    pub(crate) fn await_state(&self, pool: &str, name: &str, state: &str) {
        eventually(&format!("{name} is {state}"), || (self.origin(pool, name)["state"] == state).then_some(()));
    }

    /// The access log so far, one object a line.
    pub(crate) fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default();
        // a write may be under way: its last line is not whole
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }

    /// Waits for the line of the request for this target.
    pub(crate) fn logged(&self, target: &str) -> Value {
        eventually(&format!("a log line for {target}"), || self.log().into_iter().find(|line| line["uri"] == target))
    }

    /// Waits until that many lines were written.
    pub(crate) fn await_log(&self, lines: usize) -> Vec<Value> {
        eventually(&format!("{lines} log lines"), || Some(self.log()).filter(|log| log.len() >= lines))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts another configuration into the file (the `process` section stays).
    pub(crate) fn rewrite(&mut self, text: &str) {
        text.clone_into(&mut self.setup.text);
        self.setup.write(self.folder.path(), &self.listeners, self.admin);
    }

    /// The same, by putting a finished file in its place, as tools for configuration do: nobody finds it half written.
    pub(crate) fn swap(&mut self, text: &str) {
        text.clone_into(&mut self.setup.text);
        let next = self.path("next.yaml");
        let document = self.setup.document(self.folder.path(), &self.listeners, self.admin);
        std::fs::write(&next, document).unwrap();
        let earlier = std::time::SystemTime::now() - Duration::from_secs(1);
        std::fs::File::options().append(true).open(&next).unwrap().set_modified(earlier).unwrap();
        std::fs::rename(&next, self.path("moorgate.yaml")).unwrap();
    }

    /// Makes further origins known to the text.
    pub(crate) fn knows<'a>(&mut self, origins: impl IntoIterator<Item = &'a Origin>) {
        for origin in origins {
            self.setup.names.insert(origin.name.clone(), origin.address.to_string());
        }
    }

    /// `POST /reload`; fails unless it was applied.
    pub(crate) fn reload(&self) -> Value {
        let answer = self.admin("POST", "/reload");
        assert_eq!(answer.status, 200, "{}", answer.text());
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// Another configuration, put into force.
    pub(crate) fn change(&mut self, text: &str) -> Value {
        self.swap(text);
        self.reload()
    }

    /// Runs a command of the same binary with this gateway's file.
    pub(crate) fn command(&self, arguments: &[&str]) -> Output {
        program(Way::Plain.command(self.folder.path(), None), self.folder.path(), arguments).output().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits for its end; the exit code, or 128 + the signal that ended it.
    pub(crate) fn exit(&mut self) -> i32 {
        let status = self.process.wait(PATIENCE).expect("the gateway ends");
        code(status)
    }

    pub(crate) fn running(&mut self) -> bool {
        self.process.wait(Duration::ZERO).is_none()
    }

    pub(crate) fn pid(&self) -> i32 {
        self.process.pid().as_raw()
    }

    /// The processes it started, and those that were left to it.
    pub(crate) fn children(&self) -> Vec<i32> {
        children(self.pid())
    }

    pub(crate) fn footprint(&self) -> Footprint {
        Footprint::of(self.pid())
    }

    /// What it wrote to standard output and standard error.
    pub(crate) fn output(&self) -> String {
        self.process.output()
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
