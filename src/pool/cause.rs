//! Why does a change of a pool move more than it has to? What can be told from two sections of configuration.
//!
//! The ring knows names and weights alone. So the same server under another name, and the same proportions on another
//! scale, move keys although nothing was meant to move; and a key made in another way moves them all. Each finding says
//! what it is, what to write instead, and how much of the circle would still move then.

use std::collections::{HashMap, HashSet};

use crate::balance::{Ring, moved};
use crate::config::units::Address;
use crate::config::written::Written as _;
use crate::config::{self, pool};
use crate::template::args::Policy;

/// A likely cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// What it is.
    pub what: What,
    /// What to write instead, a line for each origin or setting.
    pub instead: Vec<String>,
    /// The part of the circle that moves when that is written.
    pub moved: f64,
}

/// What moves keys that need not move.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// Origins that are the same servers under other names, before and after.
    Renamed(Spelling, Vec<(String, String)>),
    /// All weights are so many times what they were.
    Rescaled(f64),
    /// What makes the key is another: the setting, before and after.
    Key(&'static str, String, String),
}

/// How two names of one server differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Spelling {
    /// `localhost`, `127.0.0.1` or `[::1]`, one for another.
    Loopback,
    /// One has a port, the other has none.
    Port,
    /// Anything else.
    Other,
}

impl Spelling {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Port => "port",
            Self::Other => "renamed",
        }
    }
}

/// Every likely cause of what moves between two sections of one pool, keys first.
pub fn causes(before: &config::Pool, after: &config::Pool) -> Vec<Cause> {
    let (old, new) = (weights(before), weights(after));
    let start = Ring::new(&old);
    let now = moved(&start, &Ring::new(&new)).ratio;
    let mut found = keys(before, after, now);
    let renamed = renamed(before, after);
    for spelling in [Spelling::Loopback, Spelling::Port, Spelling::Other] {
        let of_kind: Vec<_> = renamed.iter().filter(|renamed| renamed.spelling == spelling).collect();
        let old_names = of_kind.iter().map(|one| (one.new.name.as_str(), one.old.name.as_str())).collect();
        let with = moved(&start, &Ring::new(&under(&new, &old_names))).ratio;
        if with < now {
            let pairs = of_kind.iter().map(|one| (one.old.name.clone(), one.new.name.clone())).collect();
            let instead = of_kind.iter().map(|one| one.line()).collect();
            found.push(Cause { what: What::Renamed(spelling, pairs), instead, moved: with });
        }
    }
    let all_names = renamed.iter().map(|one| (one.new.name.as_str(), one.old.name.as_str())).collect();
    found.extend(rescaled(&old, &under(&new, &all_names)).filter(|cause| cause.moved < now));
    found
}

fn weights(pool: &config::Pool) -> Vec<(&str, u32)> {
    let placed = pool.origins.iter().filter(|origin| is_keyed(pool) && !origin.backup);
    placed.map(|origin| (origin.name.as_str(), origin.weight.into())).collect()
}

/// Are its requests placed by a key?
fn is_keyed(pool: &config::Pool) -> bool {
    pool.balance.algorithm == pool::Algorithm::Hash
}

/// These members with the names some of them had.
fn under<'a>(members: &[(&'a str, u32)], old_names: &HashMap<&str, &'a str>) -> Vec<(&'a str, u32)> {
    members.iter().map(|(name, weight)| (*old_names.get(name).unwrap_or(name), *weight)).collect()
}

/// Settings that make the key.
fn keys(before: &config::Pool, after: &config::Pool, with: f64) -> Vec<Cause> {
    let args = |pool: &config::Pool| Policy::compile(&pool.args).unwrap_or_default().text();
    let settings = |pool: &config::Pool| {
        [
            ("balance.algorithm", pool.balance.algorithm.print()),
            ("balance.key", pool.balance.key.clone()),
            ("args", args(pool)),
            ("balance.on_missing", pool.balance.on_missing.to_string()),
        ]
    };
    let pairs = settings(before).into_iter().zip(settings(after));
    // What another algorithm makes of a key is nothing.
    let settings = if is_keyed(before) && is_keyed(after) { 4 } else { 1 };
    let changed = pairs.take(settings).filter(|((_, old), (_, new))| old != new);
    changed
        .map(|((what, old), (_, new))| Cause { what: What::Key(what, old, new), instead: Vec::new(), moved: with })
        .collect()
}

/// One server under two names.
struct Renamed<'a> {
    old: &'a pool::Origin,
    new: &'a pool::Origin,
    spelling: Spelling,
}

impl Renamed<'_> {
    /// The origin with its old name.
    fn line(&self) -> String {
        let weight = if self.new.weight == 1 { String::new() } else { format!(", weight: {}", self.new.weight) };
        format!("{{ address: \"{}\", name: \"{}\"{weight} }}", self.new.address, self.old.name)
    }
}

