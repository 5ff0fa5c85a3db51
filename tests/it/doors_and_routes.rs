//! Who may ask for what, and where does it go? Routes and access match what a path means, however it is spelled.

use crate::rig::{self, Ask, Client, Gateway, Origin};

fn one(routes: &str) -> (Vec<Origin>, Gateway) {
    let all: Vec<Origin> = ["a", "b"].map(rig::origin).into();
    let pools = "pools:\n  a: { balance: { key: \"{path}\" }, origins: [{ address: \"$a\", name: a }] }\n  \
                 b: { balance: { key: \"{path}\" }, origins: [{ address: \"$b\", name: b }] }\nroutes:\n";
    let gateway = rig::gateway(&format!("{pools}{routes}")).origins(&all).start();
    (all, gateway)
}

#[test]
fn k5_a_denied_path_is_denied_however_it_is_spelled() {
    let (all, gateway) =
        one("  - { match: { path: { prefix: /admin } }, pool: a, access: { deny: [127.0.0.0/8] } }\n  - { pool: b }\n");
    for target in [
        "/admin",
        "/admin/",
        "/admin/x?y",
        "//admin",
        "/x/../admin",
        "/./admin",
        "/%61dmin",
        "/admi%6E/x",
        "/x/%2e%2e/admin",
        "/x/.%2e/admin/y",
        "/x%2f..%2fadmin",
        "/..%2fadmin",
        "/%5cadmin",
        "/../admin",
        "/admin%00",
        "/x//..///admin",
        "/x//../admin",
        "/admin//../x",
        "http://test/admin",
    ] {
        let answer = gateway.ask(&Ask::get(target));
        assert!([400, 403].contains(&answer.status), "{target}: {answer:?}");
    }
    assert_eq!(all.iter().map(Origin::served).sum::<u64>(), 0);
    assert_eq!(gateway.get("/administration").origin(), "b");
    assert_eq!(gateway.get("/x?p=%2f%00%5c..").origin(), "b");
}

#[test]
fn k5_an_encoded_slash_passes_where_the_route_allows_it() {
    let (all, gateway) =
        one("  - { match: { path: { prefix: /files } }, pool: a, encoded_slash: allow }\n  - { pool: b }\n");
    assert_eq!(gateway.get("/files/a%2Fb").status, 200);
    assert_eq!(all[0].requests()[0].line, "GET /files/a%2Fb HTTP/1.1");
    assert_eq!(gateway.get("/other/a%2Fb").status, 400);
}

#[test]
fn the_most_specific_route_takes_a_request_whatever_the_order() {
    let routes = [
        "  - { name: all, pool: b }\n",
        "  - { name: api, match: { path: { prefix: /api/ } }, pool: a }\n",
        "  - { name: v2, match: { path: { prefix: /api/v2 } }, pool: b }\n",
        "  - { name: exact, match: { path: { exact: /api/v2/x } }, pool: a }\n",
        "  - { name: wild, match: { hosts: [\"*.example.org\"] }, pool: a }\n",
        "  - { name: host, match: { hosts: [www.example.org] }, pool: b }\n",
        "  - { name: post, match: { path: { prefix: /api/v2 }, methods: [POST] }, pool: a }\n",
        "  - { name: header, match: { path: { prefix: /m }, headers: { x-canary: \"1\" } }, pool: a }\n",
        "  - { name: cookie, match: { path: { prefix: /m }, cookies: { beta: \"1\" } }, pool: b }\n",
        "  - { name: query, match: { path: { prefix: /m }, query: { v: \"2\" } }, pool: a }\n",
    ];
    let backwards: String = routes.iter().rev().copied().collect();
    for order in [routes.concat(), backwards] {
        let (_all, gateway) = one(&order);
        let asked = [
            ("GET", "test", "/x", "all"),
            ("GET", "test", "/api", "api"),
            ("GET", "test", "/api/x", "api"),
            ("GET", "test", "/apix", "all"),
            ("GET", "test", "/api/v2/y", "v2"),
            ("POST", "test", "/api/v2/y", "post"),
            ("GET", "test", "/api/v2/x", "exact"),
            ("GET", "a.b.example.org", "/api/v2/x", "wild"),
            ("GET", "WWW.Example.org:80", "/api/v2/x", "host"),
            ("GET", "example.org", "/x", "all"),
        ];
        let asked = asked.into_iter().enumerate().map(|(n, (method, host, path, route))| {
            (Ask::new(method, &format!("{path}?{n}")).header("Host", host), format!("{path}?{n}"), route)
        });
        let told = [
            ("/m?header", "X-Canary", "1", "header"),
            ("/m?other-header", "X-Canary", "2", "all"),
            ("/m?cookie", "Cookie", "a=b; beta=1", "cookie"),
            ("/m?other-cookie", "Cookie", "beta=10; xbeta=1", "all"),
            ("/m?query&v=2", "X", "y", "query"),
            ("/m?other-query&v=3", "X", "v=2", "all"),
            ("/m?both&v=2", "X-Canary", "1", "header"),
        ];
        let told =
            told.map(|(target, line, value, route)| (Ask::get(target).header(line, value), target.to_owned(), route));
        let all: Vec<_> = asked.chain(told).collect();
        for (ask, target, _) in &all {
            assert_eq!(gateway.ask(ask).status, 200, "{target}");
        }
        for (_, target, route) in all {
            assert_eq!(gateway.logged(&target)["route"], route, "{target}");
        }
    }
}

