//! Does a collector see what became of each request, and does nobody else notice that it is there?

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::rig::{self, Ask, Authority, Collector, Door, Gateway, Origin, Request, Terms, eventually, on};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins } }\n\
                    routes: [ { name: shop, pool: p, retry: { tries: 2, safe: [ \"503\" ] } } ]\n";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn gateway<'a>(collector: &Collector, more: &str, origins: impl IntoIterator<Item = &'a Origin>) -> Gateway {
    let setup = rig::gateway(POOL).process("threads", "1").process("tracing", &collector.section(more));
    setup.origins(origins).start()
}

fn line(request: &Request, name: &str) -> String {
    let lines: Vec<_> = request.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).collect();
    assert!(lines.len() < 2, "{lines:?}");
    lines.first().map_or_else(String::new, |(_, value)| value.clone())
}

fn counted(gateway: &Gateway, result: &str) -> f64 {
    gateway.metrics().sum("moorgate_spans_total", &[("result", result)])
}

/// Asks until the path belongs to `name`.
fn path_of(gateway: &Gateway, name: &str) -> String {
    let paths = (0..100).map(|n| format!("/{n}"));
    paths.into_iter().find(|path| gateway.get(path).origin() == name).unwrap()
}

#[test]
fn a_request_that_was_tried_again_is_a_tree_and_its_origins_know_their_place() {
    let (collector, a, b) = (rig::collector(), rig::origin("a"), rig::origin("b"));
    let more = ", sample: 100%, parent: any, service_name: edge, resource: { zone: north }";
    let gateway = gateway(&collector, more, [&a, &b]);
    let path = path_of(&gateway, "a");
    [&a, &b].iter().for_each(|origin| origin.forget());
    a.script([on(&path).times(1).answer(503)]);
    let parent = format!("00-{TRACE}-{SPAN}-01");
    let ask = Ask::get(&format!("{path}?token=secret")).header("traceparent", &parent);
    let ask = ask.header("tracestate", "vendor=1").header("User-Agent", "test/1");
    assert_eq!(gateway.ask(&ask).origin(), "b");
    let spans = eventually("the spans of the trace", || {
        Some(collector.spans().into_iter().filter(|span| span.trace == TRACE).collect::<Vec<_>>())
            .filter(|spans| spans.len() == 3)
    });
    let own = spans.iter().find(|span| span.kind == 2).unwrap();
    let mut tries: Vec<_> = spans.iter().filter(|span| span.kind == 3).collect();
    tries.sort_by_key(|span| span.says("moorgate.attempt"));
    assert_eq!((own.name.as_str(), own.parent.as_str(), own.failed), ("GET shop", SPAN, false));
    for (name, value) in [
        ("http.request.method", "GET"),
        ("url.path", &*path),
        ("http.response.status_code", "200"),
        ("user_agent.original", "test/1"),
        ("moorgate.attempts", "2"),
        ("moorgate.pool", "p"),
    ] {
        assert_eq!(own.says(name), value, "{name} of {own:?}");
    }
    assert!(!format!("{spans:?}").contains("secret"), "{spans:?}");
    for (n, (one, origin)) in tries.iter().zip([&a, &b]).enumerate() {
        assert_eq!((&one.parent, one.says("moorgate.origin")), (&own.id, &*origin.name), "{one:?}");
        assert_eq!(one.says("server.port"), origin.address.port().to_string());
        let seen = origin.requests().remove(0);
        assert_eq!(line(&seen, "traceparent"), format!("00-{TRACE}-{}-01", one.id), "try {n}");
        assert_eq!(line(&seen, "tracestate"), "vendor=1");
        assert!(own.nanos.0 <= one.nanos.0 && one.nanos.0 <= one.nanos.1 && one.nanos.1 <= own.nanos.1);
        assert_eq!(one.state, "vendor=1");
    }
    let told =
        |n: usize| ["http.response.status_code", "error.type", "http.request.resend_count"].map(|k| tries[n].says(k));
    assert_eq!((told(0), told(1)), (["503", "503", ""], ["200", "", "1"]));
    assert_eq!([tries[0].failed, tries[1].failed], [true, false]);
    assert_eq!(gateway.logged(&format!("{path}?token=secret"))["trace_id"], TRACE);
    let (head, resource) = (collector.head(), collector.resource());
    assert_eq!(
        (head[""].as_str(), head["content-type"].as_str()),
        ("POST /v1/traces HTTP/1.1", "application/x-protobuf")
    );
    assert_eq!((resource["service.name"].as_str(), resource["zone"].as_str()), ("edge", "north"));
}

#[test]
fn a_trace_goes_on_whatever_is_recorded_of_it() {
    let (collector, a) = (rig::collector(), rig::origin("a"));
    let gateway = gateway(&collector, ", sample: 0%", [&a]);
    let [not, recorded] = ["00", "01"].map(|flags| format!("00-{TRACE}-{SPAN}-{flags}"));
    let ask = |path: &str, parent: &str| Ask::get(path).header("traceparent", parent).header("tracestate", "v=1");
    for ask in [Ask::get("/own"), ask("/not", &not), ask("/stranger", &recorded), ask("/odd", "00-x")] {
        assert_eq!(gateway.ask(&ask).status, 200);
    }
    let seen = a.requests();
    let [own, not_recorded, stranger, odd] = &seen[..] else { panic!("{seen:?}") };
    let parts = |request| line(request, "traceparent").split('-').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(line(not_recorded, "traceparent"), not, "byte for byte");
    assert_eq!(line(not_recorded, "tracestate"), "v=1");
    // Whoever is not trusted does not decide what is recorded.
    let stranger = parts(stranger);
    assert_eq!((stranger[1].as_str(), stranger[3].as_str()), (TRACE, "00"));
    assert_ne!(stranger[2], SPAN);
    for begun in [own, odd] {
        let told = parts(begun);
        assert_eq!((told[0].as_str(), told[1].len(), told[2].len(), told[3].as_str()), ("00", 32, 16, "00"));
        assert_eq!(line(begun, "tracestate"), "", "of another trace");
        assert_ne!(told[1], TRACE);
    }
    assert_eq!(gateway.logged("/own")["trace_id"], parts(own)[1].as_str());
    assert_eq!((collector.connections(), counted(&gateway, "sent")), (0, 0.0));
}

#[test]
fn without_tracing_headers_and_log_are_as_ever() {
    let a = rig::origin("a");
    let gateway = rig::gateway(POOL).origins([&a]).start();
    gateway.get("/plain");
    gateway.ask(&Ask::get("/odd").header("traceparent", "anything").header("tracestate", "v=1"));
    let seen = a.requests();
    assert_eq!([line(&seen[0], "traceparent"), line(&seen[1], "traceparent")], ["", "anything"]);
    assert_eq!(line(&seen[1], "tracestate"), "v=1");
    assert!(gateway.logged("/plain").get("trace_id").is_none());
}

#[test]
fn what_trusted_proxies_record_is_recorded_and_a_failure_is_told() {
    let (collector, a) = (rig::collector(), rig::origin("a"));
    let text = format!("trusted_proxies: [ 127.0.0.0/8 ]\n{POOL}");
    let dead = rig::origin("dead");
    dead.door(Door::Refuse);
    let text = text.replace("routes: [", "routes: [ { name: dead, match: { path: { exact: /dead } }, pool: dead },");
    let text = text.replace("$origins", "[ $a ]");
    let text = text.replace("pools: {", "pools: { dead: { origins: [ $dead ], health: { probe: off } },");
    let setup = rig::gateway(&text).process("tracing", &collector.section(", sample: 0%")).named("dead", dead.address);
    let gateway = setup.origins([&a]).start();
    let parent = format!("00-{TRACE}-{SPAN}-01");
    assert_eq!(gateway.ask(&Ask::get("/dead").header("traceparent", &parent)).status, 502);
    assert_eq!(gateway.ask(&Ask::get("/fine").header("traceparent", &parent)).status, 200);
    let spans = collector.of("/dead", 2);
    assert!(spans.iter().all(|span| span.failed && span.trace == TRACE), "{spans:?}");
    assert_eq!(spans.iter().map(|span| span.says("error.type")).collect::<Vec<_>>(), ["connect_refused"; 2]);
    assert_eq!(spans[0].says("http.response.status_code"), "502");
    collector.of("/fine", 2);
    eventually("they are counted", || (counted(&gateway, "sent") >= 4.0).then_some(()));
}

#[test]
fn a_copy_is_no_part_of_the_trace() {
    let (collector, a, shadow) = (rig::collector(), rig::origin("a"), rig::origin("shadow"));
    let text = "pools: { p: { origins: [ $a ], health: { probe: off } }, s: { origins: [ $shadow ], health: { probe: off } } }\n\
                routes: [ { pool: p, mirror: { pool: s, share: 100% } } ]\n";
    let setup = rig::gateway(text).process("tracing", &collector.section(", sample: 100%"));
    let gateway = setup.origins([&a, &shadow]).start();
    let ask = Ask::get("/copied").header("traceparent", &format!("00-{TRACE}-{SPAN}-01")).header("tracestate", "v=1");
    assert_eq!(gateway.ask(&ask).status, 200);
    let copy = eventually("it is copied", || shadow.requests().pop());
    assert!(line(&a.requests()[0], "traceparent").contains(TRACE));
    assert_eq!(["traceparent", "tracestate"].map(|name| line(&copy, name)), ["", ""]);
}

#[test]
fn a_collector_that_is_gone_or_silent_or_refuses_harms_no_request() {
    let (collector, a) = (rig::collector(), rig::origin("a"));
    let gateway = gateway(&collector, ", sample: 100%", [&a]);
    gateway.get("/first");
    collector.of("/first", 2);
    collector.close(true);
    // Long ones, so that there is soon no room for more.
    let load = rig::load(gateway.address()).asking(|n| Ask::get(&format!("/{n}/{}", "x".repeat(4000)))).start();
    eventually("what there is no room for is counted", || {
        load.further(500);
        (counted(&gateway, "dropped") > 0.0).then_some(())
    });
    collector.answers(None);
    collector.close(false);
    let before = collector.messages();
    eventually("it is asked, and says nothing", || (collector.messages() > before).then_some(()));
    load.further(500);
    collector.answers(Some(400));
    eventually("what it does not want is given up", || (counted(&gateway, "refused") > 0.0).then_some(()));
    collector.answers(Some(200));
    let tally = load.stop();
    assert_eq!((tally.failed.len(), tally.by_status.keys().collect::<Vec<_>>()), (0, vec![&200]), "{:?}", tally.failed);
    assert!(tally.slowest < Duration::from_secs(1), "{:?}", tally.slowest);
    gateway.get("/last");
    collector.of("/last", 2);
    let output = gateway.output();
    assert!(output.contains("does not take spans") && output.contains("takes spans again"), "{output}");
}

#[test]
fn what_is_left_goes_out_at_the_end_and_a_dead_collector_holds_nobody_up() {
    let (collector, a) = (rig::collector(), rig::origin("a"));
    let mut first = gateway(&collector, ", sample: 100%", [&a]);
    first.get("/left");
    first.signal(Signal::SIGTERM);
    assert_eq!(first.exit(), 0);
    collector.of("/left", 2);
    let mut second = gateway(&collector, ", sample: 100%", [&a]);
    collector.answers(None);
    second.get("/lost");
    let begun = Instant::now();
    second.signal(Signal::SIGTERM);
    assert_eq!(second.exit(), 0);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(second.output().contains("2 spans were lost at exit"), "{}", second.output());
}

#[test]
fn over_tls_with_its_headers_and_by_the_process_that_takes_over() {
    let (collector, a, authority) = (rig::collector(), rig::origin("a"), Authority::new("ca.example"));
    let door = rig::secured(collector.address, &authority.issue("localhost"), Terms::default());
    let endpoint = format!("https://localhost:{}/in", door.address.port());
    let section = format!(
        "{{ otlp: {{ endpoint: \"{endpoint}\", headers: {{ authorization: Bearer hunter2 }} }}, sample: 100% }}"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), authority.pem()).unwrap();
    let setup = rig::gateway(POOL).process("tracing", &section).environment("SSL_CERT_FILE", file.path());
    let gateway = setup.origins([&a]).start();
    gateway.get("/one");
    collector.of("/one", 2);
    assert_eq!(collector.head()[""], "POST /in HTTP/1.1");
    assert_eq!(collector.head()["authorization"], "Bearer hunter2");
    assert!(!gateway.admin("GET", "/config").text().contains("hunter2"));
    gateway.get("/two");
    collector.of("/two", 2);
    assert_eq!(door.greetings().len(), 1, "the connection is kept");
    let first = collector.resource()["service.instance.id"].clone();
    assert_eq!(gateway.reload()["result"], "unchanged");
    assert!(gateway.upgrade(&[]).status.success());
    eventually("the next process is seen", || {
        gateway.get("/three");
        (collector.resource()["service.instance.id"] != first).then_some(())
    });
    collector.of("/three", 2);
}
