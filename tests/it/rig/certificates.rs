//! An authority of the test's own, and what it signs.

use std::fs;
use std::path::Path;

use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509Name, X509NameBuilder};

/// Signs certificates.
pub(crate) struct Authority {
    certificate: X509,
    key: PKey<Private>,
}

/// A certificate and its key.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: X509,
    pub(crate) key: PKey<Private>,
}

fn key() -> PKey<Private> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
}

fn named(name: &str) -> X509Name {
    let mut builder = X509NameBuilder::new().unwrap();
    builder.append_entry_by_text("CN", name).unwrap();
    builder.build()
}

/// A certificate begun: its name, its key, and from when (in seconds from now) to when it holds.
fn begun(name: &str, key: &PKey<Private>, (from, to): (i64, i64)) -> X509Builder {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().cast_signed();
    let mut serial = BigNum::new().unwrap();
    serial.rand(159, MsbOption::MAYBE_ZERO, false).unwrap();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder.set_serial_number(&serial.to_asn1_integer().unwrap()).unwrap();
    builder.set_subject_name(&named(name)).unwrap();
    builder.set_pubkey(key).unwrap();
    builder.set_not_before(&Asn1Time::from_unix(now + from).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::from_unix(now + to).unwrap()).unwrap();
    builder
}

const DAY: i64 = 86_400;

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = key();
        let mut builder = begun(name, &key, (-DAY, DAY));
        builder.set_issuer_name(&named(name)).unwrap();
        builder.append_extension(BasicConstraints::new().critical().ca().build().unwrap()).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        Self { certificate: builder.build(), key }
    }

    /// A certificate for this name, that holds now.
    pub(crate) fn issue(&self, name: &str) -> Identity {
        self.issue_for(name, (-DAY, DAY))
    }

    /// One that holds from and to so many seconds from now.
    pub(crate) fn issue_for(&self, name: &str, holds: (i64, i64)) -> Identity {
        let key = key();
        let mut builder = begun(name, &key, holds);
        builder.set_issuer_name(self.certificate.subject_name()).unwrap();
        let names =
            SubjectAlternativeName::new().dns(name).build(&builder.x509v3_context(Some(&self.certificate), None));
        builder.append_extension(names.unwrap()).unwrap();
        builder.sign(&self.key, MessageDigest::sha256()).unwrap();
        Identity { certificate: builder.build(), key }
    }

    pub(crate) fn pem(&self) -> Vec<u8> {
        self.certificate.to_pem().unwrap()
    }

    pub(crate) fn certificate(&self) -> &X509 {
        &self.certificate
    }
}

impl Identity {
    /// Writes `CERTIFICATE.pem` and `KEY.pem` into a folder.
    pub(crate) fn write(&self, folder: &Path, certificate: &str, key: &str) {
        fs::write(folder.join(format!("{certificate}.pem")), self.certificate.to_pem().unwrap()).unwrap();
        fs::write(folder.join(format!("{key}.pem")), self.key.private_key_to_pem_pkcs8().unwrap()).unwrap();
    }
}
