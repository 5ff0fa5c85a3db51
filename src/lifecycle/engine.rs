//! How long does a container engine wait for a process that it told to leave? Less than ours takes by default: so the
//! first process of a container says at its start what has to be set.

use std::time::Duration;

use nix::unistd::{Pid, getpid, getppid};

use crate::config::process::Drain;

/// What Docker and Podman wait before they kill, unless they are told otherwise.
const USUAL: Duration = Duration::from_secs(10);
const FIRST: Pid = Pid::from_raw(1);

/// Warns when this process is the first of a container, by itself or under a supervisor, and may take longer to leave than
/// engines wait.
pub fn warn_of_engines(drain: Drain, supervised: bool) {
    let first = getpid() == FIRST || supervised && getppid() == FIRST;
    if let Some(warning) = warning(drain, first) {
        log::warn!("{warning}");
    }
}

fn warning(drain: Drain, first: bool) -> Option<String> {
    let takes = drain.lame_duck.0 + drain.timeout.0;
    (first && takes > USUAL).then(|| {
        format!(
            "leaving may take {takes:?} (process.drain), and engines kill after {USUAL:?} unless told otherwise: \
             stop_grace_period, --stop-timeout or terminationGracePeriodSeconds"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::units;

    #[test]
    fn the_first_process_warns_when_it_may_be_killed_while_it_drains() {
        let drain = |lame_duck, timeout| Drain {
            lame_duck: units::Duration(Duration::from_secs(lame_duck)),
            timeout: units::Duration(Duration::from_secs(timeout)),
            ..Drain::default()
        };
        let said = warning(drain(8, 15), true).unwrap();
        assert!(said.starts_with("leaving may take 23s") && said.contains("10s"), "{said}");
        assert_eq!(warning(drain(8, 15), false), None, "nobody is in a hurry");
        assert_eq!(warning(drain(2, 8), true), None, "in time");
    }
}
