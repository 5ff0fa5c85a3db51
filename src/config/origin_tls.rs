//! The `tls` section of a pool: how its origins are spoken to over TLS.
//!
//! Only what is written is looked at here; what is in the files is read by the `trust` room.

use std::path::PathBuf;

use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::address::is_host;
use super::check::Check;
use super::pool::{Pool, Protocol};
use super::units::Off;
use super::written::{As, Written, written};

/// The `tls` section of a pool, after defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "OriginTls", default, deny_unknown_fields)]
pub struct OriginTls {
    /// The DNS name that is asked for, and looked for in the origin's certificate; needed unless `verify` is `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sni: Option<ServerName>,
    /// PEM file of the authorities that may sign the origins' certificates, one or more; without it those of the system.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "file", serialize_with = "path")]
    #[schemars(with = "Option<As<PathBuf>>")]
    pub ca: Option<PathBuf>,
    /// Refuse an origin whose certificate no authority signed, is out of date, or does not hold `sni`.
    pub verify: bool,
    /// PEM file of the certificate we show, with those that lead from it to its authority; needs `key`.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "file", serialize_with = "path")]
    #[schemars(with = "Option<As<PathBuf>>")]
    pub cert: Option<PathBuf>,
    /// PEM file of its private key, without a password.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "file", serialize_with = "path")]
    #[schemars(with = "Option<As<PathBuf>>")]
    pub key: Option<PathBuf>,
}

impl Default for OriginTls {
    fn default() -> Self {
        Self { sni: None, ca: None, verify: true, cert: None, key: None }
    }
}

/// A name TLS can ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerName(pub String);

written!(ServerName);

impl Written for ServerName {
    const EXPECTED: &'static str = "a DNS name such as origin.internal";

    fn parse(text: &str) -> Option<Self> {
        (is_host(text) && !text.ends_with('.')).then(|| Self(text.to_owned()))
    }

    fn print(&self) -> String {
        self.0.clone()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", "examples": ["origin.internal"] })
    }
}

fn file<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    Ok(Option::<As<PathBuf>>::deserialize(deserializer)?.map(|As(path)| path))
}

#[expect(clippy::ref_option, reason = "as serde wants it")]
fn path<S: serde::Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.as_ref().map(Written::print).unwrap_or_default())
}

impl Check<'_> {
    /// What cannot be meant of TLS towards the origins of the pool at `path`.
    pub(super) fn origin_tls(&mut self, path: &str, pool: &Pool) {
        let [at_tls, at_protocol] = ["tls", "protocol"].map(|key| format!("{path}.{key}"));
        let Off::On(tls) = &pool.tls else {
            if pool.protocol == Protocol::H2 && self.are_sound(&[&at_tls, &at_protocol]) {
                self.error(
                    at_protocol,
                    "\"h2\" without \"tls\"",
                    "expected \"tls\", or h2c, which is HTTP/2 without it",
                );
            }
            return;
        };
        if pool.protocol == Protocol::H2c && self.are_sound(&[&at_protocol]) {
            self.error(at_protocol, "\"h2c\" with \"tls\"", "expected h2, which is HTTP/2 over TLS");
        }
        let [at_sni, at_verify, at_ca, at_cert, at_key] =
            ["sni", "verify", "ca", "cert", "key"].map(|key| format!("{at_tls}.{key}"));
        if tls.verify && tls.sni.is_none() && self.are_sound(&[&at_sni, &at_verify]) {
            let meant = "expected the name that is in the certificates of the origins, or \"verify: false\"";
            self.error(at_sni, "missing", meant);
        }
        if !tls.verify && tls.ca.is_some() && self.are_sound(&[&at_verify, &at_ca]) {
            self.warn(at_ca, "nothing is checked against it", "since \"verify\" is false");
        }
        let own = [(&tls.cert, "cert", &at_cert), (&tls.key, "key", &at_key)];
        if let [(Some(_), has, _), (None, lacks, at)] | [(None, lacks, at), (Some(_), has, _)] = own
            && self.are_sound(&[&at_cert, &at_key])
        {
            self.error(at, "missing", format!("expected the file of the {lacks} that belongs to \"{has}\""));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{config, said, with_pool};

    /// What is said of a pool with this `tls`, warnings of its probe left out.
    fn told(tls: &str) -> Vec<String> {
        let told = said(&with_pool(&format!("origins: [a]\n    {tls}")));
        told.into_iter().filter(|line| !line.contains("a TCP probe")).collect()
    }

    #[test]
    fn verification_needs_a_name_to_look_for() {
        let missing = "6:5: pools.origin.tls.sni: missing, expected the name that is in the certificates of the origins, \
                       or \"verify: false\"";
        assert_eq!(told("tls: {}"), [missing]);
        assert_eq!(told("tls: { verify: true }"), [missing]);
        assert_eq!(told("tls: { verify: false }"), [""; 0]);
        assert_eq!(told("tls: { sni: o.example }"), [""; 0]);
        assert!(told("tls: { sni: 10.0.0.1 }")[0].contains("expected a DNS name such as origin.internal"));
    }

    #[test]
    fn a_certificate_and_its_key_come_together_and_a_ca_is_for_verification() {
        let at = |tls: &str| told(&format!("tls: {{ sni: o.example, {tls} }}"));
        assert!(
            at("cert: /c.pem")[0].contains("tls.key: missing, expected the file of the key that belongs to \"cert\"")
        );
        assert!(at("key: /k.pem")[0].contains("tls.cert: missing"));
        assert_eq!(at("cert: /c.pem, key: /k.pem"), [""; 0]);
        assert!(at("ca: /ca.pem, verify: false")[0].contains("nothing is checked against it"));
        assert!(at("ca: ca.pem")[0].contains("expected the path of a file, with its folder"), "{:?}", at("ca: ca.pem"));
    }

    #[test]
    fn http2_is_h2_with_tls_and_h2c_without() {
        assert!(told("protocol: h2")[0].contains("\"h2\" without \"tls\", expected \"tls\", or h2c"));
        assert!(told("protocol: h2c\n    tls: { verify: false }")[0].contains("expected h2"));
        assert_eq!(told("protocol: h2\n    tls: { verify: false }"), [""; 0]);
    }

    #[test]
    fn without_a_port_it_is_443() {
        let ports = |tls: &str| {
            let text = format!("origins: [a, \"b:80\", 10.0.0.1, \"[::1]\", \"unix:/s\"]\n    tls: {tls}");
            let origins = config(&with_pool(&text)).pools["origin"].origins.clone();
            origins.into_iter().map(|one| format!("{} {}", one.name, one.address)).collect::<Vec<_>>()
        };
        let plain = ["a a:80", "b:80 b:80", "10.0.0.1 10.0.0.1:80", "[::1] [::1]:80", "unix:/s unix:/s"];
        assert_eq!(ports("off"), plain);
        let over_tls = ["a a:443", "b:80 b:80", "10.0.0.1 10.0.0.1:443", "[::1] [::1]:443", "unix:/s unix:/s"];
        assert_eq!(ports("{ verify: false }"), over_tls);
    }
}
