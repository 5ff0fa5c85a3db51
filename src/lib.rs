//! Moorgate: an HTTP gateway that keeps every key on its origin while everything around it changes.
//!
//! # The map
//!
//! | room | question it answers |
//! |---|---|
//! | [`config`] | what did the operator write? |
//! | [`template`] | what does `{host}{path}{args}` say for this request? |
//! | [`routing`] | which route does this request belong to? |
//! | [`balance`] | which origin owns this key? |
//! | [`health`] | may this origin be used? |
//! | [`resilience`] | what may be tried again, and when is it enough? |
//! | [`tls`] | what is a client that comes by TLS shown, and asked? |
//! | [`traffic`] | what may this client ask of us, and which headers go on? |
//! | [`pool`] | origins serving the same thing, and what was learned of them |
//! | [`trust`] | whom do we believe to be an origin over TLS, and who are we to it? |
//! | [`snapshot`] | all a request may read, compiled once |
//! | [`proxy`] | Pingora's hooks, and nothing that decides |
//! | [`listeners`] | sockets to clients |
//! | [`observe`] | access log, metrics, traces, request ids |
//! | [`lifecycle`] | signals, reload, drain |
//! | [`admin`] | the admin address and the control socket |
//! | [`cli`] | commands |
//! | [`import`] | what would a configuration of nginx be in ours? |
//! | [`age`] | how long ago was that, on another process's clock? |
//!
//! # Who may import whom (held by `tests/architecture.rs`)
//!
//! ```text
//! cli -> every room
//! admin -> lifecycle, snapshot, pool, observe, config, health, balance, template
//! lifecycle -> listeners, snapshot, pool, observe, config, health, age
//! listeners -> proxy, snapshot, observe, config, traffic, tls
//! proxy -> snapshot, pool, routing, template, traffic, resilience, observe, balance, health
//! snapshot -> pool, routing, resilience, traffic, tls, config, template, balance, health, observe, age, trust
//! pool -> balance, health, resilience, config, template, age, trust
//! health -> balance, template, config, age, trust
//! balance, resilience, observe -> template, config, age
//! routing, traffic -> template, config
//! template -> config
//! tls, trust -> config
//! config, age, import -> nothing of ours
//! ```
//!
//! Only admin, lifecycle, listeners, proxy, trust, `health/probe.rs` and `resilience/failure.rs` know Pingora; `http` and
//! `pingora_http` types are allowed in config, template, routing and traffic as well.
//!
//! # The way of a request
//!
//! ```text
//! accept            listeners/accept.rs            limits; dealt to a shard
//! PROXY header      listeners/proxy_protocol.rs    whose connection it is
//! TLS               listeners/handshake.rs         certificate by name, on the terms of tls/
//! park, resume      listeners/keepalive.rs         our own loop around Pingora's process_new_http
//! new_ctx           proxy/ctx.rs                   start time; Arc<Snapshot> pinned for the whole request
//! early_request_filter, request_filter   proxy/admit.rs   client, limits, route, access, forwarding
//! upstream_peer     proxy/forward.rs               key once; lease = Pool::pick -> HttpPeer      <-+
//! upstream_request_filter                          headers                                          |
//! upstream_response_filter                         status -> outcome                                |
//! fail_to_connect, error_while_proxy               lease given back; Retry::decide ---- again ------+
//! fail_to_proxy     proxy/reject.rs                the last failure -> status
//! logging           proxy/mod.rs                   record -> access log, metrics; guards drop
//! ```

pub mod admin;
pub mod age;
pub mod balance;
pub mod cli;
pub mod config;
pub mod health;
pub mod import;
pub mod lifecycle;
pub mod listeners;
pub mod observe;
pub mod pool;
pub mod proxy;
pub mod resilience;
pub mod routing;
pub mod snapshot;
pub mod template;
pub mod tls;
pub mod traffic;
pub mod trust;
