//! Who is where a pool's DNS name leads? Rule J7: the questions, and what becomes of their answers.
//!
//! Each name is asked for again when its answer is over, at the latest after `refresh`. What an answer means is for the
//! [`Roll`] to say; who failed is asked of the rosters. A list that changed is left with its [`Source`] and told to the
//! caller: compiling it is for others.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Answer, Answered, Dns, Place, Roll, Source, Unanswered};
use crate::config::pool::{Discovery, Identity};
use crate::health::{Grade, Roster, Verdict};

/// New names are looked for, and probes heard, this often.
const TURN: Duration = Duration::from_millis(100);
/// Between two questions while nobody was ever found.
const RETRY: Duration = Duration::from_secs(1);
/// Where a host without a port is reached.
const HTTP_PORT: u16 = 80;

/// A pool whose origins are found.
#[derive(Debug, Clone)]
pub struct Sought {
    /// Where.
    pub source: Arc<Source>,
    /// Those that serve, as they are probed.
    pub roster: Arc<Roster>,
}

/// Something that happened, for the caller to log and to count.
#[derive(Debug, Clone)]
pub enum Finding {
    /// Origins came or went.
    Changed {
        /// The pool.
        pool: Arc<str>,
        /// Names of those that came.
        came: Vec<String>,
        /// Names of those that went.
        went: Vec<String>,
    },
    /// A question ended.
    Asked {
        /// The pool.
        pool: Arc<str>,
        /// What it came to, in one word.
        result: &'static str,
    },
    /// Nobody is found any more, or nobody ever was; whoever is there stays. Told once, until somebody is found again.
    Failed {
        /// The pool.
        pool: Arc<str>,
        /// The name that was asked for.
        dns: String,
        /// Why.
        why: String,
    },
}

/// What one round of questions about a name came to.
type Round = Vec<(Answered, Result<Answer<Place>, Unanswered>)>;

/// The one that asks.
pub struct Seeker {
    dns: Arc<Dns>,
    quests: HashMap<usize, Quest>,
    running: JoinSet<(Arc<Source>, Round)>,
}

/// A name that is looked after.
struct Quest {
    source: Arc<Source>,
    roll: Roll,
    next: Instant,
    running: bool,
}

impl Seeker {
    /// Asks `dns`.
    pub fn new(dns: Arc<Dns>) -> Self {
        Self { dns, quests: HashMap::new(), running: JoinSet::new() }
    }

    /// Looks after the pools of the moment until `shutdown` says so.
    pub async fn run(
        mut self,
        pools: impl Fn() -> Vec<Sought>,
        sink: impl Fn(Finding),
        mut shutdown: watch::Receiver<bool>,
    ) {
        loop {
            let pools = pools();
            self.refresh(&pools);
            self.dismiss(&pools, &sink);
            self.ask();
            tokio::select! {
                () = tokio::time::sleep(TURN) => {}
                Some(round) = self.running.join_next() => if let Ok((source, round)) = round {
                    self.answered(&source, round, &sink);
                },
                changed = shutdown.changed() => if changed.is_err() || *shutdown.borrow() { return },
            }
        }
    }

    /// The names of the moment; those that stay keep their time and what was answered.
    fn refresh(&mut self, pools: &[Sought]) {
        let mut old = std::mem::take(&mut self.quests);
        for Sought { source, .. } in pools {
            let fresh = || {
                let roll = Roll::new(source.found().iter().map(Place::from));
                Quest { source: Arc::clone(source), roll, next: now(), running: false }
            };
            let quest = old.remove(&place(source)).unwrap_or_else(fresh);
            self.quests.insert(place(source), quest);
        }
    }

    /// Lets those go that were missed and whose probe fails.
    fn dismiss(&mut self, pools: &[Sought], sink: &impl Fn(Finding)) {
        for Sought { source, roster } in pools {
            let Some(quest) = self.quests.get_mut(&place(source)) else { continue };
            if quest.roll.dismiss(|place| fails(roster, &place.name)) {
                quest.settle(sink);
            }
        }
    }

    fn ask(&mut self) {
        let now = now();
        for quest in self.quests.values_mut().filter(|quest| !quest.running && quest.next <= now) {
            quest.running = true;
            let (source, dns) = (Arc::clone(&quest.source), Arc::clone(&self.dns));
            self.running.spawn(async move {
                let round = round(&dns, source.written()).await;
                (source, round)
            });
        }
    }

