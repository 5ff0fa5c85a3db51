//! Which configuration is in force, and how does another one come into force, or the one before it again? Rules C1, C3
//! and C4.
//!
//! One thread writes snapshots; everybody else sends it a wish. Always: a file with a mistake, one that changes
//! `process`, or one that moves more than a guard allows, changes nothing; what went wrong is logged; a new
//! configuration is one store of a pointer; going back is never refused.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use indexmap::IndexMap;

use super::announce::announce;
use super::difference::{changed, is_fixed, takes_an_upgrade, without_process};
use super::history::{Ended, Entry};
use super::kept::Kept;
use super::ledger::Ledger;
use super::movement::Movement;
use super::outcome::{By, InForce, ReloadAsk, ReloadOutcome, in_force};
use super::pending::Pending;
use super::supervise::Supervisor;
use super::wish::{Inbox, Next, Wish};
use crate::config::{self, Complaint, Loaded, Report};
use crate::health::Ripe;
use crate::observe::Metrics;
use crate::snapshot::{Settled, Snapshot, Store};

/// Where texts come from, and where they are kept.
#[derive(Debug, Default)]
pub struct Texts {
    /// What is reloaded, if anything.
    pub file: Option<PathBuf>,
    /// The digest of what it said when it was last read; `None`: nothing that can be served.
    pub read: Option<String>,
    /// What outlives the process.
    pub kept: Option<Kept>,
    /// Who starts the next one if this one crashes.
    pub supervisor: Supervisor,
}

/// The one that writes snapshots.
pub struct Reloader {
    texts: Texts,
    pub(super) store: Arc<Store>,
    pub(super) metrics: Metrics,
    published: Box<dyn Fn() + Send>,
    ledger: Arc<Ledger>,
    pending: Option<Pending>,
    /// The file changed while a change waited.
    missed: bool,
    /// Upgrades under way, to this process and from it: what is in force stays so.
    rests: u8,
}

/// Why nothing comes into force meanwhile.
const WAITS: &str = "a change waits: `moorgate confirm` or `moorgate rollback` first";

/// The same.
const RESTS: &str = "an upgrade is under way, and until it is over both processes serve what is in force now";

/// A change that waits is looked at this often.
const LOOK: Duration = Duration::from_millis(100);

impl Reloader {
    /// Writes into `store`, and what it does into `ledger`. `published`: told when another configuration came into
    /// force.
    pub fn new(
        texts: Texts,
        store: Arc<Store>,
        ledger: Arc<Ledger>,
        metrics: Metrics,
        published: Box<dyn Fn() + Send>,
    ) -> Self {
        let reloader = Self { texts, store, metrics, published, ledger, pending: None, missed: false, rests: 0 };
        reloader.show();
        reloader.keep();
        reloader
    }

    /// Until [`Wish::Resume`] what is in force stays so.
    #[must_use]
    pub fn resting(self) -> Self {
        Self { rests: self.rests + 1, ..self }
    }

    /// Grants wishes on a thread of its own for as long as the process lives.
    ///
    /// # Errors
    /// No thread is to be had.
    pub fn start(self, inbox: Inbox) -> io::Result<()> {
        thread::Builder::new().name("reload".to_owned()).spawn(move || self.work(&inbox)).map(drop)
    }

    fn work(mut self, inbox: &Inbox) {
        loop {
            match inbox.next(self.pending.as_ref().map(|_| LOOK)) {
                Next::Grant(wishes) => {
                    for wish in wishes {
                        wish.begin();
                        let ended = self.grant(wish.wish);
                        wish.answer(&ended);
                    }
                }
                Next::Look => {}
                Next::End => return,
            }
            self.look();
        }
    }

    /// What waits may go back, and what had to wait for that may come.
    fn look(&mut self) {
        if let Some(pending) = &mut self.pending {
            let now = now();
            let why = pending.look(now);
            self.ledger.waits(Some(pending.status(now)));
            if let Some(why) = why {
                self.revert(&why);
            }
        }
        if self.pending.is_none() && self.rests == 0 && std::mem::take(&mut self.missed) {
            self.grant(Wish::Reload(ReloadAsk { by: By::Watch, ..ReloadAsk::default() }));
        }
    }

