//! Whose address is limited, let in and logged, in whatever form proxies write it: promise P10, rule U8.

use std::net::IpAddr;

use crate::rig::{self, Answer, Gateway, Origin, Raw};

const TRUSTED: [u8; 4] = [127, 0, 0, 1];
const STRANGER: [u8; 4] = [127, 0, 0, 2];

fn one(client_address: &str, route: &str) -> (Origin, Gateway) {
    let a = rig::origin("a");
    let text = format!(
        "trusted_proxies: [127.0.0.1, 10.0.0.0/8, \"fd00::/8\"]\nclient_address: {client_address}\n\
         pools: {{ p: {{ origins: $origins }} }}\nroutes: [ {{ pool: p{route} }} ]\n"
    );
    let gateway = rig::gateway(&text).process("threads", "1").origins([&a]).start();
    (a, gateway)
}

fn asked(ip: impl Into<IpAddr>, gateway: &Gateway, target: &str, lines: &str) -> Answer {
    let mut client = Raw::connect_from(ip.into(), gateway.address()).unwrap();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: t\r\n{lines}\r\n"));
    client.answer()
}

/// The left end of the list is the client's to write: limits go by the right one.
#[test]
fn p10_nobody_gets_another_limit_by_writing_addresses() {
    let rate = ", limits: { rate: { name: each, key: \"{client_ip}\", rate: 10/h, burst: 9 } }";
    let (a, gateway) = one("x-forwarded-for", rate);
    let random = |n: usize| format!("X-Forwarded-For: 198.51.{}.{}\r\n", n % 7, n % 251);
    let limited = (0..100).filter(|n| asked(STRANGER, &gateway, "/x", &random(*n)).status == 429).count();
    assert_eq!((limited, a.served()), (90, 10));
    // Behind a trusted proxy: what it appended is the client, whatever the client wrote before.
    let spoof =
        |n: usize| format!("X-Forwarded-For: 192.0.2.{n}\r\nX-Forwarded-For: 192.0.2.{n}, 203.0.113.5, 10.0.0.4\r\n");
    let limited = (0..20).filter(|n| asked(TRUSTED, &gateway, "/y", &spoof(*n)).status == 429).count();
    assert_eq!(limited, 10);
    assert_eq!(asked(TRUSTED, &gateway, "/z", "X-Forwarded-For: 203.0.113.6\r\n").status, 200, "somebody else");
    let clients: Vec<String> = gateway.await_log(121).iter().map(|line| line["client"].to_string()).collect();
    assert!(clients.iter().all(|client| !client.contains("198.51") && !client.contains("192.0.2")), "{clients:?}");
}

#[test]
fn u8_every_form_of_an_address_is_read_and_what_is_none_ends_the_walk() {
    let check = |header: &str, table: &[(&str, &str)]| {
        let (_a, gateway) = one(&header.to_lowercase(), "");
        for (n, (line, client)) in table.iter().enumerate() {
            let target = format!("/{n}");
            let lines: String = line.split('\n').map(|line| format!("{header}: {line}\r\n")).collect();
            assert_eq!(asked(TRUSTED, &gateway, &target, &lines).status, 200, "{header}: {line}");
            assert_eq!(gateway.logged(&target)["client"], *client, "{header}: {line}");
        }
    };
    check(
        "X-Forwarded-For",
        &[
            ("2001:db8::7", "2001:db8::7"),
            ("[2001:DB8:0::7]:4711", "2001:db8::7"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("203.0.113.7:4711", "203.0.113.7"),
            ("1.1.1.1, 203.0.113.7, fd00::1, [::ffff:10.0.0.4]:80", "203.0.113.7"),
            ("1.1.1.1\n203.0.113.7\n10.0.0.4, 10.0.0.5", "203.0.113.7"),
            ("203.0.113.7, unknown, 10.0.0.4", "10.0.0.4"),
            ("203.0.113.7, fe80::1%eth0", "127.0.0.1"),
            ("203.0.113.7, 10.0.0.300", "127.0.0.1"),
            ("", "127.0.0.1"),
        ],
    );
    check(
        "Forwarded",
        &[
            ("for=\"[2001:db8::7]:4711\";proto=https", "2001:db8::7"),
            ("for=1.1.1.1, For=\"203.0.113.7:_p\" , for=10.0.0.4;by=10.0.0.1", "203.0.113.7"),
            ("for=203.0.113.7, for=_hidden, for=10.0.0.4", "10.0.0.4"),
            ("for=203.0.113.7, for=unknown", "127.0.0.1"),
            ("for=\"[::ffff:203.0.113.7]\"\nfor=10.0.0.4", "203.0.113.7"),
        ],
    );
}

#[test]
fn access_is_by_the_client_whichever_way_its_address_is_written() {
    let (_a, gateway) = one("x-forwarded-for", ", access: { deny: [203.0.113.0/24, \"2001:db8:bad::/48\"] }");
    let by = |client: &str| asked(TRUSTED, &gateway, "/x", &format!("X-Forwarded-For: {client}\r\n")).status;
    for denied in
        ["203.0.113.9", "::ffff:203.0.113.9", "[::ffff:cb00:7109]:80", "2001:db8:bad::1", "[2001:DB8:BAD:0::2]"]
    {
        assert_eq!(by(denied), 403, "{denied}");
    }
    for allowed in ["203.0.114.9", "2001:db8:bae::1", "203.0.113.9, 198.51.100.1"] {
        assert_eq!(by(allowed), 200, "{allowed}");
    }
    assert_eq!(
        asked(STRANGER, &gateway, "/y", "X-Forwarded-For: 203.0.113.9\r\n").status,
        200,
        "only a proxy may say so"
    );
}
