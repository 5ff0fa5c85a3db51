//! What does a supervised gateway survive? A crash costs only the requests it was answering; whoever connects waits, and
//! the next process serves what was served. Rules U5, U6 and U9.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::rig::{self, Gateway, Origin, Way, eventually, on};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n";

fn supervised(origins: &[&Origin]) -> Gateway {
    let origins = origins.iter().copied();
    rig::gateway(POOL).origins(origins).started_by(Way::Supervised).start()
}

/// The process that serves.
fn serving(gateway: &Gateway) -> i32 {
    eventually("a process that serves", || gateway.children().first().copied())
}

/// Crashes the process that serves; the number it had.
fn crash(gateway: &Gateway) -> i32 {
    let pid = serving(gateway);
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    pid
}

fn another_serves(gateway: &Gateway, than: i32) {
    eventually("another process", || gateway.children().into_iter().find(|pid| *pid != than));
    assert_eq!(gateway.get("/x").status, 200);
}

fn refuses(gateway: &Gateway) {
    eventually("connections are refused", || rig::Raw::connect(gateway.address()).is_err().then_some(()));
}

fn placed(gateway: &Gateway) -> BTreeMap<String, String> {
    (0..200).map(|n| format!("/obj/{n}")).map(|key| (key.clone(), gateway.get(&key).origin().to_owned())).collect()
}

#[test]
fn u6_a_crash_refuses_nobody_and_costs_only_what_was_being_answered() {
    let (a, b) = (rig::origin("a"), rig::origin("b"));
    for origin in [&a, &b] {
        origin.script([on("/held").hold("gate").answer(200)]);
    }
    let gateway = supervised(&[&a, &b]);
    let mut held = rig::raw(gateway.address());
    held.send("GET /held HTTP/1.1\r\nHost: t\r\n\r\n");
    eventually("it is under way", || (a.served() + b.served() > 0).then_some(()));
    let load = rig::load(gateway.address()).clients(4).rate(200.0).fresh_connections().start();
    load.further(100);
    let first = crash(&gateway);
    assert_eq!(held.rest(), b"", "it was being answered");
    another_serves(&gateway, first);
    load.further(200);
    let tally = load.stop();
    assert!(tally.by_status.keys().eq([&200]), "{:?}", tally.by_status);
    assert!(tally.failed.len() <= 4, "each client has one request at a time: {:?}", tally.failed);
    assert!(!tally.failed.iter().any(|why| why.contains("refused")), "{:?}", tally.failed);
}

#[test]
fn u6_crashes_in_a_row_wait_longer_and_longer() {
    let a = rig::origin("a");
    let gateway = supervised(&[&a]);
    let mut waits = Vec::new();
    for _ in 0..4 {
        let began = Instant::now();
        let pid = crash(&gateway);
        another_serves(&gateway, pid);
        waits.push(began.elapsed());
    }
    let said = gateway.output();
    for wait in ["0ns", "100ms", "200ms", "400ms"] {
        assert!(said.contains(&format!("starting again in {wait}; 2 sockets are held")), "{wait}: {said}");
    }
    assert!(waits[3] >= Duration::from_millis(400), "{waits:?}");
}

