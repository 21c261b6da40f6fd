//! Scheduling contexts that are lent along calls: the part that callers and servers use.
//!
//! A caller makes an *offer* and sends the *loan* with its request; the server accepts it, or was
//! woken with it ([`Notify::notify_one_lending`](crate::sync::Notify::notify_one_lending)). How
//! tasks change to the context and back is argued in `run_queue::realtime::loan`. Calls of actors
//! do all of this by themselves.

use crate::base::error::{ContextRefused, Error, ErrorKind, Result};
use crate::sched::run_queue::{ContextLoan, NotLent};
use crate::sched::worker::loans;
use crate::scope::cx::{Here, parking};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// Whether the task that runs here is scheduled by a context, its own or a lent one. False on a
/// thread that runs no task.
pub fn runs_on_context() -> bool {
    loans::runs_on_context()
}

/// The offer of a caller to lend its scheduling context for the time of a call. While a server has
/// it, the server is scheduled as the caller would be, at the cost of the caller's budget.
///
/// Dropping the offer takes the context back, wherever it is: from a server that still works on the
/// request, and from those that it has called in turn. They go on as the tasks that they were.
///
/// ```
/// use parcae::channel::oneshot;
/// use parcae::policy::{ContextOffer, ContextOpts, LentContext};
/// use parcae::prelude::*;
/// use parcae::sync::{Mutex, Notify};
/// use std::time::Duration;
///
/// let rt = Runtime::builder().deterministic(1).build()?;
/// let ms = Duration::from_millis;
/// let control = rt.admit(ContextOpts::new(ms(3), ms(10)))?;
/// let (requests, bell) = (Mutex::new(Vec::<(_, _, LentContext)>::new()), Notify::new());
/// let took = rt.run(|cx| {
///     cx.nursery_with(NurseryOpts::new().name("service"), |n| {
///         let server = n.spawn(|cx| {
///             bell.wait()?;
///             let Some((request, reply, loan)) = requests.lock()?.pop() else { return Ok(()) };
///             (0..1_000).try_for_each(|_| cx.checkpoint())?; // 1 ms of the caller's budget
///             loan.give_back(); // and then the reply
///             let _ = reply.send(request + 1);
///             Ok(())
///         })?;
///         cx.yield_now()?; // the server waits
///         n.spawn(|cx| (0..50_000).try_for_each(|_| cx.checkpoint()))?; // best effort, 50 ms
///         let caller = n.spawn_with(SpawnOpts::new().context(&control), |_| {
///             let began = parcae::time::now();
///             let offer = ContextOffer::new(ms(1))?.expect("a task on a context");
///             let (reply, answer) = oneshot();
///             requests.lock()?.push((41, reply, offer.loan()));
///             bell.notify_one_lending(&offer.loan());
///             assert_eq!(answer.recv()?, 42);
///             Ok(parcae::time::now() - began)
///         })?;
///         server.join()?;
///         caller.join()
///     })
/// })?;
/// assert!(took < ms(2), "it has not waited for the best effort");
/// assert_eq!(control.stats().lent, 1);
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct ContextOffer {
    loan: Arc<ContextLoan>,
    /// It ends on the task that has made it, whose worker has the borrowers.
    _of_task: PhantomData<*const ()>,
}

impl ContextOffer {
    /// Offers the context that the running task is scheduled by, its own or a lent one. `None` if
    /// there is none, or it was revoked.
    ///
    /// `min_budget` is the time that the server needs at most: a caller that has less left is
    /// refused, so that its budget does not end inside of the server, which would keep it from
    /// other callers until the next period.
    ///
    /// # Errors
    ///
    /// [`ContextRefused::BelowMinimum`].
    pub fn new(min_budget: Duration) -> Result<Option<ContextOffer>> {
        let needed = u64::try_from(min_budget.as_nanos()).unwrap_or(u64::MAX);
        match loans::offer(needed) {
            Ok(loan) => Ok(Some(ContextOffer { loan: Arc::new(loan), _of_task: PhantomData })),
            Err(NotLent::NoContext) => Ok(None),
            Err(NotLent::BelowMinimum { left }) => {
                let left = Duration::from_nanos(left);
                let refused = ContextRefused::BelowMinimum { left, needed: min_budget };
                Err(Error::new(ErrorKind::ContextRefused(refused)))
            }
        }
    }

    /// The loan, to be sent with the request.
    pub fn loan(&self) -> LentContext {
        LentContext { loan: Arc::clone(&self.loan) }
    }
}

impl Drop for ContextOffer {
    fn drop(&mut self) {
        loans::end_offer(&self.loan);
    }
}

/// A scheduling context that a caller lends to its server; see [`ContextOffer`].
#[derive(Clone)]
pub struct LentContext {
    loan: Arc<ContextLoan>,
}

impl LentContext {
    /// The running task is scheduled by the context from now on, until it [gives it
    /// back](LentContext::give_back) or the caller takes it back. It yields once, to be picked by
    /// the context. Not a cancel point.
    ///
    /// True if it is scheduled by the caller's context now. That is not so if the loan is over, the
    /// task is not on the worker of the context, may move, is a future, or has a context already;
    /// nor if the context has no budget at present. Then it works for the caller as it always does.
    pub fn accept(&self) -> bool {
        let accepted = loans::accept(&self.loan);
        if accepted && let Some(frame) = Here::new().frame() {
            parking::let_go(frame);
        }
        accepted
    }

    /// Ends the loan, before the reply is sent: a caller that is ready while its loan is in force
    /// takes the context back. The running task, if it has the context by this loan, lets the
    /// caller run as soon as it waits, or at a checkpoint after some microseconds.
    pub fn give_back(&self) {
        if loans::give_back(&self.loan)
            && let Some(frame) = Here::new().frame()
        {
            frame.renew_turn(); // its end would come between the reply and the next wait
        }
    }

    /// Whether the loan is over, given back by the server or taken back by the caller.
    pub fn is_over(&self) -> bool {
        self.loan.is_over()
    }

    pub(crate) fn loan(&self) -> &Arc<ContextLoan> {
        &self.loan
    }
}

impl fmt::Debug for ContextOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextOffer").field("is_over", &self.loan.is_over()).finish()
    }
}

impl fmt::Debug for LentContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentContext").field("is_over", &self.is_over()).finish()
    }
}
