//! How do descriptors get from one process to another? Over a Unix socket, in batches, since the kernel takes no more
//! than 253 at a time.
//!
//! Always: whoever receives gets exactly as many as were announced, close-on-exec, or an error and none of them stays
//! open. A batch rides on one byte, its size, so that neither side can lose its place in the stream.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// Descriptors a batch; fits into a byte.
const BATCH: usize = 128;

/// Sends all of `descriptors`, in order. They stay open here.
///
/// # Errors
/// The other side is gone, or took longer than the write time-out of `stream`.
pub fn send<D: AsFd>(stream: &UnixStream, descriptors: &[D]) -> io::Result<()> {
    let all: Vec<RawFd> = descriptors.iter().map(|one| one.as_fd().as_raw_fd()).collect();
    for batch in all.chunks(BATCH) {
        let size = [u8::try_from(batch.len()).unwrap_or(u8::MAX)];
        let rights = [ControlMessage::ScmRights(batch)];
        let sent =
            again(|| sendmsg::<()>(stream.as_raw_fd(), &[IoSlice::new(&size)], &rights, MsgFlags::MSG_NOSIGNAL, None))?;
        if sent != size.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}

/// Receives `count` descriptors, in the order in which they were sent.
///
/// # Errors
/// The other side is gone, took longer than the read time-out of `stream`, or sent something else.
pub fn receive(stream: &UnixStream, count: usize) -> io::Result<Vec<OwnedFd>> {
    let mut all = Vec::with_capacity(count.min(BATCH));
    while all.len() < count {
        let expected = (count - all.len()).min(BATCH);
        let (size, batch) = receive_batch(stream)?;
        if batch.len() != expected || usize::from(size) != expected {
            let found = format!("{} descriptors in a batch of {size}, expected {expected}", batch.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, found));
        }
        all.extend(batch);
    }
    Ok(all)
}

/// The size a batch says it has, and what came with it.
fn receive_batch(stream: &UnixStream) -> io::Result<(u8, Vec<OwnedFd>)> {
    let mut size = [0];
    let mut space = nix::cmsg_space!([RawFd; BATCH]);
    let (read, cut, descriptors) = again(|| {
        let mut parts = [IoSliceMut::new(&mut size)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<()>(stream.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
        let cut = message.flags.contains(MsgFlags::MSG_CTRUNC);
        Ok((message.bytes, cut, owned(message.cmsgs()?)))
    })?;
    match (read, cut) {
        (0, _) => Err(io::ErrorKind::UnexpectedEof.into()),
        (_, true) => Err(io::Error::new(io::ErrorKind::InvalidData, "more descriptors than a batch holds")),
        _ => Ok((size[0], descriptors)),
    }
}

#[allow(unsafe_code)]
fn owned(messages: impl Iterator<Item = ControlMessageOwned>) -> Vec<OwnedFd> {
    let rights = messages.filter_map(|message| match message {
        ControlMessageOwned::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    // SAFETY: the kernel has just made these descriptors for this process, and nobody else knows them yet.
    rights.flatten().map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) }).collect()
}

/// Once more when a signal came between.
fn again<T>(mut call: impl FnMut() -> nix::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            ended => return ended.map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::unix::fs::MetadataExt;
    use std::time::Duration;

    use super::*;

    fn pair() -> (UnixStream, UnixStream) {
        let (a, b) = UnixStream::pair().unwrap();
        for stream in [&a, &b] {
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        }
        (a, b)
    }

    /// Files that can be told apart.
    fn files(count: usize) -> (tempfile::TempDir, Vec<File>) {
        let folder = tempfile::tempdir().unwrap();
        let files = (0..count).map(|n| File::create_new(folder.path().join(n.to_string())).unwrap()).collect();
        (folder, files)
    }

    fn inode(file: &File) -> u64 {
        file.metadata().unwrap().ino()
    }

    #[test]
    fn any_number_arrives_in_order_and_is_closed_on_exec() {
        for count in [0, 1, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH + 7] {
            let (_folder, sent) = files(count);
            let (a, b) = pair();
            let sending = sent.iter().map(|file| file.try_clone().unwrap()).collect::<Vec<_>>();
            let sender = std::thread::spawn(move || send(&a, &sending).map(|()| a));
            let received = receive(&b, count).unwrap();
            sender.join().unwrap().unwrap();
            let flags = |one: &OwnedFd| nix::fcntl::fcntl(one, nix::fcntl::FcntlArg::F_GETFD).unwrap();
            assert!(received.iter().all(|one| flags(one) & nix::libc::FD_CLOEXEC != 0));
            let received: Vec<u64> = received.into_iter().map(|one| inode(&File::from(one))).collect();
            assert_eq!(received, sent.iter().map(inode).collect::<Vec<_>>(), "{count}");
        }
    }

    #[test]
    fn bytes_before_and_after_stay_where_they_are() {
        let (_folder, sent) = files(3);
        let (mut a, mut b) = pair();
        a.write_all(b"before").unwrap();
        send(&a, &sent).unwrap();
        a.write_all(b"after").unwrap();
        let mut bytes = [0; 6];
        b.read_exact(&mut bytes).unwrap();
        assert_eq!(receive(&b, 3).unwrap().len(), 3);
        b.read_exact(&mut bytes[..5]).unwrap();
        assert_eq!(&bytes, b"aftere");
    }

    #[test]
    fn another_number_than_announced_is_an_error() {
        for (sent, expected) in [(2, 1), (1, 2), (BATCH, BATCH + 1)] {
            let (_folder, files) = files(sent);
            let (a, b) = pair();
            send(&a, &files).unwrap();
            drop(a);
            assert!(receive(&b, expected).is_err(), "{sent} sent, {expected} expected");
        }
    }

    #[test]
    fn something_else_an_end_and_silence_are_errors() {
        let (mut a, b) = pair();
        a.write_all(b"{}").unwrap();
        assert_eq!(receive(&b, 1).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let (a, b) = pair();
        drop(a);
        assert_eq!(receive(&b, 1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let (_a, b) = pair();
        b.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        assert_eq!(receive(&b, 1).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
