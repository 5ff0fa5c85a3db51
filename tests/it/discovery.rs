//! Who serves when the origins of a pool are found by DNS? Rule J7, with a server on real sockets.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use crate::rig::{self, Dns, Gateway, Origin, Say, dns, keys, loopback, map, neighbours};

const NAME: &str = "origins.test";

/// A pool of whoever is found on this port, with further keys of the section and of the pool.
fn pool(port: u16, discovery: &str, more: &str) -> String {
    let probe = "{ interval: 100ms, timeout: 1s, http: { path: /healthz }, rise: 2, fall: 3 }";
    format!(
        "pools: {{ p: {{ slow_start: off, balance: {{ key: \"{{path}}\" }}, health: {{ probe: {probe} }}{more}, \
         discovery: {{ dns: {NAME}, port: {port}, refresh: 200ms{discovery} }} }} }}\n"
    )
}

fn start(dns: &Dns, text: &str) -> Gateway {
    asking(dns.address, text)
}

fn asking(server: SocketAddr, text: &str) -> Gateway {
    rig::gateway(text).process("resolver", &format!("[\"{server}\"]")).start()
}

fn port(origins: &[Origin]) -> u16 {
    origins[0].address.port()
}

/// Origins in service, joining or out: all but those that go and those that are parked.
fn members(gateway: &Gateway) -> BTreeSet<String> {
    let status = gateway.status();
    let origins = status["pools"]["p"]["origins"].as_object().unwrap();
    let there = |(name, origin): (&String, &Value)| {
        (!["leaving", "parked"].contains(&origin["state"].as_str().unwrap())).then(|| name.clone())
    };
    origins.iter().filter_map(there).collect()
}

fn await_members(gateway: &Gateway, origins: &[&Origin]) {
    let names: BTreeSet<String> = origins.iter().map(|origin| origin.name.clone()).collect();
    rig::eventually(&format!("{names:?} are there"), || (members(gateway) == names).then_some(()));
}

fn fingerprint(gateway: &Gateway) -> String {
    gateway.status()["pools"]["p"]["ring"]["fingerprint"].as_str().unwrap().to_owned()
}

/// Questions that ended so.
fn answers(gateway: &Gateway, result: &str) -> f64 {
    gateway.metrics().sum("moorgate_dns_answers_total", &[("pool", "p"), ("result", result)])
}

fn await_answers(gateway: &Gateway, result: &str, count: f64) {
    let from = answers(gateway, result);
    rig::eventually(&format!("answers that are {result}"), || (answers(gateway, result) >= from + count).then_some(()));
}

#[test]
fn j7_addresses_are_origins_that_come_and_go_like_any() {
    let all = neighbours(&[11, 12, 13]);
    let dns = dns();
    dns.tell(NAME, loopback([11, 12]));
    let gateway = start(&dns, &pool(port(&all), "", ""));
    await_members(&gateway, &[&all[0], &all[1]]);
    let first = map(gateway.address(), &keys(300));
    let written = format!(
        "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, origins: [\"{}\", \"{}\"] }} }}",
        all[1].name, all[0].name
    );
    assert_eq!(fingerprint(&rig::gateway(&written).start()), fingerprint(&gateway), "as if they were written");
    assert_eq!(gateway.origin("p", &all[0].name)["why"].as_str().map(|why| why.contains("not_proven")), Some(false));

    let load = rig::load(gateway.address()).start();
    all[2].script([rig::on("/healthz").hold("proof")]);
    dns.tell(NAME, loopback([11, 12, 13]));
    await_members(&gateway, &[&all[0], &all[1], &all[2]]);
    load.further(100);
    assert_eq!((gateway.origin("p", &all[2].name)["state"].as_str(), all[2].served()), (Some("joining"), 0));
    all[2].script([]);
    all[2].release("proof");
    rig::eventually("the newcomer serves", || (all[2].served() > 0).then_some(()));
    dns.tell(NAME, loopback([11, 12]));
    await_members(&gateway, &[&all[0], &all[1]]);
    gateway.await_state("p", &all[2].name, "parked");
    load.further(100);
    load.stop().assert_all_good();
    rig::eventually("keys are where they were", || (map(gateway.address(), &keys(300)) == first).then_some(()));
    let status = gateway.status();
    assert_eq!(status["config"]["version"], 1, "it is the same configuration: {status}");
    assert_eq!(status["config"]["history"].as_array().map(Vec::len), Some(1));
    assert!(gateway.metrics().sum("moorgate_config_drift", &[]) < 0.5);
    let observed = &status["pools"]["p"]["keys"]["moved_ratio"];
    assert!(observed.is_number(), "what the last of these changes moved was observed: {status}");
}

