//! The system calls that stacks need, behind a trait so that tests can make each of them fail.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// An error number of a system call.
pub(super) type Errno = i32;

/// `MADV_GUARD_INSTALL`, Linux 6.13.
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// The calls. All addresses and lengths are multiples of the page size, and lie
/// inside one reservation of the same pool.
pub(super) trait Sys: Send + Sync {
    /// Reserves address space: readable, writable, zero, nothing committed.
    fn reserve(&self, len: usize) -> Result<NonNull<u8>, Errno>;
    /// Gives a reservation back, whole.
    fn unreserve(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno>;
    /// Keeps the kernel from backing stacks with huge pages.
    fn forbid_huge_pages(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno>;
    /// Makes pages fault, by markers in the page tables.
    fn install_guard(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno>;
    /// Makes pages fault, by taking away the mapping's permissions.
    fn protect_guard(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno>;
    /// Gives memory back to the system; it reads as zero afterwards.
    fn discard(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno>;
    /// The same for several ranges, all or some of them if it fails.
    fn discard_all(&self, ranges: &[Range]) -> Result<(), Errno> {
        ranges.iter().try_for_each(|range| self.discard(range.addr, range.len))
    }
    /// Says for each page whether it is resident (bit 0 of its byte).
    fn residency(&self, addr: NonNull<u8>, len: usize, pages: &mut [u8]) -> Result<(), Errno>;
}

/// A range of memory, laid out as the system calls want it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Range {
    pub(super) addr: NonNull<u8>,
    pub(super) len: usize,
}

const _: () = assert!(size_of::<Range>() == size_of::<libc::iovec>());
const _: () =
    assert!(std::mem::offset_of!(Range, len) == std::mem::offset_of!(libc::iovec, iov_len));

/// The real system calls.
pub(super) struct Linux {
    /// This process, for `process_madvise`; none where the kernel does not know that call.
    process: OnceLock<Option<OwnedFd>>,
}

impl Linux {
    pub(super) fn new() -> Linux {
        Linux { process: OnceLock::new() }
    }

    fn process(&self) -> Option<&OwnedFd> {
        let open = || {
            // SAFETY: has no effect but a new descriptor, which is closed on exec.
            let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
            // SAFETY: new, and owned by this call.
            i32::try_from(fd)
                .ok()
                .filter(|&fd| fd >= 0)
                .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
        };
        self.process.get_or_init(open).as_ref()
    }
}

pub(super) fn page_size() -> usize {
    static PAGE: OnceLock<usize> = OnceLock::new();
    *PAGE.get_or_init(|| {
        // SAFETY: asks for a constant of the system.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).unwrap_or(4096)
    })
}

pub(super) fn errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn check(result: libc::c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(errno()) }
}

impl Sys for Linux {
    fn reserve(&self, len: usize) -> Result<NonNull<u8>, Errno> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // Map without permissions, unlock, then grant permissions: in a process that locks all
        // its memory (mlockall) the whole mapping would otherwise become resident immediately.
        // SAFETY: a new anonymous mapping at an address of the kernel's choice overlaps no memory
        // in use; the calls after it concern that mapping only.
        unsafe {
            let addr = libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0);
            if addr == libc::MAP_FAILED {
                return Err(errno());
            }
            libc::munlock(addr, len);
            if libc::mprotect(addr, len, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                let errno = errno();
                libc::munmap(addr, len);
                return Err(errno);
            }
            NonNull::new(addr.cast()).ok_or(libc::ENOMEM)
        }
    }

    fn unreserve(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno> {
        // SAFETY: the range is a reservation of this pool that is no longer used.
        check(unsafe { libc::munmap(addr.as_ptr().cast(), len) })
    }

    fn forbid_huge_pages(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno> {
        // SAFETY: changes no contents.
        check(unsafe { libc::madvise(addr.as_ptr().cast(), len, libc::MADV_NOHUGEPAGE) })
    }

    fn install_guard(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno> {
        // SAFETY: the pages are guard pages of this pool; they hold no data.
        check(unsafe { libc::madvise(addr.as_ptr().cast(), len, MADV_GUARD_INSTALL) })
    }

    fn protect_guard(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno> {
        // SAFETY: as above.
        check(unsafe { libc::mprotect(addr.as_ptr().cast(), len, libc::PROT_NONE) })
    }

    fn discard(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno> {
        // SAFETY: the range is stack memory that no fiber uses.
        check(unsafe { libc::madvise(addr.as_ptr().cast(), len, libc::MADV_DONTNEED) })
    }

    fn discard_all(&self, ranges: &[Range]) -> Result<(), Errno> {
        // Linux 6.13 takes any advice from a process about itself, and invalidates the TLBs of its
        // threads once for all ranges (6.16). In the child of a fork the descriptor means another
        // process, about which the kernel takes no such advice.
        if ranges.len() > 1
            && let Some(process) = self.process()
        {
            let whole: usize = ranges.iter().map(|range| range.len).sum();
            // SAFETY: the ranges are stack memory that no fiber uses; they are laid out as the
            // call wants it.
            let done = unsafe {
                let (fd, at, count) = (process.as_raw_fd(), ranges.as_ptr(), ranges.len());
                libc::syscall(libc::SYS_process_madvise, fd, at, count, libc::MADV_DONTNEED, 0)
            };
            if usize::try_from(done) == Ok(whole) {
                return Ok(());
            }
        }
        ranges.iter().try_for_each(|range| self.discard(range.addr, range.len))
    }

    fn residency(&self, addr: NonNull<u8>, len: usize, pages: &mut [u8]) -> Result<(), Errno> {
        assert!(pages.len() >= len / page_size(), "a byte for every page");
        // SAFETY: reads page tables and fills the buffer, whose length is checked.
        check(unsafe { libc::mincore(addr.as_ptr().cast(), len, pages.as_mut_ptr()) })
    }
}
