//! TLS towards origins: who is believed, who we are, and what becomes of connections when that changes.

use std::fs;

use serde_json::Value;

use crate::rig::{
    Ask, Authority, Body, Client, Close, Door, Gateway, Greeting, Step, Terms, answer, eventually, gateway, h2c, on,
    origin, secured,
};

/// A pool `p` of one door, with this `tls` and further keys.
fn pool(tls: &str, more: &str) -> String {
    format!("pools: {{ p: {{ origins: [ {{ address: $door, name: door }} ], tls: {{ {tls} }}, {more} }} }}\n")
}

const UNPROBED: &str = "health: { probe: off }";

/// The status of an answer and the error in its Proxy-Status.
fn said(client: &mut Client, target: &str) -> (u16, String) {
    let answer = client.get(target);
    let told = answer.header("proxy-status").unwrap_or_default();
    let error = told.split("error=").nth(1).and_then(|rest| rest.split(';').next()).unwrap_or_default();
    (answer.status, error.to_owned())
}

fn refused(status: u16, error: &str) -> (u16, String) {
    (status, error.to_owned())
}

/// What a refused reload says, one mistake after the other: its path and what was found.
fn mistakes(gateway: &Gateway) -> Vec<(String, String)> {
    let answer = gateway.admin("POST", "/reload");
    assert_eq!(answer.status, 422, "{}", answer.text());
    let said: Value = serde_json::from_slice(&answer.body).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let one = |mistake: &Value| {
        assert!(mistake["line"].as_u64().unwrap() > 0);
        (text(&mistake["path"]), text(&mistake["found"]))
    };
    said["mistakes"].as_array().unwrap().iter().map(one).collect()
}

#[test]
fn an_origin_is_believed_for_its_certificate_and_connections_of_an_older_trust_are_not_reused() {
    // Pingora keeps shared connections of HTTP/2 in a pool of their own.
    believed_for_its_certificate(false);
    believed_for_its_certificate(true);
}

fn believed_for_its_certificate(h2: bool) {
    let terms = Terms { h2, clients_of: None };
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let plain = origin("a");
    let door = secured(plain.address, &ours.issue("o.test"), terms);
    let protocol = if h2 { "h2" } else { "http1" };
    let with = |tls: &str| pool(tls, &format!("{UNPROBED}, protocol: {protocol}"));
    let good = with("sni: o.test, ca: $dir/ours.pem");
    let mut gateway = gateway(&good).named("door", door.address).start_with(|folder| {
        fs::write(folder.join("ours.pem"), ours.pem()).unwrap();
        fs::write(folder.join("other.pem"), other.pem()).unwrap();
    });
    let mut client = gateway.client();
    let ok = refused(200, "");
    assert_eq!((said(&mut client, "/1"), said(&mut client, "/2")), (ok.clone(), ok.clone()));
    let greeting = Greeting { sni: Some("o.test".to_owned()), h2, client: None, resumed: false };
    assert_eq!(door.greetings(), [greeting], "both went over one connection");
    // Another authority: the kept connection is none of it.
    gateway.change(&with("sni: o.test, ca: $dir/other.pem"));
    assert_eq!(said(&mut client, "/other"), refused(502, "tls_certificate_error"));
    assert_eq!(gateway.logged("/other")["error"], "tls_failed");
    assert_eq!((plain.served(), door.greetings().len()), (2, 1));
    // The same text, and what it names holds something else.
    let both = [other.pem(), ours.pem()].concat();
    fs::write(gateway.path("other.pem"), both).unwrap();
    let applied = gateway.reload();
    assert_eq!((&applied["result"], &applied["changed"]), (&"applied".into(), &serde_json::json!(["pools.p.tls"])));
    assert_eq!(said(&mut client, "/both"), ok);
    assert_eq!(gateway.reload()["result"], "unchanged");
    assert_eq!((said(&mut client, "/kept"), door.greetings().len()), (ok.clone(), 2), "nothing changed");
    // A name that the certificate does not hold, and nobody who looks.
    gateway.change(&with("sni: x.test, ca: $dir/ours.pem"));
    assert_eq!(said(&mut client, "/name"), refused(502, "tls_certificate_error"));
    gateway.change(&with("sni: x.test, verify: false"));
    assert_eq!(said(&mut client, "/blind"), ok);
    gateway.change(&good);
    assert_eq!((said(&mut client, "/again"), door.greetings().len()), (ok, 3), "one was made under this very trust");
    door.shows(&ours.issue_for("o.test", (-20, -10)), terms);
    fs::write(gateway.path("twice.pem"), [ours.pem(), ours.pem()].concat()).unwrap();
    gateway.change(&with("sni: o.test, ca: $dir/twice.pem"));
    assert_eq!(said(&mut client, "/late"), refused(502, "tls_certificate_error"), "it has expired");
}

