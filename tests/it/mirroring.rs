//! What does a pool see that gets copies of another one's requests, and does anybody else notice?

use std::time::{Duration, Instant};

use crate::rig::{
    self, Amount, Ask, Authority, Body, Close, Door, Gateway, Origin, Request, Step, answer, eventually, on,
};

/// Requests go to `a`, copies to `s`.
fn pools(more: &str, shadow: &str, mirror: &str) -> String {
    let pool = |name: &str, more: &str| {
        format!(
            "  {name}: {{ health: {{ probe: off }}, balance: {{ key: \"{{path}}\" }}, origins: [ ${name} ]{more} }}\n"
        )
    };
    let (a, s) = (pool("a", more), pool("s", shadow));
    format!("pools:\n{a}{s}routes: [ {{ name: shop, pool: a, mirror: {mirror} }} ]\n")
}

fn one(shadow: &str, mirror: &str) -> (Origin, Origin, Gateway) {
    let (a, s) = (rig::origin("a"), rig::origin("s"));
    let text = pools("", shadow, mirror);
    let gateway = rig::gateway(&text).listener("h2c: true").process("threads", "1").origins([&a, &s]).start();
    (a, s, gateway)
}

/// Copies that came to this.
fn counted(gateway: &Gateway, result: &str) -> f64 {
    gateway.metrics().sum("moorgate_mirrored_total", &[("route", "shop"), ("pool", "s"), ("result", result)])
}

fn await_counted(gateway: &Gateway, result: &str, count: f64) {
    eventually(&format!("{count} copies {result}"), || (counted(gateway, result) >= count).then_some(()));
    assert_eq!(counted(gateway, result), count, "{result}");
}

fn lines(request: &Request, name: &str) -> Vec<String> {
    let lines = request.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
    lines.map(|(_, value)| value.clone()).collect()
}

#[test]
fn a_copy_is_what_the_origin_was_sent_and_says_that_it_is_one() {
    let (a, s, gateway) = one("", "{ pool: s }");
    let ask = Ask::get("/x?b=2&a=%2f").header("X-wEiRd", "1").header("X-Forwarded-For", "192.0.2.9");
    assert_eq!(gateway.ask(&ask.clone().header("Connection", "X-Hop").header("X-Hop", "1")).origin(), "a");
    s.await_requests("/x", 1);
    let (real, copy) = (a.requests().remove(0), s.requests().remove(0));
    assert_eq!(copy.line, real.line);
    assert_eq!(copy.line, "GET /x?b=2&a=%2f HTTP/1.1");
    assert!(copy.headers.iter().any(|(name, _)| name == "X-wEiRd"), "{copy:?}");
    for name in ["host", "x-forwarded-for", "x-forwarded-proto", "x-request-id"] {
        assert_eq!((lines(&copy, name).len(), lines(&copy, name)), (1, lines(&real, name)), "{name}");
    }
    assert_eq!((lines(&copy, "x-mirrored"), lines(&real, "x-mirrored")), (vec!["1".to_owned()], vec![]));
    assert_eq!(lines(&copy, "x-hop"), [""; 0]);
    // The next one goes over the connection that is there, and one that is a copy already is not copied again.
    assert_eq!(gateway.ask(&Ask::get("/copy").header("X-Mirrored", "1")).origin(), "a");
    assert_eq!(rig::h2c(gateway.address(), &[Ask::get("/h2")])[0].as_ref().unwrap().status, 200);
    s.await_requests("/h2", 1);
    await_counted(&gateway, "sent", 2.0);
    assert_eq!((s.served(), s.counts().connections), (2, 1));
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("moorgate_attempts_total", &[("pool", "s"), ("outcome", "ok")]), 2.0);
    assert_eq!(metrics.sum("moorgate_requests_total", &[]), 3.0);
    let log = gateway.await_log(3);
    assert!(log.iter().all(|line| line["pool"] == "a" && line["attempts"].as_array().unwrap().len() == 1), "{log:?}");
    eventually("nothing in flight", || (gateway.origin("s", &s.address.to_string())["in_flight"] == 0).then_some(()));
}

