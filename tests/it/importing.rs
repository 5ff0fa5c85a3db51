//! Does the gateway with an imported configuration do what nginx does with the original? Both stand in front of the same
//! origins and are asked the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use crate::rig::{self, Answer, Ask, Client, Door, Gateway, Nginx, Origin};

/// Beside the first server, which is everybody's.
const HTTP: &str = r#"
access_log off;
keepalive_requests 100000;
proxy_http_version 1.1;
proxy_set_header Connection "";
proxy_set_header Host $host;
map $arg_user $whose { "" $request_uri; default $arg_user; }
map $request_method $by_method { default readers; POST writers; ~^(PUT|DELETE)$ writers; }
upstream ring { hash $uri$is_args$args consistent; server $a weight=2 max_fails=0; server $b max_fails=0; server $c max_fails=0; server $d max_fails=0; keepalive 16; }
upstream hosts { hash $host$request_uri consistent; server $a; server $b; server $c; keepalive 16; }
upstream users { hash $whose consistent; server $a; server $b; server $c; server $e; keepalive 16; }
upstream argument { hash $arg_Id$request_method consistent; server $a; server $b; server $e; keepalive 16; }
upstream half { hash $request_uri consistent; server $b max_fails=0; server $dead max_fails=0; server $e max_fails=0; keepalive 16; }
upstream readers { server $c; keepalive 16; }
upstream writers { server $d; keepalive 16; }
server {
  listen $address;
  server_name shop.test *.shop.test;
  if ($host = old.shop.test) { return 301 https://shop.test$request_uri; }
  proxy_set_header Host $host;
  proxy_set_header Connection "";
  proxy_set_header X-Server shop;
  location / { proxy_pass http://hosts; }
  location ^~ /pictures/ { proxy_pass http://readers; }
  location ~* \.(png|jpg)$ { proxy_pass http://writers; }
  location ~ ^/users/(.*)$ { proxy_pass http://users/people/$1$is_args$args; }
  location = /users/me { return 403; }
}
server {
  listen $address;
  server_name moved.test;
  return 308 https://new.test$request_uri;
}
"#;

const SERVER: &str = r#"
location / {
  proxy_pass http://ring;
  proxy_set_header Connection "";
  proxy_set_header Host $host;
  proxy_set_header X-Real-IP $remote_addr;
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
  proxy_set_header X-Forwarded-Proto $scheme;
  proxy_set_header X-Old "";
}
location /api { proxy_pass http://users; }
location /api/v2/ { proxy_pass http://ring/v3/; proxy_set_header Host literal.test; proxy_set_header Connection ""; }
location = /api/exact { proxy_pass http://writers/other; }
location /argument/ { proxy_pass http://argument; }
location /half/ { proxy_pass http://half; proxy_next_upstream error timeout http_503; }
location /method/ { proxy_pass http://$by_method; }
location /stripped/ { rewrite ^/stripped/(.*)$ /$1 break; proxy_pass http://readers; }
location /gone { return 410 "gone\n"; }
location /elsewhere/ { return 302 https://elsewhere.test$request_uri; }
location /refused/ { deny all; proxy_pass http://readers; }
location /small/ { client_max_body_size 10; proxy_pass http://readers; }
location /read/ { limit_except GET { deny all; } proxy_pass http://readers; }
location /post { if ($request_method = POST) { return 405; } proxy_pass http://readers; }
"#;

const PATHS: [&str; 36] = [
    "/",
    "/N",
    "/a/N",
    "/a/N/",
    "/a%20b/N",
    "//a//N",
    "/a/../b/N",
    "/api",
    "/apiN",
    "/api/N",
    "/api/v2",
    "/api/v2/",
    "/api/v2/N",
    "/api/v2N",
    "/api/exact",
    "/api/exact/N",
    "/argument/N",
    "/argument",
    "/half/N",
    "/method/N",
    "/stripped/N",
    "/stripped",
    "/gone",
    "/goneN",
    "/elsewhere/N",
    "/refused/N",
    "/small/N",
    "/read/N",
    "/post/N",
    "/users/N",
    "/users/me",
    "/pictures/N.png",
    "/x/N.png",
    "/x/N.PNG",
    "/x/N.png.gz",
    "/users/N.jpg",
];
const QUERIES: [&str; 8] = ["", "?", "?b=N&a=1", "?id=N", "?ID=%41N&x", "?user=uN", "?a=b%20c&&d", "?x=1?y"];
const HOSTS: [&str; 6] = ["test", "shop.test", "A.Shop.Test", "old.shop.test", "moved.test", "shop.test:8080"];
const METHODS: [&str; 6] = ["GET", "GET", "POST", "HEAD", "PUT", "DELETE"];

const REQUESTS: u32 = 10_000;
const CLIENTS: u32 = 4;

fn import(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_moorgate")).arg("import").args(arguments).output().unwrap()
}

/// Without what the rig writes itself.
fn without_process(yaml: &str) -> String {
    let mut lines = yaml.lines().skip_while(|line| !line.starts_with("process:")).skip(1);
    let rest = lines.by_ref().skip_while(|line| line.starts_with([' ', '#']));
    rest.map(|line| format!("{line}\n")).collect()
}

/// The same numbers for each run, another for each request.
fn request(nth: u32) -> Ask {
    let pick = |round: u32, of: usize| {
        let mixed = u64::from(nth).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(7 * round) >> 17;
        usize::try_from(mixed).unwrap() % of
    };
    let [path, query] = [PATHS[pick(0, PATHS.len())], QUERIES[pick(1, QUERIES.len())]];
    let target = format!("{path}{query}").replace('N', &(nth % 997).to_string());
    let method = METHODS[pick(2, METHODS.len())];
    let ask = Ask::new(method, &target).header("Host", HOSTS[pick(3, HOSTS.len())]).header("X-Nth", &nth.to_string());
    let ask = match pick(4, 4) {
        0 => ask.header("X-Forwarded-For", "192.0.2.7").header("X-Forwarded-Host", "said.test").header("X-Old", "x"),
        1 => ask.header("X-Real-IP", "192.0.2.8").header("X-Forwarded-Proto", "gopher").header("Cookie", "a=b"),
        _ => ask,
    };
    if matches!(method, "POST" | "PUT") { ask.body(vec![b'x'; 1 + pick(5, 20)]) } else { ask }
}

/// Places are the same wherever they are asked; nginx names itself in front of a path.
fn place(answer: &Answer, nginx: &Nginx) -> Option<String> {
    let place = answer.header("location")?;
    let own = nginx.address.port();
    let path = place
        .strip_prefix("http://")
        .and_then(|rest| Some((rest.split_once('/')?, rest.contains(&format!(":{own}/")))));
    Some(match path {
        Some(((_, path), true)) => format!("/{path}"),
        _ => place.to_owned(),
    })
}

/// What both say to the requests of one client.
fn replay(first: u32, nginx: &Nginx, gateway: &Gateway) -> BTreeMap<String, u32> {
    let mut clients = [Client::new(nginx.address), gateway.client()];
    let mut seen = BTreeMap::new();
    for nth in (first..REQUESTS).step_by(CLIENTS as usize) {
        let ask = request(nth);
        let [there, here] = clients.each_mut().map(|client| client.send(&ask).unwrap());
        let said = format!("{} {} of {:?}", ask.method, ask.target, ask.header_value("host"));
        assert_eq!((here.status, here.origin()), (there.status, there.origin()), "{said}");
        assert_eq!(place(&here, nginx), place(&there, nginx), "{said}");
        *seen.entry(format!("{} {}", here.status, here.origin())).or_default() += 1;
    }
    seen
}

/// Header lines as an origin got them, in order of their names. A Host goes on as it came, where nginx has its letters small
/// and its port gone.
fn lines(headers: &[(String, String)]) -> Vec<String> {
    let line = |(name, value): &(String, String)| match name.to_lowercase().as_str() {
        "host" => format!("host: {}", value.to_lowercase().split(':').next().unwrap()),
        name => format!("{name}: {value}"),
    };
    let mut lines: Vec<String> = headers.iter().map(line).collect();
    lines.sort();
    lines
}

/// Both went with the same line and headers.
fn assert_told_alike(origins: &[Origin]) {
    let mut by_number: BTreeMap<String, Vec<(String, Vec<String>)>> = BTreeMap::new();
    for request in origins.iter().flat_map(Origin::requests) {
        let number = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-nth"));
        if let Some((_, number)) = number {
            // A path that nginx replaced has no `?` in front of nothing.
            let line = request.line.replace("? HTTP", " HTTP");
            by_number.entry(number.clone()).or_default().push((line, lines(&request.headers)));
        }
    }
    assert!(by_number.len() > 1_000, "{}", by_number.len());
    for (number, requests) in by_number {
        let [one, other] = requests.as_slice() else { panic!("{number}: {requests:?}") };
        assert_eq!(one, other, "{number}");
    }
}

#[test]
fn an_imported_configuration_does_what_the_original_does() {
    let origins: Vec<Origin> = ["a", "b", "c", "d", "e"].map(rig::origin).into();
    let dead = rig::origin("dead");
    dead.door(Door::Refuse);
    let named = |text: &str| {
        let all = origins.iter().chain([&dead]);
        let mut all: Vec<_> = all.map(|origin| (format!("${} ", origin.name), origin.address)).collect();
        all.extend(origins.iter().map(|origin| (format!("${};", origin.name), origin.address)));
        all.iter().fold(text.to_owned(), |text, (name, address)| {
            let end = name.chars().last().unwrap();
            text.replace(name, &format!("{address}{end}"))
        })
    };
    let nginx = rig::nginx(&named(HTTP), SERVER);
    let printed = import(&[&nginx.path("nginx.conf")]);
    assert!(printed.status.success(), "{printed:?}");
    let yaml = String::from_utf8(printed.stdout).unwrap();
    assert!(!yaml.contains("NOT CARRIED"), "{yaml}");
    let gateway = rig::gateway(&without_process(&yaml)).start();
    let (nginx, gateway) = (&nginx, &gateway);
    let seen = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS).map(|first| scope.spawn(move || replay(first, nginx, gateway))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).fold(BTreeMap::new(), |mut all, (what, count)| {
            *all.entry(what).or_insert(0) += count;
            all
        })
    });
    assert_eq!(seen.values().sum::<u32>(), REQUESTS);
    assert!(["200 a", "200 b", "200 c", "200 d", "200 e"].iter().all(|what| seen.contains_key(*what)), "{seen:?}");
    for status in ["301 ", "302 ", "308 ", "403 ", "405 ", "410 ", "413 "] {
        assert!(seen.contains_key(status), "{status}: {seen:?}");
    }
    assert_told_alike(&origins);
}

#[test]
fn the_example_of_the_page_is_what_is_printed() {
    let page = include_str!("../../docs/import.md");
    let block = |language: &str| {
        let open = format!("```{language}\n");
        page.split(&open).nth(1).unwrap().split("```").next().unwrap().to_owned()
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("nginx.conf"), block("nginx")).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_moorgate"));
        command.args(arguments).current_dir(folder.path()).output().unwrap()
    };
    let printed = run(&["import", "nginx.conf"]);
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), block("yaml"));
    let said = String::from_utf8(printed.stderr).unwrap();
    assert!(said.starts_with("not carried: nginx.conf:16: proxy_cache pages: nothing is cached here\n"), "{said}");
    assert!(
        said.ends_with("nginx.conf: 1 not carried, 0 different, 3 without a meaning here: see the comments\n"),
        "{said}"
    );
    let written = run(&["import", "nginx.conf", "--json", "-o", "moorgate.yaml"]);
    let object: serde_json::Value = serde_json::from_slice(&written.stdout).unwrap();
    assert_eq!(object["yaml"], block("yaml"));
    assert_eq!(object["notes"][2]["directive"], "keepalive");
    assert!(run(&["check", "--config", "moorgate.yaml"]).status.success());
    let broken = run(&["import", "moorgate.yaml"]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(String::from_utf8(broken.stderr).unwrap().starts_with("moorgate: moorgate.yaml:"));
}

#[test]
fn each_thing_that_is_carried_becomes_what_it_was() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_moorgate"));
        String::from_utf8(command.args(arguments).current_dir(&folder).output().unwrap().stdout).unwrap()
    };
    let golden = std::fs::read_to_string(folder.join("from-nginx.yaml")).unwrap();
    assert_eq!(run(&["import", "from-nginx.conf"]), golden);
    assert!(run(&["check", "--config", "from-nginx.yaml"]).ends_with("from-nginx.yaml: ok\n"));
}

#[test]
fn what_cannot_be_kept_shut_is_told_first_and_fails() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nginx.conf");
    let location = |sign: &str, rest: &str| format!("location {sign} {{ {rest} proxy_pass http://127.0.0.1:9; }}\n");
    let write = |guard: &str| {
        std::fs::write(&file, format!("server {{\n{}{guard}}}\n", location("/", ""))).unwrap();
        import(&[&file])
    };
    // An expression that is none here, and nothing that takes its place.
    let open = write(&location("~ ^/(a)\\1", "deny all;"));
    assert_eq!(open.status.code(), Some(1));
    assert!(String::from_utf8(open.stdout).unwrap().starts_with("# OPEN: nginx.conf:3: routes["));
    assert!(String::from_utf8(open.stderr).unwrap().starts_with("OPEN: nginx.conf:3: routes["));
    let shut = write(&location("~ /\\.(?!well-known)", "deny all;"));
    assert!(shut.status.success(), "{shut:?}");
    let yaml = String::from_utf8(shut.stdout).unwrap();
    assert!(yaml.contains("deny: [0.0.0.0/0, \"::/0\"]") && !yaml.contains("OPEN"), "{yaml}");
}
