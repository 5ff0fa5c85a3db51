//! How does the process leave? Rule U5: the lame duck, then the drain, then out. Rule U4: after an upgrade without a lame
//! duck, and with more time for what runs.
//!
//! Pingora asks one question, [`ShutdownSignalWatch::recv`], and stops everything when it is answered: so the answer
//! comes only when all is over, and says "fast", which leaves no waiting of Pingora's own. Always: the listening
//! sockets stay open through the lame duck, and nobody who was accepted is cut before `drain.timeout`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::readiness::Readiness;
use super::signals::Told;
use super::succession::Succession;
use crate::config::process;
use crate::listeners::{Connections, Drain};

/// Without clients and questions for so long nobody needs a lame duck.
const QUIET: Duration = Duration::from_secs(30);

/// How long those that are told at the very end have to answer.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long those that idle take to close in peace, which needs no answer.
const CLOSING: Duration = Duration::from_millis(50);

/// The way out.
pub struct Leave {
    /// Whether it is time.
    pub told: Told,
    /// What `/readyz` says.
    pub readiness: Arc<Readiness>,
    /// Who is still here.
    pub connections: Arc<Connections>,
    /// Ends the listening sockets and keep-alive.
    pub drain: Drain,
    /// Whether another process serves in its place.
    pub succession: Succession,
    /// Gives up what else keeps listening sockets open.
    pub closing: Box<dyn Fn() + Send + Sync>,
    /// How long each part may take.
    pub times: process::Drain,
}

impl Leave {
    /// Waits until it is time, and then until all is over.
    async fn over(&self) {
        let is_told = tokio::select! {
            biased;
            () = self.told() => true,
            () = self.succession.passed() => false,
        };
        if is_told { self.end().await } else { self.fade_out().await }
    }

    async fn told(&self) {
        // a sender that is gone was dropped at the process's end
        let _ = self.told.clone().wait_for(|told| *told).await;
    }

    async fn end(&self) {
        self.readiness.end();
        log::info!("leaving: not ready any more, still serving everybody");
        self.lame_duck().await;
        self.drain.begin();
        (self.closing)();
        log::info!("draining: {} connections open", self.connections.open());
        if timeout(self.times.timeout.0, self.connections.all_closed()).await.is_err() {
            self.cut(self.times.timeout.0).await;
        }
    }

    /// Another process takes the clients, and every answer is its connection's last already.
    async fn fade_out(&self) {
        let (begun, times) = (Instant::now(), self.times);
        (self.closing)();
        log::info!("draining after the upgrade: {} connections open", self.connections.open());
        let in_a_hurry = async {
            self.told().await;
            sleep(times.timeout.0).await;
        };
        let in_peace = async {
            if timeout(times.timeout.0, self.connections.all_closed()).await.is_err() {
                self.drain.end();
            }
            // what the process before this one still begins is nobody else's business
            let _ = timeout_at(begun + times.timeout.0, self.succession.predecessor_is_quiet()).await;
            self.succession.is_quiet();
            let all_closed = timeout_at(begun + times.upgrade.0, self.connections.all_closed()).await.is_ok();
            // what the process before this one still counts goes on by way of this one
            let _ = timeout_at(begun + times.upgrade.0, self.succession.predecessor_is_gone()).await;
            all_closed
        };
        let all_served = tokio::select! {
            all = in_peace => all,
            () = in_a_hurry => false,
        };
        if !all_served {
            self.cut(begun.elapsed()).await;
        }
    }

    /// Connections that idle close, WebSockets are told, requests end, and what is left then is cut.
    async fn cut(&self, after: Duration) {
        let open = self.connections.open();
        self.drain.end();
        sleep(CLOSING).await;
        if timeout(FAREWELL, self.drain.say_farewell()).await.is_err() {
            self.drain.call_last();
            sleep(CLOSING).await;
        }
        log::warn!("{open} connections cut after {after:?}");
    }

    /// Goes on until its time is over or nobody needs it.
    async fn lame_duck(&self) {
        let end = Instant::now() + self.times.lame_duck.0;
        // one whose clients another process takes already is asked by nobody
        while let Some(quiet) = self.quiet().filter(|quiet| *quiet < QUIET)
            && Instant::now() < end
            && self.drain.doors().are_open()
        {
            sleep_until(end.min(Instant::now() + (QUIET - quiet))).await;
        }
    }

    /// How long nobody came or asked: `None` if no client ever came.
    fn quiet(&self) -> Option<Duration> {
        let client = self.connections.since_latest()?;
        Some(self.readiness.since_asked().map_or(client, |asked| asked.min(client)))
    }
}

