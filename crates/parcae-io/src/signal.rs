//! Signals as channels.
//!
//! ```
//! use parcae::prelude::*;
//! use parcae_io::signal;
//!
//! let rt = Runtime::builder().build()?;
//! rt.run(|_| {
//!     let hangups = signal::channel(signal::SIGHUP)?;
//!     # let us = std::process::id().to_string();
//!     # std::process::Command::new("kill").args(["-HUP", &us]).status()?;
//!     assert_eq!(hangups.recv()?, signal::SIGHUP); // read the settings again
//!     Ok(())
//! })?;
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! # Protocol
//!
//! One registry for the process, because signals belong to it. The handler sets the bit of its
//! signal in one word and writes to an eventfd: both are allowed in a handler. One thread, started
//! by the first subscription, reads the eventfd, takes the bits and sends each signal to its
//! subscribers. The bit is set before the write, and taken after the read, so no signal is lost; a
//! signal that comes again before its bit was taken is the same one, as in the kernel.
//!
//! A subscription holds one signal that was not received; further ones are merged with it. A
//! subscriber that has dropped its receiver is forgotten at the next signal. The handler stays: a
//! signal without subscribers is ignored from then on.
//!
//! Under the deterministic executor signals come from [`sim::raise`](crate::sim::raise).

use crate::sys;
use parcae::channel::{Receiver, Sender};
use parcae::io::IoPlace;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Ctrl-C at the terminal.
pub const SIGINT: i32 = libc::SIGINT;
/// The polite request to end.
pub const SIGTERM: i32 = libc::SIGTERM;
/// The terminal is gone; for services: read the settings again.
pub const SIGHUP: i32 = libc::SIGHUP;
/// Free for the program's use.
pub const SIGUSR1: i32 = libc::SIGUSR1;
/// Free for the program's use.
pub const SIGUSR2: i32 = libc::SIGUSR2;

/// Signals that have come and were not passed on, a bit for each.
static PENDING: AtomicU64 = AtomicU64::new(0);
/// The eventfd that wakes the thread; -1 until it is there.
static BELL: AtomicI32 = AtomicI32::new(-1);
static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { bell: None, caught: 0, subscribers: Vec::new() });

struct Registry {
    bell: Option<OwnedFd>,
    /// Signals with a handler, a bit for each.
    caught: u64,
    subscribers: Vec<(i32, Sender<i32>)>,
}

/// Ctrl-C as a channel: SIGINT. After the first subscription it no longer ends the process.
///
/// ```no_run
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().build()?;
/// rt.run(|cx| {
///     let (interrupts, stop) = (parcae_io::signal::ctrl_c()?, CancelToken::new());
///     cx.nursery(|n| {
///         n.spawn(|cx| cx.nursery_with(NurseryOpts::new().token(&stop), |_| Ok(())))?;
///         interrupts.recv()?;
///         stop.cancel();
///         Ok(())
///     })
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Errors
///
/// As for [`channel`].
pub fn ctrl_c() -> io::Result<Receiver<i32>> {
    channel(SIGINT)
}

/// A signal as a channel, whose values are the signal's number. It can be a case of
/// [`select!`](parcae::select!). The signal no longer does what it would have done.
///
/// # Errors
///
/// For a signal that cannot be caught, or that tells of a fault of the program itself; if the
/// kernel refuses.
pub fn channel(signal: i32) -> io::Result<Receiver<i32>> {
    let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];
    if !(1..64).contains(&signal) || faults.contains(&signal) {
        let text = format!("signal {signal} cannot be a channel: it is a fault, or there is none");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let (sender, receiver) = parcae::channel::channel(1);
    if parcae::io::place() == IoPlace::Simulated {
        crate::sim::subscribe(signal, sender)?;
        return Ok(receiver);
    }
    let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    if registry.bell.is_none() {
        let bell = sys::eventfd()?;
        let number = bell.as_raw_fd();
        // If there is no thread, the next subscription tries again.
        std::thread::Builder::new().name("parcae-signals".into()).spawn(move || pass_on(number))?;
        registry.bell = Some(bell); // never closed: a handler may be about to write
        BELL.store(number, Ordering::Release); // pairs with the Acquire in `note`
    }
    if registry.caught & (1 << signal) == 0 {
        install(signal)?;
        registry.caught |= 1 << signal;
    }
    registry.subscribers.push((signal, sender));
    Ok(receiver)
}

fn install(signal: i32) -> io::Result<()> {
    // SAFETY: all zeros is an empty action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = note as *const () as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the handler does only what is allowed in one; the action is ours.
    let done = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The handler.
extern "C" fn note(signal: libc::c_int) {
    // SAFETY: the address of this thread's variable; the handler must leave it as it was.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    PENDING.fetch_or(1 << signal, Ordering::Release); // pairs with the Acquire in `pass_on`
    let bell = BELL.load(Ordering::Acquire); // pairs with the Release in `channel`
    if bell >= 0 {
        // SAFETY: never closed.
        sys::eventfd_write(unsafe { BorrowedFd::borrow_raw(bell) });
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// The thread that passes signals on.
fn pass_on(bell: i32) {
    // SAFETY: never closed.
    let bell = unsafe { BorrowedFd::borrow_raw(bell) };
    loop {
        if sys::eventfd_wait(bell.as_fd()).is_err() {
            return; // nothing that could be waited for is left
        }
        // Acquire: pairs with the Release in `note`.
        let pending = PENDING.swap(0, Ordering::Acquire);
        let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
        registry.subscribers.retain(|(signal, sender)| {
            // A full one holds the signal already.
            pending & (1 << signal) == 0
                || !matches!(sender.try_send(*signal), Err(e) if e.is_closed())
        });
    }
}
