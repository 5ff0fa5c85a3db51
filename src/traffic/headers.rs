//! Which headers go on?
//!
//! Towards the origin: who asked (`X-Forwarded-*`, `X-Real-IP`, `Forwarded`), the request's id, and the pool's Host;
//! what names this hop alone was taken out by Pingora before. Towards the client: the same for the answer, which
//! Pingora leaves in. Headers are edited by their types' own methods, which keep the spelling of names. They fail
//! only beyond some thousand lines, far above what a header may hold here, so that an edit cannot be lost.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{self, CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use pingora_http::{RequestHeader, ResponseHeader};
use smallvec::SmallVec;

use super::{Answered, forwarded, framing, limits};
use crate::config::route::{self, RequestId, XForwarded};
use crate::config::units::Address;
use crate::config::{Invalid, pool};
use crate::template::address;

const FOR: &str = "X-Forwarded-For";
const PROTO: &str = "X-Forwarded-Proto";
const HOST: &str = "X-Forwarded-Host";
const REAL_IP: &str = "X-Real-IP";
const REQUEST_ID: &str = "X-Request-ID";
const FORWARDED: &str = "Forwarded";

// What is looked up in every request: a name that is parsed already costs a quarter of one that is text.
static FOR_NAME: HeaderName = HeaderName::from_static("x-forwarded-for");
static REQUEST_ID_NAME: HeaderName = HeaderName::from_static("x-request-id");

/// The `forwarded` section of a route.
#[derive(Debug, Clone, Copy)]
pub struct Forwarding {
    x_forwarded: XForwarded,
    forwarded: bool,
    request_id: RequestId,
}

/// Who asked, as the origin is told.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a> {
    /// Who connected to us.
    pub peer: IpAddr,
    /// Who asks, after trusted proxies.
    pub client: IpAddr,
    /// The peer is a trusted proxy.
    pub trusted: bool,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The Host the client asked for.
    pub host: Option<&'a HeaderValue>,
    /// The request's id: [`Forwarding::kept_id`], or one made.
    pub request_id: &'a [u8],
}

impl Forwarding {
    /// Compiles what was written.
    pub fn compile(written: &route::Forwarded) -> Self {
        let route::Forwarded { x_forwarded, forwarded, request_id } = *written;
        Self { x_forwarded, forwarded, request_id }
    }

    /// The id that came with the request, if it is to be kept: at most 128 visible ASCII bytes. Else one is made.
    pub fn kept_id<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let id = headers.get(&REQUEST_ID_NAME)?.to_str().ok()?;
        let usable = (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
        (usable && self.request_id != RequestId::Make).then_some(id)
    }

    /// Tells the origin who asked; `host` replaces the client's Host.
    pub fn towards_origin(&self, request: &mut RequestHeader, sender: &Sender<'_>, host: Option<&HeaderValue>) {
        if self.x_forwarded != XForwarded::Off {
            self.x_forwarded(request, sender);
        }
        if self.forwarded {
            let element = forwarded::element(self.told(sender), sender.host, sender.scheme);
            let element = self.appended(&request.headers, &header::FORWARDED, element.as_bytes());
            put(request, FORWARDED, element);
        }
        if self.request_id != RequestId::Off {
            put(request, REQUEST_ID, HeaderValue::from_bytes(sender.request_id).ok());
        }
        if let Some(host) = host {
            put(request, "Host", Some(host.clone()));
        }
    }

    /// X-Forwarded-For says the way; the others are ours to say, unless a trusted proxy has said them (rule U8).
    fn x_forwarded(&self, request: &mut RequestHeader, sender: &Sender<'_>) {
        let set = self.x_forwarded == XForwarded::Set;
        let (told, client) = (self.told(sender), address::text(sender.client.to_canonical()));
        let way = match told == sender.client {
            true => self.appended(&request.headers, &FOR_NAME, &client),
            false => self.appended(&request.headers, &FOR_NAME, &address::text(told.to_canonical())),
        };
        put(request, FOR, way);
        let kept = |request: &RequestHeader, name| sender.trusted && !set && request.headers.contains_key(name);
        if !kept(request, REAL_IP) {
            put(request, REAL_IP, HeaderValue::from_bytes(&client).ok());
        }
        if !kept(request, PROTO) {
            put(request, PROTO, Some(HeaderValue::from_static(sender.scheme)));
        }
        if !kept(request, HOST) {
            put(request, HOST, sender.host.cloned());
        }
    }

