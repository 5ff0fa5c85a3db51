//! How often is each method sent for each thing that goes wrong? As the table of docs/retries.md says, cell by cell,
//! counted by the log, by the metrics and by the origins.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::rig::{self, Ask, Close, Door, Gateway, Origin, Step, on};

const METHODS: [&str; 7] = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH"];

/// The columns of the table: how the last try ends, and what the client is told.
const COLUMNS: [(&str, &str, u16); 8] = [
    ("refused", "connect_refused", 502),
    ("connect time-out", "connect_timeout", 504),
    ("stale, then reset", "reset", 502),
    ("reset", "reset", 502),
    ("broken off in the body", "closed_early", 200),
    ("read time-out", "response_timeout", 504),
    ("502", "ok", 502),
    ("503", "ok", 503),
];

/// The policies that have rows.
const POLICIES: [&str; 3] = ["built in", "`other: []`", "`tries: 1`"];

/// How a route says each: nothing, what the shipped profile says, what its example that fails fast says.
fn policies() -> [String; 3] {
    let shipped = [include_str!("../../conf/moorgate.yaml"), include_str!("../../conf/examples/fail-fast.yaml")];
    let [profile, fail_fast] = shipped.map(|text| {
        let file: serde_yaml::Value = serde_yaml::from_str(text).unwrap();
        let retry = &file["routes"][0]["retry"];
        assert!(retry.is_mapping(), "its first route says how it retries");
        format!(", retry: {}", serde_json::to_string(retry).unwrap())
    });
    [String::new(), profile, fail_fast]
}

/// A request, and what became of it.
struct Cell {
    policy: usize,
    column: usize,
    method: &'static str,
    /// How often the origins saw it.
    seen: u64,
}

impl Cell {
    fn target(&self) -> String {
        format!("/{}/{}/{}", self.policy, self.column, self.method)
    }
}

/// The table: tries by policy, method and column.
fn documented() -> BTreeMap<(String, &'static str, String), u64> {
    let page = include_str!("../../docs/retries.md");
    let table = page.lines().skip_while(|line| !line.starts_with("| | refused")).take_while(|line| line.len() > 1);
    let rows: Vec<Vec<&str>> = table.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
    let mut tries = BTreeMap::new();
    for row in &rows[2..] {
        // **policy**: METHOD METHOD; without methods it is every one of them.
        let head: Vec<&str> = row[0].split("**").collect();
        for method in METHODS.into_iter().filter(|method| head[2].is_empty() || head[2].contains(method)) {
            for (column, number) in rows[0][1..].iter().zip(&row[1..]) {
                tries.insert((head[1].to_owned(), method, (*column).to_owned()), number.parse().unwrap());
            }
        }
    }
    tries
}

fn start() -> (Vec<Origin>, Gateway) {
    let all: Vec<Origin> = ["a", "b", "c"].map(rig::origin).into();
    let mut text = "pools:\n  p:\n    balance: { key: \"{path}\" }\n    health: { probe: off }\n    \
                    timeouts: { connect: 150ms, read: 300ms }\n    retry_budget: { ratio: 100%, floor: 1000/s }\n    \
                    origins: $origins\nroutes:\n"
        .to_owned();
    for (n, retry) in policies().iter().enumerate() {
        text.push_str(&format!("  - {{ match: {{ path: {{ prefix: /{n} }} }}, pool: p{retry} }}\n"));
    }
    // One shard has one pool of connections: what idles there is known.
    let gateway = rig::gateway(&text).process("threads", "1").origins(&all).start();
    (all, gateway)
}

