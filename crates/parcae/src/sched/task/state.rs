//! The state word: one atomic with the phase of a task, which determines the owner of its stack.
//!
//! ```text
//!  63            24 23      8 7     6    5      4       3     2..0
//! ┌────────────────┬─────────┬─────┬────┬──────┬───────┬──────┬───────┐
//! │ generation     │ owner   │LOCAL│JOIN│ HELD │CANCEL │ WAKE │ phase │
//! └────────────────┴─────────┴─────┴────┴──────┴───────┴──────┴───────┘
//! ```
//!
//! # Phases, and who owns the stack
//!
//! | phase | set when | left when | the stack belongs to | may change the phase |
//! |---|---|---|---|---|
//! | FREE | the record is in the slab | spawned | there is none | the holder of the record |
//! | QUEUED | spawned; woken; yielded by a task that may move | a worker takes it out of its queue | none: quiescent, or no stack yet | the worker that dequeues it |
//! | OWNED | a worker dequeued it | it parks, yields or ends | worker `owner`: it runs there or waits in that worker's private queue | that worker |
//! | PARKED | its worker left the stack and found no WAKE | a waker wakes it | none: quiescent | the waker that wins the CAS to QUEUED |
//! | OBSERVED | an observer looks at a parked task (`inspect`) | the observer has seen enough | the observer, to read | the observer |
//! | DONE | its closure has returned | the record is recycled | its worker again | the holder of the record |
//!
//! The same states under the names of the documents that specify the runtime:
//!
//! | here | S0 | S4 |
//! |---|---|---|
//! | FREE | – | IDLE (a task's record; fibers are the worker's here) |
//! | QUEUED | Ready | ASSIGNED |
//! | OWNED | Running, or Ready if it yielded | OWNED(worker) |
//! | PARKED, OBSERVED | Blocked, BudgetExhausted | PARKED |
//! | DONE | Completed, Cancelled | DONE |
//! | WAKE | – | pending_unpark, folded into the word |
//! | CANCEL | the request that leads to Cancelled | – |
//!
//! # Bits
//!
//! - `WAKE`: set by a waker that finds the task QUEUED, OWNED or OBSERVED; cleared when the task is
//!   taken out of a queue, and by a park that it aborts. Excludes nothing. A WAKE that is left over
//!   from an earlier wait makes one park return at once. Waiters must handle such spurious returns
//!   anyway.
//! - `CANCEL`: set once, by a request to end the task; cleared when the record is recycled.
//! - `HELD`: set when the task is spawned with a handle; cleared if the handle is dropped before
//!   the task ends. Of the holder and the worker, the second one frees the record: see below.
//! - `JOIN`: set once, by the holder of the handle, after it has put the joiner into the record;
//!   cleared when the holder drops the handle. The worker that finishes the task notifies the
//!   joiner.
//! - `LOCAL`: set by the first park of a task that may not move; cleared with the record, or by a
//!   park after which it may move. Only its owner can resume such a task, so a wake on that worker
//!   makes it OWNED at once.
//! - `owner`: the worker, plus one; 0 before the first run. Written by that worker.
//! - `generation`: counts the lives of the record. A handle names (record, generation); with
//!   another generation it is stale, and nothing happens. 40 bits: a record that is reused ten
//!   million times a second wraps after thirty hours, and then a handle must have been kept for
//!   exactly that many lives to be mistaken; the mistake is one spurious wake.
//!
//! # Why no wake-up is lost
//!
//! A waker first makes the condition true, then does a read-modify-write on this word. A
//! task that is about to wait checks its condition after it was taken out of a queue, which
//! is a read-modify-write on this word too, and gives up its stack by a third: the CAS from
//! OWNED to PARKED, done by the worker *after* it has left the stack. All three are on one
//! word, so they are ordered:
//!
//! 1. The wake comes before the dequeue: the dequeue acquires the waker's writes, so
//!    the check sees the condition.
//! 2. Between dequeue and park: it sets WAKE, the CAS to PARKED fails, the task is queued again.
//! 3. After the park: the waker sees PARKED, wins or loses the CAS to QUEUED, and the winner
//!    enqueues it; the loser's wake is covered by the winner's, which comes first in the order of
//!    the word, and by rule 1 or 2.
//!
//! A LOCAL task that its own worker wakes goes from PARKED straight to OWNED and into that worker's
//! private queue: the worker need not claim it by another read-modify-write. A wake that comes
//! before the task runs is case 2 then: it sets WAKE, and the next park returns at once. The waker
//! and the worker are one thread, so the task sees the writes of the first waker.
//!
//! Wakers cannot take a task that is observed: a wake that comes meanwhile sets WAKE. The observer
//! ends by a CAS on the same word. If it finds WAKE it enqueues the task on behalf of the waker;
//! otherwise it makes the task PARKED again.
//!
//! No two wakers enqueue: only one CAS from PARKED succeeds. No worker runs a stack in use:
//! PARKED and QUEUED are only published from another stack.
//!
//! # Freeing a record with a handle
//!
//! The worker finishes the task by a CAS that keeps HELD, and the holder drops its handle by a CAS
//! that clears HELD. Both are on this word, so one is second. If the worker is second, it finds
//! HELD cleared and recycles the record, ordered after all accesses of the holder; HELD is never
//! set again, so a worker that does not find it needs no CAS. If the holder is second, it finds
//! DONE, takes the result out of the record, and recycles it. The worker reads the joiner *before*
//! its CAS: afterwards the record may belong to another task.
//!
//! Rejected: a latch beside the state (needs two fences and a proof across two
//! words; S4's traps 1, 5, 6 and 13), and a `fetch_or` in `unpark` (would set a bit in
//! the next life of a recycled record).