#[test]
fn bodies_are_copied_up_to_their_limit_once_however_often_they_are_sent() {
    let (a, b, s) = (rig::origin("a"), rig::origin("b"), rig::origin("s"));
    let text = pools("", "", "{ pool: s }, retry: { methods: { PUT: [stale, reset] } }");
    let text = text.replace("[ $a ]", "[ $a, { address: $b, backup: true } ]");
    let gateway = rig::gateway(&text).process("threads", "1").origins([&a, &b, &s]).start();
    let body = |size: usize| (0..size).map(|n| (n % 251) as u8).collect::<Vec<_>>();
    let put = |path: &str, size| Ask::new("PUT", path).body(body(size));
    // The first try ends after half of the body; the second sends it again.
    a.script([on("/again").times(1).then(Step::Read(Amount::Half)).then(Step::End(Close::Rst))]);
    for (path, size) in [("/empty", 0), ("/small", 10), ("/again", 30_000), ("/full", 64 << 10)] {
        assert_eq!(gateway.ask(&put(path, size)).status, 200, "{path}");
        s.await_requests(path, 1);
    }
    let mut raw = rig::raw(gateway.address());
    raw.send("POST /chunks HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n");
    raw.send("3\r\nabc\r\n");
    raw.send("2\r\nde\r\n0\r\n\r\n");
    assert_eq!(raw.answer_to("POST").unwrap().status, 200);
    s.await_requests("/chunks", 1);
    await_counted(&gateway, "sent", 5.0);
    let (real, copies) = ([a.requests(), b.requests()].concat(), s.requests());
    for copy in &copies {
        let is_same = |real: &&Request| real.line == copy.line && real.body_bytes == copy.body_bytes;
        let real = real.iter().rfind(is_same).unwrap();
        assert_eq!((copy.body_bytes, &copy.body_sha256), (real.body_bytes, &real.body_sha256), "{}", copy.line);
        assert_eq!(lines(copy, "content-length"), [copy.body_bytes.to_string()]);
        assert_eq!((lines(copy, "transfer-encoding"), lines(copy, "expect")), (vec![], vec![]));
    }
    assert_eq!((copies.len(), real.iter().filter(|real| real.line.contains("/again")).count()), (5, 2));
    // Too large is told by the length, or found out.
    assert_eq!(gateway.ask(&put("/large", (64 << 10) + 1)).status, 200);
    await_counted(&gateway, "too_large", 1.0);
    let mut raw = rig::raw(gateway.address());
    raw.send("POST /large HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n");
    raw.send(body(0x10001));
    raw.send("\r\n0\r\n\r\n");
    assert_eq!(raw.answer_to("POST").unwrap().status, 200);
    await_counted(&gateway, "too_large", 2.0);
    // A client that goes away in the middle of its body.
    let mut raw = rig::raw(gateway.address());
    raw.send("POST /gone HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nabc");
    a.await_requests("/gone", 1);
    drop(raw);
    await_counted(&gateway, "unfinished", 1.0);
    assert_eq!(s.served(), 5);
}

#[test]
fn a_body_that_was_read_ahead_is_copied() {
    let (a, s) = (rig::origin("a"), rig::origin("s"));
    let text = pools("", "", "{ pool: s }, buffering: { request: 64KiB }");
    let gateway = rig::gateway(&text).origins([&a, &s]).start();
    assert_eq!(gateway.ask(&Ask::new("PUT", "/ahead").body(vec![b'x'; 1000])).status, 200);
    await_counted(&gateway, "sent", 1.0);
    assert_eq!(s.requests().iter().map(|copy| copy.body_bytes).collect::<Vec<_>>(), [1000]);
}

