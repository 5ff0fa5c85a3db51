//! What does a client get of an answer that its route compresses?

use std::io::Read as _;

use crate::rig::{self, Answer, Ask, Body, Framing, Gateway, Origin, Raw, Step, answer, on, text};

const TYPES: &str = "application/json; charset=utf-8";

fn gate(compression: &str, protocol: &str) -> (Origin, Gateway) {
    let a = rig::origin("a");
    let text = format!(
        "pools: {{ p: {{ protocol: {protocol}, balance: {{ key: \"{{path}}\" }}, origins: $origins }} }}\n\
         routes: [ {{ pool: p, compression: {compression} }} ]\n"
    );
    let gateway = rig::gateway(&text).listener("h2c: true").origins([&a]).start();
    (a, gateway)
}

/// Something of a usual kind, and no small one.
fn json() -> String {
    let items: Vec<_> =
        (0..200).map(|n| format!("{{\"id\": {n}, \"name\": \"item {n}\", \"price\": {}}}", n * 37)).collect();
    format!("[{}]", items.join(",\n"))
}

fn tagged(body: &str) -> rig::Step {
    text(body).header("Content-Type", TYPES).header("ETag", "\"v1\"").header("Accept-Ranges", "bytes").into()
}

fn decoded(answer: &Answer) -> String {
    let mut plain = String::new();
    let bytes = answer.body.as_slice();
    match answer.header("content-encoding") {
        Some("gzip") => flate2::read::GzDecoder::new(bytes).read_to_string(&mut plain).unwrap(),
        Some("br") => brotli::Decompressor::new(bytes, 4096).read_to_string(&mut plain).unwrap(),
        Some("zstd") => zstd::Decoder::new(bytes).unwrap().read_to_string(&mut plain).unwrap(),
        None => return answer.text(),
        other => panic!("{other:?}"),
    };
    plain
}

/// Its lines but for those of one message alone.
fn lines(answer: &Answer) -> Vec<(String, String)> {
    let of_one = ["date", "transfer-encoding", "connection", "x-request-id"];
    let lower = answer.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    lower.filter(|(name, _)| !of_one.contains(&name.as_str())).collect()
}

#[test]
fn each_client_gets_the_coding_it_likes_and_the_same_bytes() {
    for protocol in ["http1", "h2c"] {
        let (a, gateway) = gate("{ algorithms: [br, zstd, gzip] }", protocol);
        let body = json();
        a.script([
            on("/a").then(tagged(&body)),
            on("/head").method("HEAD").then(tagged(&body)),
            on("/head").then(tagged(&body)),
        ]);
        for (accept, coding) in [
            ("gzip", Some("gzip")),
            ("gzip;q=0.9, zstd", Some("zstd")),
            ("gzip, deflate, br, zstd", Some("br")),
            ("br;q=0, *", Some("zstd")),
            ("identity", None),
        ] {
            let ask = Ask::get("/a").header("Accept-Encoding", accept);
            for answer in
                [gateway.ask(&ask), rig::h2c(gateway.address(), std::slice::from_ref(&ask)).remove(0).unwrap()]
            {
                assert_eq!((answer.status, answer.header("content-encoding")), (200, coding), "{accept} {answer:?}");
                assert_eq!(decoded(&answer), body);
                assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
                let told = ["etag", "accept-ranges"].map(|name| answer.header(name));
                let as_it_was = [Some("\"v1\""), Some("bytes")];
                assert_eq!(told, if coding.is_some() { [Some("W/\"v1\""), None] } else { as_it_was });
                assert!(coding.is_none() || answer.header("content-length").is_none());
                assert!(coding.is_none() || answer.body.len() < body.len() / 4, "{}", answer.body.len());
            }
        }
        let ask = |method, target| Ask::new(method, target).header("Accept-Encoding", "zstd");
        let [head, get] =
            [("HEAD", "/head"), ("GET", "/head?get")].map(|(method, path)| gateway.ask(&ask(method, path)));
        assert_eq!(lines(&head), lines(&get));
        assert_eq!(gateway.logged("/head?get")["bytes_sent"].as_u64(), Some(get.body.len() as u64));
    }
}

#[test]
fn what_a_cache_asks_reaches_the_origin_and_its_word_comes_back() {
    let (a, gateway) = gate("{}", "http1");
    let unchanged = answer(304).header("ETag", "\"v1\"").body(Body::Text(String::new()));
    a.script([on("/a").then(unchanged.into())]);
    let ask = |tag: &str| {
        let ask = Ask::get("/a").header("Accept-Encoding", "gzip").header("If-None-Match", tag);
        let answer = gateway.ask(&ask);
        assert_eq!((answer.status, answer.body.len()), (304, 0));
        answer.header("etag").unwrap().to_owned()
    };
    assert_eq!((ask("W/\"v1\""), ask("\"v1\"")), ("W/\"v1\"".to_owned(), "\"v1\"".to_owned()));
    let asked: Vec<_> = a.requests().iter().map(|request| request.headers.clone()).collect();
    for (tag, headers) in ["W/\"v1\"", "\"v1\""].iter().zip(&asked) {
        let found = |name: &str| headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).unwrap().1.clone();
        assert_eq!((found("if-none-match").as_str(), found("accept-encoding").as_str()), (*tag, "gzip"));
    }
}

