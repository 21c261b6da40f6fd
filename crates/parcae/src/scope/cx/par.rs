//! Computing in parallel: two closures at once, and loops over slices.
//!
//! # Pieces
//!
//! A loop is cut into *pieces*. The caller and a few helpers take them from a shared iterator until
//! none is left. Helpers are children of a nursery, at most one for each further worker, so the
//! number of tasks does not depend on the length of the slice. The caller works itself: a machine
//! whose other workers are busy is as fast as a plain loop, and a helper that starts late finds
//! nothing left and ends. Faster workers take more pieces, so pieces need not be equally expensive.
//!
//! The iterator is behind a lock that is held for a few instructions. It hands out disjoint parts
//! of the slices, which makes the loop safe code. A taker takes several small pieces at a time
//! ([`BATCH`]), at most an eighth of its share of the rest, so that the last ones are spread.
//!
//! # Budget and cancellation
//!
//! Helpers draw on the budget of the task, as children do. A shortage of spawns means fewer
//! helpers, not a failure. Each piece is a checkpoint. When one fails, or the task is cancelled,
//! the others end at their next piece.
//!
//! # Sorting
//!
//! The halves are sorted at the same time, and so on down to pieces of a sensible length. Then the
//! standard library's stable sort, which recognises sorted runs, merges the two.
//!
//! # Rejected
//!
//! A task for each piece: a spawn costs as much as a thousand additions. Splitting by stealing, as
//! rayon does: a started task stays on its worker, so a task that is stolen would have to be one
//! that was spawned for that.

use super::Cx;
use crate::base::error::{Error, ErrorKind, Result};
use crate::scope::profile::SpawnsFreely;
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

/// Small pieces that are taken at a time, at most. Makes the cost of the lock small.
const BATCH: usize = 32;
/// Pieces for each worker, where the runtime chooses their size: enough to even out unequal ones.
const PIECES: usize = 8;
/// Slices up to this length are sorted by one task. Sorting them takes about as long as starting
/// a task on another worker.
const SORT_ALONE: usize = 2_048;

/// Pieces of a loop that were not taken yet.
struct Pieces<I> {
    rest: Mutex<I>,
    workers: usize,
}

impl<I: ExactSizeIterator> Pieces<I> {
    /// Takes some pieces. None are left if there are none in `taken` after this.
    fn take(&self, taken: &mut Vec<I::Item>) {
        // Iterators over slices do not panic.
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        let count = (rest.len() / (self.workers * 8)).clamp(1, BATCH);
        taken.extend(rest.by_ref().take(count));
    }
}

/// Whether a helper could not be started because the budget has no more.
fn is_short(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::SpawnBudgetExhausted(_) | ErrorKind::OutOfMemory)
}

impl<P: SpawnsFreely> Cx<P> {
    fn workers(&self) -> usize {
        self.frame().settings().shared.config.workers
    }