    fn answered(&mut self, source: &Arc<Source>, round: Round, sink: &impl Fn(Finding)) {
        let Some(quest) = self.quests.get_mut(&place(source)) else { return };
        let (pool, written) = (source.pool(), source.written());
        let mut ttl: Option<Duration> = None;
        let mut reasons = Vec::new();
        for (of, answer) in round {
            match answer {
                Ok(answer) => {
                    ttl = Some(ttl.unwrap_or(answer.ttl).min(answer.ttl));
                    quest.roll.answer(of, &answer.found.into_iter().collect());
                }
                Err(why) => reasons.push(why),
            }
        }
        // Of several reasons one that says more than that a record is not there.
        reasons.sort_by_key(|why| *why == Unanswered::NoRecord);
        let why = reasons.first().filter(|_| ttl.is_none());
        sink(Finding::Asked { pool: Arc::clone(pool), result: why.map_or("found", Unanswered::as_str) });
        if source.tell(why.map_or_else(|| Ok(now()), |why| Err(why.to_string())))
            && let Some(why) = why
        {
            let (dns, why) = (written.dns.0.clone(), why.to_string());
            sink(Finding::Failed { pool: Arc::clone(pool), dns, why });
        }
        if ttl.is_some() {
            quest.settle(sink);
        }
        let known = quest.roll.there().next().is_some();
        quest.running = false;
        quest.next = now() + pause(ttl, known, written.refresh.0);
    }
}

impl Quest {
    /// Leaves with the source who is there.
    fn settle(&self, sink: &impl Fn(Finding)) {
        let (came, went) = self.source.find(self.roll.there());
        if !came.is_empty() || !went.is_empty() {
            sink(Finding::Changed { pool: Arc::clone(self.source.pool()), came, went });
        }
    }
}

/// How long an answer is taken for true.
fn pause(ttl: Option<Duration>, known: bool, refresh: Duration) -> Duration {
    match ttl {
        Some(ttl) if !ttl.is_zero() => ttl.min(refresh),
        None if !known => RETRY.min(refresh),
        _ => refresh,
    }
}

/// Every question about a name, at once.
async fn round(dns: &Dns, written: &Discovery) -> Round {
    let name = &*written.dns.0;
    match (written.identity, written.port) {
        (Identity::Name, port) => vec![(Answered::Names, by_name(dns, name, port).await)],
        (Identity::Address, port) => {
            let port = port.unwrap_or(HTTP_PORT);
            let at = |ip: IpAddr| Place::at(SocketAddr::new(ip, port));
            let (v4, v6) = tokio::join!(dns.v4(name), dns.v6(name));
            vec![(Answered::V4, placed(v4, at)), (Answered::V6, placed(v6, at))]
        }
    }
}

/// The targets of SRV records; of a name that has none, the name itself, as long as it has an address.
async fn by_name(dns: &Dns, name: &str, port: Option<u16>) -> Result<Answer<Place>, Unanswered> {
    match dns.services(name).await {
        Err(Unanswered::NoRecord) => {
            let Answer { ttl, .. } = dns.addresses(name).await?;
            Ok(Answer { found: vec![Place::named(name, port.unwrap_or(HTTP_PORT))], ttl })
        }
        services => placed(services, |(host, own)| Place::named(&host, port.unwrap_or(own))),
    }
}

fn placed<T>(answer: Result<Answer<T>, Unanswered>, at: impl Fn(T) -> Place) -> Result<Answer<Place>, Unanswered> {
    let Answer { found, ttl } = answer?;
    let found: BTreeSet<Place> = found.into_iter().map(at).collect();
    Ok(Answer { found: found.into_iter().collect(), ttl })
}

/// Does this origin fail its probes, as far as is known?
fn fails(roster: &Roster, name: &str) -> bool {
    let Some(target) = roster.targets.iter().find(|target| *target.name == *name) else { return false };
    let report = target.live.report();
    let bad = |(grade, _): (Grade, Instant)| matches!(grade, Grade::Bad(_));
    report.verdict == Verdict::Down || report.last_probe.is_some_and(bad)
}

/// Tells sources apart while they live.
fn place(source: &Arc<Source>) -> usize {
    Arc::as_ptr(source) as usize
}

/// The clock of the runtime: the real one, but for tests that hold it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
