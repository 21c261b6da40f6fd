//! The queues that a ring shares with the kernel, and the three system calls.
//!
//! ```text
//!              user ──writes──▶ tail ┌──────────────┐ head ──reads──▶ kernel     submission
//!                                    └──────────────┘
//!   kernel ──writes──▶ tail ┌────────────────────────────┐ head ──reads──▶ user  completion
//!                           └────────────────────────────┘
//! ```
//!
//! Each side writes its own index with a release and reads the other's with an acquire. Without a
//! thread of the kernel that polls (`SQPOLL`), the kernel reads the submission queue only inside of
//! `io_uring_enter`, which the submitter calls: an entry that it has not taken when the call
//! returns is taken back by lowering the tail.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sync the bytes of a file, and not all of its facts.
pub(super) const DATA_ONLY: u32 = 1;

const NOP_CURSOR: u64 = u64::MAX;
const OP_FSYNC: u8 = 3;
const OP_ASYNC_CANCEL: u8 = 14;
const OP_SENDMSG: u8 = 9;
const OP_RECVMSG: u8 = 10;
const OP_ACCEPT: u8 = 13;
const OP_CONNECT: u8 = 16;
const OP_READ: u8 = 22;
const OP_WRITE: u8 = 23;
const OP_SEND: u8 = 26;
const OP_RECV: u8 = 27;

/// The size of the completion queue is given.
const SETUP_CQSIZE: u32 = 1 << 3;
const SETUP_CLAMP: u32 = 1 << 4;
const FEATURE_SINGLE_MMAP: u32 = 1;
/// No completion is dropped: the kernel keeps those that do not fit.
const FEATURE_NODROP: u32 = 1 << 1;
/// Offset -1 is the cursor.
const FEATURE_RW_CUR_POS: u32 = 1 << 3;
const NEEDED: u32 = FEATURE_SINGLE_MMAP | FEATURE_NODROP | FEATURE_RW_CUR_POS;

const OFFSET_QUEUES: libc::off_t = 0;
const OFFSET_ENTRIES: libc::off_t = 0x1000_0000;
const ENTER_GETEVENTS: u32 = 1;
/// Completions wait outside of the queue.
const FLAG_OVERFLOW: u32 = 1 << 1;

/// An entry of the submission queue, as the kernel lays it out.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Entry {
    opcode: u8,
    flags: u8,
    priority: u16,
    fd: i32,
    offset: u64,
    address: u64,
    length: u32,
    op_flags: u32,
    user_data: u64,
    rest: [u64; 3],
}

const _: () = assert!(size_of::<Entry>() == 64);

impl Entry {
    pub(super) fn read(fd: BorrowedFd<'_>, buffer: &mut [u8], at: Option<u64>) -> Entry {
        let length = buffer.len().min(crate::sys::MOST) as u32;
        Entry::bytes(OP_READ, fd, buffer.as_mut_ptr().expose_provenance(), length, at)
    }

    pub(super) fn write(fd: BorrowedFd<'_>, bytes: &[u8], at: Option<u64>) -> Entry {
        let length = bytes.len().min(crate::sys::MOST) as u32;
        Entry::bytes(OP_WRITE, fd, bytes.as_ptr().expose_provenance(), length, at)
    }

    fn bytes(opcode: u8, fd: BorrowedFd<'_>, at: usize, length: u32, offset: Option<u64>) -> Entry {
        let offset = offset.unwrap_or(NOP_CURSOR);
        let fd = fd.as_raw_fd();
        Entry { opcode, fd, offset, address: at as u64, length, ..Entry::default() }
    }

