//! Do clients that come by TLS get what others get, and what becomes of those that do not get through?

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::process::Command;

use openssl::ssl::SslVersion;

use crate::rig::issued::{Issued, authority, certificate};
use crate::rig::{self, Ask, Gateway, Origin, eventually, hello, raw};

pub(crate) const TEXT: &str = "\
certificates: [ { cert: $dir/a.pem, key: $dir/a.key } ]
client_limits: { header_timeout: 300ms, keepalive: 5s }
pools: { p: { origins: $origins } }
";

pub(crate) fn secured(a: &Origin) -> Gateway {
    let start = rig::gateway(TEXT).listener("tls: {}").origins([a]);
    start.start_with(|folder| certificate(&["a.test"]).issue().write(folder, "a"))
}

fn rejected(gateway: &Gateway, reason: &str) -> f64 {
    gateway.metrics().sum("moorgate_connections_rejected_total", &[("reason", reason)])
}

pub(crate) fn sees(origin: &Origin, name: &str) -> Option<String> {
    let requests = origin.requests();
    let headers = &requests.last().unwrap().headers;
    headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
}

#[test]
fn requests_come_by_tls_in_http_1() {
    let a = rig::origin("a");
    let gateway = secured(&a);
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        let hello = hello("a.test").with(move |context| context.set_max_proto_version(Some(version)).unwrap());
        let mut client = hello.connect(gateway.address()).unwrap();
        for target in ["/one", "/two"] {
            assert_eq!(client.get(target).status, 200);
        }
        assert_eq!(sees(&a, "x-forwarded-proto").as_deref(), Some("https"));
        assert_eq!(gateway.logged("/two")["scheme"], "https");
        let large = vec![b'x'; 300_000];
        let answer = client.try_send(&Ask::new("POST", "/large").body(large)).unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(a.requests().last().unwrap().body_bytes, 300_000);
        // a request that follows in pieces is not lost in a record
        client.stream().write_all(b"GET /pieces HTTP/1.1\r\nHo").unwrap();
        client.stream().write_all(b"st: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut rest = String::new();
        client.stream().read_to_string(&mut rest).expect("a close that says so");
        assert_eq!(rest.matches("HTTP/1.1 200").count(), 2, "{rest}");
    }
    let old = hello("a.test").with(|context| context.set_max_proto_version(Some(SslVersion::TLS1_1)).unwrap());
    assert!(old.connect(gateway.address()).is_err());
}

#[test]
fn real_clients_come_by_tls() {
    let a = rig::origin("a");
    let gateway = secured(&a);
    let port = gateway.address().port();
    let url = format!("https://a.test:{port}/curl");
    let resolve = format!("a.test:{port}:127.0.0.1");
    let ca = gateway.path("a.pem");
    for version in ["1.2", "1.3"] {
        let curl = Command::new("curl")
            .args(["-sS", "--max-time", "20", "--tls-max", version, "--http1.1", "--resolve", &resolve, "--cacert"])
            .arg(&ca)
            .args(["-w", " %{http_code} %{http_version}", &url])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&curl.stdout).into_owned();
        assert!(said.ends_with(" 200 1.1"), "{said} {}", String::from_utf8_lossy(&curl.stderr));
    }
}

#[test]
fn who_leaves_without_a_word_of_tls_asked_for_nothing() {
    let a = rig::origin("a");
    let gateway = secured(&a);
    let hello = hello("a.test").with(|context| context.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap());
    drop(hello.connect(gateway.address()).unwrap());
    eventually("it came and went", || (rejected(&gateway, "empty") >= 1.0).then_some(()));
    assert_eq!(hello.connect(gateway.address()).unwrap().get("/after").status, 200);
    let requests = || gateway.metrics().sum("moorgate_requests_total", &[]);
    eventually("the one request", || (requests() >= 1.0).then_some(()));
    assert!((requests() - 1.0).abs() < 0.5);
}

#[test]
fn who_does_not_get_through_is_counted_and_cut() {
    let a = rig::origin("a");
    let gateway = secured(&a);
    let mut garbage = raw(gateway.address());
    garbage.send([0u8; 600]);
    garbage.rest();
    eventually("garbage is counted", || (rejected(&gateway, "tls_handshake") >= 1.0).then_some(()));
    let mut half = raw(gateway.address());
    half.send([22, 3, 1, 2, 0, 1, 0]);
    half.rest();
    eventually("half a hello is cut", || (rejected(&gateway, "tls_handshake") >= 2.0).then_some(()));
    drop(raw(gateway.address()));
    let mut silent = raw(gateway.address());
    silent.rest();
    eventually("silence is no failure", || (rejected(&gateway, "empty") >= 2.0).then_some(()));
    assert!((rejected(&gateway, "tls_handshake") - 2.0).abs() < 0.1);
    let log = gateway.output();
    assert!(!log.contains("handshake") && !log.contains("ERROR"), "{log}");
}

