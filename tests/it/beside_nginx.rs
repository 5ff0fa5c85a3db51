//! Does the gateway do what a real nginx does with the same requests? It stands beside it, in front of the same origins.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use regex::Regex;

use crate::rig::{self, Answer, Close, Door, Gateway, Nginx, Origin, Raw, Step, on};

/// Targets; `HOST` stands for the host of the request.
const TARGETS: [&str; 26] = [
    "/",
    "/a",
    "/a/b.jpg?w=640&v=3",
    "/?",
    "/a?",
    "/a??",
    "/a?&&",
    "/a?b=2&a=1",
    "/a?b=1&b=2;c",
    "/a?u=http://x/y?z",
    "/a%20b",
    "/a%2fb",
    "/a%2Fb%5Cc",
    "/%7Eann/%41",
    "/a/./b/../c//d",
    "/100%25?%zz",
    "/\u{e9}/\u{1f600}",
    "/a\"b\\c|^{}?\\|^`{}",
    "/a;b,c!$&'()*+=:@",
    "http://HOST/a",
    "http://HOST/a?b=1",
    "http://HOST/a?",
    "http://HOST",
    "http://HOST?b=1",
    "http://HOST?",
    "HTTP://HOST/A%2fb",
];

const HOSTS: [&str; 11] = [
    "example.com",
    "EXAMPLE.Com",
    "example.com.",
    "example.com:80",
    "Example.com:8080",
    "example.com.:8080",
    "192.0.2.1:80",
    "[fe80::1]",
    "[FE80::1]",
    "[fe80::1]:80",
    "[FE80::1]:8080",
];

/// nginx takes such a host in a header, but not in a target.
const ODD_HOST: &str = "we-ird_~!$&'()*+;=%20";

/// Sends these bytes on a connection of their own.
fn ask(to: SocketAddr, bytes: &str) -> io::Result<Answer> {
    let mut connection = Raw::connect(to)?;
    connection.send(bytes);
    connection.answer_to(bytes.split(' ').next().unwrap_or_default())
}

fn servers<'a>(origins: impl IntoIterator<Item = &'a Origin>) -> String {
    origins.into_iter().map(|origin| format!("server {} max_fails=0; ", origin.address)).collect()
}

fn listed<'a>(origins: impl IntoIterator<Item = &'a Origin>) -> String {
    let names: Vec<String> = origins.into_iter().map(|origin| format!("\"{}\"", origin.address)).collect();
    format!("[{}]", names.join(", "))
}

#[test]
fn k1_host_and_uri_are_placed_as_nginx_places_them() {
    let origins: Vec<Origin> = ["a", "b", "c", "d", "e"].map(rig::origin).into();
    let nginx = rig::nginx(
        &format!("access_log off;\nupstream p {{ hash $host$request_uri consistent; {} }}", servers(&origins)),
        "location / { proxy_pass http://p; }",
    );
    let pool = format!(
        "{{ balance: {{ key: \"{{host}}{{uri}}\" }}, health: {{ probe: off }}, origins: {} }}",
        listed(&origins)
    );
    let gateway =
        rig::gateway(&format!("pools: {{ p: {pool} }}\nroutes: [ {{ pool: p, encoded_slash: allow }} ]\n")).start();
    let mut owners = std::collections::BTreeSet::new();
    for target in TARGETS {
        let with = |host: &str| {
            format!("GET {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", target.replace("HOST", host))
        };
        let without = format!("GET {} HTTP/1.0\r\n\r\n", target.replace("HOST", "example.com"));
        let odd = target.starts_with('/').then(|| with(ODD_HOST));
        for request in HOSTS.map(with).into_iter().chain([without]).chain(odd) {
            let [there, here] = [nginx.address, gateway.address()].map(|to| ask(to, &request).unwrap());
            assert_eq!(there.status, 200, "nginx takes {request:?}");
            assert_eq!(here.origin(), there.origin(), "{request:?}");
            owners.insert(here.origin().to_owned());
        }
    }
    assert_eq!(owners.len(), 5, "the requests say something about every origin");
}

/// Both sides in front of these origins, each with its log in the format of docs/observability.md.
fn logging(origins: &[&Origin], dead: &[&Origin]) -> (Nginx, Gateway) {
    let page = include_str!("../../docs/observability.md");
    let format = page.split("```nginx\n").nth(1).unwrap().split("```").next().unwrap();
    let upstream = |name: &str, origins: &[&Origin]| {
        format!("upstream {name} {{ hash $host$request_uri consistent; {} }}\n", servers(origins.iter().copied()))
    };
    let http = [format, "access_log access.log upstream;\n", &upstream("p", origins), &upstream("dead", dead)].concat();
    let server = "proxy_next_upstream error;\n\
                  location / { proxy_pass http://p; }\n\
                  location /dead { proxy_pass http://dead; }\n\
                  location /hang { proxy_pass http://p; proxy_read_timeout 300ms; }\n";
    let pool = |origins: &[&Origin]| {
        let origins = listed(origins.iter().copied());
        // One request a connection, as nginx does by itself: a kept one that is reset would be tried once more.
        let settings = "balance: { key: \"{host}{uri}\" }, health: { probe: off }, timeouts: { connect: 200ms }, \
                        connections: { max_requests: 1 }";
        format!("{{ {settings}, origins: {origins} }}")
    };
    let text = format!(
        "pools: {{ p: {}, dead: {} }}\nroutes:\n  - {{ pool: p }}\n  - {{ pool: dead, match: {{ path: {{ prefix: /dead }} }} }}\n  \
         - {{ pool: p, match: {{ path: {{ prefix: /hang }} }}, timeouts: {{ read: 300ms }} }}\n",
        pool(origins),
        pool(dead)
    );
    let setup = rig::gateway(&text).process("access_log", "{ path: $dir/access.log, format: upstream }");
    (rig::nginx(&http, server), setup.start())
}

