//! What does a connection follow? The frames of HTTP/2, or of a WebSocket once it is one, or the pace of an answer; most
//! follow nothing.

use super::super::http2::Http2;
use super::throttle::Throttle;
use crate::proxy::wire::Frames;

/// What is followed, and boxed, since a connection that idles holds this too.
#[derive(Default)]
pub(super) struct Followed(Option<Box<Kind>>);

enum Kind {
    Http2(Http2),
    WebSocket(Frames),
    Pace(Throttle),
}

impl Followed {
    /// HTTP/2, whose next byte is the first.
    pub(super) fn http2_from_the_start() -> Self {
        Self(Some(Box::new(Kind::Http2(Http2::new()))))
    }

    pub(super) fn http2(&self) -> Option<&Http2> {
        match self.0.as_deref()? {
            Kind::Http2(http2) => Some(http2),
            Kind::WebSocket(_) | Kind::Pace(_) => None,
        }
    }

    pub(super) fn http2_mut(&mut self) -> Option<&mut Http2> {
        match self.0.as_deref_mut()? {
            Kind::Http2(http2) => Some(http2),
            Kind::WebSocket(_) | Kind::Pace(_) => None,
        }
    }

    pub(super) fn frames(&self) -> Option<&Frames> {
        match self.0.as_deref()? {
            Kind::WebSocket(frames) => Some(frames),
            Kind::Http2(_) | Kind::Pace(_) => None,
        }
    }

    /// Those of a WebSocket, from now on.
    pub(super) fn frames_mut(&mut self) -> Option<&mut Frames> {
        self.rest();
        match &mut **self.0.get_or_insert_with(|| Box::new(Kind::WebSocket(Frames::default()))) {
            Kind::WebSocket(frames) => Some(frames),
            Kind::Http2(_) | Kind::Pace(_) => None,
        }
    }

    /// The pace of the connection's answer of that number; none where frames are followed.
    pub(super) fn pace_mut(&mut self, per_second: u64, answer: u32) -> Option<&mut Throttle> {
        let kind = &mut **self.0.get_or_insert_with(|| Box::new(Kind::Pace(Throttle::new(per_second, answer))));
        let Kind::Pace(throttle) = kind else { return None };
        if throttle.answer() != answer {
            *throttle = Throttle::new(per_second, answer);
        }
        Some(throttle)
    }

    /// No answer is under way.
    pub(super) fn rest(&mut self) {
        if matches!(self.0.as_deref(), Some(Kind::Pace(_))) {
            self.0 = None;
        }
    }
}