#[test]
fn an_origin_that_is_silent_is_given_up_in_the_handshake_and_after_it() {
    let ours = Authority::new("ours");
    let (mute, plain) = (origin("mute"), origin("plain"));
    let door = secured(plain.address, &ours.issue("o.test"), Terms::default());
    let text = "pools:\n  mute: { origins: [$mute], tls: { sni: o.test, ca: $dir/ca.pem }, timeouts: { connect: 300ms, read: 600ms }, health: { probe: off } }\n  \
                late: { origins: [$door], tls: { sni: o.test, ca: $dir/ca.pem }, timeouts: { connect: 2s, read: 3s }, health: { probe: off } }\n\
                routes: [ { match: { path: { prefix: /mute } }, pool: mute, retry: { tries: 1 } }, { pool: late, timeouts: { read: 2100ms }, retry: { tries: 1 } } ]\n";
    let gateway = gateway(text)
        .origins([&mute])
        .named("door", door.address)
        .start_with(|folder| fs::write(folder.join("ca.pem"), ours.pem()).unwrap());
    mute.door(Door::Hang);
    plain.door(Door::Hang);
    let mut client = gateway.client();
    assert_eq!(said(&mut client, "/mute"), refused(504, "connection_timeout"));
    assert!(gateway.logged("/mute")["request_time"].as_f64().unwrap() < 0.55, "one time for both");
    assert_eq!(said(&mut client, "/late"), refused(504, "http_response_timeout"));
    mute.door(Door::Close(Close::Fin));
    assert_eq!(said(&mut client, "/mute/closed"), refused(502, "tls_protocol_error"));
}

#[test]
fn our_own_certificate_is_shown_and_read_again_and_its_mistakes_refuse_the_file() {
    let (ours, clients) = (Authority::new("ours"), Authority::new("clients"));
    let plain = origin("a");
    let door = secured(plain.address, &ours.issue("o.test"), Terms { clients_of: Some(&clients), h2: false });
    let text = pool("sni: o.test, ca: $dir/ca.pem, cert: $dir/us.pem, key: $dir/key.pem", UNPROBED);
    let gateway = gateway(&text).named("door", door.address).start_with(|folder| {
        fs::write(folder.join("ca.pem"), ours.pem()).unwrap();
        clients.issue("first").write(folder, "us", "key");
    });
    let folder = gateway.path("");
    let mut client = gateway.client();
    assert_eq!(client.get("/1").status, 200);
    clients.issue("second").write(&folder, "us", "key");
    assert_eq!(gateway.reload()["result"], "applied");
    assert_eq!(client.get("/2").status, 200);
    let shown = || door.greetings().into_iter().filter_map(|greeting| greeting.client).collect::<Vec<_>>();
    assert_eq!(shown(), ["first", "second"], "no connection of the first is used under the second");
    // One file of another pair: what serves goes on.
    let second = fs::read(folder.join("us.pem")).unwrap();
    clients.issue("third").write(&folder, "us", "key");
    let third = fs::read(folder.join("us.pem")).unwrap();
    fs::write(folder.join("us.pem"), &second).unwrap();
    let [(path, found)] = &mistakes(&gateway)[..] else { panic!("one mistake") };
    assert_eq!(path, "pools.p.tls.key");
    assert!(found.contains("key.pem is not the key of") && found.ends_with("us.pem"), "{found}");
    assert_eq!(client.get("/3").status, 200);
    fs::write(folder.join("us.pem"), "nothing\n").unwrap();
    fs::remove_file(folder.join("ca.pem")).unwrap();
    let both = mistakes(&gateway);
    assert_eq!(both.iter().map(|(path, _)| &**path).collect::<Vec<_>>(), ["pools.p.tls.ca", "pools.p.tls.cert"]);
    assert!(both[0].1.contains("No such file") && both[1].1.starts_with("no certificate in"), "{both:?}");
    assert_eq!((client.get("/4").status, shown().len()), (200, 2));
    // A newcomer that has expired is refused; it is not while nobody knows whether it served.
    fs::write(folder.join("ca.pem"), ours.pem()).unwrap();
    clients.issue_for("late", (-20, -10)).write(&folder, "us", "key");
    assert!(mistakes(&gateway)[0].1.starts_with("the certificate expired on"));
    let check = gateway.command(&["check"]);
    let told = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(
        check.status.success() && told.contains("warning") && told.contains("tls.cert: the certificate expired"),
        "{told}"
    );
    fs::write(folder.join("us.pem"), &third).unwrap();
}

