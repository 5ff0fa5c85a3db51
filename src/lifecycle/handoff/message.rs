//! What do two generations say to each other? Every message, and its bytes on the line.
//!
//! A message is one byte for its kind, four for the length of what follows, and that. What tells versions apart
//! ([`Kind::Hello`], [`Kind::Declined`], [`Kind::Back`]) keeps its form for ever; all else may differ in another
//! [`PROTOCOL`]. Always: a length is looked at before anything is read for it.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Two generations understand each other only with the same one.
pub const PROTOCOL: u32 = 1;

/// The first bytes on the line: no request over HTTP begins so.
pub const PREAMBLE: &[u8] = b"moorgate handoff\n";

/// Bytes of a message at most.
const LONGEST: usize = 64 << 20;

/// Bytes in front of what a message says.
pub(super) const HEAD: usize = 5;

/// What is said. The first six are the new process's, the others the running one's.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Who wants to take over.
    Hello(Hello),
    /// All is compiled and bound; nothing is accepted yet.
    Ready(Ready),
    /// It accepts.
    Serving,
    /// It has served for long enough to go on alone.
    Settled,
    /// It cannot take over, for this reason.
    Declined(String),
    /// Whoever wrote to the same logs before is to open them anew, too.
    Reopen,
    /// Who hands over, and what is served; the sockets follow.
    Offer(Box<Offer>),
    /// What was learned.
    State(Vec<u8>),
    /// What was learned, after the last connection was accepted.
    Last(Vec<u8>),
    /// Accept.
    Go,
    /// Nothing is taken back any more.
    Yours,
    /// What was counted since the message before, and is in flight.
    Counts(Vec<u8>),
    /// No connection of the running process can begin a request any more.
    Quiet,
    /// Nothing is handed over, for this reason.
    Back(String),
}

/// Who wants to take over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// What it speaks.
    pub protocol: u32,
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
}

/// What a new process serves on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// What of it all it goes on with.
    pub kept: Vec<Given>,
}

/// What is handed over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The version of the running process.
    pub version: String,
    /// The running process.
    pub pid: u32,
    /// Which one of a line of upgrades it is.
    pub generation: u64,
    /// A service manager keeps the sockets open, whoever leaves.
    #[serde(default)]
    pub outlived: bool,
    /// Sockets, in the order in which they follow.
    pub sockets: Vec<Given>,
    /// The text in force.
    pub text: String,
    /// How many configurations were put in force so far.
    pub config_version: u64,
    /// Texts that are or were in force, the newest last.
    pub texts: Vec<Text>,
    /// Digests of texts that were gone back from.
    pub refused: Vec<String>,
}

/// A descriptor that is handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Given {
    /// A listener, by the address it has.
    Listener(String),
    /// The admin address.
    Admin(String),
    /// The control socket, by its path.
    Control(String),
    /// Ends with the process of that number: the other end of a pipe it holds.
    Life(u32),
}

/// A text that is or was in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Text {
    /// The version it came into force as.
    pub version: u64,
    /// SHA-256 of it, in hex.
    pub digest: String,
    /// It.
    pub text: String,
    /// When it came into force, in milliseconds since 1970.
    pub since: u64,
    /// What that moved, by pool.
    pub moved: IndexMap<String, f64>,
    /// How it ended, and why if by itself.
    pub ended: Option<(String, Option<String>)>,
}

/// Kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// See [`Message::Hello`].
    Hello = 1,
    /// See [`Message::Ready`].
    Ready,
    /// See [`Message::Serving`].
    Serving,
    /// See [`Message::Settled`].
    Settled,
    /// See [`Message::Declined`].
    Declined,
    /// See [`Message::Offer`].
    Offer,
    /// See [`Message::State`].
    State,
    /// See [`Message::Last`].
    Last,
    /// See [`Message::Go`].
    Go,
    /// See [`Message::Yours`].
    Yours,
    /// See [`Message::Counts`].
    Counts,
    /// See [`Message::Quiet`].
    Quiet,
    /// See [`Message::Back`].
    Back,
    /// See [`Message::Reopen`].
    Reopen,
}

