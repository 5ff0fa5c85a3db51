//! Where is a client sent that is sent elsewhere?
//!
//! Who follows a link of ours trusts whoever it names. So the host of a redirect is the operator's to say, or the one that
//! was asked; whatever else a request brings stands behind it, and never begins another host: a path of `//elsewhere`
//! begins with one slash, what no URL may hold is escaped, line ends first of all. A request that lacks a part is not sent
//! to half a place.

use http::HeaderValue;

use crate::config::Invalid;
use crate::config::route;
use crate::template::{Extra, Facts, Scope, Template};

/// The compiled `redirect` section of a route.
#[derive(Debug, Clone)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    to: Template,
    /// It begins with a path, not with a scheme.
    is_path: bool,
}

/// Variables that say which host was asked, and nothing else.
const HOSTS: [&str; 2] = ["{host}", "{host_port}"];
/// Variables that begin with a slash.
const PATHS: [&str; 3] = ["{uri}", "{path}", "{nginx_uri}"];

impl Redirect {
    /// Compiles what was written.
    ///
    /// # Errors
    /// A client could choose where it is sent, or nobody could go there.
    pub fn compile(written: &route::Redirect) -> Result<Self, Invalid> {
        let to = Template::compile(&written.to, Scope::Value)?;
        let is_path = starts_with_path(&to)?;
        let mut place = if is_path { Place::Behind } else { Place::Scheme };
        for part in to.written() {
            place = match part {
                Ok(literal) => place.after(literal)?,
                Err(variable) => place.with(variable)?,
            };
        }
        match place {
            Place::Behind | Place::Host { some: true } => Ok(Self { status: written.status.0, to, is_path }),
            Place::Scheme | Place::Host { .. } => Err(no_place(&written.to)),
        }
    }

    /// Where the client of this request goes; `None`: the request lacks a part of it.
    pub fn target(&self, facts: &Facts<'_>, extra: &dyn Fn(Extra, &mut Vec<u8>)) -> Option<HeaderValue> {
        // `OPTIONS *` asks for no place that could be elsewhere.
        if facts.target == b"*" {
            return None;
        }
        let mut out = Vec::with_capacity(self.to.text().len() + facts.target.len() + 32);
        self.to.render_value(facts, extra, escape, &mut out).ok()?;
        if self.is_path {
            let slashes = out.iter().take_while(|byte| **byte == b'/').count();
            out.splice(..slashes, *b"/");
        }
        HeaderValue::from_bytes(&out).ok()
    }
}

/// Where in a URL the next part of a template stands.
#[derive(Clone, Copy)]
enum Place {
    Scheme,
    /// Within the host, of which there is some.
    Host {
        some: bool,
    },
    /// In path, query or fragment.
    Behind,
}

impl Place {
    fn after(self, literal: &[u8]) -> Result<Self, Invalid> {
        if let Some(byte) = literal.iter().find(|byte| !is_of_urls(**byte)) {
            let found = format!("`{}`, which no URL holds as it is", char::from(*byte).escape_default());
            return Err(Invalid::new(found, format!("expected it escaped: %{byte:02X}")));
        }
        let (host, some) = match self {
            Self::Behind => return Ok(self),
            Self::Host { some } => (literal, some),
            // It was looked at before.
            Self::Scheme => (literal.splitn(2, |byte| *byte == b'/').nth(1).unwrap_or_default(), false),
        };
        let host = if matches!(self, Self::Scheme) { host.strip_prefix(b"/").unwrap_or(host) } else { host };
        let end = host.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
        let name = &host[..end.unwrap_or(host.len())];
        if name.contains(&b'@') {
            return Err(Invalid::new("a user in a URL", "expected a host alone"));
        }
        match end {
            Some(_) if !some && name.is_empty() => Err(no_place(&String::from_utf8_lossy(literal))),
            Some(_) => Ok(Self::Behind),
            None => Ok(Self::Host { some: some || !name.is_empty() }),
        }
    }

