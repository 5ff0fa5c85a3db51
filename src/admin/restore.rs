//! Is the control socket still at its path? Whoever tidies up `/run` can remove it under a process that goes on, which no
//! command would reach any more and no other process could follow: it is made anew.
//!
//! Always: a path where somebody else's socket is by now is left alone, and what another process answers at is its own
//! to look after.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Gateway;
use super::serve;
use super::socket::Claim;
use super::turn::{Turn, Whose};

/// Between two looks; each costs one `stat`.
const LOOK: Duration = Duration::from_secs(1);

/// The path of the control socket, if there is one.
pub(super) type Claimed = Arc<Mutex<Option<Claim>>>;

/// Makes it anew whenever it is gone, as long as this process is asked there; `served` answers at it.
pub(super) async fn keep(mut served: JoinHandle<()>, claim: Claimed, turn: Turn, gateway: Arc<Gateway>) {
    let mut troubled = false;
    while turn.whose() != Whose::Passed {
        sleep(LOOK).await;
        if turn.whose() != Whose::Ours {
            continue;
        }
        let made = claim.lock().as_mut().and_then(Claim::again);
        let Some(made) = made else {
            troubled = false;
            continue;
        };
        match made.and_then(|(listener, next)| Ok((answer(listener, &turn, &gateway)?, next))) {
            Ok((serving, next)) => {
                log::warn!("the control socket had been removed: it is made anew");
                served.abort();
                served = serving;
                (gateway.made_anew)(next);
            }
            Err(error) => tell(&error, &mut troubled),
        }
    }
}

/// Answers at `listener`; to be called inside the runtime.
pub(super) fn answer(listener: UnixListener, turn: &Turn, gateway: &Arc<Gateway>) -> io::Result<JoinHandle<()>> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    Ok(tokio::spawn(serve::local(listener, turn.clone(), Arc::clone(gateway))))
}

/// It is tried again and again, and told of once.
fn tell(error: &io::Error, troubled: &mut bool) {
    if !*troubled {
        log::error!("the control socket had been removed, and cannot be made anew: {error}");
    }
    *troubled = true;
}

/// The descriptor the next process is to get in the place of the one before.
pub type MadeAnew = dyn Fn(OwnedFd) + Send + Sync;
