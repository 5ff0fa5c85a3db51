//! What may a client of HTTP/2 cost? The limits of `client_limits` hold there as over HTTP/1, in its own terms.

use std::time::{Duration, Instant};

use crate::http2_conformance::{ALL, BASE, begun, headers};
use crate::http2_frames::{CONTINUATION, DATA, GOAWAY, HEADERS, WINDOW_UPDATE, frame, next_frame, prior_knowledge};
use crate::rig::{self, Answer, Ask, Body, Gateway, Origin, Peak, Raw, Step, answer, eventually, on};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins } }\n";

fn gate(limits: &str) -> (Origin, Gateway) {
    let a = rig::origin("a");
    let text = format!("client_limits: {{ {limits} }}\n{POOL}");
    let gateway = rig::gateway(&text).listener("h2c: true").origins([&a]).start();
    (a, gateway)
}

fn one(gateway: &Gateway, ask: Ask) -> Answer {
    rig::h2c(gateway.address(), &[ask]).remove(0).unwrap()
}

/// A request for this path.
fn get(stream: u32, path: &str) -> Vec<u8> {
    headers(ALL, stream, &BASE.map(|line| if line.0 == ":path" { (line.0, path) } else { line }))
}

/// Every frame up to the end of the connection: kind, flags, stream, payload.
fn frames(raw: &mut Raw) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let bytes = raw.rest();
    let (mut rest, mut all) = (&bytes[..], Vec::new());
    while let [a, b, c, kind, flags, d, e, f, g, behind @ ..] = rest {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let Some((payload, next)) = behind.split_at_checked(length) else { break };
        all.push((*kind, *flags, u32::from_be_bytes([*d, *e, *f, *g]), payload.to_vec()));
        rest = next;
    }
    all
}

fn goaways(frames: &[(u8, u8, u32, Vec<u8>)]) -> usize {
    frames.iter().filter(|frame| frame.0 == GOAWAY).count()
}

#[test]
fn headers_have_their_limits_and_a_reload_sets_others() {
    let (a, mut gateway) = gate("header_bytes: 4KiB, headers: 20, uri_bytes: 200");
    let sized = |size: usize| Ask::get("/large").header("x", &"y".repeat(size));
    let lines = (0..30).fold(Ask::get("/lines"), |ask, n| ask.header(&format!("x-{n}"), "y"));
    let long = Ask::get(&format!("/{}", "l".repeat(300)));
    let call = sized(5000).header("content-type", "application/grpc");
    let status = |ask: &Ask| one(&gateway, ask.clone()).status;
    assert_eq!([sized(3000), sized(5000), lines, long.clone()].map(|ask| status(&ask)), [200, 431, 431, 414]);
    assert!(one(&gateway, sized(5000)).header("proxy-status").is_some(), "in our words");
    let told = one(&gateway, call);
    assert_eq!((told.status, told.header("grpc-status")), (200, Some("13")), "{told:?}");
    assert_eq!(status(&sized(20_000)), 431, "more than twice that is refused by the library");
    assert_eq!(a.served(), 1);
    let log = gateway.await_log(6);
    let mut errors: Vec<_> = log.iter().map(|line| line["error"].as_str().unwrap_or_default()).collect();
    errors.sort_unstable();
    let large = "header_too_large";
    assert_eq!(errors, ["", large, large, large, large, "uri_too_long"], "{log:?}");
    assert!(log.iter().all(|line| line["protocol"] == "HTTP/2.0"), "{log:?}");
    assert!(gateway.metrics().sum("moorgate_requests_total", &[("code", "431")]) > 3.5);
    gateway.change(&format!("client_limits: {{ header_bytes: 64KiB }}\n{POOL}"));
    assert_eq!([sized(50_000), long].map(|ask| one(&gateway, ask).status), [200, 200], "the new ones hold");
}

/// A header that does not come to its end holds up every stream of its connection.
#[test]
fn a_header_that_drips_has_its_time() {
    let (a, gateway) = gate("header_timeout: 500ms, keepalive: 60s");
    a.script([on("/held").then(Step::Hang)]);
    let start = |first: &[u8]| {
        let mut raw = prior_knowledge(&gateway, b"");
        raw.send(first);
        raw
    };
    let long = headers(ALL, 3, &[&BASE[..], &[("x", &*"y".repeat(100))]].concat());
    let (head, rest) = long.split_at(12);
    // behind a request that is served, and in the middle of a frame; and in the middle of a block
    let in_a_frame = [get(1, "/held"), head.to_vec()].concat();
    let in_a_block = headers(0, 1, &BASE);
    for (first, rest) in [(in_a_frame, rest.to_vec()), (in_a_block, frame(CONTINUATION, 0, 1, &rest[..60]))] {
        let began = Instant::now();
        let mut raw = start(&first);
        let mut bytes = rest.iter();
        let cut = eventually("it is cut", || {
            std::thread::sleep(Duration::from_millis(40));
            let sent = bytes.next().map(|byte| raw.try_send([*byte]));
            let gone = sent.is_none_or(|sent| sent.is_err());
            gone.then(|| began.elapsed())
        });
        assert!((500..3000).contains(&cut.as_millis()), "{cut:?}");
        assert_eq!(goaways(&frames(&mut raw)), 1);
    }
    let late = || {
        let log = gateway.log();
        let late = log.iter().filter(|line| line["error"] == "client_timeout" && line["status"] == 408);
        (late.filter(|line| line["method"] == "").count() == 2).then_some(())
    };
    eventually("both are in the log", late);
    // a body in good time, and a connection with a stream that waits, are no such thing
    let mut raw = start(&[begun(1), frame(DATA, 0, 1, b"a"), get(3, "/held")].concat());
    std::thread::sleep(Duration::from_millis(700));
    raw.send(frame(DATA, 1, 1, b"b"));
    while !matches!(next_frame(&mut raw), (HEADERS, _, 1, _)) {}
}

