//! A DNS server of the test's own: real UDP and TCP sockets on one port, answers as they are told.
//!
//! It encodes what it says itself. What does not fit into a datagram of 512 bytes, or of what the question allows, is cut
//! short with the bit that says so, and the whole is told over TCP. It can rotate, fail, stay silent and be away.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use super::{eventually, ports};

const A: u16 = 1;
const AAAA: u16 = 28;
const SRV: u16 = 33;

/// A running server.
pub(crate) struct Dns {
    pub(crate) address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    up: Option<Up>,
}

/// Its threads.
struct Up {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What it says of a name.
#[derive(Debug, Clone)]
pub(crate) enum Say {
    /// These addresses, of either family.
    Addresses(Vec<IpAddr>),
    /// So many of them, in turn.
    Rotating(Vec<IpAddr>, usize),
    /// These targets, with their ports and priorities.
    Services(Vec<(String, u16, u16)>),
    /// The name is there, and has no record.
    Empty,
    /// There is no such name.
    NoName,
    /// SERVFAIL.
    Failure,
    /// Nothing at all.
    Silence,
}

#[derive(Default)]
struct Zone {
    names: HashMap<String, (Say, u32)>,
    /// TCP connections are closed at once.
    deaf_on_tcp: bool,
    turn: usize,
    asked: BTreeMap<(String, &'static str), u64>,
}

/// A server that knows no name yet.
pub(crate) fn dns() -> Dns {
    let (tcp, udp) = eventually("a port for both", || {
        let tcp = ports::listener().unwrap();
        let udp = UdpSocket::bind(tcp.local_addr().unwrap()).ok()?;
        Some((tcp, udp))
    });
    let mut dns = Dns { address: tcp.local_addr().unwrap(), zone: Arc::default(), up: None };
    dns.serve(tcp, udp);
    dns
}

/// Loopback addresses.
pub(crate) fn loopback(numbers: impl IntoIterator<Item = u8>) -> Vec<IpAddr> {
    numbers.into_iter().map(|number| Ipv4Addr::new(127, 0, 0, number).into()).collect()
}

impl Dns {
    /// From now on this is said of a name, and holds for so many seconds.
    pub(crate) fn say(&self, name: &str, ttl: u32, say: Say) {
        self.zone.lock().names.insert(name.to_owned(), (say, ttl));
    }

    /// These addresses, with a TTL of 0.
    pub(crate) fn tell(&self, name: &str, addresses: impl IntoIterator<Item = IpAddr>) {
        self.say(name, 0, Say::Addresses(addresses.into_iter().collect()));
    }

    /// Closes TCP connections at once, or answers there as well.
    pub(crate) fn deaf_on_tcp(&self, deaf: bool) {
        self.zone.lock().deaf_on_tcp = deaf;
    }

    /// How often somebody asked for a name over `udp` or `tcp`, for whatever record.
    pub(crate) fn asked(&self, name: &str, over: &'static str) -> u64 {
        self.zone.lock().asked.get(&(name.to_owned(), over)).copied().unwrap_or_default()
    }

    /// Waits for so many further questions for a name.
    pub(crate) fn further(&self, name: &str, count: u64) {
        let from = self.asked(name, "udp");
        eventually("further questions", || (self.asked(name, "udp") >= from + count).then_some(()));
    }