#[test]
fn j7_answers_that_fail_change_nothing() {
    let all = neighbours(&[21, 22]);
    let mut dns = dns();
    dns.tell(NAME, loopback([21, 22]));
    let gateway = start(&dns, &pool(port(&all), "", ""));
    await_members(&gateway, &[&all[0], &all[1]]);
    let (ring, first) = (fingerprint(&gateway), map(gateway.address(), &keys(200)));
    for (say, result) in [(Say::Failure, "failed"), (Say::NoName, "no_name"), (Say::Empty, "empty")] {
        dns.say(NAME, 0, say);
        await_answers(&gateway, result, 5.0);
        let told = &gateway.status()["pools"]["p"]["discovery"];
        assert!(told["failure"].is_string() && told["answered"].is_number(), "{result}: {told}");
    }
    dns.say(NAME, 0, Say::Silence);
    await_answers(&gateway, "failed", 1.0);
    dns.stop();
    await_answers(&gateway, "failed", 1.0);
    assert_eq!((fingerprint(&gateway), map(gateway.address(), &keys(200))), (ring, first));
    assert_eq!(gateway.output().matches("its origins stay as they are").count(), 1, "{}", gateway.output());

    dns.start();
    dns.tell(NAME, loopback([22]));
    await_members(&gateway, &[&all[1]]);
    assert!(gateway.status()["pools"]["p"]["discovery"]["failure"].is_null());
}

#[test]
fn j7_a_server_that_rotates_8_of_20_is_served_as_a_whole() {
    let origin = rig::everywhere("o");
    let dns = dns();
    dns.say(NAME, 0, Say::Rotating(loopback(1..=20), 8));
    let gateway = start(&dns, &pool(origin.address.port(), "", ""));
    rig::eventually("all 20 are there", || (members(&gateway).len() == 20).then_some(()));
    let ring = fingerprint(&gateway);
    let load = rig::load(gateway.address()).start();
    await_answers(&gateway, "found", 30.0);
    load.stop().assert_all_good();
    assert_eq!((members(&gateway).len(), fingerprint(&gateway)), (20, ring.clone()));
    dns.say(NAME, 0, Say::Failure);
    await_answers(&gateway, "failed", 5.0);
    dns.say(NAME, 0, Say::Rotating(loopback(1..=20), 8));
    await_answers(&gateway, "found", 10.0);
    assert_eq!(fingerprint(&gateway), ring, "no key moved");
}

#[test]
fn j7_a_truncated_answer_is_repeated_over_tcp() {
    let origin = rig::everywhere("o");
    let dns = dns();
    dns.tell(NAME, loopback(1..=200));
    let gateway = start(&dns, &pool(origin.address.port(), "", ""));
    rig::eventually("200 origins", || (members(&gateway).len() == 200).then_some(()));
    assert!(dns.asked(NAME, "tcp") > 0);
    let ring = fingerprint(&gateway);
    dns.deaf_on_tcp(true);
    await_answers(&gateway, "failed", 1.0);
    assert_eq!(fingerprint(&gateway), ring, "the part of an answer that fits is none");
    dns.deaf_on_tcp(false);
    await_answers(&gateway, "found", 4.0);
    assert_eq!((members(&gateway).len(), fingerprint(&gateway)), (200, ring));
    assert_eq!(gateway.get("/x").status, 200);
}

#[test]
fn j7_who_is_missed_and_fails_its_probe_goes_at_once() {
    let mut all = neighbours(&[31, 32]);
    let dns = dns();
    dns.say(NAME, 3, Say::Addresses(loopback([31, 32])));
    let text = pool(port(&all), "", "").replace("refresh: 200ms", "refresh: 1h");
    let gateway = start(&dns, &text);
    await_members(&gateway, &[&all[0], &all[1]]);
    all[1].kill();
    gateway.await_state("p", &all[1].name, "down");
    dns.further(NAME, 2);
    assert_eq!(members(&gateway).len(), 2, "a probe alone takes nobody away");
    dns.say(NAME, 3600, Say::Addresses(loopback([31])));
    await_members(&gateway, &[&all[0]]);
    let questions = dns.asked(NAME, "udp");
    assert_eq!(gateway.get("/x").status, 200);
    gateway.await_state("p", &all[1].name, "parked");
    assert_eq!(dns.asked(NAME, "udp"), questions, "one answer was enough, and it holds for an hour");
}

