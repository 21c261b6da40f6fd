//! The order of operations on atomics, which have no lock of their own.
//!
//! While an operation on an atomic is recorded, it is done under one of [`STRIPES`] locks, which
//! its address selects. Beside each is a table of the last workers of those atomics that were used.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const STRIPES: usize = 64;

/// The most atomics that a stripe knows. Beyond that it forgets them all: their next operations
/// have no entry.
const MOST: usize = 1 << 16;

type Stripe = Mutex<HashMap<usize, u32>>;

/// The right to operate on an atomic, which no other recorded operation has meanwhile.
pub(crate) struct StripeGuard {
    _held: MutexGuard<'static, HashMap<usize, u32>>,
}

/// Begins an operation of the worker with this tag on the atomic at this address. Returns whether
/// the last one was another worker's.
pub(crate) fn hold_atomic(address: usize, tag: u32) -> (StripeGuard, bool) {
    static ORDERS: OnceLock<Box<[Stripe]>> = OnceLock::new();
    let stripes = ORDERS.get_or_init(|| (0..STRIPES).map(|_| Stripe::default()).collect());
    let at = (address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - 6);
    let mut held = stripes[at % STRIPES].lock().unwrap_or_else(PoisonError::into_inner);
    if held.len() >= MOST {
        held.clear();
    }
    let before = held.insert(address, tag);
    (StripeGuard { _held: held }, before.is_some_and(|before| before != tag))
}
