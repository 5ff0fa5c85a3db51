//! What does a URL on a command line or in a file ask for?

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::anyhow;
use http::{HeaderMap, HeaderValue};

use super::Usage;
use crate::template::{Facts, host};
use crate::traffic::Target;

/// What a URL says, in the forms templates ask for.
pub(super) struct Request {
    scheme: &'static str,
    host: String,
    host_port: String,
    target: Vec<u8>,
}

/// Why it is no request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wrong {
    /// It is no URL.
    NoUrl,
    /// The gateway would answer such a request itself.
    Refused(String),
}

impl Wrong {
    /// What is wrong with `url`, for whoever wrote it.
    pub(super) fn of(self, url: &str) -> anyhow::Error {
        match self {
            Self::NoUrl => Usage(format!("{url}: expected http://host/path or /path")).into(),
            Self::Refused(why) => anyhow!("{url}: {why}; the gateway answers 400"),
        }
    }
}

impl Request {
    /// `http://host/path?query`, or `/path?query` with the host of `headers`, asked for by `method`.
    pub(super) fn parse(method: &str, url: &str, headers: &HeaderMap) -> Result<Self, Wrong> {
        // What follows a # never leaves a browser.
        let sent = url.split('#').next().unwrap_or_default();
        let scheme =
            if sent.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("https:")) { "https" } else { "http" };
        if !sent.starts_with('/') && sent != "*" && !sent.contains("://") {
            return Err(Wrong::NoUrl);
        }
        let what = "it is neither /path nor http://host/path, or holds a space or control byte";
        let target = Target::parse(method.as_bytes(), sent.as_bytes()).map_err(|_| Wrong::Refused(what.to_owned()))?;
        let from_header = headers.get(http::header::HOST).map(HeaderValue::as_bytes).unwrap_or_default();
        let authority = match target {
            Target::Absolute { authority, .. } => authority,
            _ => from_header,
        };
        let authority = String::from_utf8_lossy(authority);
        if authority.contains('@') {
            return Err(Wrong::Refused("it names a user".to_owned()));
        }
        Ok(Self {
            scheme,
            host: host::normalise(&authority).into_owned(),
            host_port: host::with_port(&authority, scheme).into_owned(),
            target: target.as_received(method.as_bytes()).into_owned(),
        })
    }

    /// The request as templates see it; from nowhere when no client is named.
    pub(super) fn facts<'a>(&'a self, method: &'a str, client: Option<IpAddr>, headers: &'a HeaderMap) -> Facts<'a> {
        let client_ip = client.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        Facts {
            method,
            scheme: self.scheme,
            host: &self.host,
            host_port: &self.host_port,
            target: &self.target,
            headers,
            client_ip,
            peer: SocketAddr::new(client_ip, 0),
        }
    }
}
