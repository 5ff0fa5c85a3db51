//! Where does `proxy_pass` or `grpc_pass` send a request, and with which path?

use super::variables::{Known, Part, plain};

/// What stands behind `proxy_pass`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) tls: bool,
    pub(super) host: Host,
    /// What takes the place of the location in the path.
    pub(super) uri: Uri,
}

/// Whom it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    Named(String),
    /// By a variable alone.
    Variable(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Uri {
    /// The path goes on as it came.
    AsItCame,
    Text(String),
    /// Made of variables.
    Made(Vec<Part>),
}

/// `None`: something else than a scheme, a host and a path.
pub(super) fn target(written: &str, known: &Known) -> Option<Target> {
    let parts = known.parts(written);
    let (first, rest) = parts.split_first()?;
    let Part::Text(first) = first else { return None };
    let (scheme, behind) = first.split_once("://").unwrap_or(("grpc", first));
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "http" | "grpc" => false,
        "https" | "grpcs" => true,
        _ => return None,
    };
    if let Some(socket) = behind.strip_prefix("unix:") {
        let (path, uri) = socket.split_once(':').unwrap_or((socket, ""));
        let uri = uri_of(uri, rest)?;
        return Some(Target { tls, host: Host::Named(format!("unix:{path}")), uri });
    }
    if behind.is_empty() {
        let (Part::Variable(name), rest) = rest.split_first()? else { return None };
        let (text, rest) = match rest.split_first() {
            Some((Part::Text(text), rest)) => (text.as_str(), rest),
            _ => ("", rest),
        };
        return Some(Target { tls, host: Host::Variable(name.clone()), uri: uri_of(text, rest)? });
    }
    let end = behind.find('/').unwrap_or(behind.len());
    let (host, uri) = behind.split_at_checked(end)?;
    // Part of a host is made of a variable.
    let is_whole = uri.starts_with('/') || matches!(rest.first(), None | Some(Part::Variable(_))) && is_path(rest);
    let uri = uri_of(uri, rest)?;
    (is_whole && !host.is_empty()).then(|| Target { tls, host: Host::Named(host.to_owned()), uri })
}

fn is_path(rest: &[Part]) -> bool {
    match rest.first() {
        None => true,
        Some(Part::Variable(name)) => matches!(name.as_str(), "request_uri" | "uri" | "document_uri"),
        Some(Part::Text(_)) => false,
    }
}

fn uri_of(text: &str, rest: &[Part]) -> Option<Uri> {
    let names: Vec<&str> = rest.iter().map(|part| if let Part::Variable(name) = part { name } else { "" }).collect();
    Some(match (text, names.as_slice()) {
        ("", []) => Uri::AsItCame,
        ("", ["request_uri"] | ["uri" | "document_uri", "is_args", "args" | "query_string"]) => Uri::AsItCame,
        (text, []) if text.starts_with('/') => Uri::Text(text.to_owned()),
        (text, _) if text.is_empty() || text.starts_with('/') => {
            let text = (!text.is_empty()).then(|| Part::Text(text.to_owned()));
            Uri::Made(text.into_iter().chain(rest.iter().cloned()).collect())
        }
        _ => return None,
    })
}

/// What is taken off a path and what is put in front of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Rewrite {
    pub(super) strip: String,
    pub(super) add: String,
}

/// `from`, the beginning of a path, becomes `to`: by whole segments, or not at all.
pub(super) fn replaced(from: &str, to: &str, is_exact: bool) -> Result<Rewrite, String> {
    let (strip, add) = (from.trim_end_matches('/'), to.trim_end_matches('/'));
    let slashes = from.ends_with('/') == to.ends_with('/') || is_exact;
    if to.contains(['?', '#']) {
        return Err("a path is put in front here, no arguments".to_owned());
    }
    if from == to {
        return Ok(Rewrite::default());
    }
    if !slashes {
        return Err(format!("{from} becomes {to} letter by letter in nginx, by whole segments here"));
    }
    if is_exact && from.ends_with('/') != to.ends_with('/') && to != "/" {
        return Err("a slash at the end of one of them".to_owned());
    }
    Ok(if strip == add { Rewrite::default() } else { Rewrite { strip: strip.to_owned(), add: add.to_owned() } })
}

