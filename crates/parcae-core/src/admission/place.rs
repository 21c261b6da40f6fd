//! Placement of a context: worst fit, so that spare capacity is spread evenly.

use super::{Admitted, Capacity, Cause, Demand, Rejected, Test, examine};

/// The worker that is least loaded with `demand` on it, of those that can take it. Each
/// candidate is a worker, the set it serves already, and its capacity.
///
/// ```
/// use parcae_core::admission::{Capacity, Demand, place};
///
/// let capacity = Capacity::default();
/// let (busy, idle) = ([Demand::new(8, 10)], [Demand::new(1, 10)]);
/// let candidates = [(0, busy.iter().copied(), capacity), (1, idle.iter().copied(), capacity)];
/// let (worker, answer) = place(candidates, Demand::new(3, 10))?;
/// assert_eq!((worker, answer.load), (1, 400_000));
/// # Ok::<(), parcae_core::admission::Rejected>(())
/// ```
///
/// # Errors
///
/// The answer of the worker that lacks the least.
pub fn place<S>(
    candidates: impl IntoIterator<Item = (u8, S, Capacity)>,
    demand: Demand,
) -> Result<(u8, Admitted), Rejected>
where
    S: Iterator<Item = Demand> + Clone,
{
    let mut best: Result<(u8, Admitted), Rejected> =
        Err(Rejected { needed: u64::MAX, ..Rejected::unknown(Test::Terms, Cause::NoWorker, 0) });
    for (worker, set, capacity) in candidates {
        match (examine(set.chain([demand]), &capacity), &best) {
            (Ok(answer), Err(_)) => best = Ok((worker, answer)),
            (Ok(answer), Ok((_, least))) if answer.load < least.load => {
                best = Ok((worker, answer));
            }
            (Err(why), Err(least)) if why.missing() < least.missing() => best = Err(why),
            _ => {}
        }
    }
    best
}
