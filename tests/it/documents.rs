//! Is what the documents show a configuration? Each YAML block of them is one, or the part of one that its keys name, and
//! `check` has to take it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_yaml::{Mapping, Value};

use crate::rig::{Authority, haproxy_checks};

/// Where a block belongs that does not begin at the top: by its first key.
const INSIDE: [(&str, &[&str]); 6] = [
    ("slow_start", &["pools", "origin"]),
    ("origins", &["pools", "origin"]),
    ("discovery", &["pools", "origin"]),
    ("outlier_detection", &["pools", "origin", "health"]),
    ("access", &["routes"]),
    ("limits", &["routes"]),
];

pub(crate) fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.chain([root.join("README.md")]).collect()
}

/// The blocks of a document in this language, with the line each begins at.
fn blocks(text: &str, language: &str) -> Vec<(usize, String)> {
    let (mut blocks, mut block) = (Vec::new(), None::<(usize, String)>);
    for (at, line) in text.lines().enumerate() {
        match (&mut block, line.starts_with("```")) {
            (None, true) if &line[3..] == language => block = Some((at + 1, String::new())),
            (Some(_), true) => blocks.extend(block.take()),
            (Some((_, text)), false) => *text += &format!("{line}\n"),
            _ => {}
        }
    }
    blocks
}

/// The whole file a block is a part of: what it needs beside itself is put in.
fn whole(block: &str) -> Value {
    let mut part: Value = serde_yaml::from_str(block).unwrap();
    let first = part.as_mapping().unwrap().keys().next().unwrap().as_str().unwrap().to_owned();
    let inside = INSIDE.iter().find(|(key, _)| *key == first).map_or(&[][..], |(_, path)| path);
    for key in inside.iter().rev() {
        let part_of = if *key == "routes" { Value::Sequence(vec![part]) } else { part };
        part = Value::Mapping(Mapping::from_iter([((*key).into(), part_of)]));
    }
    let part = part.as_mapping_mut().unwrap();
    part.entry("version".into()).or_insert(1.into());
    let process = part.entry("process".into()).or_insert(Value::Mapping(Mapping::new())).as_mapping_mut().unwrap();
    let listeners: Value = serde_yaml::from_str("[ { address: 127.0.0.1:8080 } ]").unwrap();
    process.entry("listeners".into()).or_insert(listeners);
    let mut named: Vec<Value> = Vec::new();
    for route in part.get_mut("routes").and_then(Value::as_sequence_mut).into_iter().flatten() {
        let route = route.as_mapping_mut().unwrap();
        if !["respond", "redirect", "split"].iter().any(|action| route.contains_key(*action)) {
            named.push(route.entry("pool".into()).or_insert("origin".into()).clone());
        }
        let shares = route.get("split").and_then(|split| split["to"].as_sequence());
        named.extend(shares.into_iter().flatten().map(|share| share["pool"].clone()));
    }
    let pools = part.entry("pools".into()).or_insert(Value::Mapping(Mapping::new())).as_mapping_mut().unwrap();
    if pools.is_empty() && named.is_empty() {
        named.push("origin".into());
    }
    for name in named {
        pools.entry(name).or_insert(Value::Mapping(Mapping::new()));
    }
    for pool in pools.values_mut().map(|pool| pool.as_mapping_mut().unwrap()) {
        if !pool.contains_key("discovery") {
            pool.entry("origins".into()).or_insert(Value::Sequence(vec!["10.0.0.1:80".into()]));
        }
    }
    Value::Mapping(part.clone())
}

#[test]
fn every_block_of_the_documents_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("example");
    fs::write(folder.path().join("origins-ca.pem"), authority.pem()).unwrap();
    authority.issue("client.example").write(folder.path(), "client", "client-key");
    authority.issue("www.example.com").write(folder.path(), "fullchain", "privkey");
    std::fs::copy(folder.path().join("origins-ca.pem"), folder.path().join("clients-ca.pem")).unwrap();
    let mut count = 0;
    for path in documents() {
        for (line, block) in blocks(&fs::read_to_string(&path).unwrap(), "yaml") {
            let file = folder.path().join(format!("{}-{line}.yaml", path.file_stem().unwrap().to_string_lossy()));
            let text = serde_yaml::to_string(&whole(&block)).unwrap();
            fs::write(&file, text.replace("/etc/moorgate/tls", &folder.path().display().to_string())).unwrap();
            let check =
                Command::new(env!("CARGO_BIN_EXE_moorgate")).arg("check").arg("-c").arg(&file).output().unwrap();
            let said = String::from_utf8_lossy(&check.stdout).into_owned();
            assert_eq!(check.status.code(), Some(0), "{}:{line}:\n{block}{said}", path.display());
            let is_whole = block.starts_with("version:") && path.ends_with("README.md") && block.contains("routes:");
            assert!(!is_whole || said.lines().count() == 1, "{}:{line}: {said}", path.display());
            count += 1;
        }
    }
    assert!(count > 20, "{count} blocks were found");
}

#[test]
fn haproxy_takes_its_own_side_of_the_page_about_it() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/from-haproxy.md");
    let folder = tempfile::tempdir().unwrap();
    Authority::new("example").issue("www.example.com").write(folder.path(), "site", "key");
    let [pem, key, file] = ["site.pem", "key.pem", "haproxy.cfg"].map(|name| folder.path().join(name));
    fs::write(&pem, [fs::read(&pem).unwrap(), fs::read(key).unwrap()].concat()).unwrap();
    let blocks = blocks(&fs::read_to_string(page).unwrap(), "haproxy");
    assert_eq!(blocks.len(), 1);
    for (line, block) in blocks {
        fs::write(&file, block.replace("/etc/haproxy/site.pem", &pem.display().to_string())).unwrap();
        let (said, is_good) = haproxy_checks(&file);
        assert!(is_good && !said.contains("WARNING"), "from-haproxy.md:{line}: {said}");
    }
}
