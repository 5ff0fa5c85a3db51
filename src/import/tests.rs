//! Does whatever is read end, and is whatever is written a configuration of ours?

use std::fs;

use proptest::prelude::*;

use super::*;
use crate::config::{self, Severity};

fn check(text: &str) -> Vec<Flaw> {
    let report = match config::parse("moorgate.yaml", text) {
        Ok(loaded) => return expressions(&loaded.config),
        Err(report) => report,
    };
    let errors = report.mistakes.into_iter().filter(|mistake| mistake.severity == Severity::Error);
    errors.map(|it| Flaw { said: format!("{}, {}", it.found, it.meant), path: it.path }).collect()
}

/// Those of routes that are none, as `moorgate check` finds them.
fn expressions(config: &config::Config) -> Vec<Flaw> {
    let flaw = |(at, route): (usize, &config::Route)| {
        let Some(config::route::PathMatch::Regex(regex)) = &route.matches.path else { return None };
        let said = regex::Regex::new(regex).err()?.to_string().lines().last()?.to_owned();
        Some(Flaw { path: format!("routes[{at}].match.path.regex"), said })
    };
    config.routes.iter().enumerate().filter_map(flaw).collect()
}

pub(super) fn imported(text: impl AsRef<[u8]>) -> Result<Imported, Error> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nginx.conf");
    fs::write(&file, text).unwrap();
    import(&file, &check)
}

/// What is written for this `http` section.
pub(super) fn yaml(http: &str) -> String {
    let imported = imported(format!("events {{ }}\nhttp {{\n{http}\n}}\n")).unwrap();
    let flaws: Vec<_> = imported.flaws.iter().filter(|flaw| !repair::is_of_files(&flaw.path)).collect();
    assert!(flaws.is_empty(), "{flaws:?} {}", imported.yaml);
    imported.yaml
}

/// Nobody may ask.
pub(super) const SHUT: &str = "access: { deny: [0.0.0.0/0, \"::/0\"] }";

/// The route of this name.
pub(super) fn route(yaml: &str, name: &str) -> String {
    let names = [format!("{name}\n"), format!("\"{name}\"\n")];
    let mut routes = yaml.split("- name: ").skip(1);
    routes
        .find(|route| names.iter().any(|name| route.starts_with(name)))
        .unwrap_or_else(|| panic!("{name}: {yaml}"))
        .to_owned()
}

pub(super) fn notes(http: &str, fate: Fate) -> Vec<String> {
    let imported = imported(format!("http {{\n{http}\n}}")).unwrap();
    let notes = imported.notes.into_iter().filter(|note| note.fate == fate);
    notes.map(|note| format!("{}: {}: {}", note.place, note.directive, note.why)).collect()
}

#[test]
fn a_header_of_ones_own_takes_the_place_of_all_that_are_inherited() {
    let text = yaml(
        "proxy_set_header A 1; add_header B 2;\nserver { proxy_set_header C 3;\n\
         location / { proxy_pass http://a; }\nlocation /x/ { proxy_set_header D 4; add_header E 5; proxy_pass http://a; } }",
    );
    let route = |name: &str| text.split("- name: ").find(|route| route.starts_with(name)).unwrap().to_owned();
    let (all, own) = (route("port-80\n"), route("port-80/x\n"));
    assert!(all.contains("C: 3") && all.contains("B: 2") && !all.contains("A: 1"), "{all}");
    assert!(own.contains("D: 4") && own.contains("E: 5") && !own.contains("C: 3") && !own.contains("B: 2"), "{own}");
}

