//! Are the terms of a listener's TLS kept: the lowest version, and which protocol is rather spoken?

use openssl::ssl::SslVersion;

use crate::rig::issued::certificate;
use crate::rig::{self, hello};
use crate::tls::TEXT;

#[test]
fn the_lowest_version_and_the_order_of_protocols_are_the_listeners_own() {
    let a = rig::origin("a");
    let start = rig::gateway(TEXT).listener("tls: {}").origins([&a]);
    let start = start.further_listener("tls: { min_version: \"1.3\", alpn: [http/1.1, h2] }");
    let gateway = start.start_with(|folder| certificate(&["a.test"]).issue().write(folder, "a"));
    let comes = |listener: usize, version: SslVersion| {
        let hello = hello("a.test").with(move |context| {
            context.set_max_proto_version(Some(version)).unwrap();
            context.set_alpn_protos(b"\x02h2\x08http/1.1").unwrap();
        });
        let client = hello.connect(gateway.listeners[listener]).ok()?;
        client.agreed()
    };
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        assert_eq!(comes(0, version).as_deref(), Some("h2"), "{version:?}");
    }
    assert_eq!(comes(1, SslVersion::TLS1_3).as_deref(), Some("http/1.1"));
    assert_eq!(comes(1, SslVersion::TLS1_2), None);
    let rejected = || gateway.metrics().sum("moorgate_connections_rejected_total", &[("reason", "tls_handshake")]);
    rig::eventually("it is counted", || (rejected() > 0.5).then_some(()));
    let only = hello("a.test").with(|context| context.set_min_proto_version(Some(SslVersion::TLS1_3)).unwrap());
    assert_eq!(only.connect(gateway.listeners[1]).unwrap().get("/x").status, 200);
}

/// AES-128 costs the least on a processor that has it; one that has not says so by what it puts first.
#[test]
fn the_suite_is_ours_to_choose_but_for_clients_without_aes() {
    let a = rig::origin("a");
    let start = rig::gateway(TEXT).listener("tls: {}").origins([&a]);
    let gateway = start.start_with(|folder| certificate(&["a.test"]).issue().write(folder, "a"));
    let agreed = |suites: &'static str, ciphers: &'static str, version| {
        let hello = hello("a.test").with(move |context| {
            context.set_max_proto_version(Some(version)).unwrap();
            context.set_ciphersuites(suites).unwrap();
            context.set_cipher_list(ciphers).unwrap();
        });
        let mut client = hello.connect(gateway.listeners[0]).unwrap();
        client.stream().ssl().current_cipher().unwrap().name().to_owned()
    };
    let (aes, chacha) =
        ("TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256");
    assert_eq!(agreed(aes, "DEFAULT", SslVersion::TLS1_3), "TLS_AES_128_GCM_SHA256");
    assert_eq!(agreed(chacha, "DEFAULT", SslVersion::TLS1_3), "TLS_CHACHA20_POLY1305_SHA256");
    let (aes, chacha) = ("AES256+ECDHE+AESGCM:AES128+ECDHE+AESGCM", "CHACHA20+ECDHE:AES128+ECDHE+AESGCM");
    assert!(agreed("", aes, SslVersion::TLS1_2).contains("AES128-GCM"));
    assert!(agreed("", chacha, SslVersion::TLS1_2).contains("CHACHA20"));
}
