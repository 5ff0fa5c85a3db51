//! Does an origin close idle connections before we do?
//!
//! A request that meets such a close on a kept connection is sent once more where that is allowed, and fails where it is
//! not. Some origins say how long they keep one (`Keep-Alive: timeout=5`): that is held against `keepalive_timeout`, and
//! told of once an origin. An origin that says nothing costs one look for the header.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::ctx::Ctx;

static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// Warns, once an origin, when what it announces is not above what the pool waits.
pub(super) fn compare(headers: &HeaderMap, ctx: &Ctx) {
    let Some(value) = headers.get(&KEEP_ALIVE) else { return };
    let (Some(running), Some((_, upstream))) = (&ctx.running, ctx.target()) else { return };
    let origin = running.lease.origin();
    if origin.keepalive_warned() {
        return;
    }
    let ours = upstream.pool.settings().connections.keepalive_timeout;
    let Some(theirs) = announced(value.as_bytes()).filter(|theirs| *theirs <= ours) else { return };
    if origin.warn_of_keepalive() {
        let (pool, name, below) = (origin.pool(), origin.name(), advised(theirs));
        log::warn!(
            "pool {pool}: origin {name} closes idle connections after {theirs:?} (its Keep-Alive), and keepalive_timeout \
             is {ours:?}: a request may meet the close; set pools.{pool}.connections.keepalive_timeout to {below:?}, or \
             let the origin keep them for longer"
        );
    }
}

/// The time in `timeout=5, max=100`. Nothing is said by a zero, which some send for "for ever".
fn announced(value: &[u8]) -> Option<Duration> {
    let time = value.split(|byte| *byte == b',').find_map(|part| {
        let (name, time) = std::str::from_utf8(part).ok()?.split_once('=')?;
        name.trim().eq_ignore_ascii_case("timeout").then(|| time.trim().trim_matches('"'))
    })?;
    time.parse().ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

/// Below what was announced, by as much as a request may be on its way.
fn advised(announced: Duration) -> Duration {
    announced.checked_sub(Duration::from_secs(1)).filter(|less| !less.is_zero()).unwrap_or(announced / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_however_it_is_written() {
        for (value, seconds) in [
            ("timeout=5", Some(5)),
            ("timeout=5, max=100", Some(5)),
            ("max=100,  Timeout = \"7\" ", Some(7)),
            ("timeout=0", None),
            ("timeout=-1", None),
            ("timeout=99999999999999999999", None),
            ("max=100", None),
            ("timeout", None),
            ("", None),
        ] {
            assert_eq!(announced(value.as_bytes()), seconds.map(Duration::from_secs), "{value}");
        }
        assert_eq!(announced(b"\xff, timeout=5"), Some(Duration::from_secs(5)));
    }

    #[test]
    fn less_is_advised_than_was_announced() {
        let advice = [1, 2, 5].map(|seconds| advised(Duration::from_secs(seconds)).as_millis());
        assert_eq!(advice, [500, 1000, 4000]);
    }
}