#[test]
fn what_keeps_somebody_out_keeps_everybody_out_where_it_cannot_be_carried() {
    for guard in ["auth_basic x;", "auth_request /auth;", "access_by_lua_block { if x then { } end }", "deny all;"] {
        let text = yaml(&format!("server {{ {guard} location / {{ proxy_pass http://a; }} }}"));
        assert!(text.contains(SHUT), "{guard}: {text}");
    }
    let text = yaml(
        "server { listen 443 ssl; } server { listen 443 ssl; server_name a.test; ssl_client_certificate c.pem; \
         ssl_verify_client on; location / { proxy_pass http://a; } }",
    );
    assert!(text.contains(SHUT), "{text}");
    for open in ["auth_basic off;", "allow all; deny 10.0.0.1;", ""] {
        let text =
            yaml(&format!("server {{ auth_basic x; location / {{ auth_basic off; {open} proxy_pass http://a; }} }}"));
        assert!(!text.contains("access:"), "{open}: {text}");
    }
    let text = yaml("server { allow 10.0.0.0/8; deny 192.0.2.1; deny all; location / { proxy_pass http://a; } }");
    assert!(text.contains("access: { allow: [10.0.0.0/8], deny: [192.0.2.1] }"), "{text}");
}

#[test]
fn nothing_is_left_out_silently() {
    let said = notes(
        "frobnicate 7;\nserver {\n proxy_cache x;\n include not-there.conf;\n location / {\n  sub_filter a b;\n  access_log off;\n  \
         send_timeout 1s;\n  if ($http_x ~ y) { return 403; }\n  proxy_pass http://a;\n }\n error_page 404 /404.html;\n}",
        Fate::NotCarried,
    );
    let told = |begins: &str| said.iter().any(|line| line.starts_with(begins));
    for begins in [
        "nginx.conf:2: frobnicate 7: this directive is not known",
        "nginx.conf:4: proxy_cache x: nothing is cached",
        "nginx.conf:5: include not-there.conf: there is no such file",
        "nginx.conf:7: sub_filter a b: bodies",
        "nginx.conf:8: access_log off: all requests",
        "nginx.conf:9: send_timeout 1s: it is said once",
        "nginx.conf:10: if ($http_x ~ y): it refuses some, and no `match`",
        "nginx.conf:13: error_page 404 /404.html: answers",
    ] {
        assert!(told(begins), "{begins}: {said:#?}");
    }
}

#[test]
fn what_the_check_refuses_is_taken_out_and_told() {
    let text = yaml("server { location / { proxy_pass http://a_b-/; } location ~ ^/(?!x) { proxy_pass http://b; } }");
    assert!(text.contains("# NOT CARRIED: nginx.conf:3: pools.a_b.origins[0]"), "{text}");
    assert!(text.contains("respond: { status: 501 }"), "{text}");
}

#[test]
fn mistakes_have_their_places() {
    for (text, expected) in [
        ("http {\n server {\n", "nginx.conf:3: the file ends inside a block"),
        ("http {\n server { listen 80 }\n}", "nginx.conf:2: `listen` without its `;`"),
        ("a;\n;", "nginx.conf:2: a `;` without a directive"),
        ("a;\n}", "nginx.conf:2: a `}` without its `{`"),
        ("a \"b", "nginx.conf:1: a quote that was opened in line 1 is never closed"),
        ("include nginx.conf; a;", "nginx.conf:1: files included more than 12 deep"),
    ] {
        assert_eq!(imported(text).unwrap_err().to_string(), expected);
    }
    assert!(imported("events { }").unwrap_err().what.contains("no `server`"));
    assert!(imported("a { ".repeat(100)).unwrap_err().what.contains("nested"));
}

#[test]
fn included_files_are_found_from_the_first_file() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        fs::write(folder.path().join(name), text).unwrap();
    };
    write("nginx.conf", "http { include conf.d/*.conf; include sites/a; }");
    write("conf.d/b.conf", "upstream b { server 127.0.0.1:2; }");
    write("conf.d/a.conf", "upstream a { include conf.d/servers; }");
    write("conf.d/servers", "server 127.0.0.1:1;");
    write("sites/a", "server {\nlocation / { proxy_pass http://a; frobnicate; }\n}");
    let imported = import(&folder.path().join("nginx.conf"), &check).unwrap();
    assert!(imported.yaml.contains("origins: [\"127.0.0.1:1\"]"), "{}", imported.yaml);
    assert!(imported.yaml.contains("sites/a:2: frobnicate"), "{}", imported.yaml);
}

