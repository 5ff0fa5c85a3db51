//! How are a route's requests shared out over several pools?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Check;
use super::each;
use super::place::one_of;
use super::route::Route;
use super::units::Percent;

/// What the shares may lack of 100 %, or have above it, for numbers that decimals cannot write exactly.
const SLACK: f64 = 1e-6;

/// The `split` section of a route: several pools in place of one, sticky by a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["to"]))]
pub struct Split {
    /// The template of the key: equal keys go to one pool. Where a part of it is missing, the client's address stands in.
    pub key: String,
    /// The pools, with shares of 100 % in all; their order has no meaning.
    #[serde(deserialize_with = "each::list")]
    pub to: Vec<Share>,
}

impl Default for Split {
    fn default() -> Self {
        Self { key: "{client_ip}".to_owned(), to: Vec::new() }
    }
}

/// One pool of a split.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["pool", "share"]))]
pub struct Share {
    /// The pool, by name.
    pub pool: String,
    /// Its part of the keys.
    pub share: Percent,
}

impl Check<'_> {
    /// The pools of a split are there, each once, and their shares are all there is.
    pub(super) fn split(&mut self, path: &str, route: &Route) {
        let Some(split) = &route.split else { return };
        let at_list = format!("{path}.split.to");
        if split.to.is_empty() && self.are_sound(&[&at_list]) {
            self.error(&at_list, "no pool", "expected at least one");
        }
        let at = |i: usize, key: &str| format!("{at_list}[{i}].{key}");
        for (i, share) in split.to.iter().enumerate() {
            if !share.pool.is_empty() {
                self.is_known_pool(&at(i, "pool"), &share.pool);
            } else if self.are_sound(&[&at(i, "pool")]) {
                let meant = format!("expected a pool: {}", one_of(self.places.keys("pools")));
                self.error(at(i, "pool"), "missing", meant);
            }
            if !self.places.is_written(&at(i, "share")) && self.are_sound(&[&at(i, "share")]) {
                self.error(at(i, "share"), "missing", "expected a share such as 5%");
            }
        }
        let named = split.to.iter().enumerate().filter(|(_, share)| !share.pool.is_empty());
        self.duplicates("pool", named.map(|(i, share)| (at(i, "pool"), share.pool.clone())));
        let read =
            (0..split.to.len()).all(|i| self.places.is_written(&at(i, "share")) && self.are_sound(&[&at(i, "share")]));
        let sum: f64 = split.to.iter().map(|share| share.share.0).sum();
        if read && !split.to.is_empty() && self.are_sound(&[&at_list]) && (sum - 100.0).abs() > SLACK {
            let sum = (sum * 1e6).round() / 1e6;
            self.error(at_list, format!("shares of {sum}% in all"), "expected 100%");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::said;

    /// What is said of this split, without the line it stands in.
    fn of(split: &str) -> Vec<String> {
        let process = "process: { listeners: [ { address: 0.0.0.0:80 } ] }";
        let pool = "{ origins: [o], health: { probe: off } }";
        let pools = format!("pools: {{ a: {pool}, b: {pool}, c: {pool} }}");
        let said = said(&format!("version: 1\n{process}\n{pools}\nroutes:\n  - split: {split}\n"));
        said.into_iter()
            .map(|line| line.split_once(": routes[0].split").map_or(line.clone(), |(_, said)| said.to_owned()))
            .collect()
    }

    #[test]
    fn shares_are_of_pools_that_are_there_and_100_percent_in_all() {
        for right in [
            "{ key: \"{client_ip}{header:user-agent}\", to: [ { pool: a, share: 5% }, { pool: b, share: 95% } ] }",
            "{ to: [ { pool: a, share: 0.5% }, { pool: b, share: 99.5% }, { pool: c, share: 0% } ] }",
            "{ to: [ { pool: a, share: 33.3% }, { pool: b, share: 33.3% }, { pool: c, share: 33.4% } ] }",
            "{ to: [ { pool: a, share: 100% } ] }",
        ] {
            assert_eq!(of(right), [""; 0], "{right}");
        }
        for (wrong, why) in [
            ("{ to: [ { pool: a, share: 5% }, { pool: b, share: 94% } ] }", ".to: shares of 99% in all, expected 100%"),
            (
                "{ to: [ { pool: a, share: 0.1% }, { pool: b, share: 100% } ] }",
                ".to: shares of 100.1% in all, expected 100%",
            ),
            ("{ to: [ { pool: d, share: 100% } ] }", ".to[0].pool: unknown pool \"d\""),
            (
                "{ to: [ { pool: a, share: 50% }, { pool: a, share: 50% } ] }",
                ".to[1].pool: the pool \"a\" a second time",
            ),
            ("{ to: [ { pool: a } ] }", ".to[0].share: missing, expected a share such as 5%"),
            ("{ to: [ { share: 100% } ] }", ".to[0].pool: missing, expected a pool"),
            ("{ to: [] }", ".to: no pool, expected at least one"),
            ("{ to: [ { pool: a, share: 100 } ] }", ".to[0].share: found"),
        ] {
            let said = of(wrong);
            assert!(said.len() == 1 && said[0].starts_with(why), "{wrong}: {said:?}");
        }
    }
}
