//! Storage for one value at an address: in place if the value is small, on the heap otherwise.
//!
//! Values may be large and stacks are small, and without optimisation each move of a value makes
//! another copy on the stack. So values travel by address: from the caller's memory to the channel,
//! and from there to the receiver's memory. An error that returns a value, or a case of a select,
//! keeps it beyond one call. It does so in a [`ValueBox`], whose size does not depend on that of
//! the value.
//!
//! # States
//!
//! | `full` | `large` | |
//! |---|---|---|
//! | no | any | no value; the box of a large value is allocated when its address is first used |
//! | yes | none | a small value, in `small` |
//! | yes | some | a large value, in the box |
//!
//! Whether a value is small depends on its type alone, so it is known at compile time.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

/// Storage for a value of up to `WORDS` words in place, or for a larger one on the heap.
pub(crate) struct ValueBox<T, const WORDS: usize> {
    small: MaybeUninit<[usize; WORDS]>,
    large: Option<Box<MaybeUninit<T>>>,
    full: bool,
}

impl<T, const WORDS: usize> ValueBox<T, WORDS> {
    const IS_SMALL: bool =
        size_of::<T>() <= WORDS * size_of::<usize>() && align_of::<T>() <= align_of::<usize>();

    /// An empty box.
    #[inline]
    pub(crate) const fn empty() -> ValueBox<T, WORDS> {
        ValueBox { small: MaybeUninit::uninit(), large: None, full: false }
    }

    /// A box with the value at an address, which is moved out.
    ///
    /// # Safety
    ///
    /// There is an initialised value at the address, which is not used there afterwards.
    #[inline]
    pub(crate) unsafe fn from_address(value: NonNull<T>) -> ValueBox<T, WORDS> {
        let mut to = ValueBox::empty();
        // SAFETY: the caller upholds the contract; the address is memory for a `T`, elsewhere.
        unsafe {
            ptr::copy_nonoverlapping(value.as_ptr(), to.address().as_ptr(), 1);
            to.set_full();
        }
        to
    }

    /// A box with this value.
    pub(crate) fn new(value: T) -> ValueBox<T, WORDS> {
        let mut value = Some(value);
        ValueBox::from_option(&mut value).unwrap_or_else(ValueBox::empty)
    }

    /// A box with the value of an `Option`, which is `None` afterwards. `None` if it was empty.
    #[inline]
    pub(crate) fn from_option(value: &mut Option<T>) -> Option<ValueBox<T, WORDS>> {
        let address = NonNull::from(value.as_mut()?);
        // SAFETY: an initialised value, which is marked as moved.
        unsafe {
            let to = ValueBox::from_address(address);
            mark_empty(value);
            Some(to)
        }
    }

    /// Address of the value, or of the memory for it. Stable until the box itself is moved.
    #[inline]
    pub(crate) fn address(&mut self) -> NonNull<T> {
        if Self::IS_SMALL {
            NonNull::from(&mut self.small).cast()
        } else {
            NonNull::from(&mut **self.large.get_or_insert_with(Box::new_uninit)).cast()
        }
    }

    /// Whether there is a value.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Marks the memory at [`address`](ValueBox::address) as initialised.
    ///
    /// # Safety
    ///
    /// A value was written there, and there was none before.
    #[inline]
    pub(crate) unsafe fn set_full(&mut self) {
        debug_assert!(!self.full, "a value on top of another");
        self.full = true;
    }

    /// Marks the value as moved away from [`address`](ValueBox::address).
    #[inline]
    pub(crate) fn set_empty(&mut self) {
        self.full = false;
    }

    /// Takes the value.
    ///
    /// # Panics
    ///
    /// If the box is empty.
    #[inline]
    pub(crate) fn take(&mut self) -> T {
        assert!(self.full, "no value");
        self.full = false;
        // SAFETY: it was full, and is now marked as empty.
        unsafe { self.address().read() }
    }

    /// Drops the value, if there is one.
    pub(crate) fn clear(&mut self) {
        if std::mem::replace(&mut self.full, false) {
            // SAFETY: as in `take`.
            unsafe { self.address().drop_in_place() };
        }
    }
}

/// Sets an `Option` to `None` without dropping its value.
///
/// # Safety
///
/// The value was moved out by its address, or there is none.
#[inline]
pub(crate) unsafe fn mark_empty<T>(value: &mut Option<T>) {
    // SAFETY: there is no value left to drop.
    unsafe { ptr::write(value, None) };
}

impl<T, const WORDS: usize> Drop for ValueBox<T, WORDS> {
    #[inline]
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::rc::Rc;

    /// More than fits in place.
    type Large = (Rc<()>, [u64; 64]);

    #[test]
    fn small_and_large_values_are_dropped_once_and_come_out_as_they_went_in() {
        let witness = Rc::new(());
        let (small, large) = (|| Rc::clone(&witness), || (Rc::clone(&witness), [7; 64]));
        {
            let mut a = ValueBox::<Rc<()>, 4>::new(small());
            let mut b = ValueBox::<Large, 4>::new(large());
            assert_eq!(Rc::strong_count(&witness), 3);
            // the address of a large value is stable; that of a small one does not matter
            let mut moved = [b];
            assert_eq!(moved[0].take().1, [7; 64]);
            assert!(!moved[0].is_full());
            a.clear();
            a.clear();
            assert_eq!(Rc::strong_count(&witness), 1);
            b = ValueBox::new(large());
            let _dropped = (b, ValueBox::<Rc<()>, 4>::new(small()), ValueBox::<Rc<()>, 4>::empty());
            assert_eq!(Rc::strong_count(&witness), 3);
        }
        assert_eq!(Rc::strong_count(&witness), 1);
        let mut lent = Some(large());
        let kept = ValueBox::<Large, 4>::from_option(&mut lent);
        assert!(lent.is_none() && ValueBox::<Large, 4>::from_option(&mut lent).is_none());
        drop(kept);
        assert_eq!(Rc::strong_count(&witness), 1);
    }

    #[test]
    fn values_that_are_aligned_more_strictly_or_have_no_size_find_their_place() {
        #[repr(align(64))]
        struct Aligned(u8);
        let mut boxed = ValueBox::<Aligned, 16>::new(Aligned(9));
        assert_eq!(boxed.address().addr().get() % 64, 0);
        assert_eq!(boxed.take().0, 9);
        ValueBox::<(), 4>::new(()).take();
        assert!(size_of::<ValueBox<[u8; 1 << 20], 4>>() <= 48, "whatever it is for");
    }
}
