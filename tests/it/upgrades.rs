//! Does another process take over, with what runs, what was learned and what the file says by now? Rules U1, U2, U4 and U9.

use std::collections::BTreeMap;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::rig::{self, Client, Gateway, Origin, eventually, on};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n";
/// One origin, which may be silent for long.
const PATIENT: &str = "pools: { p: { timeouts: { read: 60s }, origins: [{ address: \"$a\", name: a }] } }\n";
const DRAIN: &str = "{ lame_duck: 60s, timeout: 2s }";

fn serving(text: &str, origins: &[Origin]) -> Gateway {
    rig::gateway(text).origins(origins).process("drain", DRAIN).start()
}

fn three() -> Vec<Origin> {
    ["a", "b", "c"].map(rig::origin).into()
}

fn generation(gateway: &Gateway) -> u64 {
    gateway.status()["generation"].as_u64().unwrap()
}

/// Has another process take over, by command.
fn upgraded(gateway: &Gateway, arguments: &[&str]) {
    let output = gateway.upgrade(arguments);
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{errors}");
    assert!(told.starts_with("upgraded: process "), "{told}");
}

#[test]
fn u4_what_runs_goes_on_in_the_old_one_and_ends_by_itself() {
    let origins = three();
    origins[0].script([on("/slow").hold("gate").answer(200)]);
    let mut gateway = serving(PATIENT, &origins);
    let mut slow = rig::raw(gateway.address());
    slow.send("GET /slow HTTP/1.1\r\nHost: t\r\n\r\n");
    origins[0].await_held("gate", 1);
    let mut idle = rig::raw(gateway.address());
    idle.send("GET /a HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(idle.answer().status, 200);
    let first = gateway.pid();
    upgraded(&gateway, &[]);
    assert_eq!(idle.rest(), b"", "an idle connection is closed after drain.timeout");
    assert!(gateway.generations().contains(&first), "it serves what it accepted, longer than drain.timeout");
    assert_eq!(gateway.get("/b").status, 200);
    origins[0].release("gate");
    let answer = slow.answer();
    assert_eq!((answer.status, answer.closes()), (200, true));
    assert_eq!(gateway.exit(), 0);
}

/// Where keys go.
fn mapped(gateway: &Gateway) -> BTreeMap<String, String> {
    rig::map(gateway.address(), &rig::keys(300))
}

#[test]
fn u1_the_file_comes_into_force_when_the_old_one_is_quiet() {
    let origins = three();
    let text = |list: &str| POOL.replace("$origins", list).replace("origins:", "slow_start: off, origins:");
    let (two, all) = ("[{ address: \"$a\", name: a }, { address: \"$b\", name: b }]", "$origins");
    let drain = "{ lame_duck: 60s, timeout: 10s }";
    let mut gateway = rig::gateway(&text(two)).origins(&origins).process("drain", drain).start();
    let before = mapped(&gateway);
    gateway.swap(&text(all));
    // connections that may begin a request in the old one
    let mut older: Vec<Client> = (0..40).map(|_| gateway.client()).collect();
    older.iter_mut().for_each(|client| assert_eq!(client.get("/idle").status, 200));
    upgraded(&gateway, &["--no-wait"]);
    assert_eq!(generation(&gateway), 2);
    assert_eq!(gateway.status()["upgrade"]["over"], false);
    assert_eq!(mapped(&gateway), before, "the same ring as in the process before");
    for (client, (key, owner)) in older.iter_mut().skip(1).zip(&before) {
        assert_eq!(client.get(key).origin(), owner, "both place alike");
    }
    assert_eq!(gateway.metrics().sum("moorgate_config_drift", &[]), 1.0);
    let refused = gateway.command(&["reload"]);
    assert_eq!(refused.status.code(), Some(1));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("an upgrade is under way"), "{told}");
    eventually("the file is in force", || (gateway.status()["upgrade"]["file"]["result"] == "applied").then_some(()));
    gateway.await_state("p", "c", "up");
    assert!(mapped(&gateway).values().any(|owner| owner == "c"));
    assert_eq!(gateway.metrics().sum("moorgate_config_drift", &[]), 0.0);
    // what was served before is remembered across the upgrade
    assert_eq!(gateway.admin("POST", "/rollback").status, 200);
    assert_eq!(mapped(&gateway), before);
}

