//! Which pool does a file send a request to?

use http::Method;

use crate::routing;
use crate::snapshot::{Action, Snapshot};
use crate::template::{Facts, Need, path};

/// The pool of a request of which so much is known; `None`: no route takes it, its route has no pool, or which of several it
/// is hangs on what is not known.
pub(super) fn pool_of<'s>(
    snapshot: &'s Snapshot,
    facts: &Facts<'_>,
    known: &dyn Fn(Need<'_>) -> bool,
) -> Option<&'s str> {
    let merged = path::merged(facts.path()).ok()?;
    let method = Method::from_bytes(facts.method.as_bytes()).ok()?;
    let request = routing::Request {
        host: facts.host,
        path: &merged.path,
        method: &method,
        headers: facts.headers,
        query: facts.query().unwrap_or_default(),
        scheme: facts.scheme,
        // By which listener it came in nobody wrote down.
        listener: snapshot.config().process.listeners.first()?.address,
    };
    let pool = match &snapshot.route(snapshot.find(&request)?)?.action {
        Action::Split(split) => split.choose_known(facts, known)?.pool,
        one => one.only_pool()?,
    };
    snapshot.upstream(pool).map(|upstream| &**upstream.pool.name())
}
