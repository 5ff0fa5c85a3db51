//! What is shown to clients that come by TLS, and what is asked of them?
//!
//! Terms belong to a listener and are fixed while the process lives; certificates belong to the file and are read again
//! by every reload.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::Config;
use super::place::Places;
use super::report::{Complaint, Invalid, Severity};
use super::units::Off;
use super::written::{self, As, choices};

/// `tls` of a listener; `{}` is the defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListenerTls {
    /// The lowest version of TLS that is spoken: 1.2 or 1.3.
    pub min_version: MinVersion,
    /// A file of CA certificates: a client has to show a certificate of one of them. Read again by every reload.
    #[serde(deserialize_with = "path_or_off")]
    #[schemars(with = "Off<As<PathBuf>>")]
    pub client_ca: Off<PathBuf>,
    /// Tells origins whose certificate that was, in X-Forwarded-Client-Cert: `Hash=` (SHA-256) and `Subject=`. What
    /// clients send of that name is taken out, on every listener.
    pub client_headers: bool,
    /// Protocols in the order in which we would rather have them: h2, http/1.1.
    pub alpn: Vec<Protocol>,
    /// A file of 80 or 48 random bytes for each key that session tickets are sealed with, shared by replicas: the first
    /// seals, all open. Read again by every reload. Off: keys of our own, which the next process gets in an upgrade.
    #[serde(deserialize_with = "path_or_off")]
    #[schemars(with = "Off<As<PathBuf>>")]
    pub ticket_keys: Off<PathBuf>,
}

impl Default for ListenerTls {
    fn default() -> Self {
        Self {
            min_version: MinVersion::Tls12,
            client_ca: Off::Off,
            client_headers: false,
            alpn: vec![Protocol::H2, Protocol::Http1],
            ticket_keys: Off::Off,
        }
    }
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MinVersion {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

choices!(MinVersion { Tls12 = "1.2", Tls13 = "1.3" });

/// A protocol that is agreed on within TLS (ALPN).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/2.
    H2,
    /// HTTP/1.
    Http1,
}

choices!(Protocol { H2 = "h2", Http1 = "http/1.1" });

/// A certificate and its key. Which names it is for stands in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// A PEM file: the certificate, then those between it and the root.
    #[serde(with = "written")]
    #[schemars(with = "As<PathBuf>")]
    pub cert: PathBuf,
    /// A PEM file: its private key, without a passphrase.
    #[serde(with = "written")]
    #[schemars(with = "As<PathBuf>")]
    pub key: PathBuf,
}

fn path_or_off<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Off<PathBuf>, D::Error> {
    Ok(match Off::<As<PathBuf>>::deserialize(deserializer)? {
        Off::Off => Off::Off,
        Off::On(As(path)) => Off::On(path),
    })
}

/// What is wrong with listeners' terms although each value is right.
pub(super) fn check<'a>(config: &'a Config, places: &'a Places) -> impl Iterator<Item = (Severity, Complaint)> + 'a {
    let with_tls = config.process.listeners.iter().enumerate();
    let with_tls = with_tls.filter_map(|(i, listener)| Some((i, listener, listener.tls.on()?)));
    with_tls.flat_map(|(i, listener, tls)| {
        let at = move |key: &str| format!("process.listeners[{i}].{key}");
        let without = config.certificates.is_empty() && !places.is_spoiled("certificates");
        let without = without.then(|| Invalid::new("TLS without a certificate", "set \"certificates\"").at(at("tls")));
        let found = "HTTP/2 by prior knowledge is for listeners without TLS";
        let h2c =
            listener.h2c.then(|| Invalid::new(found, "here \"tls.alpn\" says whether it is spoken").at(at("h2c")));
        let nothing = tls.alpn.is_empty() && !places.is_spoiled(&at("tls.alpn"));
        let nothing = nothing.then(|| Invalid::new("no protocol", "expected h2, http/1.1 or both").at(at("tls.alpn")));
        let nobody = tls.client_headers && tls.client_ca == Off::Off && !places.is_spoiled(&at("tls.client_ca"));
        let found = "found true, but no client has to show a certificate";
        let nobody = nobody.then(|| Invalid::new(found, "set \"client_ca\"").at(at("tls.client_headers")));
        [without, h2c, nothing, nobody].into_iter().flatten().map(|complaint| (Severity::Error, complaint))
    })
}

#[cfg(test)]
mod tests {
    use crate::config::{parse, tests::SMALLEST};

    const CERTIFICATES: &str = "certificates: [ { cert: /c.pem, key: /k.pem } ]\n";

    fn said(listener: &str, more: &str) -> Vec<String> {
        let text = SMALLEST.replace("8080 }", &format!("8080, {listener} }}"));
        match parse("f", &format!("{text}{more}")) {
            Ok(loaded) => {
                loaded.warnings.iter().filter(|w| !w.path.contains("probe")).map(ToString::to_string).collect()
            }
            Err(report) => report.mistakes.iter().map(ToString::to_string).filter(|m| !m.contains("probe")).collect(),
        }
    }

    #[test]
    fn a_listener_speaks_tls_with_a_certificate_alone() {
        assert_eq!(said("tls: {}", CERTIFICATES), [""; 0]);
        assert_eq!(said("tls: { min_version: 1.3, alpn: [h2], ticket_keys: /t }", CERTIFICATES), [""; 0]);
        assert!(said("tls: {}", "")[0].ends_with("tls: TLS without a certificate, set \"certificates\""));
        assert_eq!(said("tls: off", ""), [""; 0]);
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        for (listener, end) in [
            ("tls: {}, h2c: true", "h2c: HTTP/2 by prior knowledge is for listeners without TLS"),
            ("tls: { alpn: [] }", "tls.alpn: no protocol, expected h2, http/1.1 or both"),
            ("tls: { client_headers: true }", "found true, but no client has to show a certificate"),
            ("tls: { client_ca: ca.pem }", "expected off, or the path of a file, with its folder"),
            ("tls: { min_version: 1.1 }", "unknown min_version \"1.1\""),
            ("tls: { alpn: [h3] }", "unknown value \"h3\""),
        ] {
            let said = said(listener, CERTIFICATES);
            assert!(said.len() == 1 && said[0].contains(end), "{said:?}");
        }
    }
}
