//! Does a key go where a real nginx sent it? Replays the recorded owners and attempt orders through the data plane.
//!
//! Origins bear nginx's server names; where they really listen makes no difference to the ring.

use crate::golden::{self, Golden, Server};
use crate::rig::{self, Ask, Client, Door, Gateway, Origin};

fn replay(file: &str) {
    let golden = Golden::read(&golden::folder().join(file));
    let origins: Vec<Origin> = golden.servers.iter().map(|server| rig::origin(&server.name)).collect();
    let gateway = start(&golden, &origins);
    let mut client = gateway.client();
    for (key, owner) in &golden.map {
        assert_eq!(owner_of(&mut client, key), *owner, "{key}");
    }
    let Some(refusing) = &golden.refusing else { return };
    let first = origins.iter().find(|origin| origin.name == *refusing).unwrap();
    first.door(Door::Refuse);
    // Connections to it that idle in the pool would still serve.
    first.close_idle(rig::Close::Fin);
    for (key, attempts) in &golden.attempts_when_refusing {
        assert_eq!(owner_of(&mut client, key), *attempts.last().unwrap(), "{key} when {refusing} refuses");
    }
}

fn start(golden: &Golden, origins: &[Origin]) -> Gateway {
    let entry = |(server, origin): (&Server, &Origin)| {
        format!("      - {{ address: \"{}\", name: \"{}\", weight: {} }}\n", origin.address, server.name, server.weight)
    };
    let list: String = golden.servers.iter().zip(origins).map(entry).collect();
    rig::gateway(&format!(
        "pools:\n  p:\n    balance: {{ key: \"{{header:x-key}}\" }}\n    health: {{ probe: off }}\n    origins:\n{list}"
    ))
    .start()
}

fn owner_of(client: &mut Client, key: &str) -> String {
    let answer = client.send(&Ask::get("/").header("x-key", key)).unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.origin().to_owned()
}

#[test]
fn b19_literal_addresses_equal_and_weighted() {
    replay("ipv4-equal.json");
    replay("ipv4-weighted.json");
}

#[test]
fn b19_eight_and_twelve_origins() {
    replay("ipv4-eight.json");
    replay("ipv4-twelve.json");
}

#[test]
fn b19_names_without_a_port_host_names_ipv6_and_sockets() {
    for file in ["no-port.json", "hostname.json", "ipv6.json", "unix.json", "mixed.json"] {
        replay(file);
    }
}
