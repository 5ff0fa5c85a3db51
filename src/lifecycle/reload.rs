//! Which configuration is in force, and how does another one come into force? Rule C1.
//!
//! One thread writes snapshots; everybody else sends it a wish. Wishes that come while it works are granted together by
//! one more reload, which reads the newest file. Always: a file with a mistake, or one that changes `process`, changes
//! nothing; every mistake is logged; a new configuration is one store of a pointer.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use indexmap::IndexMap;
use tokio::sync::{mpsc, oneshot};

use super::difference::changed;
use super::movement::Movement;
use super::outcome::{InForce, ReloadAsk, ReloadOutcome};
use crate::config::{self, Loaded, Mistake, Report, Severity};
use crate::health::Verdict;
use crate::observe::Metrics;
use crate::snapshot::guard::Trail;
use crate::snapshot::{Snapshot, Store};

/// Where wishes to reload are sent.
#[derive(Debug, Clone)]
pub struct Reloads(mpsc::UnboundedSender<Wish>);

/// Where they arrive.
#[derive(Debug)]
pub struct Wishes(mpsc::UnboundedReceiver<Wish>);

#[derive(Debug)]
struct Wish {
    ask: ReloadAsk,
    answer: Option<oneshot::Sender<ReloadOutcome>>,
}

/// A pair of both ends.
pub fn wishes() -> (Reloads, Wishes) {
    let (send, receive) = mpsc::unbounded_channel();
    (Reloads(send), Wishes(receive))
}

impl Reloads {
    /// Reloads soon; nobody waits for it.
    pub fn trigger(&self) {
        // nobody is there any more only when the process ends
        let _ = self.0.send(Wish { ask: ReloadAsk::default(), answer: None });
    }

    /// Reloads, and tells how it ended.
    pub async fn reload(&self, ask: ReloadAsk) -> ReloadOutcome {
        let (answer, ended) = oneshot::channel();
        let gone = || ReloadOutcome::Failed { why: "the process is leaving".to_owned() };
        if self.0.send(Wish { ask, answer: Some(answer) }).is_err() {
            return gone();
        }
        ended.await.unwrap_or_else(|_| gone())
    }
}

/// The one that writes snapshots.
pub struct Reloader {
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// What is in force.
    pub store: Arc<Store>,
    /// Where it is counted.
    pub metrics: Metrics,
    /// Told when another configuration came into force.
    pub published: Box<dyn Fn() + Send>,
    /// Where keys were before.
    pub trail: Trail,
}

impl Reloader {
    /// Grants wishes on a thread of its own for as long as the process lives.
    ///
    /// # Errors
    /// No thread is to be had.
    pub fn start(mut self, wishes: Wishes) -> io::Result<()> {
        let grant = move |ask| {
            // a defect in one reload must not make all later ones impossible
            let ended = catch_unwind(AssertUnwindSafe(|| self.reload(ask)));
            let ended = ended.unwrap_or_else(|_| ReloadOutcome::Failed { why: "a defect, see the log".to_owned() });
            self.tell(&ended);
            ended
        };
        thread::Builder::new().name("reload".to_owned()).spawn(move || grant_all(wishes, grant)).map(drop)
    }

    /// One reload.
    fn reload(&mut self, ask: ReloadAsk) -> ReloadOutcome {
        let Some(file) = &self.file else {
            return ReloadOutcome::Failed { why: "started without a file, so there is nothing to reload".to_owned() };
        };
        let old = self.store.load();
        #[expect(clippy::disallowed_methods, reason = "a reload reads the clock here")]
        let now = Instant::now();
        let compile = |config: &config::Config| Snapshot::compile(config, Some(&old), &self.metrics, now);
        let (loaded, next) = match config::load_with(file, compile) {
            Ok(both) => both,
            Err(report) => return ReloadOutcome::refused(report),
        };
        if loaded.digest == old.digest() {
            return ReloadOutcome::Unchanged(in_force(&old, Vec::new(), loaded.warnings));
        }
        let differences = changed(old.config(), &loaded.config);
        let fixed: Vec<_> = differences.iter().filter(|path| is_fixed(path)).collect();
        if !fixed.is_empty() && !ask.keep_process {
            return ReloadOutcome::refused(takes_an_upgrade(&fixed, &loaded, file.display().to_string()));
        }
        let next = next.read_from(&loaded).under_the_process_of(&old);
        let allowed = ask.allow_moved.map(|allowed| allowed.ratio());
        let judged = self.trail.judge(&old, &next, allowed, now).into_iter();
        let pools: IndexMap<_, _> =
            judged.filter(|(_, judgement)| judgement.refuses()).map(|(name, one)| (name, Movement::of(one))).collect();
        if !pools.is_empty() {
            return ReloadOutcome::Guarded { pools, warnings: loaded.warnings };
        }
        let differences = differences.into_iter().filter(|path| !is_fixed(path)).collect();
        let ended = ReloadOutcome::Applied(in_force(&next, differences, loaded.warnings));
        self.trail.left(&old, &next, now);
        self.store.publish(next);
        (self.published)();
        ended
    }

