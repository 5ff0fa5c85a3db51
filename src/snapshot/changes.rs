//! What does a route change of a request on its way to an origin, and of the answer on its way back?

use crate::config::Complaint;
use crate::config::route::{self, Redirects};
use crate::template::Scope;
use crate::traffic::Rewrite;
use crate::traffic::edits::Edits;

/// The changes of a route, each of them nothing where none is written.
pub struct Changes {
    /// Lines of a request.
    pub request: Option<Edits>,
    /// Lines of an answer.
    pub response: Option<Edits>,
    /// The path an origin gets.
    pub rewrite: Option<Rewrite>,
    /// Places that an origin names are turned into those that the client can reach.
    pub redirects: bool,
}

impl Changes {
    /// Compiles what was written; paths of complaints begin at the route.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(super) fn compile(written: &route::Route) -> Result<Self, Vec<Complaint>> {
        let mut complaints = Vec::new();
        let mut under = |section: &str, found: Vec<Complaint>| {
            complaints
                .extend(found.into_iter().map(|one| Complaint { path: format!("{section}.{}", one.path), ..one }));
            None
        };
        let request = Edits::compile(&written.headers.request, Scope::Value);
        let request = request.unwrap_or_else(|found| under("headers.request", found));
        let response = Edits::compile(&written.headers.response, Scope::Answer);
        let response = response.unwrap_or_else(|found| under("headers.response", found));
        let rewrite = Rewrite::compile(&written.rewrite);
        let rewrite = match rewrite {
            Ok(rewrite) => rewrite,
            Err(found) => {
                complaints.push(Complaint { path: format!("rewrite.{}", found.path), ..found });
                None
            }
        };
        let redirects = written.redirects == Redirects::Rewrite;
        if complaints.is_empty() { Ok(Self { request, response, rewrite, redirects }) } else { Err(complaints) }
    }
}
