//! What stands on the screen, at sizes people have?

#![allow(clippy::disallowed_methods, reason = "any instant will do to count from")]

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Color, Modifier};
use serde_json::{Value, json};

use super::draw;
use super::paint::Paint;
use super::view::View;

fn status() -> Value {
    let origin = |state: &str, why: &str, share: f64, served: Option<f64>| {
        json!({
            "state": state, "why": why, "address": "10.0.0.1:80", "weight": { "configured": 2, "effective": 2.0 * share },
            "share": share, "served": served, "in_flight": 3, "rate": 412.4, "error_ratio": 0.021, "p50": 0.0021, "p99": 1.5,
            "last_probe": { "result": "good", "age": 1.25 }, "progress": null, "moving_to": null,
        })
    };
    let mut ramping = origin("ramping", "43% of its share", 0.2, Some(0.1));
    ramping["progress"] = 0.43.into();
    let origins = json!({
        "a:80": origin("up", "probes pass", 0.5, Some(0.6)), "b:80": ramping, "c:80": origin("down", "refused", 0.0, None),
        "d:80": origin("up", "probes pass", 0.3, Some(0.3)),
    });
    let changed = json!([
        { "origin": "b:80", "before": 0.0, "after": 0.4 }, { "origin": "a:80", "before": 0.6, "after": 0.3 },
    ]);
    let recent = json!({ "requests": [0, 1000, 2000, 4000], "errors": [0, 0, 0, 100], "retries": [0, 5, 5, 5], "suppressed": [0, 0, 0, 2] });
    let mut all = recent.clone();
    all["step"] = 5.0.into();
    json!({
        "program": "0.1.0", "generation": 2, "uptime": 7384.2, "recent": all, "probes_stretched": false, "certificates": [],
        "config": { "version": 3, "drift": false, "confirm": null, "history": [
            { "version": 3, "digest": "0123456789abcdef", "since": "2026-11-30T00:53:20.250Z", "moved_ratio": { "images": 0.4 },
              "ended": null, "why": null },
            { "version": 2, "digest": "ff", "since": "2026-11-30T00:50:00Z", "moved_ratio": {}, "ended": "rolled_back", "why": null },
        ] },
        "pools": {
            "images": {
                "algorithm": "hash", "key": "{host}{path}", "short": false, "rate": 812.0, "error_ratio": 0.01, "p50": 0.002,
                "p99": 0.1, "ring": { "fingerprint": "00112233aabbccdd", "moved_ratio": 0.4, "changed": changed },
                "keys": { "distinct": 12345, "displaced": { "down": 0.1, "ramp": 0.05 }, "moved_ratio": 0.35 },
                "recent": recent, "origins": origins,
            },
            "zoo": { "algorithm": "p2c", "origins": { "x": origin("up", "probes pass", 1.0, None) } },
        },
    })
}

fn paint(colour: bool) -> Paint {
    Paint { colour, interval: Duration::from_secs(2) }
}

fn view() -> View {
    let mut view = View::default();
    view.update(Ok(serde_json::from_value(status()).unwrap()), "12:00:00".into(), Instant::now());
    view
}

fn drawn(view: &mut View, (width, height): (u16, u16), colour: bool) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::all(frame, view, &paint(colour))).unwrap();
    terminal
}

fn picture(view: &mut View, size: (u16, u16)) -> Vec<String> {
    let terminal = drawn(view, size, false);
    let buffer = terminal.backend().buffer();
    let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
    buffer.content().chunks(usize::from(size.0)).map(|cells| line(cells).trim_end().to_owned()).collect()
}

fn assert_shows(picture: &[String], expected: &[&str]) {
    for text in expected {
        assert!(picture.iter().any(|line| line.contains(text)), "{text:?} is not in\n{}", picture.join("\n"));
    }
}

#[test]
fn all_of_it_is_there_on_eighty_columns() {
    let picture = picture(&mut view(), (80, 24));
    assert_shows(
        &picture,
        &[
            "moorgate 0.1.0, up 2h 3m, process 2 of a line, configuration 3",
            "as of 12:00:00",
            "! 3 things to look at",
            "requests 800/s",
            "5xx 20.0/s  1.4%",
            "retries 1.0/s  2 not made",
            " ! images   ✓ zoo",
            "images  3/4 in service  812 tries/s  1.0% failed  p50 2.0ms  p99 100.0ms",
            "hash {host}{path}, ring 00112233aabbccdd, 12345 keys lately, 15.0% away",
            "ORIGIN   STATE         SHARE  SERVED ▀RING▄SERVED FLIGHT   REQ/S ERRORS     P99",
            "c:80     ✕ down         0.0%       -                   3     412   2.1%   1.50s",
            "a:80     ✓ up          50.0%   60.0% ██████████▄▄      3     412   2.1%   1.50s",
            "↗ b:80 ████████░░░░░░░░░░░░  43% ramping: 43% of its share",
            "c:80 at 10.0.0.1:80: down, refused; probe: good, 1.2s ago",
            "q quit  ? help  s sort: need",
        ],
    );
}

