//! How much may a reload move, and how is it undone? Rules C3 to C5.

use crate::rig::{self, Gateway, Origin, keys, map};

const GUARDED: &str = "pools: { p: { guard: { max_moved: 30% }, balance: { key: \"{path}\" }, origins: $origins } }\n";

fn origins(names: &[&str]) -> Vec<Origin> {
    names.iter().map(|name| rig::origin(name)).collect()
}

/// A file with these origins alone.
fn of(origins: &[&Origin]) -> String {
    let entry = |origin: &&Origin| format!("{{ address: \"{}\", name: \"{}\" }}", origin.address, origin.name);
    let all: Vec<String> = origins.iter().map(entry).collect();
    GUARDED.replace("$origins", &format!("[{}]", all.join(", ")))
}

fn all(origins: &[Origin]) -> Vec<&Origin> {
    origins.iter().collect()
}

fn version(gateway: &Gateway) -> u64 {
    gateway.status()["config"]["version"].as_u64().unwrap()
}

#[test]
fn c3_more_than_max_moved_is_refused_with_the_table_and_a_step_that_passes() {
    let all_origins = origins(&["a", "b", "c", "d", "e", "f"]);
    let mut gateway = rig::gateway(GUARDED).origins(&all_origins[..3]).start();
    let (before, was) = (map(gateway.address(), &keys(200)), version(&gateway));
    gateway.rewrite(&of(&all(&all_origins)));
    let answer = gateway.admin("POST", "/reload");
    assert_eq!(answer.status, 409, "{}", answer.text());
    let told: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let p = &told["pools"]["p"];
    assert_eq!((&told["result"], &p["guard"]["refused"]), (&"refused".into(), &true.into()), "{told}");
    assert!(p["guard"]["moved"].as_f64().unwrap() > 0.3 && p["shares"]["f"]["before"] == 0.0, "{told}");
    let step = p["guard"]["step"]["origins"].as_array().unwrap();
    let newcomers: Vec<&str> = step.iter().map(|edit| edit["name"].as_str().unwrap()).collect();

    let output = gateway.command(&["reload"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0), "{said}");
    for part in ["pool p: ", "guard.max_moved is 30.0%", " ORIGIN ", "a step that passes: add d", "nothing changed"] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    assert_eq!((map(gateway.address(), &keys(200)), version(&gateway)), (before, was));
    assert!(gateway.metrics().sum("moorgate_config_drift", &[]) > 0.5);
    assert!(gateway.metrics().sum("moorgate_reloads_total", &[("result", "refused")]) > 1.5);

    let stepped: Vec<&Origin> =
        all_origins.iter().take(3).chain(all_origins.iter().filter(|one| newcomers.contains(&&*one.name))).collect();
    let told = gateway.change(&of(&stepped));
    assert_eq!(told["version"], was + 1, "{told}");
    let moved = gateway.metrics().sum("moorgate_keys_moved_ratio", &[("pool", "p"), ("kind", "planned")]);
    assert!((moved - p["guard"]["step"]["moved"].as_f64().unwrap()).abs() < 1e-9, "{moved} as was foretold");

    gateway.rewrite(&of(&all(&all_origins)));
    assert_eq!(gateway.admin("POST", "/reload").status, 409, "small steps add up");
    assert_eq!(gateway.command(&["reload", "--allow-moved", "80%"]).status.code(), Some(0));
    assert_eq!(version(&gateway), was + 2);
    gateway.change(&of(&all(&all_origins[..3])));
}

#[test]
fn c3_a_dead_origin_may_be_removed_whatever_it_owns() {
    let mut all_origins = origins(&["a", "b"]);
    let mut gateway = rig::gateway(GUARDED).origins(&all_origins).start();
    gateway.rewrite(&of(&[&all_origins[0]]));
    assert_eq!(gateway.admin("POST", "/reload").status, 409);
    all_origins[1].kill();
    gateway.await_state("p", "b", "down");
    let told = gateway.reload();
    assert_eq!(told["result"], "applied", "{told}");
}

#[test]
fn c3_a_changed_key_counts_as_everything() {
    let all_origins = origins(&["a", "b"]);
    let mut gateway = rig::gateway(GUARDED).origins(&all_origins).start();
    gateway.rewrite(&GUARDED.replace("{path}", "{host}{path}"));
    let answer = gateway.admin("POST", "/reload");
    assert_eq!(answer.status, 409, "{}", answer.text());
    let told: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((&told["pools"]["p"]["moved_ratio"], &told["pools"]["p"]["guard"]["step"]), (&1.0.into(), &().into()));
    assert_eq!(gateway.command(&["reload", "--allow-moved", "much"]).status.code(), Some(2));
    assert_eq!(gateway.command(&["reload", "--allow-moved", "100%"]).status.code(), Some(0));
}
