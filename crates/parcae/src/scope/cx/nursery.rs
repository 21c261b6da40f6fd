//! Opening a nursery: the calls of [`Cx`].

use super::Cx;
use crate::base::error::{Error, ErrorKind, Result, ShareRefused};
use crate::scope::cancel::CancelReason;
use crate::scope::cap::CapShare;
use crate::scope::nursery::{Nursery, NurseryOpts};
use crate::scope::profile::{ProfileId, Spawns};
use crate::scope::tally::Tallies;
use parcae_core::fair::Weight;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

impl<P: Spawns> Cx<P> {
    /// Opens a nursery, runs `body` in it, and waits for all children.
    ///
    /// Returns the body's value, or the first failure of a child. When a child or the body fails,
    /// the others are cancelled; [`nursery_with`](Cx::nursery_with) offers other policies. A panic
    /// of the body cancels the children, waits for them, and is resumed.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().workers(2).build()?;
    /// let text = String::from("the thread of life");
    /// let longest = rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         let mut lengths = Vec::new();
    ///         for word in text.split(' ') {
    ///             lengths.push(n.spawn(move |_| Ok(word.len()))?); // borrows from outside
    ///         }
    ///         let mut longest = 0;
    ///         for length in lengths {
    ///             longest = longest.max(length.join()?);
    ///         }
    ///         Ok(longest)
    ///     })
    /// })?;
    /// assert_eq!(longest, 6);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A child's failure takes precedence over a cancellation, a cancellation over the body's
    /// value.
    pub fn nursery<'env, R>(
        &self,
        body: impl for<'scope> FnOnce(&'scope Nursery<'scope, 'env, P>) -> Result<R>,
    ) -> Result<R> {
        self.open_nursery(None, body)
    }

    /// Like [`nursery`](Cx::nursery), with options: a name, a budget of its own, policies for
    /// failure and exhaustion.
    ///
    /// # Errors
    ///
    /// As for [`nursery`](Cx::nursery), and if the task has less than the budget that the
    /// options name, or the share is refused.
    pub fn nursery_with<'env, R>(
        &self,
        opts: NurseryOpts,
        body: impl for<'scope> FnOnce(&'scope Nursery<'scope, 'env, P>) -> Result<R>,
    ) -> Result<R> {
        if P::ID == ProfileId::Sovereign && opts.asks_for_share().is_some() {
            return Err(Error::new(ErrorKind::ShareRefused(ShareRefused::Sovereign)));
        }
        self.open_nursery(Some(opts), body)
    }

    /// Like [`nursery_with`](Cx::nursery_with), for a nursery with a
    /// [share](NurseryOpts::share) by the authority of a capability, which the profile
    /// [`Sovereign`](crate::profile::Sovereign) demands. Without a weight in the options it is
    /// [`Weight::NORMAL`].
    ///
    /// # Errors
    ///
    /// As for [`nursery_with`](Cx::nursery_with), and if the capability was revoked, is of another
    /// runtime, or does not allow the weight or another open nursery.
    pub fn nursery_with_share<'env, R>(
        &self,
        cap: &CapShare,
        opts: NurseryOpts,
        body: impl for<'scope> FnOnce(&'scope Nursery<'scope, 'env, P>) -> Result<R>,
    ) -> Result<R> {
        let weight = opts.asks_for_share().unwrap_or(Weight::NORMAL);
        cap.check_issuer(&self.frame().settings().issuer)?;
        let _place = cap.admit(weight)?;
        self.open_nursery(Some(opts.share(weight)), body)
    }

    /// With these options, or a usual nursery.
    fn open_nursery<'env, R>(
        &self,
        opts: Option<NurseryOpts>,
        body: impl for<'scope> FnOnce(&'scope Nursery<'scope, 'env, P>) -> Result<R>,
    ) -> Result<R> {
        let frame = self.frame();
        let mut place = MaybeUninit::uninit();
        let place = place.as_mut_ptr();
        // SAFETY: the core is dropped at the end of this call, and nurseries that are opened in
        // `body` end before `body` does: the task is then in the scope that it is in now.
        let (_core, shares) = unsafe { Nursery::open(place, frame, opts)? };
        // SAFETY: just made, and dropped after the last use of the reference.
        let nursery = unsafe { &*place };
        let core = &nursery.core;
        let outer = frame.enter_nursery(&core.settings, shares);
        frame.seen().nursery.set(Some(NonNull::from(core)));
        let outcome = catch_unwind(AssertUnwindSafe(|| body(nursery)));
        core.closing.store(true, Ordering::Relaxed); // as at the field
        let value = match outcome {
            Ok(Ok(value)) => Ok(Some(value)),
            Ok(Err(error)) => {
                // Whatever happens there: children are waited for first.
                catch_unwind(AssertUnwindSafe(|| core.body_failed(error, frame))).map(|()| None)
            }
            Err(payload) => {
                core.cancel(CancelReason::Failure);
                Err(payload)
            }
        };
        core.wait_for_children(frame);
        frame.leave_nursery(&core.settings, shares, outer);
        if core.settings.tally.is_some()
            && let Some(tallies) = core.settings.shared.part::<Tallies>()
        {
            tallies.close(core.settings.nursery);
        }
        match value {
            Ok(value) => core.result(value),
            Err(payload) => resume_unwind(payload),
        }
    }
}
