//! What does a changed file do to clients? Nothing but what it says; and a bad one changes nothing.

use std::fs;
use std::io::Write as _;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::rig::{self, Close, Gateway, Origin, Step, keys, map, on};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n";

fn two() -> (Vec<Origin>, Gateway) {
    let all: Vec<Origin> = ["a", "b"].map(rig::origin).into();
    let gateway = rig::gateway(POOL).origins(&all).start();
    (all, gateway)
}

/// A file that differs from the others with other numbers.
fn variant(n: u32) -> String {
    format!("{POOL}routes: [ {{ name: r{n}, pool: p }} ]\n")
}

fn version(gateway: &Gateway) -> u64 {
    gateway.status()["config"]["version"].as_u64().unwrap()
}

#[test]
fn a_reload_says_what_it_did() {
    let (_all, mut gateway) = two();
    let first = version(&gateway);
    let told = gateway.change(&variant(1));
    assert_eq!((&told["result"], &told["version"]), (&"applied".into(), &(first + 1).into()), "{told}");
    assert_eq!(told["digest"].as_str().map(str::len), Some(64), "{told}");
    assert!(told["changed"].as_array().is_some_and(|changed| !changed.is_empty()), "{told}");
    let again = gateway.reload();
    assert_eq!((&again["result"], &again["version"]), (&"unchanged".into(), &(first + 1).into()), "{again}");
    assert_eq!(gateway.get("/x").status, 200);
    assert_eq!(gateway.logged("/x")["route"], "r1");
}

#[test]
fn c1_a_signal_and_the_command_reload_too() {
    let (_all, mut gateway) = two();
    gateway.rewrite(&variant(1));
    gateway.signal(Signal::SIGHUP);
    rig::eventually("route r1", || {
        (gateway.get("/x").status == 200 && gateway.metrics().sum("moorgate_requests_total", &[("route", "r1")]) > 0.5)
            .then_some(())
    });
    gateway.rewrite(&variant(2));
    let output = gateway.command(&["reload"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(gateway.get("/two").status, 200);
    assert_eq!(gateway.logged("/two")["route"], "r2");
}

#[test]
fn c1_fifty_signals_in_100_ms_become_few_reloads_and_the_last_file_wins() {
    let (_all, mut gateway) = two();
    let reloads = |gateway: &Gateway| gateway.metrics().sum("moorgate_reloads_total", &[]);
    let before = reloads(&gateway);
    for n in 1..=50 {
        gateway.rewrite(&variant(n));
        gateway.signal(Signal::SIGHUP);
        std::thread::sleep(Duration::from_millis(2));
    }
    rig::eventually("route r50", || {
        gateway.get("/x");
        (gateway.metrics().sum("moorgate_requests_total", &[("route", "r50")]) > 0.5).then_some(())
    });
    // One is under way while the others come, and one more stands for all of them.
    let many =
        rig::within(Duration::from_secs(2), || Some(reloads(&gateway) - before).filter(|reloads| *reloads > 5.5));
    assert_eq!(many, None, "so many reloads");
}

#[test]
fn b36_a_pool_named_twice_is_refused_with_both_lines() {
    let (_all, mut gateway) = two();
    gateway.rewrite("pools:\n  p: { balance: { key: \"{path}\" }, origins: $origins }\n  p: { origins: $origins }\n");
    let answer = gateway.admin("POST", "/reload");
    assert_eq!(answer.status, 422, "{}", answer.text());
    let text = fs::read_to_string(gateway.path("moorgate.yaml")).unwrap();
    let lines: Vec<String> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.starts_with("  p:"))
        .map(|(n, _)| (n + 1).to_string())
        .collect();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| answer.text().contains(line)), "{lines:?}: {}", answer.text());
}

#[test]
fn b58_one_bad_entry_and_nothing_is_applied() {
    let (all, mut gateway) = two();
    let (before, was) = (map(gateway.address(), &keys(100)), version(&gateway));
    let text = format!(
        "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, origins: [\"{}\"] }} }}\n\
         routes: [ {{ pool: p }}, {{ match: {{ path: {{ regex: \"/(\" }} }}, pool: p }}, {{ match: {{ hosts: [x] }}, pool: none }} ]\n",
        all[0].address
    );
    gateway.rewrite(&text);
    let answer = gateway.admin("POST", "/reload");
    assert_eq!(answer.status, 422);
    let told: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let paths: Vec<&str> = told["mistakes"].as_array().unwrap().iter().filter_map(|m| m["path"].as_str()).collect();
    assert!(paths.iter().any(|path| path.starts_with("routes[1].match.path")), "{told}");
    assert!(paths.iter().any(|path| path.starts_with("routes[2].pool")), "{told}");
    assert_eq!(gateway.command(&["reload"]).status.code(), Some(1));
    assert_eq!((map(gateway.address(), &keys(100)), version(&gateway)), (before, was));
    assert!(gateway.metrics().sum("moorgate_reloads_total", &[("result", "refused")]) > 0.5);
    assert!(gateway.metrics().sum("moorgate_config_drift", &[]) > 0.5);
}

