//! What becomes of the requests of a route?

/// One thing, for every request that the route takes.
#[derive(Debug)]
pub enum Action {
    /// They go to the pool of this number ([`super::Snapshot::upstream`]).
    Pool(usize),
}

impl Action {
    /// The pool of every request, when there is but one.
    pub fn only_pool(&self) -> Option<usize> {
        match self {
            Self::Pool(pool) => Some(*pool),
        }
    }
}
