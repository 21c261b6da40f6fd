//! Iterators over received values.

use super::Receiver;
use super::error::{Reason, RecvError};
use super::receiver::Patience;
use crate::base::error::{Error, Result};
use std::iter::FusedIterator;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Receives until the channel is closed and empty. If the task is cancelled, its budget is
/// exhausted, or the channel was [closed with](super::Sender::close_with) an error, the last item
/// is that error.
#[derive(Debug)]
#[must_use = "iterators are lazy: nothing is received before `next`"]
pub struct Iter<'r, T> {
    receiver: &'r Receiver<T>,
    ended: bool,
}

/// Like [`Iter`], and owns the receiver.
#[derive(Debug)]
#[must_use = "iterators are lazy: nothing is received before `next`"]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
    ended: bool,
}

/// Receives the values that need no wait. The last item may be an error, as for [`Iter`].
#[derive(Debug)]
#[must_use = "iterators are lazy: nothing is received before `next`"]
pub struct TryIter<'r, T> {
    receiver: &'r Receiver<T>,
    ended: bool,
}

/// Inlined for the constant `wait`.
#[inline(always)]
fn next<T>(receiver: &Receiver<T>, ended: &mut bool, wait: Patience) -> Option<Result<T>> {
    if *ended {
        return None;
    }
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: uninitialised memory for a value, which outlives the call.
    let reason = match unsafe { receiver.next_to(NonNull::from(&mut value).cast(), wait) } {
        // SAFETY: initialised by the call, and moved out once.
        Ok(()) => return Some(Ok(unsafe { value.as_ptr().read() })),
        Err(reason) => reason,
    };
    *ended = true;
    reason.note();
    match reason {
        Reason::Closed(None) | Reason::WouldWait => None,
        _ => Some(Err(Error::from(RecvError::new(reason)))),
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        next(self.receiver, &mut self.ended, Patience::None)
    }
}

impl<T> Iterator for Iter<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        next(self.receiver, &mut self.ended, Patience::Endless)
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        next(&self.receiver, &mut self.ended, Patience::Endless)
    }
}

impl<T> FusedIterator for Iter<'_, T> {}
impl<T> FusedIterator for IntoIter<T> {}
impl<T> FusedIterator for TryIter<'_, T> {}

impl<T> Receiver<T> {
    /// An iterator that receives until the channel is closed and empty.
    ///
    /// ```
    /// let (tx, rx) = parcae::channel::channel(3);
    /// (1..=3).try_for_each(|i| tx.send(i))?;
    /// drop(tx);
    /// let mut sum = 0;
    /// for i in rx.iter() {
    ///     sum += i?;
    /// }
    /// assert_eq!(sum, 6);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self, ended: false }
    }

    /// An iterator that receives until it would have to wait. Each value is a checkpoint, like
    /// [`try_recv`](Receiver::try_recv).
    ///
    /// ```
    /// let (tx, rx) = parcae::channel::channel(3);
    /// tx.send_all([1, 2])?;
    /// assert_eq!(rx.try_iter().collect::<parcae::Result<Vec<_>>>()?, [1, 2]);
    /// assert!(rx.try_iter().next().is_none()); // the channel is open, and empty
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self, ended: false }
    }
}

impl<'r, T> IntoIterator for &'r Receiver<T> {
    type Item = Result<T>;
    type IntoIter = Iter<'r, T>;

    fn into_iter(self) -> Iter<'r, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = Result<T>;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self, ended: false }
    }
}
