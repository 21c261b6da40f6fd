//! Receiving in a loop.

use super::Receiver;
use crate::error::{Error, Result};
use std::iter::FusedIterator;

/// Receives until the channel is closed and empty. An item is an error if the task was cancelled, ran out of
/// budget, or the channel was [closed with](super::Sender::close_with) one; it is the last item then.
#[derive(Debug)]
#[must_use = "it receives nothing until it is asked for items"]
pub struct Iter<'r, T> {
    receiver: &'r Receiver<T>,
    ended: bool,
}

/// As [`Iter`], and owns the receiver.
#[derive(Debug)]
#[must_use = "it receives nothing until it is asked for items"]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
    ended: bool,
}

fn next<T>(receiver: &Receiver<T>, ended: &mut bool) -> Option<Result<T>> {
    if *ended {
        return None;
    }
    let error = match receiver.recv() {
        Ok(value) => return Some(Ok(value)),
        Err(error) => error,
    };
    *ended = true;
    match error.reason() {
        super::Reason::Closed(None) => None,
        _ => Some(Err(Error::from(error))),
    }
}

impl<T> Iterator for Iter<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        next(self.receiver, &mut self.ended)
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        next(&self.receiver, &mut self.ended)
    }
}

impl<T> FusedIterator for Iter<'_, T> {}
impl<T> FusedIterator for IntoIter<T> {}

impl<T> Receiver<T> {
    /// Receives in a loop, until the channel is closed and empty.
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
