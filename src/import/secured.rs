//! What is said of TLS, towards origins and towards clients?

use std::path::Path;

use super::document::{Node, Section};
use super::notes::Notes;
use super::reader::Directive;
use super::scope::Scope;
use super::variables::{Known, plain};

/// The `tls` section of a pool.
pub(super) fn origin(
    scope: &Scope<'_>,
    module: &str,
    (proxy_host, host): (&str, &Node),
    known: &Known,
    notes: &mut Notes,
) -> Section {
    let named = |what: &str| format!("{module}_ssl_{what}");
    let verify = scope.is_on(&named("verify"));
    let name = match scope.one(&named("name")) {
        None => proxy_host.to_owned(),
        Some(directive) => match (plain(&known.parts(directive.arg(0))), host) {
            (Some(name), _) if !name.is_empty() => name.to_owned(),
            (_, Node::Text(host)) if host != "preserve" => host.clone(),
            _ => {
                notes.dropped(directive, "one name is asked for, whatever the request");
                proxy_host.to_owned()
            }
        },
    };
    let name = name.split(':').next().unwrap_or_default().to_owned();
    let is_name = name.contains(|letter: char| letter.is_ascii_alphabetic());
    let mut section = Section::default();
    if (verify || scope.is_on(&named("server_name"))) && is_name {
        section.put("sni", name);
    }
    for (what, key) in [("trusted_certificate", "ca"), ("certificate", "cert"), ("certificate_key", "key")] {
        if let Some(file) = scope.word(&named(what)).filter(|file| !file.is_empty()) {
            section.put(key, file.to_owned());
        }
    }
    if !verify {
        section.put("verify", false);
    }
    section
}

/// The file of those whose certificate a client has to show.
pub(super) fn verifies(scope: &Scope<'_>) -> Option<String> {
    let file = scope.word("ssl_client_certificate").filter(|_| scope.is_on("ssl_verify_client"));
    file.filter(|file| !file.is_empty()).map(str::to_owned)
}

/// The `tls` section of a listener.
pub(super) fn listener(scope: &Scope<'_>, folder: &Path, http2: bool, notes: &mut Notes) -> Section {
    let mut section = Section::default();
    if let Some(directive) = scope.one("ssl_protocols") {
        let has = |version: &str| directive.args.iter().any(|arg| arg == version);
        if !has("TLSv1.2") && has("TLSv1.3") {
            section.put("min_version", Node::text("1.3"));
        } else if has("TLSv1.2") && !has("TLSv1.3") {
            notes.differs(directive, "TLS 1.3 is spoken as well");
        }
        if has("TLSv1") || has("TLSv1.1") {
            notes.differs(directive, "nothing older than TLS 1.2 is spoken");
        }
    }
    match (scope.one("ssl_verify_client"), scope.one("ssl_client_certificate")) {
        (Some(verify), Some(file)) if verify.arg(0) == "on" => section.put("client_ca", file_of(file, folder)),
        (Some(verify), _) if verify.arg(0) != "off" => {
            notes.dropped(verify, "a listener asks every client for a certificate (client_ca), or none");
        }
        _ => {}
    }
    let mut keys = scope.all("ssl_session_ticket_key").into_iter();
    if let Some(first) = keys.next() {
        section.put("ticket_keys", file_of(first, folder));
        keys.for_each(|other| notes.dropped(other, "the keys are in one file here, one behind the other"));
    }
    if !http2 {
        section.put("alpn", Node::list(["http/1.1"]));
    }
    section
}

/// A file as nginx finds it.
pub(super) fn file_of(directive: &Directive, folder: &Path) -> String {
    folder.join(directive.arg(0)).display().to_string()
}
