//! A system whose calls fail as planned.

use super::super::sys::{Errno, Linux, Sys};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The plan and the record of a [`Faulty`] system; shared with the test.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) calls: AtomicUsize,
    /// Which call fails, counted from 1; 0 for none.
    pub(super) fail_at: AtomicUsize,
    /// Fail every call from that one on.
    pub(super) from_then_on: AtomicBool,
    pub(super) no_page_table_guards: AtomicBool,
    pub(super) no_discard: AtomicBool,
    pub(super) no_reserve: AtomicBool,
    /// Bytes mapped and not unmapped.
    pub(super) mapped: AtomicI64,
    pub(super) log: Mutex<Vec<&'static str>>,
}

impl Plan {
    fn fails(&self, call: &'static str) -> bool {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        self.log.lock().unwrap().push(call);
        let at = self.fail_at.load(Ordering::Relaxed);
        at != 0 && (number == at || number > at && self.from_then_on.load(Ordering::Relaxed))
    }

    pub(super) fn fail_next(&self) {
        self.fail_at.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// The real system calls, except those that fail by plan.
pub(super) struct Faulty(pub(super) Arc<Plan>);

impl Sys for Faulty {
    fn reserve(&self, len: usize) -> Result<NonNull<u8>, Errno> {
        if self.0.fails("reserve") || self.0.no_reserve.load(Ordering::Relaxed) {
            return Err(libc::ENOMEM);
        }
        self.0.mapped.fetch_add(len as i64, Ordering::Relaxed);
        Linux::new().reserve(len)
    }

    fn unreserve(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno> {
        if self.0.fails("unreserve") {
            return Err(libc::ENOMEM);
        }
        self.0.mapped.fetch_sub(len as i64, Ordering::Relaxed);
        Linux::new().unreserve(addr, len)
    }

    fn forbid_huge_pages(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno> {
        if self.0.fails("forbid_huge_pages") {
            return Err(libc::EINVAL);
        }
        Linux::new().forbid_huge_pages(addr, len)
    }

    fn install_guard(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno> {
        if self.0.no_page_table_guards.load(Ordering::Relaxed) {
            return Err(libc::EINVAL);
        }
        if self.0.fails("install_guard") {
            return Err(libc::ENOMEM);
        }
        Linux::new().install_guard(addr, len)
    }

    fn protect_guard(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno> {
        if self.0.fails("protect_guard") {
            return Err(libc::ENOMEM);
        }
        Linux::new().protect_guard(addr, len)
    }

    fn discard(&self, addr: NonNull<u8>, len: usize) -> Result<(), Errno> {
        if self.0.no_discard.load(Ordering::Relaxed) || self.0.fails("discard") {
            return Err(libc::EINVAL);
        }
        Linux::new().discard(addr, len)
    }

    fn residency(&self, addr: NonNull<u8>, len: usize, pages: &mut [u8]) -> Result<(), Errno> {
        if self.0.fails("residency") {
            return Err(libc::ENOMEM);
        }
        Linux::new().residency(addr, len, pages)
    }
}
