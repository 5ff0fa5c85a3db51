//! Does the `key` command say what docs/placement.md says it does, and what a real nginx did?

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::golden::{self, Golden, Server};

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn moorgate() -> &'static str {
    env!("CARGO_BIN_EXE_moorgate")
}

/// A folder with this text as `moorgate.yaml`, and the file.
fn written(config: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("moorgate.yaml");
    std::fs::write(&file, config).unwrap();
    (folder, file)
}

/// What the command prints for these arguments and this input.
fn key(file: &Path, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new(moorgate());
    command.arg("key").arg("--config").arg(file).args(args);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{args:?}");
    output.stdout
}

/// The blocks of a language in a page.
fn blocks<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let open = format!("```{language}\n");
    page.split(&open).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// What a shell prints where this is typed, with the prompt and the commands.
fn typed(commands: &[&str], file: &Path) -> String {
    let mut screen = String::new();
    for command in commands {
        let line = command.replace("moorgate key", "\"$MOORGATE\" key --config \"$FILE\"");
        let output = Command::new("sh").arg("-c").arg(&line).env("MOORGATE", moorgate()).env("FILE", file).output();
        let output = output.unwrap();
        writeln!(screen, "$ {command}").unwrap();
        screen.push_str(&String::from_utf8_lossy(&output.stdout));
        screen.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    screen
}

#[test]
fn every_example_of_the_page_is_what_is_printed() {
    let page = std::fs::read_to_string(root("docs/placement.md")).unwrap();
    let (_folder, file) = written(blocks(&page, "yaml")[0]);
    let examples = blocks(&page, "console");
    assert!(examples.len() > 3, "the page shows the command at work");
    for example in examples {
        let commands: Vec<&str> = example.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
        assert_eq!(typed(&commands, &file), example);
    }
}

#[derive(Deserialize)]
struct Told {
    key: String,
    owner: String,
    successors: Vec<String>,
}

fn goldens() -> impl Iterator<Item = Golden> {
    std::fs::read_dir(golden::folder()).unwrap().map(|entry| Golden::read(&entry.unwrap().path()))
}

fn config_of(servers: &[Server]) -> String {
    let mut text = "version: 1\nprocess: { listeners: [ { address: \"127.0.0.1:0\" } ] }\npools:\n".to_owned();
    text.push_str("  p:\n    balance: { key: \"{header:x-key}\" }\n    origins:\n");
    for Server { name, weight } in servers {
        writeln!(text, "      - {{ address: \"{name}\", weight: {weight} }}").unwrap();
    }
    text
}

#[test]
fn b19_owners_and_successors_are_where_nginx_puts_them() {
    let mut told = (0, 0);
    for golden in goldens() {
        let (_folder, file) = written(&config_of(&golden.servers));
        let lines = |keys: &mut dyn Iterator<Item = &String>| keys.map(|key| format!("{key}\n")).collect::<String>();
        let owners = key(&file, &["--raw-from", "-"], lines(&mut golden.map.keys()).as_bytes());
        let expected: String = golden.map.iter().map(|(key, owner)| format!("{key}\t{owner}\n")).collect();
        assert_eq!(String::from_utf8(owners).unwrap(), expected);
        told.0 += golden.map.len();
        let attempts = lines(&mut golden.attempts_when_refusing.keys());
        for line in String::from_utf8(key(&file, &["--json", "--raw-from", "-"], attempts.as_bytes())).unwrap().lines()
        {
            let Told { key, owner, successors } = serde_json::from_str(line).unwrap();
            let order = [&[owner][..], &successors].concat();
            assert!(order.starts_with(&golden.attempts_when_refusing[&key]), "{key}");
            told.1 += 1;
        }
    }
    assert_eq!(told, (9 * 405, 351));
}

#[test]
fn a_header_that_is_the_key_is_placed_like_the_literal_key() {
    let Some(golden) = goldens().next() else { return };
    let (_folder, file) = written(&config_of(&golden.servers));
    for (literal, owner) in golden.map.iter().take(20) {
        let header = format!("x-key: {literal}");
        let told = key(&file, &["--json", "-H", &header, "http://h/"], b"");
        let told: Told = serde_json::from_slice(&told).unwrap();
        assert_eq!((&told.key, &told.owner), (literal, owner));
    }
}

/// Which origin each of 10,000 keys belongs to, in a pool of these.
fn map(origins: &[&str]) -> Vec<String> {
    let servers: Vec<Server> = origins.iter().map(|name| Server { name: (*name).to_owned(), weight: 1 }).collect();
    let (_folder, file) = written(&config_of(&servers));
    let keys: String = (0..10_000).map(|number| format!("/obj/{number}\n")).collect();
    let told = String::from_utf8(key(&file, &["--raw-from", "-"], keys.as_bytes())).unwrap();
    told.lines().map(|line| line.split('\t').nth(1).unwrap().to_owned()).collect()
}

const A: &str = "127.0.0.1:9001";
const B: &str = "127.0.0.1:9002";
const C: &str = "127.0.0.1:9003";
const D: &str = "127.0.0.1:9004";

#[test]
fn b1_a_new_origin_takes_its_part_and_nothing_moves_between_the_others() {
    let (before, after) = (map(&[A, B, C]), map(&[A, B, C, D]));
    let moved: Vec<_> = before.iter().zip(&after).filter(|(before, after)| before != after).collect();
    assert!((2_000..3_000).contains(&moved.len()), "{}", moved.len());
    assert!(moved.iter().all(|(_, after)| *after == D));
}

#[test]
fn b2_removing_an_origin_moves_only_its_keys() {
    let (before, after) = (map(&[A, B, C]), map(&[A, B]));
    assert!(before.iter().zip(&after).all(|(before, after)| before == after || before == C));
}

#[test]
fn b3_b4_the_order_of_the_file_means_nothing() {
    assert_eq!(map(&[A, B, C]), map(&[C, B, A]));
    let last = map(&[A, B, C, D]);
    assert_eq!(map(&[D, A, B, C]), last);
    assert_eq!(map(&[A, D, B, C]), last);
}

/// Keys of many URLs at once.
fn keys(file: &Path, urls: &[&str]) -> Vec<String> {
    let told = key(file, &[&["--json", "--pool", "p"], urls].concat(), b"");
    let told = String::from_utf8(told).unwrap();
    told.lines().map(|line| serde_json::from_str::<Told>(line).unwrap().key).collect()
}

fn web(balance: &str) -> String {
    format!(
        "version: 1\nprocess: {{ listeners: [ {{ address: \"127.0.0.1:0\" }} ] }}\npools:\n  p:\n    {balance}\n    \
         origins: [ \"127.0.0.1:9200\", \"127.0.0.1:9201\", \"127.0.0.1:9202\" ]\n"
    )
}

/// `=` and `!` say whether two URLs of one key are the same.
const PAIRS: [(&str, char, &str); 44] = [
    ("http://Example.COM/", '=', "http://example.com/"),
    ("http://example.com./", '=', "http://example.com/"),
    ("http://example.com:80/", '=', "http://example.com/"),
    ("http://example.com:8080/", '=', "http://example.com/"),
    ("http://[FE80::1]:8080/", '=', "http://[fe80::1]/"),
    ("http://www.example.com/", '!', "http://example.com/"),
    ("http://h", '=', "http://h/"),
    ("http://h?a=1", '=', "http://h/?a=1"),
    ("http://h/a#b", '=', "http://h/a"),
    ("/%7Eann", '=', "/~ann"),
    ("/%41%2D%2e%5f", '=', "/A-._"),
    ("/a%2fb", '=', "/a%2Fb"),
    ("/a%2fb", '!', "/a/b"),
    ("/é", '=', "/%c3%a9"),
    ("/a\"b", '!', "/a'b"),
    ("/a\"b", '!', "/a%22b"),
    ("/100%", '=', "/100%25"),
    ("/100%2", '=', "/100%252"),
    ("/%zz", '=', "/%25zz"),
    ("/A", '!', "/a"),
    ("/a/./b", '=', "/a/b"),
    ("/a/x/../b", '=', "/a/b"),
    ("/a/%2e/b", '=', "/a/b"),
    ("/a/x/%2E%2e/b", '=', "/a/b"),
    ("/a/b/.", '=', "/a/b/"),
    ("/a/b/..", '=', "/a/"),
    ("/a/b/", '!', "/a/b"),
    ("/a//b", '!', "/a/b"),
    ("/a/...", '!', "/a/"),
    ("/p?", '=', "/p"),
    ("/p?&&", '=', "/p"),
    ("/p?b=2&a=1", '=', "/p?a=1&b=2"),
    ("/p?a=1&a=2", '!', "/p?a=2&a=1"),
    ("/p?b=0&a=1&a=2", '=', "/p?a=1&a=2&b=0"),
    ("/p?a", '=', "/p?a="),
    ("/p?a", '!', "/p"),
    ("/p?A=1", '!', "/p?a=1"),
    ("/p?%61=%41", '=', "/p?a=A"),
    ("/p?a=x+y", '!', "/p?a=x%20y"),
    ("/p?a=1;b=2", '!', "/p?a=1&b=2"),
    ("/p?a=b=c", '!', "/p?a=b&c"),
    ("/p?a=%26b", '!', "/p?a=&b"),
    ("/p?a=%2f", '=', "/p?a=%2F"),
    ("/p?a=/../x", '!', "/p?a=/x"),
];

#[test]
fn b11_k1_k2_k3_what_is_the_same_has_one_key() {
    let takes_all = "routes: [ { pool: p, encoded_slash: allow } ]\n";
    let (_folder, file) = written(&(web("balance: { key: \"{host}{path}{args}\" }") + takes_all));
    let urls: Vec<&str> = PAIRS.iter().flat_map(|(left, _, right)| [*left, *right]).collect();
    for (pair, (left, same, right)) in keys(&file, &urls).chunks(2).zip(PAIRS) {
        assert_eq!(pair[0] == pair[1], same == '=', "{left} {right}: {pair:?}");
    }
}

#[test]
fn b10_what_does_not_count_makes_no_key_of_its_own() {
    let (_folder, file) = written(&web("args: { keep: [v] }"));
    let urls: Vec<String> = (0..100).map(|n| format!("/o/1?sig={n:x}&v=2&ts={}", 1_700_000_000 + n)).collect();
    let mut keys = keys(&file, &urls.iter().map(String::as_str).collect::<Vec<_>>());
    keys.dedup();
    assert_eq!(keys, ["/o/1?v=2"]);
}

#[test]
fn b12_a_part_of_the_path_may_be_the_key() {
    let (_folder, file) = written(&web("balance: { key: '{path:^/tran/([\\w-]+)}' }"));
    assert_eq!(keys(&file, &["/tran/x-1/1", "/tran/x-1/2?a=b", "/%74ran/./x-1"]), ["x-1"; 3]);
}

#[test]
fn b13_k4_parts_that_run_into_each_other_are_refused_and_kept_apart_by_a_literal() {
    let (_folder, file) = written(&web("balance: { key: \"{arg:a}{arg:b}\" }"));
    let output = Command::new(moorgate()).args(["key", "/", "--config"]).arg(&file).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(":5:21: pools.p.balance.key: ") && said.contains("{arg:a}&{arg:b}"), "{said}");
    let (_folder, file) = written(&web("balance: { key: \"{arg:a}&{arg:b}\" }"));
    assert_eq!(keys(&file, &["/?a=xy&b=z", "/?a=x&b=yz", "/?b=%7a&a=x%79"]), ["xy&z", "x&yz", "xy&z"]);
}
