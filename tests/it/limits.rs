//! What may a client ask of a route, and how often? More is turned away before an origin hears of it.

use std::net::Ipv4Addr;

use crate::rig::{self, Answer, Ask, Client, Gateway, Origin, on};

/// A gateway before one origin, with these limits on its only route.
fn start(limits: &str) -> (Origin, Gateway) {
    let origin = rig::origin("a");
    let gateway = rig::gateway(&route(limits)).origins([&origin]).start();
    (origin, gateway)
}

fn route(limits: &str) -> String {
    format!(
        "trusted_proxies: [127.0.0.9]\npools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, health: {{ probe: off }}, origins: $origins }} }}\n\
         routes: [ {{ name: r, pool: p, limits: {limits} }} ]\n"
    )
}

fn statuses(answers: &[Answer]) -> Vec<u16> {
    answers.iter().map(|answer| answer.status).collect()
}

fn count(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

fn limited(gateway: &Gateway, limit: &str) -> f64 {
    gateway.metrics().sum("moorgate_limited_total", &[("route", "r"), ("limit", limit)])
}

#[test]
fn b69_an_address_that_nobody_vouches_for_escapes_no_limit() {
    let (origin, mut gateway) = start("{ rate: { name: per-client, rate: 1/h, burst: 9 } }");
    let ask = |n: u32, forwarded: &str| Ask::get(&format!("/{n}")).header("X-Forwarded-For", forwarded);
    let mut client = gateway.client();
    let answers: Vec<_> =
        (0..100).map(|n| client.send(&ask(n, &format!("198.51.{}.{n}", n * 7 % 256))).unwrap()).collect();
    assert_eq!((count(&answers, 200), count(&answers, 429)), (10, 90));
    assert_eq!(statuses(&answers[..11]), [vec![200; 10], vec![429]].concat());
    let last = answers.last().unwrap();
    let wait: u32 = last.header("retry-after").unwrap().parse().unwrap();
    assert!((3590..=3600).contains(&wait), "{last:?}");
    assert_eq!(last.header("ratelimit-policy"), Some("\"per-client\";q=10;w=36000"));
    assert_eq!(last.header("ratelimit"), Some(&*format!("\"per-client\";r=0;t={wait}")));
    assert!(last.header("proxy-status").unwrap().contains("error=http_request_denied; details=\"sent=0\""));
    assert_eq!(origin.served(), 10);
    let line = gateway.logged("/99");
    assert_eq!(
        (&line["error"], &line["limited"], &line["status"]),
        (&"limited".into(), &"per-client".into(), &429.into())
    );
    assert_eq!(gateway.logged("/1")["limited"], serde_json::Value::Null);
    assert!((limited(&gateway, "per-client") - 90.0).abs() < 0.5);

    // By a proxy that is trusted, the address it saw is what counts, whatever stands left of it.
    let mut proxy = Client::new(gateway.address()).from(Ipv4Addr::new(127, 0, 0, 9));
    let mut by = |left: u32, real: &str| proxy.send(&ask(left, &format!("198.51.100.{left}, {real}"))).unwrap();
    let spoofed: Vec<_> = (0..20).map(|n| by(n, "203.0.113.5")).collect();
    assert_eq!(statuses(&spoofed), [[200; 10], [429; 10]].concat());
    assert_eq!(by(0, "203.0.113.6").status, 200);

    // A reload forgets nothing, and another limit counts on from there.
    gateway.change(&route("{ rate: { name: per-client, rate: 1/h, burst: 11, status: 503 } }"));
    let answers: Vec<_> = (0..4).map(|n| client.get(&format!("/again/{n}"))).collect();
    assert_eq!(statuses(&answers), [200, 200, 503, 503], "two more than before");
    gateway.change(&route("{ rate: { name: per-client, rate: 1/h, burst: 11, dry_run: true } }"));
    let counted = limited(&gateway, "per-client");
    assert_eq!(client.get("/dry").status, 200);
    assert!((limited(&gateway, "per-client") - counted - 1.0).abs() < 0.5, "it counts all the same");
    let line = gateway.logged("/dry");
    assert_eq!((&line["error"], &line["limited"]), (&serde_json::Value::Null, &"per-client".into()));
}

#[test]
fn each_of_several_limits_holds_and_one_that_turned_away_costs_the_others_nothing() {
    let rates =
        "[ { name: all, key: \"{host}\", rate: 1/h, burst: 5 }, { key: \"{header:x-user}\", rate: 1/h, burst: 1 } ]";
    let (_origin, gateway) = start(&format!("{{ rate: {rates} }}"));
    let mut client = gateway.client();
    let mut by = |user: &str| client.send(&Ask::get("/").header("X-User", user)).unwrap().status;
    assert_eq!([by("a"), by("a"), by("a"), by("a"), by("b"), by("b"), by("b")], [200, 200, 429, 429, 200, 200, 429]);
    assert_eq!([by("c"), by("d"), by("e"), by("f")], [200, 200, 429, 429], "six in all");
    assert_eq!([limited(&gateway, "rate-2"), limited(&gateway, "all")], [3.0, 2.0]);
}

#[test]
fn u3_who_was_turned_away_is_turned_away_by_the_process_that_follows() {
    let rate = "{ key: \"{header:x-user}\", rate: 1/h, burst: 2 }";
    let (origin, gateway) =
        start(&format!("{{ rate: {rate}, concurrency: {{ key: \"{{header:x-group}}\", max: 2, status: 503 }} }}"));
    let answers: Vec<_> = (0..5).map(|_| gateway.get("/")).collect();
    assert_eq!(statuses(&answers), [200, 200, 200, 429, 429]);
    origin.script([on("/held").hold("all").answer(200)]);
    let by = |target: &str, user: &str| Ask::get(target).header("X-User", user).header("X-Group", "g");
    let held = ["a", "b"].map(|user| {
        let (address, ask) = (gateway.address(), by("/held", user));
        std::thread::spawn(move || Client::new(address).send(&ask).unwrap().status)
    });
    origin.await_requests("/held", 2);
    let upgraded = std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| gateway.command(&["upgrade"]));
        rig::eventually("the next one serves", || (gateway.status()["generation"] == 2).then_some(()));
        assert_eq!(gateway.get("/").status, 429);
        // What the one before still answers counts in the one that follows.
        assert_eq!(gateway.ask(&by("/", "c")).status, 503);
        origin.release("all");
        assert_eq!(held.map(|one| one.join().unwrap()), [200, 200]);
        upgrade.join().unwrap()
    });
    assert!(upgraded.status.success(), "{upgraded:?}");
    let mut users = 0..;
    rig::eventually("both seats are free", || {
        let user = format!("user-{}", users.next()?);
        (gateway.ask(&by("/", &user)).status == 200).then_some(())
    });
}

