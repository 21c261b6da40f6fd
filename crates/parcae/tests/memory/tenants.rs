//! The tenants of the example `hostile`, in small: each ends with the right error, whatever runs
//! beside it.

#[path = "../../examples/hostile/tenants.rs"]
mod hostile;

use hostile::{TENANTS, contain, hush};
use parcae::prelude::*;

const BUDGET: Budget = Budget::ZERO
    .with_ops(300_000)
    .with_memory(8 << 20)
    .with_spawn_count(200)
    .with_channel_ops(5_000);

/// One test, because the tenants use static variables.
// rule: S0-SEC-1
#[test]
fn every_tenant_is_contained_with_the_right_error_and_a_neighbour_goes_on() {
    hush();
    for workers in [1, 2] {
        check(&Runtime::builder().workers(workers).build().unwrap());
        for seed in 0..10 {
            check(&Runtime::builder().workers(workers).deterministic(seed).build().unwrap());
        }
    }
}

fn check(rt: &Runtime) {
    let answers = rt.run(|cx| {
        cx.nursery(|n| {
            let neighbour = n.spawn(|cx| {
                for _ in 0..1000 {
                    cx.yield_now()?;
                }
                Ok(1000)
            })?;
            let mut tasks = Vec::new();
            for tenant in TENANTS {
                tasks.push(n.spawn(move |cx| Ok(contain(cx, tenant, BUDGET)))?);
            }
            for task in tasks {
                let end = task.join()?;
                let (name, error) = (end.tenant.name, &end.error);
                assert!(end.is_contained(), "{name}: {error:?}");
                assert!(BUDGET.covers(end.spent), "{name} has spent {:?}", end.spent);
                assert!(!end.tenant.tries.is_empty());
            }
            neighbour.join()
        })
    });
    assert_eq!(answers.unwrap(), 1000);
}