/// Rule C2: only what a change brings can refuse it.
#[test]
fn c2_a_certificate_of_ours_that_has_expired_is_shown_on_and_comes_to_no_pool() {
    let ours = Authority::new("ours");
    let plain = origin("a");
    let door = secured(plain.address, &ours.issue("o.test"), Terms::default());
    let tls = |name: &str| format!("tls: {{ verify: false, cert: $dir/{name}.pem, key: $dir/{name}-key.pem }}");
    let pool = |name: &str, tls: &str| format!("  {name}: {{ origins: [$door], {UNPROBED}{tls} }}\n");
    let with = |more: &str| {
        let first = pool("p", &format!(", {}", tls("served")));
        format!("pools:\n{first}{more}routes: [ {{ pool: p }} ]\n")
    };
    let mut gateway = gateway(&with(&pool("r", ""))).named("door", door.address).start_with(|folder| {
        for name in ["served", "late"] {
            ours.issue_for(name, (-20, -10)).write(folder, name, &format!("{name}-key"));
        }
    });
    let refuses = |gateway: &mut Gateway, more: &str| {
        gateway.swap(&with(more));
        let [(path, found)] = &mistakes(gateway)[..] else { panic!("one mistake") };
        assert!(found.starts_with("the certificate expired on"), "{found}");
        path.clone()
    };
    let late = format!(", {}", tls("late"));
    assert_eq!(refuses(&mut gateway, &pool("q", &late)), "pools.q.tls.cert", "a pool that is new");
    assert_eq!(refuses(&mut gateway, &pool("r", &late)), "pools.r.tls.cert", "one that had none");
    let served = pool("q", &format!(", {}", tls("served")));
    assert_eq!(gateway.change(&with(&served))["result"], "applied", "some pool shows it already");
    assert_eq!(gateway.get("/").status, 200);
}

