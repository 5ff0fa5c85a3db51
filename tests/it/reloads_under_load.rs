//! Do many reloads cost anything? No request, no connection, no stream, and no memory that is not given back.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::rig::issued::certificate;
use crate::rig::{self, Ask, Gateway, Origin, Raw, Step, hello, on, tunnel};

/// What a process may grow by that was reloaded again and again.
const GROWTH: u64 = 10 << 20;

/// Connections are not closed for having served long.
const LIMITS: &str = "client_limits: { keepalive_requests: 1000000 }\n";

fn origins(names: &[&str]) -> Vec<Origin> {
    names.iter().map(|name| rig::origin(name)).collect()
}

fn snapshots(gateway: &Gateway) -> f64 {
    gateway.metrics().sum("moorgate_snapshots", &[])
}

/// Fails where the process grew since it had this much memory.
fn assert_no_growth(gateway: &Gateway, before: u64) {
    let now = gateway.footprint().memory;
    assert!(now < before + GROWTH, "{} KiB, and {} KiB before", now >> 10, before >> 10);
}

/// The n-th file: one of members, weights, key and routes differs from the one before.
fn by_turns(n: usize) -> String {
    let on = |turn: usize| (n + 3 - turn) / 4 % 2 == 1;
    let d = if on(0) { ", { address: \"$d\", name: d }" } else { "" };
    let weight = if on(1) { 3 } else { 1 };
    let key = if on(2) { "{host}{path}" } else { "{path}" };
    let api = if on(3) { "  - { name: api, match: { path: { prefix: /obj/1 } }, pool: p }\n" } else { "" };
    format!(
        "{LIMITS}certificates: [ {{ cert: $dir/a.pem, key: $dir/a.key }} ]\npools:\n  p:\n    balance: {{ key: \"{key}\" }}\n    connections: {{ keepalive_timeout: 2s }}\n    \
         health: {{ probe: {{ interval: 300ms, timeout: 200ms }} }}\n    \
         origins: [{{ address: \"$a\", name: a, weight: {weight} }}, {{ address: \"$b\", name: b }}, \
         {{ address: \"$c\", name: c }}{d}]\nroutes:\n{api}  - {{ name: all, pool: p }}\n"
    )
}

/// A stream that says one thing after each reload, and a last one.
fn stream(reloads: usize) -> Vec<Step> {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut steps = vec![Step::Send(HEAD.to_vec())];
    for n in 1..=reloads {
        steps.extend([Step::Hold(format!("reload {n}")), Step::Send(b"3\r\nnow\r\n".to_vec())]);
    }
    steps.extend([Step::Hold("the end".to_owned()), Step::Send(b"0\r\n\r\n".to_vec())]);
    steps
}

fn open_streams(gateway: &Gateway, count: usize) -> Vec<Raw> {
    let open = |n| {
        let mut raw = rig::raw(gateway.address());
        raw.send(format!("GET /stream/{n} HTTP/1.1\r\nHost: t\r\nAccept: text/event-stream\r\n\r\n"));
        assert_eq!(raw.answer_to("HEAD").unwrap().status, 200);
        raw
    };
    (0..count).map(open).collect()
}

/// Another certificate for the listener by TLS: what it is known by.
fn renew(folder: &Path) -> String {
    let certificate = certificate(&["a.test"]).issue();
    certificate.write(folder, "a");
    certificate.fingerprint()
}

/// Load by TLS: kept connections of HTTP/1.1 and of HTTP/2, and new ones.
struct ByTls {
    doors: [rig::Tunnel; 2],
    kept: [rig::Running; 2],
    fresh: rig::Running,
}

impl ByTls {
    fn start(to: SocketAddr) -> Self {
        let doors = [b"\x08http/1.1".as_slice(), b"\x02h2"].map(|offered| tunnel(to, offered));
        let load = |door: usize| rig::load(doors[door].address).clients(4).rate(50.0);
        let kept = [load(0).start(), load(1).http2().start()];
        let fresh = load(0).fresh_connections().start();
        Self { doors, kept, fresh }
    }

    fn stop_all_good(self) {
        for load in self.kept {
            let tally = load.stop();
            tally.assert_all_good();
            assert_eq!(tally.closed, 0, "connections were closed");
        }
        self.fresh.stop().assert_all_good();
        self.doors.iter().for_each(rig::Tunnel::assert_none_cut);
    }
}

