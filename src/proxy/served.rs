//! How many requests has a connection to an origin served, and how old is it?

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Requests served so far on each connection of a shard and since when it is there, by descriptor. A descriptor is used
/// again only after its connection closed, and a new connection begins anew. Pingora knows the age by the wall clock only,
/// which may be set.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<Vec<(u32, Instant)>>);

impl Connections {
    /// One more request on `fd`; answers how many there were, and how old the connection is.
    pub(super) fn count(&self, fd: RawFd, reused: bool, now: Instant) -> (u32, Duration) {
        let Ok(place) = usize::try_from(fd) else { return (0, Duration::ZERO) };
        let mut all = self.0.lock();
        if all.len() <= place {
            all.resize(place + 1, (0, now));
        }
        let (served, since) = all[place];
        all[place] = if reused { (served.saturating_add(1), since) } else { (1, now) };
        let (served, since) = all[place];
        (served, now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::Gateway;

    #[test]
    fn a_connection_counts_its_requests_and_a_new_one_on_its_descriptor_begins_anew() {
        let (connections, start) = (Connections::default(), Gateway::now());
        let count = |fd, reused, seconds| {
            let (served, age) = connections.count(fd, reused, start + Duration::from_secs(seconds));
            (served, age.as_secs())
        };
        assert_eq!(count(7, false, 1), (1, 0));
        assert_eq!(count(7, true, 2), (2, 1));
        assert_eq!(count(3, false, 3), (1, 0));
        assert_eq!(count(7, true, 4), (3, 3));
        assert_eq!(count(7, false, 5), (1, 0));
        assert_eq!(count(7, true, 6), (2, 1));
        assert_eq!(count(-1, false, 7), (0, 0));
    }
}
