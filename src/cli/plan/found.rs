//! What do pools whose origins are found by DNS look like to a plan? No command asks DNS.
//!
//! A reload keeps those that serve, whether they are written or found, until it is known who takes their place. So where
//! one file names origins and the other a DNS name, the origins of the first stand on both sides; where both name one, a
//! few stand-ins do: what moves is then what a change of the key moves. A gateway that runs knows whom it found.

use anyhow::anyhow;
use serde_json::Value;

use super::Side;
use crate::cli::well;
use crate::config::Config;
use crate::config::pool::Origin;
use crate::config::units::{Address, Off};

/// Origins that stand for those nobody knows.
const STAND_INS: u16 = 8;

/// Puts origins where they would be found.
pub(super) fn fill([from, to]: [Side; 2]) -> anyhow::Result<[Side; 2]> {
    let [before, after] = [from.loaded.config.clone(), to.loaded.config.clone()];
    Ok([filled(from, &after)?, filled(to, &before)?])
}

/// Pools of both files whose origins are found in both.
pub(super) fn unknown(sides: &[Side; 2]) -> Vec<String> {
    let is_found =
        |side: &Side, name: &str| side.loaded.config.pools.get(name).is_some_and(|pool| pool.discovery != Off::Off);
    let names = sides[0].loaded.config.pools.keys();
    names.filter(|name| sides.iter().all(|side| is_found(side, name))).cloned().collect()
}

/// Are all origins known?
pub(super) fn is_whole(side: &Side) -> bool {
    side.loaded.config.pools.values().all(|pool| pool.discovery == Off::Off)
}

/// Puts those that serve, as the running gateway tells in its `status`, where they were found.
pub(super) fn running(side: Side, status: &Value) -> anyhow::Result<Side> {
    let serves = |(_, origin): &(&String, &Value)| origin["state"] != "parked";
    let origins = |name: &str| status["pools"][name]["origins"].as_object();
    put(side, |name| origins(name).map(|all| all.iter().filter(serves).map(|(name, _)| called(name)).collect()))
}

fn filled(side: Side, other: &Config) -> anyhow::Result<Side> {
    put(side, |name| other.pools.get(name).map(|pool| pool.origins.clone()))
}

/// Puts these origins, or else stand-ins, where they are found.
fn put(mut side: Side, known: impl Fn(&str) -> Option<Vec<Origin>>) -> anyhow::Result<Side> {
    if is_whole(&side) {
        return Ok(side);
    }
    let found = side.loaded.config.pools.iter_mut().filter(|(_, pool)| pool.discovery != Off::Off);
    for (name, pool) in found {
        let known = known(name).filter(|origins| !origins.is_empty());
        (pool.origins, pool.discovery) = (known.unwrap_or_else(stand_ins), Off::Off);
    }
    let complaints = |found: Vec<_>| anyhow!("{} mistakes with the origins of the other file", found.len());
    side.snapshot = well::snapshot(&side.loaded.config).map_err(complaints)?;
    Ok(side)
}

fn stand_ins() -> Vec<Origin> {
    (1..=STAND_INS).map(|number| called(&format!("found-{number}"))).collect()
}

/// One of this name; nobody asks where it is.
fn called(name: &str) -> Origin {
    Origin::at(Address::Name("origin".to_owned(), 80), name.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config;

    fn side(pool: &str) -> Side {
        let text = format!(
            "version: 1\nprocess: {{ listeners: [ {{ address: 127.0.0.1:0 }} ] }}\npools: {{ p: {{ {pool} }} }}\n"
        );
        let (loaded, snapshot) = config::parse_with("f", &text, well::snapshot).unwrap();
        Side { loaded, snapshot }
    }

    fn names(side: &Side) -> Vec<String> {
        side.snapshot.upstreams()[0].pool.members().iter().map(|member| member.name().to_string()).collect()
    }

    const FOUND: &str = "discovery: { dns: o.test, port: 80 }";

    #[test]
    fn where_one_file_knows_the_origins_they_stand_on_both_sides() {
        let sides = [side("origins: [a, b]"), side(FOUND)];
        assert_eq!(unknown(&sides), [""; 0]);
        let [from, to] = fill(sides).unwrap();
        assert_eq!((names(&from), names(&to)), (vec!["a".into(), "b".into()], vec!["a".into(), "b".into()]));
    }

    #[test]
    fn where_nobody_knows_them_others_stand_for_them() {
        let sides = [side(FOUND), side(FOUND)];
        assert_eq!(unknown(&sides), ["p"]);
        let [from, to] = fill(sides).unwrap();
        assert_eq!((names(&from).len(), names(&from)), (8, names(&to)));
    }

    #[test]
    fn a_gateway_that_runs_knows_whom_it_found() {
        let status = json!({ "pools": { "p": { "origins": {
            "10.0.0.1:80": { "state": "up" }, "10.0.0.2:80": { "state": "joining" }, "10.0.0.3:80": { "state": "parked" },
        } } } });
        assert_eq!(names(&running(side(FOUND), &status).unwrap()), ["10.0.0.1:80", "10.0.0.2:80"]);
        assert!(is_whole(&side("origins: [a]")) && !is_whole(&side(FOUND)));
    }
}
