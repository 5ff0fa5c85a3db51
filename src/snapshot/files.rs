//! What of a snapshot stands in files that the configuration only names? Certificates and authorities, of clients and of
//! origins. A reload reads them again, also where the text is the same.

use super::past::Past;
use super::{Snapshot, Upstream, under};
use crate::config::{Complaint, Config};
use crate::tls::{Before, Tls};

impl Past<'_> {
    /// What clients that come by TLS are shown.
    pub(super) fn tls(self, config: &Config) -> Result<Tls, Vec<Complaint>> {
        match self {
            Self::Current(snapshot) => Ok(snapshot.tls.clone()),
            // listeners are fixed while the process lives, whatever a file says
            Self::Here(before) => {
                let listeners = &before.config.process.listeners;
                Tls::compile(listeners, &config.certificates, Before::Served(&before.tls))
            }
            Self::Nothing => Tls::compile(&config.process.listeners, &config.certificates, Before::Nothing),
            Self::Told(carried) => {
                let before = carried.tls.as_ref().map_or(Before::Nothing, Before::Told);
                Tls::compile(&config.process.listeners, &config.certificates, before)
            }
        }
    }
}

/// Both, or everything that is wrong with either.
pub(super) fn both<A, B>(
    one: Result<A, Vec<Complaint>>,
    other: Result<B, Vec<Complaint>>,
) -> Result<(A, B), Vec<Complaint>> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (one, other) => Err([one.err(), other.err()].into_iter().flatten().flatten().collect()),
    }
}

impl Snapshot {
    /// What is to be said of it though it serves, by path.
    pub fn warnings(&self) -> impl Iterator<Item = Complaint> {
        let trusts =
            self.pools.iter().filter_map(|upstream| Some((&upstream.pool, upstream.pool.settings().tls.as_ref()?)));
        let trusts = trusts.filter_map(|(pool, trust)| Some(under(pool.name(), trust.warning()?)));
        self.tls.warnings().into_iter().chain(trusts)
    }

    /// What it has otherwise than `old` for what files hold that the configuration names: paths of the sections.
    pub fn read_anew(&self, old: &Self) -> Vec<String> {
        let trust = |upstream: &Upstream| upstream.pool.settings().tls.as_ref().map(|trust| trust.identity());
        let changed = |upstream: &&Upstream| {
            old.named(upstream.pool.name()).is_some_and(|before| trust(before) != trust(upstream))
        };
        let pools = self.pools.iter().filter(changed).map(|upstream| format!("pools.{}.tls", upstream.pool.name()));
        (!self.tls.is(&old.tls)).then(|| "certificates".to_owned()).into_iter().chain(pools).collect()
    }
}
