//! Where does a limit go on that was there before?
//!
//! [`Buckets`] has the counts of every limit that is in force; a limit of a later configuration that counts by the same
//! key under the same name goes on with its count ([`Buckets::after`]), and so does one of the process that follows
//! ([`Buckets::told`]), which hears of the requests that are still under way in the one before, too ([`Buckets::hear_seats`]).
//! Of what is counted elsewhere only the connections are kept.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::cells::{Cells, Known};
use super::concurrency::Seats;
use super::limit_key::Secret;
use super::shared::Shared;
use crate::config::redis_url::RedisUrl;

/// Keys of requests under way that are told at most.
const SEATED: usize = 8192;

/// Requests under way by the identity of their route, and the key they are counted by.
type UnderWay = HashMap<String, (Box<str>, Arc<Seats>)>;

/// The counts of all rate limits.
pub struct Buckets {
    secret: Secret,
    /// What moments are counted from.
    born: Instant,
    counts: Mutex<HashMap<Name, Count>>,
    before: HashMap<Name, Count>,
    seats: Mutex<UnderWay>,
    seats_before: UnderWay,
    servers: Mutex<HashMap<RedisUrl, Arc<Shared>>>,
    servers_before: HashMap<RedisUrl, Arc<Shared>>,
}

/// Which limit: the one of this name, or the one at this number on the route of this identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Name {
    Shared(String),
    Own(String, usize),
}

/// What another process counted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Carried {
    secret: [u64; 2],
    limits: Vec<Told>,
    #[serde(default)]
    seats: Seated,
}

/// Requests that are under way in another process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Seated {
    secret: [u64; 2],
    routes: Vec<SeatedOn>,
}

/// Those of one route.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SeatedOn {
    route: String,
    key: Box<str>,
    /// How many of each tag.
    seats: Vec<(u64, u32)>,
}

/// What it counted of one limit.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Told {
    limit: Name,
    key: Box<str>,
    /// Of each key that is not even: its number, how long until it is, and in the lowest bit of that whether it was turned
    /// away.
    keys: Vec<[u64; 2]>,
}

/// What is counted of one limit.
#[derive(Clone)]
struct Count {
    key: Box<str>,
    cells: Arc<Cells>,
}

impl Buckets {
    /// Those of the first configuration.
    pub fn new(now: Instant) -> Self {
        Self::of(Secret::random(), now)
    }

    /// Those of the first configuration of a process that goes on for another one, whose counts follow.
    pub fn told(carried: &Carried, now: Instant) -> Self {
        Self::of(Secret(carried.secret), now)
    }

    fn of(secret: Secret, born: Instant) -> Self {
        Self {
            secret,
            born,
            counts: Mutex::default(),
            before: HashMap::new(),
            seats: Mutex::default(),
            seats_before: HashMap::new(),
            servers: Mutex::default(),
            servers_before: HashMap::new(),
        }
    }

    /// What is counted, of so many keys at most. Each limit has an equal part of them, and what one does not need the
    /// others have: a flood of keys on one limit takes nobody else's.
    pub fn tell(&self, most: usize, now: Instant) -> Carried {
        let (counts, now) = (self.counts.lock().clone(), moment(self.born, now));
        let mut counts: Vec<_> =
            counts.into_iter().map(|(limit, count)| (count.cells.owing(now), limit, count)).collect();
        counts.sort_unstable_by_key(|(owing, ..)| *owing);
        let (mut left, mut others) = (most, counts.len());
        let told = counts.into_iter().map(|(_, limit, count)| {
            let known = count.cells.tell(left / others.max(1), now);
            (left, others) = (left - known.len(), others - 1);
            let keys = known.into_iter().map(|known| [known.tag, known.owes << 1 | u64::from(known.turned_away)]);
            Told { limit, key: count.key, keys: keys.collect() }
        });
        Carried { secret: self.secret.0, limits: told.collect(), seats: self.tell_seats() }
    }

    /// The requests under way that are limited in their number, here and where it was told of.
    pub fn tell_seats(&self) -> Seated {
        let routes = self.seats.lock().clone().into_iter();
        let mut routes: Vec<_> = routes
            .map(|(route, (key, seats))| SeatedOn { route, key, seats: seats.tell() })
            .filter(|told| !told.seats.is_empty())
            .collect();
        // In as many bytes as can be sent ten times a second: whoever has most is next to their limit.
        let mut left = SEATED;
        for told in &mut routes {
            told.seats.sort_unstable_by_key(|(_, count)| std::cmp::Reverse(*count));
            told.seats.truncate(left);
            left -= told.seats.len();
        }
        Seated { secret: self.secret.0, routes }
    }

    /// Requests under way in another process, in place of what was heard before.
    pub fn hear_seats(&self, told: &Seated) {
        for (route, (key, seats)) in &*self.seats.lock() {
            let told = told.routes.iter().filter(|_| told.secret == self.secret.0);
            let told = told.into_iter().find(|told| told.route == *route && told.key == *key);
            seats.hear(told.map_or(&[][..], |told| &told.seats));
        }
    }

    /// What another process counted, whose secret is the same.
    pub fn hear(&self, carried: &Carried, now: Instant) {
        if carried.secret != self.secret.0 {
            return;
        }
        self.hear_seats(&carried.seats);
        let (counts, now) = (self.counts.lock().clone(), moment(self.born, now));
        for told in &carried.limits {
            let Some(count) = counts.get(&told.limit).filter(|count| count.key == told.key) else { continue };
            let known = |[tag, owes]: &[u64; 2]| Known { tag: *tag, owes: owes >> 1, turned_away: owes & 1 == 1 };
            count.cells.hear(&told.keys.iter().map(known).collect::<Vec<_>>(), now);
        }
    }

