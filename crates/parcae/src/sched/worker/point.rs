//! Points: the places where the lab may let another task go on.
//!
//! A point is *before* an operation, so that the lab knows the operation that each task is about
//! to do. The functions that wait, wake, lock, unlock, send, receive, spawn and cancel call
//! [`point`]; without a lab in the process that is one load and one branch.

use super::with_current;
use crate::sched::lab::{OpKind, is_any_alive};

/// The running task is about to do an operation on an object, which is named by its address.
#[inline(always)]
pub(crate) fn point(kind: OpKind, object: usize) {
    if is_any_alive() {
        at_point(kind, object);
    }
}

#[cold]
#[inline(never)]
fn at_point(_kind: OpKind, _object: usize) {
    let switches = with_current(|worker| {
        worker.current.get().is_some()
            && !std::thread::panicking()
            && worker.shared.lab.as_ref().is_some_and(|lab| lab.lock().switches())
    });
    if switches == Some(true) {
        super::yield_now();
    }
}
