//! Who is the client behind a balancer? Its PROXY header or X-Forwarded-For says, if the balancer is trusted and only
//! then: rule U8, promise P10.

use std::net::IpAddr;
use std::time::Duration;

use crate::rig::{self, Answer, Ask, Gateway, Origin, Raw, eventually};

const TRUSTED: [u8; 4] = [127, 0, 0, 1];
const STRANGER: [u8; 4] = [127, 0, 0, 2];

const LINE: &str = "PROXY TCP4 198.51.100.7 10.0.0.1 4711 80\r\n";
const POOL: &str = "trusted_proxies: [127.0.0.1, 10.0.0.0/8]\npools: { p: { origins: $origins } }\n";

fn one(proxy_protocol: &str, text: &str) -> (Origin, Gateway) {
    let a = rig::origin("a");
    let listener = format!("h2c: true, proxy_protocol: {proxy_protocol}");
    let gateway = rig::gateway(text).listener(&listener).process("threads", "1").origins([&a]).start();
    (a, gateway)
}

fn from(ip: impl Into<IpAddr>, gateway: &Gateway) -> Raw {
    Raw::connect_from(ip.into(), gateway.address()).unwrap()
}

fn get(target: &str, more: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: t\r\n{more}\r\n")
}

/// What one packet is answered with.
fn answered(ip: impl Into<IpAddr>, gateway: &Gateway, bytes: impl AsRef<[u8]>) -> Answer {
    let mut client = from(ip, gateway);
    client.send(bytes);
    client.answer()
}

fn rejected(gateway: &Gateway, reason: &str) -> f64 {
    gateway.metrics().sum("moorgate_connections_rejected_total", &[("reason", reason)])
}

/// The connection is closed without a word, and counted as such.
fn turned_away(ip: impl Into<IpAddr>, gateway: &Gateway, bytes: impl AsRef<[u8]>, reason: &str) {
    let before = rejected(gateway, reason);
    let mut client = from(ip, gateway);
    client.send(bytes);
    assert_eq!(client.rest(), b"", "{reason}");
    eventually(reason, || (rejected(gateway, reason) > before + 0.5).then_some(()));
}

/// The lines of a header in the latest request the origin saw.
fn seen(origin: &Origin, name: &str) -> Vec<String> {
    let request = origin.requests().pop().unwrap();
    request.headers.into_iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n".as_slice(), &[command, family], &length, rest].concat()
}

/// 198.51.100.8:4711 in version 2.
fn v4() -> Vec<u8> {
    v2(0x21, 0x11, &[198, 51, 100, 8, 10, 0, 0, 1, 0x12, 0x67, 0, 80])
}

#[test]
fn u8_the_address_of_a_proxy_header_is_the_client_s_everywhere() {
    let routes = "routes:\n  - { pool: p, access: { deny: [203.0.113.0/24] } }\n";
    let keyed = POOL.replace("origins:", "balance: { key: \"{client_ip}\" }, origins:");
    let (a, gateway) = one("required", &format!("{keyed}{routes}"));
    let answer = answered(TRUSTED, &gateway, format!("{LINE}{}", get("/one-packet", "X-Real-IP: 1.1.1.1\r\n")));
    assert_eq!(answer.status, 200);
    assert_eq!(seen(&a, "x-forwarded-for"), ["198.51.100.7"]);
    assert_eq!(seen(&a, "x-real-ip"), ["198.51.100.7"]);
    let logged = gateway.logged("/one-packet");
    assert_eq!((&logged["client"], &logged["key"]), (&"198.51.100.7".into(), &"198.51.100.7".into()));
    let denied = format!("PROXY TCP4 203.0.113.9 10.0.0.1 4711 80\r\n{}", get("/denied", ""));
    assert_eq!(answered(TRUSTED, &gateway, denied).status, 403);
    assert_eq!(gateway.logged("/denied")["client"], "203.0.113.9");
    let v6 = [&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7][..], &[0; 16], &[0, 80, 0, 80]].concat();
    let v6 = [v2(0x21, 0x21, &v6), get("/v6", "").into_bytes()].concat();
    assert_eq!(answered(TRUSTED, &gateway, v6).status, 200);
    assert_eq!(gateway.logged("/v6")["client"], "2001:db8::7");
}

#[test]
fn u8_peer_ip_stays_the_socket_s() {
    let a = rig::origin("a");
    let log = "{ path: $dir/access.log, format: '{{\"uri\":\"{uri}\",\"of\":\"{client_ip} {peer_ip}\"}}' }";
    let setup = rig::gateway(POOL).listener("proxy_protocol: optional").process("access_log", log);
    let gateway = setup.origins([&a]).start();
    assert_eq!(answered(TRUSTED, &gateway, format!("{LINE}{}", get("/x", ""))).status, 200);
    assert_eq!(gateway.logged("/x")["of"], "198.51.100.7 127.0.0.1");
}

