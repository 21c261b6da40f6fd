//! A tenant with its own budget: it is suspended when the budget is exhausted, and continues when
//! its owner, or a thread with a capability, recharges it.

use parcae::cap::{BudgetLimits, Delegation};
use parcae::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

fn main() -> parcae::Result<()> {
    let rt = Runtime::builder().workers(2).build()?;
    // The right to recharge 5000 ops in total, 2000 at a time.
    let ops = |ops| Budget::ZERO.with_ops(ops);
    let limits = BudgetLimits { total: ops(5_000), per_request: ops(2_000) };
    let sponsor = rt.cap_budget(limits, Delegation::Forbidden);
    let rounds = AtomicU64::new(0);
    let outcome = rt.run(|cx| {
        let tenant = NurseryOpts::new()
            .name("tenant-7")
            .budget(Budget::UNLIMITED.with_ops(1_000).with_spawn_count(1))
            .on_exhausted(OnExhausted::Suspend);
        cx.nursery_with(tenant, |n| {
            n.spawn(|cx| {
                cx.forever(|| {
                    rounds.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })
            })?;
            let suspended = |when| -> parcae::Result<()> {
                while n.budget().suspended == 0 {
                    cx.yield_now()?;
                }
                println!("{when}: suspended after {} rounds", rounds.load(Ordering::Relaxed));
                Ok(())
            };
            suspended("its own budget")?;
            n.recharge(ops(500))?; // out of the owner's account
            suspended("recharged by its owner")?;
            let account = n.account();
            let recharge = thread::spawn(move || {
                while let Ok(granted) = account.recharge(&sponsor, ops(9_999)) {
                    println!("  granted {}, {} left", granted.ops, sponsor.left().ops);
                    thread::sleep(Duration::from_millis(20));
                }
            });
            while !recharge.is_finished() {
                cx.yield_now()?;
            }
            suspended("recharged by capability")?;
            n.cancel(); // no more recharges
            Ok(())
        })
    });
    println!("the tenant ended: {}", outcome.unwrap_err());
    Ok(())
}
