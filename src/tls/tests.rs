//! What is read from the files, and what is wrong with them?

use std::path::Path;

use tempfile::TempDir;

use super::certificates::{authority, certificate};
use super::*;
use crate::config::client::ProxyProtocol;

fn written(folder: &Path, names: &[&str]) -> Vec<config::tls::Certificate> {
    let file = |name: &str, kind: &str| folder.join(format!("{name}.{kind}"));
    names.iter().map(|name| config::tls::Certificate { cert: file(name, "pem"), key: file(name, "key") }).collect()
}

fn listener() -> Listener {
    Listener {
        address: ([127, 0, 0, 1], 0).into(),
        h2c: false,
        proxy_protocol: ProxyProtocol::Off,
        tls: Off::On(config::tls::ListenerTls::default()),
    }
}

fn compile(folder: &TempDir, names: &[&str], before: Option<&Tls>) -> Result<Tls, String> {
    let compiled =
        Tls::compile(&[listener()], &written(folder.path(), names), before.map_or(Before::Nothing, Before::Served));
    compiled.map_err(|all| {
        let all = all.into_iter().map(|one| format!("{}: {}, {}", one.path, one.found, one.meant));
        all.collect::<Vec<_>>().join("\n").replace(&*folder.path().to_string_lossy(), "")
    })
}

#[test]
fn names_are_those_of_the_certificate() {
    let folder = TempDir::new().unwrap();
    certificate(&["A.test", "*.b.test"]).issue().write(folder.path(), "a");
    let tls = compile(&folder, &["a"], None).unwrap();
    let [one] = tls.certificates() else { panic!("one certificate") };
    assert_eq!((one.name(), one.names().len(), one.key_word()), ("a.test", 2, "ecdsa"));
    let days = one.ends().duration_since(now()).unwrap().as_secs_f64() / 86_400.0;
    assert!((89.9..90.1).contains(&days), "{days}");
    assert!(one.begins() < now() && tls.terms(0).is_some() && tls.terms(1).is_none());
}

#[test]
fn whatever_is_wrong_with_a_file_is_told_at_its_key() {
    let folder = TempDir::new().unwrap();
    let (a, b) = (certificate(&["a.test"]).issue(), certificate(&["b.test"]).issue());
    a.write(folder.path(), "a");
    let file = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    for (name, cert, key) in [
        ("swapped", a.cert.to_pem().unwrap(), b.key.private_key_to_pem_pkcs8().unwrap()),
        ("empty", b"nothing\n".to_vec(), a.key.private_key_to_pem_pkcs8().unwrap()),
        ("noise", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec(), Vec::new()),
        ("no-key", a.cert.to_pem().unwrap(), a.cert.to_pem().unwrap()),
        (
            "sealed",
            a.cert.to_pem().unwrap(),
            a.key.private_key_to_pem_pkcs8_passphrase(openssl::symm::Cipher::aes_128_cbc(), b"secret").unwrap(),
        ),
    ] {
        file(&format!("{name}.pem"), &cert);
        file(&format!("{name}.key"), &key);
    }
    let told = compile(&folder, &["a", "gone", "swapped", "empty", "noise", "no-key", "sealed"], None).unwrap_err();
    let told: Vec<&str> = told.lines().collect();
    for (told, expected) in told.iter().zip([
        "certificates[1].cert: cannot read /gone.pem: No such file or directory (os error 2), expected a certificate in PEM",
        "certificates[2].key: /swapped.key is not the key of the certificate in /swapped.pem, expected the one",
        "certificates[3].cert: /empty.pem holds no certificate",
        "certificates[4].cert: /noise.pem cannot be read as PEM (",
        "certificates[5].key: /no-key.key cannot be read (",
        "certificates[6].key: /sealed.key cannot be read (",
    ]) {
        assert!(told.starts_with(expected), "{told}");
    }
    assert_eq!(told.len(), 6, "{told:?}");
}

#[test]
fn c2_one_that_has_expired_goes_on_but_does_not_come() {
    let folder = TempDir::new().unwrap();
    certificate(&["old.test"]).days(-2).issue().write(folder.path(), "old");
    certificate(&["new.test"]).days(-1).issue().write(folder.path(), "new");
    let first = compile(&folder, &["old"], None).unwrap();
    let same = compile(&folder, &["old"], Some(&first)).unwrap();
    assert!(same.is(&first));
    let refused = compile(&folder, &["old", "new"], Some(&first)).unwrap_err();
    assert!(refused.starts_with("certificates[1].cert: the certificate for new.test expired at 20"), "{refused}");
}

#[test]
fn only_what_a_client_may_see_makes_a_difference() {
    let folder = TempDir::new().unwrap();
    let ca = authority("the CA");
    let one = certificate(&["a.test"]).by(&ca).issue();
    one.write(folder.path(), "a");
    let first = compile(&folder, &["a"], None).unwrap();
    one.write(folder.path(), "a");
    assert!(compile(&folder, &["a"], Some(&first)).unwrap().is(&first));
    one.write_with(&[&ca], folder.path(), "a");
    assert!(!compile(&folder, &["a"], Some(&first)).unwrap().is(&first), "with a chain");
}
