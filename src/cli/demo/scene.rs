//! What is played? Steady state, an origin dies, it returns, the pool grows: each with load running all the while.
//!
//! A step begins with what happens, and lasts its time; as soon as the gateway noticed, a census is taken. Always
//! holds: every wait for the gateway to notice ends, and if it did not notice, that is a promise broken and not an
//! error of the demo.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::{Instant, sleep, sleep_until};

use super::board::Board;
use super::census::{Asking, Census, Owners};
use super::gateway::{self, Gateway, Told};
use super::origins::ONLY_NAME;
use super::step::{Change, Compared, Step};
use super::view::View;

/// For the gateway to notice that an origin died or may be used.
const NOTICE: Duration = Duration::from_secs(10);
/// Good probes before an origin gets requests: the default of `rise`.
const PROVEN: u64 = 2;

/// Who plays.
pub(super) struct Scene {
    pub(super) gateway: Gateway,
    pub(super) board: Arc<Board>,
    pub(super) asking: Asking,
    /// Origins at first.
    pub(super) origins: usize,
    /// Who dies.
    pub(super) victim: usize,
    /// How long a step lasts.
    pub(super) length: Duration,
}

impl Scene {
    /// Plays it all; `first` is who owned which key before it.
    pub(super) async fn play(&self, first: Census, view: &mut View) -> anyhow::Result<Vec<Step>> {
        let grows = Change::Grows(self.origins, self.asking.names.len());
        let mut owners = first.owners;
        let mut steps = Vec::new();
        for change in [Change::Steady, Change::Dies(self.victim), Change::Returns(self.victim), grows] {
            let (step, after) = view.through(&self.board, &self.title(change), self.step(change, &owners)).await??;
            view.step(&step, steps.is_empty())?;
            steps.push(step);
            owners = after;
        }
        Ok(steps)
    }

    /// One step, and who owns which key after it.
    async fn step(&self, change: Change, before: &Owners) -> anyhow::Result<(Step, Owners)> {
        let start = self.board.mark(self.told().await?);
        self.happens(change).await?;
        let seen = async { (self.noticed(change).await, self.asking.ask(ONLY_NAME).await) };
        let ((noticed, after), ()) = tokio::join!(seen, sleep_until(start.at + self.length));
        let window = self.board.mark(self.told().await?).since(&start);
        let (old, new) = change.members(self.origins);
        let hashes = self.asking.keys.hashes();
        let compared = Compared {
            before,
            after: &after,
            ring: Owners::on_ring(self.configured(change), &new, hashes),
            modulo: (Owners::by_modulo(&old, hashes), Owners::by_modulo(&new, hashes)),
        };
        let mut step = Step::new(change, &self.asking.names, &window, &compared);
        step.broken.extend(self.board.load.why().filter(|_| window.failed > 0).map(|why| format!("it said: {why}")));
        step.broken.extend(noticed.err());
        step.broken.extend(self.unproven(change));
        Ok((step, after.owners))
    }

    async fn told(&self) -> anyhow::Result<Told> {
        gateway::told(&mut self.gateway.admin()).await
    }

    async fn happens(&self, change: Change) -> anyhow::Result<()> {
        let origin = |number: usize| self.board.origins.get(number).context("there is no such origin");
        match change {
            Change::Steady => Ok(()),
            Change::Dies(one) => origin(one)?.die().await,
            Change::Returns(one) => origin(one)?.rise().await,
            Change::Grows(from, to) => {
                for one in from..to {
                    origin(one)?.rise().await?;
                }
                self.gateway.reload(&self.board.origins).await
            }
        }
    }

    /// Waits until the gateway shows what happened.
    async fn noticed(&self, change: Change) -> Result<(), String> {
        let end = Instant::now() + NOTICE;
        let (who, state) = match change {
            Change::Steady => return Ok(()),
            Change::Dies(one) => (one..one + 1, "down"),
            Change::Returns(one) => (one..one + 1, "up"),
            Change::Grows(from, to) => (from..to, "up"),
        };
        let others = |name: &&String| self.board.state(name).as_deref() != Some(state);
        while let Some(name) = self.asking.names.get(who.clone()).unwrap_or_default().iter().find(others) {
            if Instant::now() > end {
                let shown = self.board.state(name).unwrap_or_else(|| "unknown".to_owned());
                return Err(format!("the gateway still shows {name} as {shown}"));
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Newcomers that were asked before they were proven.
    fn unproven(&self, change: Change) -> Vec<String> {
        let Change::Grows(from, to) = change else { return Vec::new() };
        let newcomers = self.board.origins.get(from..to).unwrap_or_default().iter();
        let early = newcomers.filter(|origin| origin.proven_by().is_some_and(|probes| probes < PROVEN));
        early.map(|origin| format!("{} got a request before its probes had passed", origin.name)).collect()
    }

    /// The names in the gateway's file after this change.
    fn configured(&self, change: Change) -> &[String] {
        let number = if let Change::Grows(_, to) = change { to } else { self.origins };
        self.asking.names.get(..number).unwrap_or(&self.asking.names)
    }

    /// What is said while it goes on.
    fn title(&self, change: Change) -> String {
        let name = |number: usize| self.asking.names.get(number).map_or("", String::as_str);
        match change {
            Change::Steady => "steady".to_owned(),
            Change::Dies(one) => format!("{} is dead", name(one)),
            Change::Returns(one) => format!("{} is back", name(one)),
            Change::Grows(from, to) => format!("grown from {from} to {to}"),
        }
    }
}
