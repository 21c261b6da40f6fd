//! All tenants at once, and the service beside them. Shared with the program `parcae`.

use super::service::{Latencies, serve};
use super::tenants::{End, TENANTS, contain};
use parcae::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs every tenant with at most `budget`, and the service until the last tenant has ended. Calls
/// `ended` for each tenant that ends.
pub(crate) fn beside(
    cx: &Cx,
    budget: Budget,
    ended: impl Fn(&End) + Sync,
) -> parcae::Result<(Vec<End>, Latencies)> {
    let all_ended = AtomicBool::new(false);
    cx.nursery(|n| {
        let (all_ended, ended) = (&all_ended, &ended);
        let urgent = SpawnOpts::new().name("service").priority(Priority::High);
        let service =
            n.spawn_with(urgent, |cx| serve(cx, |_| all_ended.load(Ordering::Relaxed)))?;
        let mut tasks = Vec::new();
        for tenant in TENANTS {
            tasks.push(n.spawn(move |cx| {
                let end = contain(cx, tenant, budget);
                ended(&end);
                Ok(end)
            })?);
        }
        let ends = tasks.into_iter().map(TaskHandle::join).collect::<parcae::Result<_>>()?;
        all_ended.store(true, Ordering::Relaxed);
        Ok((ends, service.join()?))
    })
}
