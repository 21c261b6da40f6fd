//! Locks and signals under the deterministic executor with many seeds, on threads, and shared by
//! both.

mod closing;
mod guards;
mod locks;
mod signals;

use crate::Result;
use crate::prelude::*;
use crate::support::{deterministic, everywhere, run};

/// Cancels a task after so many yields, for all numbers up to one at which it has surely ended:
/// each of its wait points is hit. `body` is what others do meanwhile, beside the victim; `check`
/// looks at what is left.
fn cancelled_at_every_point(
    victim: impl Fn(&Cx) -> Result<()> + Sync,
    others: impl Fn(&Cx) -> Result<()> + Sync,
    check: impl Fn() + Sync,
) {
    let hits = std::sync::atomic::AtomicUsize::new(0);
    deterministic(|cx| {
        for point in 0..24 {
            let outcome = cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
                let other = n.spawn(&others)?;
                let task = n.spawn(&victim)?;
                for _ in 0..point {
                    cx.yield_now()?;
                }
                task.cancel();
                match task.join() {
                    Ok(()) => {}
                    Err(error) if error.is_cancelled() => {
                        hits.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                    Err(error) => return Err(error),
                }
                other.join()
            });
            outcome?;
            check();
        }
        Ok(())
    });
    assert!(hits.into_inner() > 100, "hardly anybody was cancelled");
}
