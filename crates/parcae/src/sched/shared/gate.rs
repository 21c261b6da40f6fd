//! The gate for spawns by threads that are no workers, and how shutdown closes it.
//!
//! A spawner counts itself in, spawns, and counts itself out. Shutting sets a bit of the same word;
//! a spawner that counts itself in after that is refused. So once the gate is shut and empty, every
//! task that ever came in has been counted by its spawner, and no other will come. Only then may
//! workers leave when they find that all tasks have ended.

use crate::base::shim::atomic::{AtomicUsize, Ordering};

const SHUT: usize = 1;
const ONE: usize = 2;

/// Number of spawners inside, and whether the gate is shut.
#[derive(Debug)]
pub(crate) struct Gate(AtomicUsize);

/// A spawner that was let in.
pub(crate) struct Entered<'g>(&'g Gate);

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate(AtomicUsize::new(0))
    }

    /// Lets a spawner in; `None` if the gate is shut.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        // Relaxed: this and the read-modify-write in `shut` are ordered by the word itself.
        let before = self.0.fetch_add(ONE, Ordering::Relaxed);
        let entered = Entered(self);
        (before & SHUT == 0).then_some(entered)
    }

    /// Shuts the gate.
    pub(crate) fn shut(&self) {
        self.0.fetch_or(SHUT, Ordering::Relaxed); // see `enter`
    }

    /// Opens it again. No thread is inside.
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed); // one thread
    }

    /// Whether no spawner is inside. Stays true after `shut`.
    pub(crate) fn is_empty(&self) -> bool {
        // Acquire: pairs with the Release in `drop`, for the tasks that were spawned.
        self.0.load(Ordering::Acquire) < ONE
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `is_empty`.
        self.0.0.fetch_sub(ONE, Ordering::Release); // out again
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::base::shim::explore;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// Two spawners against a shut: tasks that are counted when the gate is empty are all that
    /// there ever are.
    // rule: S4-SHUT-5
    #[test]
    fn spawn_against_shut() {
        explore("gate::spawn_against_shut", None, || {
            let world = Arc::new((Gate::new(), AtomicUsize::new(0)));
            let spawners: Vec<_> = (0..2)
                .map(|_| {
                    let world = Arc::clone(&world);
                    thread::spawn(move || {
                        if let Some(_entered) = world.0.enter() {
                            world.1.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            world.0.shut();
            // A shutdown that finds a spawner inside checks again later: not modelled.
            let seen = world.0.is_empty().then(|| world.1.load(Ordering::Relaxed));
            for spawner in spawners {
                spawner.join().unwrap();
            }
            let all = world.1.load(Ordering::Relaxed);
            assert!(seen.is_none_or(|seen| seen == all), "a task came in behind the gate");
        });
    }
}
