//! The one loop that probes and judges every origin of the process.
//!
//! Each turn it asks for the rosters of the current snapshot, starts what is due, takes in what has ended and judges the
//! pools of which something was learned: a reload needs no new loop, and an origin that stays is probed on as before.
//! It is the only one to judge, on one thread, and it knows when it was held up itself: then nothing that was gathered
//! meanwhile counts. What happens is told to the caller as facts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep_until;

use super::turn::{Work, now};
use super::{Bell, Change, Grade, Roster};

/// What others see of the loop, and how they wake it.
#[derive(Debug, Default)]
pub struct Prober {
    bell: Arc<Bell>,
    first_round: AtomicBool,
    stretched: AtomicBool,
}

/// Something that happened, for the caller to log and to count.
#[derive(Debug, Clone)]
pub enum Fact {
    /// What is held of an origin changed.
    Changed(Change),
    /// A probe ended.
    Probed {
        /// The pool.
        pool: Arc<str>,
        /// The origin.
        origin: Arc<str>,
        /// What it came to.
        grade: Grade,
    },
    /// A pool is short of origins, or is not any more.
    Short {
        /// The pool.
        pool: Arc<str>,
        /// Is it?
        short: bool,
    },
    /// Something in this pool waits for a new snapshot.
    Ripe {
        /// The pool.
        pool: Arc<str>,
    },
    /// The loop was held up for so long; what was gathered meanwhile does not count.
    Stalled(Duration),
}

impl Prober {
    /// A loop that does not run yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes the loop when there is a new snapshot or a name has another address: all pools are judged at once.
    pub fn ring(&self) {
        self.bell.ring();
    }

    /// Is the first round of probes over, or its time?
    pub fn first_round_is_over(&self) -> bool {
        self.first_round.load(Relaxed)
    }

    /// Are there more probes due than may run, so that intervals are longer than configured?
    pub fn is_stretched(&self) -> bool {
        self.stretched.load(Relaxed)
    }