    pub(crate) fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8], flags: libc::c_int) -> Entry {
        let length = buffer.len().min(crate::sys::MOST) as u32;
        let at = buffer.as_mut_ptr().expose_provenance();
        Entry { op_flags: flags as u32, ..Entry::bytes(OP_RECV, fd, at, length, Some(0)) }
    }

    pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> Entry {
        let length = bytes.len().min(crate::sys::MOST) as u32;
        let at = bytes.as_ptr().expose_provenance();
        let op_flags = libc::MSG_NOSIGNAL as u32;
        Entry { op_flags, ..Entry::bytes(OP_SEND, fd, at, length, Some(0)) }
    }

    /// Receives into the buffers of a message.
    pub(crate) fn receive_message(fd: BorrowedFd<'_>, message: &mut libc::msghdr) -> Entry {
        let at = std::ptr::from_mut(message).expose_provenance();
        Entry::bytes(OP_RECVMSG, fd, at, 1, Some(0))
    }

    /// Sends the buffers of a message.
    pub(crate) fn send_message(fd: BorrowedFd<'_>, message: &libc::msghdr) -> Entry {
        let at = std::ptr::from_ref(message).expose_provenance();
        let op_flags = libc::MSG_NOSIGNAL as u32;
        Entry { op_flags, ..Entry::bytes(OP_SENDMSG, fd, at, 1, Some(0)) }
    }

    /// As [`send_message`](Entry::send_message), of a datagram, and not to be tried again by the
    /// kernel: `EAGAIN` if there is no room. The kernel would try with what the first attempt has
    /// left of the buffers, which may be nothing.
    pub(crate) fn send_datagram(fd: BorrowedFd<'_>, message: &libc::msghdr) -> Entry {
        let op_flags = (libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) as u32;
        Entry { op_flags, ..Entry::send_message(fd, message) }
    }

    /// Accepts a connection, and writes the address of its peer.
    pub(crate) fn accept(fd: BorrowedFd<'_>, peer: &mut crate::sys::PeerAddress) -> Entry {
        let (at, length) = peer.places();
        let op_flags = libc::SOCK_CLOEXEC as u32;
        let offset = length.expose_provenance() as u64;
        let address = at.expose_provenance() as u64;
        Entry {
            opcode: OP_ACCEPT,
            fd: fd.as_raw_fd(),
            offset,
            address,
            op_flags,
            ..Entry::default()
        }
    }

    /// Connects a socket.
    pub(crate) fn connect(fd: BorrowedFd<'_>, to: &crate::sys::PeerAddress) -> Entry {
        let (at, length) = to.get();
        // Where other operations have their offset.
        let (address, offset) = (at.expose_provenance() as u64, u64::from(length));
        Entry { opcode: OP_CONNECT, fd: fd.as_raw_fd(), offset, address, ..Entry::default() }
    }

    pub(super) fn sync(fd: BorrowedFd<'_>, flags: u32) -> Entry {
        Entry { opcode: OP_FSYNC, fd: fd.as_raw_fd(), op_flags: flags, ..Entry::default() }
    }

    /// Cancels the operation with this data.
    pub(super) fn cancel(data: u64) -> Entry {
        Entry { opcode: OP_ASYNC_CANCEL, fd: -1, address: data, ..Entry::default() }
    }
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Completed {
    user_data: u64,
    result: i32,
    flags: u32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct SubmissionOffsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    reserved: u32,
    user_address: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct CompletionOffsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    overflow: u32,
    completed: u32,
    flags: u32,
    reserved: u32,
    user_address: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Params {
    submission_entries: u32,
    completion_entries: u32,
    flags: u32,
    thread_cpu: u32,
    thread_idle: u32,
    features: u32,
    worker_fd: u32,
    reserved: [u32; 3],
    submission: SubmissionOffsets,
    completion: CompletionOffsets,
}

const _: () = assert!(size_of::<Params>() == 120);

/// Memory that is shared with the kernel.
struct Mapping {
    at: NonNull<u8>,
    length: usize,
}

// SAFETY: plain memory, unmapped once; who reads and writes it is the queues' business.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(fd: BorrowedFd<'_>, length: usize, offset: libc::off_t) -> io::Result<Mapping> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), length, protection, flags, fd.as_raw_fd(), offset)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A forked child must not touch the queues of its parent.
        // SAFETY: the mapping above.
        unsafe { libc::madvise(at, length, libc::MADV_DONTFORK) };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { at, length })
    }

    /// # Safety
    ///
    /// The kernel has put such a value at this offset.
    unsafe fn at<T>(&self, offset: u32) -> NonNull<T> {
        // SAFETY: within the mapping, as the kernel says.
        unsafe { self.at.add(offset as usize).cast() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped once, and the queues that point into it are gone.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.length) };
    }
}

/// Both queues of a new ring. The descriptor is closed first, then the memory is unmapped.
pub(super) struct Queues {
    pub(super) submission: Submission,
    pub(super) completion: Completion,
    fd: OwnedFd,
    _queues: Mapping,
    _entries: Mapping,
}

