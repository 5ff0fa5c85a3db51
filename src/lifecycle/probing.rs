//! How are the origins? The prober asks each turn for those of the snapshot in force; what it finds is logged and
//! counted. With the first round of probes the process is ready, and with the first answer to who the origins are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::growth;
use super::readiness::Readiness;
use super::server::Work;
use super::wish::Reloads;
use crate::health::{Change, Fact, Prober, Roster, Verdict, Why};
use crate::observe::OriginMeters;
use crate::pool::Origin;
use crate::snapshot::Store;

/// How often it is looked whether the first round of probes is over.
const LOOK: Duration = Duration::from_millis(10);
/// The first questions for origins may keep the process from being ready for so long.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

/// The prober's work; what it finds ripe is wished for.
pub fn probe_origins(prober: Arc<Prober>, store: Arc<Store>, readiness: Arc<Readiness>, reloads: Reloads) -> Work {
    Box::new(move || {
        let (prober, store, readiness, reloads) = (prober.clone(), store.clone(), readiness.clone(), reloads.clone());
        Box::pin(async move {
            let ready = become_ready(&prober, &store, &readiness);
            tokio::join!(probe(&prober, &store, &reloads), ready, growth::watch(&store));
        })
    })
}

/// All that is in force, and what is parked beside it.
pub(super) fn rosters(store: &Store) -> Vec<Arc<Roster>> {
    let snapshot = store.load();
    let in_force = snapshot.upstreams().iter().map(|upstream| upstream.pool.roster());
    let now = now();
    in_force.chain(snapshot.parked().filter_map(|parked| parked.roster(now))).cloned().collect()
}

#[expect(clippy::disallowed_methods, reason = "whoever is parked stays for a time")]
fn now() -> Instant {
    Instant::now()
}

async fn probe(prober: &Prober, store: &Store, reloads: &Reloads) {
    // goes on until the process ends and the runtime with it
    let (_never, shutdown) = watch::channel(false);
    prober.run(|| rosters(store), |fact| tell(&fact, store, reloads), shutdown).await;
}

async fn become_ready(prober: &Prober, store: &Store, readiness: &Readiness) {
    let all_asked = || store.load().sought().all(|sought| sought.source.told().asked);
    let answers = async {
        while !all_asked() {
            sleep(LOOK).await;
        }
    };
    // without an answer there is as much to say as with one: nobody to send a request to
    let _ = timeout(FIRST_ANSWER, answers).await;
    while !prober.first_round_is_over() {
        sleep(LOOK).await;
    }
    readiness.begin();
}

fn tell(fact: &Fact, store: &Store, reloads: &Reloads) {
    match fact {
        Fact::Ripe { .. } => reloads.settle(),
        Fact::Changed(change) => tell_change(change, store),
        Fact::Probed { pool, origin, grade } => {
            if let Some(meters) = meters(store, pool, origin) {
                meters.probed(grade.as_str());
            }
        }
        Fact::Short { pool, short: true } => log::warn!("pool {pool}: short of origins"),
        Fact::Short { pool, short: false } => log::info!("pool {pool}: not short of origins any more"),
        Fact::Stalled(time) => {
            log::warn!("held up for {time:?}: what was seen of origins meanwhile does not count")
        }
    }
}

fn tell_change(change: &Change, store: &Store) {
    let Change { pool, origin, from, to, why } = change;
    let fine = matches!(to, Verdict::Up | Verdict::Ramping | Verdict::Draining | Verdict::Leaving);
    let level = if fine { log::Level::Info } else { log::Level::Warn };
    if from == to {
        log::info!("pool {pool}: origin {origin} is {to}: {why}");
    } else {
        log::log!(level, "pool {pool}: origin {origin} is {to}, was {from}: {why}");
    }
    if *why == Why::Drained
        && let Some(origin) = origin_of(store, pool, origin)
    {
        origin.retire();
    }
    if change.is_ejection()
        && let Some(meters) = meters(store, pool, origin)
    {
        meters.ejected(why.reason());
    }
}

/// An origin, unless it left the configuration meanwhile.
fn origin_of(store: &Store, pool: &str, origin: &str) -> Option<Arc<Origin>> {
    let snapshot = store.load();
    let mut members = snapshot.named(pool)?.pool.members().iter();
    members.find(|member| **member.name() == *origin).map(|member| Arc::clone(member.origin()))
}

/// The meters of an origin, unless it left the configuration meanwhile.
fn meters(store: &Store, pool: &str, origin: &str) -> Option<Arc<OriginMeters>> {
    let snapshot = store.load();
    let upstream = snapshot.named(pool)?;
    let number = upstream.pool.members().iter().position(|member| **member.name() == *origin)?;
    upstream.meters.get(number).cloned()
}
