//! What is in the files of a certificate? Its chain, its key, the names it is for, and how long it may be shown.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use openssl::asn1::{Asn1Time, Asn1TimeRef};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey, Private};
use openssl::ssl::SslRef;
use openssl::x509::{X509, X509Ref};

use crate::config::tls::Certificate as Written;
use crate::config::{Complaint, Invalid};

/// So long before the end it is told that it comes.
const AHEAD: Duration = Duration::from_secs(30 * 86_400);

/// A certificate and its key, as read.
#[derive(Debug)]
pub struct Certificate {
    leaf: X509,
    chain: Vec<X509>,
    key: PKey<Private>,
    names: Vec<Box<str>>,
    mark: Mark,
    valid: (SystemTime, SystemTime),
}

/// What tells one certificate from all others: SHA-256 of it.
pub(super) type Mark = [u8; 32];

impl Certificate {
    /// Reads the files of `written`, which stands at `path`.
    ///
    /// # Errors
    /// What is wrong with either.
    pub(super) fn load(written: &Written, path: &str) -> Result<Self, Complaint> {
        let at = |key: &str| format!("{path}.{key}");
        let of_cert = |found| Invalid::new(found, "expected a certificate in PEM").at(at("cert"));
        let text = read(&written.cert).map_err(of_cert)?;
        let file = written.cert.display();
        let mut chain = X509::stack_from_pem(&text)
            .map_err(|error| of_cert(format!("{file} cannot be read as PEM ({})", reason(&error))))?;
        if chain.is_empty() {
            return Err(of_cert(format!("{file} holds no certificate")));
        }
        let leaf = chain.remove(0);
        let key = Self::key(&written.key).map_err(|invalid| invalid.at(at("key")))?;
        let matches = leaf.public_key().is_ok_and(|public| public.public_eq(&key));
        if !matches {
            let found = format!("{} is not the key of the certificate in {file}", written.key.display());
            let meant = "expected the one it was made with; the certificate comes first in its file, then its chain";
            return Err(Invalid::new(found, meant).at(at("key")));
        }
        Self::of(leaf, chain, key).map_err(|error| of_cert(format!("{file} cannot be used ({})", reason(&error))))
    }

    fn key(file: &Path) -> Result<PKey<Private>, Invalid> {
        let invalid = |found| Invalid::new(found, "expected a private key in PEM without a passphrase");
        let text = read(file).map_err(invalid)?;
        // without this, OpenSSL asks for a passphrase at the terminal
        let nobody_knows = |_: &mut [u8]| Ok(0);
        PKey::private_key_from_pem_callback(&text, nobody_knows)
            .map_err(|error| invalid(format!("{} cannot be read ({})", file.display(), reason(&error))))
    }

    fn of(leaf: X509, chain: Vec<X509>, key: PKey<Private>) -> Result<Self, ErrorStack> {
        let digest = leaf.digest(MessageDigest::sha256())?;
        let mut mark = Mark::default();
        mark.iter_mut().zip(digest.iter()).for_each(|(to, from)| *to = *from);
        let valid = (moment(leaf.not_before())?, moment(leaf.not_after())?);
        Ok(Self { names: names(&leaf), leaf, chain, key, mark, valid })
    }

    /// The names it is for, in small letters.
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// The first of them, which it is called by.
    pub fn name(&self) -> &str {
        self.names.first().map_or("", |name| name)
    }

    /// What kind of key it has.
    pub(super) fn kind(&self) -> Id {
        self.key.id()
    }

    /// The same in a word.
    pub fn key_word(&self) -> &'static str {
        match self.kind() {
            Id::RSA | Id::RSA_PSS => "rsa",
            Id::EC => "ecdsa",
            Id::ED25519 | Id::ED448 => "eddsa",
            _ => "other",
        }
    }

    pub(super) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// From when on it may be shown.
    pub fn begins(&self) -> SystemTime {
        self.valid.0
    }

    /// Until when.
    pub fn ends(&self) -> SystemTime {
        self.valid.1
    }

    /// What is to be said of it as it is `now`.
    pub fn warning(&self, now: SystemTime) -> Option<Invalid> {
        let (name, ends) = (self.name(), written(self.ends()));
        let (found, meant) = if self.ends() <= now {
            (format!("the certificate for {name} expired at {ends}"), "clients refuse it: renew it")
        } else if self.begins() > now {
            (format!("the certificate for {name} begins at {}", written(self.begins())), "clients refuse it until then")
        } else if self.ends() <= now + AHEAD {
            (format!("the certificate for {name} expires at {ends}"), "renew it")
        } else {
            return None;
        };
        Some(Invalid::new(found, meant))
    }

    /// All that is shown, as bytes.
    pub(super) fn der(&self) -> Result<Vec<u8>, ErrorStack> {
        let mut all = self.key.private_key_to_der()?;
        for one in std::iter::once(&self.leaf).chain(&self.chain) {
            all.extend(one.to_der()?);
        }
        Ok(all)
    }

    /// Has it shown on `ssl`.
    pub(super) fn show(&self, ssl: &mut SslRef) -> Result<(), ErrorStack> {
        ssl.set_certificate(&self.leaf)?;
        ssl.set_private_key(&self.key)?;
        self.chain.iter().try_for_each(|one| ssl.add_chain_cert(one.clone()))
    }
}

/// A moment, for people.
pub(super) fn written(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
    Timestamp::from_second(seconds).map_or_else(|_| "a time beyond all".to_owned(), |time| time.to_string())
}

/// The contents of a file, or why there are none.
pub(super) fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

/// What the library says first.
pub(super) fn reason(error: &ErrorStack) -> String {
    error.errors().first().and_then(|first| first.reason()).unwrap_or("no reason given").to_owned()
}

fn moment(time: &Asn1TimeRef) -> Result<SystemTime, ErrorStack> {
    let since = Asn1Time::from_unix(0)?.diff(time)?;
    let seconds = i64::from(since.days) * 86_400 + i64::from(since.secs);
    Ok(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Those of the alternative names; only where there are none, the common name (RFC 6125, section 6.4.4).
fn names(leaf: &X509Ref) -> Vec<Box<str>> {
    let alternative = leaf.subject_alt_names();
    let dns = alternative.iter().flatten().filter_map(|name| name.dnsname());
    let mut names: Vec<Box<str>> = dns.map(|name| name.to_ascii_lowercase().into()).collect();
    if names.is_empty() && alternative.is_none() {
        let common = leaf.subject_name().entries_by_nid(Nid::COMMONNAME);
        let common = common.filter_map(|entry| entry.data().to_string().ok());
        names.extend(common.map(|name| name.to_ascii_lowercase().into()));
    }
    names
}
