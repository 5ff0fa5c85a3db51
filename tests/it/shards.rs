//! Are clients dealt out evenly over the threads that serve?
//!
//! Each thread waits for the sockets it serves by a poll of its own, and the kernel tells which those are. The n-th client
//! comes from the n-th address of a network, by which it is known on both sides.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::net::Ipv4Addr;
use std::ops::Range;

use crate::rig::{self, Client, Gateway, Origin};

const CLIENTS: u8 = 64;

fn gateway(threads: usize) -> (Origin, Gateway) {
    let a = rig::origin("a");
    let text = "pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins } }\n";
    let gateway = rig::gateway(text).process("threads", &threads.to_string()).origins([&a]).start();
    (a, gateway)
}

/// These clients, each of which was answered.
fn connected(gateway: &Gateway, numbers: Range<u8>) -> Vec<(u8, Client)> {
    let client = |number| {
        let mut client = gateway.client().from(Ipv4Addr::new(127, 0, 1, number));
        assert_eq!(client.get(&format!("/{number}")).status, 200);
        (number, client)
    };
    numbers.map(client).collect()
}

/// The clients that are connected to it, by what a descriptor of theirs leads to.
fn clients(gateway: &Gateway) -> HashMap<String, u8> {
    let door = format!(":{:04X}", gateway.address().port());
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let client = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // the last byte of an address stands first; 01 is an established connection
        let number = fields[2].split_once(':')?.0.strip_suffix("01007F")?;
        let is_ours = fields[1].ends_with(&door) && fields[3] == "01";
        is_ours.then(|| (format!("socket:[{}]", fields[9]), u8::from_str_radix(number, 16).unwrap()))
    };
    table.lines().filter_map(client).collect()
}

/// Who is served by each thread that serves anybody.
fn served(gateway: &Gateway) -> BTreeSet<Vec<u8>> {
    let (process, clients) = (format!("/proc/{}", gateway.pid()), clients(gateway));
    let leads = |descriptor: &str| {
        let link = fs::read_link(format!("{process}/fd/{descriptor}")).unwrap_or_default();
        link.to_string_lossy().into_owned()
    };
    let descriptors = fs::read_dir(format!("{process}/fd")).unwrap().map(|entry| entry.unwrap().file_name());
    let polls =
        descriptors.map(|name| name.into_string().unwrap()).filter(|name| leads(name) == "anon_inode:[eventpoll]");
    let waited_for = |poll: String| {
        let told = fs::read_to_string(format!("{process}/fdinfo/{poll}")).unwrap_or_default();
        let sockets = told.lines().filter_map(|line| line.strip_prefix("tfd:")?.split_whitespace().next());
        let mut numbers: Vec<u8> = sockets.filter_map(|socket| clients.get(&leads(socket)).copied()).collect();
        numbers.sort_unstable();
        numbers
    };
    // a poll may have several descriptors
    polls.map(waited_for).filter(|numbers| !numbers.is_empty()).collect()
}

/// The same once each of so many is served.
fn all_served(gateway: &Gateway, clients: u8) -> BTreeSet<Vec<u8>> {
    let all =
        || Some(served(gateway)).filter(|served| served.iter().map(Vec::len).sum::<usize>() == usize::from(clients));
    rig::eventually("each is served by one thread", all)
}

/// No thread has more than 1.2 times what each would have.
fn assert_even(served: &BTreeSet<Vec<u8>>, threads: usize) {
    let counts: Vec<usize> = served.iter().map(Vec::len).collect();
    let mean = counts.iter().sum::<usize>() as f64 / threads as f64;
    assert!(counts.iter().all(|count| *count as f64 <= 1.2 * mean), "{counts:?} over {threads} threads");
}

#[test]
fn no_thread_has_more_than_its_part_of_64_clients() {
    for threads in [2, 3, 4] {
        let (_a, gateway) = gateway(threads);
        let _clients = connected(&gateway, 1..CLIENTS + 1);
        assert_even(&all_served(&gateway, CLIENTS), threads);
    }
}

/// A client is given to the thread that has the fewest, not to the next in turn.
#[test]
fn who_comes_after_others_left_makes_up_for_them() {
    let (_a, gateway) = gateway(2);
    let clients = connected(&gateway, 1..CLIENTS + 1);
    let of_one = all_served(&gateway, CLIENTS).first().unwrap().clone();
    let (leaving, staying): (Vec<_>, Vec<_>) = clients.into_iter().partition(|(number, _)| of_one.contains(number));
    assert_eq!((leaving.len(), staying.len()), (32, 32));
    drop(leaving);
    let open = || gateway.metrics().sum("moorgate_connections", &[]);
    rig::eventually("they are gone", || (open() < 32.5).then_some(()));
    assert_eq!(all_served(&gateway, 32).len(), 1, "one thread has all that stayed");
    let _came = connected(&gateway, CLIENTS + 1..CLIENTS + 33);
    assert_even(&all_served(&gateway, CLIENTS), 2);
}
