//! `blocking`: the cost of a call that a task hands to another thread, until its result is back.
//!
//! The call is nearly empty, so the result is the hand-over and the return: one worker, and
//! blocking threads, one of which has just become idle and waits for the next call. With the
//! standard library each call gets a new thread.

use super::nanos_per;
use super::runtimes::{Futures, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::prelude::*;
use std::hint::black_box;
use std::thread;
use std::time::Instant;

pub(super) static BLOCKING: Workload = Workload {
    name: "blocking",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[Variant {
        name: "call",
        about: "a call on another thread, and its result back; one task",
        unit: "ns/call",
        better: Better::Lower,
        sides: &[
            Side::new(Peer::Parcae, parcae),
            Side::new(Peer::Tokio, tokio),
            Side::new(Peer::Std, std),
        ],
    }],
};

const CALLS: usize = 5_000;

/// Panics if a call has returned another call's result.
fn check(result: usize, i: usize) {
    assert_eq!(result, i + 1, "the result of another call");
}

fn parcae(scale: &Scale) -> Result<f64, Failure> {
    let calls = scale.of(CALLS);
    let figure = Runtime::builder().workers(1).build()?.run(|_| {
        let start = Instant::now();
        for i in 0..calls {
            check(parcae::blocking(|| black_box(i) + 1)?, i);
        }
        Ok(nanos_per(start, calls))
    });
    Ok(figure?)
}

fn tokio(scale: &Scale) -> Result<f64, Failure> {
    let calls = scale.of(CALLS);
    Ok(Tokio::start(1)?.run(async move {
        let start = Instant::now();
        for i in 0..calls {
            let call = tokio::task::spawn_blocking(move || black_box(i) + 1);
            check(call.await.expect("no call panics"), i);
        }
        nanos_per(start, calls)
    }))
}

fn std(scale: &Scale) -> Result<f64, Failure> {
    let calls = scale.of(CALLS);
    let start = Instant::now();
    for i in 0..calls {
        let call = thread::spawn(move || black_box(i) + 1);
        check(call.join().expect("no call panics"), i);
    }
    Ok(nanos_per(start, calls))
}
