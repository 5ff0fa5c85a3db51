//! Commands that read a file and nothing else: what they print, where, and their exit codes.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

const CONF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/conf/moorgate.yaml");
const MISTAKES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/every-mistake.yaml");

fn moorgate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_moorgate")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// What `check` says of a file, with its exit code.
fn check(path: &Path) -> (String, i32) {
    let said = moorgate(&["check", "--config", path.to_str().unwrap()]);
    assert_eq!(text(&said.stderr), "");
    (text(&said.stdout).to_owned(), said.status.code().unwrap())
}

fn check_text(bytes: &[u8]) -> (String, i32) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let (said, code) = check(file.path());
    (said.replace(file.path().to_str().unwrap(), "f"), code)
}

#[test]
fn check_tells_every_mistake_of_a_file_and_exits_1() {
    let (said, code) = check(Path::new(MISTAKES));
    let expected = include_str!("../config/every-mistake.txt");
    let said = said.replace(&format!("{MISTAKES}:"), "");
    for (said, expected) in said.lines().zip(expected.lines()) {
        // The words of other rooms are theirs; that they are said, and of which value, is not.
        assert!(said == expected || expected.ends_with(':') && said.starts_with(expected), "{said}, not {expected}");
    }
    assert_eq!((said.lines().count(), code), (expected.lines().count(), 1));
}

#[test]
fn check_of_a_good_file_exits_0_and_so_do_warnings() {
    assert_eq!(check(Path::new(CONF)), (format!("{CONF}: ok\n"), 0));
    let warned = b"version: 1\nprocess: { listeners: [ { address: 127.0.0.1:0 } ] }\npools: { a: { origins: [b] } }\n";
    let (said, code) = check_text(warned);
    assert!(said.starts_with("warning: f:3:10: pools.a.health.probe: "), "{said}");
    assert_eq!((said.lines().last(), code), (Some("f: ok"), 0));
}

#[test]
fn check_names_both_of_two_origins_that_are_one_on_the_ring() {
    let text = b"version: 1\nprocess: { listeners: [ { address: 127.0.0.1:0 } ] }\npools:\n  p.q:\n    health: { probe: off }\n    \
                 origins:\n      - b:80\n      - unix:/x\n      - { address: b, name: /x }\n";
    let (said, code) = check_text(text);
    let told = "f:9:9: pools.p.q.origins[2]: \"/x\" and \"unix:/x\" (line 8) are one on the ring, give one of them another name\n";
    assert_eq!((said.as_str(), code), (told, 1));
}

#[test]
fn check_answers_json() {
    let said = moorgate(&["check", "--json", "--config", MISTAKES]);
    let json: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(json["result"], "refused");
    assert_eq!(json["mistakes"][0]["line"], 2);
    assert_eq!(json["mistakes"][0]["path"], "version");
    assert!(json["warnings"].as_array().is_some_and(|warnings| warnings.len() > 2));
}

#[test]
fn files_that_cannot_be_a_configuration_say_why() {
    let large = format!("# {}\n", "x".repeat(1 << 20));
    let bomb = format!("a: &a [x]\n{}", "b: [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n".repeat(20_000));
    let cases: [(&[u8], &str); 9] = [
        (b"", "f:1:1: the file is empty"),
        (b"\xff\xfe", "f:1:1: found bytes that are not UTF-8"),
        (large.as_bytes(), "f: is 1048579 bytes long, expected 1 MiB at most"),
        (bomb.as_bytes(), "f:1:7: anchors (&) and aliases (*) are not taken"),
        (b"a: 1\nb:\n\tc: 1\n", "f:3:1: found character that cannot start any token"),
        (b"version: 1\npools: { a: [", "f:3:1: did not find"),
        (b"version: \"1", "f:1:12: found unexpected end of stream"),
        (b"version: 1\n<<: { a: 1 }\n", "f:2:1: merge keys (<<) are not taken"),
        (b"version: 1\n---\nversion: 1\n", "f:2:1: a second document"),
    ];
    for (bytes, expected) in cases {
        let (said, code) = check_text(bytes);
        assert!(said.starts_with(expected), "{said}, not {expected}");
        assert_eq!((said.lines().count(), code), (1, 1), "{said}");
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(check(folder.path()).0.ends_with(": is no file, expected a file in YAML\n"));
    assert!(check(&folder.path().join("none")).0.contains(": cannot be read: No such file"));
}

#[test]
fn dump_prints_a_file_that_checks() {
    let dumped = moorgate(&["dump", "--config", CONF]);
    assert!(dumped.status.success());
    assert_eq!(check_text(&dumped.stdout), ("f: ok\n".to_owned(), 0));
    let json = moorgate(&["dump", "--json", "--config", CONF]);
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&json.stdout).unwrap()["version"], 1);
}

#[test]
fn dump_of_a_bad_file_says_why_and_prints_nothing() {
    let dumped = moorgate(&["dump", "--config", MISTAKES]);
    assert_eq!((dumped.status.code(), text(&dumped.stdout)), (Some(1), ""));
    assert!(text(&dumped.stderr).starts_with(&format!("{MISTAKES}:2:10: version: ")));
}

#[test]
fn schema_prints_a_schema() {
    let schema: serde_json::Value = serde_json::from_slice(&moorgate(&["schema"]).stdout).unwrap();
    assert_eq!(schema["type"], "object");
}

#[test]
fn wrong_usage_exits_2() {
    for arguments in [&["plan"][..], &["check", "--nonsense"], &[]] {
        assert_eq!(moorgate(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn an_address_that_is_taken_is_told_once() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for line in [["--listen", &address, "--admin", "127.0.0.1:0"], ["--listen", "127.0.0.1:0", "--admin", &address]] {
        let output = moorgate(&[&["run", "--origin", "127.0.0.1:9"], &line[..]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let last = said.lines().last().unwrap_or_default();
        assert_eq!((last.matches("in use").count(), last.contains(&address)), (1, true), "{said}");
    }
}