#[test]
fn an_origin_whose_certificate_is_wrong_is_out_before_it_serves() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let (good, bad) = (origin("good"), origin("bad"));
    let terms = Terms { h2: true, clients_of: None };
    let doors = [&ours, &other].map(|authority| authority.issue("o.test"));
    let to_good = secured(good.address, &doors[0], terms);
    let to_bad = secured(bad.address, &doors[1], terms);
    let old = secured(bad.address, &doors[0], Terms::default());
    let origins = "origins: [ { address: $good, name: good }, { address: $bad, name: bad }, { address: $old, name: old } ], \
                   balance: { algorithm: round_robin }, tls: { sni: o.test, ca: $dir/ca.pem }";
    let probe = "interval: 100ms, timeout: 2s, fall: 1";
    let text = format!(
        "pools:\n  tcp: {{ {origins}, protocol: h2, health: {{ min_healthy: 0%, probe: {{ {probe} }} }} }}\n  \
         one: {{ {origins}, health: {{ min_healthy: 0%, probe: {{ {probe}, http: {{ path: /healthz }} }} }} }}\n  \
         two: {{ {origins}, protocol: h2, health: {{ min_healthy: 0%, probe: {{ {probe}, http: {{ path: /healthz }} }} }} }}\n\
         routes: [ {{ pool: two }}, {{ pool: tcp, match: {{ path: {{ prefix: /tcp }} }} }}, {{ pool: one, match: {{ path: {{ prefix: /one }} }} }} ]\n"
    );
    let gateway = gateway(&text)
        .named("good", to_good.address)
        .named("bad", to_bad.address)
        .named("old", old.address)
        .start_with(|folder| fs::write(folder.join("ca.pem"), ours.pem()).unwrap());
    let state = |pool: &str, name: &str| {
        let found = gateway.origin(pool, name);
        format!("{} {}", found["state"].as_str().unwrap(), found["why"].as_str().unwrap_or_default())
    };
    for pool in ["tcp", "one", "two"] {
        gateway.await_state(pool, "bad", "down");
        assert!(state(pool, "bad").contains("certificate not trusted"), "{}", state(pool, "bad"));
        assert!(state(pool, "good").starts_with("up"), "{}", state(pool, "good"));
    }
    for pool in ["tcp", "two"] {
        gateway.await_state(pool, "old", "down");
        assert!(state(pool, "old").contains("no HTTP/2 by ALPN"), "{}", state(pool, "old"));
    }
    assert!(state("one", "old").starts_with("up"), "{}", state("one", "old"));
    let mut client = gateway.client();
    for target in ["/tcp", "/two", "/tcp", "/two"] {
        assert_eq!(client.get(target).origin(), "good");
    }
}

#[test]
fn http2_is_agreed_on_and_nothing_is_sent_to_an_origin_that_does_not() {
    let ours = Authority::new("ours");
    let (identity, terms) = (ours.issue("o.test"), Terms { h2: true, clients_of: None });
    let plain = origin("a");
    plain.script([on("/big").then(Step::Answer(answer(200).body(Body::Pattern(3 << 20))))]);
    let door = secured(plain.address, &identity, terms);
    let gateway = gateway(&pool("sni: o.test, ca: $dir/ca.pem", &format!("protocol: h2, {UNPROBED}")))
        .named("door", door.address)
        .listener("h2c: true")
        .start_with(|folder| fs::write(folder.join("ca.pem"), ours.pem()).unwrap());
    let mut client = gateway.client();
    let post = Ask::new("POST", "/post").body("hello");
    assert_eq!((client.get("/h1").status, client.send(&post).unwrap().status), (200, 200));
    assert_eq!(client.get("/big").body.len(), 3 << 20);
    let asks: Vec<Ask> = (0..20).map(|n| Ask::get(&format!("/two/{n}"))).collect();
    let answers = h2c(gateway.address(), &asks);
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|answer| answer.status == 200)), "{answers:?}");
    let seen = plain.requests();
    assert!(seen.iter().all(|request| request.line.ends_with("HTTP/2")), "{seen:?}");
    assert!(seen.iter().any(|request| request.line.contains(" https://test/h1 ")), "{seen:?}");
    assert!(door.greetings().iter().all(|greeting| greeting.h2));
    let before = plain.served();
    // Its successor speaks HTTP/1.1 alone. Connections that are kept go on, so it has to be asked for on a new one.
    door.shows(&identity, Terms::default());
    plain.close_idle(Close::Fin);
    let lacking = gateway_without_h2(&ours, door.address);
    let answer = lacking.ask(&post);
    assert_eq!(answer.status, 502, "{}", answer.text());
    assert!(
        answer.header("proxy-status").unwrap().contains("error=tls_protocol_error; details=\"sent=0\""),
        "{answer:?}"
    );
    assert_eq!(plain.served(), before);
    // The gateway may hang up before the door has written down that it came.
    eventually("a handshake without HTTP/2", || door.greetings().iter().any(|greeting| !greeting.h2).then_some(()));
    assert_eq!(lacking.logged("/post")["error"], "tls_failed");
}

/// A gateway that knows nothing of earlier connections.
fn gateway_without_h2(ours: &Authority, door: std::net::SocketAddr) -> Gateway {
    gateway(&pool("sni: o.test, ca: $dir/ca.pem", &format!("protocol: h2, {UNPROBED}")))
        .named("door", door)
        .start_with(|folder| fs::write(folder.join("ca.pem"), ours.pem()).unwrap())
}
