//! What does a process hand to the one that follows it, beside its sockets and texts? All that it learned (rules U1, U3,
//! P4), as one blob that is opaque to whoever carries it.
//!
//! JSON, so that a generation may know more than the other: what it does not know it leaves out, what it misses begins
//! anew. `format` changes only when what was there means something else; another one is refused, since serving from half
//! of what was learned would move keys. The same goes for what cannot be read: then nothing is taken over.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::ledger::Ledger;
use crate::config::{Complaint, Config};
use crate::observe::{Counted, Metrics, Told};
use crate::snapshot::guard::Trailed;
use crate::snapshot::{self, Seated, Snapshot, Store};

/// What a blob of this version means.
const FORMAT: u32 = 1;

/// All that a process learned, as another one reads it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Learned {
    format: u32,
    snapshot: snapshot::Carried,
    #[serde(default)]
    trail: Trailed,
    #[serde(default)]
    counted: Counted,
}

/// What a leaving process tells from time to time.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Since {
    #[serde(default)]
    counted: Counted,
    /// Attempts under way, by pool and origin; none where none is named.
    #[serde(default)]
    under_way: HashMap<String, HashMap<String, usize>>,
    /// Requests under way of routes that limit their number.
    #[serde(default)]
    seats: Seated,
}

/// Why a blob is not taken over.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Another version of Moorgate made it, which meant something else by it.
    #[error("what was learned is told in format {found}, and this version reads format {FORMAT}")]
    Format {
        /// The format it is in.
        found: u32,
    },
    /// It is cut off, or something else.
    #[error("what was learned cannot be read: {0}")]
    Garbage(#[from] serde_json::Error),
}

/// Tells another process what was learned, and then what is counted. Each process that follows has one of its own, or
/// begins one anew.
pub struct Teller {
    store: Arc<Store>,
    ledger: Arc<Ledger>,
    metrics: Metrics,
    told: Mutex<Told>,
}

impl Teller {
    /// Of what is in force in `store`.
    pub fn new(store: Arc<Store>, ledger: Arc<Ledger>, metrics: Metrics) -> Self {
        Self { store, ledger, metrics, told: Mutex::default() }
    }

    /// All that is known `now`. What was counted is told from the beginning, and later accounts go on from here.
    pub fn learned(&self, now: Instant) -> Vec<u8> {
        let learned = Learned {
            format: FORMAT,
            snapshot: self.store.load().export(now),
            trail: self.ledger.trail().export(now),
            counted: {
                let mut told = self.told.lock();
                *told = Told::default();
                self.metrics.tell(&mut told)
            },
        };
        encoded(&learned)
    }

    /// What was counted since this or [`learned`](Self::learned) was asked last, and what is under way.
    pub fn since(&self) -> Vec<u8> {
        let snapshot = self.store.load();
        let pools = snapshot.upstreams().iter().map(|upstream| &upstream.pool);
        let under_way = pools.map(|pool| {
            let origins = pool.under_way().map(|(origin, attempts)| (origin.to_string(), attempts));
            (pool.name().to_string(), origins.collect::<HashMap<_, _>>())
        });
        let under_way = under_way.filter(|(_, origins)| !origins.is_empty()).collect();
        encoded(&Since { counted: self.metrics.tell(&mut self.told.lock()), under_way, seats: snapshot.seats() })
    }
}

/// What another process counted since it told of that last. A garbled account is as good as none: the next one tells
/// what is under way anew.
///
/// # Errors
/// It cannot be read.
pub fn hear_since(bytes: &[u8], store: &Store, metrics: &Metrics) -> Result<(), Unreadable> {
    let Since { counted, under_way, seats } = serde_json::from_slice(bytes)?;
    metrics.hear(&counted);
    let snapshot = store.load();
    snapshot.hear_seats(&seats);
    for upstream in snapshot.upstreams() {
        let pool = under_way.get(&**upstream.pool.name());
        upstream.pool.tell_elsewhere(|origin| pool.and_then(|pool| pool.get(origin)).copied().unwrap_or(0));
    }
    Ok(())
}

