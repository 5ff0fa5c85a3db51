//! What did a line of an access log ask for? Ours in JSON or in the `upstream` format, or any format of nginx.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::anyhow;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use super::asked::{Asked, Seen, Take};
use super::log_format::{Fields, Format};
use crate::cli::Usage;
use crate::pool::plan::Literal;
use crate::template::{Facts, Need, host, path};
use crate::traffic::Target;

/// The format `upstream` of ours, which is one of nginx.
const UPSTREAM: &str = "$remote_addr [$time_local] \"$request\" $status $host$request_uri $upstream_addr $upstream_status \
                        $upstream_response_time $request_time -";

/// nginx's `combined`, which needs no definition there.
const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";

/// How lines are read.
#[derive(Debug)]
pub(super) struct Shape {
    format: Format,
    /// A line that begins with a brace is ours in JSON.
    or_json: bool,
    /// The host of requests that are logged without one.
    host: String,
}

impl Shape {
    /// Ours, or nginx's of this `log_format`: its text, its whole directive, or `combined`.
    pub(super) fn of(log_format: Option<&str>, host: Option<&str>) -> anyhow::Result<Self> {
        let text = match log_format {
            None | Some("upstream") => UPSTREAM,
            Some("combined") => COMBINED,
            Some(text) => text,
        };
        let format = Format::parse(text).map_err(|why| anyhow!(Usage(format!("--log-format: {why}"))))?;
        Ok(Self { format, or_json: log_format.is_none(), host: host.unwrap_or_default().to_owned() })
    }

    /// Tells what the line asked for, if it was something that was placed.
    ///
    /// # Errors
    /// It is no line of this shape.
    pub(super) fn tell(&self, line: &[u8], take: &mut Take<'_>) -> Result<(), String> {
        if line.is_empty() {
            return Ok(());
        }
        if self.or_json && line.starts_with(b"{") {
            return self.json(line, take);
        }
        let fields = self.format.read(line)?;
        self.fields(&fields, take)
    }

    fn json(&self, line: &[u8], take: &mut Take<'_>) -> Result<(), String> {
        let line: Ours<'_> = serde_json::from_slice(line).map_err(|error| format!("no line of ours: {error}"))?;
        // An answer of the gateway's own was placed nowhere.
        let Some(pool) = &line.pool else { return Ok(()) };
        let headers = HeaderMap::new();
        let request = Request {
            method: line.method.as_bytes(),
            scheme: &line.scheme,
            authority: line.host.as_bytes(),
            target: line.uri.as_bytes(),
            client: line.client.parse().ok(),
        };
        let knows = |need: Need<'_>| need == Need::Client && request.client.is_some();
        let key = line.key.as_ref().map(|key| Literal::Key(key.as_bytes()));
        self.request(&request, &headers, |facts| {
            take(&Asked::request(Seen { facts, knows: &knows, pool: Some(pool), key }));
        })
    }

    fn fields(&self, fields: &Fields<'_>, take: &mut Take<'_>) -> Result<(), String> {
        let (mut method, mut target) = (fields.method.clone(), fields.target());
        if let Some(line) = &fields.request {
            let mut words = line.split(|byte| *byte == b' ');
            method = method.or(words.next().map(|word| word.to_vec().into()));
            // What was asked for is known better than what it was rewritten to.
            target = words.next().map(|word| word.to_vec().into()).or(target);
        }
        let target = target.ok_or("it names no path")?;
        let (headers, cookies) = headers(fields);
        let request = Request {
            method: method.as_deref().unwrap_or(b"GET"),
            scheme: if fields.scheme.as_deref() == Some(b"https") { "https" } else { "http" },
            authority: fields.host().unwrap_or_default(),
            target: &target,
            client: fields.client.as_deref().and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()),
        };
        let knows = |need: Need<'_>| match need {
            Need::Header(name) => self.format.has_header(name),
            Need::Cookie(name) => cookies || self.format.has_cookie(name),
            Need::Client => request.client.is_some(),
            Need::Port => fields.http_host.is_some(),
        };
        self.request(&request, &headers, |facts| {
            take(&Asked::request(Seen { facts, knows: &knows, pool: None, key: None }));
        })
    }

    /// Shows the request as templates see it, unless the gateway would not have taken it.
    fn request(&self, request: &Request<'_>, headers: &HeaderMap, tell: impl FnOnce(Facts<'_>)) -> Result<(), String> {
        let method = std::str::from_utf8(request.method).map_err(|_| "its method is no text")?;
        let target = Target::parse(request.method, request.target).map_err(|_| "its target is malformed")?;
        let authority = match target {
            Target::Absolute { authority, .. } => authority,
            _ if request.authority.is_empty() => self.host.as_bytes(),
            _ => request.authority,
        };
        let authority = String::from_utf8_lossy(authority);
        let target = target.as_received(request.method);
        let client_ip = request.client.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let facts = Facts {
            method,
            scheme: request.scheme,
            host: &host::normalise(&authority),
            host_port: &host::with_port(&authority, request.scheme),
            target: &target,
            headers,
            client_ip,
            peer: SocketAddr::new(client_ip, 0),
        };
        path::merged(facts.path()).map_err(|why| why.to_string())?;
        tell(facts);
        Ok(())
    }
}

