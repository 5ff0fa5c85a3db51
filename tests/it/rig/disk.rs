//! A small file system of a test's own, to be filled. It lives in a namespace that goes with the child that holds it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::process::Process;

/// How many files it has room for.
const FILES: usize = 64;

/// A mounted file system.
pub(crate) struct Disk {
    /// Where it is.
    pub(crate) folder: PathBuf,
    _holder: Process,
    _output: TempDir,
}

/// Mounts one of so many KiB; `None` where namespaces are forbidden, as in many containers.
pub(crate) fn disk(kib: u32) -> Option<Disk> {
    // Ends with its standard input, and so with us.
    let script = format!("mount -t tmpfs -o size={kib}k,nr_inodes={FILES} none /mnt && echo up && exec cat");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    let output = TempDir::new().unwrap();
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = Process::start("disk", &mut command, &output.path().join("output"));
    let mut said = String::new();
    BufReader::new(holder.child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let folder = PathBuf::from(format!("/proc/{}/root/mnt", holder.pid()));
    let up = said == "up\n" && File::create(folder.join("probe")).is_ok();
    up.then_some(Disk { folder, _holder: holder, _output: output })
}

impl Disk {
    /// Leaves room for no further file.
    pub(crate) fn fill_with_files(&self) {
        let made = |n: &usize| File::create(self.folder.join(format!("file-{n}"))).is_ok();
        assert!((0..=FILES).take_while(made).count() <= FILES);
    }

    /// Leaves no byte free.
    pub(crate) fn fill(&self) {
        let mut ballast = File::create(self.folder.join("ballast")).unwrap();
        while ballast.write_all(&[b'x'; 4096]).is_ok() {}
    }

    /// Gives back what [`fill`](Self::fill) took.
    pub(crate) fn clear(&self) {
        std::fs::remove_file(self.folder.join("ballast")).unwrap();
    }
}