/// The beginning of the paths that `^/from/(.*)$` fits, if it is such an expression.
pub(super) fn prefix_of(expression: &str) -> Option<&str> {
    let inside = expression.strip_prefix('^')?;
    let inside = inside.strip_suffix('$').unwrap_or(inside);
    let from = inside.strip_suffix("(.*)").or_else(|| inside.strip_suffix("(.+)"))?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-~%".contains(&byte);
    (from.starts_with('/') && from.bytes().all(is_plain)).then_some(from)
}

/// `/to/$1`, with arguments behind it or not: the beginning.
pub(super) fn with_group(parts: &[Part]) -> Option<&str> {
    let (parts, text) = match parts.split_first()? {
        (Part::Text(text), rest) => (rest, text.as_str()),
        _ => return None,
    };
    let names: Vec<&str> = parts.iter().map(|part| if let Part::Variable(name) = part { name } else { "" }).collect();
    matches!(names.as_slice(), ["1"] | ["1", "is_args", "args" | "query_string"]).then_some(text)
}

/// The text of a path without variables.
pub(super) fn fixed(parts: &[Part]) -> Option<&str> {
    plain(parts).filter(|text| text.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<String> {
        let mut known = Known::default();
        known.set_text("b", "app.internal");
        let Target { tls, host, uri } = target(text, &known)?;
        let host = match host {
            Host::Named(name) => name,
            Host::Variable(name) => format!("${name}"),
        };
        Some(format!("{} {host} {uri:?}", if tls { "https" } else { "http" }))
    }

    #[test]
    fn a_target_is_a_scheme_a_host_and_a_path() {
        for (text, expected) in [
            ("http://up", "http up AsItCame"),
            ("http://up/", "http up Text(\"/\")"),
            ("https://10.0.0.1:8443/v2/", "https 10.0.0.1:8443 Text(\"/v2/\")"),
            ("http://$b:8080", "http app.internal:8080 AsItCame"),
            ("http://$pool", "http $pool AsItCame"),
            ("http://$pool$request_uri", "http $pool AsItCame"),
            ("http://up$uri$is_args$args", "http up AsItCame"),
            ("http://unix:/run/a.sock:/x", "http unix:/run/a.sock Text(\"/x\")"),
            ("http://unix:/run/a.sock", "http unix:/run/a.sock AsItCame"),
            ("grpcs://up", "https up AsItCame"),
            ("localhost:9000", "http localhost:9000 AsItCame"),
        ] {
            assert_eq!(of(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["ftp://x", "$scheme://x", "http://", "http://a$x.b", "http://up:$port", "http://$a$x"] {
            assert!(
                of(text).is_none() || matches!(target(text, &Known::default()), Some(Target { uri: Uri::Made(_), .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn a_beginning_is_replaced_by_whole_segments() {
        let rewrite = |strip: &str, add: &str| Ok(Rewrite { strip: strip.to_owned(), add: add.to_owned() });
        assert_eq!(replaced("/api/", "/", false), rewrite("/api", ""));
        assert_eq!(replaced("/api/", "/v2/", false), rewrite("/api", "/v2"));
        assert_eq!(replaced("/api", "/v2", false), rewrite("/api", "/v2"));
        assert_eq!(replaced("/x", "/y", true), rewrite("/x", "/y"));
        assert!(replaced("/api/", "/v2", false).is_err());
        assert!(replaced("/api", "/", false).is_err());
        assert!(replaced("/x", "/y?z", true).is_err());
        assert_eq!(prefix_of("^/api/(.*)$"), Some("/api/"));
        assert_eq!(prefix_of("^/api/(.*)"), Some("/api/"));
        assert_eq!(prefix_of("^/a[b]/(.*)"), None);
    }
}