/// The lines of a log without their times, sorted, once there are so many.
fn lines(path: &Path, count: usize) -> Vec<String> {
    let read = || std::fs::read_to_string(path).ok().filter(|text| text.matches('\n').count() >= count);
    let text = rig::eventually(&format!("{count} lines in {}", path.display()), read);
    let mut lines: Vec<String> = text.lines().map(timeless).collect();
    lines.sort();
    lines
}

/// A line with the shape of its times in place of the times.
fn timeless(line: &str) -> String {
    let day = Regex::new(r"\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\]").unwrap();
    let seconds = Regex::new(r"( )\d+\.\d{3}\b").unwrap();
    seconds.replace_all(&day.replace(line, "[time]"), "${1}seconds").into_owned()
}

/// Requests as they go out, and what is special about them.
fn requests() -> Vec<String> {
    let with = |first: &str, host: &str| format!("{first} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let mut all: Vec<String> = (0..24).map(|n| with(&format!("GET /obj/{n}"), "t")).collect();
    for path in ["/reset", "/dead", "/cut", "/503", "/404", "/204"] {
        all.extend((0..6).map(|n| with(&format!("GET {path}/{n}?q"), "t")));
    }
    let firsts = [
        "HEAD /obj/1",
        "GET /x",
        "GET /x?",
        "GET /?",
        "GET /x?a=b&c",
        "HEAD /404/1",
        "DELETE /x",
        "BREW /x",
        "POST /reset/x",
        "GET /hang",
        "GET /a\"b\\c",
        "GET /\u{e9}?\u{1f600}",
        "GET /{}|^\\?`{}|^\\",
        "GET http://Example.com:8080/x?y",
        "GET http://Example.com:8080",
        "GET http://Example.com:8080?x=y",
    ];
    all.extend(firsts.map(|first| with(first, "Example.com:8080")));
    all.extend(["we!$&'()*+;=~_%20", "A.B.:99", "[FE80::1]:80"].map(|host| with("GET /x", host)));
    all.extend(["GET /x HTTP/1.0\r\n\r\n", "NONSENSE\r\n\r\n", "\x16\x03\x01\r\n\r\n"].map(str::to_owned));
    all
}

/// Nobody but the two of them is asked what a line is that they refuse: only what was received is the same.
#[test]
fn a_refused_request_line_is_logged_as_it_came() {
    let all: Vec<Origin> = ["only"].map(rig::origin).into();
    let (nginx, gateway) = logging(&[&all[0]], &[&all[0]]);
    let firsts =
        ["GET /a b HTTP/1.1", "GET /a\x01b HTTP/1.1", "GET /a\x7f\"\\ HTTP/1.1", "GET ?q HTTP/1.1", "GET * HTTP/1.1"];
    for first in firsts {
        for to in [nginx.address, gateway.address()] {
            assert_eq!(ask(to, &format!("{first}\r\nHost: t\r\n\r\n")).unwrap().status, 400, "{first:?}");
        }
    }
    let [there, here] = [nginx.path("access.log"), gateway.path("access.log")].map(|log| {
        let start = |line: &String| line.split(" 400 ").next().map(str::to_owned);
        lines(&log, firsts.len()).iter().filter_map(start).collect::<Vec<_>>()
    });
    assert_eq!(here, there);
}

#[test]
fn upstream_lines_are_those_of_nginx() {
    let all: Vec<Origin> = ["first", "second", "gone", "lost"].map(rig::origin).into();
    let [first, second, gone, lost] = &all[..] else { panic!() };
    let statuses = ["/503", "/404", "/204"].map(|path| on(&format!("{path}*")).answer(path[1..].parse().unwrap()));
    let cut = on("/cut*").then(rig::text("abc").framing(rig::Framing::Declared(9)).into()).then(Step::End(Close::Fin));
    let common = [&statuses[..], &[cut, on("/hang*").then(Step::Hang)]].concat();
    second.script(common.clone());
    first.script([common, vec![on("/reset*").then(Step::End(Close::Rst))]].concat());
    [gone, lost].iter().for_each(|origin| origin.door(Door::Refuse));
    let (nginx, gateway) = logging(&[first, second, gone], &[gone, lost]);
    let requests = requests();
    for request in &requests {
        for to in [nginx.address, gateway.address()] {
            // Some answers are cut, and some connections reset; what is on record is the same.
            let _ = ask(to, request);
        }
    }
    let [there, here] = [nginx.path("access.log"), gateway.path("access.log")].map(|log| lines(&log, requests.len()));
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|line| !those.contains(line)).cloned().collect()
    };
    assert_eq!(there, here, "only nginx: {:#?}\nonly here: {:#?}", only(&there, &here), only(&here, &there));
    for part in [" 502, 200 seconds, seconds ", " 502, 502 seconds, seconds ", " 504 ", "\\xC3\\xA9?", "HEAD ", " 400 "]
    {
        assert!(here.iter().any(|line| line.contains(part)), "no line with {part:?}");
    }
}
