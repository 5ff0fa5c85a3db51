//! Where does this request go, and where next? The `key` command.
//!
//! It renders the key and asks the same pick as the data plane, of a pool in which every origin is resolved, and up
//! unless it is told to assume otherwise: what it prints follows from the file and the line alone. It never touches
//! the network.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;

use super::control::Target;
use super::request::{Request, Wrong};
use super::routed::pool_of;
use super::{Exit, Usage, assume, print, top, well};
use crate::balance;
use crate::config::route::EncodedSlash;
use crate::config::{self, Complaint, Config};
use crate::pool::{Ask, Pick, Pool};
use crate::template::{Keyed, Need, path};

/// Show the key of a request, its owner and who comes next
#[derive(clap::Args)]
pub(super) struct Key {
    #[command(flatten)]
    target: Target,
    /// The pool to place in; left out, it is the only one, or the one that the routes of the file send a URL to
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Read literal keys from FILE (or - for standard input), one a line, and print `key<TAB>owner`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["urls", "headers", "method", "client_ip"])]
    raw_from: Option<PathBuf>,
    /// Ask the running gateway for its hottest keys
    #[arg(long, conflicts_with_all = ["urls", "headers", "method", "client_ip", "assume", "tried", "raw_from"])]
    top: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    /// A header line of the request
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// The method of the request
    #[arg(long, default_value = "GET")]
    method: String,
    /// The client's address, for keys that hold it
    #[arg(long, value_name = "IP")]
    client_ip: Option<IpAddr>,
    /// As if an origin stood so: up, kept, down or joining; overloaded, ramping or draining, with the part it takes
    #[arg(long, value_name = "ORIGIN=STATE[:PART%]")]
    assume: Vec<String>,
    /// As if an origin had so many requests in flight
    #[arg(long, value_name = "ORIGIN=COUNT")]
    in_flight: Vec<String>,
    /// As if the request had been at an origin already, and may be tried again
    #[arg(long, value_name = "ORIGIN")]
    tried: Vec<String>,
    /// What is asked for: http://host/path?query, or /path?query
    #[arg(value_name = "URL", required_unless_present_any = ["raw_from", "top"])]
    urls: Vec<String>,
}

