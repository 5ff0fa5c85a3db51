//! HTTP/2 by the clients that people use: nghttp, h2load and curl.

use std::process::Command;

use crate::rig::{self, Body, Gateway, Origin, answer, on};

fn start() -> (Origin, Gateway) {
    let a = rig::origin("a");
    a.script([on("/up").then(answer(200).body(Body::Digest).into())]);
    let text = "client_limits: { keepalive_requests: 100000 }\n\
                pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins, \
                timeouts: { connect: 20s, read: 60s } } }\n";
    let gateway = rig::gateway(text).listener("h2c: true").origins([&a]).start();
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
    let (a, gateway) = start();
    let file = gateway.path("file");
    let body = "0123456789".repeat(70_000);
    std::fs::write(&file, &body).unwrap();
    let (file, url) = (file.to_str().unwrap(), |path: &str| format!("http://{}{path}", gateway.address()));
    for more in [&[][..], &["--trailer", "x: y"], &["-p", "200"], &["-w", "10", "-W", "10"]] {
        let text = run("nghttp", &[&["-v", "-d", file], more, &[&url("/up")]].concat());
        assert!(text.contains(":status: 200") && !text.contains("RST_STREAM"), "{text}");
    }
    let text = run("nghttp", &["-n", "-s", "-m", "50", &url("/many"), &url("/more")]);
    assert_eq!(text.lines().filter(|line| line.contains(" 200 ")).count(), 100, "{text}");
    let told = run(
        "curl",
        &["-s", "--http2-prior-knowledge", "-T", file, "-w", "|%{http_version} %{response_code}", &url("/up")],
    );
    assert!(told.ends_with("|2 200"), "{told}");
    let whole = a.requests().into_iter().filter(|request| request.line.contains(" /up "));
    assert_eq!(whole.map(|request| request.body_bytes).collect::<Vec<_>>(), [body.len() as u64; 5]);
}

#[test]
fn h2load_gets_ten_thousand_answers_on_a_hundred_streams() {
    let (_a, gateway) = start();
    let text = run("h2load", &["-n", "10000", "-c", "4", "-m", "100", &format!("http://{}/l", gateway.address())]);
    let failed: Vec<_> = gateway.log().into_iter().filter(|line| !line["error"].is_null()).take(1).collect();
    assert!(text.contains("10000 succeeded, 0 failed, 0 errored, 0 timeout"), "{text}{failed:?}");
    assert!(text.contains("status codes: 10000 2xx"), "{text}");
}