    /// Logs and counts how a reload ended.
    fn tell(&self, ended: &ReloadOutcome) {
        self.metrics.reloaded(ended.word());
        let (drift, warnings) = match ended {
            ReloadOutcome::Applied(now) => {
                log::info!("configuration {} is in force: {}", now.version, told(now));
                (false, &now.warnings)
            }
            ReloadOutcome::Unchanged(now) => {
                log::info!("configuration {} stays in force: the file says the same", now.version);
                (false, &now.warnings)
            }
            ReloadOutcome::Refused { mistakes, warnings } => {
                mistakes.iter().for_each(|mistake| log::error!("{mistake}"));
                let plural = if mistakes.len() == 1 { "" } else { "s" };
                log::error!("reload refused, nothing changed: {} mistake{plural}", mistakes.len());
                (true, warnings)
            }
            ReloadOutcome::Guarded { pools, warnings } => {
                pools.iter().for_each(|(pool, movement)| log::error!("pool {pool}: {movement}"));
                log::error!("reload refused, nothing changed: more moves than guard.max_moved allows");
                (true, warnings)
            }
            ReloadOutcome::Failed { why } => return log::error!("reload failed, nothing changed: {why}"),
        };
        warn(warnings);
        self.metrics.configuration(self.store.load().version(), drift);
    }
}

/// Logs what a file could do better.
pub fn warn(warnings: &[Mistake]) {
    for warning in warnings {
        // the level says that it is a warning
        let said = Mistake { severity: Severity::Error, ..warning.clone() };
        log::warn!("{said}");
    }
}

/// Grants wishes until nobody can have one any more.
fn grant_all(Wishes(mut wishes): Wishes, mut grant: impl FnMut(ReloadAsk) -> ReloadOutcome) {
    while let Some(first) = wishes.blocking_recv() {
        let mut all = vec![first];
        while let Ok(more) = wishes.try_recv() {
            all.push(more);
        }
        while let Some(ask) = all.first().map(|wish| wish.ask) {
            let (alike, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|wish| wish.ask == ask);
            let ended = grant(ask);
            // whoever does not wait any more is not told
            alike.into_iter().filter_map(|wish| wish.answer).for_each(|answer| drop(answer.send(ended.clone())));
            all = rest;
        }
    }
}

fn is_fixed(path: &str) -> bool {
    path == "process" || path.starts_with("process.")
}

fn takes_an_upgrade(paths: &[&String], loaded: &Loaded, file: String) -> Report {
    let mistake = |path: &&String| {
        let (line, column) = loaded.places.locate(path);
        Mistake {
            severity: Severity::Error,
            file: file.clone(),
            line,
            column,
            path: (*path).clone(),
            found: "differs from what the process was started with".to_owned(),
            meant: "which takes an upgrade; `reload --keep-process` applies all the rest".to_owned(),
        }
    };
    let mistakes = paths.iter().map(mistake).collect();
    Report { file, mistakes }
}

/// What is in force with `snapshot`.
fn in_force(snapshot: &Snapshot, changed: Vec<String>, warnings: Vec<Mistake>) -> InForce {
    let mut joining: IndexMap<String, Vec<String>> = IndexMap::new();
    for upstream in snapshot.upstreams() {
        let new = upstream.pool.members().iter().filter(|member| member.origin().verdict() == Verdict::Joining);
        let names: Vec<_> = new.map(|member| member.name().to_string()).collect();
        if !names.is_empty() {
            joining.insert(upstream.pool.name().to_string(), names);
        }
    }
    InForce { version: snapshot.version(), digest: snapshot.digest().to_owned(), changed, joining, warnings }
}