/// The queue of entries for the kernel.
pub(super) struct Submission {
    fd: i32,
    head: NonNull<AtomicU32>,
    tail: NonNull<AtomicU32>,
    mask: u32,
    /// Numbers of entries, in the order of submission.
    array: NonNull<u32>,
    entries: NonNull<Entry>,
}

/// The queue of completions from the kernel.
pub(super) struct Completion {
    fd: i32,
    head: NonNull<AtomicU32>,
    tail: NonNull<AtomicU32>,
    /// Flags of the submission side, which tell of an overflow here.
    flags: NonNull<AtomicU32>,
    mask: u32,
    completed: NonNull<Completed>,
}

// SAFETY: pointers into the mappings, which outlive them; each is used by one thread at a time,
// and shared with the kernel by the protocol of the header.
unsafe impl Send for Submission {}
// SAFETY: as above.
unsafe impl Send for Completion {}

fn enter(fd: i32, submit: u32, wait: u32, flags: u32) -> io::Result<u32> {
    let no_mask = std::ptr::null::<libc::sigset_t>();
    // SAFETY: the queues are mapped; no mask is passed.
    let taken = unsafe {
        libc::syscall(libc::SYS_io_uring_enter, fd, submit, wait, flags, no_mask, 0_usize)
    };
    u32::try_from(taken).map_err(|_| io::Error::last_os_error())
}

impl Queues {
    /// Queues with so many entries and completions.
    pub(super) fn new(entries: u32, completions: u32) -> io::Result<Queues> {
        let flags = SETUP_CLAMP | SETUP_CQSIZE;
        let completion_entries = completions;
        let mut params = Params { flags, completion_entries, ..Params::default() };
        // SAFETY: reads and writes a structure of ours.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, entries, &raw mut params) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, and no one else has it. It is closed on exec, always.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        if params.features & NEEDED != NEEDED {
            return Err(io::ErrorKind::Unsupported.into()); // before Linux 5.6
        }
        let (submission, completion) = (params.submission, params.completion);
        let submission_end =
            submission.array as usize + params.submission_entries as usize * size_of::<u32>();
        let completion_end = completion.completed as usize
            + params.completion_entries as usize * size_of::<Completed>();
        let queues = Mapping::new(fd.as_fd(), submission_end.max(completion_end), OFFSET_QUEUES)?;
        let length = params.submission_entries as usize * size_of::<Entry>();
        let entries = Mapping::new(fd.as_fd(), length, OFFSET_ENTRIES)?;
        let number = fd.as_raw_fd();
        // SAFETY: the kernel has put these values at these offsets, and the masks do not change.
        let (submission, completion) = unsafe {
            let submission_queue = Submission {
                fd: number,
                head: queues.at(submission.head),
                tail: queues.at(submission.tail),
                mask: queues.at::<u32>(submission.mask).read(),
                array: queues.at(submission.array),
                entries: entries.at(0),
            };
            let completion_queue = Completion {
                fd: number,
                head: queues.at(completion.head),
                tail: queues.at(completion.tail),
                flags: queues.at(submission.flags),
                mask: queues.at::<u32>(completion.mask).read(),
                completed: queues.at(completion.completed),
            };
            (submission_queue, completion_queue)
        };
        Ok(Queues { submission, completion, fd, _queues: queues, _entries: entries })
    }

    /// Blocks until there is a completion.
    pub(super) fn wait(&self) -> io::Result<()> {
        loop {
            match enter(self.fd.as_raw_fd(), 0, 1, ENTER_GETEVENTS) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done.map(drop),
            }
        }
    }
}

impl Submission {
    /// From now on the kernel takes no entries.
    #[cfg(test)]
    pub(super) fn refuse(&mut self) {
        self.fd = -1;
    }

    /// Entries that the kernel has not taken.
    pub(super) fn waiting(&self) -> u32 {
        // SAFETY: mapped; the tail is ours to write.
        let (head, tail) = unsafe { (self.head.as_ref(), self.tail.as_ref()) };
        // Acquire: pairs with the kernel's Release: it is done with the entries before the head.
        // Relaxed: the tail is only written here, under the lock.
        tail.load(Ordering::Relaxed).wrapping_sub(head.load(Ordering::Acquire))
    }

