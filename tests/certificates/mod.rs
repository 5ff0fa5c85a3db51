//! Certificates for tests, made on the spot: of a CA of the test's own or by themselves, with either kind of key, good
//! from and until whenever. By the library that the gateway has anyway.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509NameBuilder};

const DAY: i64 = 86_400;

/// A certificate and its key.
pub(crate) struct Issued {
    pub(crate) cert: X509,
    pub(crate) key: PKey<Private>,
}

/// A certificate to be made; good from a day ago until so many days ahead.
pub(crate) struct Wanted<'a> {
    names: &'a [&'a str],
    rsa: bool,
    days: i64,
    is_ca: bool,
    by: Option<&'a Issued>,
}

/// For these names, with an ECDSA key, good for 90 days; its common name is the first of them.
pub(crate) fn certificate<'a>(names: &'a [&'a str]) -> Wanted<'a> {
    Wanted { names, rsa: false, days: 90, is_ca: false, by: None }
}

/// A CA.
pub(crate) fn authority(name: &str) -> Issued {
    Wanted { is_ca: true, ..certificate(&[name]) }.issue()
}

impl<'a> Wanted<'a> {
    pub(crate) fn rsa(self) -> Self {
        Self { rsa: true, ..self }
    }

    /// Below zero it has expired.
    pub(crate) fn days(self, days: i64) -> Self {
        Self { days, ..self }
    }

    pub(crate) fn by(self, authority: &'a Issued) -> Self {
        Self { by: Some(authority), ..self }
    }

    pub(crate) fn issue(self) -> Issued {
        let key = if self.rsa {
            PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap()
        } else {
            let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
            PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
        };
        let mut builder = X509::builder().unwrap();
        builder.set_version(2).unwrap();
        let mut serial = BigNum::new().unwrap();
        serial.rand(120, MsbOption::MAYBE_ZERO, false).unwrap();
        builder.set_serial_number(&serial.to_asn1_integer().unwrap()).unwrap();
        let mut subject = X509NameBuilder::new().unwrap();
        subject.append_entry_by_nid(Nid::COMMONNAME, self.names[0]).unwrap();
        let subject = subject.build();
        builder.set_subject_name(&subject).unwrap();
        builder.set_issuer_name(self.by.map_or(&subject, |by| by.cert.subject_name())).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        let at = |days: i64| Asn1Time::from_unix(now + days * DAY).unwrap();
        builder.set_not_before(&at(self.days.min(0) - 1)).unwrap();
        builder.set_not_after(&at(self.days)).unwrap();
        builder.set_pubkey(&key).unwrap();
        if self.is_ca {
            builder.append_extension(BasicConstraints::new().critical().ca().build().unwrap()).unwrap();
        } else {
            let mut names = SubjectAlternativeName::new();
            self.names.iter().for_each(|name| _ = names.dns(name));
            let names = names.build(&builder.x509v3_context(None, None)).unwrap();
            builder.append_extension(names).unwrap();
        }
        builder.sign(self.by.map_or(&key, |by| &by.key), MessageDigest::sha256()).unwrap();
        Issued { cert: builder.build(), key }
    }
}

impl Issued {
    /// Writes `NAME.pem` and `NAME.key`, each at once, so that nobody reads half of it.
    pub(crate) fn write(&self, folder: &Path, name: &str) {
        self.write_with(&[], folder, name);
    }

    /// The same with a chain.
    pub(crate) fn write_with(&self, chain: &[&Self], folder: &Path, name: &str) {
        let mut pem = self.cert.to_pem().unwrap();
        chain.iter().for_each(|one| pem.extend(one.cert.to_pem().unwrap()));
        for (kind, bytes) in [("key", self.key.private_key_to_pem_pkcs8().unwrap()), ("pem", pem)] {
            let (new, file) = (folder.join(format!("{name}.{kind}.new")), folder.join(format!("{name}.{kind}")));
            fs::write(&new, bytes).unwrap();
            fs::rename(&new, &file).unwrap();
        }
    }

    /// What it is known by: SHA-256 in hex.
    pub(crate) fn fingerprint(&self) -> String {
        self.cert.digest(MessageDigest::sha256()).unwrap().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