#[test]
fn j7_a_process_whose_name_is_unknown_starts_and_says_why_nobody_serves() {
    let all = neighbours(&[41, 42]);
    let dns = dns();
    let text = pool(port(&all), "", "");
    let gateway = start(&dns, &text);
    let answer = gateway.get("/early");
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(gateway.logged("/early")["error"], "no_origin");
    let told = gateway.status()["pools"]["p"].clone();
    assert_eq!(told["origins"].as_object().map(serde_json::Map::len), Some(0), "{told}");
    assert_eq!((&told["discovery"]["dns"], &told["discovery"]["answered"]), (&NAME.into(), &Value::Null), "{told}");
    assert_eq!(told["discovery"]["failure"], "there is no such name");
    let output = gateway.command(&["check"]);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    dns.tell(NAME, loopback([41, 42]));
    await_members(&gateway, &[&all[0], &all[1]]);
    assert_eq!(gateway.get("/late").status, 200, "the first ones are assumed up");
}

#[test]
fn c3_no_guard_holds_discovery_up_nor_the_reload_after_it() {
    let all = neighbours(&[51, 52, 53, 54]);
    let dns = dns();
    dns.tell(NAME, loopback([51]));
    let text = pool(port(&all), "", ", guard: { max_moved: 1% }");
    let mut gateway = start(&dns, &text);
    await_members(&gateway, &[&all[0]]);
    dns.tell(NAME, loopback([51, 52, 53, 54]));
    await_members(&gateway, &all.iter().collect::<Vec<_>>());
    all.iter().for_each(|origin| gateway.await_state("p", &origin.name, "up"));
    let ring = fingerprint(&gateway);
    let told = gateway.change(&format!("{text}routes: [ {{ name: other, pool: p }} ]\n"));
    assert_eq!(
        (&told["result"], &told["version"], told["joining"].as_object().map(serde_json::Map::len)),
        (&"applied".into(), &2.into(), Some(0))
    );
    assert_eq!(fingerprint(&gateway), ring, "a reload keeps who was found");
    assert_eq!(gateway.command(&["rollback"]).status.code(), Some(0));
    assert_eq!(fingerprint(&gateway), ring);
}

#[test]
fn j7_a_list_that_was_written_serves_until_it_is_known_who_takes_its_place() {
    let all = neighbours(&[61, 62, 63]);
    let dns = dns();
    let written = format!(
        "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, origins: [\"{}\", \"{}\"] }} }}\n",
        all[0].name, all[1].name
    );
    let mut gateway = start(&dns, &written);
    let ring = fingerprint(&gateway);
    let load = rig::load(gateway.address()).start();
    load.further(50);
    let found = pool(port(&all), "", "");
    gateway.change(&found);
    await_answers(&gateway, "no_name", 3.0);
    assert_eq!(fingerprint(&gateway), ring);
    dns.tell(NAME, loopback([62, 63]));
    await_members(&gateway, &[&all[1], &all[2]]);
    load.further(50);
    gateway.change(&written);
    await_members(&gateway, &[&all[0], &all[1]]);
    load.further(50);
    load.stop().assert_all_good();
    assert_eq!(fingerprint(&gateway), ring);
}

#[test]
fn b66_an_origin_may_be_called_by_the_name_its_record_gives_it_wherever_it_is() {
    let all = neighbours(&[71, 72, 73]);
    let dns = dns();
    let (zero, one, backup) = ("pod-0.origins.test", "pod-1.origins.test", "far.origins.test");
    dns.say(
        NAME,
        1,
        Say::Services(
            [(zero, 0), (one, 0), (backup, 1)].map(|(host, priority)| (host.to_owned(), port(&all), priority)).into(),
        ),
    );
    dns.say(zero, 1, Say::Addresses(loopback([71])));
    dns.say(one, 1, Say::Addresses(loopback([72])));
    let text = pool(port(&all), ", identity: name", "").replace(&format!("port: {}, ", port(&all)), "");
    let gateway = start(&dns, &text);
    let names: BTreeSet<String> = [zero, one].map(|host| format!("{host}:{}", port(&all))).into();
    rig::eventually("the targets are there", || (members(&gateway) == names).then_some(()));
    for name in &names {
        gateway.await_state("p", name, "up");
    }
    let (ring, first) = (fingerprint(&gateway), map(gateway.address(), &keys(200)));
    let load = rig::load(gateway.address()).start();
    dns.say(one, 1, Say::Addresses(loopback([73])));
    rig::eventually("it is followed", || (all[2].served() > 0).then_some(()));
    dns.say(NAME, 1, Say::Failure);
    dns.say(one, 1, Say::Failure);
    await_answers(&gateway, "failed", 3.0);
    load.further(50);
    load.stop().assert_all_good();
    let moved = map(gateway.address(), &keys(200));
    let to = |name: &String| if *name == all[1].name { all[2].name.clone() } else { name.clone() };
    assert!(first.iter().all(|(key, origin)| moved[key] == to(origin)), "each key stays with its name");
    assert_eq!(fingerprint(&gateway), ring);
}

