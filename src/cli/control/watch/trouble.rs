//! Is something wrong, and where? The same verdicts as at the top of the status page.

use super::facts::{Facts, Origin, Pool, Steps};
use super::steady::Steady;
use crate::cli::figures::{percent, span};

/// How grave it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grade {
    /// All is as it should be.
    Well,
    /// On its way by itself.
    Way,
    /// To be looked at.
    Look,
    /// Somebody is needed now.
    Grave,
}

/// Something that is to be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) grade: Grade,
    /// The pool it is in, if in one.
    pub(super) pool: Option<String>,
    pub(super) text: String,
}

/// Seconds of the steps that are looked at.
const MINUTE: f64 = 60.0;
/// Of several that have the same, so many are named.
const NAMED: usize = 3;

/// The last minute of a series of steps.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Minute {
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) suppressed: u64,
}

impl Minute {
    pub(super) fn of(steps: &Steps, step: f64) -> Self {
        let count = if step > 0.0 { (MINUTE / step).round().max(1.0) as usize } else { 1 };
        let sum = |all: &[u64]| all.iter().rev().take(count).sum();
        Self { requests: sum(&steps.requests), errors: sum(&steps.errors), suppressed: sum(&steps.suppressed) }
    }

    /// The part of the answers that were errors.
    pub(super) fn error_ratio(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.errors as f64 / self.requests as f64 }
    }
}

/// How grave a state is, and its sign.
pub(super) fn state(state: &str) -> (Grade, &'static str) {
    match state {
        "up" => (Grade::Well, "✓"),
        "joining" => (Grade::Way, "…"),
        "ramping" => (Grade::Way, "↗"),
        "draining" => (Grade::Way, "↘"),
        "leaving" => (Grade::Way, "⇢"),
        "parked" => (Grade::Way, "‖"),
        "overloaded" => (Grade::Look, "▼"),
        "kept" => (Grade::Look, "!"),
        "down" => (Grade::Grave, "✕"),
        _ => (Grade::Look, "?"),
    }
}

/// All that is wrong, the gravest first.
pub(super) fn all(facts: &Facts, steady: &Steady) -> Vec<Trouble> {
    let mut found = Found::default();
    found.process(facts);
    for (name, pool) in &facts.pools {
        found.pool = Some(name.0.clone());
        found.pool(&name.0, pool, facts.recent.step, steady);
    }
    found.all.sort_by_key(|trouble| std::cmp::Reverse(trouble.grade));
    found.all
}

/// The gravest of some.
pub(super) fn worst<'a>(all: impl IntoIterator<Item = &'a Trouble>) -> Grade {
    all.into_iter().map(|trouble| trouble.grade).max().unwrap_or(Grade::Well)
}

#[derive(Default)]
struct Found {
    all: Vec<Trouble>,
    pool: Option<String>,
}

impl Found {
    fn say(&mut self, grade: Grade, text: impl Into<String>) {
        self.all.push(Trouble { grade, pool: self.pool.clone(), text: text.into() });
    }

    fn process(&mut self, facts: &Facts) {
        if let Some(confirm) = &facts.config.confirm {
            let waits: Vec<_> = confirm.waits_for.iter().map(|name| name.0.as_str()).collect();
            let when = match confirm.left {
                Some(left) => format!("it goes back in {}", span(Some(left))),
                None => format!("once these have joined: {}", waits.join(", ")),
            };
            self.say(Grade::Look, format!("a configuration waits to be confirmed: {when}"));
        }
        if facts.config.drift {
            self.say(Grade::Look, "the file says something else than what is in force");
        }
        if facts.probes_stretched {
            self.say(Grade::Look, "more probes are due than may run: they come less often than configured");
        }
        for warning in facts.certificates.iter().filter_map(|one| one.warning.as_ref()) {
            self.say(Grade::Look, warning.0.clone());
        }
        if let Some(upgrade) = facts.upgrade.as_ref().filter(|upgrade| !upgrade.over) {
            self.say(Grade::Way, format!("the process before ({}) still ends its requests", upgrade.pid));
        }
    }

    fn pool(&mut self, name: &str, pool: &Pool, step: f64, steady: &Steady) {
        self.service(pool);
        let minute = Minute::of(&pool.recent, step);
        if minute.errors >= 3 && minute.error_ratio() >= 0.01 {
            let grade = if minute.error_ratio() >= 0.05 { Grade::Grave } else { Grade::Look };
            let part = percent(Some(minute.error_ratio()));
            self.say(grade, format!("{part} of the answers of the last minute are 5xx"));
        }
        if minute.suppressed > 0 {
            let what = "failed tries of the last minute were not repeated: a budget or another rule forbade it";
            self.say(Grade::Look, format!("{} {what}", minute.suppressed));
        }
        for (own, origin) in pool.origins.iter().filter(|(own, it)| steady.is_off(name, pool, &own.0, it)).take(NAMED) {
            let (served, share) = (percent(origin.served), percent(Some(origin.share)));
            self.say(Grade::Look, format!("{own} serves {served}, and its share is {share}"));
        }
        self.origins(pool);
        if let Some(failure) = pool.discovery.as_ref().and_then(|found| found.failure.as_ref()) {
            self.say(Grade::Look, format!("names: {failure}"));
        }
        if let Some(warning) = &pool.keys.warning {
            self.say(Grade::Way, warning.0.clone());
        }
        let grades = pool.origins.values().filter(|origin| origin.belongs()).map(|origin| state(&origin.state.0).0);
        match grades.filter(|grade| *grade == Grade::Way).count() {
            0 => {}
            1 => self.say(Grade::Way, "1 origin is on the way"),
            some => self.say(Grade::Way, format!("{some} origins are on the way")),
        }
    }

