//! What does a change move? Said before it is made, and held to what the change then does.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::rig::{self, Gateway, Origin, keys, map};

const KEYS: usize = 2000;

/// A pool with these origins.
fn pool(origins: &[Origin], more: &str) -> String {
    let list: Vec<String> =
        origins.iter().map(|o| format!("{{ address: \"{}\", name: \"{}\" }}", o.address, o.name)).collect();
    format!(
        "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, slow_start: off, {more} origins: [{}] }} }}\n",
        list.join(", ")
    )
}

fn moorgate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_moorgate")).args(arguments).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Puts another file beside the running one, and plans the change.
fn plan(gateway: &mut Gateway, after: &str, more: &[&str]) -> (Value, Output) {
    let (before, file) = (gateway.path("before.yaml"), gateway.path("moorgate.yaml"));
    std::fs::copy(&file, &before).unwrap();
    gateway.rewrite(after);
    let output = moorgate(&[&["plan", "--json", "--from", text(&before), "--to", text(&file)], more].concat());
    let said = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (said, output)
}

fn write_keys(gateway: &Gateway, keys: &[String]) -> String {
    let path = gateway.path("keys");
    std::fs::write(&path, keys.join("\n")).unwrap();
    text(&path).to_owned()
}

#[test]
fn b1_p3_what_is_planned_is_what_the_reload_then_does() {
    let all: Vec<Origin> = ["a", "b", "c", "d"].map(rig::origin).into();
    let mut gateway = rig::gateway(&pool(&all[..3], "")).start();
    let all_keys = keys(KEYS);
    let before = map(gateway.address(), &all_keys);
    let file = write_keys(&gateway, &all_keys);
    let (said, output) = plan(&mut gateway, &pool(&all, ""), &["--keys", &file]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let planned = &said["pools"]["p"];
    gateway.reload();
    gateway.await_state("p", "d", "up");
    let after = map(gateway.address(), &all_keys);
    let moved: Vec<&String> = all_keys.iter().filter(|key| before[*key] != after[*key]).collect();
    assert_eq!((&planned["keys"], &planned["moved"]), (&json!(KEYS), &json!(moved.len())));
    for pair in planned["pairs"].as_array().unwrap() {
        let (from, to) = (pair["from"].as_str().unwrap(), pair["to"].as_str().unwrap());
        let count = moved.iter().filter(|key| before[**key] == from && after[**key] == to).count();
        assert_eq!(pair["keys"], json!(count), "{pair}");
    }
    let told = gateway.status()["pools"]["p"]["ring"]["moved_ratio"].as_f64().unwrap();
    assert!((planned["circle"].as_f64().unwrap() - told).abs() < 1e-9, "the status says {told}");
    assert!((planned["moved_ratio"].as_f64().unwrap() - told).abs() < 0.05);
}

#[test]
fn access_logs_of_ours_are_planned_by() {
    let all: Vec<Origin> = ["a", "b", "c"].map(rig::origin).into();
    for format in ["json", "upstream"] {
        let log = format!("{{ path: $dir/kept.log, format: {format} }}");
        let mut gateway = rig::gateway(&pool(&all[..2], "")).process("access_log", &log).start();
        let all_keys = keys(300);
        let before = map(gateway.address(), &all_keys);
        map(gateway.address(), &all_keys[..100]);
        let path = gateway.path("kept.log");
        rig::eventually("400 log lines", || {
            std::fs::read_to_string(&path).is_ok_and(|text| text.lines().count() == 400).then_some(())
        });
        let (said, _) = plan(&mut gateway, &pool(&all[..1], ""), &["--access-log", text(&path)]);
        let planned = &said["pools"]["p"];
        let moved = before.values().filter(|origin| *origin == "b").count();
        assert_eq!((&planned["keys"], &planned["moved"]), (&json!(300), &json!(moved)), "{format}");
        assert_eq!((&planned["requests"]["total"], &said["skipped"]), (&json!(400), &json!(0)), "{format}");
    }
}

#[test]
fn a_change_the_guard_refuses_exits_3_with_the_greatest_step() {
    let all: Vec<Origin> = ["a", "b", "c", "d"].map(rig::origin).into();
    let mut gateway = rig::gateway(&pool(&all[..2], "")).start();
    let guarded = pool(&all, "guard: { max_moved: 40% },");
    let (said, output) = plan(&mut gateway, &guarded, &[]);
    assert_eq!((output.status.code(), &said["refused"]), (Some(3), &json!(true)));
    let guard = &said["pools"]["p"]["guard"];
    assert_eq!(guard["step"]["origins"].as_array().map(Vec::len), Some(1), "{guard}");
    let (before, file) = (gateway.path("before.yaml"), gateway.path("moorgate.yaml"));
    let shown = moorgate(&["plan", "--from", text(&before), "--to", text(&file)]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("guard       refused: ") && shown.contains("a step that passes: add "), "{shown}");
    assert!(!shown.contains('\x1b'), "no colours in a pipe: {shown}");
}

#[test]
fn files_and_lines_that_are_wrong_are_told_with_their_exit_codes() {
    let conf = concat!(env!("CARGO_MANIFEST_DIR"), "/conf/moorgate.yaml");
    let mistakes = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/every-mistake.yaml");
    for (arguments, code, said) in [
        (&["--from", conf, "--to", mistakes][..], 1, "every-mistake.yaml:2:10: version: "),
        (&["--from", conf, "--to", "/none/such"], 1, "/none/such: cannot be read"),
        (&["--from", conf, "--to", conf, "--keys", "/none/such"], 1, "/none/such: No such file"),
        (&["--from", conf, "--to", conf, "--access-log", conf], 1, "none of its "),
        (&["--from", conf, "--to", conf, "--pool", "none"], 2, "no pool \"none\" in both files"),
        (&["--from", conf, "--to", conf, "--access-log", "/dev/null", "--log-format", "$a"], 2, "it names no path"),
        (&["--from", conf, "--to", conf, "--hit-ratio", "90"], 2, "expected a share from 0% to 100%"),
    ] {
        let output = moorgate(&[&["plan"], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
}
