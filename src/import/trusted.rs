//! Whose word on a client's address is taken?
//!
//! nginx asks each server, and each location; here it is said once. What not all say is not taken, and where somebody is let
//! in by an address that nginx has from elsewhere, nobody is.

use super::document::{Node, Section};
use super::networks;
use super::notes::Notes;
use super::reader::Directive;
use super::scope::Scope;
use super::units;

/// Networks whose word is taken, and where they say it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Trust {
    networks: Vec<String>,
    header: String,
}

impl Trust {
    /// As nginx has it in a block.
    pub(super) fn of(scope: &Scope<'_>) -> Self {
        let said = scope.all("set_real_ip_from").into_iter().map(|it| it.arg(0)).filter(|word| *word != "unix:");
        // A name stays one, so that nothing here equals it.
        let mut networks: Vec<String> =
            said.map(|word| units::network(word).unwrap_or_else(|| word.to_owned())).collect();
        networks.sort_unstable();
        networks.dedup();
        let header = scope.word("real_ip_header").unwrap_or("X-Real-IP").to_ascii_lowercase();
        if networks.is_empty() { Self::default() } else { Self { networks, header } }
    }

    pub(super) fn is_nobody(&self) -> bool {
        self.networks.is_empty()
    }
}

/// Does it answer every request by itself, whoever asks?
fn asks_nobody(scope: &Scope<'_>) -> bool {
    scope.of_its_own("return").next().is_some()
}

/// What all servers trust, with `trusted_proxies` and `client_address`.
pub(super) fn trusted(servers: &[Scope<'_>], notes: &mut Notes) -> (Trust, Section) {
    let mut asked: Vec<&Scope<'_>> = servers.iter().filter(|scope| !asks_nobody(scope)).collect();
    if asked.is_empty() {
        asked = servers.iter().collect();
    }
    let mut each = asked.iter().map(|scope| Trust::of(scope));
    let first = each.next().unwrap_or_default();
    let mut networks: Vec<String> = first.networks.iter().filter(|it| units::network(it).is_some()).cloned().collect();
    let mut one_header = true;
    for other in each {
        networks = networks::common(&networks, &other.networks);
        one_header &= other.is_nobody() || first.is_nobody() || other.header == first.header;
    }
    let said: Vec<&Directive> = asked.iter().flat_map(|scope| scope.all("set_real_ip_from")).collect();
    if !one_header {
        networks.clear();
        for directive in asked.iter().flat_map(|scope| scope.all("real_ip_header")) {
            notes.dropped(directive, "servers read the address in other headers: nobody's word is taken");
        }
    }
    for directive in said {
        match units::network(directive.arg(0)) {
            Some(network) if networks.contains(&network) => {}
            Some(_) => {
                notes.dropped(directive, "it is said once for all servers here: only what each of them trusts is")
            }
            None => notes.dropped(directive, "no address and no network"),
        }
    }
    networks.sort_unstable();
    let header = if networks.is_empty() { String::new() } else { first.header };
    let section = section(&networks, &header, &asked, notes);
    (Trust { networks, header }, section)
}

fn section(networks: &[String], header: &str, asked: &[&Scope<'_>], notes: &mut Notes) -> Section {
    let mut section = Section::default();
    if networks.is_empty() {
        return section;
    }
    section.put("trusted_proxies", Node::list(networks.iter().cloned()));
    match header {
        "x-forwarded-for" => {}
        "proxy_protocol" => section.put("client_address", "off"),
        name => section.put("client_address", name.to_owned()),
    }
    let recursive = asked.iter().any(|scope| scope.is_on("real_ip_recursive"));
    let directive = asked.iter().find_map(|scope| scope.one("real_ip_header"));
    if let (true, false, Some(directive)) = (networks.len() > 1, recursive, directive) {
        notes.differs(directive, "the list is read over trusted addresses, as with `real_ip_recursive on`");
    }
    section
}

#[cfg(test)]
mod tests {
    use super::super::Fate;
    use super::super::tests::{SHUT, notes, route, yaml};

    const HEADER: &str = "real_ip_header X-Forwarded-For;";
    const PASS: &str = "location / { proxy_pass http://a; }";

    #[test]
    fn only_what_each_server_trusts_is_trusted_and_the_rest_is_told() {
        let http = format!(
            "{HEADER} server {{ listen 80; set_real_ip_from 10.0.0.0/8; set_real_ip_from 192.0.2.1; {PASS} }}\n\
             server {{ listen 81; set_real_ip_from 10.1.0.0/16; {PASS} }}"
        );
        let text = yaml(&http);
        assert!(text.contains("trusted_proxies: [10.1.0.0/16]"), "{text}");
        let said = notes(&http, Fate::NotCarried);
        assert!(said.iter().any(|line| line.contains("set_real_ip_from 192.0.2.1: it is said once")), "{said:?}");
        let text = yaml(&format!(
            "{HEADER} server {{ listen 80; set_real_ip_from 10.0.0.1; {PASS} }} server {{ listen 81; {PASS} }}"
        ));
        assert!(!text.contains("trusted_proxies"), "{text}");
    }

    #[test]
    fn a_server_that_answers_everybody_has_no_say() {
        let text = yaml(&format!(
            "server {{ listen 80; return 301 https://$host$request_uri; }} server {{ listen 81; {HEADER} set_real_ip_from 10.0.0.1; {PASS} }}"
        ));
        assert!(text.contains("trusted_proxies: [10.0.0.1]"), "{text}");
    }

    #[test]
    fn nobody_is_trusted_where_headers_differ() {
        let http = format!(
            "set_real_ip_from 10.0.0.1; server {{ listen 80; {HEADER} {PASS} }} server {{ listen 81; real_ip_header X-Real-IP; {PASS} }}"
        );
        assert!(!yaml(&http).contains("trusted_proxies"));
        let said = notes(&http, Fate::NotCarried);
        assert!(said.iter().any(|line| line.contains("real_ip_header X-Real-IP: servers read")), "{said:?}");
    }

    #[test]
    fn who_is_let_in_by_an_address_from_elsewhere_is_not() {
        let of = |rule: &str| {
            yaml(&format!(
                "{HEADER} server {{ listen 80; set_real_ip_from 10.0.0.1; {rule} {PASS} }} server {{ listen 81; {rule} {PASS} }}"
            ))
        };
        let text = of("allow 10.0.0.0/8; deny all;");
        assert!(route(&text, "port-80").contains(SHUT), "{text}");
        assert!(route(&text, "port-81").contains("allow: [10.0.0.0/8]"), "{text}");
        assert!(!of("allow all;").contains("access:"));
        let text = yaml(
            "server { allow 10.0.0.0/8; deny all; location / { set_real_ip_from 10.0.0.1; proxy_pass http://a; } }",
        );
        assert!(text.contains(SHUT), "{text}");
    }
}
