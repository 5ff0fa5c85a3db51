//! On which terms does a listener speak TLS? What the library needs to know of them, made once for all its connections.
//!
//! Cipher suites are those of Mozilla's intermediate list but for finite-field Diffie-Hellman, and the choice is ours.
//! Nobody may renegotiate. Sessions are kept by clients alone, in tickets.

use std::sync::Arc;

use openssl::error::ErrorStack;
use openssl::ssl::{
    AlpnError, NameType, SniError, SslContext, SslContextBuilder, SslMethod, SslMode, SslOptions, SslRef,
    SslSessionCacheMode, SslVersion,
};
use openssl::x509::X509;

use super::certificate::read;
use super::sealing::seal_with;
use super::tickets::{Keys, Own};
use super::{Shown, client};
use crate::config::tls::{ListenerTls, MinVersion, Protocol};
use crate::config::{Complaint, Invalid};

/// For TLS 1.2: forward secrecy and authenticated encryption.
const CIPHERS: &str = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
                       ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";

/// For TLS 1.3, where all are sound: AES-128 first, whose keys are derived by SHA-256, for which processors have instructions.
const SUITES: &str = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

/// What all sessions without client certificates belong to.
const SESSIONS: &[u8] = b"moorgate";

/// The terms of a listener; clones are the same.
#[derive(Debug, Clone)]
pub struct Terms {
    /// What every connection begins with.
    pub context: SslContext,
    /// Origins are told whose certificate a client has shown.
    pub names_clients: bool,
    /// Nothing but HTTP/2 is spoken, which is agreed on by ALPN or not at all (RFC 9113, section 3.2).
    pub needs_alpn: bool,
}

/// What the files hold that a listener names.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) authorities: Option<Vec<X509>>,
    pub(super) tickets: Option<Keys>,
}

/// The terms of `written`, on which certificates of `shown` are shown; tickets are sealed with keys that were `read`, or
/// with our `own`.
pub(super) fn compile(
    written: &ListenerTls,
    read: Read,
    own: Option<Own>,
    shown: &Arc<Shown>,
) -> Result<Terms, ErrorStack> {
    let mut context = SslContextBuilder::new(SslMethod::tls_server())?;
    context.set_min_proto_version(Some(match written.min_version {
        MinVersion::Tls12 => SslVersion::TLS1_2,
        MinVersion::Tls13 => SslVersion::TLS1_3,
    }))?;
    context.set_cipher_list(CIPHERS)?;
    context.set_ciphersuites(SUITES)?;
    // Many close without a word of TLS. Whether a request was whole then HTTP knows: none ends with its connection.
    let quiet = SslOptions::IGNORE_UNEXPECTED_EOF;
    // ours is the choice, but for a client that puts ChaCha20 first: it has no AES in its processor
    let choice = SslOptions::CIPHER_SERVER_PREFERENCE | SslOptions::PRIORITIZE_CHACHA;
    context.set_options(SslOptions::NO_RENEGOTIATION | SslOptions::NO_COMPRESSION | quiet | choice);
    // an idle connection has no buffers; one that waits may be asked again from another place in memory; the chain is the one in
    // the file, and no other is looked for in each handshake
    context.set_mode(
        SslMode::AUTO_RETRY
            | SslMode::ACCEPT_MOVING_WRITE_BUFFER
            | SslMode::ENABLE_PARTIAL_WRITE
            | SslMode::NO_AUTO_CHAIN
            | SslMode::RELEASE_BUFFERS,
    );
    context.set_session_cache_mode(SslSessionCacheMode::OFF);
    match &read.authorities {
        Some(authorities) => client::demand(&mut context, authorities)?,
        None => context.set_session_id_context(SESSIONS)?,
    }
    if let Some(keys) = read.tickets.map(Keys::kept).or(own.map(|own| own.keys)) {
        seal_with(&mut context, keys);
    }
    let ours = written.alpn.clone();
    let needs_alpn = !ours.contains(&Protocol::Http1);
    // RFC 7301, section 3.2: who offers nothing of ours is told so
    context.set_alpn_select_callback(move |_, offered| agree(&ours, offered).ok_or(AlpnError::ALERT_FATAL));
    let shown = Arc::clone(shown);
    context.set_servername_callback(move |ssl, _| show(&shown, ssl));
    Ok(Terms { context: context.build(), names_clients: written.client_headers, needs_alpn })
}

impl Read {
    /// What the files of `written` hold, which stands at `path`.
    pub(super) fn of(written: &ListenerTls, path: &str) -> Result<Self, Complaint> {
        let authorities = written.client_ca.on().map(|file| {
            let invalid =
                |found| Invalid::new(found, "expected CA certificates in PEM").at(format!("{path}.client_ca"));
            let text = read(file).map_err(invalid)?;
            match X509::stack_from_pem(&text) {
                Ok(all) if !all.is_empty() => Ok(all),
                _ => Err(invalid(format!("{} holds no certificate", file.display()))),
            }
        });
        let tickets = written.ticket_keys.on().map(|file| {
            let meant = "expected keys of 80 or 48 random bytes, one behind the other or in base64 one a line";
            let invalid = |found| Invalid::new(found, meant).at(format!("{path}.ticket_keys"));
            let bytes = read(file).map_err(invalid)?;
            Keys::read(&bytes).ok_or_else(|| invalid(format!("{} holds {} bytes", file.display(), bytes.len())))
        });
        Ok(Self { authorities: authorities.transpose()?, tickets: tickets.transpose()? })
    }

    /// All of it, as bytes.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, ErrorStack> {
        let mut all = self.tickets.as_ref().map(Keys::bytes).unwrap_or_default();
        for authority in self.authorities.iter().flatten() {
            all.extend(authority.to_der()?);
        }
        Ok(all)
    }
}

/// Called for every client, whether it asks for a name or not.
fn show(shown: &Shown, ssl: &mut SslRef) -> Result<(), SniError> {
    let found = shown.names.find(ssl.servername(NameType::HOST_NAME));
    let mut found = found.iter().filter_map(|number| shown.certificates.get(*number));
    found.try_for_each(|certificate| certificate.show(ssl)).map_err(|_| SniError::ALERT_FATAL)
}

/// The first of ours that is among those offered, each of which stands behind its length.
fn agree<'o>(ours: &[Protocol], offered: &'o [u8]) -> Option<&'o [u8]> {
    ours.iter().find_map(|protocol| {
        let name: &[u8] = match protocol {
            Protocol::H2 => b"h2",
            Protocol::Http1 => b"http/1.1",
        };
        let mut rest = offered;
        while let Some((length, behind)) = rest.split_first() {
            let (one, next) = behind.split_at_checked(usize::from(*length))?;
            if one == name {
                return Some(one);
            }
            rest = next;
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_order_decides_what_is_agreed_on() {
        let (h2, http1) = (Protocol::H2, Protocol::Http1);
        let offered = b"\x08http/1.1\x02h2";
        for (ours, offered, agreed) in [
            (&[h2, http1][..], &offered[..], Some(&b"h2"[..])),
            (&[http1, h2], offered, Some(b"http/1.1")),
            (&[h2], b"\x08http/1.1", None),
            (&[h2, http1], b"\x08http/1.0\x08http/1.1", Some(b"http/1.1")),
            (&[h2], b"\x03h2", None),
            (&[h2], b"", None),
        ] {
            assert_eq!(agree(ours, offered), agreed, "{offered:?}");
        }
    }
}
