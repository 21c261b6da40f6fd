//! The order of operations on atomics, which have no lock of their own.
//!
//! While an operation on an atomic is recorded, it is done under one of [`STRIPES`] locks, which
//! its address selects. Beside each is a table of the tags of those atomics that were used.

use crate::base::lock::UNTAGGED;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const STRIPES: usize = 64;

/// The most atomics that a stripe knows. Beyond that it forgets them all: their next operations
/// have no entry.
const MOST: usize = 1 << 16;

type Stripe = Mutex<HashMap<usize, u32>>;

/// The right to operate on an atomic, which no other recorded operation has meanwhile.
pub(crate) struct AtomicOrder {
    _held: MutexGuard<'static, HashMap<usize, u32>>,
}

/// Begins an operation of a worker with this tag on the atomic at this address. `taken_over` is
/// called with the tag of the last one, if that was another worker's.
pub(crate) fn order_of(address: usize, tag: u32, taken_over: fn(u32)) -> Option<AtomicOrder> {
    static ORDERS: OnceLock<Box<[Stripe]>> = OnceLock::new();
    if tag == UNTAGGED {
        return None;
    }
    let stripes = ORDERS.get_or_init(|| (0..STRIPES).map(|_| Stripe::default()).collect());
    let at = (address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - 6);
    let mut held = stripes[at % STRIPES].lock().unwrap_or_else(PoisonError::into_inner);
    if held.len() >= MOST {
        held.clear();
    }
    let before = held.insert(address, tag);
    if let Some(before) = before.filter(|&before| before != tag) {
        taken_over(before);
    }
    Some(AtomicOrder { _held: held })
}
