//! A relay in front of an origin that can fall silent: what comes is taken and thrown away, and nothing goes back, as by
//! network gear that forgot a connection or a process that stands still. The connections that are there fall silent;
//! those that come later are none of it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

/// The relay; ends with its listener's last connection, or when the test does.
pub(crate) struct Mute {
    pub(crate) address: SocketAddr,
    /// Connections up to this one are silent.
    silent: Arc<AtomicU32>,
    came: Arc<AtomicU32>,
}

/// A relay to `origin`.
pub(crate) fn mute(origin: SocketAddr) -> Mute {
    let listener: TcpListener = super::ports::listener().unwrap();
    listener.set_nonblocking(false).unwrap();
    let address = listener.local_addr().unwrap();
    let (silent, came) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (stopped, count) = (Arc::clone(&silent), Arc::clone(&came));
    thread::spawn(move || {
        for client in listener.incoming() {
            let number = count.fetch_add(1, SeqCst) + 1;
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(origin)) else { return };
            pass(&client, &server, number, &stopped);
            pass(&server, &client, number, &stopped);
        }
    });
    Mute { address, silent, came }
}

fn pass(from: &TcpStream, to: &TcpStream, number: u32, silent: &Arc<AtomicU32>) {
    let (mut from, mut to, silent) = (from.try_clone().unwrap(), to.try_clone().unwrap(), Arc::clone(silent));
    thread::spawn(move || {
        let mut piece = [0; 16 << 10];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            if number > silent.load(SeqCst) && to.write_all(&piece[..count]).is_err() {
                return;
            }
        }
        if number > silent.load(SeqCst) {
            let _ = to.shutdown(std::net::Shutdown::Write);
        }
    });
}

impl Mute {
    /// The connections there are fall silent; how many there are.
    pub(crate) fn fall_silent(&self) -> u32 {
        let came = self.came.load(SeqCst);
        self.silent.store(came, SeqCst);
        came
    }

    /// The next one that comes will be silent, its handshake included.
    pub(crate) fn meet_with_silence(&self) {
        self.silent.store(self.came.load(SeqCst) + 1, SeqCst);
    }

    /// How many connections came so far.
    pub(crate) fn came(&self) -> u32 {
        self.came.load(SeqCst)
    }
}
