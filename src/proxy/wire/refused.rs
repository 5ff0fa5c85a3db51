//! Which requests of an HTTP/2 connection ended before any hook saw them?
//!
//! Pingora refuses a stream, or a connection ends while one is under way; the loop that serves the connection tells of
//! them, since it alone knows whom to tell.

use std::time::Duration;

use parking_lot::Mutex;

use super::{Fault, Unheard, Wire};
use crate::observe::RequestId;

/// Those not told of yet; a box, since nearly no connection has any.
#[derive(Debug, Default)]
pub(super) struct Refused(Mutex<Option<Box<Untold>>>);

#[derive(Debug, Default)]
struct Untold(Vec<(Fault, RequestId, Duration)>);

impl Wire {
    /// A request ended for this, so long after its first byte: the id our answer gives it.
    pub fn refused(&self, fault: Fault, took: Duration) -> RequestId {
        let id = RequestId::random();
        self.refused.0.lock().get_or_insert_default().0.push((fault, id, took));
        id
    }

    /// Tells of each of them.
    pub fn each_refused(&self, tell: impl Fn(Unheard<'_>)) {
        let untold = self.refused.0.lock().take();
        for (fault, request_id, took) in untold.into_iter().flat_map(|untold| untold.0) {
            tell(Unheard { wire: self, fault, head: b"", request_id, took });
        }
    }
}
