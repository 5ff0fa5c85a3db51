//! Holds the house to its plan: who may import whom, how long things may grow, what may not be written.
//!
//! The rules run over the real tree, and over small planted sources that each break one of them: a rule that
//! finds nothing there would prove nothing here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "architecture/rules.rs"]
mod rules;
#[path = "architecture/source.rs"]
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use rules::{Finding, Rule};
use source::Source;

/// Every file below `folder` whose name passes, sorted; build output and version control are no part of the house.
fn files(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == ".git" || path.join("CACHEDIR.TAG").exists() {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path, wanted));
        } else if wanted(&path) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn inside(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/")
}

fn report(found: &[Finding]) -> String {
    found.iter().map(|f| format!("{}: {:?}: {}\n", f.place, f.rule, f.what)).collect()
}

#[test]
fn the_house_is_as_planned() {
    let rust = |path: &Path| path.extension().is_some_and(|e| e == "rs");
    let folders = ["src", "tests", "benches"];
    let paths = folders.iter().flat_map(|folder| files(&root().join(folder), &rust));
    let sources: Vec<Source> =
        paths.map(|path| Source::parse(&inside(&path), &fs::read_to_string(&path).unwrap()).unwrap()).collect();
    assert!(sources.iter().any(|s| s.path == "src/lib.rs"), "the tree was not found");
    let found = rules::check(&sources);
    assert!(found.is_empty(), "\n{}", report(&found));
}

#[test]
fn no_file_holds_a_forbidden_word() {
    let text = |path: &Path| path.extension().is_none_or(|e| e != "rs" && e != "lock");
    let found: Vec<Finding> = files(root(), &text)
        .iter()
        .filter_map(|path| Some((inside(path), fs::read_to_string(path).ok()?)))
        .flat_map(|(path, text)| rules::words_of_text(&path, &text))
        .collect();
    assert!(found.is_empty(), "\n{}", report(&found));
}

/// What the rules say about one small source.
fn planted(path: &str, text: &str) -> Vec<Rule> {
    let source = Source::parse(path, &format!("//! What is planted here?\n{text}")).unwrap();
    rules::check(&[source]).iter().map(|f| f.rule).collect()
}

#[test]
fn a_forbidden_import_is_found_however_it_is_written() {
    for text in [
        "use crate::config::Pool;",
        "use crate::config as written;",
        "use crate::{pool::Pool, config::{self, Pool as P}};",
        "use super::config::Pool;",
        "mod inner { use super::super::config::Pool; }",
        "fn f() { let _ = crate::config::Pool::default(); }",
        "fn f(_: &super::config::Pool) {}",
        "fn f() -> Option<crate::config::Pool> { None }",
        "fn f() { log::info!(\"{}\", crate::config::VERSION); }",
        "fn f() { vec![vec![crate::config::Pool::default()]]; }",
        "use crate::*;",
        "use super::*;",
        "impl Iterator for crate::config::Pool {}",
        "use moorgate::config::Pool;",
    ] {
        assert_eq!(planted("src/proxy/mod.rs", text).first(), Some(&Rule::Import), "{text}");
    }
}

#[test]
fn allowed_imports_pass() {
    assert_eq!(planted("src/proxy/ctx.rs", "use crate::snapshot::Snapshot; use super::admit;"), []);
    assert_eq!(planted("src/proxy/ctx.rs", "pub(in crate::proxy) fn f() {}"), []);
    assert_eq!(planted("src/cli/run.rs", "use crate::{config, lifecycle}; use anyhow::Result;"), []);
    assert_eq!(planted("src/main.rs", "fn main() { moorgate::cli::run(); }"), []);
    let test = "#[cfg(test)] mod tests { use super::*; use crate::config; fn f() { crate::config::load(); } }";
    assert_eq!(planted("src/proxy/mod.rs", test), []);
}

#[test]
fn rooms_below_never_import_rooms_above_or_beside() {
    assert_eq!(planted("src/balance/ring.rs", "use crate::health::State;"), [Rule::Import]);
    assert_eq!(planted("src/config/mod.rs", "use crate::template::Template;"), [Rule::Import]);
    assert_eq!(planted("src/pool/mod.rs", "use crate::snapshot::Store;"), [Rule::Import]);
    assert_eq!(planted("src/main.rs", "fn main() { moorgate::config::load(); }"), [Rule::Import]);
    assert_eq!(planted("src/parlour/mod.rs", "use crate::config::Pool;"), [Rule::Import]);
}