use crate::base::shim::atomic::{AtomicU64, Ordering, fence};

const PHASE: u64 = 0b111;
const FREE: u64 = 0;
const QUEUED: u64 = 1;
const OWNED: u64 = 2;
const PARKED: u64 = 3;
const DONE: u64 = 4;
const OBSERVED: u64 = 5;
const WAKE: u64 = 1 << 3;
const CANCEL: u64 = 1 << 4;
const HELD: u64 = 1 << 5;
const JOIN: u64 = 1 << 6;
const LOCAL: u64 = 1 << 7;
const OWNER_SHIFT: u32 = 8;
const OWNER: u64 = 0xffff << OWNER_SHIFT;
const GENERATION_SHIFT: u32 = 24;
const GENERATION: u64 = !0 << GENERATION_SHIFT;

/// The generation of a record that a handle refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u64);

/// The state of a parked task that only one worker may resume, without the generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnParked(u64);

impl OwnParked {
    /// For the tasks of this worker.
    pub(crate) fn of(worker: usize) -> OwnParked {
        OwnParked(LOCAL | owner_bits(worker) | PARKED)
    }
}

/// The next step of a waker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The task was parked, and is QUEUED now, or OWNED by the caller: the caller must put it into
    /// a queue. It last ran on this worker.
    Enqueue {
        /// The worker that the task parked on.
        owner: usize,
    },
    /// The task is not parked: the wake is recorded and will not be lost.
    Noted,
    /// The task has ended.
    Stale,
}

/// The next step of the worker that finished a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finished<J> {
    /// There is no handle: the caller owns the record and recycles it.
    Free,
    /// The holder owns the record now. The joiner, if there is one, is to be notified.
    Held(Option<J>),
}

/// The next step of a holder that drops a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LetGo {
    /// The task continues; its worker will free the record.
    Running,
    /// The task has ended: the caller owns the result and the record.
    Done,
}

/// Whether a task has a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordHandle {
    /// It has none.
    None,
    /// Its holder may join the task.
    Held,
}

/// Whether a started task may be resumed by another worker than its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mobility {
    /// By its owner only.
    Pinned,
    Movable,
}

/// Outcome of a park.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parking {
    /// The task is PARKED. It may already run elsewhere: touch nothing of it any more.
    Parked,
    /// A wake came first: the task is still OWNED and must be run again.
    Woken,
}

/// The phase of a task at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// In a queue that others may take it from.
    Queued,
    /// Runs, or is about to, on this worker.
    Owned(usize),
    /// Waits; it last ran on this worker.
    Parked(usize),
    /// There is no task, or it has ended.
    Gone,
}

/// The content of a state word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) generation: Generation,
    pub(crate) phase: Phase,
}

/// The state word. The documentation of each method that changes the phase names its permitted
/// callers.
#[derive(Debug)]
pub(crate) struct StateWord(AtomicU64);

impl StateWord {
    pub(crate) fn new() -> StateWord {
        StateWord(AtomicU64::new(FREE))
    }

    /// FREE → QUEUED, by the holder of the record, before any other thread can know it.
    #[inline]
    pub(crate) fn spawn(&self, handle: RecordHandle) -> Generation {
        // Relaxed: the holder wrote it last, or got the record through a lock from the thread that
        // did.
        let word = self.0.load(Ordering::Relaxed);
        debug_assert_eq!(word & PHASE, FREE, "spawned a record that is in use");
        let held = if handle == RecordHandle::Held { HELD } else { 0 };
        // Relaxed: published by the queue that the task is put into. A store may overwrite the CAS
        // of a waker with a stale handle only if that CAS fails: it compares the generation.
        self.0.store(word & GENERATION | QUEUED | held, Ordering::Relaxed);
        Generation(word & GENERATION)
    }

