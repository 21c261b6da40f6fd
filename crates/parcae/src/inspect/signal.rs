//! A dump when the process is sent a signal, as Java and Go give on `SIGQUIT`.
//!
//! The handler only writes a byte into a pipe; a thread of its own reads it and writes the dump. Handlers are the
//! process's, so there is one list of those who asked for it; everything else belongs to the
//! [`DumpOnSignal`] that asked.

use super::Dump;
use crate::profile::Profile;
use crate::runtime::Runtime;
use crate::sched::Shared;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError, Weak};

/// Keeps dumps on a signal going; they end when it is dropped. See [`dump_on_signal`].
#[derive(Debug)]
#[must_use = "dumps end when it is dropped"]
pub struct DumpOnSignal {
    number: u64,
}

struct Asked {
    number: u64,
    signal: i32,
    shared: Weak<Shared>,
    before: libc::sigaction,
}

// SAFETY: plain data of the system.
unsafe impl Send for Asked {}

static ASKED: Mutex<(u64, Vec<Asked>)> = Mutex::new((0, Vec::new()));
/// Where the handler writes; -1 before anybody has asked.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// Writes a [`Dump`] of the runtime to the standard error output whenever the process is sent this signal, for example `libc::SIGQUIT`,
/// which a terminal sends for `Ctrl-\`. It works when all workers are stuck.
///
/// ```
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().build()?;
/// let _dumps = parcae::inspect::dump_on_signal(&rt, libc::SIGQUIT)?;
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Errors
///
/// If the system refuses the handler, a pipe or a thread.
pub fn dump_on_signal<P: Profile>(rt: &Runtime<P>, signal: i32) -> io::Result<DumpOnSignal> {
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    if PIPE.load(Ordering::Relaxed) < 0 {
        start()?;
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
    asked.0 += 1;
    let number = asked.0;
    asked.1.push(Asked { number, signal, shared: rt.shared(), before });
    Ok(DumpOnSignal { number })
}

impl Drop for DumpOnSignal {
    fn drop(&mut self) {
        let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = asked.1.iter().position(|asked| asked.number == self.number) else { return };
        let gone = asked.1.remove(at);
        // Whoever asked later has found our handler; it gets what we have found.
        match asked.1[at..].iter_mut().find(|later| later.signal == gone.signal) {
            Some(later) => later.before = gone.before,
            // SAFETY: what was there before us.
            None => unsafe {
                libc::sigaction(gone.signal, &gone.before, std::ptr::null_mut());
            },
        }
    }
}

extern "C" fn on_signal(signal: i32) {
    let pipe: RawFd = PIPE.load(Ordering::Relaxed); // set before any handler
    let byte = signal as u8; // there are fewer than 128
    // SAFETY: write is allowed in handlers; errno, which it may change, is put back.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(pipe, (&raw const byte).cast(), 1);
        *errno = before;
    }
}

/// Makes the pipe, and the thread that reads it.
fn start() -> io::Result<()> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which are ours from then on.
    let (mut out, into) = unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    };
    // A handler must not wait: what does not fit is a dump that is asked for already.
    // SAFETY: a descriptor of ours.
    unsafe { libc::fcntl(into.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    std::thread::Builder::new().name("parcae-dump".into()).spawn(move || {
        let mut byte = [0];
        while out.read_exact(&mut byte).is_ok() {
            write_dumps(i32::from(byte[0]));
        }
    })?;
    PIPE.store(into.as_raw_fd(), Ordering::Relaxed);
    std::mem::forget(into); // the handler's, for good
    Ok(())
}

fn write_dumps(signal: i32) {
    let wanted: Vec<_> = {
        let asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
        let of_signal = asked.1.iter().filter(|asked| asked.signal == signal);
        of_signal.filter_map(|asked| asked.shared.upgrade()).collect()
    };
    for shared in wanted {
        // Nobody is left to hear of a failure.
        let _ = write!(io::stderr(), "parcae: {}", Dump::of(&shared));
    }
}