#[test]
fn p12_whatever_finds_a_mistake_nothing_of_the_file_is_applied() {
    let (_all, mut gateway) = two();
    let (before, was) = (map(gateway.address(), &keys(100)), version(&gateway));
    // A value by itself, values beside each other, and what only compiling tells: of a pool, of a route.
    for (text, path) in [
        (r#"pools: { p: { origins: [{ address: "$a", weight: 0 }] } }"#, "pools.p.origins[0].weight"),
        (r#"pools: { p: { origins: ["$a", "$a"] } }"#, "pools.p.origins[1]"),
        (
            "pools: { p: { origins: [$a] }, q: { balance: { key: \"{pahT}\" }, origins: [$b] } }\nroutes: [{ pool: p }]\n",
            "pools.q.balance.key",
        ),
        (
            "pools: { p: { origins: [$a] } }\nroutes: [{ pool: p }, { match: { path: { regex: \"/(\" } }, pool: p }]\n",
            "routes[1].match.path",
        ),
    ] {
        gateway.rewrite(text);
        let answer = gateway.admin("POST", "/reload");
        assert_eq!(answer.status, 422, "{path}: {}", answer.text());
        let told: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        let mistakes = told["mistakes"].as_array().unwrap();
        assert!(mistakes.iter().any(|mistake| mistake["path"].as_str().unwrap().starts_with(path)), "{path}: {told}");
        assert_eq!((map(gateway.address(), &keys(100)), version(&gateway)), (before.clone(), was), "{path}");
    }
}

#[test]
fn b60_unreadable_files_change_nothing() {
    let (all, mut gateway) = two();
    let was = version(&gateway);
    let file = gateway.path("moorgate.yaml");
    let good = fs::read_to_string(&file).unwrap();
    let bomb: String = (1..30).map(|n| format!("l{n}: &l{n} [*l{}, *l{}]\n", n - 1, n - 1)).collect();
    let contents: [(&str, Vec<u8>); 5] = [
        ("empty", Vec::new()),
        ("not UTF-8", b"version: 1\n\xff\xfe\n".to_vec()),
        ("aliases", format!("l0: &l0 [x]\n{bomb}").into_bytes()),
        ("cut inside a word", good.as_bytes()[..good.len() - 9].to_vec()),
        ("huge", [good.as_bytes(), &vec![b'#'; 2 << 20]].concat()),
    ];
    for (what, bytes) in contents {
        fs::write(&file, bytes).unwrap();
        assert_eq!(gateway.admin("POST", "/reload").status, 422, "{what}");
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(gateway.admin("POST", "/reload").status, 422, "missing");
    fs::create_dir(&file).unwrap();
    assert_eq!(gateway.admin("POST", "/reload").status, 422, "a folder");
    fs::remove_dir(&file).unwrap();
    assert!(gateway.running());
    assert_eq!(version(&gateway), was);
    assert_eq!(gateway.get("/x").status, 200);
    let without = POOL.replace("$origins", "[{ address: \"$a\", name: a }]");
    gateway.change(&without);
    all[1].forget();
    assert!(map(gateway.address(), &keys(50)).values().all(|origin| origin == "a"));
    assert_eq!(all[1].served(), 0);
}

/// Every line that is written makes a file that is valid by itself: it counts when the writer is done.
#[test]
fn b60_a_file_that_is_still_being_written_is_never_taken_by_half() {
    let (all, mut gateway) = two();
    gateway.rewrite("pools:\n  p:\n    balance: { key: \"{path}\" }\n    origins:\n");
    let file = gateway.path("moorgate.yaml");
    let head = fs::read_to_string(&file).unwrap();
    gateway.change(POOL);
    let lines = (0..40).map(|n| format!("      - {{ address: \"{}\", name: o{n} }}\n", all[0].address));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut slow = fs::File::create(&file).unwrap();
            for piece in std::iter::once(head).chain(lines) {
                slow.write_all(piece.as_bytes()).unwrap();
                std::thread::sleep(Duration::from_millis(25));
            }
        });
        let members = || written(&gateway);
        while !writer.is_finished() {
            let answer = gateway.admin("POST", "/reload");
            assert!([200, 422].contains(&answer.status), "{}", answer.text());
            assert!([2, 40].contains(&members()), "{} origins are in force", members());
        }
    });
    gateway.reload();
    assert_eq!(written(&gateway), 40);
}