#[test]
fn a_pool_of_copies_that_is_slow_dead_or_wrong_costs_the_requests_nothing() {
    let (_a, s, gateway) = one(", timeouts: { connect: 100ms, read: 300ms }", "{ pool: s }");
    let big = answer(200).body(Body::Size(4 << 20));
    s.script([
        on("/held").hold("door"),
        on("/hang").then(Step::Hang),
        on("/nonsense").then(Step::Send(b"no http\r\n\r\n".to_vec())),
        on("/big").then(big.into()),
        on("/broken").answer(500),
    ]);
    let mut client = gateway.client();
    // 256 wait for an answer: more are dropped, and nobody else waits.
    let start = Instant::now();
    for n in 0..300 {
        assert_eq!(client.get(if n < 280 { "/held" } else { "/x" }).origin(), "a");
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    s.release("door");
    let all = || ["sent", "failed", "dropped"].map(|result| counted(&gateway, result));
    eventually("each is counted", || (all().iter().sum::<f64>() >= 300.0).then_some(()));
    let before = all();
    assert!(before.iter().sum::<f64>() == 300.0, "{before:?}");
    for path in ["/hang", "/nonsense", "/broken", "/big"] {
        assert_eq!(client.get(path).origin(), "a", "{path}");
    }
    s.await_requests("/big", 1);
    s.door(Door::Refuse);
    s.close_idle(Close::Rst);
    assert_eq!(client.get("/refused").origin(), "a");
    await_counted(&gateway, "failed", before[1] + 3.0);
    await_counted(&gateway, "sent", before[0] + 2.0);
    let metrics = gateway.metrics();
    let outcome = |outcome| metrics.sum("moorgate_attempts_total", &[("pool", "s"), ("outcome", outcome)]);
    assert!(outcome("response_timeout") >= 1.0 && outcome("invalid_response") == 1.0, "{metrics:?}");
    assert_eq!(metrics.sum("moorgate_attempts_total", &[("pool", "a"), ("outcome", "ok")]), 305.0);
}

/// A tunnel has no copy, and a share is drawn for each request anew.
#[test]
fn a_share_of_the_requests_is_copied_and_no_tunnel() {
    let (a, s, mut gateway) = one("", "{ pool: s, share: 20% }");
    let mut client = gateway.client();
    (0..500).for_each(|n| assert_eq!(client.get(&format!("/{n}")).status, 200));
    let copied = eventually("copies arrive", || {
        let copied = counted(&gateway, "sent");
        (copied > 0.0 && s.served() as f64 == copied && s.counts().in_flight == 0).then_some(copied)
    });
    assert!((50.0..160.0).contains(&copied), "{copied} of 500 at 20%");
    gateway.change(&pools("", "", "{ pool: s }"));
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    a.script([on("/ws").then(Step::Send(switch.to_vec())).then(Step::Echo)]);
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /ws HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(raw.answer().status, 101);
    raw.send("ping");
    assert_eq!(raw.bytes(4), b"ping");
    drop(raw);
    assert_eq!(gateway.get("/after").status, 200);
    s.await_requests("/after", 1);
    assert!(s.requests().iter().all(|copy| !copy.line.contains("/ws")));
}

/// Over HTTP/2, with the Host its pool says; a route that goes takes its counters along.
#[test]
fn copies_speak_what_their_pool_speaks() {
    let (_a, s, mut gateway) = one(", protocol: h2c, host: shadow.internal", "{ pool: s }");
    assert_eq!(gateway.ask(&Ask::new("POST", "/x?y").body("abc")).origin(), "a");
    assert_eq!(gateway.get("/y").origin(), "a");
    await_counted(&gateway, "sent", 2.0);
    let seen = s.requests();
    let post = seen.iter().find(|copy| copy.line.starts_with("POST")).unwrap();
    assert!(post.line == "POST http://shadow.internal/x?y HTTP/2" && post.complete, "{post:?}");
    assert_eq!(post.body_bytes, 3);
    assert_eq!(lines(post, "x-forwarded-host"), ["test"]);
    gateway.change(&pools("", "", "off"));
    eventually("no series is left", || {
        gateway.metrics().values("moorgate_mirrored_total", "result").is_empty().then_some(())
    });
    assert_eq!(gateway.get("/z").origin(), "a");
}

/// Nobody waits for a copy, and a process that leaves does not either.
#[test]
fn a_process_leaves_though_copies_are_under_way() {
    let (a, s) = (rig::origin("a"), rig::origin("s"));
    let text = pools("", "", "{ pool: s }");
    let drain = "{ lame_duck: 0s, timeout: 60s }";
    let mut gateway = rig::gateway(&text).process("drain", drain).origins([&a, &s]).start();
    s.script([on("*").hold("never").answer(200)]);
    assert_eq!(gateway.get("/x").origin(), "a");
    s.await_held("never", 1);
    let start = Instant::now();
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(gateway.exit(), 0);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(gateway.logged("/x")["status"], 200);
}

/// Copies have connections of their own, which are made under the trust that is in force as well.
#[test]
fn a_copy_is_sent_over_tls_to_an_origin_that_is_believed() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    for (protocol, h2) in [("http1", false), ("h2", true)] {
        let (a, s) = (rig::origin("a"), rig::origin("s"));
        let door = rig::secured(s.address, &ours.issue("o.test"), rig::Terms { h2, clients_of: None });
        let text = |ca: &str| {
            let tls = format!(", protocol: {protocol}, tls: {{ sni: o.test, ca: $dir/{ca}.pem }}");
            pools("", &tls, "{ pool: s }").replace("$s", "$door")
        };
        let gateway = rig::gateway(&text("ours")).process("threads", "1").origins([&a]).named("door", door.address);
        let mut gateway = gateway.start_with(|folder| {
            std::fs::write(folder.join("ours.pem"), ours.pem()).unwrap();
            std::fs::write(folder.join("other.pem"), other.pem()).unwrap();
        });
        let mut client = gateway.client();
        for count in 1..=2 {
            assert_eq!(client.get("/x").status, 200);
            await_counted(&gateway, "sent", f64::from(count));
        }
        gateway.change(&text("other"));
        assert_eq!(client.get("/other").status, 200, "the copy is nobody's business");
        await_counted(&gateway, "failed", 1.0);
        assert_eq!((s.served(), door.greetings().len(), door.greetings()[0].h2), (2, 1, h2), "{protocol}");
        gateway.change(&text("ours"));
        assert_eq!(client.get("/ours").status, 200);
        await_counted(&gateway, "sent", 3.0);
        let copy = s.requests().pop().unwrap();
        assert!(copy.line.ends_with(if h2 { "https://test/ours HTTP/2" } else { "/ours HTTP/1.1" }), "{}", copy.line);
    }
}