#[test]
fn a_room_hands_on_nothing_of_another() {
    assert_eq!(planted("src/snapshot/mod.rs", "pub use crate::config::Pool;"), [Rule::Reexport]);
    assert_eq!(planted("src/snapshot/mod.rs", "pub(crate) use crate::{pool::Pool};"), [Rule::Reexport]);
    assert_eq!(planted("src/snapshot/mod.rs", "pub use self::store::Store;"), []);
}

#[test]
fn pingora_is_known_where_it_may_be() {
    for text in ["use pingora_core::Error;", "fn f(_: pingora::Error) {}", "fn f() { vec![pingora_proxy::X::Y]; }"] {
        assert_eq!(planted("src/pool/mod.rs", text), [Rule::Pingora], "{text}");
        assert_eq!(planted("src/health/probe.rs", text), [], "{text}");
        assert_eq!(planted("src/proxy/mod.rs", text), [], "{text}");
    }
    let headers = "use pingora_http::RequestHeader;";
    assert_eq!(planted("src/traffic/headers.rs", headers), []);
    assert_eq!(planted("src/balance/mod.rs", headers), [Rule::Pingora]);
}

#[test]
fn anyhow_is_for_commands() {
    assert_eq!(planted("src/config/mod.rs", "fn f() -> anyhow::Result<()> { Ok(()) }"), [Rule::Anyhow]);
}

#[test]
fn long_files_functions_and_hooks_are_found() {
    let lines = |n: usize| "    g();\n".repeat(n);
    let file = "const A: u8 = 1;\n".repeat(400);
    assert_eq!(planted("src/pool/mod.rs", &file), [Rule::FileLength]);
    let tests = format!("#[cfg(test)]\nmod tests {{\n{file}}}\n");
    assert_eq!(planted("src/pool/mod.rs", &tests), []);
    assert_eq!(planted("src/pool/mod.rs", &format!("fn f() {{\n{}}}", lines(51))), [Rule::FunctionLength]);
    assert_eq!(planted("src/pool/mod.rs", &format!("fn f() {{\n{}\n    // said\n}}", lines(50))), []);
    let excused = |why| format!("#[allow(clippy::too_many_lines{why})]\nfn f() {{\n{}}}", lines(51));
    assert_eq!(planted("src/pool/mod.rs", &excused("")), [Rule::FunctionLength]);
    assert_eq!(planted("src/pool/mod.rs", &excused(", reason = \"one list\"")), []);
    let hook = |n| format!("impl ProxyHttp for Gateway {{\n fn logging(&self) {{\n{}}}\n}}", lines(n));
    assert_eq!(planted("src/proxy/mod.rs", &hook(13)), [Rule::HookLength]);
    assert_eq!(planted("src/proxy/mod.rs", &hook(12)), []);
}

#[test]
fn a_file_without_a_head_is_found() {
    for text in ["fn f() {}", "//! Pool\nfn f() {}", "// A comment is no head.\nfn f() {}"] {
        let source = Source::parse("src/pool/mod.rs", text).unwrap();
        let found = rules::check(&[source]);
        assert_eq!(found.iter().map(|f| f.rule).collect::<Vec<_>>(), [Rule::Head], "{text}");
    }
}

#[test]
fn names_that_say_nothing_are_found() {
    for path in ["src/pool/util.rs", "src/common/mod.rs", "src/pool/manager.rs", "tests/it/helpers.rs"] {
        assert_eq!(planted(path, ""), [Rule::FileName], "{path}");
    }
}

