//! Who may spawn: a nursery and a context serve the task that they were given to, also if another
//! task on the same thread gets hold of them.

use crate::help::runtime;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, ThreadId};

/// A value that says it is `Send` because it is used on its own thread only, as some crates offer.
struct OnThread<T> {
    value: T,
    thread: ThreadId,
}

// SAFETY: the value is reached through `get` only, which refuses on every other thread, and what
// is `Copy` has nothing to drop.
unsafe impl<T: Copy> Send for OnThread<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Copy> Sync for OnThread<T> {}

impl<T: Copy> OnThread<T> {
    fn new(value: T) -> Self {
        OnThread { value, thread: thread::current().id() }
    }

    fn get(&self) -> T {
        assert_eq!(self.thread, thread::current().id());
        self.value
    }
}

#[test]
fn a_child_spawns_nothing_that_its_parents_nursery_does_not_wait_for() {
    /// Static: an orphan would outlive the test's frame.
    static ENDED: AtomicBool = AtomicBool::new(false);
    runtime(1)
        .run(|cx| {
            cx.nursery(|n| {
                let nursery = OnThread::new(n);
                n.spawn(move |cx| {
                    for _ in 0..10 {
                        cx.yield_now()?; // the body has returned
                    }
                    nursery.get().spawn(|cx| {
                        for _ in 0..100 {
                            cx.yield_now()?; // the one that spawned it has ended
                        }
                        ENDED.store(true, SeqCst);
                        Ok(())
                    })?;
                    Ok(())
                })?;
                Ok(())
            })?;
            if !ENDED.load(SeqCst) {
                std::process::abort(); // an orphan, and it uses a frame that is gone
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_context_opens_nurseries_for_its_own_task_only() {
    runtime(1)
        .run(|cx| {
            let parent = OnThread::new(cx);
            cx.nursery(|n| {
                n.spawn(move |_| {
                    let outcome = parent.get().nursery(|_| Ok(()));
                    assert!(outcome.is_err(), "a nursery on somebody else's frame");
                    Ok(())
                })?;
                Ok(())
            })
        })
        .unwrap();
}
