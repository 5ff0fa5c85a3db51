//! Which sockets did the service manager open for us? Socket activation, as systemd has it: `LISTEN_FDS` descriptors from
//! number 3 on for the process `LISTEN_PID`, called as in `LISTEN_FDNAMES`.
//!
//! The service manager keeps its own duplicates: who connects while no process is there waits in their queue.

use std::env;
use std::os::fd::{OwnedFd, RawFd};

use super::inherited::inherited;

/// The number of the first one.
const FIRST: RawFd = 3;
/// More than any process is given; a number above is a mistake.
const MOST: RawFd = 1024;

/// Why the sockets cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ActivationError {
    /// Not how many there are.
    #[error("LISTEN_FDS is {0:?}; expected the number of sockets")]
    Count(String),
    /// One is not there.
    #[error("{name}, which LISTEN_FDS counts, is not open: {cause}")]
    Gone {
        /// What it is called.
        name: String,
        /// What the system says.
        cause: std::io::Error,
    },
}

/// Takes the sockets that were opened for this process, each with its name; to be called before anything is opened, once.
///
/// # Errors
/// What the environment says is not so.
pub fn activated() -> Result<Vec<(String, OwnedFd)>, ActivationError> {
    let numbers = numbers(std::process::id(), |name| env::var(name).ok())?;
    let take = |(name, number)| match inherited(number) {
        Ok(fd) => Ok((name, fd)),
        Err(cause) => Err(ActivationError::Gone { name, cause }),
    };
    numbers.into_iter().map(take).collect()
}

/// The names and numbers of what is meant for the process `own`.
fn numbers(own: u32, says: impl Fn(&str) -> Option<String>) -> Result<Vec<(String, RawFd)>, ActivationError> {
    // a parent that was started so leaves its environment to its children
    if says("LISTEN_PID").and_then(|pid| pid.parse().ok()) != Some(own) {
        return Ok(Vec::new());
    }
    let count = says("LISTEN_FDS").unwrap_or_default();
    let Some(sockets) = count.parse().ok().filter(|count| (0..=MOST).contains(count)) else {
        return Err(ActivationError::Count(count));
    };
    let names = says("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let named = |number: RawFd| match names.next() {
        None | Some("" | "unknown") => (format!("socket {number}"), number),
        Some(name) => (format!("socket {number} ({name})"), number),
    };
    Ok((FIRST..FIRST + sockets).map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pid: &str, fds: &str, names: &str) -> Result<Vec<(String, RawFd)>, String> {
        let says = |name: &str| {
            let value = match name {
                "LISTEN_PID" => pid,
                "LISTEN_FDS" => fds,
                _ => names,
            };
            (!value.is_empty()).then(|| value.to_owned())
        };
        numbers(7, says).map_err(|error| error.to_string())
    }

    #[test]
    fn sockets_for_this_process_are_counted_from_three_and_named() {
        let named = told("7", "3", "http::unknown").unwrap();
        let expected = [("socket 3 (http)", 3), ("socket 4", 4), ("socket 5", 5)];
        assert_eq!(named, expected.map(|(name, number)| (name.to_owned(), number)));
        assert_eq!(told("7", "1", "").unwrap(), [("socket 3".to_owned(), 3)]);
        assert_eq!(told("7", "0", "").unwrap(), []);
    }

    #[test]
    fn those_of_another_process_are_none_of_ours() {
        for pid in ["", "8", "x"] {
            assert_eq!(told(pid, "2", "").unwrap(), [], "{pid}");
        }
    }

    #[test]
    fn a_count_that_is_none_is_told() {
        for count in ["", "x", "-1", "1025", "99999999999999999999"] {
            let said = told("7", count, "").unwrap_err();
            assert_eq!(said, format!("LISTEN_FDS is {count:?}; expected the number of sockets"));
        }
    }
}