#[test]
fn a_route_without_a_name_keeps_its_counts_when_another_one_comes_before_it() {
    let limits = "limits: { rate: { rate: 1/h, burst: 1 }, concurrency: { max: 9 } }";
    let api = format!("{{ match: {{ path: {{ prefix: /api }} }}, pool: p, {limits} }}");
    let (rest, new) =
        (format!("{{ pool: p, {limits} }}"), format!("{{ match: {{ hosts: [new] }}, pool: p, {limits} }}"));
    let text = |routes: &[&String]| {
        let routes: Vec<_> = routes.iter().map(|route| route.as_str()).collect();
        let head = route("off");
        format!("{}routes: [ {} ]\n", head.split("routes:").next().unwrap(), routes.join(", "))
    };
    let origin = rig::origin("a");
    let mut gateway = rig::gateway(&text(&[&api, &rest])).origins([&origin]).start();
    let ask = |gateway: &Gateway, target: &str| gateway.get(target).status;
    let asked: Vec<_> = (0..3).map(|_| ask(&gateway, "/api")).collect();
    assert_eq!(asked, [200, 200, 429]);
    gateway.change(&text(&[&new, &api, &rest]));
    assert_eq!(ask(&gateway, "/api"), 429, "it has another number, and is the same route");
    assert_eq!(
        [ask(&gateway, "/"), ask(&gateway, "/"), ask(&gateway, "/")],
        [200, 200, 429],
        "and this one has its own"
    );
    assert_eq!(gateway.ask(&Ask::get("/").header("Host", "new")).status, 200);
}

