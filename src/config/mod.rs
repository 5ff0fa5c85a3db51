//! What did the operator write? Plain data: no `Arc`, no atomics, no regex.

mod action;
mod address;
mod args;
mod balance;
mod buffering;
mod cache_status;
mod check;
pub mod client;
pub mod compression;
pub mod default;
mod discovery;
mod each;
mod edits;
mod fault;
mod file;
#[cfg(test)]
pub(crate) mod generated;
mod guard;
mod health;
mod http_words;
pub mod idle;
pub mod limits;
mod matching;
pub mod mirror;
mod number;
pub mod one_or_more;
mod origin;
mod origin_tls;
mod outlier;
mod overload;
pub mod place;
pub mod pool;
pub mod process;
mod reader;
pub mod redis_url;
pub mod report;
mod rewrite;
pub mod route;
mod slow_start;
pub mod split;
pub mod tls;
pub mod tracing;
mod tree;
pub mod units;
mod unused;
mod values;
pub mod written;

use std::fmt::Write as _;
use std::path::Path;

use indexmap::IndexMap;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use client::ClientAddress;
use tree::Flaw;
use written::As;

pub use default::{dump, dump_masked, schema};
pub use place::{Places, did_you_mean};
pub use pool::Pool;
pub use process::{ClientLimits, Process};
pub use report::{Complaint, Invalid, Mistake, Report, Severity};
pub use route::Route;

/// The whole file, every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = ["version", "process", "pools"]))]
pub struct Config {
    /// The version of this format: always 1.
    #[serde(default = "first_version", deserialize_with = "number::within::<_, _, 1, 1>")]
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// Fixed while the process lives; a change here takes an upgrade.
    #[serde(default)]
    pub process: Process,
    /// Certificates for clients that come by TLS, picked by the name they ask for; the first is for everybody else. Read
    /// again by every reload, and whenever their files change.
    #[serde(default, deserialize_with = "each::list")]
    pub certificates: Vec<tls::Certificate>,
    /// Networks whose word counts about who asks: of balancers that send PROXY headers, of proxies that send
    /// X-Forwarded-For.
    #[serde(default, with = "written::list")]
    #[schemars(with = "Vec<As<IpNet>>")]
    pub trusted_proxies: Vec<IpNet>,
    /// The header in which trusted proxies name the client: x-forwarded-for, forwarded (RFC 7239), or one of their own
    /// such as cf-connecting-ip. Read from the right, over trusted addresses alone; off: whoever connects is the client.
    #[serde(default)]
    pub client_address: ClientAddress,
    /// What a client may cost us.
    #[serde(default)]
    pub client_limits: ClientLimits,
    /// Pools by name; their order has no meaning.
    #[serde(default, deserialize_with = "each::table")]
    pub pools: IndexMap<String, Pool>,
    /// Which requests go to which pool; the most specific route comes first, whatever the order in the file. Left
    /// out: everything goes to the only pool.
    #[serde(default, deserialize_with = "each::list")]
    pub routes: Vec<Route>,
}

/// Stands in only until the absence of a version is complained of.
const fn first_version() -> u32 {
    1
}

/// A file that was taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// What it is called.
    pub file: String,
    /// What it says, every default filled in.
    pub config: Config,
    /// Its text.
    pub text: String,
    /// SHA-256 of the text, in hex.
    pub digest: String,
    /// What is said of it all the same.
    pub warnings: Vec<Mistake>,
    /// Where everything stands.
    pub places: Places,
}

/// Reads and checks the file at `path`.
pub fn load(path: &Path) -> Result<Loaded, Report> {
    load_with(path, |_| Ok(())).map(|(loaded, ())| loaded)
}

/// Reads and checks `text` as if it were a file of that name.
pub fn parse(file_name: &str, text: &str) -> Result<Loaded, Report> {
    parse_with(file_name, text, |_| Ok(())).map(|(loaded, ())| loaded)
}

/// [`load`], and `compile` on top: one report of the mistakes of both.
pub fn load_with<T>(
    path: &Path,
    compile: impl FnOnce(&Config) -> Result<T, Vec<Complaint>>,
) -> Result<(Loaded, T), Report> {
    let text = file::read(path).map_err(Report::of)?;
    parse_with(&path.display().to_string(), &text, compile)
}

