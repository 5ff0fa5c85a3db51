//! How many descriptors may the process have, and how many clients does that allow?

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::units::Auto;

/// Descriptors that are for everything but clients and their origins.
const RESERVE: u64 = 256;

/// What every process may have.
const LEAST: u64 = 1024;

/// With fewer client connections than this somebody has to be told.
const FEW: usize = 128;

/// Raises the soft limit of descriptors to the hard one and answers the limit in force.
pub fn raise() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return LEAST };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(error) => {
            log::warn!("the limit of open files stays {soft}: {error}");
            soft
        }
    }
}

/// Client connections at most, with `descriptors` to be had: each may take one more for its origin. Whatever is written,
/// what probes, reloads and whoever asks for the status need is left.
pub fn max_connections(written: Auto<u32>, descriptors: u64) -> usize {
    let narrow = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).max(1);
    let left = descriptors.saturating_sub(RESERVE);
    let (possible, most) = (narrow(left / 2), narrow(left));
    match written {
        Auto::Auto => {
            if possible < FEW {
                let help = "raise the limit (ulimit -n, LimitNOFILE)";
                log::warn!("{descriptors} open files allow no more than {possible} connections of clients: {help}");
            }
            possible
        }
        Auto::Fixed(wanted) if wanted as usize > most => {
            log::warn!("max_connections {wanted} is {most} here: {descriptors} open files allow no more");
            most
        }
        Auto::Fixed(wanted) => {
            if wanted as usize > possible {
                log::warn!("max_connections {wanted} is more than the {possible} that {descriptors} open files allow");
            }
            wanted as usize
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_never_get_what_probes_and_operators_need() {
        assert_eq!(max_connections(Auto::Fixed(70_000), 20_256), 20_000);
        assert_eq!(max_connections(Auto::Fixed(5_000), 300), 44);
        assert_eq!(max_connections(Auto::Fixed(5_000), 64), 1);
    }

    #[test]
    fn clients_get_half_of_what_is_left() {
        assert_eq!(max_connections(Auto::Auto, 20_256), 10_000);
        assert_eq!(max_connections(Auto::Auto, 100), 1);
        assert_eq!(max_connections(Auto::Fixed(7), 20_256), 7);
        assert_eq!(max_connections(Auto::Fixed(15_000), 20_256), 15_000, "as the operator wants");
    }
}
