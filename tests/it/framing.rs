//! Where does a request end? Its body's end is told in one way, and what stands behind it is the next request.

use crate::requests_on_the_wire::{assert_ours, one};
use crate::rig::{self, Step, on};

#[test]
fn a_length_beside_chunks_smuggles_nothing() {
    let (a, gateway) = one();
    let mut raw = rig::raw(gateway.address());
    raw.send(
        "POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n\
         GET /smuggled HTTP/1.1\r\nHost: t\r\n\r\n",
    );
    let first = raw.answer();
    assert!([200, 400].contains(&first.status), "{first:?}");
    let rest = String::from_utf8_lossy(&raw.rest()).into_owned();
    assert!(!rest.contains("200 OK"), "the connection went on: {rest}");
    assert!(a.requests().iter().all(|request| !request.line.contains("smuggled")), "{:?}", a.requests());
}

#[test]
fn two_lengths_and_unknown_codings_are_refused() {
    let (a, gateway) = one();
    for headers in [
        "Content-Length: 1\r\nContent-Length: 2",
        "Content-Length: 1, 2",
        "Content-Length: +1",
        "Content-Length: 0x1",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding:\x0bchunked",
    ] {
        let mut raw = rig::raw(gateway.address());
        raw.send(format!("POST /x HTTP/1.1\r\nHost: t\r\n{headers}\r\n\r\nab"));
        let answer = raw.answer();
        assert!((400..500).contains(&answer.status) || answer.status == 501, "{headers:?}: {answer:?}");
        raw.rest();
    }
    assert_eq!(a.served(), 0);
}

/// Two readers may undo them in another order, or not at all; what the next one gets was never the client's.
#[test]
fn a_body_whose_end_is_told_twice_is_refused() {
    let (a, gateway) = one();
    for headers in [
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, chunked",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5, 5",
    ] {
        let mut raw = rig::raw(gateway.address());
        raw.send(format!("POST /x HTTP/1.1\r\nHost: t\r\n{headers}\r\n\r\n5\r\nhello\r\n0\r\n\r\n"));
        let answer = raw.answer();
        assert_ours(&answer, 400, "http_request_error");
        assert!(answer.closes(), "{headers}");
        raw.rest();
    }
    assert_eq!(a.seen().iter().map(|connection| connection.requests.len()).sum::<usize>(), 0);
    assert!(gateway.await_log(5).iter().all(|line| line["attempts"].as_array().unwrap().is_empty()));
}

/// What one reader takes for the end of a body is the middle of it for another: the rest would be a request of its own.
#[test]
fn chunks_without_a_size_and_trailers_without_a_name_end_the_connection() {
    let (a, gateway) = one();
    a.script([on("/p").then(Step::Read(rig::Amount::All)).answer(201)]);
    let next = "GET /smuggled HTTP/1.1\r\nHost: t\r\n\r\n";
    let chunks = [
        "5\r\nhello\r\n\r\n\r\n",
        "\r\n\r\n",
        ";x\r\n\r\n",
        "5\r\nhello\r\n0\r\nGET /x HTTP/1.1\r\n\r\n",
        "0\r\n\n",
        "5\r\nhello\r\n0\r\nX: a\n\r\n",
    ];
    // with the header, behind it, and behind another body
    for (chunks, way) in chunks.iter().flat_map(|chunks| (0..3).map(move |way| (chunks, way))) {
        a.forget();
        let head = "POST /p HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
        let before = "POST /p HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nok";
        let mut raw = rig::raw(gateway.address());
        match way {
            0 => raw.send(format!("{head}{chunks}{next}")),
            1 => {
                raw.send(head);
                a.await_requests("/p", 1);
                raw.send(format!("{chunks}{next}"));
            }
            _ => {
                raw.send(format!("{before}{head}{chunks}{next}"));
                assert_eq!(raw.answer().status, 201);
            }
        }
        assert_ours(&raw.answer(), 400, "http_request_error");
        assert_eq!(raw.rest(), b"", "{chunks:?}, way {way}");
        assert!(a.requests().iter().all(|request| !request.line.contains("smuggled")), "{:?}", a.requests());
    }
}

#[test]
fn requests_behind_bodies_of_all_kinds_are_answered_in_order() {
    let (a, gateway) = one();
    let chunked = "POST /c HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nX: y\r\n\r\n";
    let counted = "POST /l HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc";
    let plain = "GET /g HTTP/1.1\r\nHost: t\r\n\r\n";
    let all: Vec<&str> = [chunked, counted, plain, chunked, chunked, plain, counted, counted].repeat(3);
    let bytes = all.concat();
    for piece in [bytes.len(), 97, 13] {
        a.forget();
        let mut raw = rig::raw(gateway.address());
        for bytes in bytes.as_bytes().chunks(piece) {
            raw.send(bytes);
        }
        assert!((0..all.len()).all(|_| raw.answer().status == 200));
        let seen: Vec<(String, u64)> = a.requests().into_iter().map(|r| (r.line, r.body_bytes)).collect();
        let sent = all.iter().map(|request| {
            let line = request.split_once("\r\n").unwrap().0.to_owned();
            (line, if *request == plain { 0 } else { 3 })
        });
        assert_eq!(seen, sent.collect::<Vec<_>>(), "in pieces of {piece}");
    }
    let odd = format!("{counted}GET /a b HTTP/1.1\r\nHost: t\r\n\r\n");
    let mut raw = rig::raw(gateway.address());
    raw.send(odd);
    assert_eq!((raw.answer().status, raw.answer().status), (200, 400), "behind a body the line is judged as it came");
}

/// Refused before an origin is asked: it costs no connection to one, and is no attempt.
#[test]
fn connection_names_only_what_a_client_may_take_out() {
    let (a, gateway) = one();
    let mut raw = rig::raw(gateway.address());
    let names = ["host", "X-Forwarded-For", "a,b,c,d,e,f,g,i,j,k", "a,b,c,d,e,f,g,i,j,k,l,m", "\"x\"", ":authority"];
    for name in names {
        raw.send(format!("GET /x HTTP/1.1\r\nHost: t\r\nConnection: {name}\r\n\r\n"));
        let answer = raw.answer();
        assert_ours(&answer, 400, "http_request_error");
        assert!(answer.header("proxy-status").unwrap().ends_with("details=\"sent=0\""), "{answer:?}");
    }
    raw.send("GET /good HTTP/1.1\r\nHost: t\r\nConnection: a,b,c,d,e,f,g,h,i\r\n\r\n");
    assert_eq!(raw.answer().status, 200);
    let log = gateway.await_log(names.len() + 1);
    assert!(log[..names.len()].iter().all(|line| line["attempts"].as_array().unwrap().is_empty()), "{log:?}");
    assert_eq!((a.served(), gateway.metrics().sum("moorgate_attempts_total", &[]).round() as u64), (1, 1));
}
