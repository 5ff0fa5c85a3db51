//! Do the files of docker/ and the runbook say what is so? What they serve can be served, what they measure is measured,
//! and whoever stops a gateway leaves it the time to drain.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_yaml::Value;

use crate::config::{self, Config};
use crate::observe::Metrics;
use crate::snapshot::Snapshot;

/// Where those who are not on the machine ask.
const ADMIN: &str = "0.0.0.0:9180";

fn file(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn documents(name: &str) -> Vec<Value> {
    let text = file(name);
    let documents = serde_yaml::Deserializer::from_str(&text).map(Value::deserialize);
    documents.collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The files below a folder of docker/ whose name ends so.
fn below(folder: &str, end: &str) -> Vec<String> {
    let found = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
    let names = found.map(|entry| format!("{folder}/{}", entry.unwrap().file_name().to_string_lossy()));
    names.filter(|name| name.ends_with(end)).collect()
}

/// What a text of ours says, once it is sure that it could be served.
fn served(name: &str, text: &str) -> Config {
    let metrics = Metrics::new().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the clock of the test")]
    let compile = |config: &Config| Snapshot::compile(config, None, &metrics, Instant::now());
    let (loaded, _) = config::parse_with(name, text, compile).unwrap_or_else(|report| panic!("{report}"));
    assert!(loaded.warnings.iter().all(|warning| warning.path.ends_with("probe")), "{:?}", loaded.warnings);
    loaded.config
}

fn takes_to_leave(config: &Config) -> Duration {
    config.process.drain.lame_duck.0 + config.process.drain.timeout.0
}

fn admin(config: &Config) -> String {
    config.process.admin.on().unwrap().address.to_string()
}

#[test]
fn every_configuration_can_be_served_and_is_asked_at_one_port() {
    let map = &documents("docker/kubernetes/configmap.yaml")[0]["data"]["moorgate.yaml"];
    let map = map.as_str().unwrap().to_owned();
    let names = ["docker/moorgate.yaml", "docker/compose/moorgate.yaml"];
    let all = names.map(|name| (name, file(name))).into_iter().chain([("the ConfigMap", map)]);
    for (name, text) in all {
        assert_eq!(admin(&served(name, &text)), ADMIN, "{name}");
    }
}

#[test]
fn whoever_stops_a_gateway_leaves_it_time_to_drain() {
    let compose = &documents("docker/compose.yaml")[0];
    let seconds = compose["x-gateway"]["stop_grace_period"].as_str().unwrap().trim_end_matches('s').parse().unwrap();
    let config = served("compose", &file("docker/compose/moorgate.yaml"));
    assert!(takes_to_leave(&config) < Duration::from_secs(seconds));
    let deployment = &documents("docker/kubernetes/deployment.yaml")[0];
    let seconds = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap();
    let map = &documents("docker/kubernetes/configmap.yaml")[0]["data"]["moorgate.yaml"];
    assert!(takes_to_leave(&served("the ConfigMap", map.as_str().unwrap())) < Duration::from_secs(seconds));
    let unit = file("docker/systemd/moorgate.service");
    let seconds = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).unwrap();
    let seconds = seconds.trim_end_matches('s').parse().unwrap();
    assert!(takes_to_leave(&served("the image", &file("docker/moorgate.yaml"))) < Duration::from_secs(seconds));
}

#[test]
fn every_file_can_be_read() {
    for folder in ["docker", "docker/compose", "docker/kubernetes", "docker/prometheus", "docker/grafana"] {
        for name in below(folder, ".yaml") {
            let documents = documents(&name);
            assert!(!documents.is_empty() && documents.iter().all(Value::is_mapping), "{name}");
            let has_kind = |document: &Value| document["kind"].is_string() && document["apiVersion"].is_string();
            assert!(folder != "docker/kubernetes" || documents.iter().all(has_kind), "{name}");
        }
    }
    let board: serde_json::Value = serde_json::from_str(&file("docker/grafana/moorgate.json")).unwrap();
    assert!(board["panels"].as_array().unwrap().len() > 10);
}

/// By name, the labels of what docs/metrics.md lists, and whether it is a histogram; that list is held to the code elsewhere.
fn listed() -> HashMap<String, (Vec<String>, bool)> {
    let text = file("docs/metrics.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `moorgate_"));
    let row = |row: &str| {
        let mut cells = row.split(" | ");
        let name = format!("moorgate_{}", cells.next()?.trim_end_matches('`'));
        let kind = cells.next()?.to_owned();
        let labels = cells.next()?.split(", ").map(|label| label.trim_matches(['`', ' ', '|']).to_owned());
        Some((name, (labels.collect(), kind == "histogram")))
    };
    rows.filter_map(row).collect()
}

/// What a text calls a metric, with the labels it is asked by.
fn named(text: &str) -> Vec<(String, Vec<String>)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let starts = text.match_indices("moorgate_").map(|(at, _)| at);
    // what is recorded has a colon in its name, and a folder or label of ours no end of a word before it
    let starts = starts.filter(|at| !text[..*at].ends_with(|c: char| is_part(c) || c == '/' || c == '-'));
    let read = |at: usize| {
        let rest = &text[at..];
        let (name, rest) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
        let asked = rest.strip_prefix('{').and_then(|rest| Some(rest.split_once('}')?.0)).unwrap_or_default();
        let label = |part: &str| Some(part.split(['=', '!']).next()?.trim_matches(['"', '\\', ' ']).to_owned());
        (name.to_owned(), asked.split(',').filter_map(label).filter(|label| !label.is_empty()).collect())
    };
    starts.map(read).filter(|(name, _): &(String, Vec<String>)| !name.contains(':')).collect()
}

#[test]
fn rules_boards_and_the_runbook_name_metrics_that_exist() {
    let listed = listed();
    assert!(listed.len() > 20, "the list was not found");
    for name in ["docker/prometheus/rules.yaml", "docker/grafana/moorgate.json", "docs/runbook.md"] {
        let found = named(&file(name));
        assert!(found.len() > 5, "{name}: nothing was found");
        for (metric, labels) in found {
            let whole = ["_bucket", "_sum", "_count"].iter().find_map(|part| metric.strip_suffix(part));
            let histogram = whole.and_then(|whole| listed.get(whole)).filter(|(_, histogram)| *histogram);
            let Some((known, _)) = histogram.or_else(|| listed.get(&metric)) else { panic!("{name}: no {metric}") };
            let unknown = labels.iter().find(|label| !known.contains(label) && *label != "instance");
            assert_eq!(unknown, None, "{name}: no such label of {metric}");
        }
    }
}

#[test]
fn the_runbook_says_of_each_alert_what_to_do() {
    let (rules, runbook) = (file("docker/prometheus/rules.yaml"), file("docs/runbook.md"));
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 15, "{alerts:?}");
    for alert in alerts {
        assert!(runbook.contains(&format!("\n| `{alert}`")), "{alert}");
    }
}

#[test]
fn a_name_that_is_wrong_would_be_found() {
    let text = "sum by (pool) (rate(moorgate_no_such_total{pool=\"a\", code!~\"5..\"}[1m])) / pool:moorgate_x:rate1m";
    assert_eq!(named(text), [("moorgate_no_such_total".to_owned(), vec!["pool".to_owned(), "code".to_owned()])]);
    let listed = listed();
    assert!(listed["moorgate_request_duration_seconds"].1 && !listed.contains_key("moorgate_no_such_total"));
    assert_eq!(listed["moorgate_requests_total"].0, ["route", "pool", "method", "code"]);
}