    /// QUEUED → OWNED by `worker`, by the worker that took the task out of a queue. Nothing happens
    /// to a task that the worker owns already.
    #[inline]
    pub(crate) fn claim(&self, worker: usize) {
        // Relaxed: only the caller may change phase and owner; other threads change the bits.
        let word = self.0.load(Ordering::Relaxed);
        if word & PHASE == OWNED {
            debug_assert_eq!(word & OWNER, owner_bits(worker), "a private task left its worker");
            return;
        }
        debug_assert_eq!(word & PHASE, QUEUED, "dequeued a task that was not queued");
        let mut seen = word;
        loop {
            let next = seen & !(PHASE | WAKE | OWNER) | OWNED | owner_bits(worker);
            // Acquire: pairs with the Release of `unpark` in a waker that found the task queued:
            // the task's next check sees its writes. Release: a later waker that reads OWNED here
            // passes its wake to the owner through the same word.
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// OWNED → QUEUED, by the owner, after it left the task's stack: a yield of a task that
    /// other workers may take.
    pub(crate) fn release(&self) {
        // Release: pairs with the Acquire of `claim`: the worker that runs the task next sees its
        // stack as it was left. The bits are kept.
        let before = self.0.fetch_sub(OWNED - QUEUED, Ordering::Release);
        debug_assert_eq!(before & PHASE, OWNED, "released a task that was not owned");
    }

    /// OWNED → PARKED, by the owner, after it left the task's stack; or nothing, if a wake
    /// came first.
    #[inline]
    pub(crate) fn park(&self, mobility: Mobility) -> Parking {
        // Relaxed first look; the CAS decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        let (local, unset) = if mobility == Mobility::Pinned { (LOCAL, 0) } else { (0, LOCAL) };
        loop {
            debug_assert_eq!(seen & PHASE, OWNED, "parked a task that was not owned");
            let (next, parking) = if seen & WAKE == 0 {
                (seen & !(PHASE | unset) | PARKED | local, Parking::Parked)
            } else {
                (seen & !(WAKE | unset), Parking::Woken)
            };
            // Release: pairs with the Acquire of the CAS in `unpark`: the waker, and the worker
            // that it gives the task to, see the stack as it was left. Acquire: pairs with the
            // Release of an `unpark` that set WAKE: the task sees the writes before the wake.
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return parking,
                Err(now) => seen = now,
            }
        }
    }

    /// The quick form of [`park`](StateWord::park) for its most common case: true if the task has
    /// parked before, may not move, and was not woken; it is PARKED now. False if not; then nothing
    /// has happened.
    #[inline(always)]
    pub(crate) fn park_again(&self) -> bool {
        let seen = self.0.load(Ordering::Relaxed); // the CAS decides
        if seen & (LOCAL | WAKE | PHASE) != LOCAL | OWNED {
            return false;
        }
        let parked = seen + (PARKED - OWNED);
        // AcqRel: pairs with `unpark`, as in `park`.
        self.0.compare_exchange(seen, parked, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes a wake out of the word of a task that runs, if there is one. Called by the owner: the
    /// task goes on as if it had parked and been resumed.
    #[inline]
    pub(crate) fn take_wake(&self) -> bool {
        // Relaxed: the look of a spinning owner. Only the owner takes WAKE out while it is OWNED.
        if self.0.load(Ordering::Relaxed) & WAKE == 0 {
            return false;
        }
        // Acquire: pairs with the Release of an `unpark` that set WAKE: the task sees the writes
        // before the wake.
        let before = self.0.fetch_and(!WAKE, Ordering::Acquire);
        debug_assert_eq!(before & (PHASE | WAKE), OWNED | WAKE, "took the wake of another");
        true
    }

    /// Wakes the task of this generation, from anywhere, at any time.
    pub(crate) fn unpark(&self, generation: Generation) -> Woken {
        self.wake(generation, 0, 0)
    }

    /// As [`unpark`](StateWord::unpark), by a thread that is this worker. A LOCAL task of the
    /// worker becomes OWNED, for the worker's private queue.
    #[inline]
    pub(crate) fn unpark_on(&self, worker: usize, generation: Generation) -> Woken {
        self.wake(generation, 0, LOCAL | owner_bits(worker))
    }

    /// The quick form of [`unpark_on`](StateWord::unpark_on) for its most common case: true if the
    /// task was parked, LOCAL, and last ran on this worker, which owns it now. False if not; then
    /// nothing has happened.
    #[inline(always)]
    pub(crate) fn unpark_own(&self, own: OwnParked, generation: Generation) -> bool {
        let seen = self.0.load(Ordering::Relaxed); // the CAS decides
        if seen & (GENERATION | LOCAL | OWNER | PHASE) != generation.0 | own.0 {
            return false;
        }
        let owned = seen - (PARKED - OWNED);
        // Release: pairs with the Acquire in `park`. Acquire: pairs with the Release of `park`, and
        // with that of an observer's `unobserve`.
        self.0.compare_exchange(seen, owned, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Cancels the task of this generation, and wakes it so that it notices.
    pub(crate) fn cancel(&self, generation: Generation) -> Woken {
        self.wake(generation, CANCEL, 0)
    }

    /// Wakes the task and sets `bits`. A parked task becomes OWNED if its LOCAL and owner are those
    /// of `here`, else QUEUED.
    #[inline(always)]
    fn wake(&self, generation: Generation, bits: u64, here: u64) -> Woken {
        let mut seen = self.0.load(Ordering::Relaxed); // the CAS decides
        loop {
            if seen & GENERATION != generation.0 {
                return Woken::Stale;
            }
            let (next, woken) = match seen & PHASE {
                PARKED => {
                    let owner = ((seen & OWNER) >> OWNER_SHIFT) as usize - 1;
                    let phase = if seen & (LOCAL | OWNER) == here { OWNED } else { QUEUED };
                    (seen & !PHASE | phase | bits, Woken::Enqueue { owner })
                }
                QUEUED | OWNED | OBSERVED => (seen | WAKE | bits, Woken::Noted),
                _ => return Woken::Stale,
            };
            // Release: pairs with the Acquire in `claim` or `park`: the task sees the writes of the
            // waker. Acquire: pairs with the Release of `park`: the stack.
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return woken,
                Err(now) => seen = now,
            }
        }
    }

    /// The content of the word at this moment. For any thread.
    pub(crate) fn look(&self) -> Look {
        let word = self.0.load(Ordering::Relaxed); // a hint: a caller that acts on it does a CAS
        let owner = || ((word & OWNER) >> OWNER_SHIFT) as usize - 1;
        let phase = match word & PHASE {
            QUEUED => Phase::Queued,
            OWNED => Phase::Owned(owner()),
            PARKED | OBSERVED => Phase::Parked(owner()),
            _ => Phase::Gone,
        };
        Look { generation: Generation(word & GENERATION), phase }
    }

    /// Whether the task is parked on this worker, and only it can resume the task.
    pub(crate) fn is_parked_on(&self, worker: usize) -> bool {
        let word = self.0.load(Ordering::Relaxed); // a hint: the wake decides
        word & (LOCAL | OWNER | PHASE) == LOCAL | owner_bits(worker) | PARKED
    }

    /// PARKED → OBSERVED, by any thread, if the task of this generation is parked. True: until
    /// [`unobserve`](StateWord::unobserve) the task stays where it is, and the caller may read its
    /// stack.
    pub(crate) fn observe(&self, generation: Generation) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed); // the CAS decides
        while seen & (PHASE | GENERATION) == PARKED | generation.0 {
            let next = seen & !PHASE | OBSERVED;
            // Acquire: pairs with the Release of `park`: the stack as it was left; and with that of
            // `unobserve`: what an earlier observer wrote.
            match self.0.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// OBSERVED → PARKED, by the observer; or QUEUED, if a wake came meanwhile, which the observer
    /// then carries out.
    pub(crate) fn unobserve(&self) -> Woken {
        let mut seen = self.0.load(Ordering::Relaxed); // the CAS decides
        loop {
            debug_assert_eq!(seen & PHASE, OBSERVED, "let go of a task that was not observed");
            let (next, woken) = if seen & WAKE == 0 {
                (seen & !PHASE | PARKED, Woken::Noted)
            } else {
                // WAKE goes when the task is taken out of the queue, as with any other.
                let owner = ((seen & OWNER) >> OWNER_SHIFT) as usize - 1;
                (seen & !PHASE | QUEUED, Woken::Enqueue { owner })
            };
            // Release: pairs with the Acquire of the next `unpark` or `observe`: the observer's
            // writes. Acquire: pairs with the Release of an `unpark` that set WAKE.
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return woken,
                Err(now) => seen = now,
            }
        }
    }

    /// Whether the task was cancelled.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        // Acquire: pairs with the Release of `cancel`: the reason is seen with the request.
        self.0.load(Ordering::Acquire) & CANCEL != 0
    }

    /// OWNED → DONE, by the owner, when the closure has returned to the worker's loop and its
    /// result is in the record. `joiner` reads the joiner; it may be called more
    /// than once.
    #[inline]
    pub(crate) fn finish<J>(&self, mut joiner: impl FnMut() -> J) -> Finished<J> {
        // Relaxed: without HELD a fence follows; with it the CAS decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        debug_assert_eq!(seen & PHASE, OWNED, "finished a task that was not owned");
        loop {
            if seen & HELD == 0 {
                // Pairs with the Release in `let_go`: the holder's last use of the record
                // comes before what its next task does.
                fence(Ordering::Acquire);
                // Release: pairs with the Acquire of `is_done`. It may overwrite a WAKE or
                // CANCEL: they have no reader any more. A waker's CAS comes before it in the
                // order of the word, or reads this value or a later one and fails.
                self.replace(seen & GENERATION | DONE, Ordering::Release);
                return Finished::Free;
            }
            if seen & JOIN != 0 {
                // Pairs with the Release in `join`: the joiner is read below.
                fence(Ordering::Acquire);
            }
            let waiting = (seen & JOIN != 0).then(&mut joiner);
            let done = seen & (GENERATION | HELD) | DONE;
            // Release: pairs with the Acquire of `is_done`, `let_go` and `join`: the result.
            match self.0.compare_exchange_weak(seen, done, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Finished::Held(waiting),
                Err(now) => seen = now,
            }
        }
    }

    /// Declares that the joiner is in the record. False if the task has ended. Called by the
    /// holder.
    pub(crate) fn join(&self) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed); // the CAS decides
        while seen & PHASE != DONE {
            // Release: pairs with the Acquire in `finish`: the joiner.
            match self.0.compare_exchange_weak(
                seen,
                seen | JOIN,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        fence(Ordering::Acquire); // as in `is_done`: pairs with the Release of `finish`
        false
    }

    /// Drops the handle of the task. Called by the holder.
    pub(crate) fn let_go(&self) -> LetGo {
        let mut seen = self.0.load(Ordering::Relaxed); // the CAS decides
        while seen & PHASE != DONE {
            let next = seen & !(HELD | JOIN);
            // Release: pairs with the Acquire in `finish` of a worker that frees the record.
            match self.0.compare_exchange_weak(seen, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return LetGo::Running,
                Err(now) => seen = now,
            }
        }
        fence(Ordering::Acquire); // pairs with the Release of `finish`: the result
        LetGo::Done
    }

    /// Whether the task has a handle. Called by the owner: once false, it stays false.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) & HELD != 0
    }

    /// A store. Loom 0.7 can order a CAS after a plain store that it did not read, which no
    /// memory model allows; an exchange keeps it to what can happen.
    #[inline]
    fn replace(&self, word: u64, ordering: Ordering) {
        #[cfg(not(loom))]
        self.0.store(word, ordering);
        #[cfg(loom)]
        self.0.swap(word, ordering);
    }

    /// DONE → FREE with the next generation, by the holder of the record.
    #[inline]
    pub(crate) fn recycle(&self) {
        let word = self.0.load(Ordering::Relaxed); // the holder's own
        debug_assert_eq!(word & PHASE, DONE, "recycled a task that has not ended");
        let next = (word & GENERATION).wrapping_add(1 << GENERATION_SHIFT);
        // Release: for the Acquire in `unpark` of a stale handle, which compares the generation and
        // reads nothing else. Costs nothing.
        self.0.store(next | FREE, Ordering::Release);
    }

    /// Whether the task of this generation has ended.
    #[inline]
    pub(crate) fn is_done(&self, generation: Generation) -> bool {
        // Acquire: pairs with the Release of `finish`: the caller sees the writes of the task.
        let word = self.0.load(Ordering::Acquire);
        word & GENERATION != generation.0 || word & PHASE == DONE
    }

    /// Whether the task waits to be woken.
    #[cfg(all(test, loom))]
    pub(crate) fn is_parked(&self) -> bool {
        // Acquire: pairs with the Release in `unpark`.
        let word = self.0.load(Ordering::Acquire);
        word & PHASE != OWNED
    }

    /// The generation, for a caller that keeps the task alive.
    #[inline]
    pub(crate) fn generation(&self) -> Generation {
        Generation(self.0.load(Ordering::Relaxed) & GENERATION)
    }
}

fn owner_bits(worker: usize) -> u64 {
    debug_assert!(worker < 0xffff, "worker index out of range");
    (worker as u64 + 1) << OWNER_SHIFT
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