impl Key {
    /// Answers on standard output.
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        if self.top {
            let said = top::show(&self.target.get_json("/status")?, self.pool.as_deref(), self.json)?;
            return print(&said).map(|()| Exit::Done);
        }
        let (loaded, pools) = config::load_with(&self.target.file()?, compile)?;
        let slashes = loaded.config.routes.iter().any(|route| route.encoded_slash == EncodedSlash::Allow);
        let out = &mut io::stdout().lock();
        let by_route = self.pool.is_none() && self.raw_from.is_none() && pools.len() > 1;
        let answered = match by_route {
            true => self.by_route(&loaded.config, pools, slashes, out),
            false => self.answer(pools, slashes, out),
        };
        match answered {
            // Whoever stops reading has read enough.
            Err(e) if e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) => {
                Ok(Exit::Done)
            }
            answered => answered.map(|()| Exit::Done),
        }
    }

    /// `slashes`: some route takes those that are encoded.
    fn answer(&self, pools: Vec<Pool>, slashes: bool, out: &mut dyn Write) -> anyhow::Result<()> {
        let scene = self.scene(chosen(pools, self.pool.as_deref())?, false)?;
        match &self.raw_from {
            Some(file) => self.raw(&scene, file, out),
            None => {
                let mut urls = self.urls.iter().enumerate();
                urls.try_for_each(|(number, url)| self.request(&scene, slashes, url, number > 0, out))
            }
        }
    }

    /// Each URL in the pool that the routes of the file send it to.
    fn by_route(
        &self,
        config: &Config,
        mut pools: Vec<Pool>,
        slashes: bool,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let names: Vec<String> = pools.iter().map(|pool| pool.name().to_string()).collect();
        let Ok(snapshot) = well::snapshot(config) else {
            return Err(which(None, &names.iter().map(String::as_str).collect::<Vec<_>>()));
        };
        let headers = headers(&self.headers)?;
        let mut scenes: Vec<Scene> = Vec::new();
        for (number, url) in self.urls.iter().enumerate() {
            let request = Request::parse(&self.method, url, &headers).map_err(|wrong| wrong.of(url))?;
            let facts = request.facts(&self.method, self.client_ip, &headers);
            let known = |need: Need<'_>| need != Need::Client || self.client_ip.is_some();
            let Some(name) = pool_of(&snapshot, &facts, &known) else {
                let why = "no route sends it to a pool, or its split needs a client (--client-ip IP)";
                bail!(Usage(format!("{url}: {why}; or say which pool: --pool {}", names.join(" | "))));
            };
            if let Some(at) = pools.iter().position(|pool| **pool.name() == *name) {
                scenes.push(self.scene(pools.swap_remove(at), true)?);
            }
            let scene = scenes.iter().find(|scene| **scene.pool.name() == *name);
            scene.map_or(Ok(()), |scene| self.request(scene, slashes, url, number > 0, out))?;
        }
        Ok(())
    }

    /// The pool as the line says to think of it.
    fn scene(&self, pool: Pool, routed: bool) -> anyhow::Result<Scene> {
        if pool.members().is_empty() {
            let told = "its origins are found by DNS, which is not asked; `moorgate status` shows them";
            bail!("pool {}: {told}", pool.name());
        }
        for assumed in &self.assume {
            let (name, assumed) = assume::parse(assumed, &pool.roster().policy)?;
            let member = pool.member(number(&pool, name)?);
            let health = member.into_iter().map(|member| member.origin().health());
            health.for_each(|health| health.publish_part(assumed.verdict, assumed.part));
        }
        for busy in &self.in_flight {
            let (name, count) = busy.rsplit_once('=').unwrap_or((busy, ""));
            let Ok(count) = count.parse::<u16>() else {
                bail!(Usage(format!("--in-flight {busy}: expected ORIGIN=COUNT, with 65535 at most")));
            };
            let member = pool.member(number(&pool, name)?);
            member.into_iter().for_each(|member| (0..count).for_each(|_| member.origin().load().enter()));
        }
        let tried = self.tried.iter().map(|name| number(&pool, name)).collect::<anyhow::Result<Vec<_>>>()?;
        let drains = pool.members().iter().any(|member| !member.is_placed());
        let imagined = drains || [&self.assume, &self.in_flight, &self.tried].iter().any(|told| !told.is_empty());
        Ok(Scene { pool, routed, tried, imagined })
    }

    /// `--raw-from`: one literal key a line.
    fn raw(&self, scene: &Scene, file: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
        let what = || file.display().to_string();
        let mut lines: Box<dyn BufRead> = match file.to_str() {
            Some("-") => Box::new(io::stdin().lock()),
            _ => Box::new(BufReader::new(File::open(file).with_context(what)?)),
        };
        let mut out = io::BufWriter::new(out);
        let mut key = Vec::new();
        while lines.read_until(b'\n', &mut key).with_context(what)? > 0 {
            key.pop_if(|last| *last == b'\n');
            // An empty key is a missing one.
            let some = Some(key.as_slice()).filter(|key| !key.is_empty());
            match self.json {
                true => json(&scene.place(some), &mut out)?,
                false => scene.pair(&key, some, &mut out)?,
            }
            key.clear();
        }
        Ok(out.flush()?)
    }

    /// By URL; `further`: it is not the first one.
    fn request(
        &self,
        scene: &Scene,
        slashes: bool,
        url: &str,
        further: bool,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let pool = &scene.pool;
        let headers = headers(&self.headers)?;
        if let Some(key) = pool.key().filter(|key| key.reads_client() && self.client_ip.is_none()) {
            bail!(Usage(format!("the key {} needs a client: --client-ip IP", key.text())));
        }
        let request = Request::parse(&self.method, url, &headers).map_err(|wrong| wrong.of(url))?;
        let facts = request.facts(&self.method, self.client_ip, &headers);
        let merged = path::merged(facts.path()).map_err(|why| Wrong::Refused(why.to_string()).of(url))?;
        if merged.encoded_slash && !slashes {
            let why = "its path holds %2F or %5C, and no route says \"encoded_slash: allow\"";
            return Err(Wrong::Refused(why.to_owned()).of(url));
        }
        let mut key = Vec::new();
        let keyed = pool.key().map(|template| template.render(&facts, &mut key));
        let mut placed = scene.place((keyed == Some(Keyed::Key)).then_some(&key));
        placed.url = Some(url);
        placed.missing = pool.key().and_then(|template| template.missing(&facts));
        match self.json {
            true => json(&placed, out)?,
            false => describe(&placed, further, out)?,
        }
        Ok(())
    }
}

