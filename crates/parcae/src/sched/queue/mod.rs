//! Where tasks wait for a worker.
//!
//! | queue | pushed by | taken by | made of |
//! |---|---|---|---|
//! | [`Inbox`] | any thread | its worker, or a thief that rescues | one word, links |
//! | [`Inject`] | any thread | any worker | ring of 4096, then links under a lock |
//! | [`Chain`] | its owner | its owner | links, plain moves; the private queues of a worker, and batches |
//!
//! # Who owns what
//!
//! A task record is in at most one queue. A queue owns the *right to run* its tasks, not
//! their memory: records live in slabs that outlast their time in a queue. A push gives the
//! right away, and with it every access to the record, because the record may be running
//! or finished before the push returns. A take hands the right to exactly one thread. Since
//! a record is in one queue only, one link in it serves all of them, and no queue ever
//! allocates after it was made: a wake-up cannot fail.
//!
//! Conserved: tasks pushed = tasks taken + tasks in the queue, each of them once. Debug builds
//! keep a mark in every link and stop at the first task that is queued twice or comes out
//! twice, and at the first queue that is dropped with tasks in it.
//!
//! # Orderings
//!
//! Enqueue is release, dequeue is acquire: whatever the pusher did to the record, and what
//! happened before, is visible to the taker. There is one pair per way in:
//!
//! | way | release | acquire |
//! |---|---|---|
//! | inbox | exchange of `top` in `Inbox::push` | swap of `top` in `Inbox::drain` |
//! | ring, a task | `seq` in `InjectRing::publish` | `seq` in `InjectRing::lag`, by a taker |
//! | ring, room | `seq` in `InjectRing::take` | `seq` in `InjectRing::lag`, by a pusher |
//! | list | unlock of `list` | lock of `list` |
//! | list to ring | `spilled` in `Inject::set_spilled` | `has_spilled`, `may_use_ring` |
//!
//! Everything else is relaxed, with the reason beside it. There is no sequentially
//! consistent *access*; the full fences belong to the sleep protocol.
//!
//! # Sleep
//!
//! The queues do not know which workers sleep. They offer `is_empty`, which is never true while the
//! queue contains a task whose push happened before, and the idle protocol does the rest:
//!
//! ```text
//!   producer                         worker
//!   push(task)                       announce that it sleeps
//!   fence(SeqCst)          <-->      fence(SeqCst)
//!   who sleeps? wake one             is_empty of every queue it serves? then sleep
//! ```
//!
//! *No task is left while its worker sleeps unwoken.* Of two full fences one comes first. If it is
//! the producer's, the worker's `is_empty` reads the word that the push wrote: `top`, `tail` or
//! `spilled`, or a later value of that word, which means that the task was taken, or moved it from
//! the list to the ring (`is_empty` looks in that order and finds it). If it is the worker's, the
//! producer sees the announcement and wakes it. The argument is per push and does not ask what
//! other pushes are in the middle of: a pusher that has claimed a slot of the ring and not
//! published it makes `pop` say `None` for the tasks behind its own, but `is_empty` says false from
//! the claim on, and the unfinished pusher makes its own look for sleepers after it published.
//! Nothing waits for a wake-up that was already spent.
//!
//! *Into an inbox only the first has to check.* A push that finds tasks there may skip the fence
//! and the check. Take the push that found the inbox empty, the last one before it: its task is
//! still there (takes are whole). By the argument above either the owner's check sees a non-empty
//! inbox, or that first pusher sees the owner's announcement and wakes it; the owner takes
//! everything. Between the two the later task waits for the first pusher to get on with it. The
//! global queue has no such rule: one sleeper is woken per push, since several tasks are work for
//! several workers.
//!
//! Nothing blocks: `push` into an inbox or the ring is a loop in which each failure is
//! another thread's success (for the ring: at most 32, then the list); the list's lock
//! covers a bounded number of moves. Takers never wait for a pusher.
//!
//! # Rejected
//!
//! - *Vyukov's linked queue as inbox:* a pusher between its two steps hides completed pushes
//!   of others, and only one taker is allowed. See [`inbox`].
//! - *Slots without sequence numbers* (exchange of null for the task): a lap-old taker can
//!   take a task that was pushed again, unless pointers carry a tag; the address space
//!   leaves no bits for a tag that is wide enough.
//! - *An unbounded lock-free list of blocks:* allocates in `push` and needs deferred
//!   reclamation, both for the rare case.
//! - *A ring that goes on taking pushes while the list holds tasks,* with every k-th take
//!   from the list: bounds starvation too, but gives up the order of a single producer.
//! - *A flag "not empty" beside the queue:* it can be cleared after a concurrent push. The
//!   words that are asked are the ones that the push itself moves.
//! - *A length counter in the inbox:* a second shared write per push. `drain` returns the length
//!   for free, when it matters.

mod inbox;
mod inject;
mod lanes;
mod link;
mod ring;
mod tenant;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use {
    inbox::Inbox,
    inject::Inject,
    link::{Chain, Link, Linked},
    tenant::TenantQueue,
};
