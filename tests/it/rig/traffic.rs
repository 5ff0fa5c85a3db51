//! Everything that lasts, at once: uploads, downloads, streams of events and WebSockets, each checked byte for byte.
//!
//! Whatever goes wrong fails the client it happened to, and [`Traffic::stop`] with it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::client::Client;
use super::origin::Origin;
use super::pattern::Pattern;
use super::raw::raw;
use super::rules::{answer, on};
use super::script::{Body, Framing, Step};
use super::stream::download;

/// Traffic that runs until it is stopped.
pub(crate) struct Traffic {
    state: Arc<State>,
    clients: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    stop: AtomicBool,
    /// Requests that were begun.
    sent: AtomicU64,
    /// WebSockets that were told that the gateway goes away.
    told: AtomicU64,
    /// Milliseconds the shortest-lived of them lived.
    shortest: AtomicU64,
}

/// Bytes of a body that is sent or read slowly, and of each step.
const SLOW: u64 = 1 << 20;
const STEP: u64 = 64 << 10;
/// Between two steps, or two frames.
const PAUSE: Duration = Duration::from_millis(50);

const FRAME: &[u8] = b"\x82\x03abc";
const GOING_AWAY: &[u8] = b"\x88\x02\x03\xe9";
/// The client's own Close, of the same code.
const CLOSE: &[u8] = b"\x88\x82mask\x6e\x88";

/// Has these origins answer [`traffic`].
pub(crate) fn takes_traffic(origins: &[Origin]) {
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let events = Body::Drip { piece: "data: tick\n\n".to_owned(), every_ms: 50, times: 30 };
    let events = answer(200).header("Content-Type", "text/event-stream").body(events).framing(Framing::Chunked);
    for origin in origins {
        origin.script([
            on("/up").then(answer(200).body(Body::Checked).into()),
            on("/down").then(answer(200).body(Body::Pattern(SLOW)).into()),
            on("/events").then(events.clone().into()),
            on("/ws").then(Step::Send(switch.to_vec())).then(Step::Echo),
        ]);
    }
}

/// At each of two doors a client of each kind, one exchange after the other.
pub(crate) fn traffic(doors: [SocketAddr; 2]) -> Traffic {
    let state = Arc::new(State { shortest: AtomicU64::new(u64::MAX), ..State::default() });
    let kinds: [fn(SocketAddr, &State); 4] = [upload, slow_download, events, websocket];
    let client = |(to, run): (SocketAddr, fn(SocketAddr, &State))| {
        let state = state.clone();
        std::thread::spawn(move || {
            while !state.stop.load(Relaxed) {
                state.sent.fetch_add(1, Relaxed);
                run(to, &state);
            }
        })
    };
    let clients = doors.into_iter().flat_map(|to| kinds.map(|kind| (to, kind))).map(client).collect();
    Traffic { state, clients }
}

impl Traffic {
    /// WebSockets that were told that the gateway goes away, so far.
    pub(crate) fn told(&self) -> u64 {
        self.state.told.load(Relaxed)
    }

    /// How long the shortest-lived of them lived.
    pub(crate) fn shortest(&self) -> Duration {
        Duration::from_millis(self.state.shortest.load(Relaxed))
    }

    /// Ends each client after its exchange; how many there were.
    pub(crate) fn stop(mut self) -> u64 {
        self.state.stop.store(true, Relaxed);
        self.clients.drain(..).for_each(|client| client.join().expect("an exchange as it should be"));
        self.state.sent.load(Relaxed)
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.state.stop.store(true, Relaxed);
    }
}

fn upload(to: SocketAddr, _: &State) {
    let (mut raw, mut pattern, mut left) = (raw(to), Pattern::new(), SLOW);
    raw.send(format!("PUT /up HTTP/1.1\r\nHost: test\r\nContent-Length: {SLOW}\r\n\r\n"));
    while left > 0 {
        let piece = pattern.piece(left.min(STEP));
        raw.send(piece);
        left -= piece.len() as u64;
        std::thread::sleep(PAUSE);
    }
    let answer = raw.answer();
    assert_eq!((answer.status, answer.text()), (200, format!("{SLOW} bytes, all right")), "an upload");
}

fn slow_download(to: SocketAddr, _: &State) {
    let (mut download, mut read) = (download(to, "/down"), 0);
    while read < SLOW {
        let now = download.read(STEP);
        assert!(now > 0, "a download ends after {read} bytes");
        read += now;
        std::thread::sleep(PAUSE);
    }
}

fn events(to: SocketAddr, _: &State) {
    let answer = Client::new(to).get("/events");
    assert_eq!((answer.status, answer.text()), (200, "data: tick\n\n".repeat(30)), "events");
}

/// Frames go to and fro until the gateway goes away, or the test ends.
fn websocket(to: SocketAddr, state: &State) {
    let mut tunnel = raw(to);
    tunnel.send("GET /ws HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(tunnel.answer().status, 101, "a WebSocket");
    let opened = Instant::now();
    while !state.stop.load(Relaxed) {
        // it may be told in the same moment
        let _ = tunnel.try_send(FRAME);
        let mut said = tunnel.bytes(2);
        let is_close = said[0] == GOING_AWAY[0];
        said.extend(tunnel.bytes(if is_close { 2 } else { FRAME.len() - 2 }));
        if is_close {
            assert_eq!(said, GOING_AWAY);
            let _ = tunnel.try_send(CLOSE);
            assert_eq!(tunnel.rest(), b"");
            let lived = u64::try_from(opened.elapsed().as_millis()).unwrap();
            state.shortest.fetch_min(lived, Relaxed);
            state.told.fetch_add(1, Relaxed);
            return;
        }
        assert_eq!(said, FRAME);
        std::thread::sleep(PAUSE);
    }
}