/// Where a key goes; serialises as `--json` prints it.
#[derive(Serialize)]
struct Placed<'p> {
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'p str>,
    /// The pool, where the routes say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<&'p str>,
    key: Option<String>,
    hash: Option<u32>,
    owner: Option<&'p str>,
    successors: Vec<&'p str>,
    pass: Option<u8>,
    reason: Option<&'static str>,
    /// Who gets the next try, where that need not be the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    goes_to: Option<Option<&'p str>>,
    /// The part of the key the request does not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'p str>,
}

/// A pool, and what is imagined of it.
struct Scene {
    pool: Pool,
    /// The routes chose it.
    routed: bool,
    /// Members the request has been at.
    tried: Vec<usize>,
    /// Somebody is not up, is drained, has something in flight, or was tried.
    imagined: bool,
}

impl Scene {
    /// Where a literal key goes, or a request without one.
    fn place(&self, key: Option<&[u8]>) -> Placed<'_> {
        let ring = self.pool.ring();
        let key = key.filter(|_| self.pool.key().is_some());
        let hash = key.map(balance::hash);
        let pick = self.next_pick(hash);
        let mut walk = hash.into_iter().flat_map(|hash| ring.walk(hash)).filter_map(|at| ring.name(at));
        Placed {
            url: None,
            pool: self.routed.then(|| &**self.pool.name()),
            key: key.map(|key| String::from_utf8_lossy(key).into_owned()),
            hash,
            owner: walk.next(),
            successors: walk.collect(),
            pass: pick.as_ref().map(|pick| pick.pass.number()),
            reason: pick.as_ref().map(|pick| pick.reason.as_str()),
            goes_to: self.imagined.then(|| pick.and_then(|pick| self.name(pick.member))),
            missing: None,
        }
    }

    #[allow(clippy::disallowed_methods, reason = "a pool that learns nothing may be asked at any time")]
    fn next_pick(&self, hash: Option<u32>) -> Option<Pick> {
        let ask = Ask { hash, tried: &self.tried, now: Instant::now() };
        self.pool.pick(&ask, &mut fastrand::Rng::with_seed(0))
    }

    fn pair(&self, line: &[u8], key: Option<&[u8]>, out: &mut dyn Write) -> io::Result<()> {
        let key = key.filter(|_| self.pool.key().is_some());
        let pick = key.and_then(|key| self.next_pick(Some(balance::hash(key))));
        out.write_all(line)?;
        writeln!(out, "\t{}", pick.and_then(|pick| self.name(pick.member)).unwrap_or("-"))
    }

    fn name(&self, member: usize) -> Option<&str> {
        self.pool.member(member).map(|member| &**member.name())
    }
}

/// The member of this name.
fn number(pool: &Pool, name: &str) -> anyhow::Result<usize> {
    let names = || pool.members().iter().map(|member| &**member.name());
    let at = names().position(|known| known == name);
    at.ok_or_else(|| anyhow!(Usage(not_there("origin", name, names()))))
}

