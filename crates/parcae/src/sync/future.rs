//! Futures on tasks, and tasks as futures.
//!
//! [`block_on`] polls a future on the caller's stack. Its waker sets a flag and then wakes the
//! caller. The caller clears the flag before it polls, and parks only while the flag is clear. So a
//! wake before, during or after the poll causes another poll. One allocation per call holds flag
//! and waiter, reference-counted because a waker may outlive the call.
//!
//! If the flag is set right after a poll, there is nothing to wait for: the future woke itself,
//! which is how async code yields, or its event came early. It is polled again, but not at once:
//! the wait passes (`parking::pass`), so that other tasks run, an op is charged and a cancelled
//! task ends. The flag is clear by then, and the next poll checks everything again, so a wake-up
//! that the pass consumed is not missed.
//!
//! Conversely, a [`RootTask`](crate::RootTask) is itself a future.

use crate::base::error::Result;
use crate::scope::cx;
use crate::scope::cx::parking::{self, Deadline, wait};
use crate::wait::{Waiter, Wake as _, Why};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Runs a future to completion. Parks the task while the future waits, or blocks a thread that runs
/// no task. Any async code that needs no runtime of its own can be used this way.
///
/// A cancel point whenever the future waits: if the task is cancelled, the future is dropped, which
/// is how futures are cancelled. Not a cancel point in [`Cx::shield`](crate::Cx::shield). A future
/// that wakes itself during its poll, which is how async code yields, is polled again after a
/// checkpoint that lets other tasks run. Not a checkpoint if the future is ready at the first poll:
/// a loop around such a call needs one of its own.
///
/// ```
/// use parcae::prelude::*;
///
/// async fn double(number: i32) -> i32 {
///     std::future::ready(number * 2).await
/// }
///
/// let rt = Runtime::builder().build()?;
/// assert_eq!(rt.run(|_| parcae::block_on(double(21)))?, 42);
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Errors
///
/// If the task is cancelled while the future waits, or its budget is exhausted.
pub fn block_on<F: Future>(future: F) -> Result<F::Output> {
    let mut future = pin!(future);
    let signal = Arc::new(FutureWaker { woken: AtomicBool::new(false), waiter: parking::waiter() });
    let waker = Waker::from(Arc::clone(&signal));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Ok(output);
        }
        // Acquire: pairs with the Release in `wake_by_ref`, and makes the writes before the wake
        // visible to the next poll.
        if signal.woken.swap(false, Ordering::Acquire) {
            if let Some(frame) = cx::Here::new().frame() {
                parking::pass(frame)?;
            }
            continue;
        }
        // Acquire: as above, pairs with `wake_by_ref`.
        while !signal.woken.swap(false, Ordering::Acquire) {
            wait(cx::Here::new().frame(), Deadline::Never, Why::Future)?;
        }
    }
}

struct FutureWaker {
    woken: AtomicBool,
    waiter: Waiter,
}

