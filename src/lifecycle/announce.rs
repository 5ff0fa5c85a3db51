//! What is said of a change of the configuration in the log?

use super::outcome::{ReloadOutcome, told};
use crate::config::{Mistake, Severity};

/// Logs how a wish ended.
pub(super) fn announce(ended: &ReloadOutcome) {
    match ended {
        ReloadOutcome::Applied(now) => log::info!("configuration {} is in force: {}", now.version, told(now)),
        ReloadOutcome::Unchanged(now) => {
            log::info!("configuration {} stays in force: the file says the same", now.version);
        }
        ReloadOutcome::Confirmed(now) => log::info!("configuration {} is confirmed", now.version),
        ReloadOutcome::RolledBack(now) => {
            log::warn!("rolled back: configuration {} is in force: {}", now.version, told(now));
        }
        ReloadOutcome::Reverted(now) => {
            log::warn!("reverted: configuration {} is in force: {}", now.version, told(now));
        }
        ReloadOutcome::Refused { mistakes, .. } => {
            mistakes.iter().for_each(|mistake| log::error!("{mistake}"));
            let plural = if mistakes.len() == 1 { "" } else { "s" };
            log::error!("reload refused, nothing changed: {} mistake{plural}", mistakes.len());
        }
        ReloadOutcome::Guarded { pools, .. } => {
            pools.iter().for_each(|(pool, movement)| log::error!("pool {pool}: {movement}"));
            log::error!("reload refused, nothing changed: more moves than guard.max_moved allows");
        }
        ReloadOutcome::Declined { why } => log::error!("refused, nothing changed: {why}"),
        ReloadOutcome::Failed { why } => log::error!("reload failed, nothing changed: {why}"),
    }
    warn(ended.warnings());
}

/// Logs what a file could do better.
pub fn warn(warnings: &[Mistake]) {
    for warning in warnings {
        // the level says that it is a warning
        let said = Mistake { severity: Severity::Error, ..warning.clone() };
        log::warn!("{said}");
    }
}
