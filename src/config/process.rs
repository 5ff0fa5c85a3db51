//! What is fixed while the process lives: threads, listeners, the admin address, sockets, logs.
//!
//! A reload that changes anything here is refused as a whole ("takes an upgrade").

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::client::ProxyProtocol;
use super::discovery::DnsServer;
use super::each;
use super::number::{within, within_or_auto, within_or_off};
use super::place::did_you_mean;
use super::report::Invalid;
use super::tls::ListenerTls;
use super::tracing::Tracing;
use super::units::{Auto, Bytes, Duration, Off, bytes_above_zero, time_above_zero};
use super::written::{self, As, Written, choices, unknown_word, written};

/// The `process` section: fixed while the process lives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["listeners"]))]
pub struct Process {
    /// Data-plane shards, 1 to 1024; `auto` is one per core.
    #[serde(deserialize_with = "within_or_auto::<_, _, 1, 1024>")]
    #[schemars(range(min = 1, max = 1024))]
    pub threads: Auto<u16>,
    /// Sockets for clients, at least one.
    #[serde(deserialize_with = "each::list")]
    pub listeners: Vec<Listener>,
    /// The admin address: health, metrics, status and reload.
    pub admin: Off<Admin>,
    /// The Unix socket for commands, a path of at most 107 bytes. Left out: `/run/moorgate/control.sock`, or
    /// `$XDG_RUNTIME_DIR/moorgate/control.sock` for a user that is not root. Made anew when it is removed.
    #[serde(deserialize_with = "socket_path", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Off<As<PathBuf>>")]
    pub control_socket: Option<Off<PathBuf>>,
    /// Client connections at most; `auto` is (hard limit of descriptors - 256) / 2. The 256 are left to probes, reloads
    /// and the admin address whatever is written.
    #[serde(deserialize_with = "within_or_auto::<_, _, 1, { u32::MAX }>")]
    #[schemars(range(min = 1))]
    pub max_connections: Auto<u32>,
    /// Memory at most for answers on their way: what is held back for slow clients, and what compression takes.
    #[serde(deserialize_with = "bytes_above_zero")]
    pub max_buffered: Bytes,
    /// The folder for what outlives the process: the text last served, and which ones somebody went back from. A start
    /// whose file cannot be served serves that text.
    #[serde(deserialize_with = "folder")]
    #[schemars(with = "Off<As<PathBuf>>")]
    pub state: Off<PathBuf>,
    /// DNS servers to ask for the names of origins, in this order; none: those of `/etc/resolv.conf`.
    #[serde(deserialize_with = "each::list")]
    pub resolver: Vec<DnsServer>,
    /// How the process leaves.
    pub drain: Drain,
    /// One line a request.
    pub access_log: Off<AccessLog>,
    /// Spans of requests and of their tries, for a collector of OpenTelemetry's.
    pub tracing: Off<Tracing>,
    /// What the process says about itself, on standard error.
    pub log: Log,
}

impl Default for Process {
    fn default() -> Self {
        Self {
            threads: Auto::Auto,
            listeners: Vec::new(),
            admin: Off::On(Admin::default()),
            control_socket: None,
            max_connections: Auto::Auto,
            max_buffered: Bytes(512 << 20),
            state: Off::Off,
            resolver: Vec::new(),
            drain: Drain::default(),
            access_log: Off::On(AccessLog::default()),
            tracing: Off::Off,
            log: Log::default(),
        }
    }
}

fn folder<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Off<PathBuf>, D::Error> {
    Ok(match Off::<As<PathBuf>>::deserialize(deserializer)? {
        Off::Off => Off::Off,
        Off::On(As(path)) => Off::On(path),
    })
}

fn socket_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Off<PathBuf>>, D::Error> {
    folder(deserializer).map(Some)
}

impl Written for PathBuf {
    const EXPECTED: &'static str = "the path of a file, with its folder";

    fn parse(text: &str) -> Option<Self> {
        (text.contains('/') && !text.contains('\0')).then(|| Self::from(text))
    }

    fn print(&self) -> String {
        self.display().to_string()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": "/" })
    }
}

