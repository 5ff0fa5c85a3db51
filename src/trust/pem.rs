//! What is in a PEM file: authorities, or the certificate we show and its key?

use std::fs;
use std::path::Path;
use std::sync::Arc;

use openssl::asn1::Asn1Time;
use openssl::pkey::{PKey, Private};
use openssl::x509::X509;
use pingora_core::protocols::tls::CaType;
use pingora_core::utils::tls::CertKey;
use sha2::{Digest, Sha256};

use crate::config::{Complaint, Invalid};

const CERTIFICATES: &str = "expected a PEM file of certificates";
const KEY: &str = "expected a PEM file of one private key, without a password";

/// The certificate we show.
pub(super) struct Own {
    shown: Arc<CertKey>,
    digest: [u8; 32],
    /// When it went out of date, if it has.
    expired: Option<String>,
}

/// The authorities in a file.
pub(super) fn authorities(file: &Path) -> Result<CaType, Invalid> {
    certificates(file).map(Vec::into_boxed_slice)
}

impl Own {
    /// Reads a certificate and its key.
    pub(super) fn read(cert: &Path, key: &Path) -> Result<Self, Complaint> {
        let chain = certificates(cert).map_err(|invalid| invalid.at("tls.cert"))?;
        let own = private_key(key).map_err(|invalid| invalid.at("tls.key"))?;
        let Some(leaf) = chain.first() else { return Err(none_in(cert).at("tls.cert")) };
        if !leaf.public_key().is_ok_and(|public| public.public_eq(&own)) {
            let found = format!("{} is not the key of {}", key.display(), cert.display());
            return Err(Invalid::new(found, "expected the key of the first certificate in that file").at("tls.key"));
        }
        let is_over = |now: Asn1Time| *leaf.not_after() < *now;
        let expired = Asn1Time::days_from_now(0).is_ok_and(is_over).then(|| leaf.not_after().to_string());
        let mut all = Sha256::new();
        chain.iter().for_each(|one| all.update(one.to_der().unwrap_or_default()));
        all.update(own.private_key_to_der().unwrap_or_default());
        Ok(Self { shown: Arc::new(CertKey::new(chain, own)), digest: all.finalize().into(), expired })
    }

    pub(super) fn shown(&self) -> Arc<CertKey> {
        Arc::clone(&self.shown)
    }

    /// Of everything that is shown, and its key.
    pub(super) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    pub(super) fn expired(&self) -> Option<Invalid> {
        let at = self.expired.as_ref()?;
        Some(Invalid::new(format!("the certificate expired on {at}"), "origins that look at it will refuse it"))
    }
}

fn read(file: &Path, meant: &str) -> Result<Vec<u8>, Invalid> {
    fs::read(file).map_err(|error| Invalid::new(format!("{}: {error}", file.display()), meant))
}

fn certificates(file: &Path) -> Result<Vec<X509>, Invalid> {
    let read = X509::stack_from_pem(&read(file, CERTIFICATES)?);
    let broken = |error| {
        Invalid::new(format!("{} holds no certificate that can be read: {error}", file.display()), CERTIFICATES)
    };
    let all = read.map_err(broken)?;
    if all.is_empty() { Err(none_in(file)) } else { Ok(all) }
}

fn none_in(file: &Path) -> Invalid {
    Invalid::new(format!("no certificate in {}", file.display()), CERTIFICATES)
}

fn private_key(file: &Path) -> Result<PKey<Private>, Invalid> {
    // An empty password, or the library would ask for one at the terminal.
    PKey::private_key_from_pem_passphrase(&read(file, KEY)?, b"")
        .map_err(|_| Invalid::new(format!("no private key in {}", file.display()), KEY))
}
