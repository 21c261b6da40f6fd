//! System calls that the standard library does not offer, each with its errors as `io::Error`.
//!
//! The frequent ones (`recv`, `send`, `epoll_wait`, `preadv2`) are made by their numbers: in a
//! program with threads the functions of the C library cost two atomic operations more, which
//! prepare a cancellation of the thread (`pthread_cancel`).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The most bytes of one call: larger ones fail on some systems.
pub(crate) const MOST: usize = 1 << 30;
/// The most buffers of one call: the kernel refuses more.
const BUFFERS: usize = 1024;

/// The bytes that one call can take of buffers with these lengths.
pub(crate) fn offered(lengths: impl Iterator<Item = usize>) -> usize {
    lengths.take(BUFFERS).fold(0, usize::saturating_add)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn counted(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    check(fd)?;
    // SAFETY: just opened, and no one else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets as many connections wait to be accepted as the kernel allows (`net.core.somaxconn`). The
/// standard library asks for 128: a burst of more is answered with SYN cookies and retransmissions,
/// and a late packet of a finished connection can then come back as a connection without a client.
pub(crate) fn lengthen_backlog(listener: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes no pointers. A socket that listens already gets the new bound.
    check(unsafe { libc::listen(listener.as_raw_fd(), libc::c_int::MAX) }).map(|_| ())
}

pub(crate) fn epoll_create() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
}

pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// Adds one to the count of an eventfd. Allowed in signal handlers.
pub(crate) fn eventfd_write(fd: BorrowedFd<'_>) {
    let one = 1_u64;
    // SAFETY: reads eight bytes of ours. It fails only if the count is about to overflow.
    unsafe { libc::write(fd.as_raw_fd(), (&raw const one).cast(), 8) };
}

/// Waits until the count of an eventfd is not 0, and makes it 0.
pub(crate) fn eventfd_wait(fd: BorrowedFd<'_>) -> io::Result<()> {
    loop {
        let mut count = 0_u64;
        // SAFETY: writes eight bytes of ours.
        let read = counted(unsafe { libc::read(fd.as_raw_fd(), (&raw mut count).cast(), 8) });
        match read {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                block(fd, libc::POLLIN, None)?;
            }
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn epoll_add(
    epoll: BorrowedFd<'_>,
    fd: BorrowedFd<'_>,
    events: libc::c_int,
    data: u64,
) -> io::Result<()> {
    let mut event = libc::epoll_event { events: events as u32, u64: data };
    // SAFETY: the event is on our stack; both descriptors are open.
    let added = unsafe {
        libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event)
    };
    check(added).map(drop)
}

pub(crate) fn epoll_delete(epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> io::Result<()> {
    let none = std::ptr::null_mut();
    // SAFETY: the event is not read; both descriptors are open.
    let deleted =
        unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd.as_raw_fd(), none) };
    check(deleted).map(drop)
}

/// How the kernel takes timeouts: to the nanosecond, or before Linux 5.11 to the millisecond. So
/// does a sandbox that does not know the newer call, whatever error it returns.
#[derive(Debug)]
pub(crate) struct Timeouts {
    coarse: AtomicBool,
}

impl Timeouts {
    pub(crate) fn new() -> Timeouts {
        Timeouts { coarse: AtomicBool::new(false) }
    }

    /// Takes events, and waits for the first one. Returns their number; 0 if the time is up or a
    /// signal has interrupted the wait.
    pub(crate) fn epoll_wait(
        &self,
        epoll: BorrowedFd<'_>,
        events: &mut [libc::epoll_event],
        timeout: Option<Duration>,
    ) -> usize {
        let (at, most) = (events.as_mut_ptr(), events.len() as libc::c_int);
        let wait = |milliseconds: libc::c_int| {
            let (fd, no_mask) = (epoll.as_raw_fd(), std::ptr::null::<libc::sigset_t>());
            let call = libc::SYS_epoll_pwait;
            // SAFETY: the kernel writes at most so many events; there is no mask.
            let taken =
                unsafe { libc::syscall(call, fd, at, most, milliseconds, no_mask, 0_usize) };
            taken as libc::c_int
        };
        let taken = match timeout {
            None => wait(-1),
            Some(Duration::ZERO) => wait(0),
            // Relaxed: each thread may find out for itself.
            Some(time) if self.coarse.load(Ordering::Relaxed) => wait(milliseconds(time)),
            Some(time) => {
                let time = timespec(time);
                // SAFETY: as above; the time is on our stack, and there is no mask.
                let taken = unsafe {
                    libc::syscall(
                        libc::SYS_epoll_pwait2,
                        epoll.as_raw_fd(),
                        at,
                        most,
                        &raw const time,
                        std::ptr::null::<libc::sigset_t>(),
                        0_usize,
                    )
                };
                if taken < 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                    self.coarse.store(true, Ordering::Relaxed); // as above
                    return self.epoll_wait(epoll, events, timeout);
                }
                taken as libc::c_int
            }
        };
        taken.max(0) as usize
    }
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: time.as_secs().min(1 << 40) as libc::time_t,
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Rounded up: a wait must not end early again and again.
fn milliseconds(time: Duration) -> libc::c_int {
    time.as_nanos().div_ceil(1_000_000).min(1 << 30) as libc::c_int
}

/// Blocks the thread until the descriptor is ready or the time has come: then false.
pub(crate) fn block(
    fd: BorrowedFd<'_>,
    events: libc::c_short,
    until: Option<Instant>,
) -> io::Result<bool> {
    loop {
        let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let time = left.map(timespec);
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: one entry, and a time or none, on our stack.
        let ready = unsafe { libc::ppoll(&raw mut entry, 1, time, std::ptr::null()) };
        match check(ready) {
            Ok(0) if left.is_some_and(|left| left.is_zero()) => return Ok(false),
            Ok(0) => {}
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a read of this descriptor would not wait.
///
/// # Safety
///
/// It is open.
pub(crate) unsafe fn has_input(fd: RawFd) -> bool {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, on our stack.
    unsafe { libc::poll(&raw mut entry, 1, 0) == 1 && entry.revents & libc::POLLIN != 0 }
}

/// The address of a peer, as the kernel reads and writes it.
pub(crate) struct PeerAddress {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl PeerAddress {
    /// A place for the address that the kernel writes.
    pub(crate) fn new() -> PeerAddress {
        // SAFETY: all zeros is an address of no family.
        PeerAddress { storage: unsafe { std::mem::zeroed() }, length: 0 }
    }

    fn of<A>(address: A, length: usize) -> PeerAddress {
        const { assert!(size_of::<A>() <= size_of::<libc::sockaddr_storage>()) };
        const { assert!(align_of::<A>() <= align_of::<libc::sockaddr_storage>()) };
        let mut peer = PeerAddress::new();
        // SAFETY: the place is large enough, as asserted.
        unsafe { (&raw mut peer.storage).cast::<A>().write(address) };
        peer.length = length as libc::socklen_t;
        peer
    }

    /// An address of the Internet.
    pub(crate) fn of_inet(to: SocketAddr) -> PeerAddress {
        match to {
            SocketAddr::V4(to) => {
                // SAFETY: all zeros is an address.
                let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
                address.sin_family = libc::AF_INET as libc::sa_family_t;
                address.sin_port = to.port().to_be();
                address.sin_addr.s_addr = u32::from_ne_bytes(to.ip().octets());
                PeerAddress::of(address, size_of_val(&address))
            }
            SocketAddr::V6(to) => {
                // SAFETY: as above.
                let mut address: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
                address.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                address.sin6_port = to.port().to_be();
                address.sin6_flowinfo = to.flowinfo();
                address.sin6_addr.s6_addr = to.ip().octets();
                address.sin6_scope_id = to.scope_id();
                PeerAddress::of(address, size_of_val(&address))
            }
        }
    }

    /// The path of a Unix socket.
    pub(crate) fn of_unix(to: &Path) -> io::Result<PeerAddress> {
        // SAFETY: all zeros is an address.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        let path = to.as_os_str().as_bytes();
        if path.len() >= address.sun_path.len() || path.contains(&0) {
            let text =
                format!("`{}` is no path of a socket: too long, or a zero in it", to.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (place, byte) in address.sun_path.iter_mut().zip(path) {
            *place = *byte as libc::c_char;
        }
        let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + path.len() + 1;
        Ok(PeerAddress::of(address, length))
    }

    /// The address and its length, as arguments.
    pub(crate) fn get(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        ((&raw const self.storage).cast(), self.length)
    }

    /// Makes it the address of a message: the peer that it goes to.
    pub(crate) fn address(&self, message: &mut libc::msghdr) {
        let (at, length) = self.get();
        (message.msg_name, message.msg_namelen) = (at.cast_mut().cast(), length);
    }

    /// Makes it the place for the address of a message: the peer that it came from.
    pub(crate) fn receive(&mut self, message: &mut libc::msghdr) {
        message.msg_name = (&raw mut self.storage).cast();
        message.msg_namelen = size_of_val(&self.storage) as libc::socklen_t;
    }

    /// Places for the address and for its length, to be written once.
    pub(crate) fn places(&mut self) -> (*mut libc::sockaddr_storage, *mut libc::socklen_t) {
        self.length = size_of_val(&self.storage) as libc::socklen_t;
        (&raw mut self.storage, &raw mut self.length)
    }

    /// The address, if it is one of the Internet.
    pub(crate) fn inet(&self) -> Option<SocketAddr> {
        let at = &raw const self.storage;
        match libc::c_int::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says which address it is; the place is large enough for all.
                let address = unsafe { at.cast::<libc::sockaddr_in>().read() };
                let ip = Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let address = unsafe { at.cast::<libc::sockaddr_in6>().read() };
                let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
                let port = u16::from_be(address.sin6_port);
                let (flow, scope) = (address.sin6_flowinfo, address.sin6_scope_id);
                Some(SocketAddrV6::new(ip, port, flow, scope).into())
            }
            _ => None,
        }
    }
}

/// Reads from a socket without waiting, whatever its flags.
pub(crate) fn recv(fd: BorrowedFd<'_>, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
    let (at, most) = (buffer.as_mut_ptr(), buffer.len().min(MOST));
    // SAFETY: the kernel writes at most so many bytes into the buffer.
    let taken = unsafe {
        let (flags, no_address) = (flags | libc::MSG_DONTWAIT, std::ptr::null_mut::<u8>());
        libc::syscall(libc::SYS_recvfrom, fd.as_raw_fd(), at, most, flags, no_address, no_address)
    };
    counted(taken as isize)
}

/// Writes to a socket without waiting, whatever its flags, and without a signal.
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let (at, most) = (bytes.as_ptr(), bytes.len().min(MOST));
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads at most so many bytes of ours.
    let taken = unsafe {
        let no_address = std::ptr::null::<u8>();
        libc::syscall(libc::SYS_sendto, fd.as_raw_fd(), at, most, flags, no_address, 0_usize)
    };
    counted(taken as isize)
}

/// A message of several buffers.
pub(crate) fn outgoing(bytes: &[io::IoSlice<'_>]) -> libc::msghdr {
    // SAFETY: all zeros is a message without address and control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // `IoSlice` has the layout of `iovec` by contract.
    message.msg_iov = bytes.as_ptr().cast_mut().cast();
    message.msg_iovlen = bytes.len().min(BUFFERS) as _;
    message
}

/// A message that is read into several buffers.
pub(crate) fn incoming(buffers: &mut [io::IoSliceMut<'_>]) -> libc::msghdr {
    // SAFETY: as in `outgoing`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = buffers.as_mut_ptr().cast();
    message.msg_iovlen = buffers.len().min(BUFFERS) as _;
    message
}

/// As [`send`], of several buffers.
pub(crate) fn send_vectored(fd: BorrowedFd<'_>, bytes: &[io::IoSlice<'_>]) -> io::Result<usize> {
    let message = outgoing(bytes);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads the buffers, which are ours.
    counted(unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, flags) })
}

/// As [`recv`], into several buffers.
pub(crate) fn recv_vectored(
    fd: BorrowedFd<'_>,
    buffers: &mut [io::IoSliceMut<'_>],
) -> io::Result<usize> {
    let mut message = incoming(buffers);
    // SAFETY: the kernel writes into the buffers, which are ours alone.
    counted(unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) })
}

/// A message of one buffer.
pub(crate) fn message_of(part: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: as in `outgoing`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (part, 1);
    message
}

/// Takes a datagram without waiting, and the address of its sender.
pub(crate) fn recv_from(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    peer: &mut PeerAddress,
) -> io::Result<usize> {
    let (at, most) = (buffer.as_mut_ptr(), buffer.len().min(MOST));
    let (storage, length) = peer.places();
    // SAFETY: the kernel writes at most so many bytes into the buffer; places of ours for an
    // address and its length.
    let taken = unsafe {
        let flags = libc::MSG_DONTWAIT;
        libc::syscall(libc::SYS_recvfrom, fd.as_raw_fd(), at, most, flags, storage, length)
    };
    counted(taken as isize)
}

/// Sends a datagram without waiting, to this address or to the only peer.
pub(crate) fn send_to(
    fd: BorrowedFd<'_>,
    bytes: &[u8],
    to: Option<&PeerAddress>,
) -> io::Result<usize> {
    let (at, most) = (bytes.as_ptr(), bytes.len().min(MOST));
    let (address, length) = to.map_or((std::ptr::null(), 0), PeerAddress::get);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads at most so many bytes, and an address of that length, of ours.
    let taken = unsafe {
        libc::syscall(libc::SYS_sendto, fd.as_raw_fd(), at, most, flags, address, length)
    };
    counted(taken as isize)
}

/// Takes a connection from a listener, which is non-blocking, and the address of its peer.
pub(crate) fn accept(listener: BorrowedFd<'_>, peer: &mut PeerAddress) -> io::Result<OwnedFd> {
    let (at, length) = peer.places();
    let (fd, flags) = (listener.as_raw_fd(), libc::SOCK_CLOEXEC);
    // SAFETY: places of ours for an address and its length.
    owned(unsafe { libc::accept4(fd, at.cast(), length, flags) })
}

/// Makes the open file description of a descriptor non-blocking.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes no pointers.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    let flags = flags | libc::O_NONBLOCK;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) }).map(drop)
}

/// Reads from a descriptor.
pub(crate) fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (at, most) = (buffer.as_mut_ptr().cast(), buffer.len().min(MOST));
    // SAFETY: the kernel writes at most so many bytes into the buffer.
    counted(unsafe { libc::read(fd.as_raw_fd(), at, most) })
}