#[async_trait]
impl ShutdownSignalWatch for Leave {
    async fn recv(&self) -> ShutdownSignal {
        self.over().await;
        ShutdownSignal::FastShutdown
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;
    use crate::config::units;

    const SECOND: Duration = Duration::from_secs(1);

    /// A process that was just told to leave: lame duck 8 s, drain 15 s.
    fn told(connections: &Arc<Connections>, readiness: &Arc<Readiness>) -> (Leave, watch::Sender<bool>) {
        let (tell, told) = watch::channel(true);
        (leave(told, connections, readiness), tell)
    }

    fn leave(told: Told, connections: &Arc<Connections>, readiness: &Arc<Readiness>) -> Leave {
        let times = process::Drain {
            lame_duck: units::Duration(8 * SECOND),
            timeout: units::Duration(15 * SECOND),
            upgrade: units::Duration(60 * SECOND),
        };
        let (connections, readiness) = (connections.clone(), readiness.clone());
        let (drain, succession, closing) = (Drain::default(), Succession::default(), Box::new(|| ()));
        Leave { told, readiness, connections, drain, succession, closing, times }
    }

    /// A process that another one has just taken over from.
    fn succeeded(connections: &Arc<Connections>) -> (Leave, watch::Sender<bool>) {
        let (tell, told) = watch::channel(false);
        let leave = leave(told, connections, &Arc::default());
        leave.drain.doors().hold();
        leave.drain.fade();
        leave.drain.doors().pass_on([]);
        leave.succession.pass();
        (leave, tell)
    }

    /// Seconds until it is over.
    async fn takes(leave: &Leave) -> u64 {
        let start = Instant::now();
        assert!(matches!(leave.recv().await, ShutdownSignal::FastShutdown));
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_never_had_a_client_leaves_at_once() {
        let (connections, readiness) = (Connections::new(9), Arc::default());
        let (leave, _tell) = told(&connections, &readiness);
        assert_eq!(readiness.ask(), Err("starting"), "a balancer that asks changes nothing");
        assert_eq!(takes(&leave).await, 0);
        assert_eq!(readiness.ask(), Err("draining"));
    }

    #[tokio::test(start_paused = true)]
    async fn after_its_last_client_it_stays_a_lame_duck_until_the_end() {
        let (connections, readiness) = (Connections::new(9), Arc::default());
        drop(connections.admit());
        let (leave, _tell) = told(&connections, &readiness);
        assert_eq!(takes(&leave).await, 8);
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_minute_without_clients_and_questions_cuts_the_lame_duck_short() {
        for (asked_before, seconds) in [(None, 0), (Some(25 * SECOND), 5), (Some(SECOND), 8)] {
            let (connections, readiness) = (Connections::new(9), Arc::<Readiness>::default());
            drop(connections.admit());
            tokio::time::sleep(60 * SECOND).await;
            if let Some(before) = asked_before {
                let _ = readiness.ask();
                tokio::time::sleep(before).await;
            }
            let (leave, _tell) = told(&connections, &readiness);
            assert_eq!(takes(&leave).await, seconds, "asked {asked_before:?} before");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_drain_ends_with_the_last_connection_or_its_time() {
        for (stays, seconds) in [(3 * SECOND, 8), (10 * SECOND, 10), (100 * SECOND, 23)] {
            let (connections, readiness) = (Connections::new(9), Arc::default());
            let client = connections.admit();
            tokio::spawn(async move {
                tokio::time::sleep(stays).await;
                drop(client);
            });
            let (leave, _tell) = told(&connections, &readiness);
            assert_eq!(takes(&leave).await, seconds, "a client for {stays:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_door_that_is_still_open_is_waited_for() {
        let (connections, readiness) = (Connections::new(9), Arc::default());
        let door = connections.door();
        let (leave, _tell) = told(&connections, &readiness);
        let drain = leave.drain.clone();
        tokio::spawn(async move {
            drain.begun().await;
            tokio::time::sleep(2 * SECOND).await;
            drop(door);
        });
        assert_eq!(takes(&leave).await, 2, "who is in the queue of the socket was not turned away");
    }

    async fn seconds_until_quiet(succession: Succession) -> u64 {
        let start = Instant::now();
        while !succession.quiet() {
            tokio::time::sleep(SECOND / 100).await;
        }
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn after_an_upgrade_what_runs_has_its_own_time_and_nobody_hears_of_a_drain() {
        for (stays, seconds, quiet_after) in [(3, 3, 3), (40, 40, 15), (100, 60, 15)] {
            let connections = Connections::new(9);
            let client = connections.admit();
            let (leave, _tell) = succeeded(&connections);
            let (readiness, succession) = (leave.readiness.clone(), leave.succession.clone());
            readiness.begin();
            tokio::spawn(async move {
                tokio::time::sleep(stays * SECOND).await;
                drop(client);
            });
            let quiet = tokio::spawn(seconds_until_quiet(succession));
            assert_eq!(takes(&leave).await, seconds, "a client for {stays} s");
            assert_eq!(quiet.await.unwrap(), quiet_after, "a client for {stays} s");
            assert_eq!(readiness.ask(), Ok(()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_told_what_another_one_counts_stays_to_tell_it_on() {
        for (before_stays, seconds) in [(10, 15), (40, 40), (100, 60)] {
            let (leave, _tell) = succeeded(&Connections::new(9));
            let leave = Leave { succession: Succession::new(true), ..leave };
            leave.succession.pass();
            let before = leave.succession.clone();
            tokio::spawn(async move {
                tokio::time::sleep(before_stays * SECOND).await;
                before.predecessor_goes();
            });
            assert_eq!(takes(&leave).await, seconds, "the one before is there for {before_stays} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_after_an_upgrade_shortens_what_is_left() {
        let connections = Connections::new(9);
        let _client = connections.admit();
        let (leave, tell) = succeeded(&connections);
        tokio::spawn(async move {
            tokio::time::sleep(20 * SECOND).await;
            tell.send_replace(true);
            tokio::time::sleep(100 * SECOND).await;
        });
        assert_eq!(takes(&leave).await, 35);
    }
}
