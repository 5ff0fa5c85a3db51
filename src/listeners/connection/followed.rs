//! Which frames does a connection follow? Those of HTTP/2, or of a WebSocket once it is one; most follow none.

use super::super::http2::Http2;
use crate::proxy::wire::Frames;

/// What is followed, and boxed, since a connection that idles holds this too.
#[derive(Default)]
pub(super) struct Followed(Option<Box<Kind>>);

enum Kind {
    Http2(Http2),
    WebSocket(Frames),
}

impl Followed {
    /// HTTP/2, whose next byte is the first.
    pub(super) fn http2_from_the_start() -> Self {
        Self(Some(Box::new(Kind::Http2(Http2::new()))))
    }

    pub(super) fn http2(&self) -> Option<&Http2> {
        match self.0.as_deref()? {
            Kind::Http2(http2) => Some(http2),
            Kind::WebSocket(_) => None,
        }
    }

    pub(super) fn http2_mut(&mut self) -> Option<&mut Http2> {
        match self.0.as_deref_mut()? {
            Kind::Http2(http2) => Some(http2),
            Kind::WebSocket(_) => None,
        }
    }

    pub(super) fn frames(&self) -> Option<&Frames> {
        match self.0.as_deref()? {
            Kind::WebSocket(frames) => Some(frames),
            Kind::Http2(_) => None,
        }
    }

    /// Those of a WebSocket, from now on.
    pub(super) fn frames_mut(&mut self) -> Option<&mut Frames> {
        match &mut **self.0.get_or_insert_with(|| Box::new(Kind::WebSocket(Frames::default()))) {
            Kind::WebSocket(frames) => Some(frames),
            Kind::Http2(_) => None,
        }
    }
}
