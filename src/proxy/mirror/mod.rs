//! Which requests are copied for another pool, and what is in the copy? `mirror` of a route.
//!
//! A copy is begun when its request first goes to an origin of its own pool, and sent when all of the body has passed by. It
//! holds what the origin was told: method, target, headers with those that forward, and a body of at most 64 KiB. Always:
//! the request itself waits for nothing here and cannot fail by it, and whatever becomes of a copy is counted once.

mod send;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Version};
use pingora_core::{ErrorType, OrErr, Result};
use pingora_http::RequestHeader;
use pingora_proxy::Session;

use super::Gateway;
use super::ctx::Ctx;
use super::dial::dial;
use super::forward::placed;
use super::peer::{kept_by_pingora, over_h2};
use super::request::{asks_to_switch, host_line};
use crate::observe::MirrorMeters;
use crate::pool::{Ask, Member, Protocol};
use crate::snapshot::{Mirror, Route, Snapshot, Upstream};

use send::{Client, Errand, Message};

/// A larger body is not copied.
const LARGEST: usize = 64 * 1024;

/// Copies of one shard under way, from the first byte that is kept to the last of the answer.
const MOST: usize = 256;

/// Says that a request is a copy; one that is a copy already is not copied again, or two gateways could go on for ever.
static MARK: HeaderName = HeaderName::from_static("x-mirrored");

/// Is this request copied?
#[derive(Default)]
pub(super) enum Mirroring {
    /// No, or not any more.
    #[default]
    No,
    /// It is to be, once it goes to an origin.
    Wanted,
    /// Its body is being collected.
    Collects(Box<Draft>),
}

/// A copy that is not complete.
pub(super) struct Draft {
    header: Box<RequestHeader>,
    /// `None`: there is none.
    body: Option<Vec<u8>>,
    copy: Copy,
}

/// What a shard sends copies with.
#[derive(Default)]
pub(super) struct Mirrors {
    under_way: UnderWay,
    client: Client,
}

/// Copies of a shard that are under way.
#[derive(Clone, Default)]
struct UnderWay(Arc<AtomicUsize>);

/// One copy: it counts as under way until it is dropped, and then by what became of it.
struct Copy {
    under_way: UnderWay,
    meters: Arc<MirrorMeters>,
    result: &'static str,
}

impl UnderWay {
    /// A copy more; `None`: there are too many.
    fn begin(&self, meters: &Arc<MirrorMeters>) -> Option<Copy> {
        // Relaxed: a count, and nothing else depends on it.
        if self.0.fetch_add(1, Relaxed) >= MOST {
            self.0.fetch_sub(1, Relaxed);
            meters.mirrored("dropped");
            return None;
        }
        Some(Copy { under_way: self.clone(), meters: Arc::clone(meters), result: "unfinished" })
    }
}

impl Copy {
    fn ends(mut self, result: &'static str) {
        self.result = result;
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.under_way.0.fetch_sub(1, Relaxed);
        self.meters.mirrored(self.result);
    }
}

/// Draws whether a request of this route is copied.
pub(super) fn drawn(route: &Route, headers: &HeaderMap) -> Mirroring {
    match &route.mirror {
        Some(mirror) if mirror.takes(fastrand::u32(..)) && !headers.contains_key(&MARK) => Mirroring::Wanted,
        _ => Mirroring::No,
    }
}

/// The header a copy begins with. It is no part of the trace: its answer is nobody's.
fn copied(out: &RequestHeader, ctx: &Ctx) -> Box<RequestHeader> {
    let mut header = Box::new(out.clone());
    if ctx.trace.is_some() {
        for name in ["traceparent", "tracestate"] {
            header.remove_header(name);
        }
    }
    header
}

/// The route's mirror and its pool.
fn mirror_of<'s>(snapshot: &'s Snapshot, ctx: &Ctx) -> Option<(&'s Mirror, &'s Upstream)> {
    let mirror = snapshot.route(ctx.route?)?.mirror.as_ref()?;
    Some((mirror, snapshot.upstream(mirror.pool)?))
}