#[test]
fn a_route_may_be_for_one_listener_or_scheme() {
    let all = ["a", "b", "c"].map(rig::origin);
    let pool = |name| {
        format!(
            "  {name}: {{ balance: {{ key: \"{{path}}\" }}, origins: [{{ address: \"${name}\", name: {name} }}] }}\n"
        )
    };
    let routes = "routes:\n  - { name: all, match: { scheme: http }, pool: a }\n  \
                  - { name: secure, match: { scheme: https, path: { prefix: / } }, pool: c }\n  \
                  - { name: inside, match: { path: { prefix: / }, listeners: [\"$listener1\"] }, pool: b }\n";
    let text = format!("pools:\n{}{routes}", ["a", "b", "c"].map(pool).concat());
    let mut gateway = rig::gateway(&text).further_listener("h2c: true").origins(&all).start();
    let [outside, inside] = [0, 1].map(|n| gateway.listeners[n]);
    let secure = |target: &str| Ask::get(target).header("X-Forwarded-Proto", "https");
    for ask in [Ask::get("/x"), secure("/x"), Ask::get("https://test/x")] {
        assert_eq!(Client::new(outside).send(&ask).unwrap().origin(), "a");
        assert_eq!(Client::new(inside).send(&ask).unwrap().origin(), "b");
    }
    assert_eq!(rig::h2c(inside, &[Ask::get("/x")])[0].as_ref().unwrap().origin(), "b");
    // A listener is not forgotten by a reload, and one that does not exist is a mistake.
    gateway.change(&text.replace("listener1", "listener0"));
    assert_eq!((Client::new(outside).get("/y").origin(), Client::new(inside).get("/y").origin()), ("b", "a"));
    gateway.rewrite(&text.replace("$listener1", "127.0.0.1:1"));
    let answer = gateway.admin("POST", "/reload");
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(answer.text().contains("unknown listener \\\"127.0.0.1:1\\\""), "{}", answer.text());
}

#[test]
fn a_request_without_a_route_is_404_and_says_why() {
    let (_all, gateway) = one("  - { match: { hosts: [known.example] }, pool: a }\n");
    let answer = gateway.get("/x");
    assert_eq!(answer.status, 404);
    assert!(answer.header("proxy-status").unwrap().contains("destination_not_found"), "{answer:?}");
    assert_eq!(gateway.logged("/x")["error"], "no_route");
}

#[test]
fn two_routes_that_tie_are_refused() {
    let (_all, mut gateway) = one("  - { pool: a }\n");
    gateway.rewrite(
        "pools: { a: { balance: { key: \"{path}\" }, origins: $origins } }\nroutes:\n  - { name: one, match: { path: { prefix: /x } }, pool: a }\n  - { name: two, match: { path: { prefix: /x/ } }, pool: a }\n",
    );
    let answer = gateway.admin("POST", "/reload");
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(answer.text().contains("one") && answer.text().contains("two"), "{}", answer.text());
}
