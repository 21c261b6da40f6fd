//! Parts of a program that describe themselves to observers: a tree of actors, a pool of
//! connections, a cache.
//!
//! A part that was announced ([`Cx::describe`](crate::Cx::describe)) is asked whenever a dump or a
//! snapshot is taken, on the thread that takes it. Nothing is recorded for it beforehand, so a part
//! costs nothing between two looks. The list has weak references: a part ends by being dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError, Weak};

/// A part of a program that observers can look at; see [`Cx::describe`](crate::Cx::describe).
pub trait Describe: Send + Sync {
    /// The part as it is now, with no more than so many items.
    ///
    /// It is called by dumps, `parcae top` and snapshots, on their threads, also while all workers
    /// are stuck. So it must not wait for a task.
    fn describe(&self, most: usize) -> Description;
}

/// A part of a program, as it describes itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// Its kind and name: "actors `shop`".
    pub title: String,
    /// Figures of the whole part, with their names: "restarts left".
    pub figures: Vec<(&'static str, u64)>,
    /// Its items, as a tree in the order in which it is printed.
    pub items: Vec<DescribedItem>,
    /// Number of items that are not listed.
    pub left_out: usize,
}

/// One item of a [`Description`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DescribedItem {
    /// How deep it is in the tree; 0 for the roots.
    pub depth: usize,
    /// Its kind and name: "actor `till`".
    pub title: String,
    /// Its state, in a word or two.
    pub state: String,
    /// The task that it is, by [number](crate::task::TaskId::as_u64).
    pub task: Option<u64>,
    /// Its figures, with their names.
    pub figures: Vec<(&'static str, u64)>,
    /// Anything else, as text.
    pub notes: Vec<String>,
}

impl Description {
    /// A part without items.
    pub fn new(title: impl Into<String>) -> Description {
        Description { title: title.into(), ..Description::default() }
    }
}

impl DescribedItem {
    /// An item at this depth, in this state.
    pub fn new(depth: usize, title: impl Into<String>, state: impl Into<String>) -> DescribedItem {
        let (title, state) = (title.into(), state.into());
        DescribedItem { depth, title, state, ..DescribedItem::default() }
    }
}

/// The announced parts of a runtime.
#[derive(Default)]
pub(crate) struct DescribedParts(Mutex<Vec<Weak<dyn Describe>>>);

impl DescribedParts {
    pub(crate) fn announce(&self, part: Weak<dyn Describe>) {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.retain(|part| part.strong_count() > 0);
        parts.push(part);
    }

    /// All parts that are there, in the order in which they were announced. One that panics is left
    /// out.
    pub(crate) fn read(&self, most: usize) -> Vec<Description> {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let describe = |part: Weak<dyn Describe>| {
            let part = part.upgrade()?;
            catch_unwind(AssertUnwindSafe(|| part.describe(most))).ok()
        };
        parts.into_iter().filter_map(describe).collect()
    }
}