fn renamed<'a>(before: &'a config::Pool, after: &'a config::Pool) -> Vec<Renamed<'a>> {
    let names = |pool: &'a config::Pool| pool.origins.iter().map(|origin| origin.name.as_str()).collect::<HashSet<_>>();
    let (old_names, new_names) = (names(before), names(after));
    let mut gone: Vec<&pool::Origin> =
        before.origins.iter().filter(|origin| !new_names.contains(origin.name.as_str())).collect();
    let mut found = Vec::new();
    for new in after.origins.iter().filter(|origin| !old_names.contains(origin.name.as_str())) {
        // The surest first: the same address, then two ways to write one.
        let alike = |test: fn(&pool::Origin, &pool::Origin) -> bool| gone.iter().position(|old| test(old, new));
        let same = |old: &pool::Origin, new: &pool::Origin| old.address == new.address;
        if let Some(at) = alike(same).or_else(|| alike(both_loopback)).or_else(|| alike(port_apart)) {
            let old = gone.remove(at);
            found.push(Renamed { old, new, spelling: spelling(old, new) });
        }
    }
    found
}

fn spelling(old: &pool::Origin, new: &pool::Origin) -> Spelling {
    if both_loopback(old, new) && host_of(&old.name) != host_of(&new.name) {
        Spelling::Loopback
    } else if port_apart(old, new) {
        Spelling::Port
    } else {
        Spelling::Other
    }
}

/// The same port of this very machine.
fn both_loopback(old: &pool::Origin, new: &pool::Origin) -> bool {
    let local = |address: &Address| match address {
        Address::Ip(address) if address.ip().is_loopback() => Some(address.port()),
        Address::Name(host, port) if host.eq_ignore_ascii_case("localhost") => Some(*port),
        _ => None,
    };
    local(&old.address).is_some() && local(&old.address) == local(&new.address)
}

/// The same host, with a port in one of the two names.
fn port_apart(old: &pool::Origin, new: &pool::Origin) -> bool {
    let is_bare = |origin: &pool::Origin| host_of(&origin.name) == origin.name;
    host_of(&old.name) == host_of(&new.name) && is_bare(old) != is_bare(new)
}

/// A name without its port.
fn host_of(name: &str) -> &str {
    crate::balance::ring::host_and_port(name).0
}

