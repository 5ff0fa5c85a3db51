//! Does the rig's own origin do what the tests rely on?

use std::io;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::rig::{self, Amount, Ask, Body, Client, Close, Door, Framing, Step, answer, on, text};

#[test]
fn it_names_itself_and_records_what_came_byte_for_byte() {
    let a = rig::origin("a");
    let mut raw = rig::raw(a.address);
    raw.send("PUT /x?q=%41 HTTP/1.1\r\nhOst: T\r\nX-Odd:  two  spaces \r\nContent-Length: 3\r\n\r\nabc");
    let answer = raw.answer();
    assert_eq!((answer.status, answer.origin(), answer.text().as_str()), (200, "a", "a"));
    let seen = a.requests();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].line, "PUT /x?q=%41 HTTP/1.1");
    assert_eq!(seen[0].headers[0], ("hOst".to_owned(), "T".to_owned()));
    assert_eq!(seen[0].body_bytes, 3);
    assert_eq!(seen[0].body_sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert!(seen[0].complete);
}

#[test]
fn it_decodes_chunks_and_gives_them_back_chunked() {
    let a = rig::origin("a");
    a.script([on("/x").then(answer(201).body(Body::Received).framing(Framing::Chunked).into())]);
    let mut raw = rig::raw(a.address);
    raw.send(
        "POST /x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=1\r\nde\r\n0\r\nT: x\r\n\r\n",
    );
    let answer = raw.answer();
    assert_eq!((answer.status, answer.text().as_str()), (201, "abcde"));
    raw.send("GET /y HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(raw.answer().text(), "a");
}

#[test]
fn it_ends_connections_before_and_within_answers() {
    let a = rig::origin("a");
    a.script([
        on("/fin").then(Step::End(Close::Fin)),
        on("/rst").then(Step::End(Close::Rst)),
        on("/half").then(text("abc").framing(Framing::Declared(6)).into()).then(Step::End(Close::Fin)),
        on("/part").then(Step::Send(b"HTTP/1.1 200".to_vec())).then(Step::End(Close::Fin)),
        on("/open").then(text("abc").framing(Framing::ChunkedWithoutEnd).into()).then(Step::End(Close::Fin)),
        on("/some").then(Step::Read(Amount::Half)).then(Step::End(Close::Rst)),
    ]);
    let error = |ask: Ask| Client::new(a.address).send(&ask).unwrap_err().kind();
    assert_eq!(error(Ask::get("/fin")), io::ErrorKind::UnexpectedEof);
    assert_eq!(error(Ask::get("/rst")), io::ErrorKind::ConnectionReset);
    assert_eq!(error(Ask::get("/half")), io::ErrorKind::UnexpectedEof);
    assert_eq!(error(Ask::get("/part")), io::ErrorKind::UnexpectedEof);
    assert_eq!(error(Ask::get("/open")), io::ErrorKind::UnexpectedEof);
    error(Ask::new("PUT", "/some").body(vec![b'x'; 1 << 20]));
    let some = a.requests().pop().unwrap();
    assert!(some.body_bytes >= 1 << 19 && !some.complete, "{} bytes", some.body_bytes);
}

#[test]
fn it_refuses_closes_resets_and_serves_again_on_the_same_port() {
    let a = rig::origin("a");
    let ask = || Client::new(a.address).send(&Ask::get("/"));
    for _ in 0..3 {
        a.door(Door::Refuse);
        assert_eq!(ask().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        a.door(Door::Open);
        assert_eq!(ask().unwrap().status, 200);
    }
    a.door(Door::Close(Close::Rst));
    assert!(ask().is_err());
    a.door(Door::Hang);
    let mut left_alone = rig::raw(a.address);
    left_alone.send("GET / HTTP/1.1\r\n\r\n");
    a.door(Door::Open);
    assert_eq!(ask().unwrap().status, 200);
    assert_eq!(a.served(), 4);
}

#[test]
fn its_port_is_nobody_else_s_while_it_refuses_or_is_dead() {
    let mut a = rig::origin("a");
    let port = a.address.port();
    for door in [Door::Open, Door::Refuse, Door::Deaf] {
        a.door(door);
        assert!(rig::ports::alone(port).is_err(), "{door:?}");
    }
    a.kill();
    assert!(rig::ports::alone(port).is_err());
    a.restart();
    assert_eq!(Client::new(a.address).get("/").origin(), "a");
}

#[test]
fn it_lets_no_connection_come_about() {
    let a = rig::origin("a");
    let connects = || std::net::TcpStream::connect_timeout(&a.address, Duration::from_millis(300));
    a.door(Door::Deaf);
    for _ in 0..3 {
        assert_eq!(connects().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
    a.door(Door::Refuse);
    assert_eq!(connects().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    a.door(Door::Open);
    assert_eq!(Client::new(a.address).get("/").status, 200);
}

#[test]
fn it_checks_and_makes_bodies_of_any_size() {
    let a = rig::origin("a");
    a.script([
        on("/up").then(answer(200).body(Body::Checked).into()),
        on("/down").then(answer(200).body(Body::Pattern(200_000)).framing(Framing::Chunked).into()),
    ]);
    for framed in [rig::Framed::Length, rig::Framed::Chunks] {
        let answer = rig::upload(a.address, "/up", framed, 200_000, &AtomicU64::new(0));
        assert_eq!(answer.text(), "200000 bytes, all right");
    }
    let mut client = Client::new(a.address);
    let wrong = client.send(&Ask::new("PUT", "/up").body(vec![0; 200_000])).unwrap().text();
    assert_eq!(wrong.split(',').next(), Some("200000 bytes"));
    assert!(wrong.contains("wrong after"), "{wrong}");
    assert_eq!(rig::download(a.address, "/down").read(u64::MAX), 200_000);
    assert_eq!(a.counts().sent, 200_000);
}

#[test]
fn barriers_hold_until_they_are_released() {
    let a = rig::origin("a");
    a.script([on("/held").hold("gate").answer(200)]);
    let address = a.address;
    let held: Vec<_> = (0..3).map(|_| std::thread::spawn(move || Client::new(address).get("/held").status)).collect();
    a.await_held("gate", 3);
    assert_eq!(a.counts().in_flight, 3);
    assert!(held.iter().all(|client| !client.is_finished()));
    a.release("gate");
    assert!(held.into_iter().all(|client| client.join().unwrap() == 200));
    assert_eq!(a.counts().peak, 3);
}

#[test]
fn idle_connections_close_by_time_and_at_once() {
    let a = rig::origin("a");
    let mut kept = rig::raw(a.address);
    kept.send("GET / HTTP/1.1\r\n\r\n");
    kept.answer();
    a.close_idle(Close::Fin);
    assert_eq!(kept.rest(), b"");
    a.idle_close(Some(20));
    let mut kept = rig::raw(a.address);
    kept.send("GET / HTTP/1.1\r\n\r\n");
    kept.answer();
    assert_eq!(kept.rest(), b"");
    assert_eq!(a.counts().open, 0);
}

#[test]
fn it_drips_informs_and_echoes() {
    let a = rig::origin("a");
    let drip = Body::Drip { piece: "data: x\n\n".to_owned(), every_ms: 1, times: 3 };
    a.script([
        on("/drip")
            .then(answer(200).body(drip).framing(Framing::Chunked).header("content-type", "text/event-stream").into()),
        on("/early").then(Step::Inform(103)).answer(204),
        on("/up").then(Step::Send(b"HTTP/1.1 101 Switching Protocols\r\n\r\n".to_vec())).then(Step::Echo),
    ]);
    let mut client = Client::new(a.address);
    assert_eq!(client.get("/drip").text(), "data: x\n\n".repeat(3));
    let early = client.get("/early");
    assert_eq!((early.interim.as_slice(), early.status), ([103].as_slice(), 204));
    let mut raw = rig::raw(a.address);
    raw.send("GET /up HTTP/1.1\r\nUpgrade: x\r\n\r\n");
    assert_eq!(raw.answer().status, 101);
    raw.send("ping");
    assert_eq!(raw.bytes(4), b"ping");
}

#[test]
fn it_can_be_frozen_killed_and_started_again() {
    let mut a = rig::origin("a");
    let address = a.address;
    a.freeze();
    let waiting = std::thread::spawn(move || Client::new(address).get("/").status);
    a.thaw();
    assert_eq!(waiting.join().unwrap(), 200);
    a.kill();
    assert!(Client::new(address).send(&Ask::get("/")).is_err());
    a.restart();
    assert_eq!(a.address, address);
    assert_eq!(Client::new(address).get("/").origin(), "a");
}

#[test]
fn rules_run_so_often_and_from_the_nth_request_on() {
    let a = rig::origin("a");
    a.script([on("/x").times(2).answer(503), on("/*").method("DELETE").answer(405), on("/*").since_nth(5).answer(418)]);
    let mut client = Client::new(a.address);
    let statuses: Vec<u16> = (0..5).map(|_| client.get("/x").status).collect();
    assert_eq!(statuses, [503, 503, 200, 200, 418]);
    assert_eq!(Client::new(a.address).send(&Ask::new("DELETE", "/y")).unwrap().status, 405);
}

#[test]
fn load_accounts_for_every_request() {
    let a = rig::origin("a");
    let load = rig::load(a.address).clients(4).rate(2000.0).start();
    load.further(200);
    let tally = load.stop();
    tally.assert_all_good();
    assert_eq!(tally.sent(), a.served());
    assert_eq!(tally.by_origin.get("a"), Some(&tally.sent()));
    let map = rig::map(a.address, &rig::keys(100));
    assert_eq!(rig::shares(&map).len(), 1);
    assert_eq!(map.len(), 100);
}

#[test]
fn it_speaks_http2_and_nonsense_between_two_frames() {
    let a = rig::origin("a");
    a.script([
        on("/digest").then(answer(201).body(Body::Digest).into()),
        on("/bad").then(Step::Send(b"\0\0\x03\x08\0\0\0\0\0bad".to_vec())).then(Step::Hang),
        on("/rst").then(Step::End(Close::Rst)),
    ]);
    let asks = [Ask::new("POST", "/digest").body("abc"), Ask::get("/plain").header("x-a", "b")];
    let answers: Vec<_> = rig::h2c(a.address, &asks).into_iter().map(|answer| answer.unwrap()).collect();
    assert_eq!((answers[0].status, answers[1].status), (201, 200));
    assert!(answers[0].text().starts_with("ba7816bf"), "{}", answers[0].text());
    assert_eq!((answers[1].origin(), answers[1].text().as_str()), ("a", "a"));
    let seen = a.requests();
    assert!(
        seen.iter().any(|r| r.line == "POST http://test/digest HTTP/2" && r.body_bytes == 3 && r.complete),
        "{seen:?}"
    );
    assert!(rig::h2c(a.address, &[Ask::new("POST", "/bad").body("abc")])[0].is_err());
    assert!(rig::h2c(a.address, &[Ask::get("/rst")])[0].is_err());
}
