//! Waking those who wait.

/// Who waits.
pub(crate) trait Wake {
    /// Wakes it, from anywhere, at any time. Idempotent.
    fn wake(&self);

    /// Called by whoever takes it out to wake it, under the lock under which it was put there: when that is let go of,
    /// whoever waits may go on before it is woken.
    fn keep(&mut self) {}
}

/// Whom to wake, once the lock is released.
#[must_use = "they wait to be woken"]
pub(crate) enum Wakes<W> {
    Nobody,
    /// Somebody who was served.
    One(W),
    /// Those who watched.
    All(Vec<W>),
}

impl<W: Wake> Wakes<W> {
    #[inline]
    pub(crate) fn wake(self) {
        match self {
            Wakes::Nobody => {}
            Wakes::One(waiter) => waiter.wake(),
            Wakes::All(waiters) => waiters.iter().for_each(Wake::wake),
        }
    }
}