#[test]
fn what_was_left_for_later_is_found() {
    let later = concat!("// TO", "DO: finish");
    let place = concat!("const P: &str = \"/wo", "rk/main\";");
    for text in [
        "fn f() { todo!() }",
        "fn f() { unimplemented!(\"later\") }",
        "fn f() { dbg!(1); }",
        "#[test] #[ignore] fn f() {}",
        "#[test] #[should_panic] fn f() {}",
        later,
        place,
    ] {
        assert_eq!(planted("src/pool/mod.rs", text), [Rule::Word], "{text}");
    }
    assert_eq!(planted("src/pool/mod.rs", "#[test] #[ignore = \"needs a second machine\"] fn f() {}"), []);
    assert_eq!(rules::words_of_text("README.md", place).len(), 1);
}

#[test]
fn state_without_an_owner_is_found() {
    for text in [
        "static COUNT: AtomicUsize = AtomicUsize::new(0);",
        "static TABLE: parking_lot::Mutex<Vec<u8>> = parking_lot::Mutex::new(Vec::new());",
        "static ONCE: std::sync::OnceLock<String> = std::sync::OnceLock::new();",
        "static mut X: u8 = 0;",
        "fn f() { static N: [AtomicU8; 2] = [AtomicU8::new(0), AtomicU8::new(0)]; }",
        "thread_local! { static L: u8 = 1; }",
    ] {
        assert_eq!(planted("src/pool/mod.rs", text), [Rule::State], "{text}");
    }
    assert_eq!(planted("src/pool/mod.rs", "static NAMES: [&str; 1] = [\"a\"];"), []);
}

#[test]
fn there_is_one_swap() {
    assert_eq!(planted("src/pool/mod.rs", "use arc_swap::ArcSwap;"), [Rule::Swap]);
    let store = "pub struct Store { now: arc_swap::ArcSwap<Snapshot> }";
    assert_eq!(planted("src/snapshot/mod.rs", store), []);
    let two = "pub struct Store { now: ArcSwap<Snapshot>, then: Option<ArcSwapOption<Snapshot>> }";
    assert_eq!(planted("src/snapshot/mod.rs", two), [Rule::Swap]);
}

#[test]
fn statuses_are_given_in_one_place() {
    for text in [
        "fn f() { g(http::StatusCode::BAD_GATEWAY); }",
        "fn f() { ResponseHeader::build(502, None); }",
        "fn f(s: &mut Session) { s.respond_error(404); }",
        "fn f() { Err(ErrorType::HTTPStatus(503)) }",
    ] {
        assert_eq!(planted("src/proxy/admit.rs", text), [Rule::Status], "{text}");
        assert_eq!(planted("src/proxy/reject.rs", text), [], "{text}");
    }
    assert_eq!(planted("src/proxy/admit.rs", "fn f(s: http::StatusCode, n: u16) { build(n, None); }"), []);
}

#[test]
fn a_clock_that_may_be_set_is_read_for_people_only() {
    for text in [
        "fn f() { let _ = std::time::SystemTime::now(); }",
        "use std::time::SystemTime; fn f() { SystemTime::now(); }",
        "use jiff::Timestamp; fn f() { Timestamp::now(); }",
        "fn f(d: &Digest) { d.established_ts.elapsed(); }",
    ] {
        assert_eq!(planted("src/health/mod.rs", text), [Rule::Clock], "{text}");
        assert_eq!(planted("src/proxy/record.rs", text), [], "{text}");
    }
    let test = "#[cfg(test)] mod tests { fn f() { std::time::SystemTime::now(); } }";
    assert_eq!(planted("src/health/mod.rs", test), []);
    assert_eq!(planted("src/health/mod.rs", "fn f() { std::time::Instant::now(); }"), []);
}

#[test]
fn a_map_that_says_something_else_is_found() {
    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let found = |text: &str| rules::check(&[Source::parse("src/lib.rs", text).unwrap()]);
    assert!(found(&lib).is_empty(), "{}", report(&found(&lib)));
    let wider = lib.replace("//! template -> config", "//! template -> config, pool");
    let shorter = lib.replace("//! template -> config\n", "");
    let unknown = format!("{lib}\npub mod parlour;");
    for text in [wider, shorter, unknown] {
        assert_ne!(text, lib);
        let mut rules: Vec<_> = found(&text).iter().map(|f| f.rule).collect();
        // One for each room of the line.
        rules.dedup();
        assert_eq!(rules, [Rule::Map]);
    }
}
