//! What does every wire test stand on? The shipped binary and real origin processes on ports of their own, clients
//! that see every byte, and waits that end.
//!
//! Nothing sleeps to let something else happen: [`eventually`] asks until it is so, and fails at its deadline; the
//! origin's barriers decide orders. Every process dies with the test that started it. All ports are reserved by a
//! listener until the moment they are handed over, so that two runs on one machine do not meet.

mod between;
mod browser;
mod certificates;
mod client;
mod collector;
mod disk;
mod dns;
mod dnsmasq;
mod footprint;
pub(crate) mod frames;
mod gateway;
mod generations;
pub(crate) mod grpc;
mod h2c;
mod haproxy;
#[path = "../../certificates/mod.rs"]
pub(crate) mod issued;
mod load;
mod map;
mod metrics;
mod mute;
mod nginx;
mod origin;
#[path = "../../origin/pattern.rs"]
mod pattern;
#[path = "../../origin/ports.rs"]
pub(crate) mod ports;
mod process;
mod prometheus;
mod raw;
mod redis;
mod rules;
#[path = "../../origin/script.rs"]
mod script;
mod secured;
mod stream;
mod streams;
mod strict;
mod terminal;
mod tls;
mod traffic;
mod tunnel;
mod way;

use std::time::{Duration, Instant};

pub(crate) use between::{Harm, between};
pub(crate) use browser::{Browser, DOWN, END, ENTER, HOME, RIGHT, TAB, browser};
pub(crate) use certificates::Authority;
pub(crate) use client::{Answer, Ask, Client};
pub(crate) use collector::{Collector, collector};
pub(crate) use disk::disk;
pub(crate) use dns::{Dns, Say, dns, loopback};
pub(crate) use dnsmasq::dnsmasq;
pub(crate) use footprint::Peak;
pub(crate) use frames::{Frames, frames};
pub(crate) use gateway::{Gateway, gateway};
pub(crate) use grpc::call;
pub(crate) use h2c::{h2c, h2c_behind, h2c_download, h2c_given_up, h2c_shut, h2c_slow_upload, h2c_stalled, h2c_upload};
pub(crate) use haproxy::{Haproxy, haproxy, haproxy_checks};
pub(crate) use load::{Load, Running, Tally, load};
pub(crate) use map::{keys, map, shares};
pub(crate) use metrics::Metrics;
pub(crate) use mute::mute;
pub(crate) use nginx::{Nginx, nginx, nginx_h2c};
pub(crate) use origin::{Origin, everywhere, neighbours, origin};
pub(crate) use process::Process;
pub(crate) use prometheus::prometheus;
pub(crate) use raw::{Raw, raw, takes_nobody};
pub(crate) use redis::{PASSWORD, Redis, redis};
pub(crate) use rules::{answer, on, text};
pub(crate) use script::{Amount, Body, Close, Door, Framing, Request, Rule, Step};
pub(crate) use secured::{Greeting, Secured, Terms, secured};
pub(crate) use stream::{Framed, download, upload};
pub(crate) use strict::{Strict, Words, strict};
pub(crate) use terminal::{Terminal, terminal};
pub(crate) use tls::{Hello, hello};
pub(crate) use traffic::{takes_traffic, traffic};
pub(crate) use tunnel::{Tunnel, tunnel};
pub(crate) use way::{Way, activated, may_be_first};

/// How long anything may take that has to happen at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How often what matters is done over: a few times, or as often as `MOORGATE_ROUNDS` says.
pub(crate) fn rounds(few: usize) -> usize {
    std::env::var("MOORGATE_ROUNDS").map_or(few, |rounds| rounds.parse().expect("a number of rounds"))
}

/// Asks until there is an answer; fails, saying what was awaited, after [`PATIENCE`].
pub(crate) fn eventually<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, ask).unwrap_or_else(|| panic!("not within {PATIENCE:?}: {what}"))
}

/// Asks until there is an answer or the time is over.
pub(crate) fn within<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        let found = ask();
        if found.is_some() || start.elapsed() >= limit {
            return found;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
