//! What is printed of a configuration: every default, and the schema of the file.

use serde_json::Value;

use super::*;
use crate::config::parse;
use crate::config::tests::{SMALLEST, config, examples, with_pool};

#[test]
fn what_is_dumped_loads_as_an_equal_configuration() {
    let texts = examples().into_iter().map(|(_, text)| text).chain([SMALLEST.to_owned()]);
    for text in texts {
        let written = config(&text);
        let dumped = dump(&written);
        assert_eq!(config(&dumped), written, "{dumped}");
        assert_eq!(dump(&config(&dumped)), dumped);
    }
}

#[test]
fn only_what_its_algorithm_reads_is_dumped_of_a_pool() {
    let dumped =
        |algorithm| dump(&config(&with_pool(&format!("balance: {{ algorithm: {algorithm} }}\n    origins: [a]"))));
    for (algorithm, keys) in [("hash", "key: on_missing:"), ("p2c", ""), ("peak_ewma", "decay:")] {
        let dumped = dumped(algorithm);
        for key in ["  key:", "on_missing:", "decay:"] {
            assert_eq!(dumped.contains(key), keys.contains(key.trim()), "{key} in\n{dumped}");
        }
        assert_eq!(dump(&config(&dumped)), dumped);
    }
}

#[test]
fn what_others_are_shown_has_no_password() {
    let shared = "{ name: NAME, rate: 1/s, shared: { redis: \"redis://u:hunter2@r/1\" } }";
    let [one, other] = ["one", "other"].map(|name| shared.replace("NAME", name));
    let routes = format!(
        "routes: [ {{ pool: origin, limits: {{ rate: [ {one}, {other} ] }} }}, \
         {{ match: {{ hosts: [h] }}, pool: origin, limits: {{ rate: {one} }} }} ]"
    );
    let config = config(&format!("{}{routes}\n", with_pool("origins: [a]")));
    let masked = dump_masked(&config);
    assert_eq!((masked.matches("redis://u:***@r:6379/1").count(), masked.contains("hunter2")), (3, false), "{masked}");
    assert_eq!(dump(&config).matches("redis://u:hunter2@r:6379/1").count(), 3, "but a file works");
}

#[test]
fn every_default_is_dumped() {
    let dumped = dump(&config(SMALLEST));
    for line in [
        "threads: auto",
        "address: 127.0.0.1:9180",
        "lame_duck: 8s",
        "keepalive: 65s",
        "key: '{host}{path}{args}'",
        "on_missing: spread",
        "weight: 1",
        "stream: 1h",
        "ratio: 20%",
        "floor: 10/s",
        "min_healthy: 50%",
        "panic: keep",
        "outlier_detection: off",
        "step: 50%",
        "recover: 30s",
        "slow: off",
        "window: 1m",
        "from: 10%",
        "error_ratio: 5%",
        "latency: 3x",
        "name: route-1",
        "tries: 2",
        "request_id: keep",
        "encoded_slash: refuse",
        "compression: off",
    ] {
        assert!(dumped.contains(line), "{line} is missing in\n{dumped}");
    }
}

/// The schema as a validator.
fn validator() -> jsonschema::Validator {
    jsonschema::validator_for(&schema()).unwrap()
}

fn as_json(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap()
}

#[test]
fn the_schema_takes_every_example_and_what_is_dumped_of_it() {
    let schema = validator();
    for (path, text) in examples() {
        for text in [&text, &dump(&config(&text))] {
            let problems: Vec<_> =
                schema.iter_errors(&as_json(text)).map(|e| format!("{}: {e}", e.instance_path())).collect();
            assert_eq!(problems, [""; 0], "{}", path.display());
        }
    }
}

#[test]
fn the_schema_takes_off_for_a_list_as_the_reader_does() {
    let schema = validator();
    for list in ["routes: off", "routes: [ { pool: origin, match: { hosts: off, query: false } } ]"] {
        let text = format!("{}{list}\n", with_pool("origins: [a]"));
        assert!(parse("f", &text).is_ok(), "{list}");
        assert!(schema.is_valid(&as_json(&text)), "{list}");
    }
    for needed in ["pools: off", "process: { listeners: off }", "pools: { origin: { origins: off } }"] {
        let text = format!("version: 1\n{needed}\n");
        assert!(parse("f", &text).is_err(), "{needed}");
        assert!(!schema.is_valid(&as_json(&text)), "{needed}");
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let schema = validator();
    for wrong in [
        "balence: {}",
        "balance: { algorithm: hahs }",
        "origins: [ { address: a, weight: 0 } ]",
        "protocol: h3",
        "timeouts: { read: 10 }",
        "health: { min_healthy: 50 }",
        "args: { keep: 1 }",
        "health: { probe: { rise: 0 } }",
    ] {
        let text = with_pool(wrong);
        assert!(parse("f", &text).is_err(), "{wrong}");
        assert!(!schema.is_valid(&as_json(&text)), "{wrong}");
    }
}

#[test]
fn everything_in_the_schema_is_described() {
    let schema = schema();
    let root = ("Config", &schema);
    let sections = schema["$defs"].as_object().unwrap().iter().map(|(name, section)| (name.as_str(), section));
    let mut count = 0;
    for (name, section) in sections.chain([root]) {
        for (key, value) in section["properties"].as_object().into_iter().flatten() {
            assert!(value["description"].is_string(), "{name}.{key}");
            count += 1;
        }
    }
    assert!(count > 60, "{count}");
}