#[test]
fn p8_200_reloads_cost_no_request_no_connection_and_no_stream() {
    const RELOADS: usize = 200;
    let all = origins(&["a", "b", "c", "d"]);
    let steps = stream(RELOADS);
    for origin in &all {
        origin.script([steps.iter().cloned().fold(on("/stream/*"), rig::Rule::then)]);
    }
    let start = rig::gateway(&by_turns(0)).further_listener("tls: {}").origins(&all);
    let mut gateway = start.start_with(|folder| _ = renew(folder));
    let at_rest = gateway.footprint();
    let mut streams = open_streams(&gateway, 20);
    let ask = |n| match n % 3 {
        0 => Ask::new("POST", &format!("/obj/{n}")).body(vec![b'x'; (n % 3000) as usize]),
        _ => Ask::get(&format!("/obj/{n}")),
    };
    let load = rig::load(gateway.address()).clients(16).rate(300.0).asking(ask).start();
    let by_tls = ByTls::start(gateway.listeners[1]);
    let mut before = gateway.footprint();
    for n in 1..=RELOADS {
        let renewed = (n % 20 == 0).then(|| renew(&gateway.path("")));
        let told = gateway.change(&by_turns(n));
        assert_eq!(told["result"], "applied", "{told}");
        if let Some(renewed) = renewed {
            assert_eq!(hello("a.test").connect(gateway.listeners[1]).unwrap().shown(), renewed);
        }
        all.iter().for_each(|origin| origin.release(&format!("reload {n}")));
        for stream in &mut streams {
            assert_eq!(stream.bytes(8), b"3\r\nnow\r\n", "after {n} reloads");
        }
        load.further(3);
        if n == 24 {
            before = gateway.footprint();
        }
    }
    rig::eventually("streams let go of what they began with", || (snapshots(&gateway) < 1.5).then_some(()));
    assert_no_growth(&gateway, before.memory);
    assert_eq!(gateway.footprint().threads, before.threads);
    all.iter().for_each(|origin| origin.release("the end"));
    for stream in &mut streams {
        assert_eq!(stream.bytes(5), b"0\r\n\r\n");
        stream.send("GET /after HTTP/1.1\r\nHost: t\r\n\r\n");
        assert_eq!(stream.answer().status, 200, "the connection of a stream goes on");
    }
    let tally = load.stop();
    tally.assert_all_good();
    assert_eq!(tally.closed, 0, "connections were closed");
    by_tls.stop_all_good();
    drop(streams);
    let left = || gateway.footprint().descriptors.checked_sub(at_rest.descriptors + 1);
    rig::eventually("descriptors are given back", || left().is_none().then_some(()));
}

#[test]
fn b57_fifty_clients_that_post_notice_nothing_of_a_reload_every_100_ms() {
    const RELOADS: u32 = 200;
    let all = origins(&["a", "b"]);
    let file = |n: u32| {
        format!(
            "{LIMITS}pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, origins: $origins }} }}\n\
             routes: [ {{ name: r{n}, pool: p }} ]\n"
        )
    };
    let mut gateway = rig::gateway(&file(0)).origins(&all).start();
    let post = |n| Ask::new("POST", &format!("/obj/{n}")).body(vec![b'x'; (n % 5000) as usize]);
    let load = rig::load(gateway.address()).clients(50).rate(800.0).random_gaps().asking(post).start();
    let newcomers = rig::load(gateway.address()).clients(4).rate(100.0).fresh_connections().start();
    let start = Instant::now();
    for n in 1..=RELOADS {
        gateway.change(&file(n));
        load.further(1);
        std::thread::sleep((n * Duration::from_millis(100)).saturating_sub(start.elapsed()));
    }
    let (kept, fresh) = (load.stop(), newcomers.stop());
    kept.assert_all_good();
    fresh.assert_all_good();
    assert_eq!(kept.closed, 0, "connections were closed");
    assert_eq!(all.iter().map(Origin::served).sum::<u64>(), kept.sent() + fresh.sent());
}

