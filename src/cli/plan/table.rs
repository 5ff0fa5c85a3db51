//! A plan for people: a few lines on each pool, then who gives keys to whom, and who has how much.

use super::super::moves::{Lines, grouped, listed};
use super::report::{CauseReport, Extra, PairReport, PoolReport, Report};
use crate::config::units::Percent;

/// All of it; with colours for a terminal.
pub(super) fn show(report: &Report, colour: bool) -> String {
    let mut out = Shown(Lines::new(colour));
    for (name, pool) in &report.pools {
        out.0.gap();
        out.pool(name, pool, report.source);
    }
    out.rest(report);
    out.0.into_text()
}

struct Shown(Lines);

impl Shown {
    fn pool(&mut self, name: &str, pool: &PoolReport, source: &str) {
        let from = match source {
            "generated" => ", made up",
            "access_log" => " of the access log",
            "sample" => " of the running gateway",
            _ => "",
        };
        let about = if pool.one_of > 1 { "about " } else { "" };
        self.0.line(&format!("pool {name}"), &format!("{about}{} keys{from}", grouped(pool.keys)));
        let requests = &pool.requests;
        let of_requests = match (source, requests.total) {
            ("generated", _) | (_, 0) => String::new(),
            _ => format!(", {} of {} requests", Percent::told(requests.moved_ratio), grouped(requests.total)),
        };
        self.0
            .line("moved", &format!("{} keys ({}){of_requests}", grouped(pool.moved), Percent::told(pool.moved_ratio)));
        self.0.least(pool.least_possible, pool.circle);
        self.0.line("excess", &format!("{:.1} points", pool.excess * 100.0));
        if requests.spread > 0 {
            self.0.line("spread", &format!("{} requests have no key and go anywhere", grouped(requests.spread)));
        }
        pool.causes.iter().for_each(|cause| self.cause(cause));
        pool.guard.iter().for_each(|guard| self.0.guard(guard));
        pool.extra_origin_requests.iter().for_each(|extra| self.extra(extra));
        let row = |pair: &PairReport| {
            let cells = vec![pair.from.clone(), pair.to.clone(), grouped(pair.keys), grouped(pair.requests)];
            (cells, pair.keys as f64)
        };
        let left_out = |rest: &[PairReport]| format!("{} keys", grouped(rest.iter().map(|pair| pair.keys).sum()));
        self.0.pairs(&["KEYS", "REQUESTS"], &pool.pairs, row, left_out);
        self.0.shares(pool.shares.iter().map(|(name, share)| (name.as_str(), share.before, share.after)));
    }

    fn cause(&mut self, cause: &CauseReport) {
        let (what, instead, moved) = match cause {
            CauseReport::Argument { argument, requests, distinct, line, moved_ratio, now, then, keys } => {
                let share = format!(
                    "in {} of the requests, {} of its values distinct",
                    Percent::told(*requests),
                    Percent::told(*distinct)
                );
                self.0.line("likely why", &format!("argument {argument}: {share}"));
                self.0
                    .line("", &format!("what is asked for meets another origin {} of the time,", Percent::told(*now)));
                let keys = format!("{} of {} keys move then", Percent::told(*moved_ratio), grouped(*keys));
                return self.0.line("", &format!("with {line} {}; {keys}", Percent::told(*then)));
            }
            CauseReport::Renamed { spelling, origins, lines, moved_ratio } => {
                let names: Vec<String> = origins.iter().map(|[old, new]| format!("{old} is {new} now")).collect();
                let why = match *spelling {
                    "loopback" => "the same machine",
                    "port" => "a port in one name alone",
                    _ => "the same address",
                };
                (format!("{}: {why}, another name, other keys", listed(&names)), listed(lines), moved_ratio)
            }
            CauseReport::Rescaled { factor, lines, moved_ratio } => {
                (format!("all weights are {factor} times what they were"), listed(lines), moved_ratio)
            }
            CauseReport::Key { setting, before, after, moved_ratio } => {
                (format!("{setting} was {before}, is {after}: other keys for everything"), before.clone(), moved_ratio)
            }
        };
        self.0.line("likely why", &what);
        self.0.line("", &format!("with {instead} {} of the circle moves", Percent::told(*moved)));
    }

    fn extra(&mut self, extra: &Extra) {
        let (before, after) = (Percent::told(extra.missed_before), Percent::told(extra.missed_after));
        let times = if extra.missed_before > 0.0 {
            format!(", {:.1} times as many", extra.missed_after / extra.missed_before)
        } else {
            String::new()
        };
        self.0.line("misses", &format!("{before} of the requests now, {after} right after the change{times}"));
        if let Some(requests) = extra.requests {
            self.0.line("", &format!("about {} more until every moved key was fetched once", grouped(requests)));
        }
    }

    fn rest(&mut self, report: &Report) {
        let mut notes = Vec::new();
        let named = |names: &[String]| names.join(", ");
        if !report.added.is_empty() {
            notes.push(("new", format!("pools without a before: {}", named(&report.added))));
        }
        if !report.removed.is_empty() {
            notes.push(("gone", format!("pools without an after: {}", named(&report.removed))));
        }
        for rerouted in &report.rerouted {
            let what = format!("{} requests go to pool {} now", grouped(rerouted.requests), rerouted.to);
            notes.push(("rerouted", format!("{what}, not to {}", rerouted.from)));
        }
        if report.elsewhere > 0 {
            notes.push(("elsewhere", format!("{} requests go to no pool looked at here", grouped(report.elsewhere))));
        }
        if report.unknown > 0 {
            let what = "requests have a key that hangs on what this source does not tell";
            notes.push(("unknown", format!("{} {what}", grouped(report.unknown))));
        }
        if let Some(first) = &report.first_skipped {
            notes.push(("skipped", format!("{} lines could not be read, the first {first}", grouped(report.skipped))));
        }
        if !notes.is_empty() {
            self.0.gap();
        }
        notes.iter().for_each(|(label, text)| self.0.line(label, text));
        if report.pools.is_empty() {
            self.0.line("nothing", "no pool is in both files");
        }
    }
}