    /// Ends the server; its port refuses.
    pub(crate) fn stop(&mut self) {
        let Some(up) = self.up.take() else { return };
        up.stop.store(true, Relaxed);
        let _ = TcpStream::connect(self.address);
        up.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    /// Begins again at the same address.
    pub(crate) fn start(&mut self) {
        let (tcp, udp) = eventually("its port is free", || {
            Some((TcpListener::bind(self.address).ok()?, UdpSocket::bind(self.address).ok()?))
        });
        self.serve(tcp, udp);
    }

    fn serve(&mut self, tcp: TcpListener, udp: UdpSocket) {
        let stop = Arc::new(AtomicBool::new(false));
        udp.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let datagrams = {
            let (zone, stop) = (Arc::clone(&self.zone), Arc::clone(&stop));
            std::thread::spawn(move || datagrams(&udp, &zone, &stop))
        };
        let streams = {
            let (zone, stop) = (Arc::clone(&self.zone), Arc::clone(&stop));
            std::thread::spawn(move || streams(&tcp, &zone, &stop))
        };
        self.up = Some(Up { stop, threads: vec![datagrams, streams] });
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.stop();
    }
}

fn datagrams(socket: &UdpSocket, zone: &Mutex<Zone>, stop: &AtomicBool) {
    let mut buffer = [0; 4096];
    while !stop.load(Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let Some(question) = Question::read(&buffer[..length]) else { continue };
        let answer = zone.lock().answer(&question, "udp");
        if let Some(answer) = answer {
            let _ = socket.send_to(&answer.encode(&question, question.size), from);
        }
    }
}

fn streams(listener: &TcpListener, zone: &Mutex<Zone>, stop: &AtomicBool) {
    while let Ok((stream, _)) = listener.accept() {
        if stop.load(Relaxed) {
            return;
        }
        if !zone.lock().deaf_on_tcp {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            let _ = talk(stream, zone);
        }
    }
}

/// Answers one question after the other, each behind its length.
fn talk(mut stream: TcpStream, zone: &Mutex<Zone>) -> std::io::Result<()> {
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut message)?;
        let Some(question) = Question::read(&message) else { return Ok(()) };
        if zone.lock().deaf_on_tcp {
            return Ok(());
        }
        let Some(answer) = zone.lock().answer(&question, "tcp") else { return Ok(()) };
        let bytes = answer.encode(&question, u16::MAX.into());
        stream.write_all(&u16::try_from(bytes.len()).unwrap().to_be_bytes())?;
        stream.write_all(&bytes)?;
    }
}

/// What somebody asks.
struct Question {
    id: [u8; 2],
    name: String,
    kind: u16,
    /// As it was asked, to be repeated.
    raw: Vec<u8>,
    /// Bytes a datagram may have.
    size: usize,
}

impl Question {
    fn read(message: &[u8]) -> Option<Self> {
        let (mut at, mut labels) = (12, Vec::new());
        while let length @ 1..=63 = usize::from(*message.get(at)?) {
            labels.push(String::from_utf8_lossy(message.get(at + 1..=at + length)?).to_lowercase());
            at += 1 + length;
        }
        let end = at + 5;
        let kind = u16::from_be_bytes(message.get(at + 1..at + 3)?.try_into().ok()?);
        // The only additional record of a question says how much may come back.
        let has_more = message.get(10..12)? != [0, 0];
        let size = message.get(end + 3..end + 5).filter(|_| has_more);
        let size = size.map_or(512, |size| u16::from_be_bytes([size[0], size[1]]));
        let raw = message.get(12..end)?.to_vec();
        Some(Self { id: [message[0], message[1]], name: labels.join("."), kind, raw, size: size.max(512).into() })
    }
}

/// What is said.
#[derive(Default)]
struct Told {
    code: u8,
    kind: u16,
    ttl: u32,
    records: Vec<Vec<u8>>,
}

impl Zone {
    fn answer(&mut self, question: &Question, over: &'static str) -> Option<Told> {
        *self.asked.entry((question.name.clone(), over)).or_default() += 1;
        let (say, ttl) = self.names.get(&question.name).cloned().unwrap_or((Say::NoName, 0));
        let told = Told { kind: question.kind, ttl, ..Told::default() };
        let of_kind = |all: &[IpAddr]| -> Vec<Vec<u8>> {
            let bytes = |ip: &IpAddr| match (ip, question.kind) {
                (IpAddr::V4(ip), A) => Some(ip.octets().to_vec()),
                (IpAddr::V6(ip), AAAA) => Some(ip.octets().to_vec()),
                _ => None,
            };
            all.iter().filter_map(bytes).collect()
        };
        Some(match say {
            Say::Silence => return None,
            Say::Failure => Told { code: 2, ..told },
            Say::NoName => Told { code: 3, ..told },
            Say::Empty => told,
            Say::Addresses(all) => Told { records: of_kind(&all), ..told },
            Say::Rotating(all, some) => {
                let turned = all.iter().cycle().skip(self.turn * some).take(some).copied().collect::<Vec<_>>();
                self.turn += usize::from(question.kind == A);
                Told { records: of_kind(&turned), ..told }
            }
            Say::Services(all) if question.kind == SRV => Told {
                records: all.iter().map(|(host, port, priority)| service(host, *port, *priority)).collect(),
                ..told
            },
            Say::Services(_) => told,
        })
    }
}

fn service(host: &str, port: u16, priority: u16) -> Vec<u8> {
    let mut data = [priority, 0, port].map(u16::to_be_bytes).concat();
    for label in host.split('.') {
        data.push(u8::try_from(label.len()).unwrap());
        data.extend(label.bytes());
    }
    data.push(0);
    data
}

impl Told {
    /// The message, cut at the last record that fits.
    fn encode(&self, question: &Question, size: usize) -> Vec<u8> {
        let mut records = Vec::new();
        let mut count = 0_u16;
        for data in &self.records {
            let mut record = [0xc0_u8, 12].to_vec();
            record.extend([self.kind, 1].map(u16::to_be_bytes).concat());
            record.extend(self.ttl.to_be_bytes());
            record.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            record.extend(data);
            if 12 + question.raw.len() + records.len() + record.len() > size {
                break;
            }
            records.extend(record);
            count += 1;
        }
        let cut = u8::from(usize::from(count) < self.records.len()) << 1;
        // An answer, with authority, to a question that wished for recursion and got it.
        let mut message = [question.id[0], question.id[1], 0x85 | cut, 0x80 | self.code, 0, 1].to_vec();
        message.extend(count.to_be_bytes());
        message.extend([0; 4]);
        message.extend(&question.raw);
        message.extend(records);
        message
    }
}
