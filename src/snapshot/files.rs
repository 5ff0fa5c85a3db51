//! What of a snapshot stands in files that the configuration only names? Certificates and authorities, of clients and of
//! origins. A reload reads them again, also where the text is the same.

use super::past::Past;
use super::{Snapshot, Upstream, under};
use crate::config::{Complaint, Config};
use crate::pool::Pool;
use crate::tls::{Before, Tls};
use crate::trust::Trust;

impl Past<'_> {
    /// What clients that come by TLS are shown.
    pub(super) fn tls(self, config: &Config) -> Result<Tls, Vec<Complaint>> {
        match self {
            Self::Current(snapshot) => Ok(snapshot.tls.clone()),
            // listeners are fixed while the process lives, whatever a file says
            Self::Here(before) | Self::Renewed(before) => {
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

impl Past<'_> {
    /// May origins of `pool` be shown what it shows? A certificate that has expired may go on to be shown, to whomever it
    /// is; any other may not. Where nothing is in force nobody knows.
    pub(super) fn takes(self, pool: &Pool) -> Result<(), Complaint> {
        let (Self::Here(before), Some(trust)) = (self, pool.settings().tls.as_ref()) else { return Ok(()) };
        let Some(expired) = trust.warning() else { return Ok(()) };
        let is_shown = before.trusts().any(|(_, shown)| shown.shows_what(trust));
        if is_shown { Ok(()) } else { Err(under(pool.name(), expired)) }
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
        let trusts = self.trusts().filter_map(|(pool, trust)| Some(under(pool.name(), trust.warning()?)));
        self.tls.warnings().into_iter().chain(trusts)
    }

    /// How pools speak TLS that do.
    fn trusts(&self) -> impl Iterator<Item = (&Pool, &Trust)> {
        self.pools.iter().filter_map(|upstream| Some((&upstream.pool, &**upstream.pool.settings().tls.as_ref()?)))
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