    fn with(self, variable: &str) -> Result<Self, Invalid> {
        match self {
            Self::Behind => Ok(Self::Behind),
            Self::Scheme if variable == "{scheme}" => Ok(Self::Scheme),
            Self::Host { .. } if HOSTS.contains(&variable) => Ok(Self::Host { some: true }),
            Self::Host { some: true } if PATHS.contains(&variable) => Ok(Self::Behind),
            Self::Host { .. } | Self::Scheme => {
                let found = format!("{variable} where the host stands: a client would choose where it is sent");
                Err(Invalid::new(found, "expected a host, {host} or {host_port}, and a / behind it"))
            }
        }
    }
}

/// Does it begin with a path (`/…`, `{uri}`), or with a scheme (`https://`, `{scheme}://`)?
fn starts_with_path(to: &Template) -> Result<bool, Invalid> {
    let text = to.text();
    if PATHS.iter().any(|path| text.starts_with(path)) || text.starts_with('/') && !text.starts_with("//") {
        return Ok(true);
    }
    let is_scheme = ["https://", "http://", "{scheme}://"].iter().any(|scheme| text.starts_with(scheme));
    if is_scheme { Ok(false) } else { Err(no_place(text)) }
}

fn no_place(text: &str) -> Invalid {
    Invalid::new(format!("found {text:?}"), "expected https:// or http:// and a host, or a path that begins with /")
}

/// May this byte stand in a URL as it is (RFC 3986, section 2)?
fn is_of_urls(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte)
}