#[test]
fn a_body_that_says_that_it_is_too_long_is_refused_before_it_comes() {
    let (origin, gateway) = start("{ body: 1KiB }");
    let mut client = gateway.client();
    assert_eq!(client.send(&Ask::new("PUT", "/fits").body(vec![b'x'; 1024])).unwrap().status, 200);
    let refused = client.send(&Ask::new("PUT", "/more").body(vec![b'x'; 1025])).unwrap();
    assert_eq!((refused.status, refused.closes()), (413, true), "{refused:?}");
    assert!(refused.header("proxy-status").unwrap().contains("sent=0"), "{refused:?}");

    let mut raw = rig::raw(gateway.address());
    raw.send("PUT /waits HTTP/1.1\r\nHost: test\r\nContent-Length: 2000\r\nExpect: 100-continue\r\n\r\n");
    let answer = raw.answer();
    assert_eq!((answer.status, answer.interim.len(), answer.closes()), (413, 0, true), "{answer:?}");

    // All of it is sent before anything is read: the answer is there all the same.
    let mut raw = rig::raw(gateway.address());
    raw.send("PUT /long HTTP/1.1\r\nHost: test\r\nContent-Length: 8000000\r\n\r\n");
    raw.send(vec![b'x'; 8_000_000]);
    assert_eq!(raw.answer().status, 413);

    let curl = curl(&gateway, "/curl", 4_000_000, &[]);
    assert_eq!(curl, "413");
    assert_eq!(origin.served(), 1);
    let line = gateway.logged("/long");
    assert_eq!((&line["error"], &line["limited"]), (&"body_too_large".into(), &"body".into()));
    assert!((limited(&gateway, "body") - 4.0).abs() < 0.5);
}

#[test]
fn a_body_that_goes_to_no_origin_is_held_to_its_limit() {
    let origin = rig::origin("a");
    let text = route("{ body: 1KiB }").replace("pool: p,", "respond: { body: ok },");
    let gateway = rig::gateway(&text).origins([&origin]).start();
    let mut client = gateway.client();
    assert_eq!(client.send(&Ask::new("PUT", "/").body(vec![b'x'; 1024])).unwrap().status, 200);
    let mut raw = rig::raw(gateway.address());
    raw.send("PUT / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n");
    raw.send(vec![b'x'; 2048]);
    raw.send("\r\n0\r\n\r\n");
    assert_eq!(raw.answer().status, 413);
}

