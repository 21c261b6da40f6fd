//! The system calls that stacks need, behind a trait so that tests can make each of them fail.

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
    /// Says for each page whether it is resident (bit 0 of its byte).
    fn residency(&self, addr: NonNull<u8>, len: usize, pages: &mut [u8]) -> Result<(), Errno>;
}

/// The real system calls.
pub(super) struct Linux;

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

    fn residency(&self, addr: NonNull<u8>, len: usize, pages: &mut [u8]) -> Result<(), Errno> {
        assert!(pages.len() >= len / page_size(), "a byte for every page");
        // SAFETY: reads page tables and fills the buffer, whose length is checked.
        check(unsafe { libc::mincore(addr.as_ptr().cast(), len, pages.as_mut_ptr()) })
    }
}
