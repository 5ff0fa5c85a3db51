//! Does each example start, without a warning, and take requests? As it is written, but for the addresses, which are the
//! test's own, and the files of `/etc/moorgate/tls`, which are made for it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_yaml::{Mapping, Value};

use crate::rig::issued::certificate;
use crate::rig::{self, Authority, Origin};

/// Examples that are started at a time.
const AT_A_TIME: usize = 4;

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("conf/examples");
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// What the heads of the examples say that there has to be in `/etc/moorgate/tls`.
fn write_files(folder: &Path) {
    let pair = |issued: &rig::issued::Issued, cert: &str, key: &str| {
        issued.write(folder, "issued");
        fs::rename(folder.join("issued.pem"), folder.join(cert)).unwrap();
        fs::rename(folder.join("issued.key"), folder.join(key)).unwrap();
    };
    let own = certificate(&["www.example.com"]);
    pair(&own.issue(), "fullchain.pem", "privkey.pem");
    pair(&certificate(&["www.example.com"]).rsa().issue(), "rsa-fullchain.pem", "rsa-privkey.pem");
    pair(&certificate(&["client.example"]).issue(), "client.pem", "client-key.pem");
    for ca in ["origins-ca.pem", "clients-ca.pem"] {
        fs::write(folder.join(ca), Authority::new("ca.example").pem()).unwrap();
    }
    fs::write(folder.join("tickets.key"), [7; 80]).unwrap();
}

/// A section in one line.
fn flow(section: &Value) -> String {
    serde_json::to_string(section).unwrap()
}

/// All origins are this one, called as the example calls them. Are they all spoken to in plain HTTP/1?
fn point_to(a: &Origin, pools: &mut Mapping) -> bool {
    let mut are_plain = true;
    for pool in pools.values_mut().map(|pool| pool.as_mapping_mut().unwrap()) {
        are_plain &= ["tls", "protocol", "discovery"].iter().all(|key| !pool.contains_key(*key));
        for origin in pool.get_mut("origins").and_then(Value::as_sequence_mut).into_iter().flatten() {
            let mut entry = origin.as_mapping().cloned().unwrap_or_default();
            let written = entry.get("address").unwrap_or(origin).clone();
            entry.entry("name".into()).or_insert(written);
            entry.insert("address".into(), a.address.to_string().into());
            *origin = Value::Mapping(entry);
        }
    }
    are_plain
}

fn start(path: &Path, a: &Origin) {
    let text = fs::read_to_string(path).unwrap().replace("/etc/moorgate/tls", "$dir").replace("10.96.0.", "127.0.0.");
    let mut whole: Mapping = serde_yaml::from_str(&text).unwrap();
    whole.remove("version");
    let are_plain = point_to(a, whole.get_mut("pools").unwrap().as_mapping_mut().unwrap());
    let mut process = whole.remove("process").unwrap().as_mapping().unwrap().clone();
    let listeners = process.remove("listeners").unwrap();
    let mut rest: String = whole.iter().map(|(key, value)| format!("{}: {}\n", flow(key), flow(value))).collect();
    let mut setup = rig::gateway("");
    for (number, listener) in listeners.as_sequence().unwrap().iter().enumerate() {
        let mut keys = listener.as_mapping().unwrap().clone();
        let address = keys.remove("address").unwrap();
        rest = rest.replace(&flow(&address), &format!("\"$listener{number}\""));
        let keys = flow(&Value::Mapping(keys));
        let keys = keys.trim_start_matches('{').trim_end_matches('\n').strip_suffix('}').unwrap();
        setup = if number == 0 { setup.listener(keys) } else { setup.further_listener(keys) };
    }
    for (key, value) in process.iter().map(|(key, value)| (key.as_str().unwrap(), flow(value))) {
        setup = match key {
            // The test asks at the one, and the other would be in the way of somebody else's.
            "admin" | "control_socket" => setup,
            "state" => setup.process(key, "$dir/state"),
            _ => setup.process(key, &value.replace("/var/log/moorgate", "$dir")),
        };
    }
    let gateway = setup.process("resolver", "[ 127.0.0.9 ]").text(&rest).start_with(write_files);
    let name = path.display();
    let check = gateway.command(&["check"]);
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(said.lines().count() == 1 && said.ends_with(": ok\n"), "{name}: {said}");
    let status = gateway.get("/").status;
    assert!(status < 500 || !are_plain, "{name}: {status}");
}

#[test]
fn every_example_starts_and_takes_requests() {
    let a = rig::origin("a");
    let all = examples();
    assert!(all.len() > 30, "{all:?}");
    for some in all.chunks(AT_A_TIME) {
        std::thread::scope(|scope| some.iter().for_each(|path| _ = scope.spawn(|| start(path, &a))));
    }
}