impl Gateway {
    /// A try of the request goes to an origin of its own pool with the header `out`.
    pub(super) fn mirror_header(&self, session: &Session, out: &RequestHeader, ctx: &mut Ctx) {
        match std::mem::take(&mut ctx.mirror) {
            Mirroring::No => {}
            // A further try: all of the body passes by once more.
            Mirroring::Collects(mut draft) => {
                draft.body = Some(Vec::new());
                ctx.mirror = Mirroring::Collects(draft);
            }
            Mirroring::Wanted if asks_to_switch(session.req_header()) => {}
            Mirroring::Wanted => ctx.mirror = self.draft(session, out, ctx).unwrap_or_default(),
        }
    }

    fn draft(&self, session: &Session, out: &RequestHeader, ctx: &Ctx) -> Option<Mirroring> {
        let (mirror, _) = mirror_of(ctx.snapshot.as_deref()?, ctx)?;
        let copy = self.mirror.under_way.begin(&mirror.meters)?;
        if !ctx.has_body() {
            let draft = Draft { header: copied(out, ctx), body: None, copy };
            self.send(session, draft, ctx, Self::now());
            return None;
        }
        let length = out.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > LARGEST as u64) {
            copy.ends("too_large");
            return None;
        }
        let draft = Draft { header: copied(out, ctx), body: Some(Vec::new()), copy };
        Some(Mirroring::Collects(Box::new(draft)))
    }

    /// A piece of the request's body goes to an origin of its own pool.
    pub(super) fn mirror_body(&self, session: &Session, piece: Option<&Bytes>, end: bool, ctx: &mut Ctx) {
        let Mirroring::Collects(draft) = &mut ctx.mirror else { return };
        let is_too_large = !draft.takes(piece.map_or(&[], |piece| piece));
        if !end && !is_too_large {
            return;
        }
        let Mirroring::Collects(draft) = std::mem::take(&mut ctx.mirror) else { return };
        if is_too_large {
            draft.copy.ends("too_large");
        } else {
            self.send(session, *draft, ctx, Self::now());
        }
    }

    /// Sends a complete copy: an origin is picked, and the rest is work of its own on this shard.
    fn send(&self, session: &Session, draft: Draft, ctx: &Ctx, now: Instant) {
        // None: the answer began before the body was whole.
        let Some((_, upstream)) = ctx.snapshot.as_deref().and_then(|snapshot| mirror_of(snapshot, ctx)) else { return };
        let Draft { mut header, body, mut copy } = draft;
        copy.result = "failed";
        let (request, pool) = (session.req_header(), &upstream.pool);
        let placement = placed(request, ctx, pool);
        let ask = Ask { hash: placement.hash, tried: &[], now };
        let Some(pick) = pool.pick(&ask, &mut fastrand::Rng::new()) else { return };
        let Some(meters) = upstream.meters.get(pick.member) else { return };
        let host = upstream.hosts.get(pick.member).cloned().flatten();
        let host = host.or_else(|| host_line(request).map(Cow::into_owned));
        let settings = pool.settings();
        let is_h2 = settings.protocol == Protocol::Http2;
        let scheme = is_h2.then_some(if settings.tls.is_some() { "https" } else { "http" });
        if dress(&mut header, host, body.as_ref().map(Vec::len), scheme).is_err() {
            return;
        }
        let connection = pick.origin.next_connection();
        let Ok(mut peer) = self.connect_to(&pick, pool, &settings.timeouts) else { return };
        if is_h2 {
            over_h2(&mut peer.options, settings.timeouts.send);
        }
        kept_by_pingora(&mut peer, pool, &pick.origin, connection);
        let connecting = pool.members().get(pick.member).and_then(Member::connecting);
        let dial = dial(&mut peer, connecting, None, None, settings.timeouts.connect);
        let lease = pick.lease(now).asked_by(ctx.client());
        let (meters, shard, settings) = (Arc::clone(meters), self.shard, settings.clone());
        let errand = Errand { peer, dial, connection, lease, settings, meters, copy, shard };
        tokio::spawn(errand.run(Message { header, body }, self.mirror.client.clone()));
    }
}

impl Draft {
    /// Keeps a piece of the body; `false`: there is too much.
    fn takes(&mut self, piece: &[u8]) -> bool {
        let body = self.body.get_or_insert_default();
        let fits = body.len() + piece.len() <= LARGEST;
        if fits {
            // Its own bytes: a piece that is kept would keep the whole buffer it was read into.
            body.extend_from_slice(piece);
        }
        fits
    }
}