/// Writes to a descriptor.
pub(crate) fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let (at, most) = (bytes.as_ptr().cast(), bytes.len().min(MOST));
    // SAFETY: the kernel reads at most so many bytes of ours.
    counted(unsafe { libc::write(fd.as_raw_fd(), at, most) })
}

/// A descriptor of a child that was not waited for. It becomes readable when the child ends.
pub(crate) fn pidfd_open(child: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, child, libc::PIDFD_NONBLOCK) } as RawFd)
}

/// Waits for the end of a child, and reaps it.
pub(crate) fn reap(pidfd: BorrowedFd<'_>) {
    if block(pidfd, libc::POLLIN, None).is_ok() {
        // SAFETY: all zeros is an empty record.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let (id, flags) = (pidfd.as_raw_fd() as libc::id_t, libc::WEXITED | libc::WNOHANG);
        // SAFETY: writes a record of ours.
        unsafe { libc::waitid(libc::P_PIDFD, id, &raw mut info, flags) };
    }
}

/// Reads from a file at its cursor, or at an offset, if the bytes are in the page cache:
/// `WouldBlock` if they are not. `Unsupported` if the file system cannot say.
pub(crate) fn read_cached(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: Option<u64>,
) -> io::Result<usize> {
    let part =
        libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len().min(MOST) };
    // -1: at the cursor, which moves.
    let offset = offset.map_or(Ok(-1), libc::off_t::try_from);
    let offset = offset.map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let (flags, part) = (libc::RWF_NOWAIT, &raw const part);
    // The upper half of an offset is passed apart, and is not looked at where it fits into one.
    // SAFETY: the kernel writes at most so many bytes into the buffer.
    let taken = unsafe {
        libc::syscall(libc::SYS_preadv2, fd.as_raw_fd(), part, 1_usize, offset, 0_usize, flags)
    };
    counted(taken as isize)
}