/// Every pool of the file, or every complaint.
#[allow(clippy::disallowed_methods, reason = "a pool that learns nothing may begin at any time")]
fn compile(config: &Config) -> Result<Vec<Pool>, Vec<Complaint>> {
    let mut complaints = Vec::new();
    let mut pools = Vec::new();
    for (name, section) in &well::resolved(config).pools {
        match Pool::compile(name, section, None, Instant::now()) {
            Ok(pool) => pools.push(pool),
            Err(found) => complaints.extend(
                found
                    .into_iter()
                    .map(|complaint| Complaint { path: format!("pools.{name}.{}", complaint.path), ..complaint }),
            ),
        }
    }
    if complaints.is_empty() { Ok(pools) } else { Err(complaints) }
}

fn chosen(mut pools: Vec<Pool>, name: Option<&str>) -> anyhow::Result<Pool> {
    let at = match name {
        Some(name) => pools.iter().position(|pool| **pool.name() == *name),
        None => (pools.len() == 1).then_some(0),
    };
    if let Some(at) = at {
        return Ok(pools.swap_remove(at));
    }
    let names: Vec<&str> = pools.iter().map(|pool| &**pool.name()).collect();
    Err(which(name, &names))
}

/// There is no pool of this name among these, or it was not said which is meant.
pub(super) fn which(name: Option<&str>, names: &[&str]) -> anyhow::Error {
    let said = match name {
        Some(name) => not_there("pool", name, names.iter().copied()),
        None => format!("say which pool: --pool {}", names.join(" | ")),
    };
    Usage(said).into()
}

fn not_there<'n>(what: &str, name: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
    match config::did_you_mean(name, names.clone()) {
        Some(near) => format!("no {what} \"{name}\", did you mean \"{near}\"?"),
        None => format!("no {what} \"{name}\", there is {}", names.collect::<Vec<_>>().join(", ")),
    }
}

fn json(placed: &Placed<'_>, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, placed)?;
    writeln!(out)
}

fn headers(lines: &[String]) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let parsed = line.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            Some((name, HeaderValue::from_bytes(value.trim().as_bytes()).ok()?))
        });
        let Some((name, value)) = parsed else {
            bail!(Usage(format!("no header line: {line}, expected \"name: value\"")));
        };
        headers.append(name, value);
    }
    Ok(headers)
}

/// Successors shown to people; `--json` has all.
const SHOWN: usize = 8;

