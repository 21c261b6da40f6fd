//! Barriers.
//!
//! Who comes last opens the barrier for all who are in line, under the small lock, and those who come later form
//! the next round. One who gives up before that was never there; one who gives up after it has passed, and the
//! request to end is noticed at its next cancel point.

use super::line::{Line, Node, Standing, Wake, grant_all};
use super::{Outcome, Waited, attend, constructor};
use crate::base::error::Result;
use crate::base::lock::{Guard, Lock};
use crate::wait::{Deadline, Waiter, Why};
use std::fmt;

/// Where tasks and threads wait for each other.
///
/// ```
/// use parcae::prelude::*;
/// use parcae::sync::Barrier;
///
/// let barrier = Barrier::new(3);
/// let rt = Runtime::builder().build()?;
/// let leaders = rt.run(|cx| {
///     cx.nursery(|n| {
///         let a = n.spawn(|_| barrier.wait())?;
///         let b = n.spawn(|_| barrier.wait())?;
///         let own = barrier.wait()?;
///         Ok([a.join()?, b.join()?, own].iter().filter(|result| result.is_leader()).count())
///     })
/// })?;
/// assert_eq!(leaders, 1);
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct Barrier {
    raw: RawBarrier<Waiter>,
}

pub(super) struct RawBarrier<W> {
    parties: usize,
    state: Lock<State<W>>,
}

struct State<W> {
    /// Of this round.
    arrived: usize,
    /// Who has a lower ticket has passed, whether or not it was told so yet.
    open_below: u64,
    line: Line<W>,
}

impl<W> RawBarrier<W> {
    constructor! {
        pub(super) fn new(parties: usize) -> RawBarrier<W> {
            let state = State { arrived: 0, open_below: 0, line: Line::new() };
            RawBarrier { parties, state: Lock::new(state) }
        }
    }

    fn lock(&self) -> Guard<'_, State<W>> {
        self.state.lock()
    }
}

impl<W: Wake> Waited<W> for RawBarrier<W> {
    unsafe fn step(&self, node: &Node<W>, waiter: impl FnOnce() -> W) -> bool {
        let mut state = self.lock();
        // SAFETY: as the caller says, here and below.
        match unsafe { state.line.standing(node) } {
            Standing::Granted(_) => {
                // SAFETY: as above.
                unsafe { state.line.remove(node) };
                true
            }
            Standing::Idle if state.arrived + 1 >= self.parties => {
                state.arrived = 0;
                let until = state.line.next_ticket();
                state.open_below = until;
                drop(state);
                grant_all(until, |grant| grant(&mut self.lock().line));
                true
            }
            Standing::Idle => {
                state.arrived += 1;
                // SAFETY: as above.
                unsafe { state.line.push(node, waiter()) };
                false
            }
            Standing::Waiting | Standing::Called { .. } => false,
        }
    }

    unsafe fn withdraw(&self, node: &Node<W>) -> bool {
        let mut state = self.lock();
        // SAFETY: as the caller says.
        let (ticket, (_, unused)) = unsafe { (state.line.ticket(node), state.line.remove(node)) };
        let passed = ticket < state.open_below;
        if !passed {
            state.arrived -= 1;
        }
        drop(state);
        drop(unused);
        passed
    }
}

impl Barrier {
    constructor! {
        /// A barrier for so many. With 0 or 1 nobody waits.
        pub fn new(parties: usize) -> Barrier {
            Barrier { raw: RawBarrier::new(parties) }
        }
    }

    /// Waits until all have come; then the barrier is ready for the next round. A cancel point, if it has to
    /// wait: who is cancelled counts as not having come.
    ///
    /// # Errors
    ///
    /// If the task was cancelled before all had come.
    pub fn wait(&self) -> Result<BarrierResult> {
        let outcome =
            attend(&self.raw, 0, Why::signal("barrier", self), || Deadline::Never, || {})?;
        Ok(BarrierResult { leader: outcome == Outcome::AtOnce })
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("parties", &self.raw.parties).finish_non_exhaustive()
    }
}

/// How one has passed a [`Barrier`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarrierResult {
    leader: bool,
}

impl BarrierResult {
    /// Whether this is the one who came last. There is one in each round.
    pub fn is_leader(&self) -> bool {
        self.leader
    }
}
