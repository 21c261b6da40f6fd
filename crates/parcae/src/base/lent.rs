//! A value that is owned, or a copy of one that is owned further out.
//!
//! A nursery has the settings of the task that opens it, and lies on that task's stack. Counted
//! pointers among them that were cloned for it would be counted up and down once for each nursery.
//! Their counters are shared by all workers, so that each of those steps would wait for a cache
//! line from another processor. A copy that is *lent* is neither counted nor dropped; its owner
//! outlives it.
//!
//! Not a reference: the settings of a task are read much more often than they are made, and a
//! reference to those of the task outside would be one more load for each level of nurseries.

use std::mem::ManuallyDrop;
use std::ops::Deref;

/// A value of its own, or a copy of one whose owner outlives it.
pub(crate) struct MaybeLent<T> {
    value: ManuallyDrop<T>,
    /// Whether it is a copy, which is not dropped.
    is_copy: bool,
}

impl<T> MaybeLent<T> {
    /// A value that is dropped with this.
    #[inline]
    pub(crate) fn own(value: T) -> MaybeLent<T> {
        MaybeLent { value: ManuallyDrop::new(value), is_copy: false }
    }

    /// A copy of a value.
    ///
    /// # Safety
    ///
    /// The value stays where it is owned, as it is, until the copy is dropped. It has no interior
    /// that changes through a shared reference, except behind a pointer.
    #[inline(always)]
    pub(crate) unsafe fn copy_of(value: &T) -> MaybeLent<T> {
        // SAFETY: the copy is not dropped, so that the value has one owner. It is used as a shared
        // reference to the value would be, for as long as the caller says.
        MaybeLent { value: ManuallyDrop::new(unsafe { std::ptr::read(value) }), is_copy: true }
    }
}

impl<T> Deref for MaybeLent<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for MaybeLent<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.is_copy {
            // SAFETY: owned, and dropped once.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_copy_is_neither_counted_nor_dropped() {
        let owner = MaybeLent::own(Arc::new(7));
        {
            // SAFETY: `owner` outlives both.
            let copy = unsafe { MaybeLent::copy_of(&*owner) };
            // SAFETY: as above.
            let of_copy = unsafe { MaybeLent::copy_of(&*copy) };
            assert_eq!((Arc::strong_count(&owner), **of_copy), (1, 7));
            assert!(Arc::ptr_eq(&owner, &of_copy));
        }
        let counted = Arc::clone(&owner);
        assert_eq!(Arc::strong_count(&counted), 2);
        drop(owner);
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