    /// Runs two closures, if possible at the same time, and returns both results.
    ///
    /// The first runs on this task, the second is a child. Both may borrow. If one fails, the other
    /// is cancelled, and the failure is returned.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// fn sum(cx: &Cx, numbers: &[u64]) -> parcae::Result<u64> {
    ///     if numbers.len() <= 1_000 {
    ///         return Ok(numbers.iter().sum());
    ///     }
    ///     let (left, right) = numbers.split_at(numbers.len() / 2);
    ///     let (left, right) = cx.join(|cx| sum(cx, left), |cx| sum(cx, right))?;
    ///     Ok(left + right)
    /// }
    ///
    /// let numbers: Vec<u64> = (1..=100_000).collect();
    /// let rt = Runtime::builder().workers(2).build()?;
    /// assert_eq!(rt.run(|cx| sum(cx, &numbers))?, 5_000_050_000);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The failure of a closure, a cancellation, or an exhausted budget.
    pub fn join<'env, A, B>(
        &self,
        first: impl FnOnce(&Cx<P>) -> Result<A>,
        second: impl FnOnce(&Cx<P>) -> Result<B> + Send + 'env,
    ) -> Result<(A, B)>
    where
        B: Send + 'env,
    {
        self.nursery(|n| {
            let second = n.spawn(second)?;
            Ok((first(self)?, second.join()?))
        })
    }

    /// Calls `each` for every piece, on this task and on helpers.
    fn for_pieces<'env, I>(
        &self,
        pieces: I,
        each: impl Fn(&Cx<P>, I::Item) -> Result<()> + Sync + 'env,
    ) -> Result<()>
    where
        I: ExactSizeIterator + Send + 'env,
        I::Item: Send,
    {
        let (count, workers) = (pieces.len(), self.workers());
        let pieces = Pieces { rest: Mutex::new(pieces), workers };
        let work = |cx: &Cx<P>| {
            let mut taken = Vec::with_capacity(BATCH.min(count));
            loop {
                pieces.take(&mut taken);
                if taken.is_empty() {
                    return Ok(());
                }
                for piece in taken.drain(..) {
                    cx.checkpoint()?;
                    each(cx, piece)?;
                }
            }
        };
        let helpers = workers.min(count).saturating_sub(1);
        if helpers == 0 {
            return work(self);
        }
        let work = &work;
        self.nursery(|n| {
            for _ in 0..helpers {
                match n.spawn(work) {
                    Ok(_) => {}
                    Err(error) if is_short(&error) => break, // fewer helpers
                    Err(error) => return Err(error),
                }
            }
            work(self)
        })
    }

    /// Calls `each` for chunks of a slice in parallel, and returns the results in order. The last
    /// chunk may be shorter. Chunks, results and closure may borrow.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let numbers: Vec<u64> = (1..=100_000).collect();
    /// let rt = Runtime::builder().workers(2).build()?;
    /// let sum: u64 = rt.run(|cx| {
    ///     let sums = cx.par_chunks(&numbers, 4_096, |_, chunk| Ok(chunk.iter().sum::<u64>()))?;
    ///     Ok(sums.into_iter().sum())
    /// })?;
    /// assert_eq!(sum, 5_000_050_000);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first failure of `each`, a cancellation, or an exhausted budget. Chunks that were not
    /// begun are left out.
    ///
    /// # Panics
    ///
    /// If `size` is 0.
    pub fn par_chunks<'env, T, R>(
        &self,
        slice: &'env [T],
        size: usize,
        each: impl Fn(&Cx<P>, &'env [T]) -> Result<R> + Sync + 'env,
    ) -> Result<Vec<R>>
    where
        T: Sync,
        R: Send + 'env,
    {
        self.collect(slice.chunks(size), each)
    }

    /// Like [`par_chunks`](Cx::par_chunks), with chunks that can be changed.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let mut pixels = vec![10_u8; 10_000];
    /// let rt = Runtime::builder().workers(2).build()?;
    /// rt.run(|cx| {
    ///     cx.par_chunks_mut(&mut pixels, 1_000, |_, row| {
    ///         row.iter_mut().for_each(|pixel| *pixel += 5);
    ///         Ok(())
    ///     })
    /// })?;
    /// assert!(pixels.iter().all(|&pixel| pixel == 15));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`par_chunks`](Cx::par_chunks). Chunks that were begun keep their changes.
    ///
    /// # Panics
    ///
    /// If `size` is 0.
    pub fn par_chunks_mut<'env, T, R>(
        &self,
        slice: &'env mut [T],
        size: usize,
        each: impl Fn(&Cx<P>, &'env mut [T]) -> Result<R> + Sync + 'env,
    ) -> Result<Vec<R>>
    where
        T: Send,
        R: Send + 'env,
    {
        self.collect(slice.chunks_mut(size), each)
    }

    /// The results of `each` for all pieces, in their order.
    fn collect<'env, I, R>(
        &self,
        pieces: I,
        each: impl Fn(&Cx<P>, I::Item) -> Result<R> + Sync + 'env,
    ) -> Result<Vec<R>>
    where
        I: ExactSizeIterator + Send + 'env,
        I::Item: Send,
        R: Send + 'env,
    {
        let mut results: Vec<Option<R>> = Vec::new();
        results.resize_with(pieces.len(), || None);
        self.for_pieces(pieces.zip(results.iter_mut()), |cx, (piece, result)| {
            *result = Some(each(cx, piece)?);
            Ok(())
        })?;
        Ok(results.into_iter().flatten().collect())
    }

    /// Calls `each` for every element of a slice in parallel, and returns the results in order. The
    /// runtime chooses how many elements a piece has; each piece is a checkpoint.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let words = ["spin", "measure", "cut"];
    /// let rt = Runtime::builder().workers(2).build()?;
    /// let lengths = rt.run(|cx| cx.par_map(&words, |word| Ok(word.len())))?;
    /// assert_eq!(lengths, [4, 7, 3]);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first failure of `each`, a cancellation, or an exhausted budget. Results that were
    /// computed already are dropped.
    pub fn par_map<'env, T, R>(
        &self,
        slice: &'env [T],
        each: impl Fn(&'env T) -> Result<R> + Sync + 'env,
    ) -> Result<Vec<R>>
    where
        T: Sync,
        R: Send + 'env,
    {
        let size = (slice.len() / (self.workers() * PIECES)).max(1);
        let mut results = MappedResults::with_capacity(slice.len(), size);
        let (places, done) = results.parts();
        let pieces = slice.chunks(size).zip(places).zip(done);
        self.for_pieces(pieces, |_, ((chunk, places), done)| {
            let mut written = WrittenResults { places, count: 0 };
            for item in chunk {
                written.push(each(item)?);
            }
            written.keep();
            *done = true;
            Ok(())
        })?;
        Ok(results.finish())
    }

    /// Sorts a slice in parallel. The sort is stable: equal elements keep their order.
    ///
    /// A piece that is being sorted is not interrupted: a cancellation takes effect between pieces.
    /// After an error the slice has all its elements, in an unspecified order.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let unordered = (0..100_000_u32).map(|n| n.wrapping_mul(2_654_435_761));
    /// let mut numbers: Vec<u32> = unordered.collect();
    /// let rt = Runtime::builder().workers(2).build()?;
    /// rt.run(|cx| cx.par_sort(&mut numbers))?;
    /// assert!(numbers.is_sorted());
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the task is cancelled, or its budget is exhausted.
    pub fn par_sort<T: Ord + Send>(&self, slice: &mut [T]) -> Result<()> {
        self.par_sort_by(slice, T::cmp)
    }

    /// Like [`par_sort`](Cx::par_sort), by a comparison.
    ///
    /// # Errors
    ///
    /// As for [`par_sort`](Cx::par_sort).
    pub fn par_sort_by<T: Send>(
        &self,
        slice: &mut [T],
        compare: impl Fn(&T, &T) -> std::cmp::Ordering + Sync,
    ) -> Result<()> {
        // Halved until each worker has a piece or two.
        let levels = self.workers().next_power_of_two().trailing_zeros();
        let levels = if self.workers() == 1 { 0 } else { levels };
        sort(self, slice, levels, &compare)
    }

    /// Like [`par_sort`](Cx::par_sort), by a key.
    ///
    /// # Errors
    ///
    /// As for [`par_sort`](Cx::par_sort).
    pub fn par_sort_by_key<T: Send, K: Ord>(
        &self,
        slice: &mut [T],
        key: impl Fn(&T) -> K + Sync,
    ) -> Result<()> {
        self.par_sort_by(slice, |a, b| key(a).cmp(&key(b)))
    }
}

