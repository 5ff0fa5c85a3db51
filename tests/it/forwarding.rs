//! What is the origin told about the client, and the client about the hop behind us?

use crate::rig::{self, Ask, Gateway, Origin, answer, on};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n";

fn one(routes: &str) -> (Origin, Gateway) {
    let a = rig::origin("a");
    let gateway = rig::gateway(&format!("{POOL}{routes}")).origins([&a]).start();
    (a, gateway)
}

/// The lines of a header as the origin saw them in its only request.
fn seen(origin: &Origin, gateway: &Gateway, ask: &Ask, name: &str) -> Vec<String> {
    origin.forget();
    assert_eq!(gateway.ask(ask).status, 200);
    let request = origin.requests().remove(0);
    request.headers.into_iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

#[test]
fn the_client_s_address_is_appended_and_the_rest_is_ours_to_say() {
    let (a, gateway) = one("");
    let spoof = Ask::get("/x")
        .header("X-Forwarded-For", "192.0.2.9")
        .header("X-Forwarded-Proto", "https")
        .header("X-Forwarded-Host", "evil.example")
        .header("X-Real-IP", "192.0.2.9");
    assert_eq!(seen(&a, &gateway, &Ask::get("/x"), "x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(seen(&a, &gateway, &spoof, "x-forwarded-for"), ["192.0.2.9, 127.0.0.1"]);
    assert_eq!(seen(&a, &gateway, &spoof, "x-forwarded-proto"), ["http"]);
    assert_eq!(seen(&a, &gateway, &spoof, "x-forwarded-host"), ["test"]);
    assert_eq!(seen(&a, &gateway, &spoof, "x-real-ip"), ["127.0.0.1"]);
    assert_eq!(seen(&a, &gateway, &spoof, "host"), ["test"]);
    assert!(seen(&a, &gateway, &spoof, "forwarded").is_empty());
}

/// A client of HTTP/2 sends `:authority` and no Host, one of HTTP/1.0 may name the host in its target alone.
#[test]
fn the_host_asked_for_is_told_wherever_it_stood() {
    let a = rig::origin("a");
    let gateway = rig::gateway(POOL).listener("h2c: true").origins([&a]).start();
    let told = |seen: &rig::Request| {
        let lines = seen.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case("x-forwarded-host"));
        lines.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let ask = Ask::get("/h2").header("Host", "shop.example:81").header("X-Forwarded-Host", "evil.example");
    assert_eq!(rig::h2c(gateway.address(), &[ask])[0].as_ref().unwrap().status, 200);
    assert_eq!(told(&a.requests()[0]), ["shop.example:81"]);
    a.forget();
    let mut raw = rig::raw(gateway.address());
    raw.send("GET http://Shop.example/1.0 HTTP/1.0\r\nX-Forwarded-Host: evil.example\r\n\r\n");
    assert_eq!(raw.answer().status, 200);
    assert_eq!(told(&a.requests()[0]), ["Shop.example"]);
    a.forget();
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /none HTTP/1.0\r\nX-Forwarded-Host: evil.example\r\n\r\n");
    assert_eq!(raw.answer().status, 200);
    assert!(told(&a.requests()[0]).is_empty());
}

#[test]
fn a_route_can_set_or_leave_forwarding_headers() {
    let (a, gateway) = one(
        "routes:\n  - { match: { path: { prefix: /set } }, pool: p, forwarded: { x_forwarded: set, forwarded: on } }\n  \
         - { match: { path: { prefix: /off } }, pool: p, forwarded: { x_forwarded: off, request_id: off } }\n  - { pool: p }\n",
    );
    let from = |target| Ask::get(target).header("X-Forwarded-For", "192.0.2.9");
    assert_eq!(seen(&a, &gateway, &from("/set"), "x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(seen(&a, &gateway, &from("/set"), "forwarded"), ["for=127.0.0.1;host=\"test\";proto=http"]);
    let ported = from("/set").header("Host", "shop.example:81").header("Forwarded", "for=192.0.2.9;proto=https");
    assert_eq!(seen(&a, &gateway, &ported, "forwarded"), ["for=127.0.0.1;host=\"shop.example:81\";proto=http"]);
    assert_eq!(seen(&a, &gateway, &from("/off"), "x-forwarded-for"), ["192.0.2.9"]);
    assert!(seen(&a, &gateway, &from("/off"), "x-request-id").is_empty());
}

/// Whatever the client says: it is its connection that has TLS or not.
#[test]
fn the_scheme_told_is_that_of_the_connection() {
    let a = rig::origin("a");
    let text = format!(
        "certificates: [ {{ cert: $dir/a.pem, key: $dir/a.key }} ]\n{POOL}routes: [ {{ pool: p, forwarded: {{ forwarded: on }} }} ]\n"
    );
    let gateway = rig::gateway(&text).further_listener("tls: {}").origins([&a]);
    let gateway = gateway.start_with(|folder| rig::issued::certificate(&["a.test"]).issue().write(folder, "a"));
    let ask = |said: &str| {
        Ask::get("/x").header("Host", "a.test").header("X-Forwarded-Proto", said).header("Forwarded", "proto=gopher")
    };
    let mut secure = rig::hello("a.test").connect(gateway.listeners[1]).unwrap();
    for scheme in ["http", "https"] {
        let answer =
            if scheme == "http" { gateway.client().send(&ask("https")) } else { secure.try_send(&ask("http")) };
        assert_eq!(answer.unwrap().status, 200);
        let headers = a.requests().pop().unwrap().headers;
        let line = |name: &str| headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).unwrap().1.clone();
        let told = format!("proto=gopher, for=127.0.0.1;host=\"a.test\";proto={scheme}");
        assert_eq!((&*line("x-forwarded-proto"), line("forwarded")), (scheme, told));
    }
}

#[test]
fn the_request_id_is_kept_or_made_and_stands_in_the_log() {
    let (a, gateway) = one("");
    assert_eq!(seen(&a, &gateway, &Ask::get("/kept").header("X-Request-ID", "abc-1"), "x-request-id"), ["abc-1"]);
    assert_eq!(gateway.logged("/kept")["request_id"], "abc-1");
    let made = seen(&a, &gateway, &Ask::get("/made").header("X-Request-ID", "two words"), "x-request-id");
    assert!(made.len() == 1 && made[0].len() == 32 && made[0].bytes().all(|b| b.is_ascii_hexdigit()), "{made:?}");
    assert_eq!(gateway.logged("/made")["request_id"], made[0].as_str());
}

#[test]
fn headers_of_one_hop_stay_on_their_hop() {
    let (a, gateway) = one("");
    a.script([on("/x").then(
        answer(200)
            .header("Connection", "X-Secret")
            .header("X-Secret", "1")
            .header("Keep-Alive", "timeout=5")
            .header("X-Told", "1")
            .into(),
    )]);
    let ask = Ask::get("/x")
        .header("Connection", "keep-alive, X-Hop")
        .header("X-Hop", "1")
        .header("TE", "trailers")
        .header("Proxy-Authorization", "Basic x")
        .header("X-End-To-End", "1");
    let answer = gateway.ask(&ask);
    assert_eq!(answer.header("x-told"), Some("1"));
    assert_eq!((answer.header("x-secret"), answer.header("keep-alive")), (None, None));
    let headers = a.requests().remove(0).headers;
    let has = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    assert!(has("x-end-to-end") && !has("x-hop") && !has("proxy-authorization"), "{headers:?}");
}

#[test]
fn names_of_headers_keep_their_spelling() {
    let (a, gateway) = one("");
    a.script([on("/x").then(answer(200).header("X-wEiRd", "1").into())]);
    let answer = gateway.ask(&Ask::get("/x").header("x-CLIENT", "1"));
    assert!(answer.headers.iter().any(|(name, _)| name == "X-wEiRd"), "{answer:?}");
    assert!(a.requests()[0].headers.iter().any(|(name, _)| name == "x-CLIENT"));
}

#[test]
fn the_pool_says_which_host_the_origin_sees() {
    let a = rig::origin("a");
    let text = "pools:\n  lit: { host: origin.internal, balance: { key: \"{path}\" }, origins: $origins }\n  \
                addr: { host: address, balance: { key: \"{path}\" }, origins: $origins }\n\
                routes:\n  - { match: { path: { prefix: /lit } }, pool: lit }\n  - { pool: addr }\n";
    let gateway = rig::gateway(text).origins([&a]).start();
    assert_eq!(seen(&a, &gateway, &Ask::get("/lit"), "host"), ["origin.internal"]);
    assert_eq!(seen(&a, &gateway, &Ask::get("/x"), "host"), [a.address.to_string()]);
}

#[test]
fn no_answer_names_pingora_or_a_version() {
    let (a, gateway) = one("routes: [ { match: { path: { prefix: /known } }, pool: p } ]\n");
    a.script([on("/known/503").answer(503)]);
    for target in ["/known", "/known/503", "/unknown"] {
        let answer = gateway.get(target);
        let text = format!("{answer:?}").to_lowercase();
        assert!(!text.contains("pingora") && !text.contains(env!("CARGO_PKG_VERSION")), "{text}");
        assert_eq!(answer.header("server"), None);
    }
    assert_eq!(gateway.get("/unknown").status, 404);
}