/// A key has one place under each of two rings in turn, and the new ring as soon as the reload has said so.
#[test]
fn p1_every_request_is_placed_by_one_ring() {
    let all = origins(&["a", "b", "c"]);
    let file = |heavy: bool| {
        let weight = if heavy { 5 } else { 1 };
        format!(
            "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, slow_start: off, origins: [{{ address: \"$a\", name: a, weight: {weight} }}, \
             {{ address: \"$b\", name: b }}, {{ address: \"$c\", name: c }}] }} }}\n"
        )
    };
    let mut gateway = rig::gateway(&file(false)).origins(&all).start();
    let ring = |gateway: &Gateway| gateway.status()["pools"]["p"]["ring"]["fingerprint"].clone();
    let load = rig::load(gateway.address()).rate(400.0).asking(|n| Ask::get(&format!("/obj/{}", n % 100))).start();
    let mut then = Vec::new();
    for n in 0..40 {
        gateway.change(&file(n % 2 == 0));
        assert_eq!(gateway.get(&format!("/after/{n}")).status, 200);
        then.push(ring(&gateway));
        load.further(20);
    }
    let tally = load.stop();
    tally.assert_all_good();
    let log = gateway.await_log(then.len() + usize::try_from(tally.sent()).unwrap());
    let mut places = BTreeMap::<_, BTreeSet<_>>::new();
    for line in &log {
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        places
            .entry((text(&line["ring"]), text(&line["key"])))
            .or_default()
            .insert(text(&line["attempts"][0]["origin"]));
    }
    let wrong = places.iter().find(|(_, places)| places.len() > 1);
    assert_eq!(wrong, None, "one key in two places under one ring");
    let rings: BTreeSet<&String> = places.keys().map(|(ring, _)| ring).collect();
    assert_eq!(rings.len(), 2);
    let moved = (0..100).map(|n| format!("/obj/{n}"));
    let moved = moved.filter(|key| {
        // a key that was asked for under one of them only tells nothing
        rings.iter().filter_map(|ring| places.get(&((*ring).clone(), key.clone()))).collect::<BTreeSet<_>>().len() > 1
    });
    assert!(moved.count() > 20, "the two rings are too alike to tell one from the other");
    for (n, ring) in then.iter().enumerate() {
        let line = log.iter().find(|line| line["uri"] == format!("/after/{n}")).unwrap();
        assert_eq!(line["ring"], *ring, "after reload {n}");
    }
}

/// The same again and again costs as much as once: a thousand origins, and tunnels that began on old configurations.
#[test]
fn b56_c6_many_reloads_of_a_large_pool_leave_tunnels_alone_and_no_memory_behind() {
    const RELOADS: u32 = if cfg!(debug_assertions) { 30 } else { 136 };
    const WITH_TUNNELS: u32 = 10;
    let a = rig::origin("a");
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".to_vec();
    a.script([on("/ws*").then(Step::Send(switch)).then(Step::Echo)]);
    let members: Vec<String> = (0..1000).map(|n| format!("{{ address: \"{}\", name: o{n} }}", a.address)).collect();
    let members = members.join(", ");
    let file = |n: u32| {
        format!(
            "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, health: {{ probe: off }}, origins: [{members}] }} }}\n\
             routes: [ {{ name: r{n}, pool: p }} ]\n"
        )
    };
    let mut gateway = rig::gateway(&file(0)).start();
    let tunnel = |gateway: &Gateway, n: u32| {
        let mut tunnel = rig::raw(gateway.address());
        tunnel.send(format!("GET /ws/{n} HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"));
        assert_eq!(tunnel.answer().status, 101);
        tunnel
    };
    let pid = gateway.pid();
    let mut tunnels = vec![tunnel(&gateway, 0)];
    let mut memory = Vec::new();
    for n in 1..=RELOADS {
        gateway.change(&file(n));
        if n <= WITH_TUNNELS {
            tunnels.push(tunnel(&gateway, n));
        }
        memory.push(gateway.footprint().memory);
        for tunnel in &mut tunnels {
            tunnel.send("ping");
            assert_eq!(tunnel.bytes(4), b"ping", "after {n} reloads");
        }
    }
    assert_eq!(gateway.pid(), pid);
    assert!(gateway.running());
    rig::eventually("tunnels let go of what they began with", || (snapshots(&gateway) < 1.5).then_some(()));
    // One more configuration comes and goes with each reload: what stays is the least there was in a while.
    let most_before = memory[4..14].iter().max().unwrap();
    let least_after = memory[memory.len() - 5..].iter().min().unwrap();
    assert!(*least_after < most_before + GROWTH, "{least_after} bytes, and {most_before} bytes before");
}
