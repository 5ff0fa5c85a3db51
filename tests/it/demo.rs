//! Does `moorgate demo` play to its end, tell what it saw, and leave nothing behind?

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use serde_json::Value;
use tempfile::TempDir;

use crate::rig::{Ask, Client, Process, eventually};

/// More than a small one takes on a busy machine; it ends itself before.
const LONG: Duration = Duration::from_secs(58);

/// A running demo; its temporary files are in a folder of the test's.
struct Demo {
    process: Process,
    folder: TempDir,
}

fn demo(arguments: &[&str]) -> Demo {
    let folder = TempDir::new().unwrap();
    std::fs::create_dir(folder.path().join("tmp")).unwrap();
    let out = std::fs::File::create(folder.path().join("out")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_moorgate"));
    command.arg("demo").args(arguments).env("TMPDIR", folder.path().join("tmp")).stdin(Stdio::null()).stdout(out);
    Demo { process: Process::start("demo", &mut command, &folder.path().join("err")), folder }
}

/// 4 origins, then 6.
fn small(seed: &str) -> Demo {
    let size = ["--origins", "4", "--grow-to", "6", "--keys", "300", "--rate", "100", "--seconds", "1"];
    demo(&[&size[..], &["--json", "--seed", seed]].concat())
}

impl Demo {
    fn out(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("out")).unwrap()
    }

    /// Its exit code; nothing of it may be left.
    fn exit(&mut self) -> Option<i32> {
        let status = self.process.wait(LONG).expect("the demo ends");
        assert!(killpg(self.process.pid(), None).is_err(), "a process of the demo is left");
        assert!(empty(&self.folder.path().join("tmp")), "a file of the demo is left");
        status.code()
    }

    fn told(&mut self) -> Value {
        let exit = self.exit();
        let told = serde_json::from_str(&self.out()).unwrap();
        assert_eq!(exit, Some(0), "{told:#}\n{}", self.process.output());
        told
    }
}

fn empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

fn steps(told: &Value) -> &Vec<Value> {
    told["steps"].as_array().unwrap()
}

#[test]
fn it_shows_what_moves_and_that_nothing_fails() {
    let (mut one, mut other, mut plain) =
        (small("1"), small("2"), demo(&["--origins", "3", "--grow-to", "4", "--seconds", "1"]));
    let (one, other) = (one.told(), other.told());
    shows_the_same_in_plain_lines(&mut plain, &one);
    let names: Vec<_> = steps(&one).iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert_eq!(names, ["steady", "dies", "returns", "grows"]);
    for told in [&one, &other] {
        assert_eq!((&told["kept"], &told["keys"]), (&true.into(), &300.into()));
        for step in steps(told) {
            let number = |name: &str| step[name].as_f64().unwrap_or_else(|| panic!("no {name}: {step:#}"));
            assert_eq!((number("failures"), number("gateway_failures"), number("astray")), (0.0, 0.0, 0.0), "{step:#}");
            assert!(number("keys") > 0.0 && number("requests") > number("keys"), "there was load: {step:#}");
            assert!((0.0..=1.0).contains(&number("hit_ratio")), "{step:#}");
            assert!(number("moved_ratio") >= number("least_possible"), "{step:#}");
            let moves = step["step"] != "steady";
            assert_eq!(number("moved") > 0.0, moves, "{step:#}");
            assert_eq!(number("modulo_moved") > number("moved"), moves, "{step:#}");
        }
    }
    let moved = |told: &Value| steps(told).iter().map(|step| step["moved"].clone()).collect::<Vec<_>>();
    assert_ne!(moved(&one), moved(&other), "other keys, other figures");
}

/// Where no terminal is, each line stands for itself; and figures are those of the run: with other sizes they are others.
fn shows_the_same_in_plain_lines(plain: &mut Demo, other: &Value) {
    assert_eq!(plain.exit(), Some(0), "{}", plain.process.output());
    let out = plain.out();
    assert!(out.chars().all(|c| c == '\n' || !c.is_control()), "{out:?}");
    assert!(out.starts_with("3 origins with a cache each") && out.contains("As promised: "), "{out}");
    let row = |step: &str| out.lines().find(|line| line.split(' ').next() == Some(step) && line.ends_with(" 0"));
    let percent = |cell: &str| cell.trim_end_matches('%').parse::<f64>().unwrap_or_else(|_| panic!("{cell}: {out}"));
    for step in steps(other) {
        let row = row(step["step"].as_str().unwrap()).unwrap_or_else(|| panic!("no row for {step}: {out}"));
        let cells: Vec<&str> = row.split_whitespace().collect();
        let (moved, least, modulo) = (percent(cells[4]), percent(cells[5]), percent(cells[6]));
        assert!(cells[1].parse::<u64>().unwrap() > 0 && percent(cells[2]) <= 100.0, "{row}");
        if step["step"] == "steady" {
            assert_eq!((moved, least, modulo), (0.0, 0.0, 0.0), "{row}");
        } else {
            assert!(moved >= least && moved < modulo, "{row}");
            assert!((moved / 100.0 - step["moved_ratio"].as_f64().unwrap()).abs() > 0.01, "{row}: {step}");
        }
    }
}

#[test]
fn a_signal_ends_it_at_once_and_nothing_is_left() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut demo = demo(&["--keys", "20", "--seconds", "60"]);
        eventually("the load runs", || demo.out().contains("steady").then_some(()));
        shows_the_page(&demo.out());
        demo.process.signal(signal);
        assert_eq!(demo.exit(), Some(130), "{}", demo.process.output());
    }
}

/// At the address it told.
fn shows_the_page(out: &str) {
    let address =
        out.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_else(|| panic!("{out}"));
    let page = Client::new(address.parse().unwrap()).send(&Ask::get("/").header("Host", address)).unwrap();
    assert!(page.status == 200 && page.text().contains("<title>Moorgate</title>"), "{}", page.text());
}

#[test]
fn a_pool_that_does_not_grow_is_wrong_usage() {
    let mut demo = demo(&["--origins", "5", "--grow-to", "5"]);
    assert_eq!(demo.exit(), Some(2));
    assert!(demo.process.output().contains("--grow-to 5 is no growth"), "{}", demo.process.output());
}
