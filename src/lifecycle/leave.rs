//! How does the process leave? Rule U5: the lame duck, then the drain, then out.
//!
//! Pingora asks one question, [`ShutdownSignalWatch::recv`], and stops everything when it is answered: so the answer
//! comes only when all is over, and says "fast", which leaves no waiting of Pingora's own. Always: the listening
//! sockets stay open through the lame duck, and nobody who was accepted is cut before `drain.timeout`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};
use tokio::time::{Instant, sleep_until, timeout};

use super::readiness::Readiness;
use super::signals::Told;
use crate::config::process;
use crate::listeners::{Connections, Drain};

/// Without clients and questions for so long nobody needs a lame duck.
const QUIET: Duration = Duration::from_secs(30);

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
    /// How long each part may take.
    pub times: process::Drain,
}

impl Leave {
    /// Waits until it is time, and then until all is over.
    async fn over(&self) {
        // a sender that is gone was dropped at the process's end
        let _ = self.told.clone().wait_for(|told| *told).await;
        self.readiness.end();
        log::info!("leaving: not ready any more, still serving everybody");
        self.lame_duck().await;
        self.drain.begin();
        log::info!("draining: {} connections open", self.connections.open());
        if timeout(self.times.timeout.0, self.connections.all_closed()).await.is_err() {
            log::warn!("{} connections cut after {:?}", self.connections.open(), self.times.timeout.0);
        }
    }

    /// Goes on until its time is over or nobody needs it.
    async fn lame_duck(&self) {
        let end = Instant::now() + self.times.lame_duck.0;
        while let Some(quiet) = self.quiet().filter(|quiet| *quiet < QUIET)
            && Instant::now() < end
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
        let times = process::Drain { lame_duck: units::Duration(8 * SECOND), timeout: units::Duration(15 * SECOND) };
        let (connections, readiness) = (connections.clone(), readiness.clone());
        (Leave { told, readiness, connections, drain: Drain::default(), times }, tell)
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
}
