//! What does the admin address answer to whom? From a question to an answer, without sockets.
//!
//! Always holds: only a caller on this machine changes anything, and never one that a web page sent: a POST with an
//! Origin header, or for a host that is not this one, is refused.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use super::page::Page;
use super::{Gateway, query};
use crate::lifecycle::{ReloadOutcome, Wish};

/// Where a question came in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Door {
    /// The control socket: whoever may open it may do everything.
    Socket,
    /// The admin address.
    Network {
        /// Who asks.
        peer: SocketAddr,
        /// The address it asked.
        local: SocketAddr,
    },
}

/// What a request says that matters here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) door: Door,
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    /// The Host header.
    pub(super) host: Option<&'a str>,
    /// Does it carry an Origin header?
    pub(super) origin: bool,
}

/// Status, type and body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    /// The methods that would do, when this one does not.
    pub(super) allow: Option<&'static str>,
    /// What a browser that shows it may do.
    pub(super) policy: Option<String>,
    pub(super) body: Vec<u8>,
}

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

impl Answer {
    fn new(status: u16, kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, kind, allow: None, policy: None, body: body.into() }
    }

    /// An answer of another process of ours.
    pub(super) fn of(status: u16, kind: &str, body: &[u8]) -> Self {
        let known = [JSON, YAML, crate::observe::CONTENT_TYPE].into_iter().find(|known| *known == kind);
        Self::new(status, known.unwrap_or(TEXT), body)
    }

    /// A short answer for people, with its line end.
    pub(super) fn text(status: u16, text: &str) -> Self {
        Self::new(status, TEXT, format!("{text}\n"))
    }

    /// The status page.
    pub(super) fn status_page() -> Self {
        let Page { html, policy } = super::page::page();
        Self { policy: Some(policy), ..Self::new(200, HTML, html) }
    }

    fn json(status: u16, value: &impl serde::Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self::new(status, JSON, body),
            Err(error) => Self::text(500, &error.to_string()),
        }
    }
}

/// Answers a question, granting the wish it may hold.
pub(super) async fn answer(gateway: &Gateway, question: &Question<'_>) -> Answer {
    if question.method == "POST" && (question.origin || question.is_foreign()) {
        return Answer::text(403, "a web page may not do this");
    }
    let reads = matches!(question.method, "GET" | "HEAD");
    if reads && matches!(question.path, "/" | "/status" | "/config") && question.is_rebound() {
        return Answer::text(403, "by this name of the host a web page may ask: use the address, or localhost");
    }
    match question.path {
        "/" if reads => Answer::status_page(),
        "/livez" | "/readyz" | "/metrics" | "/status" | "/config" if reads => page(gateway, question),
        "/" | "/livez" | "/readyz" | "/metrics" | "/status" | "/config" => not_allowed("GET, HEAD"),
        "/sample" if !reads => not_allowed("GET, HEAD"),
        "/sample" if !question.may_know_keys() => Answer::text(403, "only from this machine"),
        "/sample" => match query::sample(question.query) {
            Ok(pool) => Answer::json(200, &(gateway.sample)(pool.as_deref())),
            Err(why) => Answer::text(400, &why),
        },
        "/reload" | "/confirm" | "/rollback" | "/drain" | "/upgrade" => wish(gateway, question).await,
        _ => Answer::text(404, "not found"),
    }
}

/// Only from this machine, and only by a POST.
async fn wish(gateway: &Gateway, question: &Question<'_>) -> Answer {
    if question.method != "POST" {
        return not_allowed("POST");
    }
    if !question.door.is_local() {
        return Answer::text(403, "only from this machine");
    }
    match question.path {
        "/reload" => match query::reload(question.query) {
            Ok(ask) => change(gateway, Wish::Reload(ask)).await,
            Err(why) => Answer::text(400, &why),
        },
        "/confirm" => change(gateway, Wish::Confirm).await,
        "/rollback" => change(gateway, Wish::Rollback).await,
        "/upgrade" => match query::upgrade(question.query) {
            Ok(Some(_)) if !matches!(question.door, Door::Socket) => {
                Answer::text(403, "a program is named at the control socket only")
            }
            Ok(binary) => upgrade(gateway, binary).await,
            Err(why) => Answer::text(400, &why),
        },
        _ => {
            (gateway.leave)();
            Answer::json(200, &serde_json::json!({ "result": "draining" }))
        }
    }
}

fn not_allowed(allow: &'static str) -> Answer {
    Answer { allow: Some(allow), ..Answer::text(405, "method not allowed") }
}

fn page(gateway: &Gateway, question: &Question<'_>) -> Answer {
    match question.path {
        "/livez" => Answer::text(200, "ok"),
        "/readyz" => match (gateway.ready)() {
            Ok(()) => Answer::text(200, "ready"),
            Err(why) => Answer::text(503, why),
        },
        "/metrics" => match (gateway.metrics)() {
            Ok(text) => Answer::new(200, crate::observe::CONTENT_TYPE, text),
            Err(why) => Answer::text(500, &why),
        },
        "/status" => {
            let mut status = (gateway.status)();
            if !question.may_know_keys() {
                status.pools.values_mut().for_each(|pool| pool.keys.top.clear());
            }
            Answer::json(200, &status)
        }
        _ => Answer::new(200, YAML, (gateway.config)()),
    }
}

