//! Events come once: a read or a write that took less than it could have does not always mean that
//! the kernel will announce the rest.

use crate::support::threads;
use parcae::Result;
use parcae_io::net::{TcpStream, UnixStream};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// After this the test fails instead of hanging.
const HANGS: Duration = Duration::from_secs(60);
const BUFFERS: usize = 2000;

/// Two ends of a connection. The first one has waited before, so it is registered.
fn pair() -> Result<(TcpStream, std::net::TcpStream)> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    ours.set_read_timeout(Some(Duration::from_millis(1)))?;
    assert!((&ours).read(&mut [0]).is_err());
    ours.set_read_timeout(Some(HANGS))?;
    ours.set_write_timeout(Some(HANGS))?;
    let theirs = listener.accept()?.0;
    theirs.set_nodelay(true)?;
    Ok((ours, theirs))
}

/// Reads as many bytes, in any number of steps.
fn read(mut from: impl Read, bytes: usize) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < bytes {
        let mut buffer = [0; 100];
        let length = from.read(&mut buffer)?;
        assert!(length > 0, "the stream has not ended");
        all.extend_from_slice(&buffer[..length]);
    }
    Ok(all)
}

#[test]
fn more_buffers_are_written_than_the_kernel_takes_at_once() {
    threads(|_| {
        let (ours, theirs) = pair()?;
        let written = (&ours).write_vectored(&[IoSlice::new(b"x"); BUFFERS])?;
        (&ours).write_all(b"y")?; // waits for no event
        assert_eq!(read(&theirs, written + 1)?.last(), Some(&b'y'));
        Ok(())
    });
}

#[test]
fn more_buffers_are_read_than_the_kernel_takes_at_once() {
    threads(|cx| {
        let (ours, mut theirs) = pair()?;
        theirs.write_all(&[7; BUFFERS])?;
        let mut bytes = [0; BUFFERS];
        let mut buffers: Vec<_> = bytes.chunks_mut(1).map(IoSliceMut::new).collect();
        cx.sleep(Duration::from_millis(1))?;
        let length = (&ours).read_vectored(&mut buffers)?;
        read(&ours, BUFFERS - length)?;
        let mut last = [0];
        let mut buffers: Vec<_> = (0..BUFFERS).map(|_| IoSliceMut::new(&mut [])).collect();
        buffers.push(IoSliceMut::new(&mut last));
        theirs.write_all(&[9])?;
        assert_eq!((&ours).read_vectored(&mut buffers)?, 1, "not the end of the stream");
        Ok(())
    });
}

/// A read stops before urgent data.
#[test]
fn urgent_data_does_not_end_a_stream() {
    threads(|cx| {
        let (ours, mut theirs) = pair()?;
        theirs.write_all(b"abc")?;
        // SAFETY: reads one byte.
        let sent =
            unsafe { libc::send(theirs.as_raw_fd(), b"!".as_ptr().cast(), 1, libc::MSG_OOB) };
        assert_eq!(sent, 1);
        theirs.write_all(b"def")?;
        cx.sleep(Duration::from_millis(5))?; // all of it is there
        assert_eq!(read(&ours, 6)?, b"abcdef");
        Ok(())
    });
}

/// A read of a Unix socket stops behind bytes that came with a descriptor.
#[test]
fn descriptors_do_not_end_a_stream() {
    threads(|cx| {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair()?;
        let ours = UnixStream::from_std(ours)?;
        ours.set_read_timeout(Some(Duration::from_millis(1)))?;
        assert!((&ours).read(&mut [0]).is_err());
        ours.set_read_timeout(Some(HANGS))?;
        let (mut bytes, mut control) = (*b"abc", [0_u64; 8]);
        // SAFETY: a message of three bytes, with room for the control data of one descriptor.
        unsafe {
            let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 3 };
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(4) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(4) as _;
            libc::CMSG_DATA(header).cast::<i32>().write_unaligned(theirs.as_raw_fd());
            assert_eq!(libc::sendmsg(theirs.as_raw_fd(), &raw const message, 0), 3);
        }
        theirs.write_all(b"def")?;
        cx.sleep(Duration::from_millis(1))?; // all of it is there
        assert_eq!(read(&ours, 6)?, b"abcdef");
        Ok(())
    });
}
