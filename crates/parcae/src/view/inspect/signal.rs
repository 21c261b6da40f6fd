//! A dump when the process receives a signal, as Java and Go give on `SIGQUIT`.
//!
//! # Ownership
//!
//! Signal handlers belong to the process, so part of their state is static: a table of [`SLOTS`]
//! event descriptors, and the dispositions that were found. Nothing in it leads to a scheduler. A
//! [`DumpOnSignal`] owns one slot of the table and a thread; the thread alone knows the runtime,
//! weakly.
//!
//! | slot | set by | left by |
//! |---|---|---|
//! | free: `signal` 0 | the thread, as the last thing that it does | `dump_on_signal`, under the lock |
//! | taken: `signal` > 0 | `dump_on_signal`, under the lock, before the handler is installed | `drop`: closing |
//! | closing: `signal` -1 | `drop`, which wakes the thread | the thread: free |
//!
//! The handler adds one to the event descriptor of every slot with its signal, which a handler may
//! do; the thread of the slot waits for that and writes the dump. Descriptors are never closed and
//! are reused with their slot, so a late handler never writes to a descriptor that has become
//! another file. At worst the next owner of the slot writes a superfluous dump. Signals that come
//! during a dump cause one more dump.

use super::Dump;
use crate::sched::Shared;
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError, Weak};

/// The most dumps on signals at a time, over all runtimes of the process.
const SLOTS: usize = 32;
const FREE: i32 = 0;
const CLOSING: i32 = -1;

/// Keeps dumps on a signal going; they end when it is dropped. See
/// [`Runtime::dump_on_signal`](crate::Runtime::dump_on_signal).
#[derive(Debug)]
#[must_use = "dumps end when it is dropped"]
pub struct DumpOnSignal {
    slot: &'static SignalSlot,
    signal: i32,
}

/// Connects the handler with one thread.
#[derive(Debug)]
struct SignalSlot {
    /// The signal, or the state; see the table in the header.
    signal: AtomicI32,
    /// An event descriptor; -1 before the slot was first used.
    event: AtomicI32,
}

static TABLE: [SignalSlot; SLOTS] =
    [const { SignalSlot { signal: AtomicI32::new(FREE), event: AtomicI32::new(-1) } }; SLOTS];

/// Signals that are handled here, with their former dispositions. Its lock also guards taking a
/// slot.
static HANDLED: Mutex<Vec<Handled>> = Mutex::new(Vec::new());

struct Handled {
    signal: i32,
    before: libc::sigaction,
    /// Number of slots for it.
    slots: usize,
}

// SAFETY: plain data of the system.
unsafe impl Send for Handled {}

/// Dumps the scheduler to standard error whenever the process receives this signal; see
/// [`Runtime::dump_on_signal`](crate::Runtime::dump_on_signal).
pub(crate) fn dump_on_signal(shared: Weak<Shared>, signal: i32) -> io::Result<DumpOnSignal> {
    let mut handled = HANDLED.lock().unwrap_or_else(PoisonError::into_inner);
    // Acquire: pairs with the Release in `serve`: its thread is done with the slot.
    let free = TABLE.iter().find(|slot| slot.signal.load(Ordering::Acquire) == FREE);
    let Some(slot) = free else {
        return Err(io::Error::other(format!(
            "{SLOTS} dumps on signals are active; drop one of their `DumpOnSignal`s first"
        )));
    };
    slot.open()?;
    handle(&mut handled, signal)?;
    // Relaxed: a handler that reads it early or late causes one dump more or less.
    slot.signal.store(signal, Ordering::Relaxed);
    let thread = std::thread::Builder::new().name("parcae-dump".into());
    if let Err(error) = thread.spawn(move || slot.serve(&shared)) {
        slot.signal.store(FREE, Ordering::Relaxed); // under the lock; no thread has it
        unhandle(&mut handled, signal);
        return Err(error);
    }
    Ok(DumpOnSignal { slot, signal })
}

