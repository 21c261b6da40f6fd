//! `policy`: what shares cost the tasks of a tenant.
//!
//! Two runtimes of one worker do the same in turn, one of them with shares. Slices of about a
//! millisecond alternate, and so does the order, so that other load slows both down. The fastest
//! slice of each counts: the least disturbed one.
//!
//! - `yield`: two tasks of one tenant yield to each other, within its turn, against two tasks
//!   without a tenant.
//! - `turn`: two tasks that pass a value back and forth, each in a tenant of its own, against both
//!   in one tenant. A tenant whose last ready task waits has ended its turn, so that each message
//!   is a turn, and the difference is the cost of ending one and picking the next.

use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::channel::channel;
use parcae::policy::Weight;
use parcae::prelude::*;
use std::time::Instant;

pub(super) static POLICY: Workload = Workload {
    name: "policy",
    rounds: Rounds { full: 9, quick: 2 },
    variants: &[
        Variant {
            name: "yield",
            about: "what a yield costs more in a turn of a tenant",
            unit: "ns/yield",
            better: Better::Lower,
            sides: &[Side::new(Peer::Parcae, yields)],
        },
        Variant {
            name: "turn",
            about: "what a message costs more if it ends a turn",
            unit: "ns/turn",
            better: Better::Lower,
            sides: &[Side::new(Peer::Parcae, turns)],
        },
    ],
};

/// Pairs of slices in a measurement.
const SLICES: usize = 400;
const YIELDS: usize = 20_000;
const TRIPS: usize = 2_000;

/// The fastest of many slices of each, in nanoseconds.
fn fastest(
    scale: &Scale,
    mut with: impl FnMut() -> parcae::Result<()>,
    mut without: impl FnMut() -> parcae::Result<()>,
) -> Result<(f64, f64), Failure> {
    fn timed(slice: &mut dyn FnMut() -> parcae::Result<()>) -> Result<f64, Failure> {
        let start = Instant::now();
        slice()?;
        Ok(start.elapsed().as_nanos() as f64)
    }
    let mut least = (f64::MAX, f64::MAX);
    for round in 0..scale.of(SLICES) {
        if round % 2 == 0 {
            least.0 = timed(&mut with)?.min(least.0);
            least.1 = timed(&mut without)?.min(least.1);
        } else {
            least.1 = timed(&mut without)?.min(least.1);
            least.0 = timed(&mut with)?.min(least.0);
        }
    }
    Ok(least)
}

fn runtime() -> Result<Runtime, Failure> {
    Ok(Runtime::builder().workers(1).build()?)
}

fn tenant(name: &str) -> NurseryOpts {
    NurseryOpts::new().name(name).share(Weight::NORMAL)
}

fn yields(scale: &Scale) -> Result<f64, Failure> {
    let (shared, plain) = (runtime()?, runtime()?);
    let slice = |rt: &Runtime, opts: NurseryOpts| {
        rt.run(|cx| {
            cx.nursery_with(opts, |n| {
                (0..2).try_for_each(|_| {
                    n.spawn(|cx| (0..YIELDS).try_for_each(|_| cx.yield_now())).map(drop)
                })
            })
        })
    };
    let with = || slice(&shared, tenant("one"));
    let (with, without) = fastest(scale, with, || slice(&plain, NurseryOpts::new()))?;
    Ok((with - without) / (2 * YIELDS) as f64)
}

fn turns(scale: &Scale) -> Result<f64, Failure> {
    let (apart, together) = (runtime()?, runtime()?);
    let with = || trips(&apart, "left", "right");
    let (with, without) = fastest(scale, with, || trips(&together, "both", "both"))?;
    // Or the figure would be of something else.
    let (turns, slices) = (turns_of(&apart), scale.of(SLICES) as u64);
    if turns < 2 * TRIPS as u64 * slices || turns_of(&together) > turns / 10 {
        return Err(format!("{turns} turns apart, {} together", turns_of(&together)).into());
    }
    Ok((with - without) / (turns / slices) as f64)
}

fn turns_of(rt: &Runtime) -> u64 {
    rt.stats().tenants.iter().filter(|tenant| tenant.number > 0).map(|tenant| tenant.turns).sum()
}

/// A value goes back and forth between two tasks of these tenants.
fn trips(rt: &Runtime, left: &str, right: &str) -> parcae::Result<()> {
    let (there, from_left) = channel::<u64>(1);
    let (back, from_right) = channel::<u64>(1);
    rt.run(|cx| {
        cx.nursery(|all| {
            all.spawn(move |cx| {
                cx.nursery_with(tenant(right), |n| {
                    n.spawn(move |_| {
                        while let Ok(value) = from_left.recv() {
                            back.send(value)?;
                        }
                        Ok(())
                    })
                    .map(drop)
                })
            })?;
            cx.nursery_with(tenant(left), |n| {
                n.spawn(move |_| {
                    for trip in 0..TRIPS as u64 {
                        there.send(trip)?;
                        from_right.recv()?;
                    }
                    Ok(())
                })
                .map(drop)
            })
        })
    })
}