    /// Puts an entry behind the others, after a submission if the queue is full. False if it is
    /// still full.
    ///
    /// # Safety
    ///
    /// The memory that the entry points to lives until its completion.
    pub(super) unsafe fn push(&mut self, entry: &Entry, data: u64) -> bool {
        if self.waiting() > self.mask {
            self.submit();
            if self.waiting() > self.mask {
                return false;
            }
        }
        // SAFETY: mapped; the tail is ours to write.
        let tail = unsafe { self.tail.as_ref() };
        let at = tail.load(Ordering::Relaxed); // only written here, under the lock
        let place = at & self.mask;
        // SAFETY: a place within both arrays, and not the kernel's: the queue is not full.
        unsafe {
            self.entries.add(place as usize).write(Entry { user_data: data, ..*entry });
            self.array.add(place as usize).write(place);
        }
        tail.store(at.wrapping_add(1), Ordering::Release); // pairs with the kernel's Acquire
        true
    }

    /// Gives entries to the kernel, until it has all of them or takes no more.
    pub(super) fn submit(&mut self) {
        loop {
            let waiting = self.waiting();
            if waiting == 0 {
                return;
            }
            match enter(self.fd, waiting, 0, 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(taken) if taken > 0 => {}
                _ => return,
            }
        }
    }

    /// Gives an entry to the kernel at once, after those that wait. An error says that the kernel
    /// has not taken it.
    ///
    /// # Safety
    ///
    /// The memory that the entry points to lives until its completion.
    pub(super) unsafe fn submit_now(&mut self, entry: &Entry, data: u64) -> io::Result<()> {
        // SAFETY: as the caller says.
        if !unsafe { self.push(entry, data) } {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        self.submit();
        if self.waiting() == 0 {
            return Ok(());
        }
        // SAFETY: mapped; the tail is ours to write.
        let tail = unsafe { self.tail.as_ref() };
        let at = tail.load(Ordering::Relaxed); // as in `push`
        // Taken back, it is the last one: the kernel reads the tail only when we enter.
        tail.store(at.wrapping_sub(1), Ordering::Relaxed);
        Err(io::ErrorKind::ResourceBusy.into())
    }
}

impl Completion {
    /// Completions that were not taken.
    pub(super) fn waiting(&self) -> u32 {
        // SAFETY: mapped; the head is ours to write.
        let (head, tail) = unsafe { (self.head.as_ref(), self.tail.as_ref()) };
        // Relaxed, both: a number for observers.
        tail.load(Ordering::Relaxed).wrapping_sub(head.load(Ordering::Relaxed))
    }

    /// Takes all completions: their data, and their results.
    pub(super) fn take(&mut self, mut each: impl FnMut(u64, i32)) {
        // SAFETY: mapped; the head is ours to write.
        let (head, tail, flags) =
            unsafe { (self.head.as_ref(), self.tail.as_ref(), self.flags.as_ref()) };
        loop {
            let mut at = head.load(Ordering::Relaxed); // only written here, under the lock
            // Acquire: pairs with the kernel's Release: the completions up to there are written.
            let end = tail.load(Ordering::Acquire);
            while at != end {
                // SAFETY: a place within the array that the kernel has written.
                let done = unsafe { self.completed.add((at & self.mask) as usize).read() };
                each(done.user_data, done.result);
                at = at.wrapping_add(1);
            }
            head.store(at, Ordering::Release); // pairs with the kernel's Acquire: free places
            // Relaxed: a flag that is looked at again after the next event.
            if flags.load(Ordering::Relaxed) & FLAG_OVERFLOW == 0
                || enter(self.fd, 0, 0, ENTER_GETEVENTS).is_err()
            {
                return;
            }
        }
    }
}

/// The queues of a ring that several threads use.
pub(super) struct Shared {
    submission: Mutex<Submission>,
    completion: Mutex<Completion>,
    fd: OwnedFd,
    _queues: Mapping,
    _entries: Mapping,
}

// SAFETY: the mappings are only kept; the queues are behind locks.
unsafe impl Sync for Shared {}

impl From<Queues> for Shared {
    fn from(queues: Queues) -> Shared {
        let Queues { submission, completion, fd, _queues, _entries } = queues;
        let (submission, completion) = (Mutex::new(submission), Mutex::new(completion));
        Shared { submission, completion, fd, _queues, _entries }
    }
}

impl Shared {
    pub(super) fn submission(&self) -> MutexGuard<'_, Submission> {
        self.submission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn completion(&self) -> MutexGuard<'_, Completion> {
        self.completion.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Shared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