    fn grant(&mut self, wish: Wish) -> ReloadOutcome {
        let grant = || match wish {
            Wish::Reload(ask) => self.reload(ask),
            Wish::Confirm => self.confirm(),
            Wish::Rollback => self.go_back(Ended::RolledBack),
            Wish::Found => self.found(),
            Wish::Renew => self.renew(),
            Wish::Settle => {
                self.settle();
                ReloadOutcome::Unchanged(InForce::default())
            }
            Wish::Rest => self.rest(),
            Wish::Resume => {
                self.rests = self.rests.saturating_sub(1);
                ReloadOutcome::Unchanged(InForce::default())
            }
        };
        // a defect in one wish must not make all later ones impossible
        let ended = catch_unwind(AssertUnwindSafe(grant));
        let ended = ended.unwrap_or_else(|_| defect());
        // what was found and what is ripe is no other configuration
        let is_other = match wish {
            Wish::Found => matches!(ended, ReloadOutcome::Failed { .. }),
            Wish::Renew => !matches!(ended, ReloadOutcome::Unchanged(_)),
            Wish::Settle | Wish::Rest | Wish::Resume => false,
            Wish::Reload(_) | Wish::Confirm | Wish::Rollback => true,
        };
        if is_other {
            self.tell(&ended);
        }
        ended
    }

    /// Takes over who was found. No guard holds that up, and it is no step one could go back: what is in force stays so.
    fn found(&mut self) -> ReloadOutcome {
        let (old, now) = (self.store.load(), now());
        match old.with_found(&self.metrics, now) {
            None => {}
            Some(Ok(next)) => {
                self.ledger.trail().found(&old, &next);
                self.put(&old, next, false, now);
            }
            Some(Err(complaints)) => {
                let why = |one: &Complaint| format!("{}: {}", one.path, one.found);
                let why = complaints.iter().map(why).collect::<Vec<_>>().join("; ");
                return ReloadOutcome::Failed { why: format!("with the origins that were found: {why}") };
            }
        }
        ReloadOutcome::Unchanged(in_force(&self.store.load(), Vec::new(), Vec::new()))
    }

    /// One reload.
    fn reload(&mut self, ask: ReloadAsk) -> ReloadOutcome {
        let Some(file) = self.texts.file.clone() else {
            return ReloadOutcome::Failed { why: "started without a file, so there is nothing to reload".to_owned() };
        };
        if let Some(why) = self.busy() {
            self.missed |= ask.by == By::Watch;
            return ReloadOutcome::declined(why);
        }
        let (old, now) = (self.store.load(), now());
        let compile = |config: &config::Config| Snapshot::compile(config, Some(&old), &self.metrics, now);
        let read = config::load_with(&file, compile);
        self.texts.read = read.as_ref().ok().map(|(loaded, _)| loaded.digest.clone());
        let (loaded, next) = match read {
            Ok(both) => both,
            Err(report) => return ReloadOutcome::refused(report),
        };
        let loaded = loaded.warned(next.warnings());
        if loaded.digest == old.digest() {
            return self.same_text(&old, next, loaded, now);
        }
        if ask.by != By::Command && self.ledger.is_refused(&loaded.digest) {
            return ReloadOutcome::declined(
                "somebody went back from this text: only `moorgate reload` applies it again",
            );
        }
        let differences = changed(old.config(), &loaded.config);
        let fixed: Vec<_> = differences.iter().filter(|path| is_fixed(path)).collect();
        if !fixed.is_empty() && !ask.keep_process {
            return ReloadOutcome::refused(takes_an_upgrade(&fixed, &loaded, file.display().to_string()));
        }
        let next = next.read_from(&loaded).under_the_process_of(&old);
        let pools = self.refused_by_guards(&old, &next, &ask, now);
        if !pools.is_empty() {
            return ReloadOutcome::Guarded { pools, warnings: loaded.warnings };
        }
        let next = next.guarded(&old, ask.allow_moved.map(|allowed| allowed.ratio()));
        let mut applied = in_force(&next, without_process(differences), loaded.warnings);
        applied.confirm_within = ask.confirm.map(|within| within.as_secs_f64());
        let next = if ask.confirm.is_some() { next.on_trial(&old) } else { next };
        self.pending = ask.confirm.map(|within| Pending::new(within, &old, &next, now));
        self.publish(&old, next, Ended::Replaced, now);
        ReloadOutcome::Applied(applied)
    }

