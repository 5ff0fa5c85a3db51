//! How many requests does a connection serve now?

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::Wire;

/// A request being served: given back by `Drop`, so that a connection knows when it is idle.
#[derive(Debug)]
#[must_use = "dropping it says that the request is over"]
pub struct Serving(pub(super) Arc<Wire>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.serving.fetch_sub(1, Relaxed);
    }
}