    /// Whom we add: the last hop behind the others, or who asks when nobody else is told of.
    fn told(&self, sender: &Sender<'_>) -> IpAddr {
        if self.x_forwarded == XForwarded::Set { sender.client } else { sender.peer }
    }

    /// `element`, behind what all lines of `name` say already unless that is to be replaced.
    fn appended(&self, headers: &HeaderMap, name: &HeaderName, element: &[u8]) -> Option<HeaderValue> {
        let lines = headers.get_all(name).iter().map(HeaderValue::as_bytes).filter(|line| !line.is_empty());
        // What is no list would take what stands behind it for a part of itself.
        let lines = lines.filter(|line| *name != header::FORWARDED || forwarded::is_sound(line));
        let mut lines = lines.peekable();
        if self.x_forwarded == XForwarded::Set || lines.peek().is_none() {
            return HeaderValue::from_bytes(element).ok();
        }
        let mut list: Vec<u8> = lines.flat_map(|line| [line, b", "]).flatten().copied().collect();
        list.extend_from_slice(element);
        HeaderValue::from_maybe_shared(Bytes::from(list)).ok()
    }
}

/// The Host that the origin at `address` sees; `None`: the client's.
pub fn host_towards(written: &pool::Host, address: &Address, tls: bool) -> Result<Option<HeaderValue>, Invalid> {
    let default_port = if tls { 443 } else { 80 };
    let host = match (written, address) {
        (pool::Host::Preserve, _) => return Ok(None),
        (pool::Host::Literal(host), _) => host.clone(),
        (pool::Host::Address, Address::Ip(address)) if address.port() == default_port => uri_host(address.ip()),
        (pool::Host::Address, Address::Name(name, port)) if *port == default_port => name.clone(),
        (pool::Host::Address, Address::Unix(_)) => "localhost".to_owned(),
        (pool::Host::Address, address) => address.to_string(),
    };
    let refused = || Invalid::new(format!("{host:?}"), "expected a host name or address, with or without a port");
    let value = HeaderValue::try_from(host.as_str()).ok().filter(limits::is_host).ok_or_else(refused)?;
    Ok(Some(value))
}

/// Does a request say anything that is meant for the next hop alone? Only then Pingora has something to take out of it,
/// and it looks for each name twice.
pub fn concern_one_hop(request: &HeaderMap) -> bool {
    let framing_or_upgrade = |name: &HeaderName| matches!(name.as_str(), "transfer-encoding" | "http2-settings");
    request.keys().any(|name| is_hop_by_hop(name) || framing_or_upgrade(name))
}

/// Takes out of an answer what names the hop behind us alone, and all but one of equal lengths. The framing stays for
/// Pingora, but for an answer that has no body whatever it says (RFC 9110, section 8.6; RFC 9112, section 6.1), and a switch
/// of protocols stays as a whole. A `Connection` of a last answer that says nothing but whether the connection goes on may stay
/// where it is, since Pingora puts its own in its place, or none in HTTP/2. `noted` is of this answer.
pub fn towards_client(response: &mut ResponseHeader, noted: Answered) {
    if response.status.as_u16() == 101 {
        return;
    }
    if response.status.is_informational() || response.status.as_u16() == 204 {
        response.remove_header(&CONTENT_LENGTH);
        response.remove_header(&TRANSFER_ENCODING);
    } else if let Some(length) = framing::one_length(&response.headers) {
        _ = response.insert_header(CONTENT_LENGTH, length);
    }
    if noted.one_hop {
        leave_hop(response);
    }
}