#[test]
fn u6_after_a_crash_what_was_served_is_served_when_the_file_is_broken() {
    let all: Vec<Origin> = ["a", "b", "c"].map(rig::origin).into();
    let pool = "pools: { p: { balance: { key: \"{path}\" }, slow_start: off, origins: [";
    let named = |names: &[&str]| {
        let one = |name: &&str| format!("{{ address: \"${name}\", name: {name} }}");
        format!("{pool}{}] }} }}\n", names.iter().map(one).collect::<Vec<_>>().join(", "))
    };
    let mut gateway = rig::gateway(&named(&["a", "b"])).origins(&all).started_by(Way::Supervised).start();
    gateway.change(&named(&["a", "b", "c"]));
    gateway.await_state("p", "c", "up");
    let (before, ring) = (placed(&gateway), gateway.status()["pools"]["p"]["ring"]["fingerprint"].clone());
    let file = gateway.path("moorgate.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, &text[..text.len() - 20]).unwrap();
    // A machine that has much else to do is given more than one try.
    let at_once = || {
        let began = Instant::now();
        let crashed = crash(&gateway);
        another_serves(&gateway, crashed);
        began.elapsed() < Duration::from_secs(1)
    };
    assert!((0..4).any(|_| at_once()), "it serves within a second");
    assert_eq!(gateway.status()["pools"]["p"]["ring"]["fingerprint"], ring);
    assert_eq!(placed(&gateway), before);
    assert_eq!(gateway.metrics().sum("moorgate_config_drift", &[]), 1.0);
    assert!(gateway.output().contains("serving the text that was served last"), "{}", gateway.output());
    fs::write(&file, &text).unwrap();
    assert_eq!(gateway.reload()["result"], "unchanged");
    assert_eq!(gateway.metrics().sum("moorgate_config_drift", &[]), 0.0);
}

#[test]
fn u6_after_a_crash_what_was_rolled_back_is_not_served() {
    let a = rig::origin("a");
    let text =
        |name: &str| format!("pools: {{ p: {{ origins: $origins }} }}\nroutes: [ {{ name: {name}, pool: p }} ]\n");
    let mut gateway = rig::gateway(&text("good")).origins([&a]).started_by(Way::Supervised).start();
    let digest = |gateway: &Gateway| gateway.status()["config"]["digest"].clone();
    let good = digest(&gateway);
    gateway.change(&text("bad"));
    assert_eq!(gateway.command(&["rollback"]).status.code(), Some(0));
    let first = crash(&gateway);
    another_serves(&gateway, first);
    assert_eq!((digest(&gateway), gateway.metrics().sum("moorgate_config_drift", &[])), (good, 1.0));
}

#[test]
fn u5_term_and_a_drain_end_the_supervisor_as_they_end_the_process() {
    for by_command in [false, true] {
        let a = rig::origin("a");
        a.script([on("/slow").hold("gate").answer(200)]);
        let mut gateway = rig::gateway(POOL)
            .origins([&a])
            .started_by(Way::Supervised)
            .process("drain", "{ lame_duck: 0s, timeout: 20s }")
            .start();
        let mut slow = rig::raw(gateway.address());
        slow.send("GET /slow HTTP/1.1\r\nHost: t\r\n\r\n");
        a.await_held("gate", 1);
        if by_command {
            assert_eq!(gateway.admin("POST", "/drain").status, 200);
        } else {
            gateway.signal(Signal::SIGTERM);
        }
        // nobody waits in a queue that nobody serves any more
        refuses(&gateway);
        assert!(gateway.running(), "somebody is still being served");
        a.release("gate");
        assert_eq!(slow.answer().status, 200);
        assert_eq!(gateway.exit(), 0);
    }
}

#[test]
fn a_supervisor_passes_signals_on_and_ends_as_the_process_did() {
    let a = rig::origin("a");
    let mut gateway = supervised(&[&a]);
    assert_eq!(gateway.get("/before").status, 200);
    gateway.signal(Signal::SIGHUP);
    eventually("the file is read again", || gateway.output().contains("the file says the same").then_some(()));
    gateway.await_log(1);
    fs::rename(gateway.path("access.log"), gateway.path("access.log.1")).unwrap();
    gateway.signal(Signal::SIGUSR1);
    eventually("a new file", || gateway.path("access.log").exists().then_some(()));
    gateway.signal(Signal::SIGINT);
    assert_eq!(gateway.exit(), 130);
    assert!(!gateway.path("control.sock").exists(), "the process had its time");
}

#[test]
fn what_never_served_is_not_started_again() {
    let run = |arguments: &[&str]| {
        let ended = Command::new(env!("CARGO_BIN_EXE_moorgate")).arg("supervise").args(arguments).output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none.yaml");
    let (code, said) = run(&["--", "run", "--config", none.to_str().unwrap()]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("none.yaml") && !said.contains("starting again"), "{said}");
    assert_eq!(run(&["--", "run", "--no-such"]).0, Some(2));
    let (code, said) = run(&["--", "demo"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("supervise takes `run`"), "{said}");
}

#[test]
fn a_supervisor_reaps_whoever_is_left_to_it() {
    let a = rig::origin("a");
    let gateway = rig::gateway(POOL).origins([&a]).started_by(Way::SupervisedWithChildren).start();
    let read = || fs::read_to_string(gateway.path("orphan")).ok()?.trim().parse::<i32>().ok();
    let orphan = eventually("its number", read);
    fs::write(gateway.path("go"), "").unwrap();
    eventually("it is left to the supervisor", || gateway.children().contains(&orphan).then_some(()));
    kill(Pid::from_raw(orphan), Signal::SIGKILL).unwrap();
    eventually("it is waited for", || (!Path::new(&format!("/proc/{orphan}")).exists()).then_some(()));
    eventually("the one that serves is left alone", || (gateway.children().len() == 1).then_some(()));
    assert_eq!(gateway.get("/x").status, 200);
}

#[test]
fn status_ready_says_by_its_exit_code_what_a_balancer_is_told() {
    let a = rig::origin("a");
    let mut gateway = rig::gateway(POOL).origins([&a]).process("drain", "{ lame_duck: 20s, timeout: 1s }").start();
    let ready = |gateway: &Gateway| {
        let ended = gateway.command(&["status", "--ready"]);
        (ended.status.code(), String::from_utf8(ended.stdout).unwrap().trim().to_owned())
    };
    assert_eq!(ready(&gateway).0, Some(0), "{:?}", ready(&gateway));
    assert_eq!(gateway.get("/x").status, 200);
    gateway.signal(Signal::SIGTERM);
    eventually("it drains", || (ready(&gateway) == (Some(1), "draining".to_owned())).then_some(()));
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.exit(), 130);
    assert_eq!(ready(&gateway), (Some(1), String::new()), "nobody answers");
}

/// A short wait for what idles, so that the process before is soon gone.
fn upgradable(origins: &[&Origin]) -> Gateway {
    let setup = rig::gateway(POOL).origins(origins.iter().copied()).started_by(Way::Supervised);
    setup.process("drain", "{ lame_duck: 0s, timeout: 1s }").start()
}

fn generation(gateway: &Gateway) -> u64 {
    gateway.status()["generation"].as_u64().unwrap()
}

#[test]
fn u9_usr2_at_the_supervisor_has_the_next_process_take_over_without_a_request_lost() {
    let (a, b) = (rig::origin("a"), rig::origin("b"));
    let mut gateway = upgradable(&[&a, &b]);
    let first = serving(&gateway);
    let load = rig::load(gateway.address()).clients(4).rate(200.0).fresh_connections().start();
    load.further(50);
    gateway.signal(Signal::SIGUSR2);
    eventually("the next process serves", || (generation(&gateway) == 2).then_some(()));
    eventually("the one before is gone", || {
        let children = gateway.children();
        (children.len() == 1 && children[0] != first).then_some(())
    });
    load.further(50);
    load.stop().assert_all_good();
    let second = crash(&gateway);
    another_serves(&gateway, second);
    assert!(!gateway.output().contains("panicked"), "{}", gateway.output());
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.exit(), 0);
}

#[test]
fn u9_a_command_has_the_supervisor_start_the_next_process() {
    let a = rig::origin("a");
    let gateway = upgradable(&[&a]);
    let output = gateway.command(&["upgrade"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(generation(&gateway), 2);
    let other = gateway.command(&["upgrade", "--binary", env!("CARGO_BIN_EXE_moorgate")]);
    assert_eq!(other.status.code(), Some(1), "{other:?}");
    assert!(String::from_utf8_lossy(&other.stderr).contains("put the new one in its place"), "{other:?}");
}

/// The process before takes its sockets back; nobody is started in its place.
#[test]
fn u2_when_the_next_process_crashes_at_once_the_one_before_serves_on() {
    let a = rig::origin("a");
    let mut gateway = upgradable(&[&a]);
    let first = serving(&gateway);
    gateway.signal(Signal::SIGUSR2);
    eventually("the next process serves", || (generation(&gateway) == 2).then_some(()));
    let next = gateway.children().into_iter().find(|pid| *pid != first).unwrap();
    kill(Pid::from_raw(next), Signal::SIGKILL).unwrap();
    assert_eq!(gateway.get("/x").status, 200);
    eventually("it is told", || gateway.output().contains("upgrade failed, nothing changed").then_some(()));
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!((gateway.children(), generation(&gateway)), (vec![first], 1));
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.exit(), 0);
}

#[test]
fn an_upgrade_hears_at_once_that_the_program_the_supervisor_started_has_ended() {
    use std::os::unix::fs::PermissionsExt as _;
    let a = rig::origin("a");
    let setup = rig::gateway(POOL).origins([&a]).started_by(Way::SupervisedFromFolder);
    let gateway = setup.process("drain", "{ lame_duck: 0s, timeout: 1s }").start();
    let broken = gateway.path("broken");
    fs::write(&broken, "#!/bin/sh\nexit 7\n").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&broken, gateway.path("program")).unwrap();
    for _ in 0..2 {
        let began = Instant::now();
        let output = gateway.command(&["upgrade"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("the new process ended with 7 before it had called"), "{told}");
        assert!(began.elapsed() < Duration::from_secs(15), "it was waited for");
    }
    fs::remove_file(gateway.path("program")).unwrap();
    let output = gateway.command(&["upgrade"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && told.contains("No such file"), "{told}");
    assert_eq!((generation(&gateway), gateway.get("/x").status), (1, 200));
}

#[test]
fn b62_process_1_refuses_to_be_followed_and_as_a_supervisor_stays() {
    if !rig::may_be_first() {
        return eprintln!("namespaces are forbidden here");
    }
    let a = rig::origin("a");
    let start = |way| rig::gateway(POOL).origins([&a]).started_by(way).process("drain", "{ timeout: 1s }").start();
    let alone = start(Way::AsFirst);
    let first = alone.children()[0];
    kill(Pid::from_raw(first), Signal::SIGUSR2).unwrap();
    eventually("it says why not", || alone.output().contains("run it under `moorgate supervise`").then_some(()));
    let output = alone.command(&["upgrade"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!((generation(&alone), alone.get("/x").status, alone.children()), (1, 200, vec![first]));
    let supervised = start(Way::SupervisedAsFirst);
    let first = supervised.children();
    let load = rig::load(supervised.address()).clients(10).rate(500.0).fresh_connections().start();
    load.further(100);
    kill(Pid::from_raw(first[0]), Signal::SIGUSR2).unwrap();
    eventually("the next process serves", || (generation(&supervised) == 2).then_some(()));
    eventually("the one before is gone", || (supervised.generations().len() == 1).then_some(()));
    load.further(100);
    load.stop().assert_all_good();
    assert_eq!(supervised.children(), first, "process 1 is the same");
}