#[test]
fn u1_a_guard_refuses_the_file_and_the_upgrade_stands() {
    let origins = three();
    let text = |list: &str| POOL.replace("$origins", list).replace("origins:", "guard: { max_moved: 10% }, origins:");
    let mut gateway = serving(&text("[{ address: \"$a\", name: a }, { address: \"$b\", name: b }]"), &origins);
    let before = mapped(&gateway);
    gateway.swap(&text("$origins"));
    let output = gateway.upgrade(&[]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("the new process serves on with what was in force"), "{told}");
    assert_eq!((generation(&gateway), mapped(&gateway)), (2, before));
}

#[test]
fn listeners_are_those_of_the_new_file_and_the_kept_one_never_stops() {
    let origins = three();
    let gateway = rig::gateway(POOL).origins(&origins).process("drain", DRAIN).further_listener("").start();
    let (kept, gone) = (gateway.listeners[0], gateway.listeners[1]);
    let added = rig::ports::listener().unwrap();
    let address = added.local_addr().unwrap();
    gateway.edit(&gone.to_string(), &address.to_string());
    drop(added);
    let load = rig::load(kept).clients(2).rate(100.0).fresh_connections().start();
    upgraded(&gateway, &[]);
    load.stop().assert_all_good();
    assert_eq!(Client::new(address).get("/a").status, 200, "an added one is bound");
    assert!(rig::Raw::connect(gone).is_err(), "a removed one is closed");
}

