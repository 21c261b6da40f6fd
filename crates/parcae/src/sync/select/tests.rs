//! Select under the deterministic executor with many seeds, on worker threads, and on plain
//! threads.

mod cases;
mod choice;
mod lists;
mod random;
mod tasks;

use super::*;
use crate::prelude::*;
use crate::sync::channel::tests::{deterministic, everywhere, pause, threads};
use crate::sync::channel::{Receiver, Sender, channel};

/// Asserts that the channel has no waiters.
fn assert_nobody_waits<T>(tx: &Sender<T>) {
    assert_eq!(tx.shared().core.waiting(), (0, 0));
}
