//! `capi`: the cost of the C interface.
//!
//! The same work by functions of the C library, called from compiled C (`c/capi.c`), and by the
//! Rust interface. Both run on a task, alone on one worker, but for `outside`, where a thread that
//! is no worker opens the nurseries. Threads of the system are what a C program would use
//! otherwise. `yield_check` is the inlined check on its fast path, minus the loop around it.
//! `trace_pc` is a loop with calls that the compiler inserts, as a ratio to the plain loop, which
//! runs in the same call.
//!
//! C tasks may move between workers and Rust's may not, which is part of the difference.

use super::{nanos_per, runtimes};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
// The C side calls it; without this it would not be linked.
use parcae_capi as _;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

unsafe extern "C" {
    safe fn bench_spawn_await(rounds: c_int, size: c_int) -> f64;
    safe fn bench_spawn_await_outside(rounds: c_int, size: c_int) -> f64;
    safe fn bench_pthreads(rounds: c_int, size: c_int) -> f64;
    safe fn bench_yield_check(rounds: c_int, size: c_int) -> f64;
    safe fn bench_trace_pc(rounds: c_int) -> f64;
    safe fn bench_channel(values: c_int) -> f64;
}

pub(super) static CAPI: Workload = Workload {
    name: "capi",
    rounds: Rounds { full: 7, quick: 1 },
    variants: &[
        variant(
            "spawn_await_c",
            "rounds of 100 tasks, by C functions",
            "ns/task",
            &[
                Side::new(Peer::Parcae, |scale| {
                    checked(bench_spawn_await(scale.of(2000) as c_int, 100))
                }),
                Side::new(Peer::Std, |scale| checked(bench_pthreads(scale.of(20) as c_int, 100))),
            ],
        ),
        variant(
            "spawn_await_rust",
            "rounds of 100 tasks, by the Rust interface",
            "ns/task",
            &[Side::new(Peer::Parcae, spawn_await)],
        ),
        variant(
            "spawn_await_outside",
            "rounds of 100 tasks, by C on a thread that is no worker",
            "ns/task",
            &[Side::new(Peer::Parcae, |scale| {
                checked(bench_spawn_await_outside(scale.of(200) as c_int, 100))
            })],
        ),
        variant(
            "yield_check",
            "inlined into C, fast path",
            "ns/check",
            &[Side::new(Peer::Parcae, |scale| {
                checked(bench_yield_check(scale.of(1000) as c_int, 1000))
            })],
        ),
        variant(
            "trace_pc",
            "hashing bytes, with checks that the compiler inserts",
            "/plain",
            &[Side::new(Peer::Parcae, |scale| checked(bench_trace_pc(scale.of(500) as c_int)))],
        ),
        variant(
            "channel_c",
            "one producer, one consumer, room for 1024; by C functions",
            "ns/value",
            &[Side::new(Peer::Parcae, |scale| {
                checked(bench_channel(scale.of(1_000_000) as c_int))
            })],
        ),
        variant(
            "channel_rust",
            "the same by the Rust interface",
            "ns/value",
            &[Side::new(Peer::Parcae, channel)],
        ),
    ],
};

const fn variant(
    name: &'static str,
    about: &'static str,
    unit: &'static str,
    sides: &'static [Side],
) -> Variant {
    Variant { name, about, unit, better: Better::Lower, sides }
}

/// A negative number from C means failure.
fn checked(nanoseconds: f64) -> Result<f64, Failure> {
    if nanoseconds < 0.0 { Err("the C side has failed".into()) } else { Ok(nanoseconds) }
}

fn spawn_await(scale: &Scale) -> Result<f64, Failure> {
    let (rounds, size) = (scale.of(2000), 100);
    let rt = runtimes::runtime::<parcae::profile::Service>(1)?;
    let ran = AtomicU64::new(0);
    let round = |cx: &parcae::Cx| {
        cx.nursery(|n| {
            for _ in 0..size {
                n.spawn(|_| Ok(ran.fetch_add(1, Ordering::Relaxed)))?;
            }
            Ok(())
        })
    };
    let time = rt.run(|cx| {
        round(cx)?;
        let start = Instant::now();
        for _ in 0..rounds {
            round(cx)?;
        }
        Ok(nanos_per(start, rounds * size))
    })?;
    let done = ran.load(Ordering::Relaxed) == ((rounds + 1) * size) as u64;
    if done { Ok(time) } else { Err("not all tasks have run".into()) }
}

fn channel(scale: &Scale) -> Result<f64, Failure> {
    let values = scale.of(1_000_000) as i64;
    let rt = runtimes::runtime::<parcae::profile::Service>(1)?;
    let (sender, receiver) = parcae::channel::channel(1024);
    let time = rt.run(|cx| {
        let start = Instant::now();
        let sum = cx.nursery(|n| {
            n.spawn(move |_| {
                for value in 0..values {
                    sender.send(value)?;
                }
                Ok(())
            })?;
            n.spawn(move |_| receiver.iter().sum::<parcae::Result<i64>>())?.join()
        })?;
        match sum == values * (values - 1) / 2 {
            true => Ok(nanos_per(start, values as usize)),
            false => Err(parcae::Error::msg("a value was lost")),
        }
    })?;
    Ok(time)
}
