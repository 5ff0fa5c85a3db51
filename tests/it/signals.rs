//! What do signals do? TERM and QUIT leave in peace, INT or a second one at once, HUP ends nothing.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::rig::{self, Gateway, Origin, eventually, on};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n";

fn with_drain(drain: &str) -> (Origin, Gateway) {
    let a = rig::origin("a");
    let gateway = rig::gateway(POOL).origins([&a]).process("drain", drain).start();
    (a, gateway)
}

fn refuses(gateway: &Gateway) {
    eventually("connections are refused", || rig::Raw::connect(gateway.address()).is_err().then_some(()));
}

#[test]
fn term_and_quit_leave_at_once_when_nobody_ever_came() {
    for (signal, level, is_told) in [(Signal::SIGTERM, "info", true), (Signal::SIGQUIT, "warn", false)] {
        let a = rig::origin("a");
        let setup = rig::gateway(POOL).origins([&a]).process("drain", "{ lame_duck: 60s, timeout: 60s }");
        let mut gateway = setup.process("log", &format!("{{ level: {level} }}")).start();
        gateway.signal(signal);
        assert_eq!(gateway.exit(), 0, "{signal}");
        let said = gateway.output();
        assert_eq!(said.contains(" INFO "), is_told, "{level}: {said}");
    }
}

#[test]
fn a_drain_lets_running_requests_end_and_idle_ones_ask_once_more() {
    let (a, mut gateway) = with_drain("{ lame_duck: 0s, timeout: 20s }");
    a.script([on("/slow").hold("gate").answer(200)]);
    let mut idle = gateway.client();
    assert_eq!(idle.get("/a").status, 200);
    let mut slow = rig::raw(gateway.address());
    slow.send("GET /slow HTTP/1.1\r\nHost: t\r\n\r\n");
    a.await_held("gate", 1);
    gateway.signal(Signal::SIGTERM);
    refuses(&gateway);
    let last = idle.get("/b");
    assert_eq!((last.status, last.closes()), (200, true));
    assert!(gateway.running(), "somebody is still being served");
    a.release("gate");
    let answer = slow.answer();
    assert_eq!((answer.status, answer.closes()), (200, true));
    assert_eq!(gateway.exit(), 0);
    let log = gateway.log();
    assert_eq!(log.len(), 3, "every request is in the log: {log:?}");
}

#[test]
fn an_idle_connection_is_closed_when_the_drain_is_over() {
    let (_a, mut gateway) = with_drain("{ lame_duck: 0s, timeout: 1s }");
    let mut idle = rig::raw(gateway.address());
    idle.send("GET /a HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(idle.answer().status, 200);
    let told = Instant::now();
    gateway.signal(Signal::SIGTERM);
    assert_eq!(idle.rest(), b"");
    assert!(told.elapsed() >= Duration::from_secs(1), "{:?}", told.elapsed());
    assert_eq!(gateway.exit(), 0);
}

#[test]
fn int_and_a_second_term_leave_at_once() {
    for signals in [&[Signal::SIGINT][..], &[Signal::SIGTERM, Signal::SIGTERM], &[Signal::SIGQUIT, Signal::SIGINT]] {
        let (_a, mut gateway) = with_drain("{ lame_duck: 60s, timeout: 60s }");
        assert_eq!(gateway.get("/a").status, 200);
        for signal in signals {
            gateway.signal(*signal);
            if signals.len() > 1 && gateway.running() {
                eventually("not ready or gone", || {
                    let asked = rig::Client::new(gateway.admin).send(&rig::Ask::get("/readyz"));
                    asked.map_or(true, |answer| answer.status == 503).then_some(())
                });
            }
        }
        assert_eq!(gateway.exit(), 130, "{signals:?}");
        assert!(!gateway.path("control.sock").exists(), "the control socket is removed");
    }
}

/// As Kubernetes does: a hook that runs the command, then TERM.
#[test]
fn u4_term_after_a_drain_by_command_is_no_second_one() {
    let (a, mut gateway) = with_drain("{ lame_duck: 0s, timeout: 20s }");
    a.script([on("/slow").hold("gate").answer(200)]);
    let mut slow = rig::raw(gateway.address());
    slow.send("GET /slow HTTP/1.1\r\nHost: t\r\n\r\n");
    a.await_held("gate", 1);
    assert_eq!(gateway.command(&["drain"]).status.code(), Some(0));
    refuses(&gateway);
    gateway.signal(Signal::SIGTERM);
    for _ in 0..20 {
        assert_eq!(gateway.admin("GET", "/readyz").status, 503);
    }
    a.release("gate");
    assert_eq!(slow.answer().status, 200);
    assert_eq!(gateway.exit(), 0);
}

#[test]
fn hup_does_not_end_the_process() {
    let (_a, mut gateway) = with_drain("{ lame_duck: 0s, timeout: 1s }");
    gateway.signal(Signal::SIGHUP);
    eventually("the reload is counted", || gateway.output().contains("the file says the same").then_some(()));
    assert_eq!(gateway.get("/a").status, 200);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.exit(), 0);
}

#[test]
fn usr1_opens_the_access_log_anew() {
    let (_a, gateway) = with_drain("{ lame_duck: 0s, timeout: 1s }");
    assert_eq!(gateway.get("/before").status, 200);
    gateway.await_log(1);
    std::fs::rename(gateway.path("access.log"), gateway.path("access.log.1")).unwrap();
    gateway.signal(Signal::SIGUSR1);
    eventually("a new file", || gateway.path("access.log").exists().then_some(()));
    assert_eq!(gateway.get("/after").status, 200);
    assert_eq!(gateway.logged("/after")["status"], 200);
    let old = std::fs::read_to_string(gateway.path("access.log.1")).unwrap();
    assert!(old.contains("/before") && !old.contains("/after"), "{old}");
}

#[test]
fn a_port_that_is_taken_is_an_error_of_the_start() {
    let a = rig::origin("a");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_moorgate"))
        .args(["run", "--listen", &address, "--origin", &a.address.to_string()])
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(told.contains(&format!("cannot listen on {address}")), "{told}");
    assert_eq!(ended.stdout, b"");
}