    /// Probes and judges the rosters of the moment until `shutdown` says so. Has to run in one place only.
    pub async fn run(
        &self,
        rosters: impl Fn() -> Vec<Arc<Roster>>,
        sink: impl Fn(Fact),
        mut shutdown: watch::Receiver<bool>,
    ) {
        let mut work = Work::new(&self.bell, sink);
        let began = now();
        loop {
            work.refresh(rosters());
            work.hear();
            self.stretched.store(work.start_due(), Relaxed);
            work.judge();
            if !self.first_round_is_over() && work.first_round_is_over(began) {
                self.first_round.store(true, Relaxed);
            }
            work.planned = work.next_turn();
            let ended = tokio::select! {
                () = sleep_until(work.planned.into()) => None,
                () = self.bell.wait() => None,
                Some(ended) = work.running.join_next() => ended.ok(),
                changed = shutdown.changed() => match changed {
                    Ok(()) if !*shutdown.borrow() => None,
                    _ => return,
                },
            };
            // Before anything is taken in: it may have been gathered while we were held up.
            if !work.was_held_up() {
                work.take_in(ended);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the real clock, beside real sockets")]
mod tests {
    use std::net::SocketAddr;
    use std::time::Instant;

    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;
    use crate::config::units;
    use crate::health::{Address, Fault, Live, Policy, Probing, Role, Target, Verdict, Why};

    const PROBING: Probing = Probing {
        interval: Duration::from_millis(150),
        timeout: Duration::from_secs(5),
        rise: 2,
        fall: 3,
        http: false,
    };

    /// An origin that takes connections as long as it lives, and tells of each.
    struct Origin {
        address: SocketAddr,
        task: tokio::task::JoinHandle<()>,
        probed: mpsc::UnboundedReceiver<()>,
    }

    impl Origin {
        async fn at(address: &str) -> Self {
            let listener = TcpListener::bind(address).await.unwrap();
            let address = listener.local_addr().unwrap();
            let (tell, probed) = mpsc::unbounded_channel();
            let task = tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    drop(stream);
                    let _ = tell.send(());
                }
            });
            Self { address, task, probed }
        }

        async fn new() -> Self {
            Self::at("127.0.0.1:0").await
        }

        /// Refuses from when this returns.
        async fn kill(self) -> SocketAddr {
            self.task.abort();
            let _ = self.task.await;
            self.address
        }
    }

    fn target(name: &str, address: SocketAddr) -> Target {
        let address = Address::compile(&units::Address::Ip(address), None);
        let live = Arc::new(Live::new(true, true));
        Target { name: Arc::from(name), weight: 1, backup: false, role: Role::Serves, live, address }
    }

    fn roster(targets: &[&Target]) -> Arc<Roster> {
        Arc::new(Roster::new(
            Arc::from("p"),
            Policy { probing: Some(PROBING), spare: 0.5, ..Policy::default() },
            targets.iter().map(|&target| target.clone()).collect(),
        ))
    }

    /// The loop at work over rosters that can be exchanged; its facts.
    struct Loop {
        prober: Arc<Prober>,
        rosters: Arc<parking_lot::Mutex<Vec<Arc<Roster>>>>,
        facts: mpsc::UnboundedReceiver<Fact>,
        stop: watch::Sender<bool>,
        task: tokio::task::JoinHandle<()>,
    }

    impl Loop {
        fn over(roster: Arc<Roster>) -> Self {
            let prober = Arc::new(Prober::new());
            let rosters = Arc::new(parking_lot::Mutex::new(vec![roster]));
            let (tell, facts) = mpsc::unbounded_channel();
            let (stop, shutdown) = watch::channel(false);
            let (at_work, shared) = (Arc::clone(&prober), Arc::clone(&rosters));
            let task = tokio::spawn(async move {
                let sink = move |fact| {
                    let _ = tell.send(fact);
                };
                at_work.run(move || shared.lock().clone(), sink, shutdown).await;
            });
            Self { prober, rosters, facts, stop, task }
        }

        fn reload(&self, roster: Arc<Roster>) {
            *self.rosters.lock() = vec![roster];
            self.prober.ring();
        }

        /// The next fact that is wanted.
        async fn fact<T>(&mut self, wanted: impl Fn(Fact) -> Option<T>) -> T {
            let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
            loop {
                let fact = tokio::time::timeout_at(deadline, self.facts.recv()).await.expect("no such fact in time");
                if let Some(found) = wanted(fact.unwrap()) {
                    return found;
                }
            }
        }

        async fn change(&mut self) -> (String, Verdict, Why) {
            self.fact(|fact| match fact {
                Fact::Changed(change) => Some((change.origin.to_string(), change.to, change.why)),
                _ => None,
            })
            .await
        }

        async fn stop(self) {
            self.stop.send(true).unwrap();
            self.task.await.unwrap();
        }
    }

    fn probed(fact: Fact) -> Option<(String, Grade)> {
        match fact {
            Fact::Probed { origin, grade, .. } => Some((origin.to_string(), grade)),
            _ => None,
        }
    }

    #[tokio::test]
    async fn first_round_is_over_when_every_origin_was_probed() {
        let (a, b) = (Origin::new().await, Origin::new().await);
        let gone = Origin::new().await.kill().await;
        let targets = [target("a", a.address), target("b", b.address), target("c", gone)];
        let mut work = Loop::over(roster(&targets.each_ref()));
        assert!(!work.prober.first_round_is_over(), "PROBING gives it five seconds");
        while !work.prober.first_round_is_over() {
            work.fact(probed).await;
            tokio::task::yield_now().await;
        }
        assert!(targets.iter().all(|target| target.live.was_probed()));
        work.stop().await;
    }

    #[tokio::test]
    async fn refusal_in_traffic_is_confirmed_and_ejects_and_a_good_origin_comes_back() {
        let (a, b) = (Origin::new().await, Origin::new().await);
        let targets = [target("a", a.address), target("b", b.address)];
        let mut work = Loop::over(roster(&targets.each_ref()));
        work.fact(|fact| probed(fact).filter(|(origin, _)| origin == "a")).await;
        targets[0].live.refused();
        work.fact(|fact| probed(fact).filter(|(origin, grade)| origin == "a" && *grade == Grade::Good)).await;
        assert_eq!(targets[0].live.verdict(), Verdict::Up, "a refusal that is not confirmed is none");
        let address = a.kill().await;
        targets[0].live.refused();
        assert_eq!(work.change().await, ("a".to_owned(), Verdict::Down, Why::NoConnection(Fault::Refused)));
        let _again = Origin::at(&address.to_string()).await;
        assert_eq!(work.change().await, ("a".to_owned(), Verdict::Up, Why::Passing));
        work.stop().await;
    }

    #[tokio::test]
    async fn refused_probe_is_confirmed_without_any_traffic() {
        let (a, b) = (Origin::new().await, Origin::new().await);
        let targets = [target("a", a.address), target("b", b.address)];
        let mut work = Loop::over(roster(&targets.each_ref()));
        work.fact(probed).await;
        b.kill().await;
        assert_eq!(work.change().await, ("b".to_owned(), Verdict::Down, Why::NoConnection(Fault::Refused)));
        work.stop().await;
    }

    #[tokio::test]
    async fn reload_probes_newcomers_and_those_that_stay_and_forgets_the_departed() {
        let (mut a, mut b, mut c) = (Origin::new().await, Origin::new().await, Origin::new().await);
        let (stays, goes) = (target("a", a.address), target("b", b.address));
        let comes = Target { live: Arc::new(Live::new(false, true)), ..target("c", c.address) };
        let mut work = Loop::over(roster(&[&stays, &goes]));
        b.probed.recv().await.unwrap();
        for _ in 0..20 {
            work.reload(roster(&[&comes, &stays]));
        }
        assert_eq!(work.change().await, ("c".to_owned(), Verdict::Up, Why::Passing), "joins when it is proven");
        // One loop, one probe at a time each: what arrives fits the interval, however many reloads there were.
        while a.probed.try_recv().is_ok() || b.probed.try_recv().is_ok() || c.probed.try_recv().is_ok() {}
        let begun = Instant::now();
        for _ in 0..5 {
            a.probed.recv().await.unwrap();
        }
        assert!(begun.elapsed() >= PROBING.interval * 3, "{:?}", begun.elapsed());
        assert!(b.probed.try_recv().is_err(), "nobody probes the departed");
        work.stop().await;
    }

    #[tokio::test]
    async fn what_was_gathered_while_the_loop_was_held_up_does_not_count() {
        let (a, b) = (Origin::new().await, Origin::new().await);
        let targets = [target("a", a.address), target("b", b.address)];
        let mut work = Loop::over(roster(&targets.each_ref()));
        work.fact(probed).await;
        // Holds the one thread of this runtime.
        std::thread::sleep(Duration::from_secs(1));
        let late = work
            .fact(|fact| match fact {
                Fact::Stalled(late) => Some(late),
                _ => None,
            })
            .await;
        assert!(late >= Duration::from_millis(800), "{late:?}");
        work.stop().await;
    }

    #[tokio::test]
    async fn origin_that_moved_is_judged_by_where_it_is_now() {
        let (a, b) = (Origin::new().await, Origin::new().await);
        let before = target("a", a.address);
        let mut work = Loop::over(roster(&[&before, &target("b", b.address)]));
        work.fact(probed).await;
        let (mut moved, old) = (Origin::new().await, a.kill().await);
        assert_ne!(old, moved.address);
        let now = Target { live: Arc::clone(&before.live), ..target("a", moved.address) };
        work.reload(roster(&[&now, &target("b", b.address)]));
        moved.probed.recv().await.unwrap();
        work.stop().await;
    }
}
