//! HTTP/2 by the clients that people use: nghttp, h2load, curl and a gRPC client, without TLS and within it.

use std::process::Command;

use serde_json::json;

use crate::rig::issued::{authority, certificate};
use crate::rig::{self, Authority, Body, Gateway, Origin, answer, on};
use crate::tls::sees;

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins, \
                    timeouts: { connect: 20s, read: 60s } } }\n";

/// A listener without TLS, one with it, and one that asks clients for a certificate.
fn start(limits: &str) -> (Origin, Gateway) {
    let a = rig::origin("a");
    a.script([on("/up").then(answer(200).body(Body::Digest).into())]);
    let text =
        format!("certificates: [ {{ cert: $dir/a.pem, key: $dir/a.key }} ]\nclient_limits: {{ {limits} }}\n{POOL}");
    let start = rig::gateway(&text).listener("h2c: true").further_listener("tls: {}").origins([&a]);
    let start = start.further_listener("tls: { client_ca: $dir/ca.pem, client_headers: true }");
    let gateway = start.start_with(|folder| {
        certificate(&["a.test"]).issue().write(folder, "a");
        let ca = authority("the CA");
        ca.write(folder, "ca");
        certificate(&["alice"]).by(&ca).issue().write(folder, "alice");
    });
    (a, gateway)
}

/// What it prints; fails when it does.
fn run(program: &str, arguments: &[&str]) -> String {
    let missing = |error| panic!("missing: {program} ({error}); on Debian: sudo .ci/needs nghttp2");
    let output = Command::new("timeout").arg("60").arg(program).args(arguments).output().unwrap_or_else(missing);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn nghttp_and_curl_upload_and_ask_for_much_at_once() {
    let (a, gateway) = start("keepalive_requests: 100000");
    let file = gateway.path("file");
    let body = "0123456789".repeat(70_000);
    std::fs::write(&file, &body).unwrap();
    let file = file.to_str().unwrap();
    for (scheme, listener) in [("http", 0), ("https", 1)] {
        a.forget();
        let url = |path: &str| format!("{scheme}://{}{path}", gateway.listeners[listener]);
        for more in [&[][..], &["--trailer", "x: y"], &["-p", "200"], &["-w", "10", "-W", "10"]] {
            let text = run("nghttp", &[&["-v", "-y", "-d", file], more, &[&url("/up")]].concat());
            assert!(text.contains(":status: 200") && !text.contains("RST_STREAM"), "{text}");
        }
        let text = run("nghttp", &["-n", "-s", "-y", "-m", "50", &url("/many"), &url("/more")]);
        assert_eq!(text.lines().filter(|line| line.contains(" 200 ")).count(), 100, "{text}");
        let spoken = if scheme == "http" { "--http2-prior-knowledge" } else { "--http2" };
        let told =
            run("curl", &["-s", "-k", spoken, "-T", file, "-w", "|%{http_version} %{response_code}", &url("/up")]);
        assert!(told.ends_with("|2 200"), "{told}");
        let whole = a.requests().into_iter().filter(|request| request.line.contains(" /up "));
        assert_eq!(whole.map(|request| request.body_bytes).collect::<Vec<_>>(), [body.len() as u64; 5], "{scheme}");
        assert_eq!(sees(&a, "x-forwarded-proto").as_deref(), Some(scheme));
    }
    // one that shows a certificate
    let [cert, key] = ["alice.pem", "alice.key"].map(|name| gateway.path(name).to_str().unwrap().to_owned());
    let url = format!("https://{}/who", gateway.listeners[2]);
    let told = run(
        "curl",
        &["-s", "-k", "--http2", "--cert", &cert, "--key", &key, "-w", "|%{http_version} %{response_code}", &url],
    );
    assert!(told.ends_with("|2 200"), "{told}");
    let seen = sees(&a, "x-forwarded-client-cert").unwrap();
    assert!(seen.ends_with("Subject=\"CN=alice\""), "{seen}");
}

#[test]
fn h2load_gets_ten_thousand_answers_on_a_hundred_streams() {
    let (_a, gateway) = start("keepalive_requests: 100000");
    let text = run("h2load", &["-n", "10000", "-c", "4", "-m", "100", &format!("http://{}/l", gateway.address())]);
    let failed: Vec<_> = gateway.log().into_iter().filter(|line| !line["error"].is_null()).take(1).collect();
    assert!(text.contains("10000 succeeded, 0 failed, 0 errored, 0 timeout"), "{text}{failed:?}");
    assert!(text.contains("status codes: 10000 2xx"), "{text}");
}

/// Connections end under their clients, and no request does.
#[test]
fn nobody_loses_a_request_to_a_goodbye() {
    let (_a, gateway) = start("keepalive_requests: 50");
    let url = format!("https://{}/[1-300]", gateway.listeners[1]);
    for pace in [&[][..], &["--parallel", "--parallel-max", "20"]] {
        let how = ["-s", "-k", "--http2", "-o", "/dev/null", "-w", "%{response_code} %{num_connects} told\n", &url];
        let told = run("curl", &[pace, &how].concat());
        let told: Vec<Vec<&str>> = told
            .lines()
            .map(|line| line.split(' ').collect())
            .filter(|words: &Vec<_>| words.last() == Some(&"told"))
            .collect();
        assert!(told.len() == 300 && told.iter().all(|words| words[0] == "200"), "{pace:?}: {told:?}");
        let connections: u32 = told.iter().map(|words| words[1].parse::<u32>().unwrap()).sum();
        assert!((5..60).contains(&connections), "{pace:?}: {connections} connections");
    }
    let authority = Authority::new("ours");
    let server = rig::grpc::server(&authority.issue("o.test"));
    for limits in ["keepalive_requests: 50", "max_age: 200ms"] {
        let text = format!(
            "client_limits: {{ {limits} }}\npools: {{ p: {{ origins: [$plain], protocol: h2c, \
             balance: {{ algorithm: p2c }}, timeouts: {{ connect: 8s }}, health: {{ probe: off }} }} }}\n"
        );
        let gateway = rig::gateway(&text).named("plain", server.plain).listener("h2c: true").start();
        assert_eq!(rig::call(gateway.address(), "o.test", "many"), json!([500, []]), "{limits}");
    }
}
