//! Waits that once hung, or were taken for deadlocks, and must not be: each test is named by what broke.

use parcae::inspect::OnDeadlock;
use parcae::prelude::*;
use parcae::sync::{Mutex, Semaphore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Runs a test that may hang. The time is no figure: what takes so long has hung.
fn must_end<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let (tx, rx) = mpsc::channel();
    let thread = std::thread::spawn(move || tx.send(test()));
    match rx.recv_timeout(Duration::from_secs(30)) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(payload) => std::panic::resume_unwind(payload),
            Ok(_) => unreachable!("it has sent"),
        },
    }
}

fn failing() -> Runtime {
    Runtime::builder().workers(2).on_deadlock(OnDeadlock::Fail).build().unwrap()
}

/// Somebody who dumps all the time holds tasks still, one after another; others who look find them all the same.
#[test]
fn a_deadlock_is_found_while_somebody_else_looks() {
    must_end(|| {
        let rt = failing();
        let done = AtomicBool::new(false);
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        rt.dump();
                    }
                });
            }
            for _ in 0..4 {
                let outcome: parcae::Result<()> = rt.run(|_| Semaphore::new(0).acquire().map(drop));
                let error = outcome.unwrap_err();
                assert!(matches!(error.kind(), ErrorKind::Deadlock(_)), "{error:?}");
            }
            done.store(true, Ordering::Relaxed);
        });
    });
}

/// Waits when it is dropped.
struct Waits(Arc<Mutex<()>>);

impl Drop for Waits {
    fn drop(&mut self) {
        drop(self.0.lock());
    }
}

/// A result that nobody takes is dropped by its task, which may wait.
#[test]
fn a_root_result_that_waits_in_its_drop_holds_up_nobody() {
    must_end(|| {
        let rt = Runtime::builder().workers(1).temporary_workers(0).build().unwrap();
        let lock = Arc::new(Mutex::new(()));
        let (held, handle) = (Arc::clone(&lock), rt.handle());
        let root = rt.handle().spawn(move |cx| {
            let guard = held.lock()?;
            let result = Waits(Arc::clone(&held));
            drop(handle.spawn(move |_| Ok(result))?);
            cx.sleep(Duration::from_millis(50))?; // the other has ended, but for its result
            drop(guard);
            Ok(())
        });
        root.unwrap().join().unwrap();
    });
}