/// The other process is gone, and with it all that was under way there.
pub fn none_under_way(store: &Store) {
    let snapshot = store.load();
    snapshot.hear_seats(&Seated::default());
    snapshot.upstreams().iter().for_each(|upstream| upstream.pool.tell_elsewhere(|_| 0));
}

impl Learned {
    /// Reads it.
    ///
    /// # Errors
    /// It is in another format, or garbled.
    pub fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        // Nobody accepts while it is read: what can be read is read once.
        let read: Result<Self, _> = serde_json::from_slice(bytes);
        let head = || serde_json::from_slice(bytes).map(|Head { format }| format);
        match (&read, read.as_ref().map_or_else(|_| head(), |learned| Ok(learned.format))) {
            (_, Ok(found)) if found != FORMAT => Err(Unreadable::Format { found }),
            _ => Ok(read?),
        }
    }

    /// The snapshot that goes on where the other process was: of the configuration in force there, which was told as
    /// text, with the `process` section of this one.
    ///
    /// # Errors
    /// What is wrong with the configuration here.
    pub fn compile(&self, config: &Config, metrics: &Metrics, now: Instant) -> Result<Snapshot, Vec<Complaint>> {
        Snapshot::compile_carried(config, &self.snapshot, metrics, now)
    }

    /// Takes all of it over that can change from one moment to the next, into what [`compile`](Self::compile) made and is
    /// in `store` now; `last`: what the other process told when it had stopped. Once for each process, before it accepts
    /// or judges anybody.
    pub fn take_over(self, last: Option<Self>, store: &Store, ledger: &Ledger, metrics: &Metrics, now: Instant) {
        let is_other = last.as_ref().is_some_and(|last| !self.snapshot.is_shaped_as(&last.snapshot));
        let last = last.unwrap_or(self);
        if is_other {
            // Who is there changed since. It was compiled once: it can be again.
            let next = store.load().compiled_again(&last.snapshot, metrics, now);
            next.into_iter().for_each(|next| store.publish(next));
        }
        store.load().restore(&last.snapshot, now);
        ledger.trail().import(&last.trail, now);
        metrics.hear(&last.counted);
    }
}