/// Is the pool what it was, on another scale?
fn rescaled(old: &[(&str, u32)], new: &[(&str, u32)]) -> Option<Cause> {
    let before: HashMap<&str, u32> = old.iter().copied().collect();
    let kept: Vec<(u32, u32)> = new.iter().filter_map(|(name, to)| Some((*before.get(name)?, *to))).collect();
    let (from, to) = *kept.first()?;
    let same = |(was, is): &(u32, u32)| u64::from(*was) * u64::from(to) == u64::from(*is) * u64::from(from);
    if from == to || !kept.iter().all(same) {
        return None;
    }
    let scaled = |weight: u32| (u64::from(weight) * u64::from(from)).div_ceil(u64::from(to));
    let back: Vec<(&str, u32)> =
        new.iter().map(|(name, weight)| (*name, u32::try_from(scaled(*weight)).unwrap_or(*weight))).collect();
    let instead = back.iter().map(|(name, weight)| format!("{name}: weight {weight}")).collect();
    let moved = moved(&Ring::new(old), &Ring::new(&back)).ratio;
    Some(Cause { what: What::Rescaled(f64::from(to) / f64::from(from)), instead, moved })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(section: &str) -> config::Pool {
        let text = format!(
            "version: 1\nprocess: {{ listeners: [ {{ address: 127.0.0.1:0 }} ] }}\npools: {{ p: {section} }}\n"
        );
        config::parse("f", &text).unwrap_or_else(|report| panic!("{report}")).config.pools["p"].clone()
    }

    fn found(before: &str, after: &str) -> Vec<Cause> {
        causes(&pool(before), &pool(after))
    }

    fn origins(list: &str) -> String {
        format!("{{ origins: [{list}] }}")
    }

    #[test]
    fn one_server_under_another_name_is_named_with_the_line_that_keeps_its_keys() {
        for (before, after, spelling, line) in [
            (
                "localhost:9001",
                "127.0.0.1:9001",
                Spelling::Loopback,
                "{ address: \"127.0.0.1:9001\", name: \"localhost:9001\" }",
            ),
            (
                "127.0.0.1:9001",
                "localhost:9001",
                Spelling::Loopback,
                "{ address: \"localhost:9001\", name: \"127.0.0.1:9001\" }",
            ),
            ("10.0.0.1", "10.0.0.1:80", Spelling::Port, "{ address: \"10.0.0.1:80\", name: \"10.0.0.1\" }"),
            ("10.0.0.1", "10.0.0.1:8080", Spelling::Port, "{ address: \"10.0.0.1:8080\", name: \"10.0.0.1\" }"),
            (
                "{ address: \"10.0.0.1:80\", name: a }",
                "{ address: \"10.0.0.1:80\", name: b, weight: 2 }",
                Spelling::Other,
                "{ address: \"10.0.0.1:80\", name: \"a\", weight: 2 }",
            ),
        ] {
            let of = |one: &str| {
                let one = if one.starts_with('{') { one.to_owned() } else { format!("\"{one}\"") };
                origins(&format!("{one}, \"10.0.0.8:80\", \"10.0.0.9:80\""))
            };
            let found = found(&of(before), &of(after));
            let [Cause { what: What::Renamed(kind, pairs), instead, .. }] = &found[..] else { panic!("{found:?}") };
            assert_eq!((*kind, pairs.len(), instead.as_slice()), (spelling, 1, [line.to_owned()].as_slice()));
        }
    }

    #[test]
    fn what_is_written_instead_moves_what_the_rest_of_the_change_moves() {
        let before = origins("\"localhost:1\", \"localhost:2\", \"localhost:3\"");
        let found = found(&before, &origins("\"127.0.0.1:1\", \"127.0.0.1:2\", \"127.0.0.1:3\""));
        assert_eq!(found.len(), 1, "one finding for all of them: {found:?}");
        assert_eq!((found[0].moved, found[0].instead.len()), (0.0, 3));
        let grown =
            self::found(&before, &origins("\"127.0.0.1:1\", \"127.0.0.1:2\", \"127.0.0.1:3\", \"127.0.0.1:4\""));
        assert!((0.15..0.35).contains(&grown[0].moved), "the newcomer's share: {grown:?}");
    }

    #[test]
    fn weights_on_another_scale_are_found_and_another_proportion_is_not() {
        let two = |a: u32, b: u32| {
            origins(&format!(
                "{{ address: \"10.0.0.1:80\", weight: {a} }}, {{ address: \"10.0.0.2:80\", weight: {b} }}"
            ))
        };
        let found = found(&two(1, 2), &two(10, 20));
        let [Cause { what: What::Rescaled(by), instead, moved }] = &found[..] else { panic!("{found:?}") };
        assert_eq!((*by, *moved), (10.0, 0.0));
        assert_eq!(instead[..], ["10.0.0.1:80: weight 1", "10.0.0.2:80: weight 2"]);
        assert_eq!(self::found(&two(1, 2), &two(2, 2)), []);
        assert_eq!(self::found(&two(3, 3), &two(3, 3)), []);
    }

    #[test]
    fn what_makes_the_key_is_told_before_and_after() {
        let before = "{ balance: { key: \"{path}{args}\" }, origins: [\"10.0.0.1:80\", \"10.0.0.2:80\"] }";
        let after = "{ balance: { key: \"{host}{path}{args}\" }, args: { drop: [t] }, origins: [\"10.0.0.1:80\", \"10.0.0.2:80\"] }";
        let found = found(before, after);
        let told: Vec<_> = found.iter().map(|cause| cause.what.clone()).collect();
        let [What::Key("balance.key", old, new), What::Key("args", _, args)] = &told[..] else { panic!("{told:?}") };
        assert_eq!((old.as_str(), new.as_str()), ("{path}{args}", "{host}{path}{args}"));
        assert_eq!(args, "drop:t");
        assert!(found.iter().all(|cause| cause.moved == 0.0));
    }

    #[test]
    fn an_algorithm_without_a_key_is_told_alone_and_backups_are_no_cause() {
        let before = "{ balance: { key: \"{path}\" }, origins: [\"10.0.0.1:80\", \"10.0.0.2:80\"] }";
        let after = "{ balance: { algorithm: p2c }, origins: [\"10.0.0.1:80\", \"10.0.0.2:80\"] }";
        let causes = found(before, after);
        let [Cause { what: What::Key("balance.algorithm", old, new), .. }] = &causes[..] else { panic!("{causes:?}") };
        assert_eq!((old.as_str(), new.as_str()), ("hash", "p2c"));
        let backed = |name: &str| {
            origins(&format!("\"10.0.0.1:80\", {{ address: \"10.0.0.3:80\", name: {name}, backup: true, weight: 9 }}"))
        };
        assert_eq!(found(&backed("b"), &backed("c")), []);
    }

    #[test]
    fn a_pool_that_grows_has_no_cause_but_its_growth() {
        assert_eq!(found(&origins("\"10.0.0.1:80\""), &origins("\"10.0.0.1:80\", \"10.0.0.2:80\"")), []);
        assert_eq!(found(&origins("\"10.0.0.1:80\""), &origins("\"10.0.0.2:80\"")), [], "another server");
    }
}
