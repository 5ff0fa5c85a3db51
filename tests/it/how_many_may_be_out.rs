//! How many origins go when so many fail in one way? Rules H2 and H3, cell by cell, on real sockets.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::rig::{self, Ask, Close, Door, Gateway, Origin, keys, on};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, timeouts: { connect: 200ms, read: 5s }, health: { min_healthy: 50%, \
                    probe: { interval: 200ms, timeout: 200ms, http: { path: /healthz }, rise: 2, fall: 2 } }, origins: $origins } }\n";

#[derive(Clone, Copy, PartialEq, Debug)]
enum Ill {
    /// Hard: nobody listens.
    Refuses,
    /// Soft at first, hard once nothing was heard for ten seconds while another origin passed its probes.
    Hangs,
    /// Soft: only the probe says so.
    FailsItsProbe,
}

fn fall_ill(origin: &Origin, how: Ill) {
    match how {
        Ill::Refuses => origin.door(Door::Refuse),
        Ill::Hangs => origin.door(Door::Hang),
        Ill::FailsItsProbe => origin.script([on("/healthz").answer(500)]),
    }
    origin.close_idle(Close::Fin);
}

fn recover(origin: &Origin) {
    origin.script([]);
    origin.door(Door::Open);
}

fn in_state(gateway: &Gateway, all: &[Origin], state: &str) -> usize {
    let status = gateway.status();
    all.iter().filter(|origin| status["pools"]["p"]["origins"][&origin.name]["state"] == state).count()
}

/// Of `n` origins each number in `ill` fails at once; `out` says how many are out when all is settled.
fn table(n: usize, ill: &[usize], how: Ill, out: impl Fn(usize) -> usize) {
    let all: Vec<Origin> = (0..n).map(|i| rig::origin(&format!("o{i}"))).collect();
    let gateway = rig::gateway(POOL).origins(&all).start();
    for &k in ill {
        all[..k].iter().for_each(|origin| fall_ill(origin, how));
        let kept = k - out(k);
        let settled = || (in_state(&gateway, &all, "down"), in_state(&gateway, &all, "kept"));
        let seen = rig::within(2 * rig::PATIENCE, || Some(settled()).filter(|seen| *seen == (out(k), kept)));
        assert_eq!(seen.unwrap_or_else(settled), (out(k), kept), "{k} of {n}: {how:?}");
        if how == Ill::FailsItsProbe || (k < n && kept == 0) {
            let mut client = gateway.client();
            let bad = keys(60).iter().filter(|key| client.get(key).status != 200).count();
            assert_eq!(bad, 0, "{k} of {n}: {how:?}");
        }
        all[..k].iter().for_each(recover);
        rig::eventually("all are up", || (in_state(&gateway, &all, "up") == n).then_some(()));
    }
}

#[test]
fn h2_what_refuses_goes_whatever_the_floor_says() {
    table(1, &[1], Ill::Refuses, |k| k);
    table(2, &[1, 2], Ill::Refuses, |k| k);
    table(3, &[1, 2, 3], Ill::Refuses, |k| k);
    table(10, &[1, 5, 9, 10], Ill::Refuses, |k| k);
}

#[test]
fn h2_what_hangs_goes_in_the_end_whatever_the_floor_says_unless_nobody_else_is_well() {
    table(2, &[1, 2], Ill::Hangs, |k| [0, 1, 0][k]);
    table(3, &[2], Ill::Hangs, |k| k);
}

#[test]
fn h2_nine_of_ten_that_hang_go_and_ten_of_ten_do_not() {
    table(10, &[5, 9, 10], Ill::Hangs, |k| if k == 10 { 0 } else { k });
}

/// Silence proves nothing while nobody else is heard of.
#[test]
fn h2_all_that_hang_stay_however_long_it_lasts() {
    let pools = [1, 3].map(|n| {
        let all: Vec<Origin> = (0..n).map(|i| rig::origin(&format!("o{i}"))).collect();
        let gateway = rig::gateway(POOL).origins(&all).start();
        all.iter().for_each(|origin| fall_ill(origin, Ill::Hangs));
        (gateway, all)
    });
    for (gateway, all) in &pools {
        rig::eventually("all are kept", || (in_state(gateway, all, "kept") == all.len()).then_some(()));
    }
    let one_is_out = || pools.iter().find(|(gateway, all)| in_state(gateway, all, "down") > 0);
    let out = rig::within(Duration::from_secs(12), || one_is_out().map(|(_, all)| all.len()));
    assert_eq!(out, None, "of so many one is out");
}

#[test]
fn h3_a_lone_origin_is_never_out_for_soft_reasons() {
    table(1, &[1], Ill::FailsItsProbe, |_| 0);
}

#[test]
fn h3_half_of_two_and_three_may_be_out_for_soft_reasons_and_nobody_when_all_fail() {
    table(2, &[1, 2], Ill::FailsItsProbe, |k| [0, 1, 0][k]);
    table(3, &[1, 2, 3], Ill::FailsItsProbe, |k| [0, 1, 1, 0][k]);
}

#[test]
fn h3_half_of_ten_may_be_out_for_soft_reasons() {
    table(10, &[1, 5, 10], Ill::FailsItsProbe, |k| if k == 10 { 0 } else { k });
}

