//! What can an origin be told to do, and what does it tell of what it saw?
//!
//! Spoken by both sides of the control port, one JSON value a line each way: the origin includes this file, and
//! so do the tests. A request is answered by the first rule that takes it: its steps run in order. Without a rule the
//! body is read and the answer is 200 with the origin's name.

use serde::{Deserialize, Serialize};

/// What the control port takes; each is answered by one [`Reply`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Command {
    /// These rules, in this order, instead of all others.
    Rules(Vec<Rule>),
    /// This rule before all others.
    Rule(Rule),
    /// Everything seen so far.
    Seen,
    /// What was seen is forgotten and every count starts at 0 again.
    Forget,
    /// The counts.
    Counts,
    /// Answers when that many requests (for that path) were seen.
    AwaitRequests { path: Option<String>, count: u64, within_ms: u64 },
    /// Answers when that many requests wait at a [`Step::Hold`].
    AwaitHeld { name: String, count: u64, within_ms: u64 },
    /// Lets everybody pass a [`Step::Hold`], now and from now on.
    Release(String),
    /// What becomes of new connections.
    Door(Door),
    /// Closes every connection that waits for a request.
    CloseIdle(Close),
    /// Closes a kept connection that was idle that long; `None`: never.
    IdleClose(Option<u64>),
    /// Whether requests are recorded (they are always counted).
    Record(bool),
}

/// The answer to a [`Command`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Done, or what was awaited has happened.
    Done,
    /// What was awaited did not happen in time.
    TooLate,
    /// The command was not understood.
    Mistake(String),
    /// Everything seen.
    Seen(Vec<Connection>),
    /// The counts.
    Counts(Counts),
}

/// What becomes of a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Door {
    /// It is served.
    Open,
    /// It is refused: nobody listens. The port stays ours.
    Refuse,
    /// It is accepted and left alone.
    Hang,
    /// It does not come about: nobody answers the attempt.
    Deaf,
    /// It is accepted and closed.
    Close(Close),
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Close {
    /// In peace: FIN.
    Fin,
    /// At once: RST.
    Rst,
}

/// Which requests run which steps.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Rule {
    /// What is taken; empty takes everything.
    pub(crate) when: When,
    /// What is done.
    pub(crate) steps: Vec<Step>,
    /// How often; `None`: always.
    pub(crate) times: Option<u32>,
}

/// Conditions of a rule; all that are given have to hold.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct When {
    /// This method.
    pub(crate) method: Option<String>,
    /// This path (the query left out).
    pub(crate) path: Option<String>,
    /// A path that starts so.
    pub(crate) prefix: Option<String>,
    /// Any path but this.
    pub(crate) not_path: Option<String>,
    /// Only the n-th and later requests of a connection, counted from 1.
    pub(crate) from_nth: Option<u64>,
    /// Only while more requests than this are under way, this one among them.
    pub(crate) above: Option<u64>,
}

/// One thing to do. A program without [`Step::Read`] reads the whole body first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Step {
    /// Reads of the request's body.
    Read(Amount),
    /// Waits so many milliseconds.
    Delay(u64),
    /// Waits until the test releases this name.
    Hold(String),
    /// An interim answer.
    Inform(u16),
    /// A final answer.
    Answer(Answer),
    /// These bytes, as they are (on HTTP/2: between two frames).
    Send(Vec<u8>),
    /// What comes goes back, until the end.
    Echo,
    /// Closes the connection.
    End(Close),
    /// Keeps the connection and never says anything again.
    Hang,
}

/// How much of a body is read.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Amount {
    /// To its end.
    All,
    /// Half of its announced length.
    Half,
    /// That many bytes at least.
    Bytes(u64),
}

/// A final answer; the origin adds `x-origin` and what the framing needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The status.
    pub(crate) status: u16,
    /// Further headers.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: Body,
    /// How its end is told.
    pub(crate) framing: Framing,
}

/// What an answer holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Body {
    /// The origin's name.
    Name,
    /// This.
    Text(String),
    /// So many bytes: `0123456789abcdef` over and over.
    Size(usize),
    /// The request's body.
    Received,
    /// SHA-256 of the request's body in hex.
    Digest,
    /// So many bytes of the pattern (see `pattern.rs`), made as they are sent.
    Pattern(u64),
    /// Whether the request's body was the pattern: `N bytes, all right`, or where it was not.
    Checked,
    /// A piece again and again.
    Drip { piece: String, every_ms: u64, times: u32 },
}

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Framing {
    /// `Content-Length`.
    Length,
    /// `Content-Length` with this number, true or not.
    Declared(u64),
    /// Chunks.
    Chunked,
    /// Chunks, and never the last one.
    ChunkedWithoutEnd,
    /// The connection closes.
    UntilClose,
}

/// A connection as the origin saw it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Connection {
    /// Counted from 1 in the order of acceptance.
    pub(crate) id: u64,
    /// The other side's address.
    pub(crate) peer: String,
    /// Bytes received.
    pub(crate) bytes: u64,
    /// Requests in order.
    pub(crate) requests: Vec<Request>,
    /// It is no more.
    pub(crate) closed: bool,
}

/// A request as the origin saw it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The first line, byte for byte (bytes above 0x7F as Latin-1).
    pub(crate) line: String,
    /// Header lines, names as received.
    pub(crate) headers: Vec<(String, String)>,
    /// Bytes of body read (chunks decoded).
    pub(crate) body_bytes: u64,
    /// SHA-256 in hex of the body read so far.
    pub(crate) body_sha256: String,
    /// The body came to its end.
    pub(crate) complete: bool,
    /// Milliseconds since the origin's start.
    pub(crate) at_ms: u64,
    /// Its place among all requests since the origin's start, from 1: two of one millisecond have an order too.
    pub(crate) nth: u64,
}

/// Counts since the start or the last [`Command::Forget`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Connections accepted.
    pub(crate) connections: u64,
    /// Connections open now.
    pub(crate) open: u64,
    /// Requests whose header came.
    pub(crate) requests: u64,
    /// Requests under way now.
    pub(crate) in_flight: u64,
    /// The most that were under way at once.
    pub(crate) peak: u64,
    /// Bytes received on all connections.
    pub(crate) received: u64,
    /// Bytes of [`Body::Pattern`] handed over to be sent.
    pub(crate) sent: u64,
    /// Requests by path, the query left out.
    pub(crate) by_path: std::collections::BTreeMap<String, u64>,
}