/// The result of a connection attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connecting {
    Done,
    /// The socket becomes writable when it is decided.
    Pending,
}

/// A TCP socket that is not connected.
pub(crate) fn tcp_socket(to: SocketAddr) -> io::Result<OwnedFd> {
    stream_socket(if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 })
}

/// A TCP socket that begins to connect.
pub(crate) fn connect_tcp(to: SocketAddr) -> io::Result<OwnedFd> {
    let socket = tcp_socket(to)?;
    connect(socket.as_fd(), &PeerAddress::of_inet(to))?;
    Ok(socket)
}

/// A Unix socket that begins to connect. `WouldBlock` if the listener's queue is full: such a
/// socket never becomes writable, so the caller tries again later.
pub(crate) fn connect_unix(to: &Path) -> io::Result<OwnedFd> {
    let address = PeerAddress::of_unix(to)?;
    let socket = stream_socket(libc::AF_UNIX)?;
    connect(socket.as_fd(), &address)?;
    Ok(socket)
}

fn stream_socket(family: libc::c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes no pointers.
    owned(unsafe { libc::socket(family, kind, 0) })
}

/// Begins to connect, or finds that another call has begun.
pub(crate) fn connect(socket: BorrowedFd<'_>, to: &PeerAddress) -> io::Result<Connecting> {
    let (at, length) = to.get();
    // SAFETY: an address of ours, of that length.
    match check(unsafe { libc::connect(socket.as_raw_fd(), at, length) }) {
        Ok(_) => Ok(Connecting::Done),
        Err(error) => match error.raw_os_error() {
            // An interrupted connect goes on by itself.
            Some(libc::EINPROGRESS | libc::EALREADY | libc::EINTR) => Ok(Connecting::Pending),
            Some(libc::EISCONN) => Ok(Connecting::Done),
            _ => Err(error),
        },
    }
}

