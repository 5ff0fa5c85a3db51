//! The shipped binary against real origin processes on real sockets, one feature a file.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails, and it measures real time"
)]

mod answers_of_routes;
mod answers_on_the_wire;
mod backups;
mod balancing;
mod behind_a_balancer;
mod behind_haproxy;
mod beside_nginx;
mod book;
mod books_agree;
mod buffering;
mod changes_on_the_way;
mod commands;
mod compression;
mod connecting_in_turn;
mod connections_to_origins;
mod demo;
mod discovery;
mod documents;
mod doors_and_routes;
mod draining;
mod drains;
mod events;
mod examples;
mod forwarding;
mod framing;
mod golden;
mod growing;
mod growth_held;
mod grpc;
mod guards;
mod how_many_may_be_out;
mod http2_bursts;
mod http2_clients;
mod http2_conformance;
mod http2_conformance_frames;
mod http2_conformance_requests;
mod http2_conformance_windows;
mod http2_frames;
mod http2_limits;
mod http2_origins;
mod http2_origins_leave;
mod http2_prior_knowledge;
mod importing;
mod key_of_a_request;
mod keys_stay;
mod known_after_an_upgrade;
mod limits;
mod limits_in_flight;
mod limits_shared;
mod log_in_nobody_s_way;
mod memory;
mod mirroring;
mod offline;
mod on_record;
mod order_of_a_pick;
mod origin_caches;
mod origin_does_as_told;
mod origins_fail;
mod origins_over_tls;
mod origins_pause;
mod our_answers;
mod overload;
mod placement;
mod plan;
mod probing;
mod ranges;
mod recent_keys;
mod reloads;
mod reloads_under_load;
mod replacing;
mod requests_at_random;
mod requests_on_the_wire;
mod rig;
mod ring_of_nginx;
mod seen_by_prometheus;
mod service_manager;
mod shards;
mod signals;
mod slow_clients;
mod splitting;
mod status_page;
mod streaming;
mod supervision;
mod syntax_of_answers;
mod syntax_of_heads;
mod syntax_of_requests;
mod ten_thousand_origins;
mod texts;
mod threads_together;
mod tls;
mod tls_renewed;
mod tls_sessions;
mod tls_terms;
mod tracing;
mod tries;
mod tries_by_method;
mod upgrade_faults;
mod upgrades;
mod upgrades_under_load;
mod watching;
mod websockets;
mod who_is_calling;
mod whose_turn;