#[test]
fn u8_a_header_in_pieces_holds_for_every_request_of_its_connection() {
    let (a, gateway) = one("required", POOL);
    let mut client = from(TRUSTED, &gateway);
    for byte in [v4(), get("/1", "").into_bytes()].concat() {
        client.send([byte]);
    }
    assert_eq!(client.answer().status, 200);
    client.send(get("/2", ""));
    assert_eq!(client.answer().status, 200);
    for request in a.requests() {
        let way: Vec<_> = request.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case("x-forwarded-for")).collect();
        assert!(way.len() == 1 && way[0].1 == "198.51.100.8", "{request:?}");
    }
    assert_eq!(
        (&gateway.logged("/1")["client"], &gateway.logged("/2")["client"]),
        (&"198.51.100.8".into(), &"198.51.100.8".into())
    );
}

#[test]
fn u8_http2_is_spoken_behind_a_proxy_header_too() {
    let (a, gateway) = one("required", POOL);
    let asks: Vec<Ask> = (0..3).map(|n| Ask::get(&format!("/{n}"))).collect();
    for answer in rig::h2c_behind(gateway.address(), &v4(), &asks) {
        assert_eq!(answer.unwrap().status, 200);
    }
    assert_eq!(seen(&a, "x-forwarded-for"), ["198.51.100.8"]);
    let logged = gateway.logged("/2");
    assert_eq!((&logged["client"], &logged["protocol"]), (&"198.51.100.8".into(), &"HTTP/2.0".into()));
}

#[test]
fn u8_what_names_nobody_leaves_the_socket_s_address() {
    let (_a, gateway) = one("required", POOL);
    let unix = v2(0x21, 0x31, &[b'x'; 216]);
    for (n, header) in [v2(0x20, 0, &[]), v2(0x21, 0, &[]), unix, b"PROXY UNKNOWN\r\n".to_vec()].into_iter().enumerate()
    {
        let target = format!("/{n}");
        assert_eq!(answered(TRUSTED, &gateway, [header, get(&target, "").into_bytes()].concat()).status, 200, "{n}");
        assert_eq!(gateway.logged(&target)["client"], "127.0.0.1", "{n}");
    }
}

/// <https://github.com/haproxy/haproxy/issues/2450>: one port with and without PROXY headers, by where they come from.
#[test]
fn b68_u8_p10_a_header_counts_from_trusted_networks_alone() {
    for mode in ["required", "optional"] {
        let (a, gateway) = one(mode, POOL);
        for header in [LINE.as_bytes().to_vec(), v4(), v2(0x20, 0, &[]), b"PROXY x".to_vec()] {
            let spoof = [header, get("/spoof", "").into_bytes()].concat();
            turned_away(STRANGER, &gateway, spoof, "proxy_untrusted");
        }
        assert_eq!(answered(STRANGER, &gateway, get("/plain", "X-Forwarded-For: 198.51.100.7\r\n")).status, 200);
        assert_eq!(gateway.logged("/plain")["client"], "127.0.0.2");
        assert_eq!(a.requests().len(), 1);
        let told = format!("{:?}{}{}", gateway.log(), gateway.output(), gateway.admin("GET", "/metrics").text());
        assert!(!told.contains("198.51.100") && !told.contains("/spoof"), "{told}");
    }
}

#[test]
fn u8_a_trusted_peer_without_a_header_is_turned_away_where_one_is_required() {
    let (_a, gateway) = one("required", POOL);
    turned_away(TRUSTED, &gateway, get("/plain", ""), "proxy_missing");
    assert!(gateway.log().is_empty());
    let (_a, gateway) = one("optional", POOL);
    assert_eq!(answered(TRUSTED, &gateway, get("/plain", "")).status, 200);
    assert_eq!(gateway.logged("/plain")["client"], "127.0.0.1");
}

#[test]
fn u8_a_header_that_is_none_or_never_ends_closes() {
    let text = format!("client_limits: {{ header_timeout: 300ms }}\n{POOL}");
    let (_a, gateway) = one("optional", &text);
    let wrong_sum = v2(0x21, 0x11, &[198, 51, 100, 8, 10, 0, 0, 1, 0x12, 0x67, 0, 80, 3, 0, 4, 1, 2, 3, 4]);
    let long = format!("PROXY UNKNOWN {}", "x".repeat(200));
    for wrong in
        [wrong_sum, v2(0x21, 0x11, &[1, 2, 3]), v2(0x20, 0, &[0; 8000]), long.into_bytes(), v4()[..20].to_vec()]
    {
        turned_away(TRUSTED, &gateway, wrong, "proxy_invalid");
    }
    let (_a, gateway) = one("required", &text);
    turned_away(TRUSTED, &gateway, "", "proxy_missing");
    assert!(gateway.log().is_empty());
}