fn sort<P, T, C>(cx: &Cx<P>, slice: &mut [T], levels: u32, compare: &C) -> Result<()>
where
    P: SpawnsFreely,
    T: Send,
    C: Fn(&T, &T) -> std::cmp::Ordering + Sync,
{
    cx.checkpoint()?;
    if levels > 0 && slice.len() > SORT_ALONE {
        let (left, right) = slice.split_at_mut(slice.len() / 2);
        cx.join(
            |cx| sort(cx, left, levels - 1, compare),
            |cx| sort(cx, right, levels - 1, compare),
        )?;
    }
    slice.sort_by(compare); // merges the halves, if they were sorted
    Ok(())
}

/// Memory for the results of a map, and which of its pieces are filled.
struct MappedResults<R> {
    results: Vec<R>,
    count: usize,
    size: usize,
    done: Vec<bool>,
}

impl<R> MappedResults<R> {
    fn with_capacity(count: usize, size: usize) -> MappedResults<R> {
        let done = vec![false; count.div_ceil(size)];
        MappedResults { results: Vec::with_capacity(count), count, size, done }
    }

    /// The memory of each piece, and its flag.
    #[allow(clippy::type_complexity)]
    fn parts(
        &mut self,
    ) -> (std::slice::ChunksMut<'_, MaybeUninit<R>>, std::slice::IterMut<'_, bool>) {
        let places = &mut self.results.spare_capacity_mut()[..self.count];
        (places.chunks_mut(self.size), self.done.iter_mut())
    }

    /// The results, when all pieces are filled.
    fn finish(mut self) -> Vec<R> {
        assert!(self.done.iter().all(|&done| done), "a piece was left out");
        self.done.clear(); // nothing to drop
        let mut results = std::mem::take(&mut self.results);
        // SAFETY: so many places were cut into pieces, each of which was filled.
        unsafe { results.set_len(self.count) };
        results
    }
}

impl<R> Drop for MappedResults<R> {
    fn drop(&mut self) {
        let done = std::mem::take(&mut self.done);
        if done.is_empty() {
            return; // all were taken
        }
        let (places, _) = self.parts();
        for (piece, _) in places.zip(done).filter(|(_, done)| *done) {
            for result in piece {
                // SAFETY: the piece was filled, and is dropped once.
                unsafe { result.assume_init_drop() };
            }
        }
    }
}

/// The results of a piece that is being filled. Drops them unless they are kept.
struct WrittenResults<'r, R> {
    places: &'r mut [MaybeUninit<R>],
    count: usize,
}

impl<R> WrittenResults<'_, R> {
    fn push(&mut self, result: R) {
        self.places[self.count].write(result);
        self.count += 1;
    }

    fn keep(self) {
        debug_assert_eq!(self.count, self.places.len(), "a result is missing");
        std::mem::forget(self);
    }
}

impl<R> Drop for WrittenResults<'_, R> {
    fn drop(&mut self) {
        for result in &mut self.places[..self.count] {
            // SAFETY: written by `push`, and not kept.
            unsafe { result.assume_init_drop() };
        }
    }
}
