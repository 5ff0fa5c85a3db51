//! What can go wrong with a request? One word for each, the same in log, metric and answer.

/// The enum, the list of its values and their words, from one list.
macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// Error classes: public words.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Class {
            $($(#[$doc])* $name,)*
        }

        impl Class {
            /// Every class, each once.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The word for logs, metrics and `Proxy-Status`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

classes! {
    /// Refused or unreachable: no connection, nothing sent.
    ConnectRefused = "connect_refused",
    /// No connection in time.
    ConnectTimeout = "connect_timeout",
    /// No TLS session.
    TlsFailed = "tls_failed",
    /// The other side of a TLS connection is not who it has to be.
    Untrusted = "tls_failed",
    /// A pooled connection closed before a byte came back.
    Stale = "stale",
    /// The origin did not process the request and said so, by GOAWAY or REFUSED_STREAM of HTTP/2, or its connection took
    /// no stream for it.
    Unprocessed = "stale",
    /// A connection ended before HTTP/2 was spoken on it: nothing was sent.
    Unspoken = "reset",
    /// A connection closed before the header was whole.
    Reset = "reset",
    /// The origin was silent for too long, or took nothing of the request for too long.
    ResponseTimeout = "response_timeout",
    /// The time that the client gave the request (`grpc-timeout`) was over.
    Deadline = "deadline",
    /// The origin closed after its header, before the end of its body.
    ClosedEarly = "closed_early",
    /// What came back was no HTTP.
    InvalidResponse = "invalid_response",
    /// No origin could be asked.
    NoOrigin = "no_origin",
    /// The client went away.
    ClientGone = "client_gone",
    /// The client stopped sending.
    ClientTimeout = "client_timeout",
    /// The process left, and the time for what still ran was over.
    DrainTimeout = "drain_timeout",
    /// The request's body is larger than allowed.
    BodyTooLarge = "body_too_large",
    /// A limit of the operator on what clients may ask.
    Limited = "limited",
    /// A limit of the operator on what origins are asked: each that may be used has as much in flight as it may.
    Saturated = "limited",
    /// Our own descriptors, ports or memory.
    LocalLimit = "local_limit",
    /// The request itself is malformed.
    BadRequest = "bad_request",
    /// No route takes the request.
    NoRoute = "no_route",
    /// The client may not ask.
    Denied = "denied",
    /// The request's header is larger than allowed.
    HeaderTooLarge = "header_too_large",
    /// The request's target is longer than allowed.
    UriTooLong = "uri_too_long",
    /// The method is none that a gateway passes on (CONNECT).
    MethodNotAllowed = "method_not_allowed",
}

impl Class {
    /// A word that no other class has: two limits are one to those outside, as are two ways to fail in TLS, and two to
    /// lose a connection.
    pub(super) const fn tag(self) -> &'static str {
        match self {
            Self::Saturated => "saturated",
            Self::Untrusted => "untrusted",
            Self::Unprocessed => "unprocessed",
            Self::Unspoken => "unspoken",
            other => other.as_str(),
        }
    }

    /// The class that has this tag.
    pub(super) fn tagged(tag: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|class| class.tag() == tag)
    }
}