/// Makes it go wrong at every origin, with no connection left from before.
fn go_wrong(all: &[Origin], gateway: &Gateway, column: &str) {
    let steps = match column {
        "reset" => vec![Step::End(Close::Rst)],
        "broken off in the body" => {
            let begun = rig::text("abc").framing(rig::Framing::Declared(10));
            vec![begun.into(), Step::End(Close::Rst)]
        }
        "read time-out" => vec![Step::Hang],
        status => status.parse().map_or(Vec::new(), |status| vec![Step::Answer(rig::answer(status))]),
    };
    for origin in all {
        origin.door(Door::Open);
        origin.close_idle(Close::Fin);
        origin.script([steps.iter().cloned().fold(on("*"), rig::Rule::then)]);
        match column {
            "refused" => origin.door(Door::Refuse),
            "connect time-out" => origin.door(Door::Deaf),
            _ => {}
        }
    }
    rig::eventually("no connection is kept", || {
        (gateway.metrics().sum("moorgate_upstream_connections", &[]) < 0.5).then_some(())
    });
}

/// A connection to the owner of this target that will turn out closed, and no better luck after it.
fn make_stale(all: &[Origin], gateway: &Gateway, target: &str) {
    go_wrong(all, gateway, "");
    all.iter().for_each(|origin| origin.script([]));
    assert_eq!(gateway.get(target).status, 200);
    for origin in all {
        let next = on("*").since_nth(2).then(Step::End(Close::Fin));
        origin.script([next, on("*").then(Step::End(Close::Rst))]);
    }
}

fn try_all(all: &[Origin], gateway: &Gateway) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (column, (name, ..)) in COLUMNS.iter().enumerate() {
        go_wrong(all, gateway, name);
        for (policy, method) in (0..POLICIES.len()).flat_map(|policy| METHODS.map(|method| (policy, method))) {
            let mut cell = Cell { policy, column, method, seen: 0 };
            if name.starts_with("stale") {
                make_stale(all, gateway, &cell.target());
            }
            all.iter().for_each(Origin::forget);
            let ask = Ask::new(method, &cell.target());
            let with_body = ["PUT", "POST", "PATCH"].contains(&method);
            let answer = gateway.client().send(&if with_body { ask.body("x") } else { ask });
            // What broke off is no answer; a HEAD has nothing that could.
            let broken = COLUMNS[column].1 == "closed_early" && method != "HEAD";
            assert_eq!(
                answer.map(|answer| answer.status).ok(),
                (!broken).then_some(COLUMNS[column].2),
                "{method} {name}"
            );
            cell.seen = all.iter().map(Origin::served).sum();
            cells.push(cell);
        }
    }
    cells
}

#[test]
fn b45_every_method_is_tried_as_often_as_documented_whatever_goes_wrong() {
    let (all, gateway) = start();
    let cells = try_all(&all, &gateway);
    let warmed = POLICIES.len() * METHODS.len();
    let log = gateway.await_log(cells.len() + warmed);
    let documented = documented();
    assert_eq!(documented.len(), cells.len(), "the table has other rows and columns");
    let mut attempts_in_all = warmed;
    for cell in &cells {
        let (column, outcome, _) = COLUMNS[cell.column];
        let policy = POLICIES[cell.policy];
        let what = format!("{policy}: {} {column}", cell.method);
        // The line of a stale connection's warm-up comes first.
        let line = log.iter().rfind(|line| line["uri"] == cell.target()).unwrap();
        let attempts: Vec<&str> =
            line["attempts"].as_array().unwrap().iter().filter_map(|attempt| attempt["outcome"].as_str()).collect();
        assert_eq!(
            attempts.len() as u64,
            documented[&(policy.to_owned(), cell.method, column.to_owned())],
            "{what}: {line}"
        );
        let never_sent = outcome.starts_with("connect_");
        assert_eq!(cell.seen, if never_sent { 0 } else { attempts.len() as u64 }, "{what}: what origins saw");
        let last = match (column, attempts.len(), cell.method) {
            ("stale, then reset", 1, _) => "stale",
            ("broken off in the body", _, "HEAD") => "ok",
            _ => outcome,
        };
        assert_eq!(attempts.last(), Some(&last), "{what}: {line}");
        assert_eq!(line["error"] == Value::Null, last == "ok", "{what}: {line}");
        attempts_in_all += attempts.len();
    }
    let counted = gateway.metrics().sum("moorgate_attempts_total", &[]);
    assert!((counted - attempts_in_all as f64).abs() < 0.5, "{counted} counted, {attempts_in_all} in the log");
}
