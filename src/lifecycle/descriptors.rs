//! How many descriptors may the process have, and how many clients does that allow?

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::units::Auto;

/// Descriptors that are for everything but clients and their origins.
const RESERVE: u64 = 256;

/// Raises the soft limit of descriptors to the hard one and answers the limit in force.
pub fn raise() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 0 };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(error) => {
            log::warn!("the limit of open files stays {soft}: {error}");
            soft
        }
    }
}

/// Client connections at most, with `descriptors` to be had: each may take one more for its origin.
pub fn max_connections(written: Auto<u32>, descriptors: u64) -> usize {
    let possible = usize::try_from(descriptors.saturating_sub(RESERVE) / 2).unwrap_or(usize::MAX).max(1);
    match written {
        Auto::Auto => possible,
        Auto::Fixed(wanted) => {
            let wanted = wanted as usize;
            if wanted > possible {
                log::warn!("max_connections {wanted} is more than the {possible} that {descriptors} open files allow");
            }
            wanted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_half_of_what_is_left() {
        assert_eq!(max_connections(Auto::Auto, 20_256), 10_000);
        assert_eq!(max_connections(Auto::Auto, 100), 1);
        assert_eq!(max_connections(Auto::Fixed(7), 20_256), 7);
        assert_eq!(max_connections(Auto::Fixed(70_000), 20_256), 70_000, "as the operator wants");
    }
}