/// As in a reload: those that go serve until those that come have their share.
#[test]
fn j3_a_pool_whose_addresses_are_all_others_is_handed_over() {
    let all = neighbours(&[111, 112, 113, 114]);
    let dns = dns();
    dns.tell(NAME, loopback([111, 112]));
    let text = pool(port(&all), "", "").replace("slow_start: off", "slow_start: { window: 3s }");
    let gateway = start(&dns, &text);
    await_members(&gateway, &[&all[0], &all[1]]);
    let load = rig::load(gateway.address()).start();
    load.further(50);
    dns.tell(NAME, loopback([113, 114]));
    await_members(&gateway, &[&all[2], &all[3]]);
    gateway.await_state("p", &all[2].name, "ramping");
    rig::eventually("their share is whole", || {
        let state = |origin: &Origin| gateway.origin("p", &origin.name)["state"].clone();
        let [goes, comes] = [&all[..2], &all[2..]];
        (comes.iter().all(|one| state(one) == "up") && goes.iter().all(|one| state(one) == "parked")).then_some(())
    });
    load.further(50);
    all[..2].iter().for_each(Origin::forget);
    load.further(100);
    assert_eq!(all[0].served() + all[1].served(), 0, "and those that went are silent");
    load.stop().assert_all_good();
}

#[test]
fn b65_nobody_fails_while_answers_change() {
    let all = neighbours(&[81, 82]);
    let dns = dns();
    dns.tell(NAME, loopback([81]));
    let gateway = start(&dns, &pool(port(&all), "", ""));
    await_members(&gateway, &[&all[0]]);
    let load = rig::load(gateway.address()).clients(16).start();
    for turn in 0..6 {
        let number = [82, 81][turn % 2];
        dns.tell(NAME, loopback([number]));
        await_members(&gateway, &[&all[usize::from(number) - 81]]);
        load.further(50);
    }
    load.stop().assert_all_good();
}

#[test]
fn an_answer_is_asked_for_again_when_its_time_is_over() {
    let all = neighbours(&[91, 92]);
    let dns = dns();
    dns.say(NAME, 1, Say::Addresses(loopback([91])));
    let text = pool(port(&all), "", "").replace("refresh: 200ms", "refresh: 1h");
    let gateway = start(&dns, &text);
    await_members(&gateway, &[&all[0]]);
    dns.say(NAME, 1, Say::Addresses(loopback([91, 92])));
    await_members(&gateway, &[&all[0], &all[1]]);
}

#[test]
fn both_families_of_addresses_are_found() {
    let all = neighbours(&[95]);
    let dns = dns();
    let mut addresses = loopback([95]);
    addresses.push("::1".parse::<IpAddr>().unwrap());
    dns.tell(NAME, addresses);
    let gateway = start(&dns, &pool(port(&all), "", ""));
    let names: BTreeSet<String> = [all[0].name.clone(), format!("[::1]:{}", port(&all))].into();
    rig::eventually("both are there", || (members(&gateway) == names).then_some(()));
}

#[test]
fn a_real_dns_server_is_followed() {
    let all = neighbours(&[101, 102, 103]);
    let hosts = |numbers: &[u8]| numbers.iter().map(|n| format!("127.0.0.{n} {NAME}\n")).collect::<String>();
    let services = format!(
        "srv-host=_http._tcp.{NAME},pod-0.test,{port},0\nhost-record=pod-0.test,127.0.0.103\n",
        port = port(&all)
    );
    let server = rig::dnsmasq(&hosts(&[101, 102]), &services);
    let gateway = asking(server.address, &pool(port(&all), "", ""));
    await_members(&gateway, &[&all[0], &all[1]]);
    server.know(&hosts(&[102, 103]));
    await_members(&gateway, &[&all[1], &all[2]]);
    assert_eq!(gateway.get("/x").status, 200);
    let by_name = pool(port(&all), ", identity: name", "").replace(NAME, &format!("_http._tcp.{NAME}"));
    let gateway = asking(server.address, &by_name);
    let name = format!("pod-0.test:{}", port(&all));
    rig::eventually("the target is there", || members(&gateway).contains(&name).then_some(()));
    gateway.await_state("p", &name, "up");
    assert_eq!(gateway.get("/x").origin(), all[2].name);
}

#[test]
fn a_real_dns_server_tells_many_over_tcp() {
    let origin = rig::everywhere("o");
    let hosts: String = (1..=200).map(|n| format!("127.0.0.{n} {NAME}\n")).collect();
    let server = rig::dnsmasq(&hosts, "");
    let gateway = asking(server.address, &pool(origin.address.port(), "", ""));
    rig::eventually("200 origins", || (members(&gateway).len() == 200).then_some(()));
}
