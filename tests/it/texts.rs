//! Which text does a process start with, and how does another one come in from the file alone? Rules C1 and C4.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use crate::rig::{self, Gateway};

/// A file whose route bears this name.
fn route(name: &str) -> String {
    format!("pools: {{ p: {{ origins: $origins }} }}\nroutes: [ {{ name: {name}, pool: p }} ]\n")
}

fn drift(gateway: &Gateway) -> bool {
    gateway.metrics().sum("moorgate_config_drift", &[]) > 0.5
}

fn digest(gateway: &Gateway) -> String {
    gateway.status()["config"]["digest"].as_str().unwrap().to_owned()
}

fn await_route(gateway: &Gateway, name: &str) {
    rig::eventually(&format!("route {name}"), || {
        gateway.get("/x");
        (gateway.metrics().sum("moorgate_requests_total", &[("route", name)]) > 0.5).then_some(())
    });
}

/// What the file says, with the route called otherwise.
fn renamed(gateway: &Gateway, old: &str, new: &str) -> String {
    fs::read_to_string(gateway.path("moorgate.yaml")).unwrap().replace(&format!("name: {old}"), &format!("name: {new}"))
}

/// Puts a file in the place of another one, as editors do.
fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, file).unwrap();
}

#[test]
fn c4_a_process_whose_file_is_broken_starts_with_the_text_last_served() {
    let a = rig::origin("a");
    let mut gateway = rig::gateway(&route("first")).origins([&a]).process("state", "$dir/state").start();
    gateway.change(&route("second"));
    let (good, served) = (fs::read_to_string(gateway.path("moorgate.yaml")).unwrap(), digest(&gateway));
    fs::write(gateway.path("moorgate.yaml"), &good[..good.len() - 12]).unwrap();
    gateway.start_again();
    assert_eq!((digest(&gateway), drift(&gateway)), (served, true));
    await_route(&gateway, "second");
    assert!(gateway.output().contains("served last"), "{}", gateway.output());
    assert_eq!(gateway.admin("POST", "/reload").status, 422);
    let strict = gateway.command(&["run", "--strict"]);
    assert_eq!(strict.status.code(), Some(1), "{strict:?}");
    fs::write(gateway.path("moorgate.yaml"), &good).unwrap();
    assert_eq!((&gateway.reload()["result"], drift(&gateway)), (&"unchanged".into(), false));
}

#[test]
fn c4_what_was_rolled_back_is_not_served_again_by_a_restart() {
    let a = rig::origin("a");
    let mut gateway = rig::gateway(&route("first")).origins([&a]).process("state", "$dir/state").start();
    let first = digest(&gateway);
    gateway.change(&route("second"));
    assert_eq!(gateway.command(&["rollback"]).status.code(), Some(0));
    gateway.start_again();
    assert_eq!((digest(&gateway), drift(&gateway)), (first, true));
    let strict = gateway.command(&["run", "--strict"]);
    assert_eq!(strict.status.code(), Some(1), "{strict:?}");
    assert!(String::from_utf8_lossy(&strict.stderr).contains("went back from this text"), "{strict:?}");
    assert_eq!(gateway.command(&["reload"]).status.code(), Some(0), "somebody means it");
    gateway.start_again();
    await_route(&gateway, "second");
    assert!(!drift(&gateway));
}

#[test]
fn u6_a_process_whose_file_is_gone_starts_with_the_text_last_served_where_it_is_told_to_look() {
    let a = rig::origin("a");
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let mut gateway = rig::gateway(&route("first")).origins([&a]).arguments(&["--state", state]).start();
    let served = digest(&gateway);
    fs::remove_file(gateway.path("moorgate.yaml")).unwrap();
    gateway.start_again();
    assert_eq!((digest(&gateway), drift(&gateway)), (served, true));
    await_route(&gateway, "first");
    let strict = gateway.command(&["run", "--state", state, "--strict"]);
    assert_eq!(strict.status.code(), Some(1), "{strict:?}");
}

#[test]
fn c1_a_watched_file_is_taken_however_it_is_changed() {
    let a = rig::origin("a");
    let gateway = rig::gateway(&route("r0")).origins([&a]).arguments(&["--watch"]).start();
    let file = gateway.path("moorgate.yaml");
    fs::write(&file, renamed(&gateway, "r0", "r1")).unwrap();
    await_route(&gateway, "r1");
    let good = renamed(&gateway, "r1", "r2");
    replace(&file, &good);
    await_route(&gateway, "r2");
    fs::write(&file, "pools: {").unwrap();
    rig::eventually("it is refused", || drift(&gateway).then_some(()));
    fs::remove_file(&file).unwrap();
    assert_eq!(gateway.get("/x").status, 200);
    replace(&file, &good);
    rig::eventually("it is right again", || (!drift(&gateway)).then_some(()));
}

/// Every half is a file that is valid by itself: it counts when the writer is done, however slow, and once.
#[test]
fn c1_a_watched_file_that_is_written_slowly_is_never_taken_by_half() {
    let a = rig::origin("a");
    let gateway = rig::gateway(&route("r0")).origins([&a]).arguments(&["--watch"]).start();
    let reloads = |gateway: &Gateway| gateway.metrics().sum("moorgate_reloads_total", &[]);
    let (file, before) = (gateway.path("moorgate.yaml"), reloads(&gateway));
    let whole = renamed(&gateway, "r0", "r1");
    let (head, routes) = whole.split_at(whole.find("routes:").unwrap());
    let mut slow = fs::File::create(&file).unwrap();
    for piece in [head, "routes:\n"] {
        slow.write_all(piece.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    for n in 0..20 {
        let line = format!("  - {{ name: half{n}, match: {{ hosts: [h{n}.example] }}, pool: p }}\n");
        slow.write_all(line.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(gateway.status()["config"]["version"], 1, "in force by half");
    }
    slow.set_len(head.len() as u64).unwrap();
    slow.seek(SeekFrom::End(0)).unwrap();
    slow.write_all(routes.as_bytes()).unwrap();
    drop(slow);
    await_route(&gateway, "r1");
    assert_eq!((gateway.status()["config"]["version"].as_u64(), reloads(&gateway) - before), (Some(2), 1.0));
}

#[test]
fn c1_a_watched_file_may_be_a_link_that_leads_elsewhere_now() {
    let a = rig::origin("a");
    let as_config_map = |folder: &Path| {
        fs::create_dir(folder.join("..1")).unwrap();
        fs::rename(folder.join("moorgate.yaml"), folder.join("..1/moorgate.yaml")).unwrap();
        symlink("..1", folder.join("..data")).unwrap();
        symlink("..data/moorgate.yaml", folder.join("moorgate.yaml")).unwrap();
    };
    let gateway = rig::gateway(&route("r0")).origins([&a]).arguments(&["--watch"]).start_with(as_config_map);
    fs::create_dir(gateway.path("..2")).unwrap();
    fs::write(gateway.path("..2/moorgate.yaml"), renamed(&gateway, "r0", "r1")).unwrap();
    symlink("..2", gateway.path("..new")).unwrap();
    fs::rename(gateway.path("..new"), gateway.path("..data")).unwrap();
    fs::remove_dir_all(gateway.path("..1")).unwrap();
    await_route(&gateway, "r1");
}