    /// The text is the one in force; what is in the files it names may have changed.
    pub(super) fn same_text(&mut self, old: &Snapshot, next: Snapshot, loaded: Loaded, now: Instant) -> ReloadOutcome {
        let changed = next.read_anew(old);
        if changed.is_empty() {
            return ReloadOutcome::Unchanged(in_force(old, Vec::new(), loaded.warnings));
        }
        let next = next.under_the_process_of(old).in_place_of(old);
        let applied = in_force(&next, changed, loaded.warnings);
        self.put(old, next, false, now);
        ReloadOutcome::Applied(applied)
    }

    /// What the text in force is called by.
    pub(super) fn name(&self) -> String {
        self.texts.file.as_ref().map_or_else(|| "arguments".to_owned(), |file| file.display().to_string())
    }

    /// Why nothing else may come into force now.
    fn busy(&self) -> Option<&'static str> {
        if self.rests > 0 {
            return Some(RESTS);
        }
        self.pending.as_ref().map(|_| WAITS)
    }

    fn rest(&mut self) -> ReloadOutcome {
        if self.pending.is_some() {
            return ReloadOutcome::declined(WAITS);
        }
        self.rests += 1;
        ReloadOutcome::Unchanged(InForce::default())
    }

    fn refused_by_guards(
        &self,
        old: &Snapshot,
        next: &Snapshot,
        ask: &ReloadAsk,
        now: Instant,
    ) -> IndexMap<String, Movement> {
        let allowed = ask.allow_moved.map(|allowed| allowed.ratio());
        let judged = self.ledger.trail().judge(old, next, allowed, now).into_iter();
        judged.filter(|(_, judgement)| judgement.refuses()).map(|(name, one)| (name, Movement::of(one))).collect()
    }

    fn confirm(&mut self) -> ReloadOutcome {
        if self.pending.take().is_none() {
            return ReloadOutcome::declined("no change waits to be confirmed");
        }
        self.ledger.waits(None);
        self.keep();
        ReloadOutcome::Confirmed(in_force(&self.store.load(), Vec::new(), Vec::new()))
    }

    /// By itself, for this reason.
    fn revert(&mut self, why: &str) {
        log::warn!("going back by itself: {why}");
        let go_back = || self.go_back(Ended::Reverted(why.to_owned()));
        let ended = catch_unwind(AssertUnwindSafe(go_back)).unwrap_or_else(|_| defect());
        self.tell(&ended);
    }

    /// To the text before; what waits to be confirmed is over.
    fn go_back(&mut self, ended: Ended) -> ReloadOutcome {
        if self.rests > 0 {
            return ReloadOutcome::declined(RESTS);
        }
        self.stop_waiting();
        let Some(before) = self.ledger.before() else {
            return ReloadOutcome::declined("there is no earlier text to go back to");
        };
        let by_itself = matches!(ended, Ended::Reverted(_));
        match self.restore(&before, ended) {
            Ok(now) if by_itself => ReloadOutcome::Reverted(now),
            Ok(now) => ReloadOutcome::RolledBack(now),
            Err(report) => ReloadOutcome::refused(report),
        }
    }

    /// Puts an earlier text in force again; that in force ends so. It was served once, so nothing but a defect or a
    /// changed machine can be in its way.
    fn restore(&mut self, entry: &Entry, ended: Ended) -> Result<InForce, Report> {
        let (old, now) = (self.store.load(), now());
        let compile = |config: &config::Config| Snapshot::compile(config, Some(&old), &self.metrics, now);
        let (loaded, next) = config::parse_with(&self.name(), &entry.text, compile)?;
        let loaded = loaded.warned(next.warnings());
        let next = next.read_from(&loaded).under_the_process_of(&old);
        let differences = without_process(changed(old.config(), &loaded.config));
        let applied = in_force(&next, differences, loaded.warnings);
        self.publish(&old, next, ended, now);
        Ok(applied)
    }

    /// The one store.
    fn publish(&mut self, old: &Snapshot, next: Snapshot, ended: Ended, now: Instant) {
        let back = !matches!(ended, Ended::Replaced);
        self.ledger.trail().left(old, &next, now);
        self.ledger.enter(old, &next, ended, SystemTime::now());
        self.put(old, next, back, now);
        if self.pending.is_none() {
            self.keep();
        }
    }

    fn put(&mut self, old: &Snapshot, next: Snapshot, back: bool, now: Instant) {
        next.take_over(back, now);
        next.replaces(old);
        self.store.publish(next);
        old.give_way_to(&self.store.load(), now);
        (self.published)();
    }

    /// Takes over what is ripe in what is in force. A replacement that failed is undone, and counts as a failed reload.
    fn settle(&mut self) {
        let (old, now) = (self.store.load(), now());
        let Some(Settled { next, undone, taken }) = old.settle(&self.metrics, now) else { return };
        for (pool, ripe) in taken {
            log::info!("pool {pool}: {}", if ripe == Ripe::Moved { "an origin moved" } else { "it was replaced" });
        }
        if undone.is_empty() {
            return self.put(&old, next, false, now);
        }
        let why = format!("pool {}: none of its new origins was proven in time", undone.join(", pool "));
        log::error!("{why}; it is as it was before");
        self.stop_waiting();
        self.publish(&old, next, Ended::Reverted(why), now);
        self.metrics.reloaded("failed");
        self.show();
    }

    fn stop_waiting(&mut self) {
        self.pending = None;
        self.ledger.waits(None);
    }

    /// Keeps what is in force for a process to come.
    fn keep(&self) {
        let (in_force, refused) = (self.store.load(), self.ledger.refused());
        if let Some(kept) = &self.texts.kept
            && let Err(error) = kept.keep(in_force.text(), refused.iter().map(String::as_str))
        {
            log::error!("{kept}: {error}; a start without its file would not serve what is in force now");
        }
        self.texts.supervisor.keep(in_force.text(), refused);
    }

    fn show(&self) {
        let in_force = self.store.load();
        let drift = self.texts.file.is_some() && self.texts.read.as_deref() != Some(in_force.digest());
        self.metrics.configuration(in_force.version(), drift);
    }

    /// Logs and counts how a wish ended.
    fn tell(&self, ended: &ReloadOutcome) {
        if !matches!(ended, ReloadOutcome::Confirmed(_)) {
            self.metrics.reloaded(ended.word());
        }
        announce(ended);
        self.show();
    }
}

