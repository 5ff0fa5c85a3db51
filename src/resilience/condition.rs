//! After which failures do the conditions of a list ask for another try?

use http::Method;

use super::{Class, Failure, Reason};
use crate::config::route::Condition;

/// The conditions that hold for a method, `non_idempotent` already worked in.
#[derive(Debug, Clone, Default)]
pub(super) struct Conditions {
    connect: bool,
    stale: bool,
    reset: bool,
    timeout: bool,
    any_5xx: bool,
    statuses: Vec<u16>,
}

impl Conditions {
    /// `repeatable`: the methods these stand for may be processed twice without harm.
    pub(super) fn of<'a>(listed: impl IntoIterator<Item = &'a Condition> + Copy, repeatable: bool) -> Self {
        let after_sending = repeatable || listed.into_iter().any(|one| *one == Condition::NonIdempotent);
        let mut held = Self::default();
        for condition in listed {
            match condition {
                Condition::Connect => held.connect = true,
                Condition::Stale => held.stale = after_sending,
                Condition::Reset => held.reset = after_sending,
                Condition::Timeout => held.timeout = after_sending,
                Condition::Status5xx => held.any_5xx = after_sending,
                Condition::Status(status) if after_sending => held.statuses.push(*status),
                Condition::Status(_) | Condition::NonIdempotent => {}
            }
        }
        held
    }

    /// Does any of them name a status?
    pub(super) fn name_a_status(&self) -> bool {
        self.any_5xx || !self.statuses.is_empty()
    }

    /// Do they ask for another try after `failure`?
    pub(super) fn hold(&self, reason: Reason, failure: Failure) -> bool {
        match (reason, failure) {
            (Reason::Connect, _) => self.connect,
            // Not processed is as good as not sent.
            (Reason::Stale, Failure::Class(Class::Unprocessed)) => self.stale || self.connect,
            (Reason::Stale, _) => self.stale,
            (Reason::Reset, _) => self.reset,
            (Reason::Timeout, _) => self.timeout,
            (Reason::Status, Failure::Status(status)) => {
                self.statuses.contains(&status) || (self.any_5xx && (500..600).contains(&status))
            }
            (Reason::Status, Failure::Class(_)) => false,
        }
    }
}

/// Named on its own in `methods`, a method is its operator's word, save these two: an origin that read a whole body
/// and then closed looks just like a stale connection.
pub(super) fn repeatable(method: &Method) -> bool {
    !matches!(*method, Method::POST | Method::PATCH)
}