/// Five hang and are out; when the other five refuse, the first five are all there is left.
#[test]
fn h3_hard_evidence_brings_back_who_was_out_for_soft_reasons() {
    let all: Vec<Origin> = (0..10).map(|i| rig::origin(&format!("o{i}"))).collect();
    let gateway = rig::gateway(POOL).origins(&all).start();
    let (hang, refuse) = all.split_at(5);
    for origin in hang {
        origin.door(Door::Hang);
        origin.close_idle(Close::Fin);
    }
    rig::eventually("five are out", || (in_state(&gateway, hang, "down") == 5).then_some(()));
    refuse.iter().for_each(|origin| fall_ill(origin, Ill::Refuses));
    rig::eventually("the others are out", || (in_state(&gateway, refuse, "down") == 5).then_some(()));
    rig::eventually("the five are kept", || (in_state(&gateway, hang, "kept") == 5).then_some(()));
}

/// First some fall ill in one way, then others in another.
fn one_after_the_other(n: usize, first: (usize, Ill), then: (usize, Ill), settled: [usize; 2]) {
    let all: Vec<Origin> = (0..n).map(|i| rig::origin(&format!("o{i}"))).collect();
    let gateway = rig::gateway(POOL).origins(&all).start();
    let (early, rest) = all.split_at(first.0);
    let late = &rest[..then.0];
    early.iter().for_each(|origin| fall_ill(origin, first.1));
    let noticed = || in_state(&gateway, early, "up") == 0;
    rig::eventually("the first are noticed", || noticed().then_some(()));
    late.iter().for_each(|origin| fall_ill(origin, then.1));
    let out = || [in_state(&gateway, early, "down"), in_state(&gateway, late, "down")];
    let none_up = || in_state(&gateway, early, "up") + in_state(&gateway, late, "up") == 0;
    let what = format!("of {n} {first:?}, then {then:?}");
    let seen = rig::within(2 * rig::PATIENCE, || Some(out()).filter(|seen| *seen == settled && none_up()));
    assert_eq!(seen.unwrap_or_else(out), settled, "{what}");
    // one that hangs and is kept has its keys wait for it
    if ![first.1, then.1].contains(&Ill::Hangs) {
        let mut client = gateway.client();
        let bad = keys(60).iter().filter(|key| client.get(key).status != 200).count();
        assert_eq!(bad, 0, "{what}");
    }
}

/// What refuses is out, and with it what may be out is used up, whoever was first.
#[test]
fn h3_who_goes_is_the_same_in_whatever_order_they_fall_ill() {
    use Ill::{FailsItsProbe, Hangs, Refuses};
    for (n, hard, soft) in [(2, 1, 1), (3, 1, 1), (3, 1, 2), (3, 2, 1), (10, 5, 5)] {
        one_after_the_other(n, (hard, Refuses), (soft, FailsItsProbe), [hard, 0]);
        one_after_the_other(n, (soft, FailsItsProbe), (hard, Refuses), [0, hard]);
    }
    for (n, hard, soft) in [(2, 1, 1), (10, 5, 5)] {
        one_after_the_other(n, (hard, Refuses), (soft, Hangs), [hard, 0]);
        one_after_the_other(n, (soft, Hangs), (hard, Refuses), [0, hard]);
    }
}

#[test]
fn h2_t2_one_of_two_dies_under_load_and_no_request_shows_it() {
    let mut all: Vec<Origin> = ["a", "b"].map(rig::origin).into();
    // No probe of its own turn comes in time: it is the refusals that tell.
    let gateway = rig::gateway(&POOL.replace("interval: 200ms", "interval: 5s")).origins(&all).start();
    let load = rig::load(gateway.address()).rate(300.0).asking(|n| Ask::get(&format!("/obj/{n}"))).start();
    load.further(100);
    let before = gateway.metrics().sum("moorgate_attempts_total", &[("origin", "a")]);
    let served = all[0].served() as f64;
    let killed = Timestamp::now();
    all[0].kill();
    gateway.await_state("p", "a", "down");
    load.further(200);
    let attempts = gateway.metrics().sum("moorgate_attempts_total", &[("origin", "a")]);
    // What it had under way or served between the two looks is not held against anybody.
    assert!(attempts - before.max(served) <= 50.0, "{} tries at the dead origin", attempts - before.max(served));
    all[0].restart();
    rig::eventually("requests on it", || (all[0].served() > 0).then_some(()));
    let tally = load.stop();
    tally.assert_all_good();
    // Between the verdict and the return no pick of the shards took it any more.
    let (down, up) = (verdict(&gateway, "is down, was"), verdict(&gateway, ", was down"));
    assert!(down < killed + SignedDuration::from_secs(1), "killed at {killed}, down at {down}");
    let tried = |line: &Value| line["attempts"].as_array().unwrap().iter().any(|attempt| attempt["origin"] == "a");
    let log = gateway.await_log(tally.sent() as usize);
    let times: Vec<Timestamp> = log.iter().filter(|line| tried(line)).map(begun).collect();
    let moment = SignedDuration::from_millis(100);
    let late = times.iter().filter(|at| **at > down + moment && **at < up - moment).count();
    assert_eq!(late, 0, "down at {down}, up at {up}");
}

/// When the log said so of `a`.
fn verdict(gateway: &Gateway, words: &str) -> Timestamp {
    let output = gateway.output();
    let line = output.lines().find(|line| line.contains("origin a is ") && line.contains(words));
    line.and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{words}: {output}"))
}

/// When a request began.
fn begun(line: &Value) -> Timestamp {
    let ended: Timestamp = line["time"].as_str().unwrap().parse().unwrap();
    ended - SignedDuration::from_secs_f64(line["request_time"].as_f64().unwrap())
}