async fn upgrade(gateway: &Gateway, binary: Option<PathBuf>) -> Answer {
    match (gateway.upgrade)(binary).await {
        Ok(next) => {
            let answer = serde_json::json!({ "result": "upgraded", "pid": next.pid, "program": next.version });
            Answer::json(200, &answer)
        }
        Err(why) => Answer::json(503, &serde_json::json!({ "result": "failed", "why": why })),
    }
}

async fn change(gateway: &Gateway, wish: Wish) -> Answer {
    let outcome = (gateway.change)(wish).await;
    let status = match outcome {
        ReloadOutcome::Applied(_) | ReloadOutcome::Unchanged(_) | ReloadOutcome::Confirmed(_) => 200,
        ReloadOutcome::RolledBack(_) | ReloadOutcome::Reverted(_) => 200,
        ReloadOutcome::Guarded { .. } | ReloadOutcome::Declined { .. } => 409,
        ReloadOutcome::Refused { .. } => 422,
        ReloadOutcome::Failed { .. } => 503,
    };
    Answer::json(status, &outcome)
}

impl Door {
    pub(super) fn is_local(&self) -> bool {
        match self {
            Self::Socket => true,
            Self::Network { peer, .. } => peer.ip().to_canonical().is_loopback(),
        }
    }
}

impl Question<'_> {
    /// What clients asked for is the business of this machine alone, and of no web page.
    fn may_know_keys(&self) -> bool {
        self.door.is_local() && !self.is_foreign()
    }

    /// Does a browser of this machine ask for somebody else's page, whose name was led here (DNS rebinding)? An address that
    /// others reach has names we do not know.
    fn is_rebound(&self) -> bool {
        matches!(self.door, Door::Network { local, .. } if local.ip().to_canonical().is_loopback()) && self.is_foreign()
    }

    /// Does it name a host that is not this one? A browser sends the name it looked up, whatever that led to.
    fn is_foreign(&self) -> bool {
        match (self.door, self.host) {
            (Door::Socket, _) | (_, None) => false,
            (Door::Network { local, .. }, Some(host)) => !names_this_host(host, local.ip()),
        }
    }
}