#[test]
fn plain_http_is_told_what_the_port_speaks() {
    let a = rig::origin("a");
    let gateway = secured(&a);
    let mut plain = raw(gateway.address());
    plain.send("GET /plain HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = plain.answer();
    assert_eq!(answer.status, 400);
    assert!(String::from_utf8_lossy(&answer.body).contains("speaks TLS"), "{answer:?}");
    let line = gateway.logged("/plain");
    assert_eq!((&line["status"], &line["error"]), (&400.into(), &"bad_request".into()));
    assert!((rejected(&gateway, "tls_handshake") - 1.0).abs() < 0.1);
    assert_eq!(a.requests().len(), 0);
}

const SEVERAL: &str = "\
certificates:
  - { cert: $dir/first.pem, key: $dir/first.key }
  - { cert: $dir/rsa.pem, key: $dir/rsa.key }
  - { cert: $dir/ec.pem, key: $dir/ec.key }
  - { cert: $dir/wild.pem, key: $dir/wild.key }
pools: { p: { origins: $origins } }
";

/// What a client is shown that asks for this name, and can check these signatures.
fn shown(gateway: &Gateway, name: &str, signatures: &'static str) -> String {
    let hello = hello(name).with(move |context| context.set_sigalgs_list(signatures).unwrap());
    hello.connect(gateway.address()).unwrap().shown()
}

const ANY: &str = "ECDSA+SHA256:RSA-PSS+SHA256:RSA+SHA256";
const RSA: &str = "RSA-PSS+SHA256:RSA+SHA256";

#[test]
fn the_name_and_what_a_client_can_check_decide_what_it_is_shown() {
    let a = rig::origin("a");
    let ca = authority("the CA");
    let first = certificate(&["first.test"]).rsa().issue();
    let (rsa, ec) = (certificate(&["both.test"]).rsa().issue(), certificate(&["both.test"]).by(&ca).issue());
    let wild = certificate(&["*.wild.test", "wild.test"]).rsa().issue();
    let gateway = rig::gateway(SEVERAL).listener("tls: {}").origins([&a]).start_with(|folder| {
        for (name, one) in [("first", &first), ("rsa", &rsa), ("wild", &wild)] {
            one.write(folder, name);
        }
        ec.write_with(&[&ca], folder, "ec");
    });
    for (name, signatures, expected) in [
        ("both.test", ANY, &ec),
        ("both.test", RSA, &rsa),
        ("x.wild.test", ANY, &wild),
        ("y.x.wild.test", ANY, &first),
        ("first.test", ANY, &first),
        ("nobody.test", RSA, &first),
        ("", RSA, &first),
    ] {
        assert_eq!(shown(&gateway, name, signatures), expected.fingerprint(), "{name} {signatures}");
    }
    let hello = hello("both.test");
    let mut client = hello.connect(gateway.address()).unwrap();
    let chain = client.stream().ssl().peer_cert_chain().unwrap().len();
    assert_eq!(chain, 2, "with its chain");
}

#[test]
fn a_renewed_certificate_is_shown_at_once_and_nobody_is_disturbed() {
    let a = rig::origin("a");
    let mut gateway = secured(&a);
    let mut before = hello("a.test").connect(gateway.address()).unwrap();
    let old = before.shown();
    let write = |one: &Issued, gateway: &Gateway| one.write(&gateway.path(""), "a");
    let shows = |gateway: &Gateway| hello("a.test").connect(gateway.address()).unwrap().shown();

    // by its files alone
    let second = certificate(&["a.test"]).days(20).issue();
    write(&second, &gateway);
    eventually("the new one is shown", || (shows(&gateway) == second.fingerprint()).then_some(()));
    assert_ne!(old, second.fingerprint());
    let warning = gateway.status()["certificates"][0]["warning"].as_str().unwrap().to_owned();
    assert!(warning.starts_with("the certificate for a.test expires at 20"), "{warning}");
    let days = gateway.metrics().sum("moorgate_certificate_expiry_timestamp_seconds", &[("name", "a.test")]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!(((days - now) / 86_400.0 - 20.0).abs() < 0.1, "{days}");

    // a key that is another's, and one that has expired
    let other = certificate(&["a.test"]).issue();
    std::fs::write(gateway.path("a.key"), other.key.private_key_to_pem_pkcs8().unwrap()).unwrap();
    let said = gateway.command(&["reload"]);
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    let said = String::from_utf8_lossy(&said.stderr).into_owned() + &String::from_utf8_lossy(&said.stdout);
    assert!(said.contains("certificates[0].key") && said.contains("is not the key"), "{said}");
    write(&certificate(&["a.test"]).days(-1).issue(), &gateway);
    let said = gateway.command(&["reload"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned() + &String::from_utf8_lossy(&said.stdout);
    assert!(
        said.contains("moorgate.yaml:") && said.contains("certificates[0].cert") && said.contains("expired"),
        "{said}"
    );
    assert_eq!(shows(&gateway), second.fingerprint());

    // by a reload of the same text
    let third = certificate(&["a.test"]).issue();
    write(&third, &gateway);
    let said = gateway.command(&["reload"]);
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    assert_eq!(shows(&gateway), third.fingerprint());
    assert_eq!(gateway.status()["certificates"][0]["warning"], serde_json::Value::Null);
    assert_eq!(before.get("/still").status, 200);
    assert!(gateway.running());
}

/// What of an old certificate expires while it is served keeps no other change from coming into force.
#[test]
fn c2_an_expired_certificate_is_served_on() {
    let (a, b) = (rig::origin("a"), rig::origin("b"));
    let start = rig::gateway(TEXT).listener("tls: {}").origins([&a, &b]);
    let mut gateway = start.start_with(|folder| certificate(&["a.test"]).days(-1).issue().write(folder, "a"));
    assert!(gateway.output().contains("expired at 20"), "{}", gateway.output());
    let check = gateway.command(&["check"]);
    assert_eq!(check.status.code(), Some(0), "{check:?}");
    let text = TEXT.replace("$origins", "[ { address: $a, name: a } ]");
    let said = gateway.change(&text);
    assert_eq!(said["result"], "applied", "{said}");
    assert_eq!(hello("").connect(gateway.address()).unwrap().get("/").status, 200);
}

#[test]
fn http_2_is_agreed_on_within_tls() {
    let a = rig::origin("a");
    let gateway = secured(&a);
    let offers = |offered: &'static [u8]| {
        let hello = hello("a.test").with(move |context| context.set_alpn_protos(offered).unwrap());
        hello.connect(gateway.address()).map(|client| client.agreed())
    };
    assert_eq!(offers(b"\x08http/1.1\x02h2").unwrap().as_deref(), Some("h2"));
    assert_eq!(offers(b"\x08http/1.1").unwrap().as_deref(), Some("http/1.1"));
    assert!(offers(b"\x02h3").is_err());
    assert_eq!(hello("a.test").connect(gateway.address()).unwrap().get("/silent").status, 200);
    let port = gateway.address().port();
    let curl = Command::new("curl")
        .args(["-sSk", "--max-time", "20", "--http2", "-w", " %{http_code} %{http_version}"])
        .args(["--resolve", &format!("a.test:{port}:127.0.0.1"), &format!("https://a.test:{port}/curl")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&curl.stdout).into_owned();
    assert!(said.ends_with(" 200 2"), "{said} {}", String::from_utf8_lossy(&curl.stderr));
    let line = gateway.logged("/curl");
    assert_eq!((&line["protocol"], &line["scheme"]), (&"HTTP/2.0".into(), &"https".into()));
    let load = Command::new("h2load")
        .args(["-n", "400", "-c", "4", "-m", "20", &format!("https://127.0.0.1:{port}/load")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&load.stdout).into_owned();
    assert!(said.contains("400 succeeded, 0 failed"), "{said}");
}

#[test]
fn who_offers_no_alpn_is_let_go_where_http_2_alone_is_spoken() {
    let a = rig::origin("a");
    let start = rig::gateway(TEXT).listener("tls: { alpn: [h2] }").origins([&a]);
    let gateway = start.start_with(|folder| certificate(&["a.test"]).issue().write(folder, "a"));
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        let silent = hello("a.test").with(move |context| context.set_max_proto_version(Some(version)).unwrap());
        let answer = silent.connect(gateway.address()).and_then(|mut client| client.try_send(&Ask::get("/silent")));
        assert!(answer.is_err(), "{version:?}: {answer:?}");
    }
    eventually("both are counted", || (rejected(&gateway, "tls_handshake") >= 2.0).then_some(()));
    let hello = hello("a.test").with(|context| context.set_alpn_protos(b"\x02h2").unwrap());
    assert_eq!(hello.connect(gateway.address()).unwrap().agreed().as_deref(), Some("h2"));
    assert_eq!(a.served(), 0);
}

/// Each is answered within one read of the library's, which goes on as long as more is there.
#[test]
fn new_keys_over_and_over_are_no_way_to_keep_a_shard_busy() {
    let a = rig::origin("a");
    let gateway = secured(&a);
    let hello = hello("a.test").with(|context| context.set_min_proto_version(Some(SslVersion::TLS1_3)).unwrap());
    let mut honest = hello.connect(gateway.address()).unwrap();
    for n in 0..300 {
        honest.try_new_keys().unwrap();
        assert_eq!(honest.get(&format!("/{n}")).status, 200);
    }
    let mut flood = hello.connect(gateway.address()).unwrap();
    let cut = (0..200_000).position(|_| flood.try_new_keys().is_err());
    assert!(cut.is_some(), "nobody had enough");
    assert_eq!(honest.get("/after").status, 200);
    assert_eq!(a.served(), 301);
}

/// As certbot's `live` and a secret of Kubernetes have it; and a file of an origin's that is broken meanwhile is nobody's
/// concern before a reload.
#[test]
fn a_link_that_is_swapped_brings_another_certificate_whatever_became_of_other_files() {
    let a = rig::origin("a");
    let text = TEXT.replace("p: { ", "p: { tls: { ca: $dir/ca.pem, sni: x.test }, health: { probe: off }, ");
    let (first, second) = (certificate(&["a.test"]).issue(), certificate(&["a.test"]).issue());
    let gateway = rig::gateway(&text).listener("tls: {}").origins([&a]).start_with(|folder| {
        authority("the CA").write(folder, "ca");
        for (name, one) in [("one", &first), ("two", &second)] {
            std::fs::create_dir(folder.join(name)).unwrap();
            one.write(&folder.join(name), "a");
        }
        symlink("one", folder.join("..data")).unwrap();
        for name in ["a.pem", "a.key"] {
            symlink(format!("..data/{name}"), folder.join(name)).unwrap();
        }
    });
    let shows = || hello("a.test").connect(gateway.address()).unwrap().shown();
    assert_eq!(shows(), first.fingerprint());
    std::fs::write(gateway.path("ca.pem"), "nothing").unwrap();
    symlink("two", gateway.path("..new")).unwrap();
    std::fs::rename(gateway.path("..new"), gateway.path("..data")).unwrap();
    eventually("the new one is shown", || (shows() == second.fingerprint()).then_some(()));
    let said = gateway.command(&["reload"]);
    assert_eq!(said.status.code(), Some(1), "{said:?}");
}

#[test]
fn a_proxy_header_comes_before_tls_also_with_the_first_of_it() {
    let a = rig::origin("a");
    let start = rig::gateway(&format!("trusted_proxies: [127.0.0.1]\n{TEXT}"));
    let start = start.listener("tls: {}, proxy_protocol: required").origins([&a]);
    let gateway = start.start_with(|folder| certificate(&["a.test"]).issue().write(folder, "a"));
    for (n, together) in [false, true].into_iter().enumerate() {
        let mut stream = TcpStream::connect(gateway.address()).unwrap();
        stream.set_read_timeout(Some(rig::PATIENCE)).unwrap();
        // corked, what is written waits for a segment to be full, or for 200 ms
        socket2::SockRef::from(&stream).set_tcp_cork(together).unwrap();
        stream.write_all(format!("PROXY TCP4 192.0.2.{} 192.0.2.1 1234 443\r\n", n + 1).as_bytes()).unwrap();
        let mut client = hello("a.test").over(stream).unwrap();
        assert_eq!(client.get(&format!("/{n}")).status, 200);
        let line = gateway.logged(&format!("/{n}"));
        assert_eq!((&line["client"], &line["scheme"]), (&format!("192.0.2.{}", n + 1).into(), &"https".into()));
    }
    assert!(hello("a.test").connect(gateway.address()).is_err(), "without one");
}
