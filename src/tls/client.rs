//! Whose certificate does a client show, and is it asked for one?
//!
//! Sessions belong to the authorities they began under: after a change of those nobody goes on with an older one, so that
//! every client is checked anew.

use std::fmt::Write as _;

use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::ssl::{SslContextBuilder, SslRef, SslVerifyMode};
use openssl::stack::Stack;
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::{X509, X509NameRef, X509Ref};
use sha2::{Digest, Sha256};

/// A client has to show a certificate of one of these authorities.
pub(super) fn demand(context: &mut SslContextBuilder, authorities: &[X509]) -> Result<(), ErrorStack> {
    let (mut store, mut names, mut sessions) = (X509StoreBuilder::new()?, Stack::new()?, Sha256::new());
    for authority in authorities {
        sessions.update(authority.to_der()?);
        names.push(authority.subject_name().to_owned()?)?;
        store.add_cert(authority.clone())?;
    }
    context.set_verify_cert_store(store.build())?;
    context.set_client_ca_list(names);
    context.set_verify(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT);
    context.set_session_id_context(&sessions.finalize())
}

/// What origins are told of the client's certificate: `Hash=` with its SHA-256 and `Subject=` as RFC 2253 writes it.
pub fn told(ssl: &SslRef) -> Option<String> {
    let certificate = ssl.peer_certificate()?;
    let digest = certificate.digest(MessageDigest::sha256()).ok()?;
    let mut told = String::from("Hash=");
    for byte in digest.iter() {
        // writing to a string cannot fail
        let _ = write!(told, "{byte:02x}");
    }
    let _ = write!(told, ";Subject=\"{}\"", quoted(&subject(&certificate)));
    Some(told)
}

fn subject(certificate: &X509Ref) -> String {
    subject_of(certificate.subject_name())
}

/// The last part first.
fn subject_of(name: &X509NameRef) -> String {
    let parts = name.entries().filter_map(|entry| {
        let word = entry.object().nid().short_name().unwrap_or("?");
        Some(format!("{word}={}", escaped(&entry.data().to_string().ok()?)))
    });
    let mut parts: Vec<String> = parts.collect();
    parts.reverse();
    parts.join(",")
}

/// A value within a subject (RFC 4514, section 2.4): visible ASCII alone.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let last = value.len().saturating_sub(1);
    for (at, byte) in value.bytes().enumerate() {
        let at_an_end = at == 0 || at == last;
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => out.extend(['\\', char::from(byte)]),
            b' ' if at_an_end => out.push_str("\\ "),
            b'#' if at == 0 => out.push_str("\\#"),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => _ = write!(out, "\\{byte:02X}"),
        }
    }
    out
}

/// Within quotes of the header.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use openssl::x509::X509NameBuilder;

    use super::*;

    #[test]
    fn a_subject_is_one_line_whatever_stands_in_it() {
        let mut name = X509NameBuilder::new().unwrap();
        for (word, value) in [("C", "CH"), ("O", "Größe, \"GmbH\""), ("CN", " al\r\nice ")] {
            name.append_entry_by_text(word, value).unwrap();
        }
        let subject = subject_of(&name.build());
        assert_eq!(subject, "CN=\\ al\\0D\\0Aice\\ ,O=Gr\\C3\\B6\\C3\\9Fe\\, \\\"GmbH\\\",C=CH");
        assert_eq!(quoted("a\\,\"b"), "a\\\\,\\\"b");
    }
}
