//! Where are origins that are written, or found, by name?
//!
//! Each host name of the current snapshot is asked for once more when its answer is over, at the latest after half a
//! minute, on a thread that may block, a few at a time. An answer that fails or is empty changes nothing; one that still
//! holds the address in use changes nothing either. So a request never waits for a name, and a resolver that is away
//! takes no origin away.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Answer, Dns};
use crate::health::address::Resolved;
use crate::health::{Address, Roster};

/// Between two questions for one name at most.
const REFRESH: Duration = Duration::from_secs(30);
/// The same at least, and while a name was never resolved.
const RETRY: Duration = Duration::from_secs(1);
/// New names are looked for this often.
const TURN: Duration = Duration::from_millis(100);
/// Questions at a time.
const AT_ONCE: usize = 16;

/// Something that happened, for the caller to log.
#[derive(Debug)]
pub enum Resolution {
    /// A name is at another address now, or at one for the first time.
    Moved {
        /// The host name.
        host: String,
        /// Where it is now.
        address: SocketAddr,
    },
    /// A name cannot be resolved any more, or never could; what was known of it stays. Told once, until it can again.
    Failed {
        /// The host name.
        host: String,
        /// What the resolver said.
        error: io::Error,
    },
}

/// What a name stands for, and for how long, if that is known.
pub type Addresses = (Vec<SocketAddr>, Option<Duration>);

/// The resolver, and what it is told to do.
pub struct Names<R> {
    resolve: R,
    asked: HashMap<usize, Question>,
    running: JoinSet<(Arc<Resolved>, io::Result<Addresses>)>,
}

/// A name that is looked after.
struct Question {
    name: Arc<Resolved>,
    next: Instant,
    running: bool,
    failed: bool,
}

/// Asks `dns`, and where that is the system's own and says nothing, whatever else the system resolves names by.
/// Blocks, on a thread of `runtime` that may.
pub fn resolve(dns: &Dns, runtime: &Handle, host: &str, port: u16) -> io::Result<Addresses> {
    match runtime.block_on(dns.addresses(host)) {
        Ok(Answer { found, ttl }) => {
            let ttl = Some(ttl).filter(|ttl| !ttl.is_zero());
            Ok((found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect(), ttl))
        }
        Err(_) if dns.is_of_the_system() => Ok(((host, port).to_socket_addrs()?.collect(), None)),
        Err(why) => Err(io::Error::other(why)),
    }
}

impl<R> Names<R>
where
    R: Fn(&str, u16) -> io::Result<Addresses> + Clone + Send + 'static,
{
    /// Names are resolved by `resolve`, which may block: [`resolve`].
    pub fn new(resolve: R) -> Self {
        Self { resolve, asked: HashMap::new(), running: JoinSet::new() }
    }

    /// Keeps the names of the current rosters resolved until `shutdown` says so.
    pub async fn run(
        mut self,
        rosters: impl Fn() -> Vec<Arc<Roster>>,
        sink: impl Fn(Resolution),
        mut shutdown: watch::Receiver<bool>,
    ) {
        loop {
            self.refresh(&rosters());
            self.ask();
            tokio::select! {
                () = tokio::time::sleep(TURN) => {}
                Some(answer) = self.running.join_next() => if let Ok((name, answer)) = answer {
                    self.answered(&name, answer, &sink);
                },
                changed = shutdown.changed() => if changed.is_err() || *shutdown.borrow() { return },
            }
        }
    }

    /// The names of the moment; those that stay keep their time.
    fn refresh(&mut self, rosters: &[Arc<Roster>]) {
        let mut old = std::mem::take(&mut self.asked);
        for target in rosters.iter().flat_map(|roster| &roster.targets) {
            let Address::Name(name) = &target.address else { continue };
            let who = Arc::as_ptr(name) as usize;
            let fresh = || Question { name: Arc::clone(name), next: now(), running: false, failed: false };
            let question = old.remove(&who).unwrap_or_else(fresh);
            self.asked.insert(who, question);
        }
    }

    fn ask(&mut self) {
        let now = now();
        for question in self.asked.values_mut().filter(|question| !question.running && question.next <= now) {
            if self.running.len() >= AT_ONCE {
                return;
            }
            question.running = true;
            let (name, resolve) = (Arc::clone(&question.name), self.resolve.clone());
            self.running.spawn_blocking(move || {
                let answer = resolve(name.host(), name.port());
                (name, answer)
            });
        }
    }

    fn answered(&mut self, name: &Arc<Resolved>, answer: io::Result<Addresses>, sink: &impl Fn(Resolution)) {
        let moved = answer.as_ref().ok().and_then(|(addresses, _)| name.answered(addresses));
        let ttl = answer.as_ref().ok().and_then(|(_, ttl)| *ttl);
        let Some(question) = self.asked.get_mut(&(Arc::as_ptr(name) as usize)) else { return };
        let before = std::mem::replace(&mut question.failed, answer.is_err());
        question.running = false;
        let wait = if name.current().is_some() { ttl.unwrap_or(REFRESH) } else { RETRY };
        question.next = now() + wait.clamp(RETRY, REFRESH);
        let host = name.host().to_owned();
        match (answer, moved) {
            (Err(error), _) if !before => sink(Resolution::Failed { host, error }),
            (_, Some(address)) => sink(Resolution::Moved { host, address }),
            _ => {}
        }
    }
}