    /// Who is out.
    fn service(&mut self, pool: &Pool) {
        let (serving, all) = pool.in_service();
        if all > 0 && serving == 0 {
            self.say(Grade::Grave, "no origin is in service");
        } else if pool.short {
            self.say(Grade::Grave, "short: more origins are out than it allows, or some serve that should not");
        }
        for grade in [Grade::Grave, Grade::Look] {
            let out = |(_, origin): &(_, &Origin)| origin.belongs() && state(&origin.state.0).0 == grade;
            let out: Vec<_> = pool.origins.iter().filter(out).collect();
            if out.is_empty() {
                continue;
            }
            let name = |(name, origin): &(_, &Origin)| format!("{name} is {} ({})", origin.state, origin.why);
            let named: Vec<_> = out.iter().take(NAMED).map(name).collect();
            let more = match out.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            let what = format!("{} of {all} origins: {}{more}", out.len(), named.join(", "));
            self.say(if serving > 0 { Grade::Look } else { Grade::Grave }, what);
        }
    }

    /// What single origins do.
    fn origins(&mut self, pool: &Pool) {
        type Is = fn(&Origin) -> bool;
        let failing: Is = |o| o.serves() && o.error_ratio >= Some(0.05) && o.rate * MINUTE >= 20.0;
        let held: Is = |o| o.state.0 == "ramping" && o.why.0.starts_with("held");
        let refused: Is =
            |o| o.state.0 == "joining" && o.last_probe.as_ref().is_some_and(|probe| probe.result.0 == "bad");
        let some = |is: Is| pool.origins.iter().filter(move |(_, origin)| is(origin)).take(NAMED);
        for (name, origin) in some(failing) {
            self.say(Grade::Look, format!("{name} fails {} of its tries", percent(origin.error_ratio)));
        }
        for (name, origin) in some(held) {
            self.say(Grade::Look, format!("{name} does not grow: {}", origin.why));
        }
        for (name, origin) in some(refused) {
            let fault = origin.last_probe.as_ref().and_then(|probe| probe.fault.as_ref());
            let fault = fault.map_or("no reason given", |fault| fault.0.as_str());
            self.say(Grade::Look, format!("{name} wants to join, and its probe fails: {fault}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(status: Value) -> Vec<(Grade, String)> {
        let facts: Facts = serde_json::from_value(status).unwrap();
        all(&facts, &Steady::default()).into_iter().map(|trouble| (trouble.grade, trouble.text)).collect()
    }

    #[test]
    fn all_is_well_where_nothing_is_wrong() {
        let up = json!({ "state": "up", "why": "probes pass", "error_ratio": 0.04, "rate": 9.0 });
        assert_eq!(said(json!({ "pools": { "p": { "origins": { "a": up } } } })), []);
    }

    #[test]
    fn who_is_out_is_to_be_looked_at_while_others_serve_and_grave_if_nobody_does() {
        let down = json!({ "state": "down", "why": "refused" });
        let some = json!({ "pools": { "p": { "origins": { "a": down, "b": { "state": "up" }, "c": { "state": "parked" } } } } });
        assert_eq!(said(some), [(Grade::Look, "1 of 2 origins: a is down (refused)".to_owned())]);
        let none = said(json!({ "pools": { "p": { "origins": { "a": down } } } }));
        assert_eq!(none[0], (Grade::Grave, "no origin is in service".to_owned()));
        assert_eq!(none[1].0, Grade::Grave);
    }

    #[test]
    fn errors_count_by_their_part_of_the_last_minute_alone() {
        let pool = |errors: Vec<u64>| {
            let recent = json!({ "requests": vec![100; errors.len()], "errors": errors });
            said(json!({ "recent": { "step": 30.0 }, "pools": { "p": { "recent": recent } } }))
        };
        assert_eq!(pool(vec![100, 0, 0]), []);
        assert_eq!(pool(vec![0, 0, 3])[0].0, Grade::Look);
        assert_eq!(pool(vec![0, 5, 5]), [(Grade::Grave, "5.0% of the answers of the last minute are 5xx".to_owned())]);
    }

    #[test]
    fn what_waits_comes_and_goes_is_said() {
        let status = json!({
            "config": { "drift": true, "confirm": { "left": 42.0 } }, "upgrade": { "pid": 7, "over": false },
            "certificates": [{ "warning": "ends in 3 days" }], "probes_stretched": true,
            "pools": { "p": { "keys": { "warning": "few keys" }, "origins": {
                "a": { "state": "ramping", "why": "held: slow" },
                "b": { "state": "joining", "last_probe": { "result": "bad", "fault": "status 500" } },
            } } },
        });
        let texts: Vec<_> = said(status).into_iter().map(|(_, text)| text).collect();
        assert_eq!(
            texts,
            [
                "a configuration waits to be confirmed: it goes back in 42.0s",
                "the file says something else than what is in force",
                "more probes are due than may run: they come less often than configured",
                "ends in 3 days",
                "a does not grow: held: slow",
                "b wants to join, and its probe fails: status 500",
                "the process before (7) still ends its requests",
                "few keys",
                "2 origins are on the way",
            ]
        );
    }
}
