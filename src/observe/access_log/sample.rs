//! A request to render in tests.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;

use super::Record;
use super::clock::Clock;
use crate::observe::{Attempt, Peer};
use crate::template::Facts;

pub(super) fn clock() -> Clock {
    Clock::new(TimeZone::UTC)
}

fn time() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(1_795_984_501_042)
}

/// A request that was refused by one origin and answered by the next.
pub(in crate::observe) fn with(test: impl FnOnce(&mut Record<'_>)) {
    let agent = http::HeaderValue::from_static("curl\"8");
    let headers = http::HeaderMap::from_iter([(http::header::USER_AGENT, agent)]);
    let peer = SocketAddr::from(([192, 0, 2, 7], 5000));
    let first = Attempt {
        origin: "a:80",
        address: Peer::Ip(SocketAddr::from(([10, 0, 0, 1], 80))),
        status: None,
        connect_time: None,
        response_time: Duration::from_micros(100),
        reused: false,
        outcome: "connect_refused",
        cache: None,
    };
    let second = Attempt {
        origin: "b:80",
        address: Peer::Ip(SocketAddr::from(([10, 0, 0, 2], 80))),
        status: Some(200),
        connect_time: Some(Duration::from_micros(250)),
        response_time: Duration::from_millis(11),
        outcome: "ok",
        cache: Some("hit"),
        ..first
    };
    let (host, host_port) = ("example.com", "example.com");
    let (method, scheme, target) = ("GET", "http", b"/a?b=1");
    test(&mut Record {
        facts: Facts { method, scheme, host, host_port, target, headers: &headers, client_ip: peer.ip(), peer },
        request_line: None,
        protocol: "HTTP/1.1",
        time: time(),
        status: 200,
        bytes_sent: 97,
        bytes_received: 0,
        request_time: Duration::from_micros(12_345),
        request_id: "0123456789abcdef0123456789abcdef",
        route: Some("api"),
        pool: Some("origin"),
        ring: Some("00112233aabbccdd"),
        key: Some(b"example.com/a?b=1"),
        attempts: &[first, second],
        error: None,
        limited: None,
        trace: None,
    });
}