#[test]
fn the_newest_step_stands_at_the_right_end_of_its_chart() {
    let picture = picture(&mut view(), (80, 24));
    let at = picture.iter().position(|line| line.contains("requests")).unwrap();
    let line: String = picture[at + 2].chars().take(25).collect();
    assert!(line.trim_start().ends_with('█'), "{line:?} of\n{}", picture.join("\n"));
}

#[test]
fn what_is_wrong_and_who_it_is_is_there_on_forty_columns_and_on_few_lines() {
    let narrow = picture(&mut view(), (40, 24));
    assert_shows(
        &narrow,
        &["3 things to look at", "requests 800/s", "c:80     ✕ down         0.0%", "a:80     ✓ up", "43% ramping"],
    );
    let low = picture(&mut view(), (80, 8));
    assert_shows(&low, &["3 things", "c:80     ✕ down", "q quit"]);
    for size in [(1, 1), (19, 5), (20, 6), (21, 40), (300, 3), (300, 90), (40, 7), (59, 11), (60, 12), (200, 60)] {
        for key in ['c', 'c', '?', '?'] {
            let mut view = view();
            drawn(&mut view, size, true);
            view.press(KeyCode::Char(key).into());
            drawn(&mut view, size, true);
        }
    }
}

#[test]
fn room_is_used_for_what_there_is_more() {
    let wide = picture(&mut view(), (180, 40));
    assert_shows(&wide, &["WEIGHT", "LAST PROBE", "WHY", "good, 1.2s ago", "43% of its share", "0.40 of 2"]);
}

#[test]
fn configurations_and_what_moved_are_a_key_away() {
    let mut view = view();
    view.press(KeyCode::Char('c').into());
    assert_shows(
        &picture(&mut view, (80, 24)),
        &[
            "   3  2026-11-30 00:53:20  moved images 40.0%  in force  0123456789ab",
            "   2  2026-11-30 00:50:00  moved nothing  rolled back  ff",
            "Moved by the last change of images: 40.0% of the circle, 35.0% of the keys seen",
            "█ BOTH  ░ BEFORE  ▓ AFTER",
            "b:80        0.0% →  40.0%  ▓▓▓▓▓▓▓▓▓▓▓▓▓ new",
            "a:80       60.0% →  30.0%  ██████████░░░░░░░░░░",
        ],
    );
    view.press(KeyCode::Char('?').into());
    assert_shows(&picture(&mut view, (80, 24)), &["another pool", "sort by the next of"]);
}

#[test]
fn another_pool_is_another_table() {
    let mut view = view();
    view.press(KeyCode::Right.into());
    let picture = picture(&mut view, (80, 24));
    assert_shows(&picture, &["zoo  1/1 in service", "x        ✓ up"]);
    assert!(!picture.iter().any(|line| line.contains("c:80     ✕")), "{}", picture.join("\n"));
}

#[test]
fn of_many_pools_the_chosen_one_is_in_sight() {
    let mut told = status();
    let zoo = told["pools"]["zoo"].clone();
    for number in 0..40 {
        told["pools"][format!("pool-{number:02}")] = zoo.clone();
    }
    let mut view = View::default();
    view.update(Ok(serde_json::from_value(told).unwrap()), "12:00:00".into(), Instant::now());
    for _ in 0..42 {
        let chosen = format!(" ✓ {}", view.pool().unwrap().0).replace("✓ images", "! images");
        assert_shows(&picture(&mut view, (80, 24)), &[&chosen]);
        view.press(KeyCode::Right.into());
    }
    assert_shows(&picture(&mut view, (80, 24)), &[" ! images   ✓ "]);
}

#[test]
fn a_gateway_that_is_gone_is_told_of_and_what_was_known_is_dimmed() {
    let mut view = View::default();
    assert_shows(&picture(&mut view, (80, 24)), &["not answered yet"]);
    view.update(Err("refused".into()), "11:59:00".into(), Instant::now());
    assert_shows(
        &picture(&mut view, (80, 24)),
        &["The gateway does not answer", "since 11:59:00: refused", "nothing is known yet"],
    );
    let mut view = self::view();
    view.update(Err("refused".into()), "12:00:02".into(), Instant::now());
    assert_shows(
        &picture(&mut view, (80, 24)),
        &[
            "since 12:00:02: refused",
            "what follows is of 12:00:00, and may be wrong by now; asked again every 2 s",
            "c:80     ✕ down",
        ],
    );
    let terminal = drawn(&mut view, (80, 24), false);
    assert!(terminal.backend().buffer()[(2, 15)].modifier.contains(Modifier::DIM));
    view.update(Ok(serde_json::from_value(status()).unwrap()), "12:00:04".into(), Instant::now());
    assert!(!picture(&mut view, (80, 24)).iter().any(|line| line.contains("does not answer")));
}

#[test]
fn without_colours_there_is_none() {
    let colours = |colour: bool| {
        let mut view = view();
        let terminal = drawn(&mut view, (120, 30), colour);
        let cells = terminal.backend().buffer().content().to_vec();
        cells.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert_eq!(colours(false), 0);
    assert!(colours(true) > 50);
}
