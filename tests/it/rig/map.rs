//! Which origin does each key go to? Found by asking for every one of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::client::Client;

/// key -> origin
pub(crate) type Map = BTreeMap<String, String>;

/// `/obj/0` and so on: the targets, and with the key `{path}` the keys too.
pub(crate) fn keys(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("/obj/{n}")).collect()
}

/// Replays the keys over a few kept connections; fails where one is not answered with 200 by an origin.
pub(crate) fn map(to: SocketAddr, keys: &[String]) -> Map {
    const CONNECTIONS: usize = 4;
    std::thread::scope(|scope| {
        let parts = keys.chunks(keys.len().div_ceil(CONNECTIONS).max(1));
        let asked = parts.map(|part| {
            scope.spawn(move || {
                let mut client = Client::new(to);
                let mut ask = |key: &String| {
                    let answer = client.get(key);
                    assert_eq!(answer.status, 200, "{key}: {answer:?}");
                    (key.clone(), answer.origin().to_owned())
                };
                part.iter().map(&mut ask).collect::<Vec<_>>()
            })
        });
        let asked: Vec<_> = asked.collect();
        asked.into_iter().flat_map(|part| part.join().unwrap()).collect()
    })
}

/// The share of the keys each origin has.
pub(crate) fn shares(map: &Map) -> BTreeMap<String, f64> {
    let mut shares: BTreeMap<String, f64> = BTreeMap::new();
    for origin in map.values() {
        *shares.entry(origin.clone()).or_default() += 1.0 / map.len() as f64;
    }
    shares
}
