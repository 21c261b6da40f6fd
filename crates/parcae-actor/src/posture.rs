//! The posture of an actor: it runs, waits or sleeps, and its senders know.
//!
//! | posture | the actor's task | a sender |
//! |---|---|---|
//! | up | runs, and looks at its lanes before it waits | goes on |
//! | waiting | waits at the bell, or is about to | rings |
//! | asleep | has ended, or is about to; the supervisor has its state | asks the supervisor for a task |
//!
//! # No message is lost
//!
//! The actor announces that it is going to wait or to sleep, looks at both lanes once more, and
//! waits or ends if it finds nothing. A sender puts its message or event in, then looks at the
//! posture. Both have a sequentially consistent fence between their write and their look, so at
//! least one of them sees the other's write: either the sender rings or asks, or the actor's last
//! look finds the message.
//!
//! # One ring, one task
//!
//! A sender that finds the actor waiting or asleep sets the posture to up by a compare-and-swap. Of
//! several senders one succeeds, and rings or asks the supervisor, once for each wait or sleep. The
//! others go on: the actor looks at its lanes after the ring, and they have put their messages in
//! before they looked at the posture. The bell keeps a ring that comes before the wait; one that
//! comes although the actor's last look has found the message ends its next wait early.
//!
//! A request may reach the supervisor before the end of the task: the supervisor keeps it, and
//! starts the next task when it has the actor's state back. It may also come although the actor's
//! last look has found the message: then the next sleep of the actor is followed by a task that
//! finds nothing and sleeps again.

use crate::shim::atomic::{AtomicU8, Ordering, fence};

#[cfg(all(test, loom))]
mod models;

const UP: u8 = 0;
const WAITING: u8 = 1;
const ASLEEP: u8 = 2;

pub(crate) struct Posture(AtomicU8);

/// The duty of a sender, after it has put something in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// The actor looks by itself.
    None,
    /// Ring the bell.
    Ring,
    /// Ask the supervisor for a task.
    Rouse,
}

impl Posture {
    pub(crate) fn new() -> Posture {
        Posture(AtomicU8::new(UP))
    }

    /// After something was put into a lane.
    pub(crate) fn sent(&self) -> Alarm {
        fence(Ordering::SeqCst); // with the fences of `wait` and `sleep`
        // Relaxed: the fences order it. With the stores of `wait`, `sleep` and `get_up`.
        match self.0.load(Ordering::Relaxed) {
            WAITING if self.rouse(WAITING) => Alarm::Ring,
            ASLEEP if self.rouse(ASLEEP) => Alarm::Rouse,
            _ => Alarm::None,
        }
    }

    /// Ends the wait or the sleep of the actor. False if another sender has.
    fn rouse(&self, from: u8) -> bool {
        // Relaxed: the lock of the bell, or of the supervisor, passes the message on. With the
        // stores of `wait` and `sleep`.
        self.0.compare_exchange(from, UP, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The actor is about to wait. Before its last look.
    pub(crate) fn wait(&self) {
        self.0.store(WAITING, Ordering::Relaxed); // with the load of `sent`
        fence(Ordering::SeqCst); // with the fence of `sent`
    }

    /// The actor's task is about to end. Before its last look.
    pub(crate) fn sleep(&self) {
        self.0.store(ASLEEP, Ordering::Relaxed); // with the load of `sent`
        fence(Ordering::SeqCst); // with the fence of `sent`
    }

    /// Whether it waits, and whether it is asleep, for observers.
    pub(crate) fn look(&self) -> (bool, bool) {
        // Relaxed: it orders nothing. With the stores of `wait`, `sleep` and `get_up`.
        let posture = self.0.load(Ordering::Relaxed);
        (posture == WAITING, posture == ASLEEP)
    }

    /// The actor runs. A ring or a request that was made before is harmless.
    pub(crate) fn get_up(&self) {
        self.0.store(UP, Ordering::Relaxed); // with the load of `sent`
    }
}
