//! Who goes on with a session by TLS, and who clients are: tickets, client certificates, upgrades, renewals by ACME.

use openssl::ssl::{SslSession, SslVersion};
use openssl::x509::X509;

use crate::rig::issued::{Issued, authority, certificate};
use crate::rig::{self, Ask, Gateway, eventually, hello};
use crate::tls::{TEXT, secured, sees};

#[test]
fn sessions_are_resumed() {
    let a = rig::origin("a");
    let gateway = secured(&a);
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        let (session, first) = session(&gateway, version);
        assert!(!first);
        let hello = hello("a.test").with(move |context| context.set_max_proto_version(Some(version)).unwrap());
        let mut again = hello.resuming(&session).connect(gateway.address()).unwrap();
        assert_eq!(again.get("/again").status, 200);
        assert!(again.stream().ssl().session_reused(), "{version:?}");
    }
}

/// A session to go on with, and whether it was itself one that went on.
fn session(gateway: &Gateway, version: SslVersion) -> (SslSession, bool) {
    let hello = hello("a.test").with(move |context| context.set_max_proto_version(Some(version)).unwrap());
    let mut client = hello.connect(gateway.address()).unwrap();
    // tickets of TLS 1.3 come after the handshake
    assert_eq!(client.get("/first").status, 200);
    let ssl = client.stream().ssl();
    let session = (ssl.session().unwrap().to_owned(), ssl.session_reused());
    client.leave();
    session
}

#[test]
fn a_client_of_tls_1_3_never_runs_out_of_tickets() {
    let a = rig::origin("a");
    let gateway = secured(&a);
    let hello = || hello("a.test").with(|context| context.set_min_proto_version(Some(SslVersion::TLS1_3)).unwrap());
    let mut waits = hello().connect(gateway.address()).unwrap();
    // they wait for the first answer no longer than the client does
    assert!(waits.stream().get_ref().peek(&mut [0; 100]).unwrap() > 0);
    assert_eq!(waits.get("/late").status, 200);
    let session = waits.stream().ssl().session().unwrap().to_owned();
    // who goes on with a session gets another ticket: each is used once
    let mut last = session;
    for _ in 0..3 {
        let mut next = hello().resuming(&last).connect(gateway.address()).unwrap();
        assert_eq!(next.get("/next").status, 200);
        let session = next.stream().ssl().session().unwrap().to_owned();
        assert!(next.stream().ssl().session_reused() && session.id() != last.id());
        next.leave();
        last = session;
    }
}

/// A client of this CA, or one without a certificate.
fn client_of(ca: Option<&Issued>) -> rig::Hello {
    let shown = ca.map(|ca| certificate(&["alice"]).by(ca).issue());
    hello("a.test").with(move |context| {
        let Some(Issued { cert, key }) = &shown else { return };
        context.set_certificate(cert).unwrap();
        context.set_private_key(key).unwrap();
    })
}

#[test]
fn origins_learn_of_client_certificates_and_nobody_else_can_tell_them() {
    let a = rig::origin("a");
    let (ca, other) = (authority("the CA"), authority("another CA"));
    let start = rig::gateway(TEXT).listener("tls: { client_ca: $dir/ca.pem, client_headers: true }");
    let start = start.further_listener("h2c: true").origins([&a]);
    let gateway = start.start_with(|folder| {
        certificate(&["a.test"]).issue().write(folder, "a");
        ca.write(folder, "ca");
    });
    let name = "x-forwarded-client-cert";
    let lies = |target: &str| {
        Ask::get(target).header("X-Forwarded-Client-Cert", "Hash=00").header("X_Forwarded_Client_Cert", "x")
    };
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        let asks = |ca: Option<&Issued>, session: Option<&SslSession>| {
            let hello = client_of(ca).with(move |context| context.set_max_proto_version(Some(version)).unwrap());
            let hello = match session {
                Some(session) => hello.resuming(session),
                None => hello,
            };
            let mut client = hello.connect(gateway.address())?;
            let answer = client.try_send(&lies("/"))?;
            let ssl = client.stream().ssl();
            let shown: Option<X509> = ssl.certificate().map(|one| one.to_owned());
            let told = (answer.status, shown, ssl.session().unwrap().to_owned(), ssl.session_reused());
            client.leave();
            Ok::<_, std::io::Error>(told)
        };
        assert!(asks(None, None).is_err() && asks(Some(&other), None).is_err(), "{version:?}");
        let (status, shown, session, _) = asks(Some(&ca), None).unwrap();
        let digest = shown.unwrap().digest(openssl::hash::MessageDigest::sha256()).unwrap();
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((status, sees(&a, name)), (200, Some(format!("Hash={digest};Subject=\"CN=alice\""))));
        assert_eq!(sees(&a, "x_forwarded_client_cert"), None);
        let (.., reused) = asks(Some(&ca), Some(&session)).unwrap();
        assert!(reused && sees(&a, name).unwrap().contains("CN=alice"), "{version:?} goes on, and is told of");
        // under another CA nobody goes on with a session of the old
        other.write(&gateway.path(""), "ca");
        assert_eq!(gateway.command(&["reload"]).status.code(), Some(0));
        assert!(asks(None, Some(&session)).is_err() && asks(Some(&ca), Some(&session)).is_err(), "{version:?}");
        assert!(asks(Some(&other), None).is_ok());
        ca.write(&gateway.path(""), "ca");
        assert_eq!(gateway.command(&["reload"]).status.code(), Some(0));
    }
    let plain = rig::Client::new(gateway.listeners[1]).send(&lies("/plain")).unwrap();
    assert_eq!((plain.status, sees(&a, name), sees(&a, "x_forwarded_client_cert")), (200, None, None));
}

