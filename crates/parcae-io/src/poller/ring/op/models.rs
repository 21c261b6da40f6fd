//! The completion protocol under loom: a task that parks is woken, and after the result is seen
//! the buffer is the task's alone. Run: `.ci/run loom`.

use super::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// A waiter that counts its wake-ups.
#[derive(Clone)]
struct Bell(Arc<AtomicUsize>);

impl Wakes for Bell {
    fn taken(self) -> Bell {
        self
    }

    fn wake(self) {
        self.0.fetch_add(1, Ordering::Release); // pairs with the Acquire in `woken`
    }
}

impl Bell {
    fn new() -> Bell {
        Bell(Arc::new(AtomicUsize::new(0)))
    }

    fn woken(&self) -> usize {
        self.0.load(Ordering::Acquire) // pairs with the Release in `wake`
    }
}

/// An operation, and the buffer that the kernel writes before the completion.
struct Flying {
    op: RingOp<Bell>,
    buffer: UnsafeCell<u8>,
}

impl Flying {
    fn new() -> Arc<Flying> {
        Arc::new(Flying { op: RingOp::new(), buffer: UnsafeCell::new(0) })
    }

    fn complete(&self) {
        // SAFETY: the kernel's until the result is published; loom checks it.
        self.buffer.with_mut(|byte| unsafe { *byte = 7 });
        self.op.land(1);
    }

    fn take(&self) -> u8 {
        // SAFETY: as above: the task has seen the result.
        self.buffer.with_mut(|byte| unsafe { *byte })
    }
}

fn explore(name: &str, model: impl Fn() + Send + Sync + 'static) {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    let executions = std::sync::Arc::new(AtomicUsize::new(0));
    let counter = std::sync::Arc::clone(&executions);
    loom::model(move || {
        counter.fetch_add(1, Relaxed); // a count
        model();
    });
    println!("model {name}: {} executions", executions.load(Relaxed)); // as above
}

#[test]
fn a_completion_meets_a_task_that_is_about_to_park() {
    explore("ring::completion_against_wait", || {
        let (flying, bell) = (Flying::new(), Bell::new());
        let kernel = {
            let flying = Arc::clone(&flying);
            thread::spawn(move || flying.complete())
        };
        let seen = flying.op.result_or_wait(|| bell.clone());
        if seen.is_some() {
            assert_eq!(flying.take(), 7);
        }
        kernel.join().unwrap();
        assert!(seen.is_some() || bell.woken() == 1, "parked, and no one wakes it");
    });
}

/// The wait ends by a cancel while the completion comes: the second wait, which no cancel ends,
/// must see the result or be woken, although the first waiter was taken back or taken.
#[test]
fn a_completion_meets_a_task_that_is_cancelled() {
    explore("ring::completion_against_cancel", || {
        let (flying, first, second) = (Flying::new(), Bell::new(), Bell::new());
        let kernel = {
            let flying = Arc::clone(&flying);
            thread::spawn(move || flying.complete())
        };
        let mut seen = flying.op.result_or_wait(|| first.clone());
        if seen.is_none() {
            flying.op.withdraw(); // the cancel has ended the wait
            seen = flying.op.result_or_wait(|| second.clone());
        }
        if seen.is_some() {
            assert_eq!(flying.take(), 7);
        }
        kernel.join().unwrap();
        assert!(seen.is_some() || second.woken() == 1, "waits through, and no one wakes it");
        assert!(first.woken() + second.woken() <= 1, "one completion, one wake");
    });
}