fn leave_hop(response: &mut ResponseHeader) {
    // A full map would grow for Pingora's own line: it makes room before it looks whether there is one.
    let has_room = response.headers.len() < response.headers.capacity();
    let stays = has_room && !response.status.is_informational() && nominated(&response.headers).next().is_none();
    let mut doomed = SmallVec::<[HeaderName; 4]>::new();
    for name in response.headers.keys().filter(|name| is_hop_by_hop(name)) {
        if *name != CONNECTION || !stays {
            doomed.push(name.clone());
        }
    }
    if doomed.contains(&CONNECTION) {
        let named = nominated(&response.headers);
        doomed.extend(named.filter_map(|token| HeaderName::from_bytes(token).ok()).filter(|name| !frames(name)));
    }
    for name in &doomed {
        response.remove_header(name);
    }
}

/// What `Connection` names beside the connection itself.
fn nominated(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(CONNECTION).into_iter();
    let named = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    named.filter(|token| !nominates_nothing(token))
}

pub(super) fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authentication-info"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "upgrade"
    )
}

/// What nearly every Connection line says; a Keep-Alive line goes by its own name.
fn nominates_nothing(token: &[u8]) -> bool {
    token.eq_ignore_ascii_case(b"keep-alive") || token.eq_ignore_ascii_case(b"close")
}

/// No origin may nominate away where its own body ends.
fn frames(name: &HeaderName) -> bool {
    matches!(name.as_str(), "content-length" | "transfer-encoding")
}

