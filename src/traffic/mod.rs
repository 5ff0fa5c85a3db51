//! What may this client ask of us, and which headers go on?
//!
//! A head that Pingora would refuse for its spelling alone is respelt before ([`respell`]), and cookies that came apart are
//! put together ([`crumbs`]). Checks answer a [`Denial`],
//! never a status: what a denial looks like on the wire is the proxy's. In their order:
//! the target as it stands on the wire ([`target`]), the size of the header and its Host ([`limits`]), what ends its body
//! ([`framing`]) and what is said of this hop ([`hop`]), each where there is such a header at all ([`noted`]), then who asks ([`client`]). Who that is, behind proxies, is told
//! by [`proxy_header`] at the start of a connection and by [`caller`] in a request. What goes on is shaped by
//! [`headers`], without what looks like one of them ([`lookalikes`]); everything else of a request is passed on as it came.
//! What an answer says of its origin's cache is read by [`cache_status`], and whether it is compressed by [`compression`]; where a
//! client is sent that is sent elsewhere, by [`redirect`].

// What a route lets a client ask: how often ([`rate`]; together with other processes: [`shared`]), how much at a time ([`concurrency`]), how fast ([`bandwidth`]).
pub mod bandwidth;
pub mod buckets;
pub mod cache_status;
pub mod caller;
mod cells;
pub mod client;
pub mod compression;
pub mod concurrency;
pub mod crumbs;
pub mod edits;
mod forwarded;
pub mod framing;
mod gcra;
pub mod headers;
pub mod hop;
mod limit_key;
pub mod limits;
pub mod location;
pub mod lookalikes;
mod networks;
pub mod noted;
pub mod proxy_header;
pub mod rate;
pub mod redirect;
pub mod respell;
pub mod rewrite;
mod shared;
pub mod target;

pub use bandwidth::{Pace, slice};
pub use buckets::Buckets;
pub use cache_status::{CacheStatus, Cached};
pub use caller::Callers;
pub use client::Access;
pub use compression::Compression;
pub use concurrency::{Concurrency, Seat};
pub use headers::Forwarding;
pub use limits::Limits;
pub use noted::{Answered, Noted};
pub use rate::{Asked, Over, Rate};
pub use redirect::Redirect;
pub use rewrite::Rewrite;
pub use target::Target;

/// Why a request is turned away before a route's pool is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Denial {
    /// The request line holds no target, or one with a space, a control byte or `#`, or in no form we take.
    #[error("the target is malformed")]
    Target,
    /// HTTP/1.1 without a Host.
    #[error("the Host is missing")]
    NoHost,
    /// More than one Host.
    #[error("there is more than one Host")]
    ManyHosts,
    /// A Host that names no host.
    #[error("the Host is malformed")]
    Host,
    /// The end of the body is told twice, or a coding is used that is not undone.
    #[error("the end of the body is not told once")]
    Framing,
    /// `Connection` names what no client may take out, or too much.
    #[error("the Connection header names what it may not")]
    Connection,
    /// The header has too many bytes.
    #[error("the header is too large")]
    HeaderBytes,
    /// The header has too many lines.
    #[error("the header has too many lines")]
    HeaderLines,
    /// The target has too many bytes.
    #[error("the target is too long")]
    UriBytes,
    /// Where the prefix of a path ends cannot be told.
    #[error("where the prefix ends cannot be told")]
    Prefix,
    /// The client's address may not ask.
    #[error("the client's address has no access")]
    Address,
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    /// Lines of a header, in this order.
    pub(super) fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }
}