/// An upgrade that is to fail: what was said.
fn fails(gateway: &Gateway, arguments: &[&str]) -> String {
    let output = gateway.upgrade(arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert_eq!((generation(gateway), gateway.get("/after").status), (1, 200));
    told
}

/// A program that does this.
fn program(gateway: &Gateway, name: &str, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = gateway.path(name);
    let binary = env!("CARGO_BIN_EXE_moorgate");
    std::fs::write(&path, format!("#!/bin/sh\n{}\n", script.replace("$moorgate", binary))).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
fn an_upgrade_that_cannot_be_changes_nothing_and_says_why() {
    let origins = three();
    let mut gateway = serving(POOL, &origins);
    let load = rig::load(gateway.address()).clients(2).rate(100.0).start();
    let fresh = rig::load(gateway.address()).clients(2).rate(100.0).fresh_connections().start();
    let told = fails(&gateway, &["--binary", "/nowhere/moorgate"]);
    assert!(told.contains("/nowhere/moorgate: No such file"), "{told}");
    let told = fails(&gateway, &["--binary", &program(&gateway, "dies", "exit 7")]);
    assert!(told.contains("(exit status: 7) before it had called"), "{told}");
    let good = std::fs::read_to_string(gateway.path("moorgate.yaml")).unwrap();
    gateway.swap("pools: { p: { origins: [] } }\n");
    let told = fails(&gateway, &[]);
    assert!(told.contains("pools.p.origins"), "{told}");
    // a port that is somebody else's
    let taken = rig::ports::listener().unwrap();
    std::fs::write(gateway.path("moorgate.yaml"), &good).unwrap();
    gateway.edit(&gateway.address().to_string(), &taken.local_addr().unwrap().to_string());
    let told = fails(&gateway, &[]);
    assert!(told.contains(&format!("cannot listen on {}", taken.local_addr().unwrap())), "{told}");
    std::fs::write(gateway.path("moorgate.yaml"), &good).unwrap();
    // what waits to be confirmed waits for its own process
    gateway.swap(&POOL.replace("{path}", "{path}{args}"));
    assert_eq!(gateway.command(&["reload", "--confirm", "60s", "--allow-moved", "100%"]).status.code(), Some(0));
    let told = fails(&gateway, &[]);
    assert!(told.contains("a change waits"), "{told}");
    assert_eq!(gateway.command(&["confirm"]).status.code(), Some(0));
    load.stop().assert_all_good();
    fresh.stop().assert_all_good();
    assert_eq!(gateway.generations().len(), 1, "nothing is left of any");
    upgraded(&gateway, &[]);
}

#[test]
fn a_new_process_that_dies_in_its_first_seconds_is_followed_by_the_old_one() {
    let origins = three();
    let gateway = serving(POOL, &origins);
    let load = rig::load(gateway.address()).clients(2).rate(100.0).fresh_connections().start();
    let dies = program(
        &gateway,
        "dies",
        "\"$moorgate\" \"$@\" & child=$!; until grep -q 'took over from' \"$(dirname \"$0\")/output\"; do sleep 0.05; done; sleep 1; kill -9 $child; exit 1",
    );
    let output = gateway.upgrade(&["--binary", &dies]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("was gone before it had served for long enough"), "{told}");
    assert_eq!((generation(&gateway), gateway.get("/after").status), (1, 200));
    load.further(20);
    let tally = load.stop();
    // it may have been answering when it was killed
    assert!(tally.failed.len() <= 2, "{:?}", tally.failed);
    upgraded(&gateway, &[]);
}

#[test]
fn no_more_than_three_generations_live_at_once() {
    let origins = three();
    origins[0].script([on("/slow").hold("gate").answer(200)]);
    let gateway = serving(PATIENT, &origins);
    let mut slow = Vec::new();
    for n in 1..=2 {
        let mut raw = rig::raw(gateway.address());
        raw.send("GET /slow HTTP/1.1\r\nHost: t\r\n\r\n");
        origins[0].await_held("gate", n);
        slow.push(raw);
        upgraded(&gateway, &[]);
    }
    assert_eq!(gateway.generations().len(), 3);
    let output = gateway.upgrade(&[]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("no more generations live at once"), "{told}");
    origins[0].release("gate");
    slow.iter_mut().for_each(|raw| assert_eq!(raw.answer().status, 200));
    eventually("they have left", || (gateway.generations().len() == 1).then_some(()));
    let status: Value = gateway.status();
    assert_eq!(status["generation"], 3);
}

#[test]
fn u9_another_process_may_take_over_by_itself() {
    let origins = three();
    let mut gateway = serving(POOL, &origins);
    let load = rig::load(gateway.address()).clients(2).rate(100.0).fresh_connections().start();
    let socket = gateway.path("control.sock").to_string_lossy().into_owned();
    let next = gateway.beside(&["run", "--takeover", &socket]);
    assert_eq!(gateway.exit(), 0);
    assert_eq!(generation(&gateway), 2);
    load.further(20);
    load.stop().assert_all_good();
    assert!(gateway.path("control.sock").exists());
    drop(next);
}

/// Has a log that some process still writes to been moved away?
fn is_written(gateway: &Gateway, name: &str) -> bool {
    let log = gateway.path(name);
    let open = |pid: i32| {
        let all = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).any(|link| link == log)
    };
    gateway.generations().into_iter().any(open)
}

#[test]
fn u7_u3_whoever_still_drains_opens_its_log_anew_and_all_it_does_is_counted() {
    let origins = three();
    origins[0].script([on("/slow").hold("gate").answer(200)]);
    let mut gateway = rig::gateway(PATIENT).origins(&origins).process("drain", "{ timeout: 500ms }").start();
    let mut slow = rig::raw(gateway.address());
    slow.send("GET /slow HTTP/1.1\r\nHost: t\r\n\r\n");
    origins[0].await_held("gate", 1);
    upgraded(&gateway, &[]);
    assert_eq!(gateway.get("/b").status, 200);
    upgraded(&gateway, &[]);
    assert_eq!(gateway.generations().len(), 3, "the second one tells what the first one counts");
    gateway.await_log(1);
    std::fs::rename(gateway.path("access.log"), gateway.path("access.log.1")).unwrap();
    kill(Pid::from_raw(*gateway.generations().last().unwrap()), Signal::SIGUSR1).unwrap();
    eventually("all of them write to a new one", || (!is_written(&gateway, "access.log.1")).then_some(()));
    origins[0].release("gate");
    assert_eq!(slow.answer().status, 200);
    assert_eq!(gateway.exit(), 0);
    eventually("the second one leaves too", || (gateway.generations().len() == 1).then_some(()));
    assert_eq!(gateway.logged("/slow")["status"], 200);
    eventually("both are counted", || (gateway.metrics().sum("moorgate_requests_total", &[]) == 2.0).then_some(()));
}

/// A script may start the real program in any way.
#[test]
fn a_script_in_place_of_the_program_leaves_nobody_behind() {
    let origins = three();
    let gateway = serving(POOL, &origins);
    let leaves = program(&gateway, "leaves", "\"$moorgate\" \"$@\" & exit 0");
    let told = fails(&gateway, &["--binary", &leaves]);
    assert!(told.contains("(exit status: 0) before it had called"), "{told}");
    assert_eq!(gateway.generations().len(), 1);
    let waits = program(&gateway, "waits", "\"$moorgate\" \"$@\" & wait $!");
    upgraded(&gateway, &["--binary", &waits]);
    assert_eq!(generation(&gateway), 2);
}
