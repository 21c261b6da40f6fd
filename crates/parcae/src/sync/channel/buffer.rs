//! The values in a channel: a ring that grows and shrinks.
//!
//! Memory is taken when it is first needed, not when the channel is made: a capacity is a limit,
//! and may be larger than any memory. A full ring doubles. One that is less than a quarter full
//! halves, down to [`KEEP`] bytes, which are kept for the next values. After either it is half full
//! at most, so a quarter of its size goes in or out before the next change: moving values costs a
//! constant time for each value that passes.
//!
//! Values come and go by address, see `value_box.rs`.

use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};

/// A ring of at most so many bytes does not shrink. Without a deeper reason: a channel of a
/// thousand words fits, and never pays for memory that it would ask for again at once.
const KEEP: usize = 16 * 1024;
/// The first values that memory is taken for.
const FIRST: usize = 4;

/// Values, first in first out.
pub(super) struct Buffer<T> {
    /// A power of two of them, or none. Those from `head` on, `len` of them, are values.
    slots: Box<[MaybeUninit<T>]>,
    head: usize,
    len: usize,
    /// Shrinks when it has fewer values than this.
    low: usize,
}

impl<T> Buffer<T> {
    pub(super) fn new() -> Buffer<T> {
        // Values without a size have room in nothing at all.
        let room = if size_of::<T>() == 0 { usize::MAX / 2 + 1 } else { 0 };
        Buffer { slots: Box::new_uninit_slice(room), head: 0, len: 0, low: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// For how many values it has memory.
    #[cfg(all(test, not(loom)))]
    pub(super) fn room(&self) -> usize {
        self.slots.len()
    }

    /// The address of the slot that comes so many after the first. There is at least one slot.
    #[inline]
    fn slot(&mut self, behind: usize) -> *mut T {
        let at = self.head.wrapping_add(behind) & (self.slots.len().wrapping_sub(1));
        // SAFETY: masked by the length, which is a power of two.
        unsafe { self.slots.as_mut_ptr().add(at).cast() }
    }

    /// Moves a value from an address to the back.
    ///
    /// # Safety
    ///
    /// There is a value, not in this buffer, and nobody uses it there afterwards.
    #[inline]
    pub(super) unsafe fn push(&mut self, value: NonNull<T>) {
        if self.len == self.slots.len() {
            self.grow();
        }
        // SAFETY: a slot that is no value, since there are fewer than slots.
        unsafe { ptr::copy_nonoverlapping(value.as_ptr(), self.slot(self.len), 1) };
        self.len += 1;
    }

    /// Moves the first value to an address; false if there is none.
    ///
    /// # Safety
    ///
    /// The address is that of a place for a value that has none.
    #[inline]
    pub(super) unsafe fn pop(&mut self, into: NonNull<T>) -> bool {
        if self.len == 0 {
            return false;
        }
        // SAFETY: the first slot is a value, and is none when the head has moved on.
        unsafe { ptr::copy_nonoverlapping(self.slot(0), into.as_ptr(), 1) };
        self.head = self.head.wrapping_add(1) & (self.slots.len() - 1);
        self.len -= 1;
        if self.len < self.low {
            self.resize(self.slots.len() / 2);
        }
        true
    }

    /// Puts the value at an address to the back, and the first value there instead.
    ///
    /// # Safety
    ///
    /// As for [`push`](Buffer::push); and the buffer is not empty.
    pub(super) unsafe fn exchange(&mut self, value: NonNull<T>) {
        debug_assert!(self.len > 0);
        let first = self.slot(0);
        // SAFETY: both are values, in different places.
        unsafe { ptr::swap_nonoverlapping(first, value.as_ptr(), 1) };
        // The new value lies where the first one was; it belongs behind the last.
        self.head = self.head.wrapping_add(1) & (self.slots.len() - 1);
        let last = self.slot(self.len - 1);
        if last != first {
            // SAFETY: `last` is a slot behind the values, hence none.
            unsafe { ptr::copy_nonoverlapping(first, last, 1) };
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.resize((self.slots.len() * 2).max(FIRST));
    }

    /// Moves the values to other memory, which has room for them.
    #[cold]
    fn resize(&mut self, room: usize) {
        if size_of::<T>() == 0 {
            return;
        }
        let mut slots = Box::new_uninit_slice(room);
        let before_wrap = self.len.min(self.slots.len() - self.head);
        // SAFETY: the values are at `head..` and, from the start again, the rest of `len`; there is
        // room for all of them.
        unsafe {
            let (from, to) = (self.slots.as_ptr(), slots.as_mut_ptr());
            ptr::copy_nonoverlapping(from.add(self.head), to, before_wrap);
            ptr::copy_nonoverlapping(from, to.add(before_wrap), self.len - before_wrap);
        }
        self.slots = slots;
        self.head = 0;
        self.low = if room.saturating_mul(size_of::<T>()) > KEEP { room / 4 } else { 0 };
    }
}

impl Buffer<()> {
    /// That many of nothing, at once.
    pub(super) fn fill(&mut self, count: usize) {
        self.len = count;
    }
}

/// Drops the values, first in first. A panic of one does not keep the others; the first goes on
/// when all are gone.
impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if !std::mem::needs_drop::<T>() {
            return;
        }
        let mut first = None;
        for behind in 0..self.len {
            let value = self.slot(behind);
            // SAFETY: a value, which nobody looks at after this.
            let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { value.drop_in_place() }));
            if let Err(panic) = dropped {
                first.get_or_insert(panic);
            }
        }
        if let Some(panic) = first
            && !std::thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::rc::Rc;