/// The fields of a line of ours that make a request.
#[derive(Deserialize)]
struct Ours<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    scheme: Cow<'a, str>,
    #[serde(borrow)]
    host: Cow<'a, str>,
    #[serde(borrow)]
    uri: Cow<'a, str>,
    #[serde(borrow)]
    client: Cow<'a, str>,
    pool: Option<String>,
    key: Option<String>,
}

/// What a line says of a request.
struct Request<'a> {
    method: &'a [u8],
    scheme: &'a str,
    authority: &'a [u8],
    target: &'a [u8],
    client: Option<IpAddr>,
}

/// The header lines that were logged, and whether all cookies are among them.
fn headers(fields: &Fields<'_>) -> (HeaderMap, bool) {
    let mut headers = HeaderMap::new();
    let mut cookies = false;
    for (name, value) in &fields.headers {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            cookies |= name == http::header::COOKIE;
            headers.append(HeaderName::clone(name), value);
        }
    }
    for (name, value) in &fields.cookies {
        let pair = [name.as_bytes(), b"=", value].concat();
        if let Ok(value) = HeaderValue::from_bytes(&pair) {
            headers.append(http::header::COOKIE, value);
        }
    }
    (headers, cookies)
}

#[cfg(test)]
mod tests {
    use super::super::asked::What;
    use super::*;
    use crate::config;
    use crate::template::{Key, Keyed};

    fn key(template: &str) -> Key {
        let text = format!(
            "version: 1\nprocess: {{ listeners: [ {{ address: 127.0.0.1:0 }} ] }}\npools: {{ p: {{ balance: {{ key: \"{template}\" }}, origins: [a] }} }}\n"
        );
        Key::compile(&config::parse("f", &text).unwrap().config.pools["p"]).unwrap()
    }

    /// The key a line gives by `template`; what is said when there is none.
    fn told(shape: &Shape, line: &str, template: &str) -> String {
        let key = key(template);
        let mut told = "nothing".to_owned();
        let read = shape.tell(line.as_bytes(), &mut |asked| {
            let What::Request(seen) = &asked.what else { panic!("a literal key") };
            let mut out = Vec::new();
            told = match seen.make(&key, &mut out) {
                Some(Keyed::Key) => String::from_utf8(out).unwrap(),
                Some(Keyed::Spread) => "spread".to_owned(),
                None => match seen.key {
                    Some(Literal::Key(key)) => format!("unknown, logged {}", String::from_utf8_lossy(key)),
                    _ => "unknown".to_owned(),
                },
            };
        });
        read.map_or_else(|why| format!("error: {why}"), |()| told)
    }

    fn nginx(format: &str) -> Shape {
        Shape::of(Some(format), None).unwrap()
    }

    const JSON: &str = r#"{"time":"2026-11-29T20:35:01.042Z","client":"192.0.2.7","method":"GET","scheme":"http","host":"example.com","uri":"/a\"b?t=1&id=2","protocol":"HTTP/1.1","status":200,"bytes_sent":97,"bytes_received":0,"request_time":0.012345,"request_id":"01","route":"api","pool":"origin","ring":"00","key":"u7","attempts":[],"error":null,"limited":null}"#;