/// What stands in `out[from..]` as a URL has it. Escapes stay as they are.
fn escape(out: &mut Vec<u8>, from: usize) {
    if out[from..].iter().all(|byte| is_of_urls(*byte)) {
        return;
    }
    for byte in out.split_off(from) {
        if is_of_urls(byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use http::HeaderMap;

    use super::*;
    use crate::config::route::RedirectStatus;

    fn compile(to: &str) -> Result<Redirect, Invalid> {
        Redirect::compile(&route::Redirect { status: RedirectStatus(308), to: to.to_owned() })
    }

    pub(super) fn sent(to: &str, host: &str, target: &[u8]) -> Option<String> {
        let (headers, peer) = (HeaderMap::new(), SocketAddr::from(([192, 0, 2, 7], 4711)));
        let facts = Facts {
            method: "GET",
            scheme: "http",
            host,
            host_port: host,
            target,
            headers: &headers,
            client_ip: peer.ip(),
            peer,
        };
        let target = compile(to).unwrap().target(&facts, &|_, _| {})?;
        Some(target.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_client_goes_where_the_template_says() {
        for (to, target, expected) in [
            ("https://{host}{uri}", "/a//b?c=%2f&d", "https://shop.example/a//b?c=%2f&d"),
            ("https://new.example{uri}", "/", "https://new.example/"),
            ("https://new.example{uri}", "?q", "https://new.example?q"),
            ("https://{host}:8443{path}{args}", "/%61?b&a=1", "https://shop.example:8443/a?a=1&b="),
            ("{scheme}://www.{host}{uri}", "/a", "http://www.shop.example/a"),
            ("https://new.example/{path:^/old/(.*)}", "/old/x/y", "https://new.example/x/y"),
            ("https://new.example", "/a", "https://new.example"),
            ("/new{uri}", "/a?b", "/new/a?b"),
            ("{uri}", "/a?b", "/a?b"),
            ("/login?back={uri}#top", "/a?b", "/login?back=/a?b#top"),
            ("https://new.example/?ip={client_ip}", "/", "https://new.example/?ip=192.0.2.7"),
        ] {
            assert_eq!(sent(to, "shop.example", target.as_bytes()).as_deref(), Some(expected), "{to} {target}");
        }
    }

    #[test]
    fn nothing_in_a_request_names_another_host() {
        for (to, target, expected) in [
            ("{uri}", &b"//evil.example/x"[..], "/evil.example/x"),
            ("{uri}", b"///evil.example", "/evil.example"),
            ("{uri}", b"/\\evil.example", "/%5Cevil.example"),
            ("{path}", b"//evil.example", "/evil.example"),
            ("{nginx_uri}", b"/%5Cevil.example", "/%5Cevil.example"),
            ("/{path:^/old/(.*)}", b"/old//evil.example", "/evil.example"),
            ("/{arg:to}", b"/?to=/evil.example", "/evil.example"),
            ("/{arg:to}", b"/?to=%09/evil.example", "/%09/evil.example"),
            ("https://{host}{uri}", b"//evil.example", "https://shop.example//evil.example"),
        ] {
            assert_eq!(sent(to, "shop.example", target).as_deref(), Some(expected), "{to} {}", target.escape_ascii());
        }
    }

    #[test]
    fn no_line_ends_in_a_place() {
        for target in [&b"/%0d%0aSet-Cookie:%20a=b"[..], b"/\r\nSet-Cookie: a=b", b"/\xe9\x00"] {
            for to in ["https://h{nginx_uri}", "https://h{uri}", "/x?{nginx_arg:a}"] {
                let sent = sent(to, "h", target);
                assert!(sent.is_none_or(|sent| sent.bytes().all(|byte| byte.is_ascii_graphic())), "{to}");
            }
        }
        assert_eq!(sent("https://h{nginx_uri}", "h", b"/%0d%0ax").as_deref(), Some("https://h/%0D%0Ax"));
    }

    #[test]
    fn half_a_place_is_none() {
        assert_eq!(sent("https://{host}{uri}", "", b"/a"), None, "no Host in HTTP/1.0");
        assert_eq!(sent("https://h/{arg:to}", "h", b"/a"), None);
        assert_eq!(sent("https://h/{path:^/old/(.*)}", "h", b"/new"), None);
        assert_eq!(sent("https://h/{path:^/old/(.*)}", "h", b"/old/").as_deref(), Some("https://h/"), "nothing fits");
        assert_eq!(sent("https://h{uri}", "h", b"*"), None);
        assert_eq!(sent("https://h{path}{args}", "h", b"/a").as_deref(), Some("https://h/a"), "no arguments are fine");
    }

    #[test]
    fn a_template_that_leaves_the_host_to_the_client_is_refused() {
        for to in [
            "https://{arg:host}/",
            "https://new.example{arg:rest}",
            "https://new.example{path:^/old(.*)}",
            "https://{header:x-tenant}.example/",
            "{arg:to}",
            "{header:x-to}",
            "{host}{uri}",
            "//new.example/",
            "https://",
            "https:///a",
            "https://{uri}",
            "ftp://h/",
            "javascript://h/",
            "new",
            "",
            "https://a b/",
            "https://h/\r\n",
            "https://h/{status}",
            "https://you@{host}/",
            "{scheme}{uri}",
        ] {
            assert!(compile(to).is_err(), "{to:?}");
        }
        let why = compile("https://new.example{arg:rest}").unwrap_err().to_string();
        assert!(why.starts_with("{arg:rest} where the host stands"), "{why}");
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_asked_the_host_is_ours(target: Vec<u8>, text in "[/\\\\a@:.%?#\\t\\r\\n ]{0,12}") {
            for target in [target, text.into_bytes()] {
                let target = [b"/", &target[..]].concat();
                for to in ["{uri}", "{path}", "{nginx_uri}", "/{arg:a}", "/{path:^/(.*)$}", "/x/{uri}"] {
                    let Some(sent) = tests::sent(to, "h", &target) else { continue };
                    prop_assert!(sent.starts_with('/') && !sent.starts_with("//"), "{sent}");
                    prop_assert!(sent.bytes().all(is_of_urls), "{sent}");
                }
                for to in ["https://h.example{uri}", "https://h.example{path}", "https://h.example/{nginx_arg:a}"] {
                    let Some(sent) = tests::sent(to, "h", &target) else { continue };
                    let rest = sent.strip_prefix("https://h.example").unwrap();
                    prop_assert!(rest.starts_with('/') || rest.starts_with('?'), "{sent}");
                }
            }
        }
    }
}