impl Drop for DumpOnSignal {
    fn drop(&mut self) {
        let mut handled = HANDLED.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: the event below orders it before the thread's load in `serve`.
        self.slot.signal.store(CLOSING, Ordering::Relaxed);
        unhandle(&mut handled, self.signal);
        self.slot.ring();
    }
}

/// One more slot for a signal: installs the handler with the first.
fn handle(handled: &mut Vec<Handled>, signal: i32) -> io::Result<()> {
    if let Some(known) = handled.iter_mut().find(|known| known.signal == signal) {
        known.slots += 1;
        return Ok(());
    }
    // SAFETY: zeroed is a valid sigaction; the handler does only what handlers may.
    let before = unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        if libc::sigaction(signal, &action, &mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        before
    };
    handled.push(Handled { signal, before, slots: 1 });
    Ok(())
}

/// One slot less: restores the former disposition with the last.
fn unhandle(handled: &mut Vec<Handled>, signal: i32) {
    let Some(at) = handled.iter().position(|known| known.signal == signal) else { return };
    handled[at].slots -= 1;
    if handled[at].slots == 0 {
        let gone = handled.swap_remove(at);
        // SAFETY: the disposition that was in force before ours.
        unsafe { libc::sigaction(gone.signal, &gone.before, std::ptr::null_mut()) };
    }
}

extern "C" fn on_signal(signal: i32) {
    // SAFETY: `errno` is the thread's own; restored, because `ring` may change it.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        // Relaxed: see `dump_on_signal`.
        for slot in TABLE.iter().filter(|slot| slot.signal.load(Ordering::Relaxed) == signal) {
            slot.ring();
        }
        *errno = before;
    }
}

impl SignalSlot {
    /// Makes sure that there is an event descriptor, and that it is empty. Called under the lock.
    fn open(&self) -> io::Result<()> {
        let event: RawFd = self.event.load(Ordering::Relaxed); // written under the lock
        if event >= 0 {
            let mut count = 0_u64;
            // SAFETY: room for a count; the descriptor does not block.
            unsafe { libc::read(event, (&raw mut count).cast(), size_of::<u64>()) };
            return Ok(());
        }
        // Not blocking: a handler must not wait.
        // SAFETY: has no preconditions.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        self.event.store(event, Ordering::Relaxed); // before any handler reads the slot
        Ok(())
    }

    /// Wakes the thread of the slot. May be called by a signal handler.
    fn ring(&self) {
        let one = 1_u64;
        let event = self.event.load(Ordering::Relaxed); // set once, before `signal`
        // SAFETY: writes a count to an event descriptor that is never closed.
        unsafe { libc::write(event, (&raw const one).cast(), size_of::<u64>()) };
    }

    /// Waits for the next signal.
    fn wait(&self) {
        let event = self.event.load(Ordering::Relaxed); // as above
        let mut poll = libc::pollfd { fd: event, events: libc::POLLIN, revents: 0 };
        let mut count = 0_u64;
        // SAFETY: one entry, and room for a count.
        unsafe {
            libc::poll(&raw mut poll, 1, -1);
            libc::read(event, (&raw mut count).cast(), size_of::<u64>());
        }
    }

    /// The thread: a dump for each signal, until the slot is closed.
    fn serve(&self, shared: &Weak<Shared>) {
        loop {
            self.wait();
            // Relaxed: ordered by the event that `drop` has written.
            if self.signal.load(Ordering::Relaxed) == CLOSING {
                break;
            }
            // The slot may outlive the runtime, which has nothing to show then.
            if let Some(shared) = shared.upgrade() {
                // A failure to write is ignored.
                let _ = write!(io::stderr(), "parcae: {}", Dump::of(&shared));
            }
        }
        // Release: pairs with the Acquire in `dump_on_signal`: the slot's next thread comes after
        // this one.
        self.signal.store(FREE, Ordering::Release);
    }
}
