//! A program that can be inspected while it runs. Start it, then in another terminal:
//!
//! ```sh
//! cargo run --release -p parcae --example attached        # 30 seconds; or give a number
//! cargo run --release -- top                              # watch it; Enter, c, r, q
//! cargo run --release -- dump                             # all tasks once, with their stacks
//! ```
//!
//! One tenant has exhausted its budget and waits for a recharge (`r` in `top`), guests sleep until
//! they are cancelled (`c`), a cashier waits for a customer, and a clock ticks.

use parcae::attach::AttachOpts;
use parcae::cap::{BudgetLimits, Delegation};
use parcae::prelude::*;
use std::time::Duration;

fn main() -> parcae::Result<()> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(30);
    serve(AttachOpts::new(), Duration::from_secs(seconds))
}

/// Runs for the given time.
pub(crate) fn serve(opts: AttachOpts, time: Duration) -> parcae::Result<()> {
    let rt = Runtime::builder().workers(2).build()?;
    // Clients may recharge 100 000 ops, at most 10 000 at a time.
    let ops = |ops| Budget::ZERO.with_ops(ops);
    let limits = BudgetLimits { total: ops(100_000), per_request: ops(10_000) };
    let sponsor = rt.cap_budget(limits, Delegation::Forbidden);
    let attached = rt.attach(opts.allow_cancel().allow_recharge(sponsor))?;
    println!("{}", attached.path().display());
    rt.run(|cx| shop(cx, time))
}

fn named(name: &str) -> SpawnOpts {
    SpawnOpts::new().name(name)
}

fn shop(cx: &Cx, time: Duration) -> parcae::Result<()> {
    let (_customers, door) = parcae::channel::channel::<u32>(1); // none comes
    let opts = NurseryOpts::new().name("shop").on_failure(OnFailure::Isolate);
    cx.nursery_with(opts, |n| {
        let door = &door;
        n.spawn_with(named("cashier"), move |_| Ok(door.recv()?))?;
        n.spawn_with(named("clock"), |cx| cx.forever(|| cx.sleep(Duration::from_millis(20))))?;
        n.spawn_with(named("hotel"), hotel)?;
        n.spawn_with(named("landlord"), tenant)?;
        cx.sleep(time)?;
        n.wind_down();
        Ok(())
    })
}

/// Guests who sleep until they are cancelled.
fn hotel(cx: &Cx) -> parcae::Result<()> {
    let opts = NurseryOpts::new().name("guests").on_failure(OnFailure::Isolate);
    cx.nursery_with(opts, |n| {
        for guest in 1..=3 {
            n.spawn_with(named(&format!("guest-{guest}")), sleep_late)?;
        }
        Ok(())
    })
}

fn sleep_late(cx: &Cx) -> parcae::Result<()> {
    cx.sleep(Duration::from_secs(3_600))
}

/// A tenant that works as long as it is recharged.
fn tenant(cx: &Cx) -> parcae::Result<()> {
    let opts = NurseryOpts::new()
        .name("tenant-7")
        .budget(Budget::UNLIMITED.with_ops(1_000))
        .on_exhausted(OnExhausted::Suspend);
    cx.nursery_with(opts, |n| {
        n.spawn_with(named("miner"), |cx| cx.forever(|| Ok(())))?;
        Ok(())
    })
}