impl Wake for FutureWaker {
    fn wake(self: Arc<FutureWaker>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<FutureWaker>) {
        self.woken.store(true, Ordering::Release); // pairs with the swap in `block_on`
        self.waiter.wake();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::prelude::*;
    use std::future::poll_fn;
    use std::sync::Mutex;

    /// A future that wakes itself this often before it is ready.
    fn countdown(mut left: u32) -> impl Future<Output = &'static str> {
        poll_fn(move |context| {
            if left == 0 {
                return Poll::Ready("done");
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    #[test]
    fn tasks_and_threads_run_futures() {
        assert_eq!(block_on(countdown(3)).unwrap(), "done");
        for seed in 0..20 {
            let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
            assert_eq!(rt.run(|_| block_on(countdown(3))).unwrap(), "done");
        }
        let rt = Runtime::builder().workers(1).build().unwrap();
        assert_eq!(rt.run(|_| block_on(countdown(300))).unwrap(), "done");
    }

    /// A one-place mailbox whose receiver is a future.
    #[derive(Default)]
    struct Mailbox(Mutex<(Option<u32>, Option<Waker>)>);

    impl Mailbox {
        fn send(&self, value: u32) {
            let mut state = self.0.lock().unwrap();
            state.0 = Some(value);
            let waker = state.1.take();
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }

        fn receive(&self) -> impl Future<Output = u32> {
            poll_fn(|context| {
                let mut state = self.0.lock().unwrap();
                match state.0.take() {
                    Some(value) => Poll::Ready(value),
                    None => {
                        state.1 = Some(context.waker().clone());
                        Poll::Pending
                    }
                }
            })
        }
    }

    #[test]
    fn no_wake_is_lost_between_threads() {
        let rt = Runtime::builder().workers(2).build().unwrap();
        let (there, back) = (Mailbox::default(), Mailbox::default());
        std::thread::scope(|s| {
            s.spawn(|| {
                for _ in 0..2_000 {
                    back.send(block_on(there.receive()).unwrap() + 1);
                }
            });
            rt.run(|_| {
                for i in 0..2_000 {
                    there.send(i);
                    assert_eq!(block_on(back.receive())?, i + 1);
                }
                Ok(())
            })
            .unwrap();
        });
    }

    #[test]
    fn a_cancelled_task_drops_its_future() {
        let held = Arc::new(());
        for seed in 0..20 {
            let rt = Runtime::builder().deterministic(seed).build().unwrap();
            let outcome = rt.run(|cx| {
                cx.nursery(|n| {
                    let held = Arc::clone(&held);
                    n.spawn(move |_| {
                        block_on(async move {
                            let _held = held;
                            std::future::pending::<()>().await;
                        })
                    })?;
                    cx.yield_now()?;
                    n.cancel();
                    Ok(())
                })
            });
            assert!(outcome.unwrap_err().is_cancelled());
            assert_eq!(Arc::strong_count(&held), 1);
        }
    }

    #[test]
    fn a_future_that_wakes_itself_costs_its_task_and_lets_others_run() {
        for seed in 0..20 {
            let rt = Runtime::builder().workers(1).deterministic(seed);
            let rt = rt.budget(Budget { ops: 100, ..Budget::UNLIMITED }).build().unwrap();
            let error = rt.run(|_| block_on(countdown(1_000))).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)), "{error}");
            let rt = Runtime::builder().workers(1).deterministic(seed).build().unwrap();
            let ended = AtomicBool::new(false);
            let outcome = rt.run(|cx| {
                cx.nursery(|n| {
                    n.spawn(|_| block_on(countdown(10_000)))?;
                    cx.yield_now()?; // both tasks run
                    ended.store(true, Ordering::Relaxed);
                    n.cancel();
                    Ok(())
                })
            });
            assert!(outcome.unwrap_err().is_cancelled());
            assert!(ended.into_inner());
        }
    }

    #[test]
    fn a_root_task_is_a_future() {
        let rt = Runtime::builder().workers(2).build().unwrap();
        for i in 0..200 {
            let task = rt.handle().spawn(move |cx| {
                for _ in 0..i % 3 {
                    cx.yield_now()?;
                }
                Ok(i)
            });
            assert_eq!(block_on(task.unwrap()).unwrap().unwrap(), i);
        }
        let task = rt.handle().spawn(|_| Err::<(), _>(crate::Error::msg("no"))).unwrap();
        let awaited = rt.run(|_| block_on(async move { task.await.unwrap_err().to_string() }));
        assert!(awaited.unwrap().starts_with("no"));
    }

    #[test]
    fn tasks_of_the_deterministic_executor_await_each_other() {
        for seed in 0..40 {
            let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
            let handle = rt.handle();
            let sum = rt.run(move |_| {
                let tasks: Result<Vec<_>> = (0..5).map(|i| handle.spawn(move |_| Ok(i))).collect();
                block_on(async {
                    let mut sum = 0;
                    for task in tasks? {
                        sum += task.await?;
                    }
                    Ok(sum)
                })?
            });
            assert_eq!(sum.unwrap(), 10);
        }
    }
}