/// Why bytes are no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Garbled {
    /// No kind has this number.
    #[error("no message begins with the byte {0}")]
    Kind(u8),
    /// It cannot be that long.
    #[error("a message of {0} bytes")]
    Length(usize),
    /// It says something else than it should.
    #[error("{kind}: {why}")]
    Content {
        /// Its kind.
        kind: Kind,
        /// What is wrong.
        why: String,
    },
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Hello,
        Self::Ready,
        Self::Serving,
        Self::Settled,
        Self::Declined,
        Self::Offer,
        Self::State,
        Self::Last,
        Self::Go,
        Self::Yours,
        Self::Counts,
        Self::Quiet,
        Self::Back,
        Self::Reopen,
    ];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Ready => "ready",
            Self::Serving => "serving",
            Self::Settled => "settled",
            Self::Declined => "declined",
            Self::Offer => "offer",
            Self::State => "state",
            Self::Last => "last",
            Self::Go => "go",
            Self::Yours => "yours",
            Self::Counts => "counts",
            Self::Quiet => "quiet",
            Self::Back => "back",
            Self::Reopen => "reopen",
        }
    }

    /// Kind and length of what follows these bytes.
    pub(super) fn of_head(head: [u8; HEAD]) -> Result<(Self, usize), Garbled> {
        let [number, length @ ..] = head;
        let kind = Self::ALL.into_iter().find(|kind| *kind as u8 == number).ok_or(Garbled::Kind(number))?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > LONGEST { Err(Garbled::Length(length)) } else { Ok((kind, length)) }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Message {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Hello(_) => Kind::Hello,
            Self::Ready(_) => Kind::Ready,
            Self::Serving => Kind::Serving,
            Self::Settled => Kind::Settled,
            Self::Declined(_) => Kind::Declined,
            Self::Offer(_) => Kind::Offer,
            Self::State(_) => Kind::State,
            Self::Last(_) => Kind::Last,
            Self::Go => Kind::Go,
            Self::Yours => Kind::Yours,
            Self::Counts(_) => Kind::Counts,
            Self::Quiet => Kind::Quiet,
            Self::Back(_) => Kind::Back,
            Self::Reopen => Kind::Reopen,
        }
    }

    /// Its bytes.
    ///
    /// # Errors
    /// It is too long.
    pub fn encode(&self) -> Result<Vec<u8>, Garbled> {
        let content = match self {
            Self::Hello(hello) => json(self.kind(), hello)?,
            Self::Ready(ready) => json(self.kind(), ready)?,
            Self::Offer(offer) => json(self.kind(), offer)?,
            Self::Declined(why) | Self::Back(why) => why.clone().into_bytes(),
            Self::State(bytes) | Self::Last(bytes) | Self::Counts(bytes) => bytes.clone(),
            Self::Serving | Self::Settled | Self::Reopen | Self::Go | Self::Yours | Self::Quiet => Vec::new(),
        };
        let length = u32::try_from(content.len()).ok().filter(|_| content.len() <= LONGEST);
        let length = length.ok_or(Garbled::Length(content.len()))?;
        Ok([&[self.kind() as u8], &length.to_be_bytes()[..], &content].concat())
    }

    /// What a message of this kind says.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(kind: Kind, content: Vec<u8>) -> Result<Self, Garbled> {
        let text = |content: Vec<u8>| String::from_utf8_lossy(&content).into_owned();
        Ok(match kind {
            Kind::Hello => Self::Hello(read(kind, &content)?),
            Kind::Ready => Self::Ready(read(kind, &content)?),
            Kind::Offer => Self::Offer(read(kind, &content)?),
            Kind::Declined => Self::Declined(text(content)),
            Kind::Back => Self::Back(text(content)),
            Kind::State => Self::State(content),
            Kind::Last => Self::Last(content),
            Kind::Counts => Self::Counts(content),
            Kind::Serving => nothing(kind, &content, Self::Serving)?,
            Kind::Settled => nothing(kind, &content, Self::Settled)?,
            Kind::Go => nothing(kind, &content, Self::Go)?,
            Kind::Yours => nothing(kind, &content, Self::Yours)?,
            Kind::Quiet => nothing(kind, &content, Self::Quiet)?,
            Kind::Reopen => nothing(kind, &content, Self::Reopen)?,
        })
    }
}

