//! Task-local values: a table in the frame, made when the task first needs one.
//!
//! A task that uses no local value has a null pointer in its frame and one look at it when it ends.
//! The table is a short list: programs have a handful of local keys, and a search through a few
//! words is faster than a hash.
//!
//! # Why a reference to a value stays valid
//!
//! A value is boxed when it is initialised and freed by [`Frame::end_locals`], which the task calls
//! as its last act: every call of the program on this task has returned by then, except the
//! destructors that `end_locals` itself runs. An entry is emptied before its destructor runs, so
//! neither that destructor nor a later one gets a reference to a value that is going. The list may
//! grow while references are in use, because they point into boxes; it is never borrowed while code
//! of the program runs.
//!
//! # Why it ends
//!
//! An emptied entry stays in the list, and its key is refused from then on. A destructor may
//! initialise keys that were not used before. Each key has one value at most, and a program has
//! finitely many keys, so the last pass finds nothing.

use super::Frame;
use crate::base::error::discard;
use std::any::Any;
use std::cell::RefCell;
use std::ptr::NonNull;

/// The local values of a task, in the order of their initialisation.
#[derive(Default)]
pub(super) struct LocalTable {
    entries: RefCell<Vec<LocalEntry>>,
}

struct LocalEntry {
    /// The address of the key.
    key: usize,
    value: LocalValue,
}

enum LocalValue {
    There(Box<dyn Any>),
    /// Its destructor was called.
    Gone,
}

/// The value of a key, as a task finds it.
pub(crate) enum FoundLocal<'f, T> {
    There(&'f T),
    /// It was not initialised yet.
    Missing,
    /// The task ends, and the value's destructor was called.
    Gone,
}

impl Frame {
    /// The value of the key at this address.
    pub(crate) fn find_local<T: 'static>(&self, key: usize) -> FoundLocal<'_, T> {
        let Some(table) = self.locals.get() else { return FoundLocal::Missing };
        // SAFETY: freed by `end_locals` only, which is called by this task at its end.
        let entries = unsafe { table.as_ref() }.entries.borrow();
        match entries.iter().find(|entry| entry.key == key) {
            None => FoundLocal::Missing,
            Some(LocalEntry { value: LocalValue::Gone, .. }) => FoundLocal::Gone,
            Some(LocalEntry { value: LocalValue::There(value), .. }) => {
                let Some(value) = value.downcast_ref::<T>() else { return FoundLocal::Gone };
                // SAFETY: in a box, which is freed by `end_locals` at the earliest: the frame of a
                // running call is not borrowed for longer than the call.
                FoundLocal::There(unsafe { NonNull::from(value).as_ref() })
            }
        }
    }

    /// Puts the value of a key that has none.
    pub(crate) fn put_local<T: 'static>(&self, key: usize, value: T) {
        let table = self.locals.get().unwrap_or_else(|| {
            let table = NonNull::from(Box::leak(Box::<LocalTable>::default()));
            self.locals.set(Some(table));
            table
        });
        let value = LocalValue::There(Box::new(value));
        // SAFETY: as in `find_local`.
        let mut entries = unsafe { table.as_ref() }.entries.borrow_mut();
        assert!(
            entries.iter().all(|entry| entry.key != key),
            "a task-local value was used by its own initialiser"
        );
        entries.push(LocalEntry { key, value });
    }

    /// Runs the destructors, the latest value first, and frees the table. By the task as its last
    /// act, while it still can wait.
    #[cold]
    pub(super) fn end_locals(&self, table: NonNull<LocalTable>) {
        // SAFETY: as in `find_local`. The references to it end before it is freed.
        let entries = unsafe { &table.as_ref().entries };
        loop {
            let mut list = entries.borrow_mut();
            let last = list.iter_mut().rev().find_map(|entry| {
                match std::mem::replace(&mut entry.value, LocalValue::Gone) {
                    LocalValue::There(value) => Some(value),
                    LocalValue::Gone => None,
                }
            });
            drop(list); // a destructor may use other keys
            match last {
                Some(value) => discard(value),
                None => break,
            }
        }
        self.locals.set(None);
        // SAFETY: made by `put_local`, and not reachable any more.
        drop(unsafe { Box::from_raw(table.as_ptr()) });
    }
}