/// Origins of the file in force; neither those it replaces, which serve beside them for a while, nor the parked ones.
fn written(gateway: &Gateway) -> usize {
    let origins = gateway.status()["pools"]["p"]["origins"].clone();
    let gone = |origin: &serde_json::Value| origin["state"] == "leaving" || origin["state"] == "parked";
    origins.as_object().unwrap().values().filter(|origin| !gone(origin)).count()
}

#[test]
fn a_changed_process_section_is_refused_as_a_whole() {
    let (_all, mut gateway) = two();
    let was = version(&gateway);
    gateway.rewrite(&variant(1));
    let file = gateway.path("moorgate.yaml");
    let changed = fs::read_to_string(&file).unwrap().replace("threads: 2", "threads: 1");
    fs::write(&file, changed).unwrap();
    let answer = gateway.admin("POST", "/reload");
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(answer.text().contains("process"), "{}", answer.text());
    assert_eq!(version(&gateway), was);
    let output = gateway.command(&["reload", "--keep-process"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(version(&gateway), was + 1);
}

#[test]
fn p1_a_request_under_way_ends_on_the_configuration_it_began_with() {
    let (all, mut gateway) = two();
    for origin in &all {
        origin.script([on("/held").hold("reload").answer(200)]);
    }
    let address = gateway.address();
    let owner = map(address, &["/x".to_owned()]);
    assert_eq!(owner.len(), 1);
    let held = std::thread::spawn(move || rig::Client::new(address).get("/held").status);
    let at = rig::eventually("it is held", || all.iter().find(|origin| origin.counts().in_flight == 1));
    at.await_held("reload", 1);
    let other = all.iter().find(|origin| origin.name != at.name).unwrap();
    let list = format!("[{{ address: \"{}\", name: {} }}]", other.address, other.name);
    gateway.change(&POOL.replace("$origins", &list));
    at.release("reload");
    assert_eq!(held.join().unwrap(), 200);
}

#[test]
fn p1_a_further_try_is_made_on_the_configuration_the_request_began_with() {
    let all = ["a", "b", "c"].map(rig::origin);
    let pool = |host: &str, origins: &str| {
        let pool = format!("host: {host}, balance: {{ key: \"{{path}}\" }}, origins: [{origins}]");
        format!("pools: {{ p: {{ {pool} }} }}\nroutes: [ {{ pool: p, retry: {{ within: 20s }} }} ]\n")
    };
    let two = "{ address: \"$a\", name: a }, { address: \"$b\", name: b }";
    let mut gateway = rig::gateway(&pool("preserve", two)).origins(&all).start();
    for origin in &all {
        origin.script([on("/held").hold("reload").then(Step::End(Close::Rst))]);
    }
    let address = gateway.address();
    let held = std::thread::spawn(move || rig::Client::new(address).get("/held"));
    let first = rig::eventually("it is held", || all.iter().find(|origin| origin.counts().in_flight == 1));
    first.await_held("reload", 1);
    let second = all[..2].iter().find(|origin| origin.name != first.name).unwrap();
    second.script([]);
    let ring = gateway.status()["pools"]["p"]["ring"]["fingerprint"].clone();
    gateway.change(&pool("changed.example", "{ address: \"$c\", name: c }"));
    first.release("reload");
    let answer = held.join().unwrap();
    assert_eq!((answer.status, answer.origin()), (200, second.name.as_str()), "{answer:?}");
    let line = gateway.logged("/held");
    assert_eq!((line["attempts"].as_array().map(Vec::len), &line["ring"]), (Some(2), &ring), "{line}");
    let seen = second.requests().remove(0).headers;
    assert!(seen.iter().any(|(name, value)| name.eq_ignore_ascii_case("host") && value == "test"), "{seen:?}");
    assert_eq!(all[2].served(), 0);
}