fn json(kind: Kind, value: &impl Serialize) -> Result<Vec<u8>, Garbled> {
    serde_json::to_vec(value).map_err(|error| Garbled::Content { kind, why: error.to_string() })
}

fn read<T: DeserializeOwned>(kind: Kind, content: &[u8]) -> Result<T, Garbled> {
    serde_json::from_slice(content).map_err(|error| Garbled::Content { kind, why: error.to_string() })
}

fn nothing(kind: Kind, content: &[u8], message: Message) -> Result<Message, Garbled> {
    let why = || format!("{} bytes, where there are none", content.len());
    if content.is_empty() { Ok(message) } else { Err(Garbled::Content { kind, why: why() }) }
}

/// Milliseconds since 1970.
pub fn to_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time so many milliseconds after 1970.
pub fn of_millis(millis: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One of each kind.
    pub(in crate::lifecycle::handoff) fn example(kind: Kind) -> Message {
        match kind {
            Kind::Hello => Message::Hello(Hello { protocol: PROTOCOL, version: "1.2.3".into(), pid: 7 }),
            Kind::Ready => Message::Ready(Ready { kept: vec![Given::Listener("127.0.0.1:80".into())] }),
            Kind::Serving => Message::Serving,
            Kind::Settled => Message::Settled,
            Kind::Declined => Message::Declined("the disk is full".into()),
            Kind::Offer => Message::Offer(Box::new(Offer {
                version: "1.2.2".into(),
                pid: 6,
                generation: 3,
                outlived: true,
                sockets: vec![Given::Listener("127.0.0.1:80".into()), Given::Life(6)],
                text: "version: 1\n".into(),
                config_version: 4,
                texts: Vec::new(),
                refused: vec!["ab".into()],
            })),
            Kind::State => Message::State(vec![1, 2]),
            Kind::Last => Message::Last(vec![3]),
            Kind::Go => Message::Go,
            Kind::Yours => Message::Yours,
            Kind::Counts => Message::Counts(Vec::new()),
            Kind::Quiet => Message::Quiet,
            Kind::Back => Message::Back("too late".into()),
            Kind::Reopen => Message::Reopen,
        }
    }

    fn decoded(bytes: &[u8]) -> Result<Message, Garbled> {
        let (head, content) = bytes.split_first_chunk::<HEAD>().unwrap();
        let (kind, length) = Kind::of_head(*head)?;
        assert_eq!(length, content.len());
        Message::decode(kind, content.to_vec())
    }

    #[test]
    fn every_message_survives_the_line() {
        for kind in Kind::ALL {
            let message = example(kind);
            assert_eq!(message.kind(), kind);
            assert_eq!(decoded(&message.encode().unwrap()), Ok(message), "{kind}");
        }
    }

    #[test]
    fn what_is_no_message_is_told_apart() {
        assert_eq!(Kind::of_head([0, 0, 0, 0, 0]), Err(Garbled::Kind(0)));
        assert_eq!(Kind::of_head(*b"GET /"), Err(Garbled::Kind(b'G')));
        assert_eq!(Kind::of_head([1, 255, 0, 0, 0]), Err(Garbled::Length(255 << 24)));
        assert!(matches!(Message::decode(Kind::Go, vec![1]), Err(Garbled::Content { kind: Kind::Go, .. })));
        for kind in [Kind::Hello, Kind::Ready, Kind::Offer] {
            assert!(Message::decode(kind, b"{}".to_vec()).is_err(), "{kind}");
        }
    }

    #[test]
    fn a_time_survives_in_milliseconds() {
        let time = UNIX_EPOCH + Duration::from_millis(1_796_000_000_250);
        assert_eq!(of_millis(to_millis(time)), time);
        assert_eq!(of_millis(u64::MAX), UNIX_EPOCH + Duration::from_millis(u64::MAX));
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_panic(head in any::<[u8; HEAD]>(), content in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Kind::of_head(head);
            for kind in Kind::ALL {
                let _ = Message::decode(kind, content.clone());
            }
        }
    }
}