fn encoded(told: &impl Serialize) -> Vec<u8> {
    // Names are text and numbers are finite: there is nothing that JSON cannot say.
    serde_json::to_vec(told).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use std::time::{Duration, SystemTime};

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::config;
    use crate::health::{Evidence, Fault, Grade, Verdict};
    use crate::observe::sample::{Sighting, Url};
    use crate::pool::discovery::Place;

    /// What a process has of all this.
    struct Process {
        text: String,
        store: Arc<Store>,
        ledger: Arc<Ledger>,
        metrics: Metrics,
        teller: Teller,
    }

    fn text(pools: &str) -> String {
        format!(
            "version: 1\nprocess: {{ listeners: [ {{ address: 0.0.0.0:80 }} ] }}\nroutes: [ {{ pool: p }} ]\npools: {{ {pools} }}\n"
        )
    }

    impl Process {
        fn of(text: String, snapshot: Snapshot, metrics: Metrics) -> Self {
            let ledger = Arc::new(Ledger::new(&snapshot, [], SystemTime::UNIX_EPOCH));
            let store = Arc::new(Store::new(snapshot));
            let teller = Teller::new(Arc::clone(&store), Arc::clone(&ledger), metrics.clone());
            Self { text, store, ledger, metrics, teller }
        }

        fn start(pools: &str, now: Instant) -> Self {
            let (text, metrics) = (text(pools), Metrics::new().unwrap());
            let loaded = config::parse("f", &text).unwrap();
            let snapshot = Snapshot::compile(&loaded.config, None, &metrics, now).unwrap().read_from(&loaded);
            Self::of(text, snapshot, metrics)
        }

        fn reload(&mut self, pools: &str, now: Instant) {
            self.text = text(pools);
            let loaded = config::parse("f", &self.text).unwrap();
            let old = self.store.load();
            let next = Snapshot::compile(&loaded.config, Some(&old), &self.metrics, now).unwrap().read_from(&loaded);
            self.ledger.trail().left(&old, &next, now);
            next.take_over(false, now);
            next.replaces(&old);
            self.store.publish(next);
            old.give_way_to(&self.store.load(), now);
        }

        /// The process that follows, told `first` before it was ready and `last` when it was.
        fn follow(&self, first: &[u8], last: &[u8], now: Instant) -> Self {
            let (first, last, metrics) =
                (Learned::read(first).unwrap(), Learned::read(last).unwrap(), Metrics::new().unwrap());
            let loaded = config::parse("f", &self.text).unwrap();
            let snapshot = first.compile(&loaded.config, &metrics, now).unwrap().read_from(&loaded);
            let process = Self::of(self.text.clone(), snapshot, metrics);
            first.take_over(Some(last), &process.store, &process.ledger, &process.metrics, now);
            process
        }

        fn told(&self, now: Instant) -> Value {
            serde_json::from_slice(&self.teller.learned(now)).unwrap()
        }

        fn judge(&self, now: Instant) {
            let snapshot = self.store.load();
            let parked = snapshot.parked().filter_map(|parked| parked.roster(now)).cloned();
            let rosters: Vec<_> =
                snapshot.upstreams().iter().map(|one| Arc::clone(one.pool.roster())).chain(parked).collect();
            rosters.iter().for_each(|roster| _ = roster.judge_again(now));
        }

        /// A probe of everybody that is good, but for these.
        fn probe(&self, failing: &[&str], now: Instant) {
            let snapshot = self.store.load();
            for target in snapshot.upstreams().iter().flat_map(|one| &one.pool.roster().targets) {
                let fails = failing.contains(&&*target.name);
                let grade = if fails { Grade::Bad(Fault::Refused) } else { Grade::Good };
                target.live.take(Evidence::Probe(grade), now);
            }
            self.judge(now);
        }

        fn see(&self, now: Instant) {
            let snapshot = self.store.load();
            for upstream in snapshot.upstreams() {
                for (member, meters) in upstream.pool.members().iter().zip(&upstream.meters) {
                    let name = member.name();
                    let key = name.as_bytes();
                    let sighting = Sighting { hash: crc32fast::hash(key), key, origin: name, away: None };
                    upstream.tail.sample.see(&sighting, now, || Url::of("h", key));
                    member.origin().tally().record(false, Some(Duration::from_millis(3)), None, now);
                    meters.attempted("ok", Duration::from_millis(3));
                    upstream.pool.budget().first_attempt(now);
                }
            }
        }

        fn verdicts(&self) -> Vec<(String, Verdict, f64)> {
            let snapshot = self.store.load();
            let members = snapshot.upstreams().iter().flat_map(|upstream| upstream.pool.members());
            members
                .map(|member| {
                    let health = member.origin().health();
                    (member.name().to_string(), health.verdict(), health.factor().part())
                })
                .collect()
        }
    }

    const POOLS: &str = "p: { origins: [a, b, c, \"10.0.0.1:80\"], guard: { max_moved: 90% } }, q: { origins: [x, y, \"10.0.0.10:80\", \"10.0.0.11:80\"] }, s: { discovery: { dns: o.test, port: 80 } }";

    /// One that has seen a reload, growth, an ejection, and requests.
    fn seasoned(start: Instant) -> (Process, Instant) {
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut process = Process::start(
            "p: { origins: [b, c, d] }, q: { origins: [x, y, \"10.0.0.9:80\", \"10.0.0.10:80\", \"10.0.0.11:80\"] }, gone: { origins: [z] }",
            start,
        );
        process.probe(&[], at(1));
        process.see(at(1));
        process.reload(POOLS, at(2));
        let found = ["10.0.0.7:80", "10.0.0.8:80"].map(|place| Place::at(place.parse().unwrap()));
        process.store.load().sought().for_each(|sought| _ = sought.source.find(found.iter()));
        let next = process.store.load().with_found(&process.metrics, at(2)).unwrap().unwrap();
        process.store.publish(next);
        (3..9).for_each(|second| {
            process.probe(&["x"], at(second));
            process.see(at(second));
        });
        (process, at(9))
    }

    #[test]
    fn p4_the_process_that_follows_knows_all_that_was_known() {
        let (here, now) = seasoned(Instant::now());
        let there = now + Duration::from_secs(1_000_000);
        let blob = here.teller.learned(now);
        let other = here.follow(&blob, &blob, there);
        assert_eq!(other.told(there), here.told(now));
        assert_eq!(other.verdicts(), here.verdicts());
        assert_eq!(other.store.load().version(), 2);
        assert_eq!(other.store.load().digest(), here.store.load().digest());
        let snapshot = other.store.load();
        assert_eq!(snapshot.parked().map(|parked| parked.stays(there).count()).collect::<Vec<_>>(), [1, 1]);
        let later = Duration::from_secs(20);
        [&here, &other].iter().zip([now, there]).for_each(|(process, now)| process.probe(&[], now + later));
        assert_eq!(other.verdicts(), here.verdicts(), "and judges on alike");
        let again = other.teller.learned(there + later);
        let third = other.follow(&again, &again, now);
        assert_eq!(third.told(now), other.told(there + later), "as does the one after it");
    }

    #[test]
    fn u1_what_changed_between_the_offer_and_the_end_counts() {
        let (here, now) = seasoned(Instant::now());
        let first = here.teller.learned(now);
        let (offered, at) = (here.verdicts(), |nth: u64| now + Duration::from_millis(100 * nth));
        (1..=3).for_each(|nth| here.probe(&["10.0.0.10:80"], at(nth)));
        assert_ne!(here.verdicts(), offered, "somebody fell ill");
        let second = here.teller.learned(at(3));
        let other = here.follow(&first, &second, at(3));
        assert_eq!(other.verdicts(), here.verdicts());
        let place = Place::at("10.0.0.9:80".parse().unwrap());
        here.store.load().sought().for_each(|sought| _ = sought.source.find([&place].into_iter()));
        let next = here.store.load().with_found(&here.metrics, now).unwrap().unwrap();
        here.store.publish(next);
        let third = here.teller.learned(at(4));
        let other = here.follow(&first, &third, at(4));
        assert_eq!(other.verdicts(), here.verdicts(), "and so does who came");
        assert_eq!(other.store.load().digest(), here.store.load().digest());
    }

    #[test]
    fn u3_no_series_falls_and_what_is_under_way_is_told_until_it_is_over() {
        let (here, now) = seasoned(Instant::now());
        let counts = |process: &Process| {
            let text = process.metrics.encode().unwrap();
            let mine = text.lines().filter(|line| line.starts_with("moorgate_attempts_total{"));
            mine.map(str::to_owned).collect::<Vec<_>>()
        };
        let blob = here.teller.learned(now);
        let other = here.follow(&blob, &blob, now);
        assert_eq!(counts(&other), counts(&here));
        let snapshot = here.store.load();
        let ask = crate::pool::Ask { hash: None, tried: &[], now };
        let lease = snapshot.upstreams()[0].pool.pick(&ask, &mut fastrand::Rng::with_seed(1)).unwrap().lease(now);
        let origin = lease.origin().name().to_string();
        here.see(now);
        hear_since(&here.teller.since(), &other.store, &other.metrics).unwrap();
        assert_eq!(counts(&other), counts(&here));
        let there = other.store.load();
        let member = there.upstreams()[0].pool.members().iter().find(|member| **member.name() == *origin).unwrap();
        assert_eq!(member.origin().in_flight(), 1);
        drop(lease);
        hear_since(&here.teller.since(), &other.store, &other.metrics).unwrap();
        assert_eq!((member.origin().in_flight(), counts(&other)), (0, counts(&here)));
    }

    #[test]
    fn another_format_and_a_cut_blob_are_refused_and_what_is_unknown_is_left_out() {
        let (here, now) = seasoned(Instant::now());
        let blob = here.teller.learned(now);
        for cut in (0..blob.len()).step_by(101) {
            assert!(matches!(Learned::read(&blob[..cut]), Err(Unreadable::Garbage(_))), "{cut}");
        }
        let mut told: Value = serde_json::from_slice(&blob).unwrap();
        told["format"] = 2.into();
        let error = Learned::read(told.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "what was learned is told in format 2, and this version reads format 1");
        told["format"] = FORMAT.into();
        told["snapshot"]["pools"]["p"]["pool"]["members"][0]["known"]["health"]["state"]["mood"] = "fair".into();
        told["weather"] = Value::Array(Vec::new());
        let changed = told.to_string();
        let other = here.follow(changed.as_bytes(), changed.as_bytes(), now);
        assert_eq!(other.told(now), here.told(now));
    }

    #[test]
    fn of_ten_thousand_busy_origins_what_is_told_is_bounded() {
        let (start, mut names) = (Instant::now(), String::new());
        (0..10_000).for_each(|n| names += &format!("\"10.{}.{}.1:8080\", ", n / 250, n % 250));
        let here = Process::start(&format!("p: {{ origins: [ {names} ] }}"), start);
        let mut now = start;
        for span in 0..12 {
            now += Duration::from_secs(5);
            here.probe(&[], now);
            let snapshot = here.store.load();
            for (number, member) in snapshot.upstreams()[0].pool.members().iter().enumerate() {
                for n in 0..20_u64 {
                    let took = Duration::from_micros(900 + (n * 7919 + number as u64 * 31 + span) % 4000);
                    member.origin().tally().record(false, Some(took), None, now);
                }
            }
            here.see(now);
        }
        let began = Instant::now();
        let blob = here.teller.learned(now);
        let told = began.elapsed();
        let learned = Learned::read(&blob).unwrap();
        let read = began.elapsed() - told;
        let loaded = config::parse("f", &here.text).unwrap();
        let metrics = Metrics::new().unwrap();
        let began = Instant::now();
        let snapshot = learned.compile(&loaded.config, &metrics, now).unwrap();
        let compiled = began.elapsed();
        let process = Process::of(here.text.clone(), snapshot, metrics);
        let began = Instant::now();
        learned.take_over(None, &process.store, &process.ledger, &process.metrics, now);
        let taken = began.elapsed();
        let began = Instant::now();
        let since = here.teller.since();
        eprintln!(
            "{} bytes; told {told:?}, read {read:?}, compiled {compiled:?}, taken over {taken:?}; since: {} bytes {:?}",
            blob.len(),
            since.len(),
            began.elapsed()
        );
        assert!(blob.len() < 32 << 20, "{} bytes", blob.len());
        assert!(since.len() < 1 << 10, "{} bytes", since.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn nothing_that_is_told_makes_a_process_fail(edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
            let (here, now) = seasoned(Instant::now());
            let mut blob = here.teller.learned(now);
            for (at, byte) in edits {
                let at = at.index(blob.len());
                blob[at] = byte;
            }
            let Ok(learned) = Learned::read(&blob) else { return Ok(()) };
            let loaded = config::parse("f", &here.text).unwrap();
            let metrics = Metrics::new().unwrap();
            if let Ok(snapshot) = learned.compile(&loaded.config, &metrics, now) {
                let process = Process::of(here.text.clone(), snapshot.read_from(&loaded), metrics);
                learned.take_over(None, &process.store, &process.ledger, &process.metrics, now);
                (0..5).for_each(|second| process.probe(&["b"], now + Duration::from_secs(second)));
                process.see(now);
                let _ = process.told(now + Duration::from_secs(9));
            }
        }
    }
}