#[test]
fn a_connection_is_left_gently_when_it_idles_or_had_its_time() {
    let (_a, gateway) = gate("keepalive: 400ms");
    let mut silent = prior_knowledge(&gateway, b"");
    let mut served = prior_knowledge(&gateway, b"");
    served.send(get(1, "/x"));
    let began = Instant::now();
    for raw in [&mut silent, &mut served] {
        assert_eq!(goaways(&frames(raw)), 1);
    }
    assert!((400..8000).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    let (a, gateway) = gate("max_age: 300ms, keepalive: 60s");
    a.script([on("/held").then(Step::Hold("gate".to_owned())).then(answer(200).into())]);
    let mut raw = prior_knowledge(&gateway, b"");
    raw.send(get(1, "/held"));
    let began = Instant::now();
    while next_frame(&mut raw).0 != GOAWAY {}
    assert!((300..950).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    a.release("gate");
    raw.send(get(3, "/x"));
    for _ in 0..2 {
        while next_frame(&mut raw).0 != HEADERS {}
    }
}

#[test]
fn the_last_request_says_goodbye_and_those_behind_it_are_served() {
    let (a, gateway) = gate("keepalive_requests: 20, keepalive: 400ms");
    let mut raw = prior_knowledge(&gateway, b"");
    raw.send((0..50).map(|n| get(2 * n + 1, "/x")).collect::<Vec<_>>().concat());
    let (mut answered, mut told) = (0, false);
    while answered < 50 || !told {
        match next_frame(&mut raw) {
            (HEADERS, _, _, block) => {
                assert_eq!(block[0], 0x88);
                answered += 1;
            }
            (GOAWAY, _, 0, payload) => {
                told = true;
                assert_eq!(payload[..8], [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0], "none of them is lost");
            }
            _ => {}
        }
    }
    // one that goes on as if it had not heard is cut in the end
    let mut stream = 101;
    eventually("it is cut", || {
        let more: Vec<u8> = (0..50).flat_map(|n| get(stream + 2 * n, "/x")).collect();
        stream += 100;
        let answered = raw.try_send(&more).is_ok() && (0..50).all(|_| next_answer(&mut raw));
        (!answered).then_some(())
    });
    let rejected = || gateway.metrics().sum("moorgate_connections_rejected_total", &[("reason", "h2_flood")]);
    eventually("it is counted", || (rejected() > 0.5).then_some(()));
    assert!((1000..20_000).contains(&a.served()), "{}", a.served());
}

/// Whether another answer begins before the connection ends.
fn next_answer(raw: &mut Raw) -> bool {
    loop {
        match raw.try_bytes(9) {
            Some(head) => {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                if raw.try_bytes(length).is_none() {
                    return false;
                }
                if head[3] == HEADERS {
                    return true;
                }
            }
            None => return false,
        }
    }
}

/// A hundred answers to one who opens every window and reads nothing.
#[test]
fn a_client_that_reads_nothing_costs_little() {
    let (a, gateway) = gate("send_timeout: 2s");
    a.script([on("/much").then(answer(200).body(Body::Size(4 << 20)).into())]);
    assert_eq!(one(&gateway, Ask::get("/much")).status, 200);
    let before = gateway.footprint().memory;
    let peak = Peak::of(gateway.pid());
    let mut raw = prior_knowledge(&gateway, b"\0\x04\x7f\xff\xff\xff");
    raw.send(frame(WINDOW_UPDATE, 0, 0, &(0x7fff_ffff_u32 - 65_535).to_be_bytes()));
    raw.send((0..100).map(|n| get(2 * n + 1, "/much")).collect::<Vec<_>>().concat());
    a.await_requests("/much", 101);
    eventually("it is let go", || (gateway.metrics().sum("moorgate_connections", &[]) == 0.0).then_some(()));
    let grown = peak.stop().saturating_sub(before) >> 20;
    assert!(grown < 72, "{grown} MiB for one connection");
}
