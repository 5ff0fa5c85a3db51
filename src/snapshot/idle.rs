//! How many connections to its origins does a pool keep in this process, where its section leaves that to us?

use nix::sys::resource::{Resource, getrlimit};

use crate::config::units::Auto;
use crate::config::{self, Process, idle};
use crate::pool::Pool;

/// What the process has for them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Idle {
    shards: usize,
    descriptors: u64,
}

impl Idle {
    pub(super) fn of(process: &Process) -> Self {
        // the start raises the limit to the hard one
        let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(_, hard)| hard);
        Self { shards: process.shards(), descriptors }
    }

    /// The pool, which keeps as many as its section says, or enough.
    pub(super) fn settled(self, mut pool: Pool, written: &config::Pool) -> Pool {
        if written.connections.keepalive == Auto::Auto {
            pool.keep_idle(idle::enough(pool.members().len(), self.shards, self.descriptors));
        }
        pool
    }
}
