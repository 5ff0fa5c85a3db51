//! What is hashed? Parts of a request, normalised, chosen by the pool; the origin sees the client's bytes all the same.

use std::collections::BTreeSet;

use crate::rig::{self, Ask, Gateway, Origin};

/// Eight origins: two keys that differ share an owner in one case of eight.
fn eight(balance: &str) -> (Vec<Origin>, Gateway) {
    let all: Vec<Origin> = ["a", "b", "c", "d", "e", "f", "g", "h"].map(rig::origin).into();
    let gateway = rig::gateway(&format!("pools: {{ p: {{ {balance}, origins: $origins }} }}\n")).origins(&all).start();
    (all, gateway)
}

/// The origins that get these requests.
fn owners(gateway: &Gateway, targets: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    let mut client = gateway.client();
    targets.into_iter().map(|target| client.get(&target).origin().to_owned()).collect()
}

/// The key of a request, as the log shows it.
fn key(gateway: &Gateway, target: &str) -> String {
    assert_eq!(gateway.get(target).status, 200, "{target}");
    gateway.logged(target)["key"].as_str().unwrap().to_owned()
}

#[test]
fn b10_arguments_that_are_not_kept_make_no_difference() {
    let (all, gateway) = eight("balance: { key: \"{path}{args}\" }, args: { keep: [v] }");
    let signed = |n: u32| format!("/o/1?sig={}&ts={}&v=7", n * 7919, 1_700_000_000 + n);
    let owners = owners(&gateway, (0..100).map(signed));
    assert_eq!(owners.len(), 1, "{owners:?}");
    let owner = all.iter().find(|origin| owners.contains(&origin.name)).unwrap();
    let seen: Vec<String> = owner.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(seen, (0..100).map(|n| format!("GET {} HTTP/1.1", signed(n))).collect::<Vec<_>>());
    assert_eq!(key(&gateway, "/o/1?sig=x&v=7"), "/o/1?v=7");
}

#[test]
fn b11_repeated_and_shuffled_arguments_have_one_documented_key() {
    let (_all, gateway) = eight("balance: { key: \"{path}{args}\" }");
    for (one, other, same) in [
        ("/x?a=1&b=2", "/x?b=2&a=1", true),
        ("/x?a=1&a=2", "/x?a=2&a=1", false),
        ("/x?%41=%41", "/x?A=A", true),
        ("/x?a", "/x?a=", true),
        ("/x?a=1&&", "/x?&a=1", true),
        ("/x?", "/x", true),
        ("/x?a=1;b", "/x?a=1&b", false),
        ("/%7Eu/./x", "/~u/x", true),
        ("/a//b", "/a/b", false),
    ] {
        assert_eq!(key(&gateway, one) == key(&gateway, other), same, "{one} and {other}");
        if same {
            let both = (0..50).flat_map(|_| [one.to_owned(), other.to_owned()]);
            assert_eq!(owners(&gateway, both).len(), 1, "{one} and {other}");
        }
    }
}

#[test]
fn b12_part_of_a_path_can_be_the_key() {
    let (_all, gateway) = eight("balance: { key: \"{path:^/tran/([\\\\w-]+)}\" }");
    let of = |id: &str| (0..20).map(|n| format!("/tran/{id}/{n}")).collect::<Vec<_>>();
    let ids: Vec<String> = (0..20).map(|n| format!("id-{n}")).collect();
    assert!(ids.iter().all(|id| owners(&gateway, of(id)).len() == 1));
    assert!(owners(&gateway, ids.iter().flat_map(|id| of(id))).len() > 4);
    assert_eq!(key(&gateway, "/tran/x-1/2"), "x-1");
}

#[test]
fn b12_an_argument_a_header_or_a_cookie_can_be_the_key() {
    let (_all, gateway) = eight("balance: { key: \"{arg:id}|{header:X-Tenant}|{cookie:sid}\" }");
    let ask = Ask::get("/a?x=1&id=7").header("x-tenant", "acme").header("Cookie", "a=b; sid=s1; c=d");
    assert_eq!(gateway.ask(&ask).status, 200);
    assert_eq!(gateway.logged("/a?x=1&id=7")["key"], "7|acme|s1");
}

#[test]
fn b13_parts_side_by_side_need_something_between_them() {
    let (_all, mut gateway) = eight("balance: { key: \"{arg:a}|{arg:b}\" }");
    assert_eq!(key(&gateway, "/?a=xy&b=z"), "xy|z");
    assert_eq!(key(&gateway, "/?a=x&b=yz"), "x|yz");
    gateway.rewrite("pools: { p: { balance: { key: \"{arg:a}{arg:b}\" }, origins: $origins } }\n");
    let answer = gateway.admin("POST", "/reload");
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("pools.p.balance.key"), "{}", answer.text());
    assert!(answer.text().contains("{arg:a}") && answer.text().contains("{arg:b}"), "no proposal: {}", answer.text());
}

#[test]
fn b14_requests_without_a_key_are_spread() {
    let all: Vec<Origin> = ["a", "b", "c"].map(rig::origin).into();
    let text = "pools: { p: { balance: { key: \"{arg:id}\" }, origins: $origins } }\n";
    let gateway = rig::gateway(text).origins(&all).start();
    let mut client = gateway.client();
    assert!((0..3000).all(|_| client.get("/no/argument").status == 200));
    for origin in &all {
        let share = origin.served() as f64 / 3000.0;
        assert!((0.10..0.45).contains(&share), "{} has {share}", origin.name);
    }
}

#[test]
fn b14_a_second_template_can_stand_in() {
    let (_all, gateway) = eight("balance: { key: \"{arg:id}\", on_missing: \"{path}\" }");
    assert_eq!(key(&gateway, "/x?id=1"), "1");
    assert_eq!(key(&gateway, "/x?id="), "/x");
    assert_eq!(owners(&gateway, (0..50).map(|n| format!("/same?n={n}"))).len(), 1);
}
