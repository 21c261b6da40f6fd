//! Futures on tasks, and tasks as futures.
//!
//! [`block_on`] polls a future where it is called. Its waker sets a flag and wakes the caller, in
//! this order; the caller clears the flag before it polls, and parks only while the flag is clear.
//! So a wake before, during or after the poll makes it poll once more. One allocation per call:
//! flag and waiter, counted, because a waker may be kept for ever.
//!
//! A future that finds its flag set after the poll has nothing to wait for: it woke itself, which
//! is how async code yields, or somebody was quick. It is polled again, but not at once: the wait
//! passes (`parking::pass`), so that others run, an op is charged and a cancelled task ends. The
//! flag is clear by then, and the next poll looks at everything anew, so a wake-up that the pass
//! consumed is not missed.
//!
//! The other way round a [`RootTask`](crate::RootTask) is a future itself.

use crate::base::error::Result;
use crate::scope::cx;
use crate::scope::cx::parking::{self, Deadline, wait};
use crate::wait::{Waiter, Wake as _, Why};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Runs a future to its end. On a task the task is parked while the future waits; elsewhere the
/// thread is blocked. So whatever async code needs no runtime of its own can be used as it is.
///
/// A cancel point whenever the future waits: if the task is cancelled then, the future is dropped,
/// which is how futures are cancelled. In [`Cx::shield`](crate::Cx::shield) it is none. A future
/// that wakes itself during its poll, which is how async code yields, is polled again after a
/// checkpoint, and after others have run. Not a checkpoint if the future is ready at the first
/// poll: a loop around that needs one.
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
/// If the task was cancelled while the future waited, or has used up its budget.
pub fn block_on<F: Future>(future: F) -> Result<F::Output> {
    let mut future = pin!(future);
    let signal = Arc::new(Signal { woken: AtomicBool::new(false), waiter: parking::waiter() });
    let waker = Waker::from(Arc::clone(&signal));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Ok(output);
        }
        // Acquire: pairs with the Release in `wake_by_ref`, and makes visible to the next poll what
        // was done before the wake.
        if signal.woken.swap(false, Ordering::Acquire) {
            if let Some(frame) = cx::current() {
                parking::pass(frame)?;
            }
            continue;
        }
        while !signal.woken.swap(false, Ordering::Acquire) {
            wait(cx::current(), Deadline::Never, Why::Future)?; // the swap: as above
        }
    }
}

struct Signal {
    woken: AtomicBool,
    waiter: Waiter,
}

impl Wake for Signal {
    fn wake(self: Arc<Signal>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Signal>) {
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

    /// Wakes itself so often before it is ready.
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
                    cx.yield_now()?; // it runs, and we do too
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