#[test]
fn keys_of_tickets_are_shared_and_take_turns() {
    let a = rig::origin("a");
    let keys = |bytes: &[u8]| bytes.iter().flat_map(|byte| [*byte; 80]).collect::<Vec<u8>>();
    let one = certificate(&["a.test"]).issue();
    let replica = || {
        rig::gateway(TEXT).listener("tls: { ticket_keys: $dir/keys }").origins([&a]).start_with(|folder| {
            one.write(folder, "a");
            std::fs::write(folder.join("keys"), keys(b"1")).unwrap();
        })
    };
    let (first, second) = (replica(), replica());
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        let goes_on = |session: &SslSession| {
            let hello = hello("a.test").with(move |context| context.set_max_proto_version(Some(version)).unwrap());
            let mut client = hello.resuming(session).connect(second.address()).unwrap();
            assert_eq!(client.get("/").status, 200);
            let reused = client.stream().ssl().session_reused();
            client.leave();
            reused
        };
        let turn = |bytes: &[u8]| {
            std::fs::write(second.path("keys"), keys(bytes)).unwrap();
            assert_eq!(second.command(&["reload"]).status.code(), Some(0));
        };
        let (session, _) = session(&first, version);
        assert!(goes_on(&session), "{version:?}: the other replica opens it");
        turn(b"21");
        assert!(goes_on(&session), "{version:?}: an older key opens");
        turn(b"2");
        assert!(!goes_on(&session), "{version:?}: it is gone");
        turn(b"1");
    }
    std::fs::write(second.path("keys"), [0; 81]).unwrap();
    let said = second.command(&["reload"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned() + &String::from_utf8_lossy(&said.stdout);
    assert!(said.contains("process.listeners[0].tls.ticket_keys") && said.contains("holds 81 bytes"), "{said}");
}

#[test]
fn u1_after_an_upgrade_connections_sessions_and_certificates_go_on() {
    let a = rig::origin("a");
    let gateway = secured(&a);
    let (session, _) = session(&gateway, SslVersion::TLS1_3);
    let mut before = hello("a.test").connect(gateway.address()).unwrap();
    let shown = before.shown();
    std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| gateway.command(&["upgrade"]));
        eventually("the next process serves", || (gateway.status()["generation"] == 2).then_some(()));
        let answer = before.get("/last");
        assert_eq!((answer.status, answer.closes()), (200, true), "the old process says that it leaves");
        let said = upgrade.join().unwrap();
        assert_eq!(said.status.code(), Some(0), "{said:?}");
    });
    let mut next = hello("a.test").resuming(&session).connect(gateway.address()).unwrap();
    assert_eq!((next.get("/next").status, next.shown()), (200, shown));
    assert!(next.stream().ssl().session_reused(), "keys of tickets went over");
}

#[test]
fn a_renewal_by_acme_is_passed_on_and_shown() {
    let (a, responder) = (rig::origin("a"), rig::origin("responder"));
    let example = include_str!("../../conf/examples/acme.yaml");
    let text = example[example.find("certificates:").unwrap()..].replace("/etc/moorgate/tls", "$dir");
    let text =
        text.replace("[\"10.20.1.11:8080\", \"10.20.1.12:8080\", \"10.20.1.13:8080\"]", "[ { address: $a, name: a } ]");
    let text = text.replace("\"127.0.0.1:8402\"", "{ address: $responder, name: responder }");
    let text = text.replace("http: { path: /healthz }", "interval: 1s");
    let start = rig::gateway(&text).further_listener("tls: {}").origins([&a, &responder]);
    let first = certificate(&["www.example.com"]).days(1).issue();
    let write = |one: &Issued, folder: &std::path::Path| {
        one.write(folder, "fullchain");
        std::fs::rename(folder.join("fullchain.key"), folder.join("privkey.pem")).unwrap();
    };
    let gateway = start.start_with(|folder| write(&first, folder));
    let challenge = gateway.get("/.well-known/acme-challenge/token");
    assert_eq!((challenge.status, challenge.origin()), (200, "responder"));
    let moved = gateway.get("/page?x");
    assert_eq!((moved.status, moved.header("location")), (308, Some("https://test/page?x")));
    let shown = || hello("www.example.com").connect(gateway.listeners[1]).unwrap();
    assert_eq!(shown().get("/page").origin(), "a");
    let renewed = certificate(&["www.example.com"]).issue();
    write(&renewed, &gateway.path(""));
    assert_eq!(gateway.command(&["reload"]).status.code(), Some(0), "the hook");
    assert_eq!(shown().shown(), renewed.fingerprint());
}