/// The error of a socket, if it has one, which it forgets.
pub(crate) fn take_error(socket: BorrowedFd<'_>) -> io::Result<()> {
    let (mut code, mut length) = (0, size_of::<libc::c_int>() as libc::socklen_t);
    let (level, option) = (libc::SOL_SOCKET, libc::SO_ERROR);
    let at = (&raw mut code).cast();
    // SAFETY: writes one integer of ours, and its length.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, at, &raw mut length) })?;
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

/// Ensures that a socket is connected: else `NotConnected`.
pub(crate) fn has_peer(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut peer = PeerAddress::new();
    let (at, length) = peer.places();
    // SAFETY: places of ours for an address and its length.
    check(unsafe { libc::getpeername(socket.as_raw_fd(), at.cast(), length) }).map(drop)
}

/// A TCP listener that shares its address with others which say so, too (`SO_REUSEPORT`).
pub(crate) fn listen_shared(at: SocketAddr) -> io::Result<OwnedFd> {
    let socket = tcp_socket(at)?;
    for option in [libc::SO_REUSEADDR, libc::SO_REUSEPORT] {
        set_option(socket.as_fd(), libc::SOL_SOCKET, option, 1)?;
    }
    let address = PeerAddress::of_inet(at);
    let (at, length) = address.get();
    // SAFETY: an address of ours, of that length.
    check(unsafe { libc::bind(socket.as_raw_fd(), at, length) })?;
    lengthen_backlog(socket.as_fd())?;
    Ok(socket)
}

fn set_option(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let (at, length) = ((&raw const value).cast(), size_of_val(&value) as libc::socklen_t);
    // SAFETY: reads one integer of ours.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, at, length) }).map(drop)
}

/// Sets `TCP_NODELAY`. The connections of a listener inherit it.
pub(crate) fn set_nodelay(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)
}
