//! Does `status --watch` show what `/status` says, and give the terminal back? On a real terminal.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::rig::{self, Ask, Gateway, Origin, Terminal, eventually, load, on};

const TEXT: &str = "\
pools:
  images:
    balance: { key: \"{path}\" }
    health: { probe: { interval: 200ms, timeout: 2s, rise: 2, http: { path: /healthz } } }
    origins: [ { address: $a, name: a }, { address: $b, name: b, weight: 3 }, { address: $c, name: c } ]
  api:
    balance: { algorithm: p2c }
    origins: [ { address: $d, name: d } ]
routes:
  - { match: { path: { prefix: /api/ } }, pool: api }
  - { pool: images }
";

fn start() -> (Vec<Origin>, Gateway) {
    let mut origins: Vec<Origin> = ["a", "b", "c", "d"].map(rig::origin).into();
    origins[3].script([on("/api/bad").answer(500)]);
    origins[2].kill();
    let gateway = rig::gateway(TEXT).origins(&origins).start();
    (origins, gateway)
}

fn watch(gateway: &Gateway, size: (u16, u16), environment: &[(&str, &str)]) -> Terminal {
    let (program, file) = (env!("CARGO_BIN_EXE_moorgate"), gateway.path("moorgate.yaml"));
    let command = [program, "status", "--watch", "--interval", "200ms", "--config", &file.display().to_string()];
    rig::terminal(size, &command, environment)
}

/// What stands in the line of an origin under a heading: the word that ends where the heading does, or begins there.
fn cell(lines: &[String], name: &str, heading: &str) -> Option<String> {
    let head = lines.iter().find(|line| line.starts_with("ORIGIN "))?;
    let line: Vec<char> = lines.iter().find(|line| line.starts_with(&format!("{name}  ")))?.chars().collect();
    let start = head.split_once(&format!(" {heading}"))?.0.chars().count() + 1;
    let before: String = line.get(..start + heading.len())?.iter().collect();
    match heading {
        "STATE" => Some(line.get(start + 2..)?.iter().take_while(|letter| **letter != ' ').collect()),
        _ => before.split_whitespace().next_back().map(str::to_owned),
    }
}

/// A figure as people read it: `12.3%` is 0.123, `4.2ms` is 0.0042, a dash is none.
fn figure(text: &str) -> Option<f64> {
    let unit = |end: &str, times: f64| Some(text.strip_suffix(end)?.parse::<f64>().ok()? * times);
    unit("%", 0.01).or_else(|| unit("ms", 0.001)).or_else(|| unit("s", 1.0)).or_else(|| text.parse().ok())
}

/// Is it this number, as far as its digits go? A rate over the time since the start falls between two looks.
fn reads(shown: &str, said: &Value) -> bool {
    match (figure(shown), said.as_f64()) {
        (Some(shown), Some(said)) => (shown - said).abs() <= 0.0006 + said * 0.06,
        (shown, said) => shown.is_none() && said.is_none(),
    }
}

/// Which origins are shown otherwise than said.
fn differences(terminal: &Terminal, pool: &Value) -> Vec<String> {
    const FIGURES: [(&str, &str); 7] = [
        ("SHARE", "share"),
        ("SERVED", "served"),
        ("FLIGHT", "in_flight"),
        ("REQ/S", "rate"),
        ("ERRORS", "error_ratio"),
        ("P50", "p50"),
        ("P99", "p99"),
    ];
    let lines = terminal.lines();
    let mut all = Vec::new();
    for (name, said) in pool["origins"].as_object().unwrap() {
        let state = cell(&lines, name, "STATE");
        if state.as_deref() != said["state"].as_str() {
            all.push(format!("{name}: {state:?} is shown, {} said", said["state"]));
        }
        for (heading, key) in FIGURES {
            let shown = cell(&lines, name, heading).unwrap_or_default();
            if !reads(&shown, &said[key]) {
                all.push(format!("{name}: {heading} {shown:?} is shown, {} said", said[key]));
            }
        }
    }
    all
}

#[test]
fn the_terminal_shows_what_status_says_and_is_given_back() {
    let (_origins, mut gateway) = start();
    let clients = load(gateway.address()).clients(4).rate(1000.0).asking(|n| match n % 5 {
        0 => Ask::get("/api/bad"),
        _ => Ask::get(&format!("/img/{}", n % 1000)),
    });
    let clients = clients.start();
    clients.further(800);
    clients.stop();
    gateway.await_state("images", "c", "down");
    let mut terminal = watch(&gateway, (110, 30), &[]);
    terminal.shows("images  2/3 in service");
    let mut last = Vec::new();
    let same = rig::within(rig::PATIENCE, || {
        last = differences(&terminal, &gateway.status()["pools"]["images"]);
        last.is_empty().then_some(())
    });
    assert!(same.is_some(), "{}\n{}", last.join("\n"), terminal.lines().join("\n"));
    terminal.shows("c is down");
    let fingerprint = gateway.status()["pools"]["images"]["ring"]["fingerprint"].as_str().unwrap().to_owned();
    terminal.shows(&fingerprint);
    assert!(terminal.is_colourful());

    terminal.press("\u{1b}[C");
    terminal.shows("api  1/1 in service");
    terminal.press("c");
    terminal.shows("in force");
    terminal.press("?");
    terminal.shows("another pool");
    terminal.press("?\u{1b}[D");
    terminal.resize((60, 20));
    terminal.shows("images  2/3 in service");
    eventually("it is drawn anew", || cell(&terminal.lines(), "a", "P50").is_none().then_some(()));

    is_suspended(&mut terminal);
    gateway.signal(Signal::SIGSTOP);
    terminal.shows("says nothing");
    gateway.signal(Signal::SIGCONT);
    eventually("it answers", || (!terminal.lines().concat().contains("does not answer")).then_some(()));

    gateway.kill();
    terminal.shows("The gateway does not answer");
    terminal.shows("refused");
    gateway.start_again();
    eventually("it is back", || (!terminal.lines().concat().contains("does not answer")).then_some(()));
    terminal.shows("images  ");
    terminal.press("q");
    assert_eq!(terminal.exit(), 0);
    ends_by_others(&gateway);
}

/// By its key, and by somebody else's signal.
fn is_suspended(terminal: &mut Terminal) {
    for ask in [(|terminal| terminal.press("\u{1a}")) as fn(&mut Terminal), |terminal| terminal.signal(Signal::SIGTSTP)]
    {
        ask(terminal);
        terminal.shows("what was there before");
        terminal.signal(Signal::SIGCONT);
        terminal.shows("images  2/3 in service");
    }
}

/// However it ends, the terminal is given back; where there is none, it says so.
fn ends_by_others(gateway: &Gateway) {
    let end = |end: &dyn Fn(&mut Terminal)| {
        let mut terminal = watch(gateway, (80, 24), &[("NO_COLOR", "1")]);
        terminal.shows("images  ");
        assert!(!terminal.is_colourful());
        end(&mut terminal);
        assert_eq!(terminal.exit(), 130);
    };
    end(&|terminal| terminal.press("\u{3}"));
    end(&|terminal| terminal.signal(Signal::SIGTERM));

    let output = gateway.command(&["status", "--watch"]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{complaint}");
    assert!(complaint.contains("--watch needs a terminal to draw on"), "{complaint}");
}
