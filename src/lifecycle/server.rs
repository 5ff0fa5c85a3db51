//! What runs under Pingora's server? The listeners, and the work beside them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server, ShutdownWatch};
use pingora::services::background::{BackgroundService, background_service};

use tokio::sync::watch;

use super::leave::Leave;
use crate::listeners::Listeners;

/// How long work that failed rests before it begins again.
const REST: Duration = Duration::from_secs(1);

/// Work that goes on until the process leaves: called once, and again if it should panic.
pub type Work = Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// `work` that begins when `turn` is true, and waits for that.
pub fn in_turn(turn: watch::Receiver<bool>, work: Work) -> Work {
    let work = Arc::new(work);
    Box::new(move || {
        let (mut turn, work) = (turn.clone(), work.clone());
        Box::pin(async move {
            // whoever gives turns is gone only when the process is
            let is_ours = turn.wait_for(|turn| *turn).await.is_ok();
            if is_ours {
                work().await;
            }
        })
    })
}

struct Beside {
    name: &'static str,
    work: Work,
}

#[async_trait]
impl BackgroundService for Beside {
    async fn start(&self, _shutdown: ShutdownWatch) {
        loop {
            let Err(ended) = tokio::spawn((self.work)()).await else { return };
            if ended.is_cancelled() {
                return;
            }
            log::error!("{}: {ended}; beginning again", self.name);
            tokio::time::sleep(REST).await;
        }
    }
}

/// Serves until `leave` says that all is over. Each of `work` has a thread of its own.
pub fn serve(listeners: Listeners, work: Vec<(&'static str, Work)>, leave: Leave) {
    let conf = ServerConf {
        grace_period_seconds: Some(0),
        graceful_shutdown_timeout_seconds: Some(0),
        ..ServerConf::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    for (name, work) in work {
        server.add_service(background_service(name, Beside { name, work }));
    }
    server.add_service(listeners);
    server.run(RunArgs { shutdown_signal: Box::new(leave) });
}