/// [`parse`], and `compile` on top: one report of the mistakes of both. A file with mistakes is compiled as far as it
/// could be read, for the sake of what else is wrong with it.
pub fn parse_with<T>(
    file_name: &str,
    text: &str,
    compile: impl FnOnce(&Config) -> Result<T, Vec<Complaint>>,
) -> Result<(Loaded, T), Report> {
    let mut findings = Findings { file: file_name, mistakes: Vec::new() };
    let (root, twice) = tree::build(text).map_err(|flaw| findings.only(flaw))?;
    let reader::Read { value, flaws, left_out } = reader::read::<Config>(&root);
    let places = Places::new(root, left_out);
    twice.into_iter().map(one_algorithm).chain(flaws).for_each(|flaw| findings.flaw(flaw));
    let mut compiled = None;
    let config = value.map(|config| config.completed(&places));
    if let Some(config) = &config {
        for (severity, complaint) in check::check(config, &places) {
            findings.complaint(severity, complaint, &places);
        }
        match compile(config) {
            Ok(value) => compiled = Some(value),
            Err(complaints) => findings.compiled(complaints, &places),
        }
    }
    match (config, compiled) {
        (Some(config), Some(value)) if !findings.refuse() => {
            let (file, text, digest) = (file_name.to_owned(), text.to_owned(), digest(text));
            Ok((Loaded { file, config, text, digest, warnings: findings.in_order(), places }, value))
        }
        _ => Err(Report { file: file_name.to_owned(), mistakes: findings.in_order() }),
    }
}

/// Two algorithms are the one key written twice that is more than a slip.
fn one_algorithm(flaw: Flaw) -> Flaw {
    let meant = if flaw.path.ends_with(".balance.algorithm") { "one pool, one algorithm: " } else { "" };
    Flaw { meant: format!("{meant}{}", flaw.meant), ..flaw }
}

/// SHA-256 of a text, in hex.
pub fn digest(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

impl Loaded {
    /// With what is said of it by whoever compiled it.
    #[must_use]
    pub fn warned(mut self, of: impl IntoIterator<Item = Complaint>) -> Self {
        let mut findings = Findings { file: &self.file, mistakes: std::mem::take(&mut self.warnings) };
        of.into_iter().for_each(|complaint| findings.complaint(Severity::Warning, complaint, &self.places));
        let warnings = findings.in_order();
        Self { warnings, ..self }
    }
}

impl Config {
    /// Fills in the defaults that follow from the rest of the file.
    fn completed(mut self, places: &Places) -> Self {
        if self.routes.is_empty()
            && !places.is_spoiled("routes")
            && let [pool] = places.keys("pools").as_slice()
        {
            self.routes.push(Route { pool: (*pool).to_owned(), ..Route::default() });
        }
        for (i, route) in self.routes.iter_mut().enumerate().filter(|(_, route)| route.name.is_empty()) {
            route.name = Route::name_at(i);
        }
        for pool in self.pools.values_mut() {
            let has_tls = pool.tls != units::Off::Off;
            for origin in &mut pool.origins {
                if std::mem::take(&mut origin.portless) && has_tls {
                    origin.address.set_port(address::HTTPS);
                }
            }
        }
        self
    }
}

/// All that was found in one file.
struct Findings<'a> {
    file: &'a str,
    mistakes: Vec<Mistake>,
}

impl Findings<'_> {
    fn flaw(&mut self, flaw: Flaw) {
        let tree::Place { line, column } = flaw.place;
        let mistake = Mistake { line, column, path: flaw.path, ..Mistake::of_file(self.file, flaw.found, flaw.meant) };
        self.mistakes.push(mistake);
    }

    /// The report of a text that is no document.
    fn only(&mut self, flaw: Flaw) -> Report {
        self.flaw(flaw);
        Report { file: self.file.to_owned(), mistakes: std::mem::take(&mut self.mistakes) }
    }

    fn complaint(&mut self, severity: Severity, complaint: Complaint, places: &Places) {
        let found = places.find(&complaint.path);
        let (line, column) = (found.place.line, found.place.column);
        let said = Mistake::of_file(self.file, complaint.found, complaint.meant);
        self.mistakes.push(Mistake { severity, line, column, path: found.path, ..said });
    }

    /// What compiling found: nothing that follows from a value left out, nothing that was said already.
    fn compiled(&mut self, complaints: Vec<Complaint>, places: &Places) {
        for complaint in complaints {
            let path = places.find(&complaint.path).path;
            let is_told = self.mistakes.iter().any(|m| m.severity == Severity::Error && m.path == path);
            if is_told || places.is_spoiled(&complaint.path) {
                continue;
            }
            match report::other_path(&complaint.found) {
                Some(other) if places.is_spoiled(&complaint.found[other.clone()]) => {}
                Some(other) => {
                    let (line, _) = places.locate(&complaint.found[other.clone()]);
                    let mut found = complaint.found;
                    found.replace_range(other, &format!("line {line}"));
                    self.complaint(Severity::Error, Complaint { found, ..complaint }, places);
                }
                None => self.complaint(Severity::Error, complaint, places),
            }
        }
    }

    fn refuse(&self) -> bool {
        self.mistakes.iter().any(|mistake| mistake.severity == Severity::Error)
    }

    fn in_order(mut self) -> Vec<Mistake> {
        self.mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
        self.mistakes
    }
}

#[cfg(test)]
mod tests;