fn defect() -> ReloadOutcome {
    ReloadOutcome::Failed { why: "a defect, see the log".to_owned() }
}

#[expect(clippy::disallowed_methods, reason = "a reload reads the clock here")]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::units::Percent;
    use crate::pool::discovery::Place;

    const KEEP: ReloadAsk = ReloadAsk { keep_process: true, allow_moved: None, confirm: None, by: By::Command };

    /// A gateway that was started with `file`.
    fn started(file: &std::path::Path) -> Reloader {
        let metrics = Metrics::new().unwrap();
        #[expect(clippy::disallowed_methods, reason = "the clock of the test")]
        let compile = |config: &config::Config| Snapshot::compile(config, None, &metrics, Instant::now());
        let (loaded, snapshot) = config::load_with(file, compile).unwrap();
        let snapshot = snapshot.read_from(&loaded);
        let ledger = Arc::new(Ledger::new(&snapshot, [], SystemTime::now()));
        let store = Arc::new(Store::new(snapshot));
        let texts = Texts { file: Some(file.to_owned()), read: Some(loaded.digest), ..Texts::default() };
        Reloader::new(texts, store, ledger, metrics, Box::new(|| ()))
    }

    /// Origins of one digit each, as a list.
    fn origins(digits: &str) -> String {
        let all: Vec<_> = digits.chars().map(|digit| format!("\"10.0.0.{digit}:80\"")).collect();
        format!("[{}]", all.join(", "))
    }

    fn text(listener: &str, origins: &str) -> String {
        let process = format!("process: {{ listeners: [ {{ address: {listener} }} ] }}");
        format!("version: 1\n{process}\npools:\n  p:\n    origins: {origins}\n")
    }

    #[test]
    fn a_file_is_put_in_force_as_a_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("moorgate.yaml");
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        write(&text("127.0.0.1:80", "[\"10.0.0.1:80\"]"));
        let mut reloader = started(&file);
        assert_eq!(reloader.reload(ReloadAsk::default()).word(), "unchanged");

        write(&text("127.0.0.1:80", "[\"10.0.0.1:80\", \"10.0.0.2:80\"]"));
        let ReloadOutcome::Applied(now) = reloader.reload(ReloadAsk::default()) else { panic!("not applied") };
        assert_eq!((now.version, now.changed), (2, vec!["pools.p.origins".to_owned()]));
        assert_eq!(now.joining["p"], ["10.0.0.2:80"]);

        write(&text("127.0.0.1:81", "[\"10.0.0.1:80\"]"));
        let ReloadOutcome::Refused { mistakes, .. } = reloader.reload(ReloadAsk::default()) else { panic!("taken") };
        assert_eq!((mistakes[0].path.as_str(), mistakes[0].line), ("process.listeners", 2), "{mistakes:?}");
        assert_eq!(reloader.store.load().version(), 2);

        let ReloadOutcome::Applied(now) = reloader.reload(KEEP) else { panic!("not applied") };
        assert_eq!((now.version, now.changed), (3, vec!["pools.p.origins".to_owned()]));
        assert_eq!(reloader.store.load().config().process.listeners[0].address.port(), 80);

        for bad in ["", "version: 1\npools: {", &text("127.0.0.1:80", "[]")] {
            write(bad);
            assert_eq!(reloader.reload(KEEP).word(), "refused", "{bad:?}");
        }
        std::fs::remove_file(&file).unwrap();
        assert_eq!(reloader.reload(KEEP).word(), "refused");
        assert_eq!(reloader.store.load().version(), 3);
    }

    #[test]
    fn c3_a_guard_refuses_until_as_much_is_allowed_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("moorgate.yaml");
        let write = |digits: &str| {
            let guarded = format!("{}\n    guard: {{ max_moved: 20% }}", origins(digits));
            std::fs::write(&file, text("127.0.0.1:80", &guarded)).unwrap();
        };
        write("12");
        let mut reloader = started(&file);
        write("123");
        let ReloadOutcome::Guarded { pools, .. } = reloader.reload(ReloadAsk::default()) else { panic!("passed") };
        assert_eq!(pools.keys().collect::<Vec<_>>(), ["p"]);
        assert_eq!(reloader.store.load().version(), 1);
        let allowed = |percent| ReloadAsk { allow_moved: Some(Percent(percent)), ..ReloadAsk::default() };
        assert_eq!(reloader.reload(allowed(1.0)).word(), "refused");
        assert_eq!(reloader.reload(allowed(60.0)).word(), "applied");
        write("12");
        assert_eq!(reloader.reload(ReloadAsk::default()).word(), "applied", "back to where keys were");
        write("123");
        assert_eq!(reloader.reload(ReloadAsk::default()).word(), "refused", "that was once");
    }

    #[test]
    fn c4_going_back_needs_no_leave_and_what_was_left_comes_again_only_by_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("moorgate.yaml");
        let write = |digits: &str| {
            let guarded = format!("{}\n    guard: {{ max_moved: 0% }}", origins(digits));
            std::fs::write(&file, text("127.0.0.1:80", &guarded)).unwrap();
        };
        let (by, command) = (|by| ReloadAsk { by, ..ReloadAsk::default() }, ReloadAsk::default());
        write("123");
        let mut reloader = started(&file);
        let (first, digest) = (reloader.store.load().upstreams()[0].tail.fingerprint.clone(), |reloader: &Reloader| {
            reloader.store.load().digest().to_owned()
        });
        assert_eq!(reloader.grant(Wish::Rollback).word(), "refused", "there is nothing before");
        write("14");
        let allow = ReloadAsk { allow_moved: Some(Percent(100.0)), ..command };
        assert_eq!(reloader.grant(Wish::Reload(allow)).word(), "applied");
        let second = digest(&reloader);
        let ReloadOutcome::RolledBack(now) = reloader.grant(Wish::Rollback) else { panic!("refused") };
        assert_eq!((now.version, now.joining.len()), (3, 0), "who was parked is back as it was: {now:?}");
        assert_eq!(reloader.store.load().upstreams()[0].tail.fingerprint, first);
        assert!(reloader.metrics.encode().unwrap().contains("moorgate_config_drift 1"));
        for trigger in [By::Signal, By::Watch] {
            assert_eq!(reloader.grant(Wish::Reload(by(trigger))).word(), "refused", "{trigger:?}");
        }
        assert_eq!(
            reloader.grant(Wish::Reload(ReloadAsk { allow_moved: Some(Percent(100.0)), ..command })).word(),
            "applied"
        );
        assert_eq!(digest(&reloader), second);
        assert!(reloader.metrics.encode().unwrap().contains("moorgate_config_drift 0"));
        let told: Vec<_> = reloader.ledger.texts().iter().map(|text| (text.version, text.ended)).collect();
        assert_eq!(told, [(4, None), (3, Some("replaced")), (2, Some("rolled_back")), (1, Some("replaced"))]);
    }

    #[test]
    fn c4_what_is_not_confirmed_goes_back_and_what_waits_lets_nothing_in_between() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("moorgate.yaml");
        let write = |digits: &str| std::fs::write(&file, text("127.0.0.1:80", &origins(digits))).unwrap();
        write("12");
        let mut reloader = started(&file);
        let first = reloader.store.load().digest().to_owned();
        let confirm = |within| ReloadAsk { confirm: Some(within), ..ReloadAsk::default() };
        assert_eq!(reloader.grant(Wish::Confirm).word(), "refused", "nothing waits");

        write("1");
        let ReloadOutcome::Applied(now) = reloader.grant(Wish::Reload(confirm(Duration::from_secs(60)))) else {
            panic!("not applied")
        };
        assert_eq!(now.confirm_within, Some(60.0));
        reloader.look();
        assert!(reloader.ledger.confirm().unwrap().left.is_some_and(|left| left > 50.0));
        write("13");
        let watched = ReloadAsk { by: By::Watch, ..ReloadAsk::default() };
        assert_eq!(reloader.grant(Wish::Reload(ReloadAsk::default())).word(), "refused", "one waits");
        assert_eq!(reloader.grant(Wish::Reload(watched)).word(), "refused");
        assert_eq!(reloader.grant(Wish::Confirm).word(), "confirmed");
        assert_eq!((reloader.ledger.confirm(), reloader.store.load().version()), (None, 2));
        reloader.look();
        assert_eq!(reloader.store.load().version(), 3, "the file that had to wait");

        write("12");
        assert_eq!(reloader.grant(Wish::Reload(ReloadAsk::default())).word(), "applied");
        write("2");
        assert_eq!(reloader.grant(Wish::Reload(confirm(Duration::ZERO))).word(), "applied");
        reloader.look();
        assert_eq!((reloader.store.load().digest(), reloader.ledger.confirm()), (&*first, None));
        let last = &reloader.ledger.texts()[1];
        assert_eq!((last.ended, last.why.as_deref()), (Some("reverted"), Some("not confirmed within 0ns")));
        assert!(reloader.metrics.encode().unwrap().contains("moorgate_reloads_total{result=\"reverted\"} 1"));
        assert_eq!(reloader.grant(Wish::Reload(watched)).word(), "refused", "its text is known");
    }

    #[test]
    fn c4_what_is_kept_is_what_is_in_force_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("moorgate.yaml");
        let write = |digits: &str| std::fs::write(&file, text("127.0.0.1:80", &origins(digits))).unwrap();
        write("12");
        let mut reloader = started(&file);
        reloader.texts.kept = Some(Kept::at(folder.path().join("state")));
        let kept = |name: &str| std::fs::read_to_string(folder.path().join("state").join(name)).unwrap_or_default();
        write("1");
        assert_eq!(reloader.grant(Wish::Reload(ReloadAsk::default())).word(), "applied");
        assert_eq!((kept("last.yaml").contains("10.0.0.1:80"), &*kept("refused")), (true, ""));
        write("2");
        let confirm = ReloadAsk { confirm: Some(Duration::from_secs(60)), ..ReloadAsk::default() };
        assert_eq!(reloader.grant(Wish::Reload(confirm)).word(), "applied");
        assert!(kept("last.yaml").contains("10.0.0.1:80"), "that may still go back");
        let digest = reloader.store.load().digest().to_owned();
        assert_eq!(reloader.grant(Wish::Rollback).word(), "rolled_back");
        assert_eq!((kept("last.yaml").contains("10.0.0.1:80"), kept("refused")), (true, format!("{digest}\n")));
        assert_eq!(reloader.grant(Wish::Reload(confirm)).word(), "applied");
        assert_eq!(reloader.grant(Wish::Confirm).word(), "confirmed");
        assert_eq!((kept("last.yaml").contains("10.0.0.2:80"), &*kept("refused")), (true, ""));
    }

    #[test]
    fn j7_who_is_found_is_taken_over_beside_the_history_and_whatever_a_guard_says() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("moorgate.yaml");
        let write = || {
            let found = "[]\n    discovery: { dns: o.test, port: 80 }\n    guard: { max_moved: 1% }";
            std::fs::write(&file, text("127.0.0.1:80", found)).unwrap();
        };
        std::fs::write(&file, text("127.0.0.1:80", &origins("12"))).unwrap();
        let mut reloader = started(&file);
        write();
        assert_eq!(reloader.reload(ReloadAsk::default()).word(), "applied");
        let find = |reloader: &Reloader, numbers: &[u8]| {
            let place = |number: &u8| Place::at(([10, 0, 0, *number], 80).into());
            let places: Vec<_> = numbers.iter().map(place).collect();
            reloader.store.load().sought().for_each(|sought| drop(sought.source.find(places.iter())));
        };
        let print = |reloader: &Reloader| reloader.store.load().upstreams()[0].tail.fingerprint.clone();
        let two = print(&reloader);
        find(&reloader, &[2, 3, 4]);
        assert_eq!(reloader.grant(Wish::Found).word(), "unchanged");
        assert_ne!(print(&reloader), two);
        assert_eq!((reloader.store.load().version(), reloader.ledger.texts().len()), (2, 2));
        assert!(reloader.metrics.encode().unwrap().contains("moorgate_reloads_total{result=\"unchanged\"} 0"));
        let three = print(&reloader);
        let written = format!("{}\n    guard: {{ max_moved: 40% }}", origins("2345"));
        std::fs::write(&file, text("127.0.0.1:80", &written)).unwrap();
        assert_eq!(reloader.reload(ReloadAsk::default()).word(), "applied", "what was found counts for nothing");
        assert_eq!(reloader.grant(Wish::Rollback).word(), "rolled_back");
        assert_ne!(print(&reloader), three, "those that are written serve until others are found");
    }

    #[test]
    fn without_a_file_there_is_nothing_to_reload() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("moorgate.yaml");
        std::fs::write(&file, text("127.0.0.1:80", "[\"10.0.0.1:80\"]")).unwrap();
        let mut reloader = started(&file);
        reloader.texts.file = None;
        let ended = reloader.reload(ReloadAsk::default());
        reloader.tell(&ended);
        assert!(reloader.metrics.encode().unwrap().contains("moorgate_reloads_total{result=\"failed\"} 1"));
    }

    #[test]
    fn only_the_process_section_is_fixed() {
        assert!(is_fixed("process") && is_fixed("process.listeners"));
        assert!(!is_fixed("processes") && !is_fixed("pools.process"));
    }
}