/// The clock of the runtime: the real one, but for tests that hold it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::config::units;
    use crate::health::{Live, Policy, Role, Target};

    /// A resolver that answers as it is told.
    type Told = Arc<Mutex<Result<Vec<SocketAddr>, io::ErrorKind>>>;

    fn told(addresses: &[&str]) -> Told {
        Arc::new(Mutex::new(Ok(addresses.iter().map(|address| address.parse().unwrap()).collect())))
    }

    fn resolver(told: &Told) -> impl Fn(&str, u16) -> io::Result<Addresses> + Clone + Send + 'static {
        let told = Arc::clone(told);
        move |_, _| told.lock().clone().map(|found| (found, None)).map_err(io::Error::from)
    }

    fn roster(names: &[&str]) -> Arc<Roster> {
        let target = |host: &&str| {
            let address = Address::compile(&units::Address::Name((*host).to_owned(), 80), None);
            Target {
                name: Arc::from(*host),
                weight: 1,
                backup: false,
                role: Role::Serves,
                live: Arc::new(Live::new(true, false)),
                address,
            }
        };
        Arc::new(Roster::new(
            Arc::from("p"),
            Policy { spare: 0.5, ..Policy::default() },
            names.iter().map(target).collect(),
        ))
    }

    fn name(roster: &Roster, target: usize) -> &Arc<Resolved> {
        let Address::Name(name) = &roster.targets[target].address else { panic!("no name") };
        name
    }

    #[tokio::test]
    async fn every_name_of_the_snapshot_is_resolved_in_the_background() {
        let roster = roster(&["a", "b"]);
        let told = told(&["127.0.0.2:80"]);
        let (tell, mut facts) = tokio::sync::mpsc::unbounded_channel();
        let (stop, shutdown) = watch::channel(false);
        let rosters = vec![Arc::clone(&roster)];
        let sink = move |fact| tell.send(fact).unwrap();
        let task = tokio::spawn(Names::new(resolver(&told)).run(move || rosters.clone(), sink, shutdown));
        for _ in 0..2 {
            let fact = tokio::time::timeout(Duration::from_secs(20), facts.recv()).await.unwrap();
            assert!(matches!(fact, Some(Resolution::Moved { .. })), "{fact:?}");
        }
        assert!(roster.targets.iter().all(|target| target.address.is_known()));
        stop.send(true).unwrap();
        task.await.unwrap();
    }

    #[test]
    fn name_is_asked_for_again_when_its_answer_is_over_or_after_a_second_if_it_was_never_resolved() {
        let (roster, told) = (roster(&["a"]), told(&[]));
        let mut names = Names::new(resolver(&told));
        names.refresh(&[Arc::clone(&roster)]);
        let wait = |names: &mut Names<_>, answer: io::Result<Addresses>| {
            names.answered(name(&roster, 0), answer, &|_| {});
            let question = names.asked.values().next().unwrap();
            question.next.saturating_duration_since(now()).as_millis().div_ceil(100)
        };
        let address: SocketAddr = "127.0.0.1:80".parse().unwrap();
        assert_eq!(wait(&mut names, Err(io::ErrorKind::NotFound.into())), 10);
        assert_eq!(wait(&mut names, Ok((vec![address], None))), 300);
        for (ttl, tenths) in [(2, 20), (90, 300)] {
            assert_eq!(wait(&mut names, Ok((vec![address], Some(Duration::from_secs(ttl))))), tenths, "TTL {ttl}");
        }
        assert_eq!(wait(&mut names, Err(io::ErrorKind::NotFound.into())), 300, "still good");
        assert_eq!(name(&roster, 0).current(), Some(address));
    }

    #[test]
    fn failure_is_told_once_until_the_name_resolves_again() {
        let (roster, told_nothing) = (roster(&["a"]), told(&[]));
        let mut names = Names::new(resolver(&told_nothing));
        names.refresh(&[Arc::clone(&roster)]);
        let facts = Mutex::new(Vec::new());
        let address: SocketAddr = "127.0.0.1:80".parse().unwrap();
        for good in [false, false, true, true, false] {
            let answer = if good { Ok((vec![address], None)) } else { Err(io::ErrorKind::NotFound.into()) };
            names.answered(name(&roster, 0), answer, &|fact| facts.lock().push(fact));
        }
        let told: Vec<_> = facts.lock().iter().map(|fact| matches!(fact, Resolution::Moved { .. })).collect();
        assert_eq!(told, [false, true, false]);
    }

    #[test]
    fn departed_names_are_forgotten_and_those_that_stay_are_not_asked_anew() {
        let (before, told) = (roster(&["a", "b"]), told(&[]));
        let mut names = Names::new(resolver(&told));
        names.refresh(&[Arc::clone(&before)]);
        names.answered(name(&before, 0), Ok((vec!["127.0.0.1:80".parse().unwrap()], None)), &|_| {});
        let next = names.asked[&(Arc::as_ptr(name(&before, 0)) as usize)].next;
        let after =
            Arc::new(Roster::new(Arc::clone(&before.pool), before.policy.clone(), before.targets[..1].to_vec()));
        names.refresh(&[after]);
        assert_eq!(names.asked.values().map(|question| question.next).collect::<Vec<_>>(), [next]);
    }
}
