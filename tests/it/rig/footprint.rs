//! What does a process cost? Memory, threads and descriptors, as the kernel counts them.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a process has at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Footprint {
    /// Bytes in memory.
    pub(crate) memory: u64,
    pub(crate) threads: u64,
    /// Open descriptors.
    pub(crate) descriptors: usize,
}

/// The most memory a process has for as long as this runs.
pub(crate) struct Peak {
    over: Arc<AtomicBool>,
    looking: Option<JoinHandle<u64>>,
}

impl Footprint {
    pub(crate) fn of(pid: i32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        Self { memory: number("VmRSS") * 1024, threads: number("Threads"), descriptors }
    }
}

impl Peak {
    /// Looks at it every few milliseconds.
    pub(crate) fn of(pid: i32) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let look = move || {
            let mut most = 0;
            while !seen.load(Relaxed) {
                most = most.max(Footprint::of(pid).memory);
                std::thread::sleep(Duration::from_millis(5));
            }
            most.max(Footprint::of(pid).memory)
        };
        Self { over, looking: Some(std::thread::spawn(look)) }
    }

    /// The most there was.
    pub(crate) fn stop(mut self) -> u64 {
        self.over.store(true, Relaxed);
        self.looking.take().unwrap().join().unwrap()
    }
}

impl Drop for Peak {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}
