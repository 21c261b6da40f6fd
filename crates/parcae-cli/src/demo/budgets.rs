//! A tenant that is suspended when its budget is exhausted, and continues after a recharge.

use super::{Demo, Size, check};
use crate::stage::{BOLD, DIM, Stage, bar, grouped, paint};
use parcae::budget::Standing;
use parcae::cap::{BudgetLimits, Delegation};
use parcae::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(super) const DEMO: Demo = Demo {
    name: "budgets",
    about: "a tenant exhausts its budget, is suspended, and recharged",
    look: "The tenant loops forever. It is suspended when its ops are used up, and continues from the same point \
           after a recharge.",
    run,
};

fn ops(ops: u64) -> Budget {
    Budget { ops, ..Budget::ZERO }
}

fn run(stage: &Stage, size: Size) -> parcae::Result<()> {
    let pause = size.pick(Duration::from_micros(400), Duration::ZERO);
    let rt = Runtime::builder().workers(2).build()?;
    let rounds = AtomicU64::new(0);
    let mut recharged = 0;
    let mut books = None;
    let ended = rt.run(|cx| {
        let tenant = NurseryOpts::new()
            .name("tenant")
            .budget(Budget { ops: 1_000, ..Budget::UNLIMITED })
            .on_exhausted(OnExhausted::Suspend);
        cx.nursery_with(tenant, |n| {
            n.spawn(|cx| -> parcae::Result<()> {
                loop {
                    cx.checkpoint()?; // one op: here it is suspended
                    rounds.fetch_add(1, Ordering::Relaxed);
                    cx.sleep(pause)?; // stands for work
                }
            })?;
            // Watches until the tenant is suspended.
            let suspended = |who: &str| -> parcae::Result<()> {
                while n.budget().suspended == 0 {
                    let (done, paid) = (rounds.load(Ordering::Relaxed), n.budget().granted.ops);
                    stage.live(|| format!("{} {} ops", bar(done, paid, 40), grouped(done)));
                    cx.sleep(Duration::from_millis(1))?;
                }
                let rounds = rounds.load(Ordering::Relaxed);
                let granted = n.budget().granted.ops;
                stage.say(format_args!(
                    "{who:34} {} suspended after {} rounds",
                    bar(rounds, 6_500, 26),
                    paint(BOLD, grouped(rounds)),
                ));
                check(rounds <= granted, "no round without an op to pay for it")
            };
            suspended("its own budget, 1000 ops")?;

            n.recharge(ops(500))?; // out of the owner's account
            suspended("recharged by its owner, 500")?;

            // From here on a holder of a capability recharges, here on a thread.
            let limits = BudgetLimits { total: ops(5_000), per_request: ops(2_000) };
            let sponsor = rt.cap_budget(limits, Delegation::Forbidden);
            let account = n.account();
            let refused = loop {
                match account.recharge(&sponsor, ops(9_999)) {
                    Ok(granted) => {
                        recharged += granted.ops;
                        let left = sponsor.left().ops;
                        suspended(&format!("sponsor: asked 9999, granted {}", granted.ops))?;
                        stage.say(paint(DIM, format!("  the sponsor has {left} left")));
                    }
                    Err(error) => break error,
                }
            };
            stage.say(format_args!("the sponsor has nothing left: {refused}"));
            books = Some(n.budget());
            n.cancel(); // a suspended task can be cancelled as any other
            Ok(())
        })
    });
    let (Err(ended), Some(books)) = (ended, books) else {
        return check(false, "the tenant was cancelled");
    };
    stage.say(format_args!("the tenant ended: {ended}"));
    let Standing { granted, left, held, spent, .. } = books;
    let used = held.ops + spent.ops; // a task's use is counted as spent when it ends
    stage.say(format_args!("granted {} = left {} + used or held {used}", granted.ops, left.ops));
    stage.figure("rounds", rounds.into_inner());
    stage.figure("granted", granted.ops);
    stage.figure("recharged_by_capability", recharged);
    stage.figure("ended", ended.to_string());
    check(granted.ops == left.ops + used, "no op is lost or made")?;
    check(recharged == 5_000, "the sponsor gives all it may, and no more")?;
    check(ended.is_cancelled(), "the tenant was cancelled")
}