    #[test]
    fn our_own_lines_tell_the_request_and_what_was_hashed() {
        let shape = Shape::of(None, None).unwrap();
        assert_eq!(told(&shape, JSON, "{host}{path}{args}"), "example.com/a\"b?id=2&t=1");
        assert_eq!(told(&shape, JSON, "{client_ip}"), "192.0.2.7");
        assert_eq!(told(&shape, JSON, "{header:x-user}"), "unknown, logged u7");
        assert_eq!(told(&shape, JSON, "{host_port}"), "unknown, logged u7");
        assert_eq!(told(&shape, &JSON.replace("\"origin\"", "null"), "{path}"), "nothing");
        assert!(told(&shape, "{\"a\":1}", "{path}").starts_with("error: no line of ours: missing field"));
    }

    #[test]
    fn our_upstream_lines_tell_host_and_target_also_after_retries() {
        let shape = Shape::of(None, None).unwrap();
        let line = "192.0.2.7 [29/Nov/2026:20:35:01 +0000] \"GET /a?b=\\x22 HTTP/1.1\" 200 example.com/a?b=\\x22 10.0.0.1:80, 10.0.0.2:80 502, 200 0.000, 0.011 0.012 -";
        assert_eq!(told(&shape, line, "{host}{uri}"), "example.com/a?b=\"");
        assert_eq!(told(&shape, "nonsense", "{path}"), "error: it does not match the log format");
    }

    #[test]
    fn any_format_of_nginx_is_read() {
        let combined = "192.0.2.7 - - [29/Nov/2026:20:35:01 +0000] \"GET /a HTTP/1.1\" 200 97 \"-\" \"curl 8\"";
        let with_host = Shape::of(Some("combined"), Some("Example.com")).unwrap();
        assert_eq!(told(&with_host, combined, "{host}{path}"), "example.com/a");
        assert_eq!(told(&nginx("combined"), combined, "{header:user-agent}"), "curl 8");
        assert_eq!(told(&nginx("combined"), combined, "{header:referer}"), "spread");
        assert_eq!(told(&nginx("combined"), combined, "{header:x-user}"), "unknown");
        for (format, line, template, expected) in [
            ("$host $uri$is_args$args $status", "h.example /a/b?x=1 200", "{host}{path}{args}", "h.example/a/b?x=1"),
            ("$host $uri$is_args$args $status", "h.example /a/b 200", "{host}{path}{args}", "h.example/a/b"),
            ("$http_host|$request_uri", "h.example:81|/a", "{host_port}{path}", "h.example:81/a"),
            ("$scheme://$host$request_uri", "https://h.example/a?b", "{host}{uri}", "h.example/a?b"),
            ("\"$request\" $cookie_s;$http_x_user", "\"GET /a HTTP/1.1\" c;u", "{cookie:s}|{header:x-user}", "c|u"),
            ("\"$request\" $http_cookie", "\"GET /a HTTP/1.1\" a=1; s=c", "{cookie:s}", "c"),
            ("\"$request\" ${host}x", "\"GET http://o.example/a HTTP/1.1\" -x", "{host}{path}", "o.example/a"),
            (
                "log_format main escape=json '{\"r\":\"$request\",' '\"h\":\"$host\"}';",
                "{\"r\":\"GET /a\\u001f\\\"b HTTP/1.1\",\"h\":\"h.example\"}",
                "{host}{path}",
                "error: its target is malformed",
            ),
            (
                "log_format main escape=json '{\"r\":\"$request\",' '\"h\":\"$host\"}';",
                "{\"r\":\"GET /a\\\\\\\"b HTTP/1.1\",\"h\":\"h.example\"}",
                "{host}{path}",
                "h.example/a\\\"b",
            ),
        ] {
            assert_eq!(told(&nginx(format), line, template), expected, "{format}");
        }
    }

    #[test]
    fn a_format_that_cannot_be_taken_apart_is_refused() {
        for (format, why) in [
            ("$remote_addr$status \"$request\"", "$remote_addr and $status have nothing between them"),
            ("$remote_addr $status", "it names no path: $request, $request_uri or $uri"),
            ("$", "a $ without a name"),
        ] {
            let error = Shape::of(Some(format), None).unwrap_err();
            assert!(error.is::<Usage>());
            assert_eq!(error.to_string(), format!("--log-format: {why}"));
        }
    }
}
