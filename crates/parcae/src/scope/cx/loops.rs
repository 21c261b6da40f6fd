//! Loops with checkpoints in them.

use super::Frame;
use crate::base::error::Result;
use std::fmt;

/// Chunks of a range; see [`Cx::chunks`](super::Cx::chunks).
pub struct Chunks<'c> {
    pub(super) frame: &'c Frame,
    pub(super) rest: std::ops::Range<usize>,
}

impl Iterator for Chunks<'_> {
    type Item = Result<std::ops::Range<usize>>;

    #[inline]
    fn next(&mut self) -> Option<Result<std::ops::Range<usize>>> {
        if self.rest.is_empty() {
            return None;
        }
        Some(self.frame.chunk(self.rest.len()).map(|len| {
            let chunk = self.rest.start..self.rest.start + len;
            self.rest.start = chunk.end;
            chunk
        }))
    }
}

impl fmt::Debug for Chunks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").field("rest", &self.rest).finish_non_exhaustive()
    }
}

/// Items with a checkpoint before each; see [`Cx::each`](super::Cx::each).
pub struct Each<'c, I> {
    pub(super) frame: &'c Frame,
    pub(super) items: I,
}

impl<I: Iterator> Iterator for Each<'_, I> {
    type Item = Result<I::Item>;

    #[inline]
    fn next(&mut self) -> Option<Result<I::Item>> {
        if !self.frame.tick()
            && let Err(error) = self.frame.checkpoint_slow()
        {
            return Some(Err(error));
        }
        self.items.next().map(Ok)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}

impl<I> fmt::Debug for Each<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Each")
    }
}
