//! What may be asked of the one that writes snapshots, and where?
//!
//! Wishes wait in one line. Equal reloads that come while it works are granted together by one more, which reads the
//! newest file, and so are origins that were found; all else is granted one after the other, in the order in which it
//! came. The service manager, who waits for a reload it asked for, hears when one begins and how it ended.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::outcome::{By, ReloadAsk, ReloadOutcome};
use super::readiness::Readiness;

/// What may be asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wish {
    /// Reads the file again.
    Reload(ReloadAsk),
    /// Keeps what waits to be confirmed.
    Confirm,
    /// Goes back to the text before.
    Rollback,
    /// Puts origins that were found in service, and lets go those that were lost.
    Found,
    /// Reads again the files that what is in force names.
    Renew,
    /// Takes over what is ripe in what is in force: an origin's new address, the end of a replaced pool.
    Settle,
    /// An upgrade begins: what is in force stays so.
    Rest,
    /// It is over, in this process: other configurations may come into force.
    Resume,
}

/// Where wishes are sent.
#[derive(Debug, Clone)]
pub struct Reloads(mpsc::Sender<Sent>);

/// Where they arrive.
#[derive(Debug)]
pub struct Inbox {
    sent: mpsc::Receiver<Sent>,
    told: Arc<Readiness>,
}

#[derive(Debug)]
struct Sent {
    wish: Wish,
    answer: Option<oneshot::Sender<ReloadOutcome>>,
}

/// A pair of both ends; `told` hears of reloads.
pub fn wishes(told: Arc<Readiness>) -> (Reloads, Inbox) {
    let (send, sent) = mpsc::channel();
    (Reloads(send), Inbox { sent, told })
}

impl Reloads {
    /// Reloads soon; nobody waits for it.
    pub fn trigger(&self, by: By) {
        let wish = Wish::Reload(ReloadAsk { by, ..ReloadAsk::default() });
        // nobody is there any more only when the process ends
        let _ = self.0.send(Sent { wish, answer: None });
    }

    /// Origins of a pool were found or lost; nobody waits until that is in force.
    pub fn found(&self) {
        let _ = self.0.send(Sent { wish: Wish::Found, answer: None });
    }

    /// Files that the configuration names may say something else by now.
    pub fn renew(&self) {
        let _ = self.0.send(Sent { wish: Wish::Renew, answer: None });
    }

    /// Takes over soon what is ripe in the snapshot in force.
    pub fn settle(&self) {
        let _ = self.0.send(Sent { wish: Wish::Settle, answer: None });
    }

    /// Grants a wish, and tells how that ended.
    pub async fn grant(&self, wish: Wish) -> ReloadOutcome {
        self.send(wish).await.unwrap_or_else(|_| gone())
    }

    /// The same, on a thread that may wait.
    pub fn grant_and_wait(&self, wish: Wish) -> ReloadOutcome {
        self.send(wish).blocking_recv().unwrap_or_else(|_| gone())
    }

    fn send(&self, wish: Wish) -> oneshot::Receiver<ReloadOutcome> {
        let (answer, ended) = oneshot::channel();
        // nobody takes it only when the process ends: then the answer does not come either
        let _ = self.0.send(Sent { wish, answer: Some(answer) });
        ended
    }
}

fn gone() -> ReloadOutcome {
    ReloadOutcome::Failed { why: "the process is leaving".to_owned() }
}

/// Equal wishes that are granted at once.
#[derive(Debug)]
pub(super) struct Together {
    pub(super) wish: Wish,
    told: Arc<Readiness>,
    answers: Vec<oneshot::Sender<ReloadOutcome>>,
}

/// What there is to do.
#[derive(Debug)]
pub(super) enum Next {
    /// These, in this order.
    Grant(Vec<Together>),
    /// Nobody wished for anything in this time.
    Look,
    /// Nobody can have a wish any more.
    End,
}

impl Together {
    /// It is granted now.
    pub(super) fn begin(&self) {
        if matches!(self.wish, Wish::Reload(_)) {
            self.told.reloading();
        }
    }

