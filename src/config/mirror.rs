//! Which pool gets copies of a route's requests, and of how many of them?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Config;
use super::check::Check;
use super::place::one_of;
use super::route::Route;
use super::units::{Off, Percent};

/// The `mirror` section of a route: copies of its requests, whose answers nobody waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["pool"]))]
pub struct Mirror {
    /// The pool that gets the copies, by name.
    pub pool: String,
    /// The part of the requests that is copied, drawn anew for each.
    pub share: Percent,
}

impl Default for Mirror {
    fn default() -> Self {
        Self { pool: String::new(), share: Percent(100.0) }
    }
}

impl Check<'_> {
    /// The pool of a mirror is there, and is another one than the requests themselves go to.
    pub(super) fn mirror(&mut self, path: &str, route: &Route, config: &Config) {
        let Off::On(mirror) = &route.mirror else { return };
        let at_pool = format!("{path}.mirror.pool");
        if mirror.pool.is_empty() {
            if self.are_sound(&[&at_pool]) {
                let meant = format!("expected a pool: {}", one_of(self.places.keys("pools")));
                self.error(at_pool, "missing", meant);
            }
        } else if self.is_known_pool(&at_pool, &mirror.pool)
            && route.pools().any(|pool| pool == mirror.pool)
            && config.pools.contains_key(&mirror.pool)
        {
            let found = format!("\"{}\" is a pool of the route itself", mirror.pool);
            self.warn(at_pool, found, "its origins would get such a request twice: name another pool");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::said;

    /// What is said of this mirror of a route to `a`.
    fn of(mirror: &str) -> Vec<String> {
        let process = "process: { listeners: [ { address: 0.0.0.0:80 } ] }";
        let pool = "{ origins: [o], health: { probe: off } }";
        said(&format!(
            "version: 1\n{process}\npools: {{ a: {pool}, b: {pool} }}\nroutes: [ {{ pool: a, mirror: {mirror} }} ]\n"
        ))
    }

    #[test]
    fn a_mirror_names_a_pool_that_is_there_and_better_another_one() {
        assert_eq!(of("{ pool: b, share: 0.5% }"), [""; 0]);
        assert_eq!(of("off"), [""; 0]);
        assert_eq!(of("{ pool: c }"), ["4:38: routes[0].mirror.pool: unknown pool \"c\", did you mean \"a\"?"]);
        assert!(of("{ share: 5% }")[0].contains("routes[0].mirror.pool: missing, expected a pool: a or b"));
        assert!(of("{ pool: b, share: 101% }")[0].contains("expected a share from 0% to 100%"));
        let own = of("{ pool: a }");
        assert!(
            own.len() == 1 && own[0].starts_with("warning: 4:38: routes[0].mirror.pool: \"a\" is a pool"),
            "{own:?}"
        );
    }
}