fn told(now: &InForce) -> String {
    let changed = if now.changed.is_empty() { "no value changed".to_owned() } else { now.changed.join(", ") };
    let joining: Vec<_> = now.joining.iter().map(|(pool, names)| format!("{pool}: {}", names.join(", "))).collect();
    if joining.is_empty() { changed } else { format!("{changed}; joining {}", joining.join("; ")) }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use parking_lot::Mutex;

    use super::*;
    use crate::config::units::Percent;

    const KEEP: ReloadAsk = ReloadAsk { keep_process: true, allow_moved: None };

    #[test]
    fn wishes_that_come_while_one_is_granted_are_granted_together() {
        let (reloads, wishes) = wishes();
        let granted = Arc::new(Mutex::new(Vec::new()));
        let (first, all_sent) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let grant = {
            let (granted, first, all_sent) = (granted.clone(), first.clone(), all_sent.clone());
            move |ask| {
                granted.lock().push(ask);
                if granted.lock().len() == 1 {
                    first.wait();
                    all_sent.wait();
                }
                ReloadOutcome::Unchanged(InForce::default())
            }
        };
        let granting = thread::spawn(move || grant_all(wishes, grant));
        reloads.trigger();
        first.wait();
        let ask = |ask| {
            let (answer, ended) = oneshot::channel();
            reloads.0.send(Wish { ask, answer: Some(answer) }).unwrap();
            ended
        };
        let mut answers: Vec<_> = (0..50).map(|_| ask(ReloadAsk::default())).collect();
        answers.extend((0..3).map(|_| ask(KEEP)));
        all_sent.wait();
        for answer in answers {
            assert_eq!(answer.blocking_recv().unwrap().word(), "unchanged");
        }
        drop(reloads);
        granting.join().unwrap();
        assert_eq!(*granted.lock(), [ReloadAsk::default(), ReloadAsk::default(), KEEP]);
    }

    #[tokio::test]
    async fn one_who_asks_when_all_is_over_is_told_so() {
        let (reloads, wishes) = wishes();
        drop(wishes);
        assert_eq!(reloads.reload(KEEP).await.word(), "failed");
    }

    /// A gateway that was started with `file`.
    fn started(file: &std::path::Path) -> Reloader {
        let metrics = Metrics::new().unwrap();
        #[expect(clippy::disallowed_methods, reason = "the clock of the test")]
        let compile = |config: &config::Config| Snapshot::compile(config, None, &metrics, Instant::now());
        let (loaded, snapshot) = config::load_with(file, compile).unwrap();
        let store = Arc::new(Store::new(snapshot.read_from(&loaded)));
        Reloader { file: Some(file.to_owned()), store, metrics, published: Box::new(|| ()), trail: Trail::default() }
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
        let write = |origins: &str| {
            let guarded = format!("{origins}\n    guard: {{ max_moved: 20% }}");
            std::fs::write(&file, text("127.0.0.1:80", &guarded)).unwrap();
        };
        write("[a, b]");
        let mut reloader = started(&file);
        write("[a, b, c]");
        let ReloadOutcome::Guarded { pools, .. } = reloader.reload(ReloadAsk::default()) else { panic!("passed") };
        assert_eq!(pools.keys().collect::<Vec<_>>(), ["p"]);
        assert_eq!(reloader.store.load().version(), 1);
        let allowed = |percent| ReloadAsk { allow_moved: Some(Percent(percent)), ..ReloadAsk::default() };
        assert_eq!(reloader.reload(allowed(1.0)).word(), "refused");
        assert_eq!(reloader.reload(allowed(60.0)).word(), "applied");
        write("[a, b]");
        assert_eq!(reloader.reload(ReloadAsk::default()).word(), "applied", "back to where keys were");
        write("[a, b, c]");
        assert_eq!(reloader.reload(ReloadAsk::default()).word(), "refused", "that was once");
    }

    #[test]
    fn without_a_file_there_is_nothing_to_reload() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("moorgate.yaml");
        std::fs::write(&file, text("127.0.0.1:80", "[\"10.0.0.1:80\"]")).unwrap();
        let mut reloader = Reloader { file: None, ..started(&file) };
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