    /// Tells whoever waits how it ended.
    pub(super) fn answer(self, ended: &ReloadOutcome) {
        if matches!(self.wish, Wish::Reload(_)) {
            self.told.reloaded(ended.word());
        }
        // whoever does not wait any more is not told
        self.answers.into_iter().for_each(|answer| drop(answer.send(ended.clone())));
    }
}

impl Inbox {
    /// Waits for wishes, at most this long.
    pub(super) fn next(&self, patience: Option<Duration>) -> Next {
        let first = match patience {
            Some(patience) => self.sent.recv_timeout(patience),
            None => self.sent.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match first {
            Ok(first) => Next::Grant(self.together(std::iter::once(first).chain(self.sent.try_iter()))),
            Err(RecvTimeoutError::Timeout) => Next::Look,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }

    /// Equal ones of the wishes that take whatever is newest as one, as long as nothing else comes between them.
    fn together(&self, all: impl Iterator<Item = Sent>) -> Vec<Together> {
        let mut found: Vec<Together> = Vec::new();
        for Sent { wish, answer } in all {
            let takes_the_newest = |one: &Together| matches!(one.wish, Wish::Reload(_) | Wish::Found);
            let since = found.iter().rposition(|one| !takes_the_newest(one)).map_or(0, |other| other + 1);
            match found.iter_mut().skip(since).find(|one| one.wish == wish) {
                Some(alike) => alike.answers.extend(answer),
                None => {
                    let (told, answers) = (self.told.clone(), answer.into_iter().collect());
                    found.push(Together { wish, told, answers });
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASK: ReloadAsk = ReloadAsk { keep_process: false, allow_moved: None, confirm: None, by: By::Command };
    const PLAIN: Wish = Wish::Reload(ASK);
    const KEEP: Wish = Wish::Reload(ReloadAsk { keep_process: true, ..ASK });

    /// Sends these and says what becomes of them.
    fn sent(wishes: &[Wish]) -> Vec<(Wish, usize)> {
        let (reloads, inbox) = super::wishes(Arc::default());
        let send = |wish: &Wish| {
            let (answer, ended) = oneshot::channel();
            reloads.0.send(Sent { wish: *wish, answer: Some(answer) }).unwrap();
            ended
        };
        let waiting: Vec<_> = wishes.iter().map(send).collect();
        let Next::Grant(granted) = inbox.next(None) else { panic!("nothing came") };
        let counted = granted.iter().map(|one| (one.wish, one.answers.len())).collect();
        granted.into_iter().for_each(|one| one.answer(&ReloadOutcome::Failed { why: "told".into() }));
        for ended in waiting {
            assert_eq!(ended.blocking_recv().unwrap().word(), "failed");
        }
        counted
    }

    #[test]
    fn equal_reloads_that_wait_are_granted_together() {
        let fifty: Vec<Wish> = [[PLAIN; 50].as_slice(), &[KEEP; 3], &[PLAIN]].concat();
        assert_eq!(sent(&fifty), [(PLAIN, 51), (KEEP, 3)]);
    }

    #[test]
    fn what_came_between_two_reloads_stays_between_them() {
        let wishes = [PLAIN, Wish::Rollback, PLAIN, Wish::Rollback, Wish::Rollback];
        let each: Vec<_> = wishes.iter().map(|wish| (*wish, 1)).collect();
        assert_eq!(sent(&wishes), each);
    }

    #[test]
    fn a_trigger_is_no_command() {
        let (reloads, inbox) = wishes(Arc::default());
        reloads.trigger(By::Signal);
        let Next::Grant(granted) = inbox.next(None) else { panic!("nothing came") };
        assert!(matches!(granted[0].wish, Wish::Reload(ReloadAsk { by: By::Signal, .. })), "{granted:?}");
    }

    #[test]
    fn without_wishes_it_is_time_to_look_and_then_the_end() {
        let (reloads, inbox) = wishes(Arc::default());
        assert!(matches!(inbox.next(Some(Duration::ZERO)), Next::Look));
        drop(reloads);
        assert!(matches!(inbox.next(None), Next::End));
    }

    #[tokio::test]
    async fn one_who_asks_when_all_is_over_is_told_so() {
        let (reloads, inbox) = wishes(Arc::default());
        drop(inbox);
        assert_eq!(reloads.grant(KEEP).await.word(), "failed");
    }
}
