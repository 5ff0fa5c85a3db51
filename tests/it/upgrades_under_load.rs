//! Do upgrades in a row lose a request? Rules U2 to U4, whatever the clients do: kept connections and short ones, uploads,
//! downloads, events, WebSockets, plain and by TLS, in HTTP/1.1 and HTTP/2; and everybody who looks on.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::rig::issued::certificate;
use crate::rig::{self, Ask, Client, Gateway, Metrics, eventually, tunnel};

const POOL: &str = "certificates: [ { cert: $dir/a.pem, key: $dir/a.key } ]\n\
                    pools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n";

/// The admin address is asked again and again, over a connection that is kept and over new ones: it is ready each time, and no
/// counter falls.
struct Looking {
    stop: Arc<AtomicBool>,
    looks: Vec<std::thread::JoinHandle<u64>>,
}

impl Looking {
    fn at(gateway: &Gateway) -> Self {
        let (stop, admin) = (Arc::new(AtomicBool::new(false)), gateway.admin);
        let look = |fresh: bool| {
            let stop = stop.clone();
            std::thread::spawn(move || look(admin, fresh, &stop))
        };
        let looks = [false, true].map(look).into();
        Self { stop, looks }
    }

    fn end(self) {
        self.stop.store(true, Relaxed);
        for look in self.looks {
            assert!(look.join().expect("ready all the time") > 10);
        }
    }
}

fn look(admin: SocketAddr, fresh: bool, stop: &AtomicBool) -> u64 {
    let (mut client, mut looks, mut counted) = (Client::new(admin), 0, 0.0);
    while !stop.load(Relaxed) {
        if fresh {
            client = Client::new(admin);
        }
        let answer = client.send(&Ask::get("/readyz")).expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
        let metrics = client.send(&Ask::get("/metrics")).expect("an answer");
        let now = Metrics::parse(&metrics.text()).sum("moorgate_requests_total", &[]);
        assert!(now >= counted, "{now} requests after {counted}");
        (looks, counted) = (looks + 1, now);
        std::thread::sleep(Duration::from_millis(20));
    }
    looks
}

/// Has another process take over, by command or by signal; returns when the one before is quiet.
fn upgrade(gateway: &Gateway, by_signal: bool) {
    let generation = || gateway.metrics().sum("moorgate_generation", &[]);
    let before = generation();
    if by_signal {
        kill(Pid::from_raw(*gateway.generations().last().unwrap()), Signal::SIGUSR2).unwrap();
        eventually("the next one serves", || (generation() > before).then_some(()));
        eventually("it is quiet", || (gateway.status()["upgrade"]["over"] == true).then_some(()));
    } else {
        let output = gateway.upgrade(&[]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(generation(), before + 1.0);
}

#[test]
fn u2_b63_upgrades_in_a_row_lose_nothing_of_what_clients_do() {
    let origins: Vec<_> = ["a", "b", "c"].map(rig::origin).into();
    rig::takes_traffic(&origins);
    let drain = "{ lame_duck: 60s, timeout: 1s, upgrade: 3s }";
    let start = rig::gateway(POOL).origins(&origins).process("drain", drain).further_listener("tls: {}");
    let mut gateway = start.start_with(|folder| certificate(&["a.test"]).issue().write(folder, "a"));
    let [http1, http2] = [b"\x08http/1.1".as_slice(), b"\x02h2"].map(|offered| tunnel(gateway.listeners[1], offered));
    let kept = rig::load(gateway.address()).clients(4).rate(200.0).start();
    let fresh = rig::load(gateway.address()).clients(8).rate(400.0).fresh_connections().start();
    let within_tls = [
        rig::load(http1.address).clients(2).rate(100.0).start(),
        rig::load(http1.address).clients(2).rate(50.0).fresh_connections().start(),
        rig::load(http2.address).clients(2).rate(100.0).http2().start(),
    ];
    let lasting = rig::traffic([gateway.address(), http1.address]);
    let looking = Looking::at(&gateway);
    let rounds = rig::rounds(2);
    within_tls.iter().for_each(|load| load.further(20));
    let sessions = || http1.handshakes().0 + http2.handshakes().0;
    let begun = sessions();
    for round in 0..rounds {
        let told = lasting.told();
        upgrade(&gateway, round % 2 == 1);
        assert_eq!(lasting.told(), told, "WebSockets go on while the one before drains");
        eventually("the one before has left", || (gateway.generations().len() == 1).then_some(()));
        eventually("they are told at its end", || (lasting.told() == told + 2).then_some(()));
    }
    assert_eq!(gateway.exit(), 0, "the first one has left");
    [&kept, &fresh].into_iter().chain(&within_tls).for_each(|load| load.further(20));
    looking.end();
    assert!(lasting.shortest() > Duration::from_secs(3), "{:?}", lasting.shortest());
    let (kept, fresh, lasting) = (kept.stop(), fresh.stop(), lasting.stop());
    let within_tls = within_tls.map(rig::Running::stop);
    [&kept, &fresh].into_iter().chain(&within_tls).for_each(rig::Tally::assert_all_good);
    [&http1, &http2].into_iter().for_each(rig::Tunnel::assert_none_cut);
    assert_eq!(sessions(), begun, "who comes again goes on with the session that it has");
    let by_tls: u64 = within_tls.iter().map(rig::Tally::sent).sum();
    let sent = kept.sent() + fresh.sent() + by_tls + lasting;
    eprintln!(
        "{rounds} upgrades, {sent} requests, {by_tls} of them by TLS, {lasting} lasting; the slowest short one took {:?}",
        kept.slowest.max(fresh.slowest)
    );
    // every generation's are in the last one's books
    eventually("all is counted", || {
        (gateway.metrics().sum("moorgate_requests_total", &[]) == sent as f64).then_some(())
    });
    assert!(gateway.path("control.sock").exists());
}
