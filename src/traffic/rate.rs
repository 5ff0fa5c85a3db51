//! May this client ask again so soon?
//!
//! Each count is one per process, never per thread, and is kept by [`Buckets`]. One that is shared is kept by a server for
//! several processes; it is kept here as well, and counts when the server does not answer.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use super::buckets::{Buckets, Name, moment};
use super::cells::Cells;
use super::gcra::Gcra;
use super::limit_key::{LimitKey, Secret};
use super::shared::Shared;
use crate::config::Invalid;
use crate::config::limits::RateLimit;
use crate::template::Facts;

/// Bytes of a hash that tell routes apart.
const HASH: usize = 8;

/// A compiled rate limit of a route.
pub struct Rate {
    name: Arc<str>,
    key: LimitKey,
    gcra: Gcra,
    secret: Secret,
    born: Instant,
    cells: Arc<Cells>,
    status: u16,
    dry_run: bool,
    policy: Box<str>,
    shared: Option<(Arc<Shared>, Box<str>)>,
}

/// What a server said when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It let the request in.
    In,
    /// It turns it away, for so many nanoseconds.
    Wait(u64),
    /// Nothing in time, or there is none.
    Nothing,
}

/// Why a request is turned away, for its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over {
    /// The name of the limit.
    pub limit: Arc<str>,
    /// The status it is answered with.
    pub status: u16,
    /// How long the client has to wait, if it is known, and what it may do in what time, as `RateLimit-Policy` says it.
    pub told: Option<(Duration, Box<str>)>,
}

impl Rate {
    /// Compiles the limit that stands at `number` on the route of this identity.
    ///
    /// # Errors
    /// What is wrong with its key.
    pub fn compile(written: &RateLimit, route: &str, number: usize, buckets: &Buckets) -> Result<Self, Invalid> {
        let key = LimitKey::compile(&written.key)?;
        let gcra = Gcra::new(written.rate.0, written.burst);
        let (name, label) = match (&*written.name, number) {
            ("", 0) => (Name::Own(route.to_owned(), 0), "rate".to_owned()),
            ("", n) => (Name::Own(route.to_owned(), n), format!("rate-{}", n + 1)),
            (name, _) => (Name::Shared(name.to_owned()), name.to_owned()),
        };
        let shared = written.shared.on().map(|shared| (buckets.server(&shared.redis), prefix(&name)));
        let cells = buckets.cells(name, key.text());
        let policy = policy(&label, written.burst, gcra);
        let (secret, born) = (buckets.secret(), buckets.born());
        let (status, dry_run) = (written.status, written.dry_run);
        Ok(Self { name: label.into(), key, gcra, secret, born, cells, status, dry_run, policy, shared })
    }

    /// Its name in logs and metrics.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Is nobody turned away?
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Whose requests this one counts with.
    pub fn tag(&self, facts: &Facts<'_>) -> u64 {
        self.key.tag(facts, self.secret)
    }

    /// One more request: why it is to be turned away, if it is.
    pub fn ask(&self, tag: u64, now: Instant) -> Result<(), Over> {
        self.cells.ask(tag, &self.gcra, moment(self.born, now)).map_err(|wait| self.over(wait))
    }

    fn over(&self, wait: u64) -> Over {
        let told = Some((Duration::from_nanos(wait), self.policy.clone()));
        Over { limit: Arc::clone(&self.name), status: self.status, told }
    }

    /// What the server calls whose requests this one counts with, if there is one.
    pub fn shared_key(&self, facts: &Facts<'_>) -> Option<String> {
        self.shared.as_ref().map(|(_, prefix)| format!("{prefix}{}", self.key.name(facts)))
    }

    /// Asks the server for one more request of this key.
    pub async fn ask_server(&self, key: &str, clock: fn() -> Instant) -> Asked {
        let Some((server, _)) = &self.shared else { return Asked::Nothing };
        match server.ask(key.to_owned(), &self.gcra, clock).await {
            Some(Ok(())) => Asked::In,
            Some(Err(wait)) => Asked::Wait(wait),
            None => Asked::Nothing,
        }
    }

