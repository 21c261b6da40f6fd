//! Processors of the machine that threads of this process have for themselves.
//!
//! A processor belongs to the process, not to one runtime, so there is one list for all runtimes:
//! of their threads, and of the processors that are taken. A thread of a runtime enters the list
//! when it starts ([`enter`]) and leaves it when it ends. Taking a processor ([`take`]) confines
//! one of these threads to it and moves all others off it; a thread that starts later keeps off
//! by itself, whatever it has inherited. Giving it back restores the masks.
//!
//! Invariants, under the one lock:
//!
//! - A processor is taken by one thread at most.
//! - At least one processor that the process may use is not taken: there the other threads run.
//! - A thread in the list that has no processor of its own may run on none that is taken.
//!
//! Other threads of the process, and other processes, are not moved: only the machine's setup can
//! do that. [`Facts`] are the known part of it.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most processors that a mask of the system call has room for.
const MOST: usize = libc::CPU_SETSIZE as usize;

/// A set of processors.
#[derive(Clone, Copy)]
struct Mask(libc::cpu_set_t);

impl Mask {
    fn empty() -> Mask {
        // SAFETY: a set of bits, all of them 0.
        Mask(unsafe { std::mem::zeroed() })
    }

    /// The processors that a thread may use; 0 means the calling one.
    fn of(thread: i32) -> io::Result<Mask> {
        let mut mask = Mask::empty();
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: writes a set of this size.
        match unsafe { libc::sched_getaffinity(thread, size, &raw mut mask.0) } {
            0 => Ok(mask),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn apply(&self, thread: i32) -> io::Result<()> {
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: reads a set of this size.
        match unsafe { libc::sched_setaffinity(thread, size, &raw const self.0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn has(&self, cpu: usize) -> bool {
        // SAFETY: reads a bit of the set, if it has one of this number.
        cpu < MOST && unsafe { libc::CPU_ISSET(cpu, &self.0) }
    }

    fn add(&mut self, cpu: usize) {
        if cpu < MOST {
            // SAFETY: sets a bit of the set, which has one of this number.
            unsafe { libc::CPU_SET(cpu, &mut self.0) }
        }
    }

    fn only(cpu: usize) -> Mask {
        let mut mask = Mask::empty();
        mask.add(cpu);
        mask
    }

    fn all(&self) -> impl Iterator<Item = usize> {
        let mask = *self;
        (0..MOST).filter(move |&cpu| mask.has(cpu))
    }

    fn without(&self, taken: &Mask) -> Mask {
        let mut rest = Mask::empty();
        self.all().filter(|&cpu| !taken.has(cpu)).for_each(|cpu| rest.add(cpu));
        rest
    }

    fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }
}

/// A thread of a runtime.
struct KnownThread {
    thread: i32,
    /// Its mask when it entered the list, and whether a processor is its own.
    usual: Mask,
    owns: Option<usize>,
}

/// The threads of all runtimes of the process. Small: a few for each worker.
static THREADS: Mutex<Vec<KnownThread>> = Mutex::new(Vec::new());

fn threads() -> MutexGuard<'static, Vec<KnownThread>> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn taken(threads: &[KnownThread]) -> Mask {
    let mut taken = Mask::empty();
    threads.iter().filter_map(|listed| listed.owns).for_each(|cpu| taken.add(cpu));
    taken
}

/// The number of the calling thread.
fn own_number() -> i32 {
    // SAFETY: asks for a number.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// The calling thread belongs to a runtime, until this is dropped: on the same thread.
pub(crate) struct OnList(i32);

/// Enters the calling thread into the list, and moves it off processors that are taken.
pub(crate) fn enter() -> OnList {
    let thread = own_number();
    let mut threads = threads();
    let mut usual = Mask::of(0).unwrap_or(Mask::empty());
    let taken = taken(&threads);
    if !taken.is_empty() {
        // It may have been started by a thread that is confined: what the others may use counts.
        let free = threads.iter().find(|listed| listed.owns.is_none());
        usual = free.map_or(usual, |listed| listed.usual);
        let _ = usual.without(&taken).apply(0); // at worst it stays where it is, and is reported
    }
    threads.push(KnownThread { thread, usual, owns: None });
    OnList(thread)
}

impl Drop for OnList {
    fn drop(&mut self) {
        threads().retain(|listed| listed.thread != self.0);
    }
}

/// A processor that one thread has for itself, until this is dropped.
#[derive(Debug)]
pub(crate) struct TakenCpu {
    cpu: usize,
    thread: i32,
    scheduling: Option<ThreadPolicy>,
}

/// The scheduling policy of a thread before it was changed.
#[derive(Debug, Clone, Copy)]
struct ThreadPolicy {
    policy: i32,
    priority: i32,
}

/// Confines a thread of the list to a processor, and moves all others off it. `None`: the last
/// processor that it may use, as many systems use the first one for interrupts.
///
/// # Errors
///
/// If the thread is not in the list, the processor is taken or may not be used, no other is left,
/// or the system refuses. Then nothing has changed.
pub(crate) fn take(thread: i32, cpu: Option<usize>) -> io::Result<TakenCpu> {
    let mut threads = threads();
    let others = taken(&threads);
    let found = threads.iter().position(|listed| listed.thread == thread && listed.owns.is_none());
    let own = found.ok_or_else(|| io::Error::other("the thread has ended or is pinned already"))?;
    let free = threads[own].usual.without(&others);
    let wanted = cpu.or_else(|| free.all().last()).filter(|&cpu| free.has(cpu));
    let cpu = wanted.ok_or_else(|| io::Error::other("the processor is taken or not permitted"))?;
    if free.all().count() < 2 {
        return Err(io::Error::other("no other processor is left for the other threads"));
    }
    threads[own].owns = Some(cpu);
    let taken = taken(&threads);
    let done = threads.iter().try_for_each(|listed| match listed.owns {
        Some(cpu) => Mask::only(cpu).apply(listed.thread),
        None => listed.usual.without(&taken).apply(listed.thread),
    });
    if let Err(error) = done {
        give_back(&mut threads, thread);
        return Err(error);
    }
    Ok(TakenCpu { cpu, thread, scheduling: None })
}

/// Restores the masks, as if the thread had never had a processor.
fn give_back(threads: &mut [KnownThread], thread: i32) {
    for listed in threads.iter_mut().filter(|listed| listed.thread == thread) {
        listed.owns = None;
    }
    let taken = taken(threads);
    for listed in threads.iter().filter(|listed| listed.owns.is_none()) {
        let _ = listed.usual.without(&taken).apply(listed.thread); // at worst it has fewer
    }
}

impl TakenCpu {
    /// Which one.
    pub(crate) fn number(&self) -> usize {
        self.cpu
    }

    /// Whether the system confirms that the thread may run here only, and no other thread of a
    /// runtime may.
    pub(crate) fn is_confirmed(&self) -> bool {
        let alone = |mask: &Mask| mask.has(self.cpu) && mask.all().count() == 1;
        threads().iter().all(|listed| match Mask::of(listed.thread) {
            Ok(mask) if listed.thread == self.thread => alone(&mask),
            Ok(mask) => !mask.has(self.cpu),
            Err(_) => listed.thread != self.thread, // it has just ended
        })
    }

    /// Lets the thread run before all others of the usual policy (`SCHED_FIFO`).
    ///
    /// # Errors
    ///
    /// If the system refuses; usually that takes a privilege.
    pub(crate) fn run_first(&mut self, priority: i32) -> io::Result<()> {
        let thread = self.thread;
        // SAFETY: asks for numbers, and writes one.
        let before = unsafe {
            let mut param: libc::sched_param = std::mem::zeroed();
            let policy = libc::sched_getscheduler(thread);
            libc::sched_getparam(thread, &raw mut param);
            ThreadPolicy { policy, priority: param.sched_priority }
        };
        set_scheduling(thread, ThreadPolicy { policy: libc::SCHED_FIFO, priority })?;
        self.scheduling = Some(before);
        Ok(())
    }
}

fn set_scheduling(thread: i32, ThreadPolicy { policy, priority }: ThreadPolicy) -> io::Result<()> {
    // SAFETY: reads the parameter.
    let answer = unsafe {
        let mut param: libc::sched_param = std::mem::zeroed();
        param.sched_priority = priority;
        libc::sched_setscheduler(thread, policy, &raw const param)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Drop for TakenCpu {
    fn drop(&mut self) {
        let mut threads = threads();
        // The number of a thread that has ended may be another thread's by now.
        if threads.iter().any(|listed| listed.thread == self.thread) {
            if let Some(before) = self.scheduling {
                let _ = set_scheduling(self.thread, before); // lowering is always permitted
            }
            give_back(&mut threads, self.thread);
        }
    }
}

/// The isolation of a processor by the system, as far as it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Whether the kernel places no other threads there; `None` if it does not say.
    pub(crate) isolated: Option<bool>,
    /// Whether it stops the clock tick there.
    pub(crate) tickless: Option<bool>,
    /// Whether no other processor shares its core.
    pub(crate) alone_on_core: Option<bool>,
}

impl Facts {
    /// Those of a processor.
    pub(crate) fn of(cpu: usize) -> Facts {
        let root = "/sys/devices/system/cpu";
        let listed = |file: String| {
            let text = std::fs::read_to_string(file).ok()?;
            parse_list(text.trim())
        };
        let in_list = |file: &str| Some(listed(format!("{root}/{file}"))?.contains(&cpu));
        let siblings = listed(format!("{root}/cpu{cpu}/topology/thread_siblings_list"));
        Facts {
            isolated: in_list("isolated"),
            tickless: in_list("nohz_full"),
            alone_on_core: siblings.map(|siblings| siblings == [cpu]),
        }
    }
}

/// The numbers in a list as the kernel writes it: `0-2,5`. `None` if it is none.
fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty() && *part != "(null)") {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(parse_list(""), Some(vec![]));
        assert_eq!(parse_list("(null)"), Some(vec![]));
        assert_eq!(parse_list("3"), Some(vec![3]));
        assert_eq!(parse_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_list("0-x"), None);
        assert_eq!(parse_list("0-99999999"), None);
    }
}