#[test]
fn u8_bare_connects_are_counted_and_never_logged() {
    let (_a, gateway) = one("required", POOL);
    for _ in 0..1000 {
        drop(from(TRUSTED, &gateway));
    }
    // a balancer that checks with a header and no request
    from(TRUSTED, &gateway).send(v2(0x20, 0, &[]));
    eventually("all are counted", || (rejected(&gateway, "empty") > 1000.5).then_some(()));
    assert_eq!(answered(TRUSTED, &gateway, format!("{LINE}{}", get("/after", ""))).status, 200);
    gateway.logged("/after");
    assert_eq!(gateway.log().len(), 1);
    assert!(
        !gateway.output().contains("127.0.0.1:4711") && gateway.output().lines().count() < 10,
        "{}",
        gateway.output()
    );
}

#[test]
fn p10_x_forwarded_for_counts_if_whom_the_proxy_header_names_is_trusted() {
    let (a, gateway) = one("required", POOL);
    let way = "X-Forwarded-For: 1.1.1.1, 198.51.100.9\r\nX-Forwarded-Proto: https\r\nX-Real-IP: 3.3.3.3\r\n";
    let by = |ip: &str, target: &str| format!("PROXY TCP4 {ip} 10.0.0.1 4711 80\r\n{}", get(target, way));
    assert_eq!(answered(TRUSTED, &gateway, by("10.0.0.5", "/proxy")).status, 200);
    assert_eq!(gateway.logged("/proxy")["client"], "198.51.100.9");
    assert_eq!(seen(&a, "x-forwarded-for"), ["1.1.1.1, 198.51.100.9, 10.0.0.5"]);
    assert_eq!((seen(&a, "x-forwarded-proto"), seen(&a, "x-real-ip")), (vec!["https".into()], vec!["3.3.3.3".into()]));
    assert_eq!(answered(TRUSTED, &gateway, by("192.0.2.66", "/client")).status, 200);
    assert_eq!(gateway.logged("/client")["client"], "192.0.2.66");
    assert_eq!(seen(&a, "x-forwarded-for"), ["1.1.1.1, 198.51.100.9, 192.0.2.66"]);
    assert_eq!(
        (seen(&a, "x-forwarded-proto"), seen(&a, "x-real-ip")),
        (vec!["http".into()], vec!["192.0.2.66".into()])
    );
}

#[test]
fn p10_the_client_s_own_x_forwarded_for_never_counts() {
    let (_a, mut gateway) = one("off", &POOL.replace("trusted_proxies: [127.0.0.1, 10.0.0.0/8]\n", ""));
    let way = |target: &str| get(target, "X-Forwarded-For: 1.1.1.1, 198.51.100.9, 10.0.0.4\r\n");
    assert_eq!(answered(TRUSTED, &gateway, way("/nobody-trusted")).status, 200);
    assert_eq!(gateway.logged("/nobody-trusted")["client"], "127.0.0.1");
    gateway.change(POOL);
    assert_eq!(answered(TRUSTED, &gateway, way("/trusted")).status, 200);
    assert_eq!(gateway.logged("/trusted")["client"], "198.51.100.9");
    assert_eq!(answered(STRANGER, &gateway, way("/stranger")).status, 200);
    assert_eq!(gateway.logged("/stranger")["client"], "127.0.0.2");
}

#[test]
fn p10_the_header_that_names_the_client_can_be_chosen() {
    for (written, line) in [
        ("forwarded", "Forwarded: for=1.1.1.1, for=\"[2001:db8::9]:80\";proto=https, for=10.0.0.4"),
        ("cf-connecting-ip", "CF-Connecting-IP: 2001:db8::9"),
    ] {
        let (_a, gateway) = one("off", &format!("client_address: {written}\n{POOL}"));
        let ask = |target: &str| get(target, &format!("X-Forwarded-For: 3.3.3.3\r\n{line}\r\n"));
        assert_eq!(answered(TRUSTED, &gateway, ask("/trusted")).status, 200);
        assert_eq!(gateway.logged("/trusted")["client"], "2001:db8::9");
        assert_eq!(answered(STRANGER, &gateway, ask("/stranger")).status, 200);
        assert_eq!(gateway.logged("/stranger")["client"], "127.0.0.2");
    }
}