#[test]
fn what_is_no_whole_plain_answer_passes_untouched() {
    let (a, gateway) = gate("{ min: 10 }", "http1");
    let body = json();
    let of = |kind: &str| text(&body).header("Content-Type", kind);
    a.script([
        on("/image").then(of("image/png").into()),
        on("/encoded").then(of(TYPES).header("Content-Encoding", "gzip").into()),
        on("/exact").then(of(TYPES).header("Cache-Control", "no-transform").into()),
        on("/small").then(text("[1, 2]").header("Content-Type", TYPES).into()),
        on("/none").then(answer(204).header("Content-Type", TYPES).body(Body::Text(String::new())).into()),
        on("/a").then(of(TYPES).into()),
    ]);
    let mut client = gateway.client();
    let mut get = |path: &str| client.send(&Ask::get(path).header("Accept-Encoding", "gzip")).unwrap();
    for path in ["/image", "/encoded", "/exact", "/small", "/none"] {
        let answer = get(path);
        let encoded = answer.header("content-encoding").filter(|_| path != "/encoded");
        assert_eq!((encoded, answer.header("vary")), (None, None), "{path}");
        assert!(answer.text() == body || ["/small", "/none"].contains(&path), "{path}");
    }
    assert_eq!(decoded(&get("/a")), body);
    // a client of HTTP/1.0 keeps its length, and its connection
    let mut old = rig::raw(gateway.address());
    for _ in 0..2 {
        old.send("GET /a HTTP/1.0\r\nHost: t\r\nConnection: keep-alive\r\nAccept-Encoding: gzip\r\n\r\n");
        let answer = old.answer();
        assert_eq!((answer.text(), answer.header("vary")), (body.clone(), Some("Accept-Encoding")));
    }
}

#[test]
fn an_answer_that_ends_with_its_header_is_in_no_coding() {
    let (a, gateway) = gate("{}", "h2c");
    a.script([
        on("/none").then(tagged("")),
        on("/some").method("HEAD").then(tagged("")),
        on("/some").then(tagged(&json())),
    ]);
    let ask = |method: &str, path: &str| Ask::new(method, path).header("Accept-Encoding", "gzip");
    for (method, path, coding) in
        [("GET", "/none", None), ("GET", "/some", Some("gzip")), ("HEAD", "/some", Some("gzip"))]
    {
        let answers =
            [gateway.ask(&ask(method, path)), rig::h2c(gateway.address(), &[ask(method, path)]).remove(0).unwrap()];
        for answer in answers {
            let vary = answer.header("vary");
            assert_eq!((answer.header("content-encoding"), vary), (coding, Some("Accept-Encoding")), "{method} {path}");
            assert_eq!(answer.body.is_empty(), coding.is_none() || method == "HEAD");
        }
    }
}

/// The next chunk of a body.
fn chunk(raw: &mut Raw) -> Vec<u8> {
    let size = usize::from_str_radix(&raw.line(), 16).unwrap();
    let bytes = raw.bytes(size);
    raw.line();
    bytes
}

#[test]
fn pieces_of_a_slow_answer_arrive_one_by_one() {
    let (a, gateway) = gate("{}", "http1");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
    let piece = |text: &str| Step::Send(text.as_bytes().to_vec());
    for coding in ["gzip", "br", "zstd"] {
        let [two, three] = ["two", "three"].map(|name| format!("{coding} {name}"));
        a.script([on("/slow")
            .then(piece(&format!("{head}5\r\none, \r\n")))
            .hold(&two)
            .then(piece("5\r\ntwo, \r\n"))
            .hold(&three)
            .then(piece("5\r\nthree\r\n0\r\n\r\n"))]);
        let mut raw = rig::raw(gateway.address());
        raw.send(format!("GET /slow HTTP/1.1\r\nHost: t\r\nAccept-Encoding: {coding}\r\n\r\n"));
        while !raw.line().is_empty() {}
        let mut wire = Vec::new();
        for (told, next) in [("one, ", Some(&two)), ("one, two, ", Some(&three)), ("one, two, three", None)] {
            wire.extend(chunk(&mut raw));
            let mut plain = vec![0; told.len()];
            match coding {
                "gzip" => flate2::read::GzDecoder::new(wire.as_slice()).read_exact(&mut plain).unwrap(),
                "br" => brotli::Decompressor::new(wire.as_slice(), 4096).read_exact(&mut plain).unwrap(),
                _ => zstd::Decoder::new(wire.as_slice()).unwrap().read_exact(&mut plain).unwrap(),
            }
            assert_eq!(String::from_utf8(plain).unwrap(), told);
            if let Some(next) = next {
                a.await_held(next, 1);
                a.release(next);
            }
        }
    }
}

#[test]
fn a_large_answer_in_any_framing_stays_whole() {
    let (a, gateway) = gate("{ types: [application/*] }", "http1");
    let mut client = gateway.client();
    for framing in [Framing::Length, Framing::Chunked, Framing::UntilClose] {
        let much = answer(200).header("Content-Type", "application/x-data").body(Body::Size(1 << 20)).framing(framing);
        a.script([on("/much").then(much.into())]);
        let answer = client.send(&Ask::get("/much").header("Accept-Encoding", "zstd")).unwrap();
        assert_eq!(answer.header("content-encoding"), Some("zstd"), "{framing:?}");
        let plain = decoded(&answer);
        assert!(plain.len() == 1 << 20 && plain.as_bytes().chunks(16).all(|line| line == b"0123456789abcdef"));
        assert!(client.is_connected(), "the connection is kept");
    }
}
