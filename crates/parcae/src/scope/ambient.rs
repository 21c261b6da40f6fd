//! Operations of a task without its [`Cx`](crate::Cx): the running task is found by its thread.
//!
//! For code that is called by tasks and by other threads, and for code that would otherwise pass a
//! `Cx` through many calls for this purpose alone. The methods of a `Cx` are faster: they need not
//! find the running task.

use crate::base::error::Result;
use crate::scope::cx;

/// As [`Cx::checkpoint`](crate::Cx::checkpoint), for the task that runs here: charges one op, lets
/// others run at the end of the turn, and ends the task if it was cancelled. On a thread that runs
/// no task it does nothing.
///
/// ```
/// use parcae::prelude::*;
///
/// /// Used by tasks and by threads.
/// fn sum(numbers: &[u64]) -> parcae::Result<u64> {
///     let mut sum = 0;
///     for number in numbers {
///         parcae::checkpoint()?;
///         sum += number;
///     }
///     Ok(sum)
/// }
///
/// let numbers = [1; 5_000];
/// assert_eq!(sum(&numbers)?, 5_000); // a thread
/// let rt = Runtime::builder().budget(Budget { ops: 1_000, ..Budget::UNLIMITED }).build()?;
/// let error = rt.run(|_| sum(&numbers)).unwrap_err(); // a task, whose budget is not enough
/// assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)));
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Errors
///
/// If the task was cancelled, or has used up its budget and gets no more. None on a thread.
pub fn checkpoint() -> Result<()> {
    cx::Here::new().frame().map_or(Ok(()), cx::parking::checkpoint)
}

/// As [`Cx::yield_now`](crate::Cx::yield_now), for the task that runs here: lets others run that
/// are ready, costs no budget, and is a cancel point. On a thread that runs no task it is
/// [`std::thread::yield_now`].
///
/// ```
/// use parcae::prelude::*;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let ready = AtomicBool::new(false);
/// let wait = || {
///     while !ready.load(Ordering::Acquire) {
///         parcae::yield_now()?; // works on tasks and threads
///     }
///     Ok(())
/// };
/// let rt = Runtime::builder().workers(1).build()?;
/// rt.run(|cx| {
///     cx.nursery(|n| {
///         n.spawn(|_| wait())?;
///         n.spawn(|_| Ok(ready.store(true, Ordering::Release)))?;
///         Ok(())
///     })
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Errors
///
/// If the task was cancelled. None on a thread.
pub fn yield_now() -> Result<()> {
    match cx::Here::new().frame() {
        Some(frame) => frame.yield_now(),
        None => {
            std::thread::yield_now();
            Ok(())
        }
    }
}
