//! What does an origin learn of the client's certificate? Nothing but what we say.
//!
//! Where any listener asks clients for certificates and tells origins, what clients send in that header is taken out on
//! all of them, or whoever comes by another door would be whoever they like.

use pingora_http::RequestHeader;

use super::wire::Wire;

/// As Envoy and others write it.
const NAME: &str = "X-Forwarded-Client-Cert";

/// Tells of it in `out`.
pub(super) fn tell(wire: &Wire, out: &mut RequestHeader) {
    if !wire.names_clients() {
        return;
    }
    let is_alike = |name: &str| name.len() == NAME.len() && name.replace('_', "-").eq_ignore_ascii_case(NAME);
    let alike: Vec<_> = out.headers.keys().filter(|name| is_alike(name.as_str())).cloned().collect();
    for name in alike {
        out.remove_header(&name);
    }
    if let Some(client) = wire.client() {
        // a value that was checked
        let _ = out.insert_header(NAME, client.clone());
    }
}
