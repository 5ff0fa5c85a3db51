//! Which headers that decide about a message has it? One look at all names takes the place of a search for each, most of
//! which find nothing.

use http::HeaderMap;

use super::headers::is_hop_by_hop;
use super::lookalikes::has_underscore;

/// What a request has at least one line of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Noted {
    /// `Content-Length` or `Transfer-Encoding`: it may have a body.
    pub framing: bool,
    /// `Connection`.
    pub connection: bool,
    /// `Upgrade`.
    pub upgrade: bool,
    /// `Content-Type`.
    pub kind: bool,
    /// `Accept`.
    pub accept: bool,
    /// `X-Request-ID`.
    pub id: bool,
    /// A name with an underscore.
    pub underscore: bool,
}

impl Noted {
    /// Of these headers.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut noted = Self::default();
        for name in headers.keys() {
            noted.underscore |= has_underscore(name);
            match name.as_str() {
                "content-length" | "transfer-encoding" => noted.framing = true,
                "connection" => noted.connection = true,
                "upgrade" => noted.upgrade = true,
                "content-type" => noted.kind = true,
                "accept" => noted.accept = true,
                "x-request-id" => noted.id = true,
                _ => {}
            }
        }
        noted
    }
}

/// What an answer has at least one line of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answered {
    /// `Transfer-Encoding`.
    pub coding: bool,
    /// `Keep-Alive`.
    pub keep_alive: bool,
    /// What is meant for the hop behind us alone.
    pub one_hop: bool,
}

impl Answered {
    /// Of these headers.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut noted = Self::default();
        for name in headers.keys() {
            noted.one_hop |= is_hop_by_hop(name);
            match name.as_str() {
                "transfer-encoding" => noted.coding = true,
                "keep-alive" => noted.keep_alive = true,
                _ => {}
            }
        }
        noted
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::headers;
    use super::*;

    #[test]
    fn each_is_noted_by_its_name_alone() {
        let none = Noted::default();
        for (name, noted) in [
            ("Content-Length", Noted { framing: true, ..none }),
            ("Transfer-Encoding", Noted { framing: true, ..none }),
            ("Connection", Noted { connection: true, ..none }),
            ("Upgrade", Noted { upgrade: true, ..none }),
            ("Content-Type", Noted { kind: true, ..none }),
            ("Accept", Noted { accept: true, ..none }),
            ("X-Request-ID", Noted { id: true, ..none }),
            ("X_Request_ID", Noted { underscore: true, ..none }),
            ("Accept-Encoding", none),
            ("Connections", none),
        ] {
            assert_eq!(Noted::of(&headers(&[("host", "a"), (name, ""), ("x-last", "b")])), noted, "{name}");
        }
    }

    #[test]
    fn of_an_answer_each_is_noted_as_well() {
        let none = Answered::default();
        for (name, noted) in [
            ("Transfer-Encoding", Answered { coding: true, ..none }),
            ("Keep-Alive", Answered { keep_alive: true, one_hop: true, ..none }),
            ("Connection", Answered { one_hop: true, ..none }),
            ("Proxy-Authentication-Info", Answered { one_hop: true, ..none }),
            ("Content-Length", none),
            ("Transfer", none),
        ] {
            assert_eq!(Answered::of(&headers(&[("server", "a"), (name, ""), ("x-last", "b")])), noted, "{name}");
        }
    }
}
