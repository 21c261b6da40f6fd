//! Backtraces of running workers: requested by a signal, answered by the worker's own thread.
//!
//! # Protocol
//!
//! One request at a time in the process, under `ASKING`. The word `REQUEST`:
//!
//! | value | meaning | left by |
//! |---|---|---|
//! | 0 | no request | the requesting thread, which writes the target thread's id |
//! | a thread's id | that thread is to answer | its handler (CAS to ANSWERING), or the requester that gives up (CAS to 0) |
//! | ANSWERING | the handler writes the answer and owns it | the handler, to ANSWERED |
//! | ANSWERED | the requester owns the answer | the requester, to 0 |
//!
//! A signal that arrives after the requester gave up finds another value and does nothing. A
//! requester that finds ANSWERING, left over from an earlier one that timed out, makes no request.
//! So the answer has one owner at any time.
//!
//! # Restrictions of the handler
//!
//! It runs on the signal stack of the worker's thread, in the middle of the task: perhaps inside of
//! the allocator, or with any lock held. So it does not allocate, lock, or format.
//!
//! - *Return addresses* come from `_Unwind_Backtrace` into a fixed array. The unwinder finds its
//!   tables by `_dl_find_object`, which glibc ≥ 2.35 offers and which takes no lock. Without it,
//!   addresses are not collected, because the unwinder would take a lock that the task may hold.
//!   The first call, which sets the unwinder up, is made when the handler is installed. Limit: code
//!   that was announced by `__register_frame` (JIT compilers) makes older unwinders (gcc ≤ 12) take
//!   a lock; programs with such code switch the signal off.
//! - *The running task* is read from the worker itself: the handler is on its thread, so it does
//!   not change meanwhile; half-written values are detected (`Worker::observe`). Names are shared
//!   by counting references.
//!
//! Function names are looked up afterwards, by the requesting thread.
//!
//! # Side effects
//!
//! The handler is installed with the first request, with `SA_RESTART`: restartable calls are
//! restarted. Others (`poll`, `epoll_wait`, `nanosleep` …) return `EINTR` once; the standard
//! library repeats them. Foreign signals of the same number go to the handler that was there
//! before; our signals carry a value that no other sender uses.

use crate::base::error::TaskInfo;
use crate::sched::worker;
use crate::stack::frames::{Collected, Frames};
use crate::stack::{pass_on, program_counter, stay_loaded};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time to wait for an answer. A thread that gets no processor meanwhile does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

const ANSWERING: u64 = 1 << 32;
const ANSWERED: u64 = 2 << 32;

static ASKING: Mutex<()> = Mutex::new(());
static REQUEST: AtomicU64 = AtomicU64::new(0);
static ANSWER: Answer = Answer(UnsafeCell::new(ProbeAnswer::nothing()));
/// The dispositions that were in force before ours, by signal. Set once, never freed.
static PREVIOUS: [AtomicPtr<libc::sigaction>; 65] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; 65];

struct Answer(UnsafeCell<ProbeAnswer>);

// SAFETY: used by one thread at a time, by the protocol above.
unsafe impl Sync for Answer {}

/// The answer of a worker.
#[derive(Debug)]
pub(crate) struct ProbeAnswer {
    /// Its count of steps.
    pub(crate) pulse: u64,
    /// The running task.
    pub(crate) task: Option<TaskInfo>,
    /// Return addresses, innermost first; with those of the handler in front.
    collected: Collected,
    /// Program counter at the interruption.
    interrupted: usize,
}

impl ProbeAnswer {
    const fn nothing() -> ProbeAnswer {
        ProbeAnswer { pulse: 0, task: None, collected: Collected::nothing(), interrupted: 0 }
    }

    /// The backtrace, without the handler. Empty if none was collected.
    pub(crate) fn frames(&self) -> Frames {
        let all = self.collected.addresses();
        let own = all.iter().position(|&address| address == self.interrupted).unwrap_or(0);
        let mut frames = all[own..].to_vec();
        if let Some(first) = frames.first_mut() {
            *first += 1; // as if it returned to the next instruction, like the others
        }
        Frames::new(frames)
    }
}

/// Whether this is a realtime signal, which programs may use freely.
pub(crate) fn is_realtime(signal: i32) -> bool {
    (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&signal)
}

