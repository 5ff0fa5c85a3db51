//! An origin in the test's own process that speaks HTTP/2 without TLS frame by frame, so that it can say what no library
//! would.
//!
//! It reads of a request what says that it is whole, and never its header block: the first request after
//! [`Frames::answers`] gets what was put down, every other one `ok`. What it hears of streams and connections given up is kept.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt::Linger};
use parking_lot::Mutex;

use super::PATIENCE;
use super::ports;
use super::script::Close;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// A running one; it ends with the test.
pub(crate) struct Frames {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    words: Mutex<Option<Words>>,
    seen: Mutex<Vec<(usize, u32)>>,
    given_up: Mutex<Vec<(u8, u32)>>,
    floods: AtomicUsize,
}

/// What is said to a request.
#[derive(Clone, Default)]
pub(crate) struct Words {
    /// Said once.
    pub(crate) bytes: Vec<u8>,
    /// Said again and again behind it, until nobody listens.
    pub(crate) flood: Vec<u8>,
    /// The connection ends behind all.
    pub(crate) ends: Option<Close>,
    /// Said as soon as the header came.
    pub(crate) early: bool,
    /// Said to every request from now on.
    pub(crate) always: bool,
}

/// Starts one.
pub(crate) fn frames() -> Frames {
    let listener = ports::listener().unwrap();
    let frames = Frames { address: listener.local_addr().unwrap(), state: Arc::default() };
    let state = Arc::clone(&frames.state);
    std::thread::spawn(move || accept(&listener, &state));
    frames
}

impl Frames {
    /// What the next request gets: `words`, where streams are numbered as if it had come on stream 0.
    pub(crate) fn answers(&self, words: Words) {
        *self.state.words.lock() = Some(words);
    }

    /// The requests that came whole, or were answered: connection (counted from 0) and stream; they are forgotten.
    pub(crate) fn take(&self) -> Vec<(usize, u32)> {
        std::mem::take(&mut self.state.seen.lock())
    }

    /// How many connections are flooded now.
    pub(crate) fn floods(&self) -> usize {
        self.state.floods.load(Relaxed)
    }

    /// RST_STREAM and GOAWAY that came, with their codes; they are forgotten.
    pub(crate) fn given_up(&self) -> Vec<(u8, u32)> {
        std::mem::take(&mut self.state.given_up.lock())
    }
}

/// One frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header block, each line a literal that is not indexed.
pub(crate) fn block<'a>(lines: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in lines {
        block.push(0);
        for text in [name, value] {
            length(text.len(), &mut block);
            // as Latin-1, so that a table may hold any byte
            block.extend(text.chars().map(|byte| u8::try_from(u32::from(byte)).unwrap()));
        }
    }
    block
}

/// RFC 7541, section 5.1, with a prefix of seven bits.
fn length(of: usize, block: &mut Vec<u8>) {
    if of < 127 {
        return block.push(of as u8);
    }
    block.push(127);
    let mut left = of - 127;
    while left >= 128 {
        block.push((left % 128 + 128) as u8);
        left /= 128;
    }
    block.push(left as u8);
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
        stream.set_nodelay(true).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let state = Arc::clone(state);
        std::thread::spawn(move || {
            let _ = serve(number, &stream, &state);
            let _ = stream.shutdown(Shutdown::Both);
        });
    }
}

fn serve(number: usize, mut stream: &TcpStream, state: &State) -> io::Result<()> {
    stream.read_exact(&mut [0; 24])?;
    stream.write_all(&frame(SETTINGS, 0, 0, b""))?;
    let mut answered = 0;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload)?;
        let (kind, flags, on) = (head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
        match kind {
            SETTINGS | PING if flags & 1 == 0 => {
                let back = if kind == PING { &payload[..] } else { b"" };
                stream.write_all(&frame(kind, 1, 0, back))?;
            }
            DATA if !payload.is_empty() => {
                let room = u32::try_from(payload.len()).unwrap().to_be_bytes();
                stream.write_all(&[0, on].map(|on| frame(WINDOW_UPDATE, 0, on, &room)).concat())?;
            }
            RST_STREAM => state.given_up.lock().push((kind, code(&payload))),
            GOAWAY => state.given_up.lock().push((kind, code(&payload[4..]))),
            _ => {}
        }
        let is_early = || state.words.lock().as_ref().is_some_and(|words| words.early);
        let whole = flags & END_STREAM != 0;
        if matches!(kind, HEADERS | DATA) && on > answered && (whole || is_early()) {
            answered = on;
            // known before anybody can have its answer
            state.seen.lock().push((number, on));
            let words = {
                let mut words = state.words.lock();
                if words.as_ref().is_some_and(|words| words.always) { words.clone() } else { words.take() }
            };
            if say(stream, on, words, &state.floods)?.is_some() {
                return Ok(());
            }
        }
    }
}

fn code(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload[..4].try_into().unwrap())
}

/// Says it; with an end when the connection is over.
fn say(mut stream: &TcpStream, on: u32, words: Option<Words>, floods: &AtomicUsize) -> io::Result<Option<Close>> {
    let Some(words) = words else {
        let answer = [frame(HEADERS, END_HEADERS, on, b"\x88"), frame(DATA, END_STREAM, on, b"ok")].concat();
        return stream.write_all(&answer).map(|()| None);
    };
    stream.write_all(&numbered(&words.bytes, on))?;
    let flood = numbered(&words.flood, on);
    if !flood.is_empty() {
        floods.fetch_add(1, Relaxed);
        while stream.write_all(&flood).is_ok() {}
        floods.fetch_sub(1, Relaxed);
    }
    if words.ends == Some(Close::Rst) {
        setsockopt(&stream, Linger, &linger { l_onoff: 1, l_linger: 0 })?;
    }
    Ok(words.ends)
}

/// Every stream by its own number: these are counted from the request's. Stream 0 stays where the frame is the connection's.
fn numbered(bytes: &[u8], on: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + 9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let of_stream = matches!(head[3], DATA | HEADERS | RST_STREAM | PUSH_PROMISE | CONTINUATION);
        if of_stream {
            let own = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) + on;
            bytes[at + 5..at + 9].copy_from_slice(&own.to_be_bytes());
        } else if head[3] == GOAWAY && length >= 4 {
            let last = u32::from_be_bytes(bytes[at + 9..at + 13].try_into().unwrap()).wrapping_add(on);
            bytes[at + 9..at + 13].copy_from_slice(&last.to_be_bytes());
        }
        at += 9 + length;
    }
    bytes
}