    /// Those of the configuration that follows.
    pub fn after(&self) -> Self {
        let (before, seats_before) = (self.counts.lock().clone(), self.seats.lock().clone());
        let servers_before = self.servers.lock().clone();
        Self { before, seats_before, servers_before, ..Self::of(self.secret, self.born) }
    }

    /// Nobody follows any more.
    #[must_use]
    pub fn settled(self) -> Self {
        Self { before: HashMap::new(), seats_before: HashMap::new(), servers_before: HashMap::new(), ..self }
    }

    pub(super) fn secret(&self) -> Secret {
        self.secret
    }

    pub(super) fn born(&self) -> Instant {
        self.born
    }

    /// The requests under way on this route, whose key is this.
    pub(super) fn seats(&self, route: &str, key: &str) -> Arc<Seats> {
        let mut seats = self.seats.lock();
        let known = seats.get(route).or_else(|| self.seats_before.get(route)).filter(|(of, _)| **of == *key);
        let known = known.cloned().unwrap_or_else(|| (key.into(), Arc::default()));
        Arc::clone(&seats.entry(route.to_owned()).or_insert(known).1)
    }

    /// The server at this place, to which there is one connection.
    pub(super) fn server(&self, url: &RedisUrl) -> Arc<Shared> {
        let mut servers = self.servers.lock();
        let known = servers.get(url).or_else(|| self.servers_before.get(url)).cloned();
        let server = known.unwrap_or_else(|| Arc::new(Shared::new(url.clone(), self.born)));
        Arc::clone(servers.entry(url.clone()).or_insert(server))
    }

    /// The count of `name`, whose key is this.
    pub(super) fn cells(&self, name: Name, key: &str) -> Arc<Cells> {
        let mut counts = self.counts.lock();
        let known = counts.get(&name).or_else(|| self.before.get(&name)).filter(|count| *count.key == *key);
        let count = known.cloned().unwrap_or_else(|| Count { key: key.into(), cells: Arc::default() });
        Arc::clone(&counts.entry(name).or_insert(count).cells)
    }
}

/// Nanoseconds; 0 is before anything was asked.
pub(super) fn moment(born: Instant, now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(born).as_nanos()).unwrap_or(u64::MAX >> 1).max(1)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::super::gcra::Gcra;
    use super::*;

    /// How many keys of each limit are told of, in the order of their numbers.
    fn told(keys: &[usize], most: usize) -> Vec<usize> {
        let now = Instant::now();
        let (buckets, gcra) = (Buckets::new(now), Gcra::new(1.0, 5));
        let name = |number| Name::Own("r".to_owned(), number);
        for (number, keys) in keys.iter().enumerate() {
            let cells = buckets.cells(name(number), "{client_ip}");
            for key in 1..=*keys as u64 {
                cells.ask(key.wrapping_mul(0x9E37_79B9_7F4A_7C15), &gcra, moment(buckets.born, now)).unwrap();
            }
        }
        let carried = buckets.tell(most, now);
        let of = |number| carried.limits.iter().find(|told| told.limit == name(number)).unwrap().keys.len();
        (0..keys.len()).map(of).collect()
    }

    #[test]
    fn u3_what_is_under_way_in_a_process_counts_in_the_one_that_follows_it() {
        let now = Instant::now();
        let old = Buckets::new(now);
        let seat = |buckets: &Buckets, route: &str, key: &str| buckets.seats(route, key).take(7, 1);
        let held = seat(&old, "r", "{host}");
        assert!(held.is_some());
        let told = serde_json::to_string(&old.tell(100, now)).unwrap();
        let told: Carried = serde_json::from_str(&told).unwrap();
        let new = Buckets::told(&told, now);
        let _ = ["r", "r2"].map(|route| new.seats(route, "{host}"));
        new.hear(&told, now);
        assert!(seat(&new, "r", "{host}").is_none() && seat(&new, "r2", "{host}").is_some());
        assert!(seat(&new.after(), "r", "{host}").is_none(), "a reload forgets nobody");
        assert!(seat(&new.after(), "r", "{client_ip}").is_some(), "another key is another count");
        drop(held);
        new.hear_seats(&old.tell_seats());
        assert!(seat(&new, "r", "{host}").is_some());
        let other = Buckets::new(now);
        let held = seat(&other, "r", "{host}");
        new.hear_seats(&other.tell_seats());
        assert!(held.is_some() && seat(&new, "r", "{host}").is_some(), "what has another secret means nothing here");
    }

    #[test]
    fn limits_share_what_may_be_told_and_a_flood_takes_no_other_s_part() {
        assert_eq!(told(&[10, 20, 30], 60), [10, 20, 30]);
        assert_eq!(told(&[10_000, 20, 30], 60), [20, 20, 20]);
        assert_eq!(told(&[10_000, 5, 25], 60), [30, 5, 25]);
        assert_eq!(told(&[10_000, 0, 0, 0], 4000), [4000, 0, 0, 0], "what nobody needs");
        assert_eq!(told(&[10, 10, 10], 2).iter().sum::<usize>(), 2);
    }
}
