//! What is this request placed by?
//!
//! The key of a pool: a template, the arguments that count, and what happens when a part is missing. Compiled from
//! the pool's section; rendered once a request, into a buffer of the caller's.

use super::{Facts, Need, Scope, Template, args};
use crate::config::pool::{Args, OnMissing};
use crate::config::{Complaint, Invalid, Pool};

/// The compiled key of a pool.
#[derive(Debug, Clone)]
pub struct Key {
    template: Template,
    policy: args::Policy,
    /// `None`: spread.
    on_missing: Option<Template>,
}

/// How a request is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keyed {
    /// By the key that was rendered.
    Key,
    /// It has none: spread over the pool by two choices.
    Spread,
}

impl Key {
    /// Compiles `balance.key`, `balance.on_missing` and `args` of a pool. Paths of complaints begin at the pool.
    pub fn compile(pool: &Pool) -> Result<Self, Vec<Complaint>> {
        let mut complaints = Vec::new();
        let mut template = |text: &str, path: &str| {
            Template::compile(text, Scope::Key).map_err(|invalid| complaints.push(invalid.at(path))).ok()
        };
        let key = template(&pool.balance.key, "balance.key");
        let on_missing = match &pool.balance.on_missing {
            OnMissing::Spread => Some(None),
            OnMissing::Key(text) => template(text, "balance.on_missing").map(Some),
        };
        let policy = args::Policy::compile(&pool.args);
        if let Err(mistakes) = &policy {
            let list = if matches!(pool.args, Args::Keep(_)) { "keep" } else { "drop" };
            let complaint = |(number, invalid): &(usize, Invalid)| invalid.clone().at(format!("args.{list}[{number}]"));
            complaints.extend(mistakes.iter().map(complaint));
        }
        match (key, on_missing, policy) {
            (Some(template), Some(on_missing), Ok(policy)) => Ok(Self { template, policy, on_missing }),
            _ => Err(complaints),
        }
    }

    /// Appends the key of a request. Without one, `out` is left as it was and the request is spread: a part is
    /// missing, or the whole is empty, in the key and in what `on_missing` puts in its place.
    pub fn render(&self, facts: &Facts<'_>, out: &mut Vec<u8>) -> Keyed {
        let start = out.len();
        let found =
            self.templates().any(|template| template.render(facts, &self.policy, out).is_ok() && out.len() > start);
        if found { Keyed::Key } else { Keyed::Spread }
    }

    /// The same for a request of which not all is known; `None` when its key hangs on what is not.
    pub fn render_known(
        &self,
        facts: &Facts<'_>,
        known: &dyn Fn(Need<'_>) -> bool,
        out: &mut Vec<u8>,
    ) -> Option<Keyed> {
        let start = out.len();
        for template in self.templates() {
            if !template.needs().all(known) {
                return None;
            }
            if template.render(facts, &self.policy, out).is_ok() && out.len() > start {
                return Some(Keyed::Key);
            }
        }
        Some(Keyed::Spread)
    }

    /// The part for want of which a request falls to `on_missing`, as written; the whole template when all of it
    /// is empty; `None` when nothing is missing.
    pub fn missing(&self, facts: &Facts<'_>) -> Option<&str> {
        let mut out = Vec::new();
        match self.template.render(facts, &self.policy, &mut out) {
            Err(missing) => Some(missing.part),
            Ok(()) if out.is_empty() => Some(self.template.text()),
            Ok(()) => None,
        }
    }

    /// Does a key depend on who the client is?
    pub fn reads_client(&self) -> bool {
        self.templates().any(Template::reads_client)
    }

    /// Is the argument of this normal name part of a key as one of many: in `{args}`, or in `{uri}`?
    pub fn admits(&self, argument: &[u8]) -> bool {
        self.templates().any(|template| template.reads_uri() || (template.reads_args() && self.policy.admits(argument)))
    }

    fn templates(&self) -> impl Iterator<Item = &Template> {
        std::iter::once(&self.template).chain(&self.on_missing)
    }

    /// The template as written.
    pub fn text(&self) -> &str {
        self.template.text()
    }

    /// The arguments that count, in one line that is equal for policies that do the same.
    pub fn args_text(&self) -> String {
        self.policy.text()
    }

    /// `spread`, or the template that takes the place of a key that is missing.
    pub fn on_missing_text(&self) -> &str {
        self.on_missing.as_ref().map_or("spread", Template::text)
    }
}
