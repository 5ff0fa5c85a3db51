//! Whose requests does a limit count together?
//!
//! A key is a number of 64 bits, by a hash that nobody outside can foresee, so that nobody can share a count with whom
//! they like. An IPv6 client is its network of /64: whoever has one address of it has all of them.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{IpAddr, Ipv6Addr};

use sha2::{Digest as _, Sha256};
use siphasher::sip::SipHasher13;

use crate::config::Invalid;
use crate::template::path::{self, Merged};
use crate::template::{Facts, Scope, Template, args};

/// The key that is nearly always meant.
const CLIENT: &str = "{client_ip}";

/// Bytes of a name: as many as nobody finds two keys for.
const NAME: usize = 16;

/// What of an IPv6 address tells clients apart.
const NETWORK: u128 = !0 << 64;

/// The secret of the hash; one process and those that follow it have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Secret(pub(super) [u64; 2]);

impl Secret {
    /// One that nobody knows.
    pub(super) fn random() -> Self {
        Self([0, 1].map(|number: u64| RandomState::new().hash_one(number)))
    }

    fn tag(self, kind: u8, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.0[0], self.0[1]);
        hasher.write_u8(kind);
        hasher.write(bytes);
        hasher.finish()
    }
}

/// The key of a limit.
#[derive(Debug, Clone)]
pub(super) struct LimitKey {
    /// `None`: the client.
    template: Option<Template>,
    text: Box<str>,
}

impl LimitKey {
    /// Compiles what was written.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn compile(text: &str) -> Result<Self, Invalid> {
        let template = if text == CLIENT { None } else { Some(Template::compile(text, Scope::Key)?) };
        Ok(Self { template, text: text.into() })
    }

    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The number of a request. One that has not all of the key is its client's.
    pub(super) fn tag(&self, facts: &Facts<'_>, secret: Secret) -> u64 {
        self.with_bytes(facts, |kind, bytes| secret.tag(kind, bytes))
    }

    /// Its name where several processes count, which share no secret: a hash that nobody can find a second key for, and
    /// that says nothing of the client.
    pub(super) fn name(&self, facts: &Facts<'_>) -> String {
        let hash = self.with_bytes(facts, |kind, bytes| {
            Sha256::new().chain_update(&*self.text).chain_update([0, kind]).chain_update(bytes).finalize()
        });
        hash.iter().take(NAME).map(|byte| format!("{byte:02x}")).collect()
    }

    fn with_bytes<T>(&self, facts: &Facts<'_>, then: impl FnOnce(u8, &[u8]) -> T) -> T {
        let ip = client(facts.client_ip);
        if let Some(template) = &self.template {
            let mut key = Vec::with_capacity(128);
            let target = one_spelling(facts);
            let facts = Facts { client_ip: ip, target: &target, ..*facts };
            if template.render(&facts, &args::Policy::All, &mut key).is_ok() && !key.is_empty() {
                return then(0, &key);
            }
        }
        match ip {
            IpAddr::V4(ip) => then(4, &ip.octets()),
            IpAddr::V6(ip) => then(6, &ip.octets()),
        }
    }
}

/// The target with the path that routes match (rule K5): who spells it otherwise is counted all the same.
fn one_spelling<'a>(facts: &Facts<'a>) -> Cow<'a, [u8]> {
    let Ok(Merged { path: Cow::Owned(path), .. }) = path::merged(facts.path()) else { return facts.target.into() };
    let mut target = path.into_bytes();
    if let Some(query) = facts.query() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    target.into()
}