/// One listening socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// The address to bind.
    #[serde(with = "written")]
    #[schemars(with = "As<SocketAddr>")]
    pub address: SocketAddr,
    /// Accept HTTP/2 by prior knowledge beside HTTP/1.
    #[serde(default)]
    pub h2c: bool,
    /// A PROXY header (v1 or v2) at the start of each connection from a trusted proxy: off, required or optional. Anybody
    /// else's header closes the connection.
    #[serde(default)]
    pub proxy_protocol: ProxyProtocol,
    /// TLS on this listener, by the certificates of the file; `{}` for its defaults.
    #[serde(default)]
    pub tls: Off<ListenerTls>,
}

/// The `admin` section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// The address to bind.
    #[serde(with = "written")]
    #[schemars(with = "As<SocketAddr>")]
    pub address: SocketAddr,
}

impl Default for Admin {
    fn default() -> Self {
        Self { address: SocketAddr::from(([127, 0, 0, 1], 9180)) }
    }
}

/// The `drain` section: how the process leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Drain {
    /// How long after TERM everything is still accepted while `/readyz` says 503.
    pub lame_duck: Duration,
    /// How long connections may go on after the lame duck; after an upgrade, how long those of the process before may begin
    /// requests.
    pub timeout: Duration,
    /// After an upgrade, how long what the process before still serves may go on in it.
    pub upgrade: Duration,
}

impl Default for Drain {
    fn default() -> Self {
        Self { lame_duck: Duration::seconds(8), timeout: Duration::seconds(15), upgrade: Duration::seconds(600) }
    }
}

/// Where access log lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sink {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file or a FIFO, opened for appending; reopened on USR1.
    File(PathBuf),
}

impl Written for Sink {
    const EXPECTED: &'static str = "stdout, stderr or the path of a file, with its folder";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "stdout" => Some(Self::Stdout),
            "stderr" => Some(Self::Stderr),
            _ => PathBuf::parse(text).map(Self::File),
        }
    }

    fn print(&self) -> String {
        match self {
            Self::Stdout => "stdout".to_owned(),
            Self::Stderr => "stderr".to_owned(),
            Self::File(path) => path.print(),
        }
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "enum": ["stdout", "stderr"] }, PathBuf::schema()] })
    }

    fn read(text: &str) -> Result<Self, Invalid> {
        Self::parse(text).ok_or_else(|| match did_you_mean(text, ["stdout", "stderr"]) {
            Some(_) => unknown_word(text, &["stdout", "stderr"]),
            None => Invalid::new(format!("found {text:?}"), format!("expected {}", Self::EXPECTED)),
        })
    }
}

/// The `access_log` section: one line a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AccessLog {
    /// Where lines go: stdout, stderr, or a file or FIFO that is opened for appending and reopened on USR1.
    pub path: Sink,
    /// Their shape: json, upstream (the line an nginx user's awk reads), combined, or a template.
    pub format: AccessFormat,
}

impl Default for AccessLog {
    fn default() -> Self {
        Self { path: Sink::Stdout, format: AccessFormat::Json }
    }
}

/// The shape of an access log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessFormat {
    /// One JSON object a line.
    Json,
    /// The line an nginx user's awk reads, with nginx's lists over all attempts.
    Upstream,
    /// nginx's and Apache's combined format.
    Combined,
    /// A template of our own variables.
    Template(String),
}

impl Written for AccessFormat {
    const EXPECTED: &'static str = "json, upstream, combined or a template such as \"{client_ip} {status}\"";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "json" => Some(Self::Json),
            "upstream" => Some(Self::Upstream),
            "combined" => Some(Self::Combined),
            // A word without a variable would be the same line for every request: a word gone wrong.
            _ => text.contains('{').then(|| Self::Template(text.to_owned())),
        }
    }

    fn print(&self) -> String {
        match self {
            Self::Json => "json".to_owned(),
            Self::Upstream => "upstream".to_owned(),
            Self::Combined => "combined".to_owned(),
            Self::Template(text) => text.clone(),
        }
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "enum": ["json", "upstream", "combined"] }, { "type": "string", "pattern": "\\{" }] })
    }

    fn read(text: &str) -> Result<Self, Invalid> {
        let words = ["json", "upstream", "combined", "a template"];
        Self::parse(text).ok_or_else(|| unknown_word(text, &words))
    }
}

