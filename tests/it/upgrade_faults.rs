//! What if the next process dies, hangs or talks nonsense at any message, or cannot go on from what it is told? Rule U2:
//! the running one serves on under load, `upgrade` says why and exits with 1. Both are the shipped binary.

use moorgate::lifecycle::handoff::message::{Kind, Message};

use crate::rig::{self, Gateway, Harm, Origin};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n";
/// Kept connections and short ones, each with one request at a time.
const CLIENTS: u32 = 4;

/// When in an upgrade a message is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// Before the next process accepts anybody.
    Before,
    /// It accepts, and the running one can still take everything back.
    Trial,
    /// Nothing can be taken back any more.
    After,
    /// Only when something went wrong already, or is asked for.
    Seldom,
}

fn when(kind: Kind) -> When {
    match kind {
        Kind::Hello | Kind::Offer | Kind::State | Kind::Ready | Kind::Last | Kind::Go => When::Before,
        Kind::Serving | Kind::Counts | Kind::Settled => When::Trial,
        Kind::Yours | Kind::Quiet => When::After,
        Kind::Declined | Kind::Back | Kind::Reopen => When::Seldom,
    }
}

fn start() -> (Origin, Gateway) {
    let a = rig::origin("a");
    let gateway = rig::gateway(POOL).origins([&a]).process("drain", "{ lame_duck: 60s, timeout: 1s }").start();
    (a, gateway)
}

fn generation(gateway: &Gateway) -> u64 {
    gateway.status()["generation"].as_u64().unwrap()
}

/// An upgrade that fails for this, under load; what was said. So many requests may be lost.
fn fails(gateway: &Gateway, at: Kind, harm: Harm, lost: usize) -> String {
    let kept = rig::load(gateway.address()).clients(CLIENTS / 2).rate(100.0).start();
    let fresh = rig::load(gateway.address()).clients(CLIENTS / 2).rate(100.0).fresh_connections().start();
    kept.further(5);
    let between = rig::between(gateway, at, harm);
    let output = gateway.upgrade(&["--binary", &between.program]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{at} {harm:?}: {told}");
    assert!(between.ended(), "{at} is never said");
    assert_eq!(generation(gateway), 1, "{at} {harm:?}: {told}");
    [&kept, &fresh].iter().for_each(|load| load.further(5));
    let (kept, fresh) = (kept.stop(), fresh.stop());
    let failed: Vec<_> = kept.failed.iter().chain(&fresh.failed).collect();
    assert!(failed.len() <= lost, "{at} {harm:?}: {failed:?}");
    assert!([&kept, &fresh].iter().all(|tally| tally.by_status.keys().eq([&200])), "{at} {harm:?}");
    eprintln!("{harm:?} at {at}: {} requests, {} lost; {}", kept.sent() + fresh.sent(), failed.len(), told.trim());
    told
}

/// Harm at each message that can still fail the upgrade. Where the next process is ended while it serves, what it was
/// answering is lost: one request of each client at most.
fn fails_at_each(harm: Harm, kinds: impl Iterator<Item = Kind>) {
    let (_a, gateway) = start();
    for kind in kinds {
        let lost = match (when(kind), harm) {
            (When::Trial, Harm::Kill | Harm::Stop) => CLIENTS as usize,
            _ => 0,
        };
        assert!(!fails(&gateway, kind, harm, lost).is_empty());
    }
    let output = gateway.upgrade(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

fn until_settled() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| matches!(when(*kind), When::Before | When::Trial))
}

#[test]
fn u2_the_next_process_may_be_killed_at_any_message() {
    fails_at_each(Harm::Kill, until_settled());
}

#[test]
fn u2_nonsense_at_any_message_changes_nothing() {
    fails_at_each(Harm::Garble, until_settled());
}

/// Where the running process waits for long is for the long run: half a minute for `ready`.
#[test]
fn u2_the_next_process_may_hang_at_any_message() {
    let all = rig::rounds(1) > 1;
    let short = |kind: &Kind| matches!(kind, Kind::Last | Kind::Go | Kind::Serving);
    fails_at_each(Harm::Stop, until_settled().filter(|kind| all || short(kind)));
}

#[test]
fn u1_what_the_next_process_cannot_go_on_from_it_declines() {
    let (_a, gateway) = start();
    let newer_text = |message| match message {
        Message::Offer(mut offer) => {
            offer.text.push_str("from_the_future: { key: 1 }\n");
            Message::Offer(offer)
        }
        other => other,
    };
    let told = fails(&gateway, Kind::Offer, Harm::Alter(newer_text), 0);
    assert!(told.contains("this version cannot serve the running configuration"), "{told}");
    assert!(told.contains("from_the_future"), "{told}");
    let newer_format = |_| Message::State(br#"{"format":9}"#.to_vec());
    let told = fails(&gateway, Kind::State, Harm::Alter(newer_format), 0);
    assert!(told.contains("told in format 9"), "{told}");
    let cut = |message| match message {
        Message::State(mut bytes) => {
            bytes.truncate(bytes.len() / 2);
            Message::State(bytes)
        }
        other => other,
    };
    let told = fails(&gateway, Kind::State, Harm::Alter(cut), 0);
    assert!(told.contains("cannot be read"), "{told}");
    let other_protocol = |message| match message {
        Message::Hello(mut hello) => {
            hello.protocol += 1;
            Message::Hello(hello)
        }
        other => other,
    };
    let told = fails(&gateway, Kind::Hello, Harm::Alter(other_protocol), 0);
    assert!(told.contains("hands over by protocol 2, this one by 1"), "{told}");
}

#[test]
fn a_full_disk_stops_an_upgrade_only_where_something_has_to_be_written() {
    let Some(disk) = rig::disk(256) else { return eprintln!("nothing may be mounted here") };
    let a = rig::origin("a");
    let at = |name: &str| disk.folder.join(name).to_string_lossy().into_owned();
    let setup = rig::gateway(POOL).origins([&a]).process("drain", "{ timeout: 1s }").process("state", &at("state"));
    let gateway = setup.process("access_log", &format!("{{ path: {} }}", at("access.log"))).start();
    disk.fill();
    disk.fill_with_files();
    let load = rig::load(gateway.address()).clients(2).rate(100.0).fresh_connections().start();
    load.further(5);
    gateway.edit("/access.log", "/other.log");
    let output = gateway.upgrade(&[]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), generation(&gateway)), (Some(1), 1), "{told}");
    assert!(told.contains("other.log") && told.contains("No space left"), "{told}");
    gateway.edit("/other.log", "/access.log");
    let output = gateway.upgrade(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    load.further(5);
    load.stop().assert_all_good();
    assert_eq!(generation(&gateway), 2);
    assert!(gateway.output().contains("No space left"), "what was served cannot be kept: {}", gateway.output());
}
