//! Budgets of a supervisor's children: the answer to a child that has run out.
//!
//! Under a [`Recharge`] policy a child that runs out of budget is suspended where it is, and its
//! supervisor decides. The child's task reports its shortage to the supervisor's desk
//! (`crate::desk`), by the hook of the nursery.
//!
//! The amounts come from a [`CapBudget`], which bounds and audits them. There is no other source:
//! a restart draws on the same account as the incarnation before it.

use crate::clock::after;
use parcae::budget::{Resource, Standing};
use parcae::cap::CapBudget;
use parcae::task::TaskInfo;
use parcae::{Budget, time};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The policy of a supervisor for children that run out of budget, with the capability that pays.
///
/// Without one a child that runs out of budget fails with
/// [`ExitKind::Exhausted`](crate::ExitKind::Exhausted).
///
/// ```
/// use parcae::cap::{BudgetLimits, Delegation};
/// use parcae::prelude::*;
/// use parcae::profile::Cluster;
/// use parcae_actor::{Actor, ActorCx, ActorOpts, Actors, ActorsOpts, Next};
/// use parcae_actor::{Recharge, Reply, Supervise};
/// use std::time::Duration;
///
/// struct Greedy;
///
/// impl Actor for Greedy {
///     type Msg = Reply<()>;
///
///     fn handle(
///         &mut self,
///         cx: &mut ActorCx<'_, Reply<()>>,
///         done: Reply<()>,
///     ) -> parcae::Result<Next> {
///         cx.charge(Budget { ops: 5_000, ..Budget::ZERO })?; // more than it has
///         done.send(());
///         Ok(Next::Continue)
///     }
/// }
///
/// let rt = Runtime::builder().profile::<Cluster>().build()?;
/// let slice = Budget { ops: 1_000, ..Budget::ZERO };
/// let total = BudgetLimits::total(Budget { ops: 100_000, ..Budget::ZERO });
/// let cap = rt.cap_budget(total, Delegation::Forbidden);
/// rt.run(|cx| {
///     let root = Supervise::one_for_one().recharge(Recharge::slice(cap, slice));
///     cx.actors(ActorsOpts::new().supervise(root), |system| {
///         let own = Budget { ops: 1_000, ..Budget::UNLIMITED };
///         let greedy = system.start(ActorOpts::new("greedy").budget(own), |_| Ok(Greedy))?;
///         Ok(greedy.call(Duration::from_secs(10), |reply| reply)?)
///     })
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Clone)]
pub struct Recharge {
    pub(crate) cap: Arc<CapBudget>,
    decide: Decide,
}

type Decide = Arc<dyn Fn(&Exhausted) -> Answer + Send + Sync>;

/// A child that has run out of budget and is suspended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Exhausted {
    /// The task that waits: the actor's, or one of its helpers.
    pub task: TaskInfo,
    /// The resource that is used up.
    pub resource: Resource,
    /// For a handler that has used [the ops of its message](crate::ActorOpts::message_ops): those
    /// that it has had so far. None if the account is empty.
    pub message_ops: Option<u64>,
    /// The account that the task draws on: the actor's own, or the one that the supervisor's
    /// children share.
    pub standing: Standing,
    /// How often that account was recharged before, in this life of the supervisor; or how often
    /// the handler got more ops for its message.
    pub recharges: u64,
    /// When that was last, by the clock of the runtime.
    pub last: Option<Instant>,
}

/// The answer of a supervisor to a child that has run out of budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// Adds as much of this as the capability has left. If that is nothing of the resource that
    /// the child lacks, the child ends as with [`Answer::End`]. A handler that has used the ops of
    /// its message gets as many more ops as were added, or as were to be added to an account that
    /// does not count ops.
    Add(Budget),
    /// Asks again at this point in time.
    Later(Instant),
    /// Ends the child, with [`ExitKind::Exhausted`](crate::ExitKind::Exhausted).
    End,
    /// Leaves it suspended, until its account is recharged from elsewhere or the child is stopped.
    Leave,
}