    /// The same as [`Self::ask`], after a server was asked.
    pub fn ask_after(&self, tag: u64, asked: Asked, now: Instant) -> Result<(), Over> {
        match asked {
            Asked::Nothing => self.ask(tag, now),
            Asked::Wait(wait) => Err(self.over(wait)),
            Asked::In => {
                // Counted here as well: should the server be gone next, this process goes on from what it let in.
                let _ = self.ask(tag, now);
                Ok(())
            }
        }
    }

    /// The request was turned away by another limit: it does not count at the server, either.
    pub fn give_back_at_server(&self, key: Option<String>, asked: Asked) {
        if let (Some((server, _)), Some(key), Asked::In) = (&self.shared, key, asked) {
            server.give_back(key, &self.gcra);
        }
    }

    /// The request was turned away by another limit: it does not count.
    pub fn give_back(&self, tag: u64) {
        self.cells.give_back(tag, &self.gcra);
    }
}

impl Over {
    /// Beyond another limit.
    pub fn of(limit: &str, status: u16) -> Self {
        Self { limit: limit.into(), status, told: None }
    }

    /// Whole seconds until it is worth asking again.
    pub fn retry_after(&self) -> u64 {
        self.told.as_ref().map_or(1, |(wait, _)| whole_seconds(*wait))
    }

    /// `RateLimit-Policy` and `RateLimit`, as draft-ietf-httpapi-ratelimit-headers-10 has them.
    pub fn fields(&self) -> Option<(&str, String)> {
        let (wait, policy) = self.told.as_ref()?;
        let name = policy.rsplit_once(";q=").map_or(&**policy, |(name, _)| name);
        Some((policy, format!("{name};r=0;t={}", whole_seconds(*wait))))
    }
}

fn whole_seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

/// What keys of this limit begin with at a server.
fn prefix(name: &Name) -> Box<str> {
    match name {
        Name::Shared(name) => format!("moorgate:rate:{name}:"),
        Name::Own(route, number) => format!("moorgate:rate-of:{}:{number}:", short(route)),
    }
    .into()
}

/// A route without a name is told apart by all that it matches, which may be long: its hash is not.
fn short(identity: &str) -> Cow<'_, str> {
    if !identity.contains(' ') {
        return identity.into();
    }
    let hash = Sha256::digest(identity);
    hash.iter().take(HASH).map(|byte| format!("{byte:02x}")).collect()
}