/// Requests a backtrace from a thread. `None` if it does not answer in time.
///
/// The thread is a worker's, has a signal stack, and does not end before this returns.
pub(super) fn probe(tid: i32, signal: i32) -> Option<ProbeAnswer> {
    let _asking = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
    install(signal).then_some(())?;
    // Acquire: pairs with the Release in `handler`.
    if REQUEST.load(Ordering::Acquire) == ANSWERED {
        drop(take_answer()); // to an earlier request
    }
    // Release: pairs with the Acquire in `handler`, whose CAS comes after the answer was taken.
    // Only a requester leaves 0.
    let asked = REQUEST.compare_exchange(0, tid as u64, Ordering::Release, Ordering::Relaxed);
    asked.ok()?;
    let sent = send(tid, signal);
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let mut pause = Duration::from_micros(20);
    // Acquire: pairs with the Release in `handler`.
    while REQUEST.load(Ordering::Acquire) != ANSWERED {
        if !sent || Instant::now() >= deadline {
            // Relaxed: no answer was written, or it is being written and is left alone.
            let took_back =
                REQUEST.compare_exchange(tid as u64, 0, Ordering::Relaxed, Ordering::Relaxed);
            if took_back.is_ok() || Instant::now() >= deadline + ANSWER_TIMEOUT {
                return None;
            }
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
    Some(take_answer())
}

/// Takes a complete answer.
fn take_answer() -> ProbeAnswer {
    // SAFETY: ANSWERED: the requester owns the answer.
    let seen = unsafe { std::mem::replace(&mut *ANSWER.0.get(), ProbeAnswer::nothing()) };
    // Release: pairs with the Acquire of a handler's CAS, which comes after the next request.
    REQUEST.store(0, Ordering::Release);
    seen
}

/// The value that identifies our signals.
fn mark() -> *mut libc::c_void {
    (&raw const REQUEST).cast_mut().cast()
}

/// The argument of `rt_tgsigqueueinfo`: the head of a queued `siginfo_t`.
#[repr(C)]
struct QueuedSignal {
    signo: libc::c_int,
    errno: libc::c_int,
    code: libc::c_int,
    _pad: libc::c_int,
    pid: libc::pid_t,
    uid: libc::uid_t,
    value: *mut libc::c_void,
    _rest: [u64; 12],
}

const _: () = assert!(size_of::<QueuedSignal>() == size_of::<libc::siginfo_t>());

fn send(tid: i32, signal: i32) -> bool {
    // SAFETY: the arguments are as the call demands; it concerns a thread of this process.
    unsafe {
        let pid = libc::getpid();
        let info = QueuedSignal {
            signo: signal,
            errno: 0,
            code: libc::SI_QUEUE,
            _pad: 0,
            pid,
            uid: libc::getuid(),
            value: mark(),
            _rest: [0; 12],
        };
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, &raw const info) == 0
    }
}

/// Installs the handler for a signal, once. Returns false if that is not possible.
fn install(signal: i32) -> bool {
    let Some(previous) = PREVIOUS.get(signal as usize).filter(|_| is_realtime(signal)) else {
        return false;
    };
    // Relaxed: written under `ASKING`, which the caller holds.
    if !previous.load(Ordering::Relaxed).is_null() {
        return true;
    }
    // Set the unwinder up, outside of any handler.
    if unwinder_takes_no_lock() {
        Collected::nothing().collect();
        // Relaxed: the signal that is sent afterwards orders it.
        UNWINDS.store(true, Ordering::Relaxed);
    }
    // SAFETY: `sigaction` is plain data; all zeroes is a valid value. The handler has the signature
    // that SA_SIGINFO demands.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut before) != 0 {
            return false;
        }
        // Release: pairs with the Acquire in `handler`. Stored before the handler can run.
        previous.store(Box::into_raw(Box::new(before)), Ordering::Release);
        stay_loaded();
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = handler as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        ours.sa_mask = before.sa_mask;
        libc::sigaction(signal, &ours, std::ptr::null_mut()) == 0
    }
}

/// Whether the unwinder can be used in a handler; see the header.
fn unwinder_takes_no_lock() -> bool {
    // SAFETY: looks for a symbol by name.
    unsafe { !libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()).is_null() }
}

/// The signal handler.
///
/// # Safety
///
/// Called by the kernel, as a handler with `SA_SIGINFO`.
unsafe extern "C" fn handler(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid siginfo; `si_value` is set for queued signals. `errno` is
    // this thread's, and is restored because the interrupted code may be about to read it.
    unsafe {
        let errno = *libc::__errno_location();
        if (*info).si_code != libc::SI_QUEUE || (*info).si_value().sival_ptr != mark() {
            // Acquire: pairs with the Release in `install`.
            let previous = PREVIOUS[signal as usize].load(Ordering::Acquire);
            pass_on(previous, signal, info, context);
        } else {
            let tid = libc::syscall(libc::SYS_gettid) as u64;
            // Acquire: pairs with the Release in `probe`: the answer is empty.
            let mine =
                REQUEST.compare_exchange(tid, ANSWERING, Ordering::Acquire, Ordering::Relaxed);
            if mine.is_ok() {
                // ANSWERING: this handler owns the answer.
                answer(&mut *ANSWER.0.get(), context);
                // Release: pairs with the Acquire in `probe`.
                REQUEST.store(ANSWERED, Ordering::Release);
            }
        }
        *libc::__errno_location() = errno;
    }
}

/// # Safety
///
/// To be called from the handler, with its last argument.
unsafe fn answer(seen: &mut ProbeAnswer, context: *mut libc::c_void) {
    worker::with_current(|worker| {
        seen.pulse = worker.stats().pulse();
        // SAFETY: this is a signal handler on the worker's thread.
        seen.task = unsafe { worker.observe() };
    });
    // SAFETY: as the caller says.
    seen.interrupted = unsafe { program_counter(context) };
    // Relaxed: see `install`.
    if UNWINDS.load(Ordering::Relaxed) {
        seen.collected.collect();
    }
}

/// Whether the unwinder was set up, and may be used in the handler.
static UNWINDS: AtomicBool = AtomicBool::new(false);