fn client(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & NETWORK).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use http::HeaderMap;

    use super::super::tests::headers;
    use super::*;

    const SECRET: Secret = Secret([1, 2]);

    fn facts<'a>(target: &'a str, headers: &'a HeaderMap, ip: &str) -> Facts<'a> {
        let ip = ip.parse().unwrap();
        Facts {
            method: "GET",
            scheme: "http",
            host: "h",
            host_port: "h",
            target: target.as_bytes(),
            headers,
            client_ip: ip,
            peer: SocketAddr::new(ip, 1),
        }
    }

    fn tag(key: &str, target: &str, headers: &HeaderMap, ip: &str) -> u64 {
        LimitKey::compile(key).unwrap().tag(&facts(target, headers, ip), SECRET)
    }

    #[test]
    fn replicas_call_a_key_alike_and_its_name_tells_nobody_who_it_is() {
        let given = headers(&[("x-user", "192.0.2.1")]);
        let name = |key: &str, ip| LimitKey::compile(key).unwrap().name(&facts("/a", &given, ip));
        for key in ["{client_ip}", "{header:x-user}", "{host}{path}"] {
            let of = name(key, "192.0.2.1");
            assert_eq!(of, name(key, "192.0.2.1"), "{key}");
            assert!(of.len() == 2 * NAME && of.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}: {of}");
        }
        assert_eq!(name("{client_ip}", "2001:db8:0:1::1"), name("{client_ip}", "2001:db8:0:1::2"));
        assert_ne!(name("{client_ip}", "192.0.2.1"), name("{client_ip}", "192.0.2.2"));
        assert_ne!(
            name("{client_ip}", "192.0.2.1"),
            name("{header:x-user}", "192.0.2.1"),
            "each key has names of its own"
        );
        assert_ne!(name("{header:x-user}", "192.0.2.1"), name("{header:x-User}", "192.0.2.1"), "as it is written");
        // It outlives a release: every replica of a rolling one has to call it the same.
        assert_eq!(name("{client_ip}", "192.0.2.1"), "7316a6233aed66ed307bc5418912e80e");
    }

    #[test]
    fn an_ipv6_client_is_its_network_and_an_ipv4_one_is_itself() {
        let none = HeaderMap::new();
        for key in ["{client_ip}", "{host} {client_ip}"] {
            let of = |ip| tag(key, "/", &none, ip);
            assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"), "{key}");
            assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"), "{key}");
            assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"), "{key}");
            assert_ne!(of("192.0.2.1"), of("192.0.2.2"), "{key}");
        }
    }

    #[test]
    fn k4_a_request_without_the_key_is_its_clients() {
        let (none, given) = (HeaderMap::new(), headers(&[("x-user", "u"), ("x-address", "192.0.2.1")]));
        let client = tag("{client_ip}", "/", &none, "192.0.2.1");
        for key in ["{header:x-user}", "{header:x-user}/{arg:a}", "{nginx_arg:a}"] {
            assert_eq!(tag(key, "/", &none, "192.0.2.1"), client, "{key}");
        }
        assert_eq!(tag("{header:x-user}", "/", &given, "192.0.2.1"), tag("{header:x-user}", "/", &given, "192.0.2.2"));
        assert_ne!(tag("{header:x-address}", "/", &given, "192.0.2.2"), client, "nobody names another as themselves");
    }

    #[test]
    fn k5_a_path_counts_by_what_it_means() {
        let none = HeaderMap::new();
        for key in ["{path}", "{path:^/(login)}", "{uri}"] {
            let of = |target| tag(key, target, &none, "192.0.2.1");
            for target in ["//login?a=/b", "/%6cogin?a=/b", "/x/../login?a=/b", "/./login?a=/b"] {
                assert_eq!(of(target), of("/login?a=/b"), "{key} {target}");
            }
        }
        assert_ne!(tag("{uri}", "//a?b", &none, "192.0.2.1"), tag("{uri}", "//a?c", &none, "192.0.2.1"));
    }

    #[test]
    fn every_process_has_a_secret_of_its_own() {
        assert_ne!(Secret::random(), Secret::random());
        assert_ne!(Secret([1, 2]).tag(0, b"a"), Secret([1, 3]).tag(0, b"a"));
    }
}
