//! What are session tickets sealed with?
//!
//! A client keeps its session itself, in a ticket that only we can open: with the same keys another replica, or the process
//! that follows this one, opens it too. The first key seals, all of them open; a ticket that a later one opened is sealed
//! anew. Keys stay in memory as long as the process lives: connections of any age may ask for them, and they are few.

use std::fmt;
use std::time::{Duration, SystemTime};

use openssl::base64;
use openssl::error::ErrorStack;
use openssl::rand::rand_bytes;
use serde::{Deserialize, Serialize};

/// Bytes of a key with AES-256, and with AES-128.
const LONG: usize = 80;
const SHORT: usize = 48;

/// By these a ticket names its key.
const NAME: usize = 16;

/// How long keys of our own seal: whoever learns one of them later opens sessions of half a day.
const TURN: Duration = Duration::from_secs(12 * 3600);

/// Keys, the first of which seals.
pub(super) struct Keys(Vec<Key>);

/// One key.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) name: [u8; NAME],
    /// Of AES-CBC: 32 bytes or 16.
    pub(super) cipher: Vec<u8>,
    /// Of HMAC-SHA256.
    pub(super) mac: Vec<u8>,
    all: Vec<u8>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

impl Key {
    /// In nginx's order: AES-256 behind its MAC, AES-128 before it.
    fn of(all: &[u8]) -> Option<Self> {
        let (name, rest) = all.split_first_chunk()?;
        let (cipher, mac) = match all.len() {
            LONG => (rest.get(32..)?, rest.get(..32)?),
            SHORT => (rest.get(..16)?, rest.get(16..)?),
            _ => return None,
        };
        Some(Self { name: *name, cipher: cipher.into(), mac: mac.into(), all: all.into() })
    }

    fn random() -> Result<Self, ErrorStack> {
        let mut all = [0; LONG];
        rand_bytes(&mut all)?;
        // as many bytes as a key has
        Self::of(&all).ok_or_else(ErrorStack::get)
    }
}

impl Keys {
    /// Those of a file: keys of 80 or of 48 bytes one behind the other, or one a line in base64.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let lines = || std::str::from_utf8(bytes).ok().map(|text| text.lines().filter(|line| !line.trim().is_empty()));
        let in_lines =
            || lines()?.map(|line| Key::of(&base64::decode_block(line.trim()).ok()?)).collect::<Option<Vec<_>>>();
        let one_by_one = || {
            let size = [LONG, SHORT].into_iter().find(|size| bytes.len().is_multiple_of(*size))?;
            bytes.chunks(size).map(Key::of).collect::<Option<Vec<_>>>()
        };
        in_lines().or_else(one_by_one).filter(|keys| !keys.is_empty()).map(Self)
    }

    /// As bytes, the first first.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|key| &key.all).copied().collect()
    }

    pub(super) fn first(&self) -> Option<&Key> {
        self.0.first()
    }

    /// The key of this name, and whether it is the first.
    pub(super) fn named(&self, name: &[u8]) -> Option<(&Key, bool)> {
        let at = self.0.iter().position(|key| key.name == name)?;
        Some((self.0.get(at)?, at == 0))
    }

    pub(super) fn kept(self) -> &'static Self {
        Box::leak(Box::new(self))
    }
}

/// Keys of our own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own {
    pub(super) keys: &'static Keys,
    since: SystemTime,
}

/// What the next process is told of them.
#[derive(Clone, Serialize, Deserialize)]
pub struct Carried {
    keys: String,
    since: SystemTime,
}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("keys of tickets")
    }
}

impl Own {
    /// Those that go on from `before`; new ones when they had their turn, or there are none.
    pub(super) fn after(before: Option<Self>, now: SystemTime) -> Result<Self, ErrorStack> {
        let old = before.map(|own| own.keys);
        match before {
            Some(own) if now.duration_since(own.since).is_ok_and(|age| age < TURN) => Ok(own),
            _ => {
                let keys = [Key::random()?].into_iter().chain(old.and_then(Keys::first).cloned()).collect();
                Ok(Self { keys: Keys(keys).kept(), since: now })
            }
        }
    }

    pub(super) fn export(self) -> Carried {
        Carried { keys: base64::encode_block(&self.keys.bytes()), since: self.since }
    }

    /// Those of the process before.
    pub(super) fn told(told: &Carried) -> Option<Self> {
        let keys = Keys::read(&base64::decode_block(&told.keys).ok()?)?.kept();
        Some(Self { keys, since: told.since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(bytes: &[u8]) -> Option<Vec<usize>> {
        Keys::read(bytes).map(|keys| keys.0.iter().map(|key| key.cipher.len()).collect())
    }

    #[test]
    fn a_file_is_read_as_others_write_it() {
        let bytes: Vec<u8> = (0..=255).cycle().take(480).collect();
        assert_eq!(sizes(&bytes[..80]), Some(vec![32]));
        assert_eq!(sizes(&bytes[..48]), Some(vec![16]));
        assert_eq!(sizes(&bytes[..160]), Some(vec![32, 32]));
        assert_eq!(sizes(&bytes[..96]), Some(vec![16, 16]));
        let lines = format!("{}\n{}\n", base64::encode_block(&bytes[..80]), base64::encode_block(&bytes[80..128]));
        assert_eq!(sizes(lines.as_bytes()), Some(vec![32, 16]));
        for wrong in [&bytes[..0], &bytes[..79], b"secret\n", &bytes[..81]] {
            assert_eq!(sizes(wrong), None, "{wrong:?}");
        }
        let keys = Keys::read(&bytes[..160]).unwrap();
        assert_eq!(keys.bytes(), bytes[..160]);
        let first = keys.first().unwrap();
        assert_eq!(
            (&first.name[..], &first.mac[..], &first.cipher[..]),
            (&bytes[..16], &bytes[16..48], &bytes[48..80])
        );
        assert!(keys.named(&bytes[80..96]).is_some_and(|(_, is_first)| !is_first) && keys.named(b"x").is_none());
    }

    #[test]
    fn keys_of_our_own_take_turns_and_go_on_elsewhere() {
        let start = SystemTime::now();
        let first = Own::after(None, start).unwrap();
        assert_eq!(Own::after(Some(first), start + TURN / 2).unwrap().keys.bytes(), first.keys.bytes());
        let second = Own::after(Some(first), start + TURN).unwrap();
        assert_eq!(second.keys.bytes()[LONG..], first.keys.bytes());
        let third = Own::after(Some(second), start + 2 * TURN).unwrap();
        assert_eq!((third.keys.0.len(), &third.keys.bytes()[LONG..]), (2, &second.keys.bytes()[..LONG]));
        let told = serde_json::from_str(&serde_json::to_string(&second.export()).unwrap()).unwrap();
        assert_eq!(Own::told(&told).unwrap().keys.bytes(), second.keys.bytes());
    }
}