fn uri_host(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// Makes `value` the only line of `name`; without one there is none.
fn put(request: &mut RequestHeader, name: &'static str, value: Option<HeaderValue>) {
    _ = match value {
        Some(value) => request.insert_header(name, value).is_ok(),
        None => request.remove_header(name).is_some(),
    };
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const KEEP: Forwarding =
        Forwarding { x_forwarded: XForwarded::Append, forwarded: false, request_id: RequestId::Keep };

    fn request(lines: &[(&'static str, &'static str)]) -> RequestHeader {
        let mut request = RequestHeader::build("GET", b"/", None).unwrap();
        for (name, value) in lines {
            request.append_header(*name, *value).unwrap();
        }
        request
    }

    fn lines(headers: &HeaderMap, name: &str) -> Vec<String> {
        headers.get_all(name).iter().map(|line| line.to_str().unwrap().to_owned()).collect()
    }

    /// The lines of `name` that the origin sees.
    fn sent(forwarding: Forwarding, client: &[(&'static str, &'static str)], name: &str) -> Vec<String> {
        sent_by(false, forwarding, client, name)
    }

    /// The same, sent by a trusted proxy or by somebody else.
    fn sent_by(
        trusted: bool,
        forwarding: Forwarding,
        client: &[(&'static str, &'static str)],
        name: &str,
    ) -> Vec<String> {
        let mut request = request(client);
        let host = HeaderValue::from_static("shop.example:8080");
        let sender = Sender {
            peer: "::ffff:10.0.0.9".parse().unwrap(),
            client: "192.0.2.1".parse().unwrap(),
            trusted,
            scheme: "http",
            host: Some(&host),
            request_id: b"f00d",
        };
        forwarding.towards_origin(&mut request, &sender, None);
        lines(&request.headers, name)
    }

    #[test]
    fn x_forwarded_for_is_appended_to_what_came() {
        assert_eq!(sent(KEEP, &[], "x-forwarded-for"), ["10.0.0.9"]);
        assert_eq!(sent(KEEP, &[("X-Forwarded-For", "")], "x-forwarded-for"), ["10.0.0.9"]);
        let two = [("X-Forwarded-For", "1.1.1.1, 2.2.2.2"), ("x-forwarded-for", "3.3.3.3")];
        assert_eq!(sent(KEEP, &two, "x-forwarded-for"), ["1.1.1.1, 2.2.2.2, 3.3.3.3, 10.0.0.9"]);
    }

    #[test]
    fn set_replaces_and_off_leaves_what_came() {
        let came = [("X-Forwarded-For", "1.1.1.1"), ("X-Real-IP", "1.1.1.1")];
        let set = Forwarding { x_forwarded: XForwarded::Set, ..KEEP };
        assert_eq!(sent(set, &came, "x-forwarded-for"), ["192.0.2.1"], "who asks: nobody else stands in the list");
        let off = Forwarding { x_forwarded: XForwarded::Off, ..KEEP };
        assert_eq!(sent(off, &came, "x-forwarded-for"), ["1.1.1.1"]);
        assert_eq!(sent(off, &came, "x-real-ip"), ["1.1.1.1"]);
        assert!(sent(off, &[], "x-forwarded-proto").is_empty());
    }

    #[test]
    fn scheme_host_and_client_are_overwritten() {
        let came = [
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-Proto", "gopher"),
            ("X-Forwarded-Host", "evil"),
            ("X-Real-IP", "1.1.1.1"),
        ];
        assert_eq!(sent(KEEP, &came, "x-forwarded-proto"), ["http"]);
        assert_eq!(sent(KEEP, &came, "x-forwarded-host"), ["shop.example:8080"]);
        assert_eq!(sent(KEEP, &came, "x-real-ip"), ["192.0.2.1"]);
    }

    #[test]
    fn u8_what_a_trusted_proxy_said_of_scheme_host_and_client_is_kept() {
        let came =
            [("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "shop.example"), ("X-Real-IP", "198.51.100.7")];
        for (name, value) in came {
            assert_eq!(sent_by(true, KEEP, &came, name), [value]);
            let set = Forwarding { x_forwarded: XForwarded::Set, ..KEEP };
            assert_ne!(sent_by(true, set, &came, name), [value], "set says what we know alone");
        }
        assert_eq!(sent_by(true, KEEP, &[], "x-forwarded-proto"), ["http"]);
        assert_eq!(sent_by(true, KEEP, &[], "x-real-ip"), ["192.0.2.1"]);
    }

    #[test]
    fn forwarded_is_added_only_when_asked_for() {
        assert!(sent(KEEP, &[], "forwarded").is_empty());
        let asked = Forwarding { forwarded: true, ..KEEP };
        let sent_on = |came: &'static str| sent(asked, &[("Forwarded", came)], "forwarded").remove(0);
        assert!(
            sent_on("for=unknown;by=_x, for=\"_hidden\"")
                .starts_with("for=unknown;by=_x, for=\"_hidden\", for=10.0.0.9;")
        );
        for open in ["for=\"", "for=1.1.1.1;host=\"x\\\"", "for"] {
            assert!(sent_on(open).starts_with("for=10.0.0.9;"), "{open}: nothing hides whom we were asked by");
        }
        let ours = "for=10.0.0.9;host=\"shop.example:8080\";proto=http";
        assert_eq!(sent(asked, &[], "forwarded"), [ours]);
        assert_eq!(sent(asked, &[("Forwarded", "for=_x")], "forwarded"), [format!("for=_x, {ours}")]);
        let v6 = Sender {
            peer: "2001:db8::1".parse().unwrap(),
            client: "::1".parse().unwrap(),
            trusted: false,
            scheme: "https",
            host: None,
            request_id: b"",
        };
        assert_eq!(forwarded::element(v6.peer, v6.host, v6.scheme), "for=\"[2001:db8::1]\";proto=https");
    }

    #[test]
    fn an_id_is_kept_when_it_is_short_and_visible() {
        let kept = |id: &str, mode| {
            let headers = HeaderMap::from_iter([(HeaderName::from_static("x-request-id"), id.parse().unwrap())]);
            Forwarding { request_id: mode, ..KEEP }.kept_id(&headers).map(str::to_owned)
        };
        let longest = "x".repeat(128);
        assert_eq!(kept("abc-123", RequestId::Keep).as_deref(), Some("abc-123"));
        assert_eq!(kept(&longest, RequestId::Keep), Some(longest.clone()));
        for id in ["", "a b", "a\tb", "\u{e9}", &format!("{longest}x")] {
            assert_eq!(kept(id, RequestId::Keep), None, "{id:?}");
        }
        assert_eq!(kept("abc", RequestId::Make), None);
        assert_eq!(kept("abc", RequestId::Off).as_deref(), Some("abc"));
        assert_eq!(KEEP.kept_id(&HeaderMap::new()), None);
    }

    #[test]
    fn the_id_goes_on_as_one_line_unless_off() {
        let came = [("X-Request-ID", "a"), ("X-Request-ID", "b")];
        assert_eq!(sent(KEEP, &came, "x-request-id"), ["f00d"]);
        let off = Forwarding { request_id: RequestId::Off, ..KEEP };
        assert_eq!(sent(off, &came, "x-request-id"), ["a", "b"]);
    }

    #[test]
    fn the_pool_says_which_host_the_origin_sees() {
        let address = |text: &str| Address::Ip(text.parse().unwrap());
        let seen = |written: pool::Host, address: Address| {
            host_towards(&written, &address, false).map(|host| host.map(|host| host.to_str().unwrap().to_owned()))
        };
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(seen(pool::Host::Preserve, address("10.0.0.1:80")), Ok(None));
        assert_eq!(seen(pool::Host::Address, address("10.0.0.1:80")), some("10.0.0.1"));
        assert_eq!(seen(pool::Host::Address, address("10.0.0.1:8080")), some("10.0.0.1:8080"));
        assert_eq!(seen(pool::Host::Address, address("[::1]:80")), some("[::1]"));
        assert_eq!(seen(pool::Host::Address, Address::Name("a.b".to_owned(), 80)), some("a.b"));
        assert_eq!(seen(pool::Host::Address, Address::Unix(PathBuf::from("/run/a"))), some("localhost"));
        assert_eq!(seen(pool::Host::Literal("a.b:1".to_owned()), address("[::1]:80")), some("a.b:1"));
        assert!(seen(pool::Host::Literal("a b".to_owned()), address("[::1]:80")).is_err());
    }

    #[test]
    fn a_set_host_replaces_the_client_s() {
        let mut request = request(&[("host", "shop.example")]);
        let sender = Sender {
            peer: [127, 0, 0, 1].into(),
            client: [127, 0, 0, 1].into(),
            trusted: false,
            scheme: "http",
            host: None,
            request_id: b"",
        };
        KEEP.towards_origin(&mut request, &sender, Some(&HeaderValue::from_static("origin.internal")));
        assert_eq!(lines(&request.headers, "host"), ["origin.internal"]);
        assert!(lines(&request.headers, "x-forwarded-host").is_empty());
    }

    /// The names of what reaches the client of an answer with these lines.
    fn answered(status: u16, origin: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut response = ResponseHeader::build(status, None).unwrap();
        for (name, value) in origin {
            response.append_header(*name, *value).unwrap();
        }
        let noted = Answered::of(&response.headers);
        towards_client(&mut response, noted);
        let mut wire = Vec::new();
        response.header_to_h1_wire(&mut wire);
        let wire = String::from_utf8(wire).unwrap();
        let mut names: Vec<_> = wire.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect();
        names.sort();
        names
    }

    #[test]
    fn a_connection_that_names_nothing_is_left_for_another_in_its_place() {
        let with = |status, value| answered(status, &[("Connection", value), ("X-Kept", "1"), ("Keep-Alive", "a")]);
        for value in ["keep-alive", "close", "Close , Keep-Alive"] {
            assert_eq!(with(200, value), ["Connection", "X-Kept"], "{value}");
            // Nobody puts one into an interim answer.
            assert_eq!(with(103, value), ["X-Kept"], "{value}");
        }
        assert_eq!(with(200, "keep-alive, x-kept"), [""; 0]);
        let two = [("Connection", "close"), ("Connection", "x-kept"), ("X-Kept", "1")];
        assert!(answered(200, &two).is_empty());
    }

    #[test]
    fn where_no_line_fits_any_more_a_connection_makes_room() {
        let mut response = ResponseHeader::build(200, None).unwrap();
        response.append_header("Connection", "keep-alive").unwrap();
        for number in 0.. {
            if response.headers.len() == response.headers.capacity() {
                break;
            }
            response.append_header(format!("X-{number}"), "1").unwrap();
        }
        let (full, noted) = (response.headers.capacity(), Answered::of(&response.headers));
        towards_client(&mut response, noted);
        response.insert_header(CONNECTION, "close").unwrap();
        assert_eq!((response.headers.len(), response.headers.capacity()), (full, full));
    }

    #[test]
    fn what_names_the_hop_alone_stays_behind() {
        let origin = [
            ("Connection", "keep-alive, X-Internal"),
            ("Connection", "x-other"),
            ("Keep-Alive", "timeout=5"),
            ("X-Internal", "1"),
            ("X-Other", "2"),
            ("Proxy-Authenticate", "Basic"),
            ("Proxy-Connection", "close"),
            ("Trailer", "x"),
            ("Upgrade", "h2c"),
            ("TE", "trailers"),
            ("Proxy-Status", "cache; hit"),
            ("ETag", "\"a\""),
        ];
        assert_eq!(answered(200, &origin), ["ETag", "Proxy-Status"]);
    }

    #[test]
    fn every_name_of_one_hop_is_seen_in_a_request() {
        let check = |name: &'static str, expected| {
            let headers = request(&[("Host", "a"), (name, "x"), ("User-Agent", "b")]).headers.clone();
            assert_eq!(concern_one_hop(&headers), expected, "{name}");
        };
        // all that Pingora's standard policy removes, which is skipped when none of them is there
        for name in [
            "Keep-Alive",
            "Proxy-Connection",
            "Proxy-Authenticate",
            "Proxy-Authorization",
            "TE",
            "Trailer",
            "Transfer-Encoding",
            "Connection",
            "Upgrade",
            "HTTP2-Settings",
        ] {
            check(name, true);
        }
        check("Accept", false);
        check("Content-Length", false);
    }

    #[test]
    fn a_nomination_cannot_take_the_framing_away() {
        let origin = [("Connection", "content-length, transfer-encoding, \"x\", "), ("Content-Length", "0")];
        assert_eq!(answered(200, &origin), ["Content-Length"]);
    }

    #[test]
    fn a_switch_of_protocols_passes_whole() {
        let origin = [("Connection", "Upgrade"), ("Upgrade", "websocket")];
        assert_eq!(answered(101, &origin), ["Connection", "Upgrade"]);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_lines_of_a_client_end_in_one_line_that_ends_with_its_peer(came in prop::collection::vec("[ -~]{0,20}", 0..4)) {
            let mut request = RequestHeader::build("GET", b"/", None).unwrap();
            for line in &came {
                request.append_header(FOR, line.as_str()).unwrap();
            }
            let peer = IpAddr::from([10, 0, 0, 9]);
            let sender = Sender { peer, client: peer, trusted: false, scheme: "http", host: None, request_id: b"x" };
            let forwarding =
                Forwarding { x_forwarded: XForwarded::Append, forwarded: true, request_id: RequestId::Keep };
            forwarding.towards_origin(&mut request, &sender, None);
            let lines: Vec<_> = request.headers.get_all(FOR).iter().collect();
            prop_assert_eq!(lines.len(), 1);
            prop_assert!(lines[0].as_bytes().ends_with(b"10.0.0.9"));
        }

        #[test]
        fn no_connection_line_panics(lines in prop::collection::vec("[ -~]{0,30}", 0..4)) {
            let mut response = ResponseHeader::build(200, None).unwrap();
            for line in &lines {
                response.append_header("Connection", line.as_str()).unwrap();
            }
            let noted = Answered::of(&response.headers);
            towards_client(&mut response, noted);
            prop_assert!(nominated(&response.headers).next().is_none());
        }
    }
}
