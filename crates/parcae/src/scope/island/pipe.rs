//! Pipes between stages: their memory is there from the beginning, and they never wait.
//!
//! A channel grows as values come, and a full one makes its sender wait. A pipe has a place for
//! each value that it can hold; a value that finds no place is handed back, and an empty pipe says
//! so. Its lock is held for one move of a value.

use crate::base::lock::Lock;
use std::fmt;
use std::sync::Arc;

struct PipeRing<T> {
    places: Box<[Option<T>]>,
    first: usize,
    len: usize,
}

/// The sender of a pipe; see [`pipe`]. Clones send to the same one.
pub struct PipeSender<T>(Arc<Lock<PipeRing<T>>>);

/// The receiver of a pipe; see [`pipe`]. Clones take from the same one.
pub struct PipeReceiver<T>(Arc<Lock<PipeRing<T>>>);

/// A pipe for so many values, and at least one, that never allocates after this and never waits.
///
/// ```
/// use parcae::island::pipe;
///
/// let (sender, receiver) = pipe(2);
/// assert_eq!((sender.send(1), sender.send(2), sender.send(3)), (Ok(()), Ok(()), Err(3)));
/// assert_eq!((receiver.receive(), receiver.receive()), (Some(1), Some(2)));
/// assert_eq!(receiver.receive(), None);
/// ```
pub fn pipe<T: Send>(capacity: usize) -> (PipeSender<T>, PipeReceiver<T>) {
    let places = (0..capacity.max(1)).map(|_| None).collect();
    let ring = Arc::new(Lock::new(PipeRing { places, first: 0, len: 0 }));
    (PipeSender(Arc::clone(&ring)), PipeReceiver(ring))
}

impl<T: Send> PipeSender<T> {
    /// Sends a value.
    ///
    /// # Errors
    ///
    /// The value, if the pipe is full.
    pub fn send(&self, value: T) -> Result<(), T> {
        let mut ring = self.0.lock();
        let PipeRing { places, first, len } = &mut *ring;
        if *len == places.len() {
            return Err(value);
        }
        let place = (*first + *len) % places.len();
        places[place] = Some(value);
        *len += 1;
        Ok(())
    }
}

impl<T: Send> PipeReceiver<T> {
    /// The value that was sent first; `None` if the pipe is empty.
    pub fn receive(&self) -> Option<T> {
        let mut ring = self.0.lock();
        let PipeRing { places, first, len } = &mut *ring;
        let value = places[*first].take()?;
        *first = (*first + 1) % places.len();
        *len -= 1;
        Some(value)
    }

    /// The number of values in the pipe.
    pub fn len(&self) -> usize {
        self.0.lock().len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Clone for PipeSender<T> {
    fn clone(&self) -> PipeSender<T> {
        PipeSender(Arc::clone(&self.0))
    }
}

impl<T> Clone for PipeReceiver<T> {
    fn clone(&self) -> PipeReceiver<T> {
        PipeReceiver(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for PipeSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PipeSender")
    }
}

impl<T> fmt::Debug for PipeReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PipeReceiver")
    }
}
