//! What becomes of the requests of a route?

use super::{Split, Upstream};
use crate::config::{Complaint, Config, route};
use crate::observe::Metrics;
use crate::template::{Scope, Template};
use crate::traffic::Redirect;

/// One thing, for every request that the route takes.
#[derive(Debug)]
pub enum Action {
    /// They go to the pool of this number ([`super::Snapshot::upstream`]).
    Pool(usize),
    /// They get an answer of the route's own.
    Respond(Respond),
    /// They are told whether the process is ready.
    Ready,
    /// They are sent elsewhere.
    Redirect(Redirect),
    /// They are shared out over several pools.
    Split(Box<Split>),
}

/// An answer of a route's own.
#[derive(Debug)]
pub struct Respond {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Template,
}

impl Action {
    /// What `written` says. A pool that does not exist was complained of before: it is no action.
    pub(super) fn compile(
        written: &route::Route,
        config: &Config,
        pools: &[Upstream],
        metrics: &Metrics,
    ) -> Result<Self, Option<Complaint>> {
        if let Some(split) = &written.split {
            return Split::compile(written, split, config, pools, metrics).map(|split| Self::Split(Box::new(split)));
        }
        if let Some(redirect) = &written.redirect {
            return Redirect::compile(redirect).map(Self::Redirect).map_err(|found| Some(found.at("redirect.to")));
        }
        match &written.respond {
            Some(respond) if respond.ready => Ok(Self::Ready),
            Some(respond) => Template::compile(&respond.body, Scope::Answer)
                .map(|body| Self::Respond(Respond { status: respond.status, body }))
                .map_err(|found| Some(found.at("respond.body"))),
            None => config.pools.get_index_of(&written.pool).map(Self::Pool).ok_or(None),
        }
    }

    /// The pool of every request, when there is but one.
    pub fn only_pool(&self) -> Option<usize> {
        match self {
            Self::Pool(pool) => Some(*pool),
            Self::Respond(_) | Self::Ready | Self::Redirect(_) | Self::Split(_) => None,
        }
    }
}
