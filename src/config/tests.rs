//! What is said of whole files.

use std::path::PathBuf;

use super::*;

const EVERY_MISTAKE: &str = include_str!("../../tests/config/every-mistake.yaml");
const WHAT_IS_SAID: &str = include_str!("../../tests/config/every-mistake.txt");
const WHOLE_CONTRACT: &str = include_str!("../../tests/config/whole-contract.yaml");

pub(super) const SMALLEST: &str = "\
version: 1
process: { listeners: [ { address: 0.0.0.0:8080 } ] }
pools:
  origin: { origins: [ \"10.20.1.11:8080\", \"10.20.1.12:8080\", \"10.20.1.13:8080\" ] }
";

/// Everything said of `text`, one line a mistake, without the name of the file.
pub(super) fn said(text: &str) -> Vec<String> {
    let mistakes = match parse("f", text) {
        Ok(loaded) => loaded.warnings,
        Err(report) => report.mistakes,
    };
    mistakes.iter().map(|mistake| mistake.to_string().replacen("f:", "", 1)).collect()
}

/// The smallest file with `more` in its pool.
pub(super) fn with_pool(more: &str) -> String {
    format!("version: 1\nprocess: {{ listeners: [ {{ address: 0.0.0.0:8080 }} ] }}\npools:\n  origin:\n    {more}\n")
}

pub(super) fn config(text: &str) -> Config {
    parse("f", text).unwrap_or_else(|report| panic!("{report}")).config
}

/// The files under `conf`, with their text.
pub(super) fn examples() -> Vec<(PathBuf, String)> {
    let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("conf");
    let mut files = vec![conf.join("moorgate.yaml")];
    files.extend(std::fs::read_dir(conf.join("examples")).unwrap().map(|entry| entry.unwrap().path()));
    assert!(files.len() >= 10);
    files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn every_mistake_of_a_file_is_told_at_its_place() {
    // A line without words is about a template, an expression or two routes together: found where they are compiled.
    let expected: Vec<_> = WHAT_IS_SAID.lines().filter(|line| !line.ends_with(':')).collect();
    assert!(expected.len() > 100);
    assert_eq!(said(EVERY_MISTAKE), expected);
}

#[test]
fn the_smallest_file_takes_every_default() {
    let loaded = parse("f", SMALLEST).unwrap();
    assert_eq!(loaded.config.routes.len(), 1);
    assert_eq!((loaded.config.routes[0].pool.as_str(), loaded.config.routes[0].name.as_str()), ("origin", "route-1"));
    assert_eq!(loaded.config.pools["origin"].balance.key, "{host}{path}{args}");
    assert_eq!(loaded.config.pools["origin"].origins[0].name, "10.20.1.11:8080");
    assert_eq!(loaded.digest.len(), 64);
    assert_eq!(loaded.text, SMALLEST);
    let tcp = "warning: 4:3: pools.origin.health.probe: a TCP probe sees an open port, not whether the origin can answer, \
               set \"http\"";
    assert_eq!(said(SMALLEST), [tcp]);
}

#[test]
fn every_example_loads_without_a_word() {
    for (path, text) in examples() {
        assert_eq!(said(&text), [""; 0], "{}", path.display());
    }
}

#[test]
fn the_back_to_origin_profile_tries_nothing_twice_that_changes_something() {
    let (_, text) = examples().swap_remove(0);
    let config = config(&text);
    assert!(config.routes.iter().all(|route| route.retry.other.is_empty() && route.retry.tries == 2));
}

#[test]
fn the_whole_contract_is_taken() {
    assert_eq!(said(WHOLE_CONTRACT), [""; 0], "nothing of it is to come");
}

#[test]
fn off_is_taken_wherever_it_means_something() {
    for text in [
        with_pool("origins: [a]\n    guard: off\n    tls: off\n    cache_status: off\n    discovery:"),
        with_pool("origins: [ { address: a, state: serve, backup: false, max_in_flight: off } ]"),
        with_pool(
            "origins: [a]\n    slow_start: false\n    health: { probe: off, overload: off, outlier_detection: off }",
        ),
        with_pool(
            "origins: [a]\n    args: off\n    timeouts: { total: off }\n    connections: { max_age: off, max_requests: off }",
        ),
        with_pool(
            "origins: [a]\nroutes: [ { pool: origin, retry: off, access: off, limits: off, buffering: { response: off } } ]",
        ),
        format!("{SMALLEST}certificates: off\ntrusted_proxies: off\nroutes: off\n"),
        format!("{SMALLEST}certificates: []\ntrusted_proxies: []\nclient_address: x-forwarded-for\n"),
        SMALLEST.replace("8080 }", "8080, proxy_protocol: off, h2c: off }"),
        SMALLEST.replace(
            " ] }\npools",
            " ], admin: off, control_socket: off, access_log: off, state: off, log: { level: off } }\npools",
        ),
    ] {
        assert!(parse("f", &text).is_ok(), "{text}\n{:?}", said(&text));
    }
    assert_eq!(config(&with_pool("origins: [a]\nroutes: [ { pool: origin, retry: off } ]")).routes[0].retry.tries, 1);
}

#[test]
fn a_list_that_is_off_is_an_empty_one_unless_it_is_needed() {
    let written = |off: &str| {
        let text = "origins: [a]\n    args: { drop: LIST }\n    health: { probe: { http: { headers: LIST, overloaded: LIST } } }\n\
                    routes: [ { pool: origin, access: { allow: LIST }, retry: { safe: LIST, methods: { POST: LIST } }, \
                    match: { hosts: LIST, methods: LIST, headers: LIST, query: LIST } } ]";
        config(&with_pool(&text.replace("LIST", off)))
    };
    assert_eq!(written("off"), written("false"));
    let route = &written("off").routes[0];
    assert!(route.matches.hosts.is_empty() && route.retry.safe.is_empty() && route.access.allow.is_empty());
    assert_eq!(config(&with_pool("origins: [a]\n    args: { keep: off }")).pools["origin"].args, args::Args::All);
    assert_eq!(said(&with_pool("origins: off")), said(&with_pool("origins: []")));
    assert!(said(&with_pool("origins: none")).iter().any(|line| line.contains("expected a list")));
}

#[test]
fn a_key_with_nothing_behind_it_is_as_if_left_out() {
    let text = with_pool("origins: [a]\n    balance:\n    host:\n    health:\n      probe:\n      panic:\nroutes:\n");
    assert_eq!(config(&text), config(&with_pool("origins: [a]")));
}

#[test]
fn a_mistake_hides_no_other() {
    let of_types =
        ["protocol: htp1", "args: 5", "balence: {}", "retry_budget: { ratio: x }", "guard: { max_moved: 1 }"];
    let of_sense = "timeouts: { connect: 9s, read: 2s }\n    origins: [a, a]";
    for wrong in of_types {
        let said = said(&with_pool(&format!(
            "{wrong}\n    {of_sense}\nroutes: [ {{ pool: orign, retry: {{ other: [reset] }} }} ]"
        )));
        let errors = said.iter().filter(|line| !line.starts_with("warning")).count();
        assert_eq!(errors, 5, "{said:#?}");
    }
}

#[test]
fn nothing_is_said_that_follows_from_another_mistake() {
    for (wrong, count) in [
        ("origins: 5", 1),
        ("origins: [ { address: 5 5 } ]", 1),
        ("origins: [ { adress: a } ]", 1),
        ("origins: [a]\n    timeouts: { connect: 20s, read: 5x }", 1),
        ("origins: [a]\n    timeouts: { read: 20s, total: 5x }", 1),
        ("origns: [a]", 1),
        ("5", 1),
        ("origins: [a]\n    health: { probe: { http: 5 } }", 1),
    ] {
        let text =
            format!("{}routes: [ {{ pool: origin }} ]\n", with_pool(wrong).replace("origin:\n    5", "origin: 5"));
        let said = said(&text).into_iter().filter(|line| !line.contains("a TCP probe")).collect::<Vec<_>>();
        assert_eq!(said.len(), count, "{wrong}: {said:#?}");
    }
}

#[test]
fn origins_are_written_or_found() {
    let told = |pool: &str| {
        let said = said(&with_pool(pool)).into_iter().filter(|line| !line.contains("a TCP probe"));
        said.map(|line| line.split_once(": ").unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    let found = config(&with_pool("discovery: { dns: o.internal, port: 8080 }")).pools["origin"].clone();
    let units::Off::On(discovery) = &found.discovery else { panic!("off") };
    assert_eq!((discovery.refresh, discovery.identity), (units::Duration::seconds(10), pool::Identity::Address));
    assert!(found.origins.is_empty());
    for good in
        ["discovery: { dns: o, identity: name }", "origins: []\n    discovery: { dns: o, port: 1 }", "origins: [a]"]
    {
        assert_eq!(told(good), [""; 0], "{good}");
    }
    let port = "pools.origin.discovery.port: missing, expected the port of all origins, or \"identity: name\"";
    assert_eq!(told("discovery: { dns: o }"), [port]);
    let both = "pools.origin.discovery: found beside \"origins\", expected one of them";
    assert_eq!(told("origins: [a]\n    discovery: { dns: o, port: 1 }"), [both]);
    let neither = "pools.origin.origins: no origin, expected at least one, or \"discovery\"";
    assert_eq!(told("discovery: off"), [neither]);
    assert_eq!(told("discovery: { port: 1 }").len(), 1, "{:?}", told("discovery: { port: 1 }"));
}

#[test]
fn a_dns_server_is_an_address() {
    let with = |servers: &str| SMALLEST.replace(" ] }\npools", &format!(" ], resolver: {servers} }}\npools"));
    let servers = config(&with("[10.0.0.10, \"[::1]:5353\"]")).process.resolver;
    assert_eq!(servers.iter().map(|server| server.0.to_string()).collect::<Vec<_>>(), ["10.0.0.10:53", "[::1]:5353"]);
    let told = said(&with("[10.0.0.10, dns.internal]"));
    let line = "process.resolver[1]: found \"dns.internal\", expected the IP address of a DNS server, such as 10.0.0.10 or [::1]:5353";
    assert!(told.iter().any(|said| said.ends_with(line)), "{told:?}");
    assert!(parse("f", &with("off")).is_ok() || parse("f", &with("[]")).is_ok());
}

#[test]
fn a_pool_written_twice_names_both_lines() {
    let text = format!("{SMALLEST}  origin: {{ origins: [x] }}\n");
    let told = "5:3: pools.origin: the key \"origin\" a second time, it stands in line 4 already";
    assert!(said(&text).contains(&told.to_owned()), "{:?}", said(&text));
}

#[test]
fn one_pool_has_one_algorithm() {
    for wrong in ["{ algorithm: [hash, p2c] }", "{ algorithm: hash, algorithm: p2c }"] {
        let said = said(&with_pool(&format!("origins: [a]\n    balance: {wrong}")));
        assert!(said.iter().any(|line| line.contains("one pool, one algorithm")), "{said:?}");
    }
    let own = with_pool("balance: { algorithm: peak_ewma, decay: 1s }\n    origins: [a]");
    assert_eq!(said(&own), [""; 0]);
    let foreign = "balance: { algorithm: p2c, decay: 1s, key: \"{path}\" }\n    args: { keep: [a] }\n    origins: [a]";
    assert_eq!(said(&with_pool(foreign)).len(), 3);
}

#[test]
fn a_pool_is_not_made_of_backups_alone() {
    let text = with_pool(
        "balance: { algorithm: p2c }\n    origins: [ { address: a, backup: true }, { address: b, backup: on } ]",
    );
    assert_eq!(said(&text), ["6:14: pools.origin.origins: only backups, expected at least one origin that is none"]);
    assert_eq!(said(&text.replace("backup: on", "backup: off")), [""; 0]);
}

#[test]
fn what_is_missing_is_told_beside_values_that_are_wrong() {
    let text = "process: { threads: many }\npools: { a: { host: { b: c } } }\n";
    let paths: Vec<_> = parse("f", text).unwrap_err().mistakes.into_iter().map(|mistake| mistake.path).collect();
    for missing in ["version", "process.listeners", "pools.a.origins"] {
        assert!(paths.iter().any(|path| path == missing), "{missing} in {paths:?}");
    }
    assert_eq!(said("vershun: 1\nproces: {}\npols: {}\n").len(), 3);
}

#[test]
fn line_ends_and_byte_order_marks_of_other_systems_are_taken() {
    let other = format!("\u{feff}{}", SMALLEST.replace('\n', "\r\n"));
    assert_eq!(config(&other), config(SMALLEST));
}

#[test]
fn texts_may_be_written_as_numbers() {
    let text = with_pool(
        "origins: [ { address: a, name: 1.20 } ]\nroutes: [ { name: 7, pool: origin, match: { headers: { x-v: 1.0 } } } ]",
    );
    let config = config(&text);
    assert_eq!(config.pools["origin"].origins[0].name, "1.20");
    assert_eq!(config.routes[0].name, "7");
    assert_eq!(config.routes[0].matches.headers["x-v"], "1.0");
}

#[test]
fn an_origin_is_named_as_it_is_written() {
    let config = config(&with_pool(
        "origins: [ \"10.0.0.1\", \"[::1]:9001\", { address: \"10.0.0.2:80\", name: b }, \"unix:/s\" ]",
    ));
    let names: Vec<_> = config.pools["origin"].origins.iter().map(|origin| origin.name.as_str()).collect();
    assert_eq!(names, ["10.0.0.1", "[::1]:9001", "b", "unix:/s"]);
    assert_eq!(config.pools["origin"].origins[0].address.to_string(), "10.0.0.1:80");
}

#[test]
fn several_pools_need_routes() {
    let text = format!("{SMALLEST}  other: {{ origins: [x] }}\n");
    assert!(said(&text).iter().any(|line| line.contains("routes: no route, expected routes")), "{:?}", said(&text));
}

#[test]
fn ports_chosen_by_the_system_are_no_duplicates() {
    let listeners = "8080 }, { address: 127.0.0.1:0 }, { address: 127.0.0.1:0 }";
    assert!(parse("f", &SMALLEST.replace("8080 }", listeners)).is_ok());
    let on_admin = said(&SMALLEST.replace("0.0.0.0:8080", "127.0.0.1:9180"));
    assert!(on_admin.iter().any(|line| line.contains("process.admin")), "{on_admin:?}");
}

#[test]
fn a_listener_that_is_not_there_is_told_where_a_route_names_it() {
    let listeners = SMALLEST.replace("8080 }", "8080 }, { address: \"[::1]:8081\" }");
    let with = |named: &str| {
        format!("{listeners}routes:\n  - pool: origin\n    match: {{ scheme: http, listeners: [{named}] }}\n")
    };
    let loaded = config(&with("0.0.0.0:8080, \"[0::1]:8081\""));
    assert_eq!(
        loaded.routes[0].matches.listeners,
        loaded.process.listeners.iter().map(|l| l.address).collect::<Vec<_>>()
    );
    let told =
        |named: &str| said(&with(named)).into_iter().filter(|line| !line.contains("a TCP probe")).collect::<Vec<_>>();
    let near = "7:54: routes[0].match.listeners[1]: unknown listener \"0.0.0.0:8088\", did you mean \"0.0.0.0:8080\"?";
    assert_eq!(told("0.0.0.0:8080, 0.0.0.0:8088"), [near]);
    let far =
        "7:40: routes[0].match.listeners[0]: unknown listener \"10.1.2.3:80\", expected 0.0.0.0:8080 or [::1]:8081";
    assert_eq!(told("10.1.2.3:80"), [far]);
    // Which ones there are is not known while one of them is wrong.
    assert_eq!(parse("f", &with("1.1.1.1:1").replace("8080 }", "8o80 }")).unwrap_err().mistakes.len(), 1 + 1);
}

#[test]
fn what_compiling_finds_is_told_with_the_rest() {
    let routes = "routes:\n  - pool: origin\n    match: 5\n  - pool: origin\n  - pool: origin";
    let wrong = with_pool(&format!("origins: [a]\n    protcol: http1\n    host: {{ a: b }}\n{routes}"));
    let complaints = |_: &Config| -> Result<(), _> {
        Err(vec![
            Invalid::new("unknown variable \"hots\"", "did you mean \"host\"?").at("pools.origin.balance.key"),
            Invalid::new("follows from host", "").at("pools.origin.host"),
            Invalid::new("said already", "").at("pools.origin.protcol"),
            Invalid::new("`b` and `a` (routes[0]) tie", "").at("routes[1].match"),
            Invalid::new("`c` and `b` (routes[1]) tie", "").at("routes[2].match"),
        ])
    };
    let report = parse_with("f", &wrong, complaints).unwrap_err();
    let found: Vec<_> = report.mistakes.iter().map(|m| m.found.as_str()).filter(|f| !f.starts_with("a TCP")).collect();
    let expected =
        ["unknown variable \"hots\"", "unknown key", "found a section", "found \"5\"", "`c` and `b` (line 11) tie"];
    assert_eq!(found, expected);
}

#[test]
fn a_long_file_of_mistakes_is_read_once() {
    let origins: String = (0..3000).map(|i| format!("      - {{ address: o{i}, weight: x, nmae: y }}\n")).collect();
    let report = parse("f", &with_pool(&format!("origins:\n{origins}"))).unwrap_err();
    assert_eq!(report.mistakes.len(), 1001 + 1, "so many, a line that counts the others, and a warning");
    assert!(report.mistakes.iter().any(|mistake| mistake.found == "5000 more mistakes"));
}

#[test]
fn files_that_are_no_configuration_are_refused_with_one_line() {
    for (text, line) in [
        ("", "1:1: the file is empty, expected \"version: 1\" and pools"),
        ("- a\n- b\n", "1:1: found a list, expected a section"),
        ("hello\n", "1:1: found \"hello\", expected a section"),
        (
            "a: &x 1\nb: *x\n",
            "1:7: anchors (&) and aliases (*) are not taken, write the value out where it is meant, or quote it if it is a text",
        ),
    ] {
        assert_eq!(said(text), [line], "{text:?}");
    }
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever is cut out of or put into a file, it loads, or every mistake of it has a place in it.
        #[test]
        fn a_damaged_file_is_told_of_at_places_in_it(
            at in any::<prop::sample::Index>(),
            length in 0_usize..40,
            put in "(\\PC{0,6}|[ :\\[\\]{},\n-]{0,6}|off|: x)",
        ) {
            let text: Vec<char> = EVERY_MISTAKE.chars().collect();
            let at = at.index(text.len());
            let end = (at + length).min(text.len());
            let damaged: String = text[..at].iter().copied().chain(put.chars()).chain(text[end..].iter().copied()).collect();
            let lines = damaged.lines().count() + 1;
            if let Err(report) = parse("f", &damaged) {
                prop_assert!(!report.mistakes.is_empty());
                for mistake in report.mistakes {
                    prop_assert!((1..=lines).contains(&(mistake.line as usize)) && mistake.column > 0, "{}", mistake);
                }
            }
        }
    }
}