/// What the copy says other than its request: its Host, where its body ends, and that it is one. With a scheme it is for HTTP/2.
fn dress(
    header: &mut RequestHeader,
    host: Option<HeaderValue>,
    length: Option<usize>,
    scheme: Option<&str>,
) -> Result<()> {
    // It has its body, and its connection is not the request's.
    for name in [header::EXPECT, header::CONNECTION, header::UPGRADE] {
        header.remove_header(&name);
    }
    if let Some(length) = length {
        header.remove_header(&header::TRANSFER_ENCODING);
        header.insert_header(header::CONTENT_LENGTH, length)?;
    }
    header.insert_header("X-Mirrored", "1")?;
    header.set_version(Version::HTTP_11);
    if let Some(scheme) = scheme {
        let host = host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or_default();
        let target = header.uri.path_and_query().map_or("/", |target| target.as_str());
        let uri = format!("{scheme}://{host}{target}").parse();
        header.set_uri(uri.or_err(ErrorType::InvalidHTTPHeader, "no authority")?);
        header.remove_header(&header::HOST);
    } else if let Some(host) = host {
        header.insert_header(header::HOST, host)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Metrics;

    fn meters() -> (Metrics, Arc<MirrorMeters>) {
        let metrics = Metrics::new().unwrap();
        let meters = metrics.mirror("r", "p");
        (metrics, meters)
    }

    fn counted(metrics: &Metrics, result: &str) -> String {
        let text = metrics.encode().unwrap();
        let line = format!("moorgate_mirrored_total{{route=\"r\",pool=\"p\",result=\"{result}\"}} ");
        text.lines().find_map(|shown| shown.strip_prefix(&line)).unwrap().to_owned()
    }

    #[test]
    fn copies_are_bounded_in_number_and_each_is_counted_once() {
        let ((metrics, meters), under_way) = (meters(), UnderWay::default());
        let mut copies: Vec<_> = (0..MOST).map(|_| under_way.begin(&meters).unwrap()).collect();
        assert!(under_way.begin(&meters).is_none());
        copies.pop().unwrap().ends("sent");
        assert!(under_way.begin(&meters).is_some(), "a place is free again");
        drop(copies);
        assert_eq!(under_way.0.load(Relaxed), 0);
        let counts = ["dropped", "sent", "unfinished", "failed"].map(|result| counted(&metrics, result));
        assert_eq!(counts, ["1", "1", "256", "0"]);
    }

    #[test]
    fn a_body_is_kept_up_to_its_limit() {
        let ((_metrics, meters), under_way) = (meters(), UnderWay::default());
        let header = Box::new(RequestHeader::build("POST", b"/", None).unwrap());
        let mut draft = Draft { header, body: None, copy: under_way.begin(&meters).unwrap() };
        assert!(draft.takes(&[1; LARGEST - 1]) && draft.takes(&[2]));
        assert_eq!(draft.body.as_deref().map(<[u8]>::len), Some(LARGEST));
        assert!(draft.takes(&[]) && !draft.takes(&[3]));
    }

    fn dressed(lines: &[(&'static str, &'static str)], length: Option<usize>, scheme: Option<&str>) -> RequestHeader {
        let mut header = RequestHeader::build("POST", b"/a?b", None).unwrap();
        for (name, value) in lines {
            header.append_header(*name, *value).unwrap();
        }
        dress(&mut header, Some(HeaderValue::from_static("shop:81")), length, scheme).unwrap();
        header
    }

    #[test]
    fn a_copy_has_a_length_and_is_marked_and_waits_for_nothing() {
        let came =
            [("transfer-encoding", "chunked"), ("expect", "100-continue"), ("connection", "close"), ("host", "x")];
        let copy = dressed(&came, Some(7), None);
        let said: Vec<_> = copy.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(said.len(), 3, "{said:?}");
        for line in [("content-length", "7"), ("host", "shop:81"), ("x-mirrored", "1")] {
            assert!(said.contains(&line), "{line:?} in {said:?}");
        }
        assert!(dressed(&[], None, None).headers.get("content-length").is_none());
    }

    #[test]
    fn over_http2_the_authority_is_in_the_target() {
        let copy = dressed(&[("host", "x")], None, Some("http"));
        assert_eq!((copy.uri.to_string().as_str(), copy.headers.get("host")), ("http://shop:81/a?b", None));
    }
}
