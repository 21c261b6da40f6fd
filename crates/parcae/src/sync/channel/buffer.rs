//! The buffer of a channel: a ring that grows and shrinks.
//!
//! Memory is allocated on first use, not when the channel is made: a capacity is a limit, and may
//! exceed any memory. A full ring doubles. A ring less than a quarter full halves, down to [`KEEP`]
//! bytes, which are kept for later values. After either step it is at most half full, so a quarter
//! of its size enters or leaves before the next one: resizing costs amortised constant time per
//! value.
//!
//! Values enter and leave by address, see `value_box`.

use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};

/// A ring of at most this many bytes does not shrink. The number has no deeper reason: a channel of
/// a thousand words fits, and does not free memory that it would allocate again soon.
const KEEP: usize = 16 * 1024;
/// Number of slots of the first allocation.
const FIRST: usize = 4;

/// A FIFO of values.
pub(super) struct Buffer<T> {
    /// A power of two, or none. The `len` slots from `head` on are initialised.
    slots: Box<[MaybeUninit<T>]>,
    head: usize,
    len: usize,
    /// Shrinks when it holds fewer values than this.
    low: usize,
}

impl<T> Buffer<T> {
    pub(super) fn new() -> Buffer<T> {
        // Values of size zero need no memory.
        let room = if size_of::<T>() == 0 { usize::MAX / 2 + 1 } else { 0 };
        Buffer { slots: Box::new_uninit_slice(room), head: 0, len: 0, low: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds neither a value nor memory.
    #[inline]
    pub(super) fn is_new(&self) -> bool {
        self.len == 0 && (self.slots.is_empty() || size_of::<T>() == 0)
    }

    /// Number of values that fit the allocated memory.
    #[cfg(all(test, not(loom)))]
    pub(super) fn room(&self) -> usize {
        self.slots.len()
    }

    /// Address of the slot at this distance from the first. There is at least one slot.
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
    /// There is an initialised value at the address, outside of this buffer, which is not used
    /// there afterwards.
    #[inline]
    pub(super) unsafe fn push(&mut self, value: NonNull<T>) {
        if self.len == self.slots.len() {
            self.grow();
        }
        // SAFETY: an uninitialised slot, since there are fewer values than slots.
        unsafe { ptr::copy_nonoverlapping(value.as_ptr(), self.slot(self.len), 1) };
        self.len += 1;
    }

    /// Moves the first value to an address. Returns false if the buffer is empty.
    ///
    /// # Safety
    ///
    /// The address is uninitialised memory for a value.
    #[inline]
    pub(super) unsafe fn pop(&mut self, into: NonNull<T>) -> bool {
        if self.len == 0 {
            return false;
        }
        // SAFETY: the first slot is initialised, and no longer counts as such once `head` has
        // advanced.
        unsafe { ptr::copy_nonoverlapping(self.slot(0), into.as_ptr(), 1) };
        self.head = self.head.wrapping_add(1) & (self.slots.len() - 1);
        self.len -= 1;
        if self.len < self.low {
            self.resize(self.slots.len() / 2);
        }
        true
    }

    /// Moves the value at an address to the back, and the first value to the address.
    ///
    /// # Safety
    ///
    /// As for [`push`](Buffer::push), and the buffer is not empty.
    pub(super) unsafe fn exchange(&mut self, value: NonNull<T>) {
        debug_assert!(self.len > 0);
        let first = self.slot(0);
        // SAFETY: both are initialised, at different addresses.
        unsafe { ptr::swap_nonoverlapping(first, value.as_ptr(), 1) };
        // The new value is in the slot of the first one; it belongs behind the last.
        self.head = self.head.wrapping_add(1) & (self.slots.len() - 1);
        let last = self.slot(self.len - 1);
        if last != first {
            // SAFETY: `last` is the slot behind the values, hence uninitialised.
            unsafe { ptr::copy_nonoverlapping(first, last, 1) };
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.resize((self.slots.len() * 2).max(FIRST));
    }

    /// Moves the values to a new allocation, which has room for them.
    #[cold]
    fn resize(&mut self, room: usize) {
        if size_of::<T>() == 0 {
            return;
        }
        let mut slots = Box::new_uninit_slice(room);
        let before_wrap = self.len.min(self.slots.len() - self.head);
        // SAFETY: the values are at `head..` and, wrapped around, at the start. There is room for
        // all of them.
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
    /// Adds `count` values of size zero at once.
    pub(super) fn fill(&mut self, count: usize) {
        self.len = count;
    }
}

/// Drops the values in order. All are dropped even if some panic; the first panic is resumed at the
/// end.
impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if !std::mem::needs_drop::<T>() {
            return;
        }
        let mut first = None;
        for behind in 0..self.len {
            let value = self.slot(behind);
            // SAFETY: an initialised value, which is not used after this.
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
        // SAFETY: an initialised value, which is not used again.
        unsafe { buffer.push(NonNull::from(&mut value).cast()) };
    }

    fn pop<T>(buffer: &mut Buffer<T>) -> Option<T> {
        let mut value = MaybeUninit::uninit();
        // SAFETY: uninitialised memory, which is initialised if `pop` returns true.
        unsafe { buffer.pop(NonNull::from(&mut value).cast()).then(|| value.assume_init()) }
    }

    fn exchange<T>(buffer: &mut Buffer<T>, mut value: T) -> T {
        // SAFETY: an initialised value, which is replaced by another.
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
            // Large values, so that the ring shrinks soon; each is counted.
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
        // Right after a resize, an eighth of the room more or less does not undo it.
        let mut buffer = Buffer::new();
        let mut changes = 0;
        let mut steady = |buffer: &mut Buffer<u64>| {
            let room = buffer.room();
            let swing = (room / 8).min(buffer.len());
            for _ in 0..4 {
                (0..swing).for_each(|_| push(buffer, 0));
                changes += usize::from(buffer.room() != room);
                (0..2 * swing).for_each(|_| assert_eq!(pop(buffer), Some(0)));
                changes += usize::from(buffer.room() != room);
                (0..swing).for_each(|_| push(buffer, 0));
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