    fn push<T>(buffer: &mut Buffer<T>, value: T) {
        let mut value = MaybeUninit::new(value);
        // SAFETY: a value, which is not used again.
        unsafe { buffer.push(NonNull::from(&mut value).cast()) };
    }

    fn pop<T>(buffer: &mut Buffer<T>) -> Option<T> {
        let mut value = MaybeUninit::uninit();
        // SAFETY: a place without a value, which has one if it says so.
        unsafe { buffer.pop(NonNull::from(&mut value).cast()).then(|| value.assume_init()) }
    }

    fn exchange<T>(buffer: &mut Buffer<T>, mut value: T) -> T {
        // SAFETY: a value; and there is one instead afterwards.
        unsafe { buffer.exchange(NonNull::from(&mut value)) };
        value
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Push(u8),
        Pop(u8),
        Exchange(u8),
    }

    proptest! {
        #[test]
        fn it_is_a_queue(steps in proptest::collection::vec(
            prop_oneof![
                any::<u8>().prop_map(Step::Push),
                any::<u8>().prop_map(Step::Pop),
                any::<u8>().prop_map(Step::Exchange),
            ],
            0..60,
        )) {
            // Large values, so that it shrinks soon; each is counted.
            type Value = (Rc<()>, u64, [u64; 200]);
            let witness = Rc::new(());
            let (mut buffer, mut model, mut next) = (Buffer::<Value>::new(), VecDeque::new(), 0);
            let mut value = || {
                next += 1;
                (next, (Rc::clone(&witness), next, [next; 200]))
            };
            for step in steps {
                match step {
                    Step::Push(times) => (0..times).for_each(|_| {
                        let (number, value) = value();
                        model.push_back(number);
                        push(&mut buffer, value);
                    }),
                    Step::Pop(times) => (0..times).for_each(|_| {
                        let popped = pop(&mut buffer).map(|(_, number, _)| number);
                        assert_eq!(popped, model.pop_front());
                    }),
                    Step::Exchange(times) if !model.is_empty() => (0..times).for_each(|_| {
                        let (number, value) = value();
                        model.push_back(number);
                        assert_eq!(Some(exchange(&mut buffer, value).1), model.pop_front());
                    }),
                    Step::Exchange(_) => {}
                }
                assert_eq!(buffer.len(), model.len());
                assert_eq!(Rc::strong_count(&witness), 1 + model.len());
                let bytes = buffer.room() * size_of::<Value>();
                assert!(bytes <= 2 * KEEP || buffer.len() >= buffer.room() / 4, "it gives back");
            }
            drop(buffer);
            assert_eq!(Rc::strong_count(&witness), 1);
        }
    }

    #[test]
    fn memory_comes_when_it_is_needed_and_goes_when_it_is_not() {
        let mut buffer = Buffer::new();
        assert_eq!(buffer.room(), 0);
        for round in 1..=2 {
            (0..1_000_000_u64).for_each(|i| push(&mut buffer, i));
            assert!(buffer.room() >= 1_000_000, "round {round}");
            (0..1_000_000).for_each(|i| assert_eq!(pop(&mut buffer), Some(i)));
            assert!(buffer.room() * size_of::<u64>() <= KEEP, "round {round}");
        }
    }

    #[test]
    fn a_value_in_and_out_at_any_level_moves_nothing_else() {
        // Wherever it has just grown or shrunk, one more or one less does not turn it back.
        let mut buffer = Buffer::new();
        let mut changes = 0;
        let mut steady = |buffer: &mut Buffer<u64>| {
            let room = buffer.room();
            for _ in 0..100 {
                push(buffer, 0);
                pop(buffer);
                pop(buffer);
                push(buffer, 0);
                changes += usize::from(buffer.room() != room);
            }
        };
        for _ in 0..100_000 {
            let room = buffer.room();
            push(&mut buffer, 0);
            if room != buffer.room() && buffer.len() > 1 {
                steady(&mut buffer);
            }
        }
        while buffer.len() > 2 {
            let room = buffer.room();
            pop(&mut buffer);
            if room != buffer.room() {
                steady(&mut buffer);
            }
        }
        assert_eq!(changes, 0);
    }

    #[test]
    fn nothing_is_counted_without_memory() {
        let mut buffer = Buffer::new();
        buffer.fill(usize::MAX / 2);
        push(&mut buffer, ());
        assert_eq!((pop(&mut buffer), buffer.len()), (Some(()), usize::MAX / 2));
        exchange(&mut buffer, ());
        assert_eq!(buffer.len(), usize::MAX / 2);
    }
}