fn describe(placed: &Placed<'_>, further: bool, out: &mut dyn Write) -> io::Result<()> {
    if further {
        writeln!(out)?;
    }
    if let Some(pool) = placed.pool {
        writeln!(out, "pool        {pool}")?;
    }
    let reason = placed.reason.unwrap_or("nobody can take it");
    match (&placed.key, placed.hash, placed.missing) {
        (Some(key), _, missing) => {
            let instead = missing.map_or(String::new(), |part| format!(" (on_missing: {part} is missing)"));
            writeln!(out, "key         {key}{instead}")?;
        }
        (None, _, Some(missing)) => writeln!(out, "key         none: {missing} is missing")?,
        (None, _, None) => writeln!(out, "key         none: the pool places by no key")?,
    }
    if let Some(hash) = placed.hash {
        writeln!(out, "hash        {hash}")?;
        writeln!(out, "owner       {}", placed.owner.unwrap_or("none"))?;
        let shown = placed.successors.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
        let more = placed.successors.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        writeln!(out, "successors  {shown}{more}")?;
    } else if placed.missing.is_some() {
        writeln!(out, "owner       any: spread over the pool by two choices")?;
    } else {
        writeln!(out, "owner       any: as {reason} chooses")?;
    }
    if let Some(goes_to) = placed.goes_to {
        writeln!(out, "goes to     {}", goes_to.unwrap_or("nobody"))?;
    }
    writeln!(out, "pass        {} ({reason})", placed.pass.map_or("-".to_owned(), |pass| pass.to_string()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        key: Key,
    }

    const FILE: &str = r#"
version: 1
process: { listeners: [ { address: "127.0.0.1:0" } ] }
pools:
  web:
    balance: { key: "{host_port}{path}{args}" }
    origins: [ "127.0.0.1:9200", "127.0.0.1:9201", "127.0.0.1:9202", "127.0.0.1:9203" ]
  named:
    balance: { key: "{header:x-key}", on_missing: "{client_ip}" }
    origins: [ "origin-a.test:9200", "origin-b.test:9201", { address: "origin-c.test:9202", weight: 2 } ]
  turns:
    balance: { algorithm: round_robin }
    connections: { max_in_flight: 9 }
    origins: [ "127.0.0.1:9200", "127.0.0.1:9201" ]
  spread:
    balance: { key: "{arg:id}" }
    origins: [ "127.0.0.1:9200", "127.0.0.1:9201" ]
routes: [ { pool: web } ]
"#;

    fn answered(line: &[&str]) -> anyhow::Result<String> {
        let command = Line::try_parse_from([&["key"], line].concat()).unwrap().key;
        let (_, pools) = config::parse_with("test.yaml", FILE, compile)?;
        let mut out = Vec::new();
        command.answer(pools, false, &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    fn json(line: &[&str]) -> serde_json::Value {
        serde_json::from_str(&answered(&[line, &["--json"]].concat()).unwrap()).unwrap()
    }

    #[test]
    fn a_request_is_told_its_key_and_its_origins() {
        let told = json(&["--pool", "web", "http://Example.COM:8080/a/./b?z=1&a#top"]);
        assert_eq!(told["key"], "example.com:8080/a/b?a=&z=1");
        assert_eq!(told["hash"], balance::hash(b"example.com:8080/a/b?a=&z=1"));
        assert_eq!((&told["pass"], &told["reason"]), (&1.into(), &"owner".into()));
        let mut all = told["successors"].as_array().unwrap().clone();
        all.push(told["owner"].clone());
        all.sort_by_key(ToString::to_string);
        assert_eq!(all, ["127.0.0.1:9200", "127.0.0.1:9201", "127.0.0.1:9202", "127.0.0.1:9203"]);
    }

    #[test]
    fn origins_by_name_are_placed_without_being_resolved() {
        let told = json(&["--pool", "named", "/", "-H", "X-Key: /obj/0", "--client-ip", "::ffff:192.0.2.7"]);
        assert_eq!(told["owner"], "origin-c.test:9202", "as nginx recorded it");
        let told = json(&["--pool", "named", "/", "--client-ip", "::ffff:192.0.2.7"]);
        assert_eq!((&told["key"], &told["missing"]), (&"192.0.2.7".into(), &"{header:x-key}".into()));
    }

    #[test]
    fn a_pool_that_places_by_no_key_says_how_it_chooses() {
        let told = json(&["--pool", "turns", "/x"]);
        assert_eq!((&told["key"], &told["owner"], &told["reason"]), (&().into(), &().into(), &"round_robin".into()));
        assert_eq!((&told["pass"], &told["successors"]), (&1.into(), &serde_json::json!([])));
        let text = answered(&["--pool", "turns", "/x"]).unwrap();
        let expected = "key         none: the pool places by no key\nowner       any: as round_robin chooses\n";
        assert_eq!(text, format!("{expected}pass        1 (round_robin)\n"));
        for imagined in [["--tried", "127.0.0.1:9200"], ["--in-flight", "127.0.0.1:9200=9"]] {
            let told = json(&[&["--pool", "turns", "/x"][..], &imagined[..]].concat());
            assert_eq!(told["goes_to"], "127.0.0.1:9201");
        }
    }

    #[test]
    fn a_request_without_a_key_is_told_so() {
        let told = json(&["--pool", "spread", "/?id="]);
        assert_eq!((&told["key"], &told["owner"], &told["reason"]), (&().into(), &().into(), &"spread".into()));
        let text = answered(&["--pool", "spread", "/", "/?id=7"]).unwrap();
        assert!(text.starts_with("key         none: {arg:id} is missing\n"), "{text}");
        assert!(text.contains("\n\nkey         7\nhash        "), "{text}");
    }

    #[test]
    fn a_path_the_gateway_refuses_has_no_place_unless_a_route_takes_it() {
        let (_, pools) = config::parse_with("test.yaml", FILE, compile).unwrap();
        let line = Line::try_parse_from(["key", "--pool", "web", "/a%2fb"]).unwrap();
        let refused = line.key.answer(pools, false, &mut Vec::new()).unwrap_err().to_string();
        assert!(refused.starts_with("/a%2fb: its path holds %2F or %5C"), "{refused}");
        let (_, pools) = config::parse_with("test.yaml", FILE, compile).unwrap();
        let mut out = Vec::new();
        line.key.answer(pools, true, &mut out).unwrap();
        assert!(out.starts_with(b"key "));
    }

    #[test]
    fn a_drained_origin_is_told_to_pass_its_keys_on() {
        let text = FILE.replacen("\"127.0.0.1:9200\"", "{ address: \"127.0.0.1:9200\", state: drain }", 1);
        let told = |url: &str| {
            let (_, pools) = config::parse_with("test.yaml", &text, compile).unwrap();
            let mut out = Vec::new();
            let line = ["key", "--pool", "web", "--json", url];
            Line::try_parse_from(line).unwrap().key.answer(pools, false, &mut out).unwrap();
            serde_json::from_slice::<serde_json::Value>(&out).unwrap()
        };
        let urls = (0..40).map(|n| format!("http://h/{n}"));
        let its_own: Vec<_> = urls.map(|url| told(&url)).filter(|told| told["owner"] == "127.0.0.1:9200").collect();
        assert!(!its_own.is_empty());
        for told in its_own {
            assert_eq!((&told["goes_to"], &told["reason"]), (&told["successors"][0], &"owner_draining".into()));
        }
    }

    #[test]
    fn states_can_be_assumed_and_origins_taken_for_tried() {
        let line = ["--pool", "web", "http://h/a"];
        let told = json(&line);
        let owner = told["owner"].as_str().unwrap();
        let next = told["successors"][0].as_str().unwrap();
        let asked = |more: &[&str]| {
            let told = json(&[&line[..], more].concat());
            let [goes_to, reason] = ["goes_to", "reason"].map(|field| told[field].as_str().unwrap_or("-").to_owned());
            assert_eq!(told["owner"], owner, "the ring stays as it is");
            (goes_to, told["pass"].as_u64(), reason)
        };
        let down = format!("{owner}=down");
        let (next, owner) = (next.to_owned(), owner.to_owned());
        assert_eq!(asked(&["--assume", &down]), (next.clone(), Some(1), "owner_out".to_owned()));
        assert_eq!(asked(&["--tried", &owner]), (next.clone(), Some(1), "owner_tried".to_owned()));
        let all = ["0", "1", "2", "3"].map(|last| format!("127.0.0.1:920{last}"));
        let tried: Vec<&str> = all.iter().flat_map(|name| ["--tried", name]).collect();
        assert_eq!(asked(&tried), ("-".to_owned(), None, "-".to_owned()));
        let text = answered(&[&line[..], &tried].concat()).unwrap();
        assert!(text.ends_with("goes to     nobody\npass        - (nobody can take it)\n"), "{text}");
    }

    /// Rule R2: of its own keys it takes those whose u is below the part.
    #[test]
    fn a_part_of_a_share_can_be_assumed() {
        let urls: Vec<String> = (0..60).map(|n| format!("http://h/{n}")).collect();
        for (state, part) in [("overloaded", 0.5), ("overloaded:20%", 0.2), ("ramping", 0.1), ("draining:90%", 0.9)] {
            let all = ["0", "1", "2", "3"].map(|last| format!("127.0.0.1:920{last}={state}"));
            for url in &urls {
                let told = json(&["--pool", "web", url]);
                let owner = told["owner"].as_str().unwrap();
                let assumed = all.iter().find(|assumed| assumed.starts_with(owner)).unwrap();
                let told = json(&["--pool", "web", url, "--assume", assumed]);
                let takes = balance::u(told["hash"].as_u64().unwrap() as u32) < part;
                let to = if takes { owner.into() } else { told["successors"][0].clone() };
                assert_eq!(told["goes_to"], to, "{assumed}: {told}");
                let reason = told["reason"].as_str().unwrap();
                assert_eq!(reason == "owner", takes, "{told}");
                assert!(takes || reason.starts_with("owner_"), "{told}");
            }
        }
    }

    #[test]
    fn wrong_usage_and_what_the_gateway_refuses_are_told_apart() {
        for (line, code, said) in [
            (&["--pool", "wbe", "/"][..], 2, "no pool \"wbe\", did you mean \"web\"?"),
            (&["/"], 2, "say which pool: --pool web | named | turns | spread"),
            (&["--pool", "spread", "/", "--tried", "a"], 2, "no origin \"a\", there is 127.0.0.1:9200, 127.0.0.1:9201"),
            (
                &["--pool", "spread", "/", "--assume", "127.0.0.1:9200=dwon"],
                2,
                "--assume 127.0.0.1:9200=dwon: expected ORIGIN=STATE, with up, kept, down or joining, or with overloaded, \
                 ramping or draining and perhaps the part of its share, as in ORIGIN=overloaded:40%",
            ),
            (
                &["--pool", "spread", "/", "--in-flight", "127.0.0.1:9200=many"],
                2,
                "--in-flight 127.0.0.1:9200=many: expected ORIGIN=COUNT, with 65535 at most",
            ),
            (&["--pool", "web", "example.com/a"], 2, "example.com/a: expected http://host/path or /path"),
            (&["--pool", "web", "/", "-H", "no"], 2, "no header line: no, expected \"name: value\""),
            (&["--pool", "named", "/"], 2, "the key {header:x-key} needs a client: --client-ip IP"),
            (&["--pool", "web", "/../a"], 1, "/../a: the path climbs above the root; the gateway answers 400"),
            (&["--pool", "web", "http://a@b/"], 1, "http://a@b/: it names a user; the gateway answers 400"),
            (&["--pool", "web", "--raw-from", "/none/such"], 1, "/none/such: No such file or directory (os error 2)"),
        ] {
            let fault = answered(line).unwrap_err();
            assert_eq!((if fault.is::<Usage>() { 2 } else { 1 }, format!("{fault:#}").as_str()), (code, said));
        }
    }

    #[test]
    fn literal_keys_are_read_a_line_and_written_a_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"/obj/0\n\n/obj/\xff1\r\n/obj/1").unwrap();
        let out = answered(&["--pool", "web", "--raw-from", file.path().to_str().unwrap()]).unwrap();
        let lines: Vec<_> = out.split('\n').collect();
        assert_eq!(lines[..2], ["/obj/0\t127.0.0.1:9203", "\t-"]);
        assert!(lines[2].starts_with("/obj/\u{fffd}1\r\t127.0.0.1:92"), "{}", lines[2]);
        assert_eq!(lines[3..], ["/obj/1\t127.0.0.1:9200", ""]);
    }

    #[test]
    fn k4_a_mistake_in_a_key_is_told_with_its_place() {
        let text = FILE.replace("{arg:id}", "{arg:a}{arg:b}");
        let report = config::parse_with("test.yaml", &text, compile).err().unwrap().to_string();
        assert!(report.contains("test.yaml:16:21: pools.spread.balance.key: {arg:a}{arg:b}"), "{report}");
        assert!(report.contains("{arg:a}&{arg:b}"), "{report}");
    }
}
