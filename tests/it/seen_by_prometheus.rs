//! Do the rules wake somebody for what they are for, and does the board show anything?

use std::path::Path;
use std::process::Command;

use crate::rig::issued::certificate;
use crate::rig::{self, Ask, on, raw};

fn file(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docker").join(name)).unwrap()
}

#[test]
fn each_alert_fires_on_what_it_is_for_and_on_nothing_like_it() {
    let mut promtool = Command::new("promtool");
    promtool.args(["test", "rules", "rules.test.yaml"]);
    promtool.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docker/prometheus"));
    let said = promtool.output().expect("missing: promtool; on Debian and Ubuntu: sudo .ci/needs promtool");
    assert!(
        said.status.success(),
        "{}{}",
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr)
    );
    let tests = file("prometheus/rules.test.yaml");
    let rules = file("prometheus/rules.yaml");
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 15, "{alerts:?}");
    for alert in alerts {
        assert!(tests.contains(&format!("alertname: {alert}\n")), "{alert} is never seen to fire");
    }
}

const TEXT: &str = "\
certificates: [ { cert: $dir/a.pem, key: $dir/a.key } ]
pools:
  p:
    balance: { key: \"{path}\" }
    health: { probe: { interval: 500ms } }
    cache_status: x-cache
    origins: $origins
routes:
  - { name: held, match: { path: { prefix: /held } }, pool: p, limits: { rate: { name: few, rate: 1/h, burst: 1 } } }
  - { name: all, pool: p, retry: { safe: [503] } }
";

/// What every client does here, some of it wrong.
fn busy(gateway: &rig::Gateway) {
    let mut client = gateway.client();
    for n in 0..20 {
        for target in [format!("/{n}"), format!("/held/{n}"), format!("/busy/{n}")] {
            client.send(&Ask::get(&target)).unwrap();
        }
        client.send(&Ask::new("POST", &format!("/busy/{n}")).body("x")).unwrap();
    }
    let mut plain = raw(gateway.listeners[1]);
    plain.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    plain.rest();
}

#[test]
fn every_query_of_the_board_shows_a_figure() {
    let origins = ["a", "b", "c"].map(rig::origin);
    for origin in &origins {
        origin.script([
            on("/busy*").times(5).answer(503),
            on("/1*").then(rig::answer(200).header("X-Cache", "HIT").into()),
            on("/*").then(rig::answer(200).header("X-Cache", "MISS").into()),
        ]);
    }
    let setup = rig::gateway(TEXT).further_listener("tls: {}").origins(&origins);
    let mut gateway = setup.start_with(|folder| certificate(&["a.test"]).issue().write(folder, "a"));
    let prometheus = rig::prometheus(&gateway);
    busy(&gateway);
    gateway.change(&format!("{TEXT}# again\n"));
    origins[2].door(rig::Door::Refuse);
    origins[2].close_idle(rig::Close::Fin);
    let board: serde_json::Value = serde_json::from_str(&file("grafana/moorgate.json")).unwrap();
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let mut left: Vec<String> = targets.map(|target| target["expr"].as_str().unwrap().replace("$pool", ".*")).collect();
    assert!(left.len() > 20, "{left:?}");
    rig::within(rig::PATIENCE * 2, || {
        busy(&gateway);
        left.retain(|query| prometheus.query(query).is_empty());
        left.is_empty().then_some(())
    });
    assert_eq!(left, [""; 0], "no figure");
}
