//! Which headers that decide about a request has it? One look at all names takes the place of a search for each, most of
//! which find nothing.

use http::HeaderMap;

/// What there is at least one line of.
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
}

impl Noted {
    /// Of these headers.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut noted = Self::default();
        for name in headers.keys() {
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
            ("Accept-Encoding", none),
            ("Connections", none),
        ] {
            assert_eq!(Noted::of(&headers(&[("host", "a"), (name, ""), ("x-last", "b")])), noted, "{name}");
        }
    }
}