/// The `log` section: what the process says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// The least important level that is written.
    #[serde(with = "written")]
    #[schemars(with = "As<log::LevelFilter>")]
    pub level: log::LevelFilter,
    /// The shape of a line.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: log::LevelFilter::Info, format: LogFormat::Text }
    }
}

/// The levels, from none to everything.
const LEVELS: [(&str, log::LevelFilter); 6] = [
    ("off", log::LevelFilter::Off),
    ("error", log::LevelFilter::Error),
    ("warn", log::LevelFilter::Warn),
    ("info", log::LevelFilter::Info),
    ("debug", log::LevelFilter::Debug),
    ("trace", log::LevelFilter::Trace),
];

impl Written for log::LevelFilter {
    const EXPECTED: &'static str = "a level such as info";

    fn parse(text: &str) -> Option<Self> {
        let text = if text == "false" { "off" } else { text };
        LEVELS.iter().find(|(word, _)| *word == text).map(|(_, level)| *level)
    }

    fn print(&self) -> String {
        self.as_str().to_ascii_lowercase()
    }

    fn schema() -> Schema {
        json_schema!({ "enum": LEVELS.map(|(word, _)| word) })
    }

    fn read(text: &str) -> Result<Self, Invalid> {
        Self::parse(text).ok_or_else(|| unknown_word(text, &LEVELS.map(|(word, _)| word)))
    }
}

/// The shape of a line of the process log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

choices!(LogFormat { Text = "text", Json = "json" });
written!(Sink, AccessFormat);

/// The `client_limits` section: what a client may cost us.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClientLimits {
    /// From the first byte of a request to the end of its header (408); in HTTP/2 of each header's frames, which end
    /// the connection.
    #[serde(deserialize_with = "time_above_zero")]
    pub header_timeout: Duration,
    /// How long a connection may idle between requests.
    #[serde(deserialize_with = "time_above_zero")]
    pub keepalive: Duration,
    /// Requests on one connection at most; in HTTP/2 GOAWAY comes with the last, and those behind it are still served.
    #[serde(deserialize_with = "within::<_, _, 1, { u32::MAX }>")]
    #[schemars(range(min = 1))]
    pub keepalive_requests: u32,
    /// Age at which a connection is closed after its current answer; in HTTP/2 the age of GOAWAY.
    pub max_age: Off<Duration>,
    /// Time for each further 16 KiB of a request body, or its end (408); in HTTP/2 of each stream.
    #[serde(deserialize_with = "time_above_zero")]
    pub body_timeout: Duration,
    /// Longest time without progress towards the client; in HTTP/2 of each stream.
    #[serde(deserialize_with = "time_above_zero")]
    pub send_timeout: Duration,
    /// Connections of one client at most: of an address, in IPv6 of a /64; more are closed at once. Trusted proxies
    /// have no such limit.
    #[serde(deserialize_with = "within_or_off::<_, _, 1, { u32::MAX }>")]
    #[schemars(range(min = 1))]
    pub connections_per_client: Off<u32>,
    /// Bytes of a request header at most (431); in HTTP/2 each line counts 32 bytes more.
    #[serde(deserialize_with = "bytes_above_zero")]
    pub header_bytes: Bytes,
    /// Header lines of a request at most (431).
    // 256 is what the HTTP/1 parser below us takes.
    #[serde(deserialize_with = "within::<_, _, 1, 256>")]
    #[schemars(range(min = 1, max = 256))]
    pub headers: u32,
    /// Bytes of a request target at most (414).
    #[serde(deserialize_with = "bytes_above_zero")]
    pub uri_bytes: Bytes,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::seconds(10),
            keepalive: Duration::seconds(65),
            keepalive_requests: 1000,
            max_age: Off::Off,
            body_timeout: Duration::seconds(30),
            send_timeout: Duration::seconds(30),
            connections_per_client: Off::Off,
            header_bytes: Bytes(64 << 10),
            headers: 100,
            uri_bytes: Bytes(8 << 10),
        }
    }
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print())
    }
}