/// The limit in one line: its name as a string of RFC 9651, how many requests, in how many seconds.
fn policy(name: &str, burst: u32, gcra: Gcra) -> Box<str> {
    let plain = |c: char| if c.is_ascii_graphic() { c } else { '?' };
    let name = name.chars().map(plain).collect::<String>().replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{name}\";q={};w={}", u64::from(burst) + 1, whole_seconds(gcra.window())).into()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::super::buckets::Carried;
    use super::*;
    use crate::config;

    fn limit(text: &str) -> RateLimit {
        let text = format!(
            "version: 1\nprocess: {{ listeners: [ {{ address: 0.0.0.0:80 }} ] }}\npools: {{ p: {{ origins: [a] }} }}\n\
             routes: [ {{ pool: p, limits: {{ rate: {text} }} }} ]\n"
        );
        config::parse("f", &text).unwrap().config.routes[0].limits.rate.all()[0].clone()
    }

    /// How many of ten requests at once it lets in.
    fn admitted(rate: &Rate, now: Instant) -> usize {
        (0..10).filter(|_| rate.ask(5, now).is_ok()).count()
    }

    #[test]
    fn one_name_is_one_count_on_every_route_and_without_one_each_has_its_own() {
        let now = Instant::now();
        let buckets = Buckets::new(now);
        let on = |route, text| Rate::compile(&limit(text), route, 0, &buckets).unwrap();
        let named = ["a", "b"].map(|route| on(route, "{ name: n, rate: 1/s, burst: 4 }"));
        assert_eq!(named.each_ref().map(|rate| admitted(rate, now)), [5, 0]);
        let own = ["a", "b"].map(|route| on(route, "{ rate: 1/s, burst: 4 }"));
        assert_eq!(own.each_ref().map(|rate| admitted(rate, now)), [5, 5]);
        assert_eq!((&**named[0].name(), &**own[0].name()), ("n", "rate"));
    }

    #[test]
    fn a_count_goes_on_in_the_next_configuration_if_it_counts_by_the_same_key() {
        let now = Instant::now();
        let first = Buckets::new(now);
        let on = |buckets: &Buckets, text| Rate::compile(&limit(text), "a", 0, buckets).unwrap();
        assert_eq!(admitted(&on(&first, "{ name: n, rate: 1/s, burst: 4 }"), now), 5);
        let second = first.after();
        assert_eq!(admitted(&on(&second, "{ name: n, rate: 1/s, burst: 4 }"), now), 0);
        let second = second.settled();
        let third = second.after();
        // Five seconds are owed: with a burst of six there is room for two more.
        assert_eq!(admitted(&on(&third, "{ name: n, rate: 1/s, burst: 6 }"), now), 2);
        assert_eq!(admitted(&on(&third.after(), "{ name: n, rate: 1/s, burst: 4, key: \"{host}\" }"), now), 5);
    }

    #[test]
    fn u3_a_process_that_follows_counts_on() {
        let now = Instant::now();
        let old = Buckets::new(now);
        let on = |buckets: &Buckets, text| Rate::compile(&limit(text), "a", 0, buckets).unwrap();
        assert_eq!(admitted(&on(&old, "{ name: n, rate: 1/s, burst: 4 }"), now), 5);
        let later = now + Duration::from_secs(3600);
        let told = serde_json::to_string(&old.tell(100, now + Duration::from_millis(2001))).unwrap();
        let told: Carried = serde_json::from_str(&told).unwrap();
        let new = Buckets::told(&told, later);
        let rate = on(&new, "{ name: n, rate: 1/s, burst: 4 }");
        new.hear(&told, later);
        assert_eq!(admitted(&rate, later), 2, "of five seconds two are over");
        let other = Buckets::new(later);
        let rate = on(&other, "{ name: n, rate: 1/s, burst: 4 }");
        other.hear(&told, later);
        assert_eq!(admitted(&rate, later), 5, "what has another secret means nothing here");
    }

    #[test]
    fn a_server_counts_under_names_that_every_replica_has() {
        let prefix = |name| String::from(prefix(&name));
        assert_eq!(prefix(Name::Shared("n".into())), "moorgate:rate:n:");
        assert_eq!(prefix(Name::Own("api".into(), 1)), "moorgate:rate-of:api:1:");
        let [one, other] =
            ["match {\"hosts\":[\"a\"]}", "match {\"hosts\":[\"b\"]}"].map(|of| prefix(Name::Own(of.into(), 0)));
        assert!(one != other && one.len() == "moorgate:rate-of::0:".len() + 2 * HASH, "{one} {other}");
    }

    #[test]
    fn the_answer_says_when_to_come_again() {
        let now = Instant::now();
        let rate =
            Rate::compile(&limit("{ name: \"a\\\"b\", rate: 2/m, burst: 1 }"), "r", 0, &Buckets::new(now)).unwrap();
        assert!(rate.ask(1, now).is_ok() && rate.ask(1, now).is_ok());
        let over = rate.ask(1, now + Duration::from_millis(1500)).unwrap_err();
        assert_eq!((over.status, over.retry_after()), (429, 29));
        let (policy, state) = over.fields().unwrap();
        assert_eq!((policy, &*state), ("\"a\\\"b\";q=2;w=60", "\"a\\\"b\";r=0;t=29"));
    }
}