fn names_this_host(host: &str, local: IpAddr) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<IpAddr>().map(|address| address.to_canonical());
    name.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.is_loopback() || address == local.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use indexmap::IndexMap;

    use super::super::Sampled;
    use super::*;
    use crate::lifecycle::InForce;
    use crate::lifecycle::handoff::message::Hello;

    fn gateway() -> Gateway {
        Gateway {
            ready: Box::new(|| Err("draining")),
            metrics: Box::new(|| Ok("m 1\n".into())),
            status: Box::new(super::super::Status::default),
            config: Box::new(|| "version: 1\n".into()),
            sample: Box::new(|_| Sampled::default()),
            leave: Box::new(|| ()),
            handoff: Box::new(|_| ()),
            made_anew: Box::new(|_| ()),
            socket: None,
            upgrade: Arc::new(|_| {
                let next = Hello { protocol: 1, version: "9.9.9".into(), pid: 7 };
                Box::pin(async { Ok(next) })
            }),
            change: Arc::new(|wish| {
                let outcome = match wish {
                    Wish::Confirm => ReloadOutcome::Declined { why: "nothing waits".into() },
                    Wish::Rollback => ReloadOutcome::RolledBack(InForce::default()),
                    Wish::Found => ReloadOutcome::Unchanged(InForce::default()),
                    Wish::Reload(ask) if ask.keep_process => {
                        ReloadOutcome::Refused { mistakes: Vec::new(), warnings: Vec::new() }
                    }
                    Wish::Reload(ask) if ask.allow_moved.is_some() => {
                        ReloadOutcome::Guarded { pools: IndexMap::new(), warnings: Vec::new() }
                    }
                    Wish::Reload(_) | Wish::Renew | Wish::Settle | Wish::Rest | Wish::Resume => {
                        ReloadOutcome::Applied(InForce::default())
                    }
                };
                Box::pin(async { outcome })
            }),
        }
    }

    fn from(peer: &str, method: &'static str, path: &'static str) -> Question<'static> {
        let (peer, local) = (peer.parse().unwrap(), "127.0.0.1:9180".parse().unwrap());
        let door = Door::Network { peer, local };
        Question { door, method, path, query: "", host: Some("localhost:9180"), origin: false }
    }

    fn local(method: &'static str, path: &'static str) -> Question<'static> {
        from("127.0.0.1:999", method, path)
    }

    fn status(question: &Question<'_>) -> u16 {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(answer(&gateway(), question)).status
    }

    #[test]
    fn every_page_is_there_and_nothing_else() {
        for (path, expected) in [
            ("/livez", 200),
            ("/readyz", 503),
            ("/metrics", 200),
            ("/status", 200),
            ("/config", 200),
            ("/", 200),
            ("/page", 404),
        ] {
            assert_eq!(status(&local("GET", path)), expected, "{path}");
            assert_eq!(status(&local("HEAD", path)), expected, "{path}");
        }
    }

    #[test]
    fn a_web_page_whose_name_was_led_here_sees_nothing() {
        for (host, local, expected) in [
            ("evil.test:9180", "127.0.0.1:9180", 403),
            ("evil.test", "[::1]:9180", 403),
            ("localhost:8080", "127.0.0.1:9180", 200),
            ("127.0.0.1:9180", "127.0.0.1:9180", 200),
            ("moorgate.internal:9180", "10.0.0.7:9180", 200),
        ] {
            let door = Door::Network { peer: "127.0.0.1:999".parse().unwrap(), local: local.parse().unwrap() };
            let ask = |path| status(&Question { door, host: Some(host), ..from("127.0.0.1:999", "GET", path) });
            assert_eq!(["/", "/status", "/config"].map(ask), [expected; 3], "{host}");
            assert_eq!(ask("/livez"), 200, "{host}");
        }
        let unnamed = Question { host: None, ..local("GET", "/status") };
        assert_eq!(status(&unnamed), 200);
    }

    #[test]
    fn a_wrong_method_is_told_the_right_one() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let allow = |question: Question<'_>| runtime.block_on(answer(&gateway(), &question)).allow;
        assert_eq!(status(&local("DELETE", "/status")), 405);
        assert!(["/reload", "/confirm", "/rollback", "/drain"].iter().all(|path| status(&local("GET", path)) == 405));
        assert_eq!(allow(local("POST", "/status")), Some("GET, HEAD"));
        assert_eq!(allow(local("POST", "/")), Some("GET, HEAD"));
        assert_eq!(allow(local("GET", "/reload")), Some("POST"));
    }

    #[test]
    fn a_wish_is_answered_as_it_ended() {
        assert_eq!(["/rollback", "/confirm", "/drain"].map(|path| status(&local("POST", path))), [200, 409, 200]);
        assert_eq!(status(&local("POST", "/reload")), 200);
        for (query, expected) in [("keep_process=true", 422), ("allow_moved=1%25", 409), ("allow_moved=much", 400)] {
            assert_eq!(status(&Question { query, ..local("POST", "/reload") }), expected, "{query}");
        }
    }

    #[test]
    fn only_this_machine_may_change_anything() {
        assert_eq!(status(&from("10.0.0.7:999", "POST", "/reload")), 403);
        assert!(
            ["/confirm", "/rollback", "/drain"].iter().all(|path| status(&from("10.0.0.7:999", "POST", path)) == 403)
        );
        assert_eq!(status(&from("10.0.0.7:999", "GET", "/status")), 200);
        assert_eq!(status(&from("[::1]:999", "POST", "/reload")), 200);
        assert_eq!(status(&from("[::ffff:127.0.0.1]:999", "POST", "/reload")), 200);
        assert_eq!(status(&Question { door: Door::Socket, ..local("POST", "/reload") }), 200);
    }

    #[test]
    fn only_this_machine_is_told_what_clients_ask_for() {
        assert_eq!(status(&local("GET", "/sample")), 200);
        assert_eq!(status(&Question { door: Door::Socket, ..local("GET", "/sample") }), 200);
        assert_eq!(status(&local("POST", "/sample")), 405);
        assert_eq!(status(&from("10.0.0.7:999", "GET", "/sample")), 403);
        assert_eq!(status(&Question { host: Some("evil.example"), ..local("GET", "/sample") }), 403);
    }

    #[test]
    fn a_program_is_named_at_the_control_socket_only() {
        let named = Question { query: "binary=/bin/true", ..local("POST", "/upgrade") };
        assert_eq!(status(&named), 403);
        assert_eq!(status(&Question { door: Door::Socket, ..named }), 200);
        assert_eq!(status(&local("POST", "/upgrade")), 200);
        assert_eq!(status(&local("GET", "/upgrade")), 405);
        assert_eq!(status(&from("10.0.0.7:999", "POST", "/upgrade")), 403);
        assert_eq!(status(&Question { query: "program=x", ..local("POST", "/upgrade") }), 400);
    }

    #[test]
    fn a_web_page_may_change_nothing() {
        assert_eq!(status(&Question { origin: true, ..local("POST", "/reload") }), 403);
        assert_eq!(status(&Question { origin: true, door: Door::Socket, ..local("POST", "/reload") }), 403);
        for (host, expected) in [
            ("evil.example:9180", 403),
            ("localhost", 200),
            ("LOCALHOST:1", 200),
            ("127.0.0.1:9180", 200),
            ("[::1]:9180", 200),
            ("192.0.2.1", 403),
            ("localhost.evil.example", 403),
        ] {
            assert_eq!(status(&Question { host: Some(host), ..local("POST", "/reload") }), expected, "{host}");
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_name_but_localhost_is_this_host(name in "[a-z][a-z0-9.-]{0,30}(:[0-9]{1,5})?") {
            let bare = name.split(':').next().unwrap_or_default().to_owned();
            prop_assert_eq!(names_this_host(&name, IpAddr::from([127, 0, 0, 1])), bare == "localhost");
        }
    }
}