impl Recharge {
    /// Calls `decide` for each shortage.
    pub fn by(
        cap: impl Into<Arc<CapBudget>>,
        decide: impl Fn(&Exhausted) -> Answer + Send + Sync + 'static,
    ) -> Recharge {
        Recharge { cap: cap.into(), decide: Arc::new(decide) }
    }

    /// Adds nothing: each child is suspended where it is, until its account is recharged from
    /// elsewhere or the child is stopped.
    pub fn never(cap: impl Into<Arc<CapBudget>>) -> Recharge {
        Recharge::by(cap, |_| Answer::Leave)
    }

    /// Adds a slice at a shortage, but keeps the children together: one that has got a slice more
    /// than another child waits for `period` and is then looked at again. A child counts from its
    /// first shortage until it has had none for two periods.
    pub fn fair(cap: impl Into<Arc<CapBudget>>, period: Duration, slice: Budget) -> Recharge {
        let turns = Mutex::new(Turns { period, children: Vec::new() });
        Recharge::by(cap, move |child| {
            let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
            match turns.ask(child.task.id(), time::now()) {
                None => Answer::Add(slice),
                Some(later) => Answer::Later(later),
            }
        })
    }

    /// Adds a slice at each shortage, until the capability is used up.
    pub fn slice(cap: impl Into<Arc<CapBudget>>, slice: Budget) -> Recharge {
        Recharge::by(cap, move |_| Answer::Add(slice))
    }

    /// Adds a slice at a shortage, but at most one per period: a child that is faster than that
    /// waits for the rest of the period.
    pub fn every(cap: impl Into<Arc<CapBudget>>, period: Duration, slice: Budget) -> Recharge {
        Recharge::by(cap, move |child| match child.last.map(|last| after(last, period)) {
            Some(next) if next > time::now() => Answer::Later(next),
            _ => Answer::Add(slice),
        })
    }

    pub(crate) fn decide(&self, child: &Exhausted) -> Answer {
        (self.decide)(child)
    }
}

impl fmt::Debug for Recharge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recharge").field("cap", &self.cap).finish_non_exhaustive()
    }
}

/// The children that [`Recharge::fair`] keeps together: by key, number of slices, last shortage.
struct Turns<K> {
    period: Duration,
    children: Vec<(K, u64, Instant)>,
}

impl<K: PartialEq> Turns<K> {
    /// Counts a slice for a child; or says when to ask again, if the child is ahead of another.
    fn ask(&mut self, child: K, now: Instant) -> Option<Instant> {
        let two = self.period.saturating_mul(2);
        self.children.retain(|(_, _, asked)| now.saturating_duration_since(*asked) < two);
        let least = self.children.iter().map(|&(_, slices, _)| slices).min().unwrap_or(0);
        match self.children.iter_mut().find(|(key, ..)| *key == child) {
            None => self.children.push((child, least + 1, now)),
            Some((_, slices, asked)) => {
                *asked = now;
                if *slices > least {
                    return Some(after(now, self.period));
                }
                *slices += 1;
            }
        }
        None
    }
}

/// A shortage, as the nursery reports it.
pub(crate) struct Shortage {
    pub(crate) task: TaskInfo,
    pub(crate) resource: Resource,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_child_gets_two_slices_more_than_another() {
        let (start, period) = (Instant::now(), Duration::from_secs(1));
        let at = |seconds| start + period * seconds;
        let mut turns = Turns { period, children: Vec::new() };
        assert_eq!(turns.ask('a', start), None);
        assert_eq!(turns.ask('a', start), None); // it is alone
        assert_eq!(turns.ask('b', start), None);
        assert_eq!(turns.ask('a', start), None); // `b` has begun where `a` was, and got one more
        assert_eq!(turns.ask('a', start), None);
        assert_eq!(turns.ask('a', start), Some(at(1)));
        assert_eq!(turns.ask('b', at(1)), None);
        assert_eq!(turns.ask('a', at(1)), None);
        assert_eq!(turns.ask('a', at(1)), Some(at(2)));
        assert_eq!(turns.ask('a', at(2)), Some(at(3)));
        assert_eq!(turns.ask('a', at(3)), None); // `b` has asked for nothing since
    }
}