/// Words that make directives of, in any order.
const WORDS: [&str; 64] = [
    "server",
    "location",
    "/",
    "/a/",
    "/a",
    "~",
    "~*",
    "=",
    "^~",
    "\\.php$",
    "^/u/(.*)$",
    "proxy_pass",
    "http://up",
    "http://up/x/",
    "http://$v",
    "upstream",
    "up",
    "hash",
    "$uri$is_args$args",
    "consistent",
    "127.0.0.1:9001",
    "weight=2",
    "backup",
    "down",
    "listen",
    "80",
    "443 ssl",
    "server_name",
    "a.test",
    "*.a.test",
    "_",
    "return",
    "301",
    "200",
    "https://$host$request_uri",
    "\"a b{}\"",
    "rewrite",
    "/x/$1",
    "permanent",
    "break",
    "if",
    "($request_method = POST)",
    "($host = b.test)",
    "map",
    "$arg_x",
    "$v",
    "default",
    "split_clients",
    "10%",
    "*",
    "proxy_set_header",
    "Host",
    "X-A",
    "add_header",
    "limit_req_zone",
    "zone=one:1m",
    "rate=5r/s",
    "limit_req",
    "zone=one",
    "deny",
    "all",
    "proxy_read_timeout",
    "1ms",
    "mirror",
];

fn any_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        8 => prop::sample::select(WORDS.to_vec()).prop_map(str::to_owned),
        3 => Just(";".to_owned()),
        1 => Just("{".to_owned()),
        1 => Just("}".to_owned()),
        1 => "[ -~]{0,4}",
    ];
    prop::collection::vec(word, 0..60).prop_map(|words| words.join(" "))
}

/// Blocks that close.
fn any_config() -> impl Strategy<Value = String> {
    let line =
        prop::collection::vec(prop::sample::select(WORDS.to_vec()), 1..5).prop_map(|words| words.join(" ") + ";");
    let leaf = prop::collection::vec(line, 0..4).prop_map(|lines| lines.concat());
    let block = leaf.prop_recursive(3, 24, 4, |inner| {
        let named = (prop::collection::vec(prop::sample::select(WORDS.to_vec()), 1..4), inner);
        prop::collection::vec(named, 1..4).prop_map(|blocks| {
            blocks.into_iter().map(|(words, inside)| format!("{} {{ {inside} }}\n", words.join(" "))).collect()
        })
    });
    let location = (prop::sample::select(WORDS.to_vec()), prop::sample::select(WORDS.to_vec()), block.clone());
    (block.clone(), block, location).prop_map(|(http, server, (sign, text, location))| {
        format!("http {{ {http} server {{ {server} location {sign} {text} {{ {location} proxy_pass http://up; }} }} }}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        _ = imported(bytes);
    }

    #[test]
    fn no_words_panic_and_what_is_written_is_ours(text in any_text()) {
        for text in [format!("server {{ {text} }}"), format!("server {{ }} {text}")] {
            if let Ok(imported) = imported(&text) {
                prop_assert!(imported.flaws.is_empty(), "{text}\n{}\n{:?}", imported.yaml, imported.flaws);
            }
        }
    }

    #[test]
    fn what_is_written_is_a_configuration_of_ours(text in any_config()) {
        if let Ok(imported) = imported(&text) {
            let flaws: Vec<_> = imported.flaws.iter().filter(|flaw| !repair::is_of_files(&flaw.path)).collect();
            prop_assert!(flaws.is_empty(), "{text}\n{}\n{flaws:?}", imported.yaml);
        }
    }
}
