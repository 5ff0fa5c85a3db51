//! Do parts of an answer pass as their origin cut them?

use crate::rig::{self, Ask, Body, answer, on};

const MULTIPART: &str = "--cut\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01\r\n--cut\r\n\
    Content-Type: text/plain\r\nContent-Range: bytes 8-9/10\r\n\r\n89\r\n--cut--\r\n";

#[test]
fn a_range_its_condition_and_its_answer_pass_untouched() {
    let a = rig::origin("a");
    let part = |status: u16, range: &str, body: &str| {
        let part =
            answer(status).header("Content-Range", range).header("ETag", "\"v1\"").header("Accept-Ranges", "bytes");
        part.header("Content-Type", "text/plain").body(Body::Text(body.to_owned()))
    };
    let several = answer(206).header("Content-Type", "multipart/byteranges; boundary=cut").header("ETag", "\"v1\"");
    a.script([
        on("/one").then(part(206, "bytes 2-5/10", "2345").into()),
        on("/none").then(part(416, "bytes */10", "").into()),
        on("/several").then(several.body(Body::Text(MULTIPART.to_owned())).into()),
        on("/whole").then(answer(200).header("Content-Type", "text/plain").body(Body::Size(1000)).into()),
    ]);
    let text = "pools: { p: { origins: $origins } }\nroutes: [ { pool: p, buffering: { response: 1MiB }, \
        compression: { types: [text/*, multipart/*], min: 0 } } ]\n";
    let gateway = rig::gateway(text).listener("h2c: true").origins([&a]).start();
    let ask = |method: &str, path: &str| {
        let ask = Ask::new(method, path).header("Accept-Encoding", "gzip").header("Range", "bytes=2-5");
        ask.header("If-Range", "\"v1\"")
    };
    let both = |ask: Ask| [gateway.ask(&ask), rig::h2c(gateway.address(), &[ask]).remove(0).unwrap()];
    let same = ["content-encoding", "vary", "etag", "accept-ranges", "content-range", "content-length"];
    for (path, status, body, told) in [
        ("/one", 206, "2345", [None, None, Some("\"v1\""), Some("bytes"), Some("bytes 2-5/10"), Some("4")]),
        ("/none", 416, "", [None, None, Some("\"v1\""), Some("bytes"), Some("bytes */10"), Some("0")]),
        ("/several", 206, MULTIPART, [None, None, Some("\"v1\""), None, None, Some("145")]),
    ] {
        for found in both(ask("GET", path)) {
            assert_eq!((found.status, found.text().as_str()), (status, body), "{path}");
            assert_eq!(same.map(|name| found.header(name)), told, "{path}");
        }
    }
    for found in both(ask("HEAD", "/one")) {
        assert_eq!((found.status, found.header("content-range")), (206, Some("bytes 2-5/10")));
    }
    // the condition failed: the whole, which a cache may be sent compressed another time
    for found in both(ask("GET", "/whole")) {
        assert_eq!((found.status, found.body.len()), (200, 1000));
        assert_eq!(["content-encoding", "vary"].map(|name| found.header(name)), [None, Some("Accept-Encoding")]);
    }
    for request in a.requests() {
        let found = |name: &str| request.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).unwrap().1.clone();
        assert_eq!((found("range").as_str(), found("if-range").as_str()), ("bytes=2-5", "\"v1\""));
    }
}
