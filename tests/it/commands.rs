//! Do commands reach the gateway they are for, and say what to do where they cannot?

use std::fs;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::rig::{Client, Gateway, PATIENCE, Process, eventually, gateway, origin, ports};

const POOL: &str = "pools: { p: { origins: $origins, health: { probe: off } } }\n";

fn moorgate(folder: &TempDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moorgate"));
    command.args(arguments).current_dir(folder).env_remove("XDG_RUNTIME_DIR").output().unwrap()
}

/// Exit code, standard output, standard error.
fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// What a command says of `gateway`, and complains of.
fn asked(gateway: &Gateway, arguments: &[&str]) -> (i32, String, String) {
    told(&gateway.command(arguments))
}

#[test]
fn a_control_socket_that_was_removed_is_made_anew_and_the_next_process_takes_it_over() {
    let a = origin("a");
    let gateway = gateway(POOL).origins([&a]).start();
    let socket = gateway.path("control.sock");
    for _ in 0..2 {
        fs::remove_file(&socket).unwrap();
        eventually("the socket is back", || socket.exists().then_some(()));
        let (code, said, complaint) = asked(&gateway, &["reload"]);
        assert_eq!((code, complaint.as_str()), (0, ""), "{said}");
        assert!(
            gateway.output().contains("the control socket had been removed: it is made anew"),
            "{}",
            gateway.output()
        );
        // the one that is there is the one that is handed over
        let (code, said, complaint) = asked(&gateway, &["upgrade", "--no-wait"]);
        assert_eq!((code, complaint.as_str()), (0, ""), "{said}");
    }
    let (code, said, complaint) = asked(&gateway, &["status", "--json"]);
    assert_eq!((code, complaint.as_str()), (0, ""), "{said}");
    assert!(said.contains("\"generation\":3"), "{said}");
}

#[test]
fn who_finds_nobody_at_the_socket_is_told_where_somebody_is() {
    let a = origin("a");
    let mut gateway = gateway(POOL).origins([&a]).process("control_socket", "off").start();
    let admin = gateway.admin;
    // where the file wants no socket, the admin address is what there is
    for command in [&["status"][..], &["reload"]] {
        let (code, said, complaint) = asked(&gateway, command);
        assert_eq!((code, complaint.as_str()), (0, ""), "{said}");
    }
    let none = gateway.path("none.sock");
    gateway.edit("control_socket: off", &format!("control_socket: {}", none.display()));
    let file = gateway.path("moorgate.yaml");
    let nobody = format!(
        "control socket {} (named by {}): No such file or directory (os error 2); is the gateway running?\n",
        none.display(),
        file.display()
    );
    let (code, said, complaint) = asked(&gateway, &["status"]);
    assert_eq!((code, complaint), (0, format!("{nobody}the admin address {admin} answers instead\n")));
    assert!(said.contains("pool p: hash"), "{said}");
    // somebody else's gateway may be there: what changes something is for whom it is named
    let (code, said, complaint) = asked(&gateway, &["reload"]);
    let instead =
        format!("moorgate: {nobody}at the admin address {admin} somebody answers: --admin {admin} asks there\n");
    assert_eq!((code, said.as_str(), complaint), (1, "", instead));
    let (code, _, complaint) = asked(&gateway, &["reload", "--keep-process", "--admin", &admin.to_string()]);
    assert_eq!((code, complaint.as_str()), (0, ""));
    gateway.kill();
    for command in ["status", "upgrade"] {
        let (code, _, complaint) = asked(&gateway, &[command]);
        let expected = format!("moorgate: {nobody}nobody answers at the admin address {admin} either\n");
        assert_eq!((code, complaint), (1, expected), "{command}");
    }
}

#[test]
fn a_gateway_runs_without_a_file() {
    let (mut a, b) = (origin("a"), origin("b"));
    let folder = TempDir::new().unwrap();
    let [first, second] = [&a, &b].map(|origin| origin.address.to_string());
    let (mut process, address) = eventually("a port that is free", || {
        let address = ports::listener().unwrap().local_addr().unwrap();
        let listen = address.to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_moorgate"));
        command.args(["run", "--listen", &listen, "--origin", &first, "--origin", &second]);
        command
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(fs::File::create(folder.path().join("lines")).unwrap());
        let process = Process::start("gateway", &mut command, &folder.path().join("output"));
        let listens = || Client::new(address).send(&crate::rig::Ask::get("/")).is_ok_and(|answer| answer.status == 200);
        eventually("it serves or has ended", || {
            let ended = !std::path::Path::new(&format!("/proc/{}/exe", process.pid())).exists();
            (ended || listens()).then_some(!ended)
        })
        .then_some((process, address))
    });
    let mut client = Client::new(address);
    let mut served = |count| (0..count).map(|n| client.get(&format!("/{n}")).origin().to_owned()).collect::<Vec<_>>();
    let both = served(40);
    assert!(both.contains(&"a".to_owned()) && both.contains(&"b".to_owned()), "{both:?}");
    a.kill();
    assert!(served(40).iter().all(|origin| origin == "b"), "and no request fails");
    // one line a request on standard output, and nothing else
    let lines = || fs::read_to_string(folder.path().join("lines")).unwrap();
    eventually("all lines", || (lines().lines().count() > 80).then_some(()));
    process.signal(Signal::SIGINT);
    assert_eq!(process.wait(PATIENCE).and_then(|status| status.code()), Some(130));
    assert!(lines().lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{}", lines());
}

#[test]
fn who_has_no_file_yet_is_told_what_to_do() {
    let folder = TempDir::new().unwrap();
    if fs::exists("/etc/moorgate/moorgate.yaml").unwrap() {
        // this machine has one, and what it says is not the test's to start
        return;
    }
    let nowhere = "moorgate: no configuration: neither /etc/moorgate/moorgate.yaml nor conf/moorgate.yaml is there";
    let (code, said, complaint) = told(&moorgate(&folder, &["run"]));
    assert_eq!((code, said.as_str()), (1, ""));
    assert!(complaint.starts_with(&format!("{nowhere}\n")), "{complaint}");
    for way in ["moorgate run --config FILE", "moorgate run --listen 0.0.0.0:8080 --origin ", "moorgate demo"] {
        assert!(complaint.contains(way), "{complaint}");
    }
    for command in [&["check"][..], &["dump"], &["key", "/"]] {
        let expected = format!("{nowhere}; name one with --config\n");
        assert_eq!(told(&moorgate(&folder, command)), (1, String::new(), expected), "{command:?}");
    }
}
