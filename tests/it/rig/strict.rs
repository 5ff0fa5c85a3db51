//! An origin in the test's own process that keeps every byte and takes a request in one reading only.
//!
//! It knows the grammar of RFC 9112 to the letter, and no leniency: one Host, one length or `chunked`, CRLF and no other
//! control byte, chunks without extensions. What it cannot read so is kept as odd, and the connection ends. `/x` is
//! answered with what the test has put down for it, and everything else with `ok`.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

use super::ports;

/// What is sent for a request that nothing was put down for.
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A running one; it ends with the test.
pub(crate) struct Strict {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    requests: Mutex<Vec<Seen>>,
    odd: Mutex<Vec<String>>,
    words: Mutex<Words>,
    streams: Mutex<Vec<TcpStream>>,
}

/// The answer to `/x`.
#[derive(Clone, Default)]
pub(crate) struct Words {
    pub(crate) bytes: Vec<u8>,
    /// The connection ends behind it.
    pub(crate) ends: bool,
    /// Said as soon as the header came.
    pub(crate) early: bool,
}

/// A request that came, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its connection, counted from 0.
    pub(crate) connection: usize,
    /// Its bytes, from the first line's to the last of its body.
    pub(crate) bytes: Vec<u8>,
}

/// Starts one.
pub(crate) fn strict() -> Strict {
    let listener = ports::listener().unwrap();
    let strict = Strict { address: listener.local_addr().unwrap(), state: Arc::default() };
    let state = Arc::clone(&strict.state);
    std::thread::spawn(move || accept(&listener, &state));
    strict
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
        stream.set_nodelay(true).unwrap();
        state.streams.lock().push(stream.try_clone().unwrap());
        let state = Arc::clone(state);
        std::thread::spawn(move || {
            let whole = stream.try_clone().unwrap();
            serve(number, stream, &state);
            // the test has a handle on it too
            let _ = whole.shutdown(Shutdown::Both);
        });
    }
}

fn serve(number: usize, mut stream: TcpStream, state: &State) {
    let (mut bytes, mut answered) = (Vec::new(), false);
    let mut piece = vec![0; 64 << 10];
    loop {
        let found = Found::of(&bytes);
        if let Found::Whole { head, .. } | Found::Begun { head } = &found
            && is_scripted(&bytes[..*head])
            && !answered
            && (state.words.lock().early || matches!(found, Found::Whole { .. }))
        {
            answered = true;
            // the request is known before anybody can have its answer
            note(&found, number, &bytes, state);
            if !say(&mut stream, &state.words.lock().clone()) {
                return;
            }
        } else if !answered {
            note(&found, number, &bytes, state);
        }
        match found {
            Found::Whole { end, .. } => {
                let silent = std::mem::take(&mut answered) || stream.write_all(OK).is_ok();
                bytes.drain(..end);
                if silent { continue } else { return }
            }
            Found::Odd => return state.odd.lock().push(bytes.escape_ascii().to_string()),
            Found::Begun { .. } | Found::Nothing => {}
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(n) => bytes.extend_from_slice(&piece[..n]),
        }
    }
}

fn note(found: &Found, connection: usize, bytes: &[u8], state: &State) {
    if let Found::Whole { end, .. } = found {
        state.requests.lock().push(Seen { connection, bytes: bytes[..*end].to_vec() });
    }
}

fn is_scripted(head: &[u8]) -> bool {
    head.split(|byte| *byte == b' ').nth(1) == Some(b"/x")
}

/// Whether the connection goes on.
fn say(stream: &mut TcpStream, words: &Words) -> bool {
    let bytes = if words.bytes.is_empty() { OK } else { &words.bytes };
    stream.write_all(bytes).is_ok() && !words.ends
}

/// What stands at the beginning of these bytes.
enum Found {
    /// A request up to `end`, its header up to `head`.
    Whole { head: usize, end: usize },
    /// A header up to `head`, and not all of its body yet.
    Begun { head: usize },
    /// Less than a header.
    Nothing,
    /// No request.
    Odd,
}

impl Found {
    fn of(bytes: &[u8]) -> Self {
        let Some(head) = find(bytes, b"\r\n\r\n").map(|end| end + 4) else { return Self::Nothing };
        let Some(body) = body(&bytes[..head]) else { return Self::Odd };
        let end = match body {
            Body::Length(length) => (bytes.len() >= head + length).then_some(head + length),
            Body::Chunked => match chunks(&bytes[head..]) {
                Ok(end) => end.map(|end| head + end),
                Err(()) => return Self::Odd,
            },
        };
        end.map_or(Self::Begun { head }, |end| Self::Whole { head, end })
    }
}

enum Body {
    Length(usize),
    Chunked,
}

/// How the body of a request with this header ends; `None`: nobody may send it.
fn body(head: &[u8]) -> Option<Body> {
    let text: String = head.iter().map(|byte| char::from(*byte)).collect();
    let mut lines = text.strip_suffix("\r\n\r\n")?.split("\r\n");
    let words: Vec<&str> = lines.next()?.split(' ').collect();
    let [method, target, "HTTP/1.1"] = words[..] else { return None };
    let control = |text: &str| text.bytes().any(|byte| byte != b'\t' && byte.is_ascii_control());
    if !is_token(method) || target.is_empty() || control(target) {
        return None;
    }
    let (mut hosts, mut length, mut chunked) = (0, None, false);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let value = value.trim_matches([' ', '\t']);
        if !is_token(name) || control(value) {
            return None;
        }
        match name.to_ascii_lowercase().as_str() {
            "host" => hosts += 1,
            "content-length" if length.is_some() || !value.bytes().all(|byte| byte.is_ascii_digit()) => return None,
            "content-length" => length = Some(value.parse::<u32>().ok()? as usize),
            "transfer-encoding" if chunked || value != "chunked" => return None,
            "transfer-encoding" => chunked = true,
            _ => {}
        }
    }
    match (hosts, length, chunked) {
        (1, None, true) => Some(Body::Chunked),
        (1, length, false) => Some(Body::Length(length.unwrap_or(0))),
        _ => None,
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Where the last chunk ends; `None`: later.
fn chunks(bytes: &[u8]) -> Result<Option<usize>, ()> {
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        let Some(line) = find(rest, b"\r\n") else { return Ok(None) };
        let size = std::str::from_utf8(&rest[..line]).map_err(|_| ())?;
        if size.is_empty() || !size.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(());
        }
        let size = usize::from_str_radix(size, 16).map_err(|_| ())?;
        let end = line + 2 + size;
        match rest.get(end..end + 2) {
            None => return Ok(None),
            Some(b"\r\n") if size == 0 => return Ok(Some(at + end + 2)),
            Some(b"\r\n") => at += end + 2,
            Some(_) => return Err(()),
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, what)
}

impl Strict {
    /// What came since it was asked last.
    pub(crate) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state.requests.lock())
    }

    /// What came that is no request.
    pub(crate) fn odd(&self) -> Vec<String> {
        self.state.odd.lock().clone()
    }

    /// From now on this is the answer to `/x`.
    pub(crate) fn answers(&self, words: Words) {
        *self.state.words.lock() = words;
    }

    /// Sends these bytes on a connection, asked or not.
    pub(crate) fn say(&self, connection: usize, bytes: &[u8]) {
        (&self.state.streams.lock()[connection]).write_all(bytes).unwrap();
    }
}
