//! When is it written down how the last minutes go? Every few seconds, while this process serves.

use std::sync::Arc;

use tokio::time::{MissedTickBehavior, interval};

use super::reload::now;
use super::server::Work;
use crate::observe::Minutes;
use crate::observe::minutes::STEP;

/// Writes down what was counted since the time before.
pub fn record(minutes: Arc<Minutes>) -> Work {
    Box::new(move || {
        let minutes = minutes.clone();
        Box::pin(async move {
            let mut ticks = interval(STEP);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                minutes.look(now());
            }
        })
    })
}
