//! Whom do we believe to be an origin over TLS, and who are we to it?
//!
//! A [`Trust`] is compiled from the `tls` section of a pool with what its files hold, so that a broken file is a mistake
//! of the configuration and never of a request. It has an identity of all that: connections are reused only under the
//! trust they were made under. Pingora builds the store of authorities anew for each connect; of a few authorities of
//! one's own that takes microseconds, beside a handshake of a millisecond.

mod pem;

use std::fmt;
use std::sync::Arc;

use pingora_core::protocols::Digest;
use pingora_core::protocols::tls::{CaType, HandshakeCompleteHook, TlsRef};
use pingora_core::upstreams::peer::HttpPeer;
use sha2::{Digest as _, Sha256};

use crate::config::Complaint;
use crate::config::pool::{OriginTls, Pool, Protocol};

use pem::{Own, authorities};

/// How TLS is spoken to the origins of a pool.
pub struct Trust {
    written: OriginTls,
    h2: bool,
    sni: String,
    ca: Option<Arc<CaType>>,
    own: Option<Own>,
    identity: u64,
    /// Tells whether HTTP/2 was agreed on.
    looks_at_alpn: Option<HandshakeCompleteHook>,
}

/// The origin agreed to no HTTP/2.
struct NoHttp2;

/// What is taken over from the snapshot before.
#[derive(Clone, Copy, Default)]
pub struct Former<'a> {
    /// The same pool's.
    pub trust: Option<&'a Arc<Trust>>,
    /// The section is the same one: files are not read again.
    pub stays: bool,
}

impl Trust {
    /// The `tls` section of a pool, if it has one. Paths of complaints begin at the pool.
    ///
    /// # Errors
    /// A file cannot be read, or holds something else than it should.
    pub fn compile(written: &Pool, former: Former<'_>) -> Result<Option<Arc<Self>>, Vec<Complaint>> {
        let Some(tls) = written.tls.on() else { return Ok(None) };
        let h2 = written.protocol == Protocol::H2;
        let same = |trust: &&Arc<Self>| former.stays && trust.written == *tls && trust.h2 == h2;
        if let Some(trust) = former.trust.filter(same) {
            return Ok(Some(Arc::clone(trust)));
        }
        let ca = tls.ca.as_ref().map(|file| authorities(file).map_err(|invalid| invalid.at("tls.ca"))).transpose();
        let own = tls.cert.as_ref().zip(tls.key.as_ref());
        let own = own.map(|(cert, key)| Own::read(cert, key)).transpose();
        match (ca, own) {
            (Ok(ca), Ok(own)) => Ok(Some(Arc::new(Self::new(tls, h2, ca, own)))),
            (ca, own) => Err(ca.err().into_iter().chain(own.err()).collect()),
        }
    }

    fn new(tls: &OriginTls, h2: bool, ca: Option<CaType>, own: Option<Own>) -> Self {
        let sni = tls.sni.as_ref().map(|name| name.0.clone()).unwrap_or_default();
        let mut all = Sha256::new();
        all.update([u8::from(tls.verify), u8::from(h2), u8::from(ca.is_some()), u8::from(own.is_some())]);
        all.update(&sni);
        for authority in ca.iter().flatten() {
            all.update(authority.to_der().unwrap_or_default());
        }
        if let Some(own) = &own {
            all.update(own.digest());
        }
        let [a, b, c, d, e, f, g, h, ..]: [u8; 32] = all.finalize().into();
        Self {
            identity: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            looks_at_alpn: h2.then(|| Arc::new(agreed) as HandshakeCompleteHook),
            ca: ca.map(Arc::new),
            written: tls.clone(),
            h2,
            sni,
            own,
        }
    }

    /// Equal for what makes equal connections.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// The name that is asked for; empty: none.
    pub fn sni(&self) -> &str {
        &self.sni
    }

    /// Is HTTP/2 spoken?
    pub fn h2(&self) -> bool {
        self.h2
    }

    /// Is the certificate we show the one that `other` shows?
    pub fn shows_what(&self, other: &Self) -> bool {
        let digest = |trust: &Self| trust.own.as_ref().map(|own| *own.digest());
        digest(self) == digest(other)
    }

    /// What is to be said of it though it serves: the certificate we show has expired.
    pub fn warning(&self) -> Option<Complaint> {
        self.own.as_ref()?.expired().map(|invalid| invalid.at("tls.cert"))
    }

    /// Has a peer, made with [`sni`](Self::sni), connected to under this trust. Its group has to tell the identity.
    pub fn govern(&self, peer: &mut HttpPeer) {
        let options = &mut peer.options;
        options.verify_cert = self.written.verify;
        options.verify_hostname = self.written.verify;
        options.ca.clone_from(&self.ca);
        options.upstream_tls_handshake_complete_hook.clone_from(&self.looks_at_alpn);
        peer.client_cert_key = self.own.as_ref().map(Own::shown);
    }

    /// HTTP/2 was wanted, and the other side did not agree to it.
    pub fn lacks_h2(&self, digest: Option<&Digest>) -> bool {
        let tls = digest.filter(|_| self.h2).and_then(|digest| digest.ssl_digest.as_ref());
        tls.is_some_and(|tls| tls.extension.get::<NoHttp2>().is_some())
    }
}

/// A connection that could not be used is marked.
fn agreed(tls: &TlsRef) -> Option<Arc<dyn std::any::Any + Send + Sync>> {
    (tls.selected_alpn_protocol() != Some(b"h2")).then(|| Arc::new(NoHttp2) as _)
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").field("written", &self.written).field("h2", &self.h2).finish_non_exhaustive()
    }
}
