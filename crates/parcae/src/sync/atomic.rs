//! Atomics that a test under the lab can see.
//!
//! These have the methods of the types in [`std::sync::atomic`]. In a test under the
//! [lab](crate::lab), every access is a point where another task may go on; everywhere else an
//! access is that of the standard library, plus one load and one branch that is never taken. The
//! lab does not see accesses to the standard library's own atomics.
//!
//! The lab interleaves accesses and does not reorder them: it finds no bug that needs a weaker
//! order than sequential consistency.
//!
//! ```
//! use parcae::sync::atomic::{AtomicU64, Ordering};
//!
//! let count = AtomicU64::new(1);
//! assert_eq!(count.fetch_add(2, Ordering::Relaxed), 1);
//! assert_eq!(count.into_inner(), 3);
//! ```

use crate::sched::lab::OpKind;
use crate::sched::worker::ordered::{HeldOrder, hold_order_of, unordered};
use crate::sched::worker::point;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic as plain;
pub use std::sync::atomic::Ordering;

/// An access to an atomic. Where accesses are recorded, the next one waits for its end.
struct AtomicAccess<'a, T> {
    value: &'a T,
    _order: HeldOrder<'static, ()>,
}

impl<T> Deref for AtomicAccess<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.value
    }
}

/// The methods that all of these types have.
macro_rules! atomic {
    ($name:ident $(<$of:ident>)?, $plain:ty, $value:ty) => {
        #[doc = concat!("As [`std::sync::atomic::", stringify!($name), "`], visible to the lab.")]
        #[repr(transparent)]
        pub struct $name $(<$of>)? {
            value: $plain,
        }

        impl $(<$of>)? $name $(<$of>)? {
            /// A new atomic with this value.
            pub const fn new(value: $value) -> Self {
                Self { value: <$plain>::new(value) }
            }

            /// The value, without a point: the caller has the only reference.
            pub fn get_mut(&mut self) -> &mut $value {
                self.value.get_mut()
            }

            /// The value, without a point.
            pub fn into_inner(self) -> $value {
                self.value.into_inner()
            }

            /// Loads the value.
            #[inline]
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                self.at(OpKind::Load).load(order)
            }

            /// Stores a value.
            #[inline]
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                self.at(OpKind::Store).store(value, order);
            }

            /// Stores a value and returns the old one.
            #[inline]
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.at(OpKind::Update).swap(value, order)
            }

            /// Stores `new` if the value is `current`.
            ///
            /// # Errors
            ///
            /// The value, if it is another one.
            #[inline]
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.at(OpKind::Update).compare_exchange(current, new, success, failure)
            }

            /// As [`compare_exchange`](Self::compare_exchange), and may fail although the value is
            /// `current`.
            ///
            /// # Errors
            ///
            /// The value.
            #[inline]
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.at(OpKind::Update).compare_exchange_weak(current, new, success, failure)
            }

            /// Replaces the value by that of `next`, until no other access comes between.
            ///
            /// # Errors
            ///
            /// The value, if `next` returned `None`.
            #[inline]
            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut next: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let next = |value| unordered(|| next(value)); // a part of this access
                self.at(OpKind::Update).fetch_update(set, fetch, next)
            }

            /// A point before an access, which is over when the result is dropped.
            #[inline(always)]
            #[track_caller]
            fn at(&self, kind: OpKind) -> AtomicAccess<'_, $plain> {
                point(kind, (&raw const *self).addr());
                AtomicAccess { value: &self.value, _order: hold_order_of(&self.value) }
            }
        }

        impl $(<$of>)? fmt::Debug for $name $(<$of>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.value, f)
            }
        }
    };
}

/// Methods that fetch the old value and store the result of an operation.
macro_rules! fetches {
    ($name:ident, $value:ty, $($fetch:ident: $what:literal),*) => {
        impl $name {
            $(
                #[doc = concat!("Stores ", $what, ", and returns the old value.")]
                #[inline]
                #[track_caller]
                pub fn $fetch(&self, value: $value, order: Ordering) -> $value {
                    self.at(OpKind::Update).$fetch(value, order)
                }
            )*
        }

        impl Default for $name {
            fn default() -> $name {
                $name::new(<$value>::default())
            }
        }

        impl From<$value> for $name {
            fn from(value: $value) -> $name {
                $name::new(value)
            }
        }
    };
}

/// An atomic integer.
macro_rules! integer {
    ($($name:ident, $value:ty;)*) => {
        $(
            atomic!($name, plain::$name, $value);
            fetches!(
                $name, $value,
                fetch_add: "the sum, which wraps around",
                fetch_sub: "the difference, which wraps around",
                fetch_and: "the bitwise and",
                fetch_nand: "the negated bitwise and",
                fetch_or: "the bitwise or",
                fetch_xor: "the bitwise exclusive or",
                fetch_max: "the maximum",
                fetch_min: "the minimum"
            );
        )*
    };
}

integer! {
    AtomicI8, i8;
    AtomicI16, i16;
    AtomicI32, i32;
    AtomicI64, i64;
    AtomicIsize, isize;
    AtomicU8, u8;
    AtomicU16, u16;
    AtomicU32, u32;
    AtomicU64, u64;
    AtomicUsize, usize;
}

atomic!(AtomicBool, plain::AtomicBool, bool);
fetches!(
    AtomicBool, bool,
    fetch_and: "the logical and",
    fetch_nand: "the negated logical and",
    fetch_or: "the logical or",
    fetch_xor: "the logical exclusive or"
);
atomic!(AtomicPtr<T>, plain::AtomicPtr<T>, *mut T);

impl<T> Default for AtomicPtr<T> {
    fn default() -> AtomicPtr<T> {
        AtomicPtr::new(std::ptr::null_mut())
    }
}