/// Sends a body of so many bytes with curl: what it came to.
fn curl(gateway: &Gateway, target: &str, length: usize, more: &[&str]) -> String {
    let body = gateway.path("body");
    std::fs::write(&body, vec![b'x'; length]).unwrap();
    let url = format!("http://{}{target}", gateway.address());
    let mut curl = std::process::Command::new("curl");
    curl.args(["-sS", "--max-time", "20", "-o", "/dev/null", "-w", "%{http_code}", "-T"])
        .arg(&body)
        .args(more)
        .arg(url);
    let output = curl.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Sends the same over HTTP/2 with nghttp: the status, and whether the stream ended without an error.
fn nghttp(gateway: &Gateway, target: &str, more: &[&str]) -> (u16, bool) {
    let mut nghttp = std::process::Command::new("nghttp");
    nghttp.args(["-v", "-t", "20", "-d"]).arg(gateway.path("body")).args(more);
    let output = nghttp.arg(format!("http://{}{target}", gateway.address())).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = said.split(":status: ").nth(1).unwrap_or_else(|| panic!("{output:?}")).get(..3).unwrap().parse();
    let error = said.split("error_code=").nth(1).is_some_and(|error| !error.starts_with("NO_ERROR"));
    (status.unwrap(), !error)
}

#[test]
fn a_body_without_a_length_is_cut_where_it_is_too_long() {
    let origin = rig::origin("a");
    let gateway = rig::gateway(&route("{ body: 100KiB }")).listener("h2c: true").origins([&origin]).start();
    assert_eq!(curl(&gateway, "/fits", 102_400, &["-H", "Transfer-Encoding: chunked"]), "200");
    let chunked = ["-H", "Transfer-Encoding: chunked", "-H", "Expect: 100-continue"];
    assert_eq!(curl(&gateway, "/chunked", 4_000_000, &chunked[..2]), "413");
    assert_eq!(curl(&gateway, "/waits", 4_000_000, &chunked), "413");
    assert_eq!(nghttp(&gateway, "/h2", &["--no-content-length"]), (413, true));
    assert_eq!(nghttp(&gateway, "/h2-length", &[]), (413, true));
    for target in ["/chunked", "/waits", "/h2", "/h2-length"] {
        let line = gateway.logged(target);
        assert_eq!((&line["error"], &line["limited"]), (&"body_too_large".into(), &"body".into()), "{line}");
    }
    let mut raw = rig::raw(gateway.address());
    raw.send("PUT /raw HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = [b"4000\r\n".as_slice(), &[b'x'; 0x4000], b"\r\n"].concat();
    (0..200).for_each(|_| raw.send(&chunk));
    raw.send("0\r\n\r\n");
    assert_eq!(raw.answer().status, 413);
    rig::eventually("the origin is rid of them", || (origin.counts().in_flight == 0).then_some(()));
    let shown = gateway.origin("p", "a");
    assert_eq!((&shown["state"], &shown["error_ratio"]), (&"up".into(), &0.0.into()), "held against nobody: {shown}");
    assert_eq!(gateway.get("/after").status, 200);
}

#[test]
fn what_is_sent_again_counts_once() {
    let all = [rig::origin("a"), rig::origin("b")];
    all[0].script([on("*").then(rig::Step::Read(rig::Amount::Half)).then(rig::Step::End(rig::Close::Rst))]);
    let text = "pools: { p: { balance: { algorithm: round_robin }, health: { probe: off }, origins: $origins } }\n\
                routes: [ { name: r, pool: p, limits: { body: 40KiB }, retry: { tries: 3, methods: { PUT: [reset, stale, connect] } } } ]\n";
    let gateway = rig::gateway(text).origins(&all).start();
    let tries: Vec<_> = ["/1", "/2"]
        .into_iter()
        .map(|target| {
            let answer = gateway.ask(&Ask::new("PUT", target).body(vec![b'x'; 40 << 10]));
            assert_eq!(answer.status, 200, "{answer:?}");
            gateway.logged(target)["attempts"].as_array().unwrap().len()
        })
        .collect();
    assert!(tries.contains(&2), "one of them went to the other first: {tries:?}");
}

#[test]
fn so_many_requests_of_a_client_are_under_way_and_no_more() {
    let (origin, mut gateway) = start("{ concurrency: { key: \"{header:x-user}\", max: 5, status: 503 }, body: 1KiB }");
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".to_vec();
    origin.script([on("/ws").then(rig::Step::Send(switch)).then(rig::Step::Echo), on("/held").hold("all").answer(200)]);
    let address = gateway.address();
    let ask = move |target: &str| {
        let ask = Ask::get(target).header("X-User", "a");
        std::thread::spawn(move || Client::new(address).send(&ask).unwrap().status)
    };
    let mut tunnel = rig::raw(address);
    tunnel.send("GET /ws HTTP/1.1\r\nHost: t\r\nX-User: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n");
    assert_eq!(tunnel.answer().status, 101);
    // What passes it is no body, however much that is.
    for _ in 0..4 {
        tunnel.send(vec![b'x'; 1024]);
        assert_eq!(tunnel.bytes(1024), vec![b'x'; 1024]);
    }
    let held: Vec<_> = (0..50).map(|_| ask("/held")).collect();
    let refused = || held.iter().filter(|one| one.is_finished()).count();
    rig::eventually("all others are refused", || (refused() == 46).then_some(()));
    assert_eq!(origin.counts().in_flight, 5);
    assert_eq!(gateway.ask(&Ask::get("/").header("X-User", "b")).status, 200);

    // What is under way stays so over a reload, and when the limit changes.
    gateway.change(&route("{ concurrency: { key: \"{header:x-user}\", max: 6 } }"));
    let sixth = ask("/held");
    origin.await_requests("/held", 5);
    let answer = gateway.ask(&Ask::get("/seventh").header("X-User", "a"));
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")), "{answer:?}");
    assert_eq!(gateway.logged("/seventh")["limited"], "concurrency");
    origin.release("all");
    let statuses: Vec<_> = held.into_iter().map(|one| one.join().unwrap()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 4);
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    assert_eq!(sixth.join().unwrap(), 200);
    assert!((limited(&gateway, "concurrency") - 47.0).abs() < 0.5);

    // The tunnel holds the only seat there is now, until it ends.
    gateway.change(&route("{ concurrency: { key: \"{header:x-user}\", max: 1, dry_run: true } }"));
    assert_eq!(gateway.ask(&Ask::get("/dry").header("X-User", "a")).status, 200);
    let line = gateway.logged("/dry");
    assert_eq!((&line["error"], &line["limited"]), (&serde_json::Value::Null, &"concurrency".into()));
    assert!((limited(&gateway, "concurrency") - 48.0).abs() < 0.5);
    gateway.change(&route("{ concurrency: { key: \"{header:x-user}\", max: 1 } }"));
    let answer = || gateway.ask(&Ask::get("/last").header("X-User", "a")).status;
    assert_eq!(answer(), 429);
    drop(tunnel);
    rig::eventually("its seat is free", || (answer() == 200).then_some(()));
}

#[test]
fn an_answer_goes_no_faster_than_it_may_and_nobody_takes_that_for_silence() {
    let origin = rig::origin("a");
    origin.script([on("*").then(rig::Step::Answer(rig::answer(200).body(rig::Body::Size(700 << 10))))]);
    let text = "client_limits: { send_timeout: 200ms }\n\
                pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, timeouts: { connect: 100ms, read: 150ms }, origins: $origins } }\n\
                routes: [ { name: r, pool: p, limits: { bandwidth: 400KiB/s } } ]\n";
    let gateway = rig::gateway(text).listener("h2c: true").origins([&origin]).start();
    let drip = rig::Body::Drip { piece: "x".repeat(1024), every_ms: 0, times: 300 };
    let h2 = std::thread::spawn({
        let address = gateway.address();
        move || {
            let began = std::time::Instant::now();
            let answers = rig::h2c(address, &[Ask::get("/h2")]);
            (answers.into_iter().next().unwrap().unwrap().body.len(), began.elapsed())
        }
    });
    let began = std::time::Instant::now();
    let mut arrived = Vec::new();
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /h1 HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(raw.answer_to("HEAD").unwrap().status, 200);
    for _ in 0..7 {
        raw.bytes(100 << 10);
        arrived.push(began.elapsed().as_secs_f64());
    }
    // 400 KiB/s from the start, but for a slice or two of a twentieth of a second that may be ahead.
    for (number, at) in arrived.iter().enumerate() {
        let paid = (100 * (number + 1)) as f64 / 400.0;
        assert!((paid - 0.1..paid + 2.0).contains(at), "{arrived:?}");
    }
    // Over HTTP/2 the first pieces, of 320 KiB at most, go at once.
    let (length, took) = h2.join().unwrap();
    assert_eq!(length, 700 << 10);
    assert!((0.9..4.0).contains(&took.as_secs_f64()), "{took:?}");
    assert_eq!(gateway.logged("/h1")["error"], serde_json::Value::Null);
    // The next answer of the connection keeps its own pace, and small pieces are no way around it.
    origin.script([on("/drip").then(rig::Step::Answer(rig::answer(200).framing(rig::Framing::Chunked).body(drip)))]);
    let began = std::time::Instant::now();
    raw.send("GET /drip HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(raw.answer().body.len(), 300 * 1024);
    assert!((0.6..3.0).contains(&began.elapsed().as_secs_f64()), "{:?}", began.elapsed());
}

#[test]
fn what_may_go_of_a_slow_answer_does_not_wait_for_what_may_not() {
    let origin = rig::origin("a");
    origin.script([on("*").then(rig::Step::Answer(rig::answer(200).body(rig::Body::Size(16 << 10))))]);
    let gateway = rig::gateway(&route("{ bandwidth: 2KiB/s }")).origins([&origin]).start();
    let mut raw = rig::raw(gateway.address());
    raw.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    let began = std::time::Instant::now();
    assert_eq!(raw.answer_to("HEAD").unwrap().status, 200);
    raw.bytes(8192);
    // the second 4 KiB may go two seconds after the first, and the third two seconds after that
    assert!(began.elapsed() < std::time::Duration::from_millis(3500), "{:?}", began.elapsed());
}

#[test]
fn the_whole_time_of_a_request_counts_what_its_answer_had_to_wait_for_its_pace() {
    let origin = rig::origin("a");
    let drip = rig::Body::Drip { piece: "x".repeat(64 << 10), every_ms: 100, times: 100 };
    origin.script([on("*").then(rig::Step::Answer(rig::answer(200).framing(rig::Framing::Chunked).body(drip)))]);
    let text = "pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, timeouts: { connect: 100ms, read: 150ms, total: 500ms }, origins: $origins } }\n\
                routes: [ { pool: p, limits: { bandwidth: 400KiB/s } } ]\n";
    let gateway = rig::gateway(text).origins([&origin]).start();
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /h1 HTTP/1.1\r\nHost: test\r\n\r\n");
    let began = std::time::Instant::now();
    assert!((100 << 10..1 << 20).contains(&raw.rest().len()));
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(gateway.logged("/h1")["error"], "response_timeout");
}