/// As X-Forwarded-For, so Forwarded: element by element, and what we add names whom the PROXY header names.
#[test]
fn p10_forwarded_counts_if_whom_the_proxy_header_names_is_trusted() {
    let route = "routes: [ { pool: p, forwarded: { forwarded: on }, limits: { rate: { key: \"{client_ip}\", rate: 1/h, burst: 1 } } } ]";
    let (a, gateway) = one("required", &format!("client_address: forwarded\n{POOL}{route}\n"));
    let by = |family: &str, ip: &str, target: &str, line: &str| {
        let to = if family == "TCP6" { "2001:db8::1" } else { "10.0.0.1" };
        let line = if line.is_empty() { String::new() } else { format!("Forwarded: {line}\r\n") };
        let head = format!("PROXY {family} {ip} {to} 4711 80\r\n{}", get(target, &line));
        answered(TRUSTED, &gateway, head).status
    };
    let way = "for=1.1.1.1, for=\"[2001:db8::9]:80\";proto=https;host=\"evil.example\"";
    for (n, (family, ip, line, client, told)) in [
        ("TCP4", "10.0.0.5", way, "2001:db8::9", "for=10.0.0.5;host=\"t\";proto=http"),
        ("TCP4", "192.0.2.66", way, "192.0.2.66", "for=192.0.2.66;host=\"t\";proto=http"),
        ("TCP6", "2001:db8::5", "", "2001:db8::5", "for=\"[2001:db8::5]\";host=\"t\";proto=http"),
        ("TCP6", "::ffff:192.0.2.67", "", "192.0.2.67", "for=192.0.2.67;host=\"t\";proto=http"),
    ]
    .into_iter()
    .enumerate()
    {
        let target = format!("/{n}");
        assert_eq!(by(family, ip, &target, line), 200, "{ip}");
        assert_eq!(gateway.logged(&target)["client"], client, "{ip}");
        let before = if line.is_empty() { String::new() } else { format!("{line}, ") };
        assert_eq!(seen(&a, "forwarded"), [format!("{before}{told}")], "{ip}");
    }
    // Behind a quote that is never closed ours would be a part of theirs.
    assert_eq!(by("TCP4", "192.0.2.68", "/open", "for=\"1.1.1.1"), 200);
    assert_eq!(seen(&a, "forwarded"), ["for=192.0.2.68;host=\"t\";proto=http"]);
    // Two a client, whoever says what; whom a trusted proxy names has two of its own.
    let spoof = |n: usize| format!("for=198.51.100.{n}");
    let strangers = (0..6).map(|n| by("TCP4", "203.0.113.1", "/limit", &spoof(n))).collect::<Vec<_>>();
    assert_eq!(strangers, [200, 200, 429, 429, 429, 429]);
    assert_eq!(by("TCP4", "203.0.113.2", "/limit", &spoof(0)), 200);
    let proxied = |n: usize| by("TCP4", "10.0.0.5", "/limit", &format!("{}, for=\"203.0.113.3:{n}\"", spoof(n)));
    assert_eq!((1..=4).map(proxied).collect::<Vec<_>>(), [200, 200, 429, 429]);
}

#[test]
fn u8_a_slow_header_is_cut_at_its_time_out() {
    let (_a, gateway) = one("required", &format!("client_limits: {{ header_timeout: 1s }}\n{POOL}"));
    let mut client = from(TRUSTED, &gateway);
    let start = std::time::Instant::now();
    let dripped = LINE.bytes().position(|byte| {
        std::thread::sleep(Duration::from_millis(100));
        client.try_send([byte]).is_err()
    });
    assert!(dripped.is_some() && start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    eventually("it is counted", || (rejected(&gateway, "proxy_invalid") > 0.5).then_some(()));
}

#[test]
fn a_client_has_so_many_connections_and_a_trusted_proxy_any_number() {
    let text = format!("client_limits: {{ connections_per_client: 2 }}\n{POOL}");
    let (_a, gateway) = one("optional", &text);
    let by = |ip: &str| format!("PROXY TCP4 {ip} 10.0.0.1 4711 80\r\n{}", get("/x", ""));
    let mut held: Vec<Raw> = (0..2).map(|_| from(TRUSTED, &gateway)).collect();
    for client in &mut held {
        client.send(by("198.51.100.7"));
        assert_eq!(client.answer().status, 200);
    }
    turned_away(TRUSTED, &gateway, by("198.51.100.7"), "connections_per_client");
    assert_eq!(answered(TRUSTED, &gateway, by("198.51.100.8")).status, 200);
    let proxied: Vec<Raw> = (0..5).map(|_| from(TRUSTED, &gateway)).collect();
    for mut client in proxied {
        client.send(get("/x", ""));
        assert_eq!(client.answer().status, 200);
    }
    held.clear();
    eventually("who has left may come back", || {
        let mut client = from(TRUSTED, &gateway);
        client.send(by("198.51.100.7"));
        client.answer_to("GET").is_ok().then_some(())
    });
}
