//! Waiting for the first of several operations: [`select!`](crate::select!) for a fixed list,
//! [`Select`] and [`Cases`] for lists made at run time.
//!
//! ```
//! use parcae::channel::channel;
//! use parcae::prelude::*;
//! use std::time::Duration;
//!
//! let rt = Runtime::builder().deterministic(1).build()?;
//! rt.run(|cx| {
//!     let (jobs, queue) = channel(1);
//!     let (stop, stopped) = channel::<()>(0);
//!     cx.nursery(|n| {
//!         let worker = n.spawn(move |_| {
//!             let mut done = 0;
//!             loop {
//!                 parcae::select! {
//!                     recv(queue) -> job => done += job?,
//!                     recv(stopped) -> _ => return Ok(done),
//!                     timeout(Duration::from_secs(60)) => return Err(parcae::Error::msg("idle")),
//!                 }?;
//!             }
//!         })?;
//!         jobs.send(20)?;
//!         jobs.send(22)?;
//!         while !jobs.is_empty() {
//!             cx.yield_now()?;
//!         }
//!         drop(stop);
//!         assert_eq!(worker.join()?, 42);
//!         Ok(())
//!     })
//! })?;
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! # Guarantees
//!
//! - Exactly one case happens. The others have no effect: nothing is taken from their channels, and
//!   no waiter is left there when the call returns.
//! - Among the cases that are possible at once, each is chosen with the same probability, however
//!   many impossible cases there are. On a task the choice comes from its worker's random numbers,
//!   so a replay makes the same one. With `biased;` the first possible case in the order of the
//!   list is chosen instead. Among cases that become possible during the wait, the first to do so
//!   is chosen.
//! - `default` happens only if there was a moment at which no other case was possible.
//! - A receive from a closed and empty channel, and a send into a closed one, *are possible*: the
//!   case gets the error. If the task is cancelled, the cancellation is the result instead, and no
//!   case happens.
//! - A select is a checkpoint and a cancel point, even if it does not wait. A timeout counts from
//!   the call. A case that is possible at once takes precedence over it.
//!
//! # The protocol
//!
//! ```text
//!        ┌──────────────── retry: another case became possible ───────────────┐
//!        ▼                                                                    │
//!      try all, in random order ── one happened ──► return                    │
//!        │ none                                                               │
//!        ▼                                                                    │
//!      register each with a new claim ── possible, and claim for retry won ──►│
//!        │                                                                    │ unregister all
//!        ▼                                                                    │
//!      park until the claim is decided; a deadline or a cancel claims too ────► return
//!      (or do not park, and claim for `default`)
//! ```
//!
//! All registrations of a select carry the same `Claim`. A thread that serves one of them (for a
//! send, a receive, a close, a cancelled token or the end of a task) sets the claim under the lock
//! of its object before it moves a value. The select itself sets it when its deadline passes or its
//! task is cancelled, for `default`, and to try again. Only the first attempt to set it succeeds. A
//! node whose claim is lost is skipped, and its value is not touched.
//!
//! *No value is lost*: once the claim is decided, every case is unregistered under the lock of its
//! object, so the winner's critical section has ended by then. Only the winner's node can have an
//! outcome. Values stay in the cases, at addresses that the channel uses while they are registered.
//! All cases are unregistered before the select returns or unwinds.
//!
//! *No wake-up is lost*: a registration checks in the same critical section whether the case is
//! possible. If it is, it cannot be tried while other cases are registered (two could happen), so
//! the select withdraws and starts over. If it is not, the thread that makes it possible finds the
//! node.
//!
//! *Each has the same chance*: the order is a random permutation, drawn step by step. Each possible
//! case is equally often the first possible one in it, wherever the impossible ones are. (With a
//! rotation from a random start, a case would inherit the chances of the impossible ones before
//! it.)
//!
//! *`default` is true*: looking at one channel after the other proves nothing, since a value may
//! move from a channel that is still to be looked at to one that was. A case is *fleeting* if other
//! tasks can make it impossible again: a send or a receive. All other cases, once possible, stay
//! possible.
//!
//! - With at most one fleeting case, that one is tried first and then all others: a case that is
//!   not possible later was not possible when the fleeting one was tried. That is the moment.
//! - Otherwise all cases are registered. A registered case that becomes possible sets the claim, as
//!   above; so if the claim is still open when the last case is registered, none is possible.
//!   `default` then sets the claim: if it wins, there was such a moment. Timers are not registered
//!   anywhere, so they are checked between the two.
//!
//! *It ends*: a select starts over only because another task waited or sent in between. Two selects
//! that meet each other might both withdraw at the same time. They continue in random order, and a
//! fully registered select is found by the other.
//!
//! *Watching* ([`Select::ready`], and `send_with`) is registering without an address: the thread
//! that makes the operation possible sets the claim and wakes the select, and hands nothing over.
//! The operation may be impossible again by the time it is tried. Then the select starts over.
//!
//! Rejected: claiming both selects of a pair while registered. It needs an order of claims, or a
//! revocable claim that other threads would wait for. Rejected too: locking all channels in the
//! order of their addresses for the last look before `default`. Locks that are held for a few
//! instructions would be held for the length of the list.

mod case;
mod channels;
mod events;
mod list;
mod macros;
mod settle;
#[cfg(all(test, not(loom)))]
mod tests;

pub use crate::wait::Ends;
#[doc(hidden)]
pub use case::{Case, Finish, Payer, Round};
#[doc(hidden)]
pub use channels::{RecvCase, SendCase, SendWithCase, send_with};
#[doc(hidden)]
pub use events::{
    ChangeCase, DeadlineCase, DefaultCase, EndedCase, JoinNextCase, NeverCase, TimeoutCase,
    TimerCase, TokenCase,
};
pub use list::{CaseId, Cases, Select};
#[doc(hidden)]
pub use settle::{Pass, Passed, Received, Settle};

use crate::base::error::{Error, Result};
use crate::sched::lab::{self, OpKind};
use crate::sched::worker;
use crate::sched::worker::ordered::{ordered_point, recorded_number};
use crate::scope::cx::Here;
use crate::scope::cx::parking::{Deadline, Ended, wait};
use crate::sync::channel::may_wait;
use crate::sync::time;
use crate::wait::{Claim, Why};
use case::Goal;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Instant;

/// Claims by the select itself: to try again, because its task was cancelled, or because no case is
/// possible.
const RETRY: usize = usize::MAX - 1;
const INTERRUPTED: usize = usize::MAX - 2;
const OTHERWISE: usize = usize::MAX - 3;

/// The order in which cases are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bias {
    /// Random.
    None,
    /// That of the list.
    First,
}

/// A random number below `count`.
fn random(count: usize) -> usize {
    if count < 2 {
        return 0;
    }
    if lab::is_any_alive()
        && let Some(number) = worker::lab_number(count)
    {
        return number;
    }
    worker::with_current(|worker| worker.rng.below(count))
        .map(recorded_number)
        .unwrap_or_else(|| RandomState::new().build_hasher().finish() as usize % count)
}

/// A permutation of the cases, drawn as far as it is needed.
struct Turns {
    /// For up to `FEW` cases, as most selects have.
    few: [u8; Turns::FEW],
    /// For more cases.
    many: Vec<usize>,
    count: usize,
    bias: Bias,
}

impl Turns {
    const FEW: usize = 16;

    fn new(count: usize, bias: Bias) -> Turns {
        let many = if count > Turns::FEW { (0..count).collect() } else { Vec::new() };
        Turns { few: std::array::from_fn(|at| at as u8), many, count, bias }
    }

    /// The case at this position. The positions before it must have been drawn.
    fn draw(&mut self, at: usize) -> usize {
        let from = match self.bias {
            Bias::None => at + random(self.count - at),
            Bias::First => at,
        };
        if self.many.is_empty() {
            self.few.swap(at, from);
        } else {
            self.many.swap(at, from);
        }
        self.get(at)
    }

    /// The case at a position that was drawn.
    fn get(&self, at: usize) -> usize {
        if self.many.is_empty() { usize::from(self.few[at]) } else { self.many[at] }
    }
}

/// Cases that may be registered. Dropping this unregisters them.
struct Registered<'r, 'c>(&'r mut [&'c mut dyn Case]);

impl Drop for Registered<'_, '_> {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|case| case.unregister());
    }
}

/// Waits until one of the cases has happened, and returns its index.
///
/// # Errors
///
/// If there are no cases, the task is cancelled, or its budget is exhausted. No case has happened.
#[doc(hidden)]
#[track_caller]
pub fn run(cases: &mut [&mut dyn Case]) -> Result<usize> {
    choose(cases, Bias::None, Goal::Happen)
}

/// Like [`run`], but chooses the first possible case.
///
/// # Errors
///
/// As for [`run`].
#[doc(hidden)]
#[track_caller]
pub fn run_biased(cases: &mut [&mut dyn Case]) -> Result<usize> {
    choose(cases, Bias::First, Goal::Happen)
}

/// Waits until one of the cases has happened, or is possible, and returns its index.
#[track_caller]
fn choose(cases: &mut [&mut dyn Case], bias: Bias, goal: Goal) -> Result<usize> {
    let count = cases.len();
    if count == 0 {
        return Err(Error::msg("a select without cases would wait forever"));
    }
    let here = Here::new();
    let payer = Payer::prepare(&here)?;
    worker::point(OpKind::Select, 0);
    let otherwise = cases.iter().position(|case| case.is_default());
    let mut turns = Turns::new(count, bias);
    let mut timeout = None;
    loop {
        for turn in 0..count {
            let at = turns.draw(turn);
            if possible(&mut *cases[at], goal, &payer) {
                return accept(cases, at, &payer, None);
            }
        }
        if let Some(otherwise) = otherwise
            && cases.iter().filter(|case| case.is_fleeting()).count() <= 1
        {
            let late = (0..count)
                .find(|&at| !cases[at].is_fleeting() && possible(&mut *cases[at], goal, &payer));
            return late.map_or(Ok(otherwise), |at| accept(cases, at, &payer, None));
        }
        // Declared before `registered`, which is dropped first: no node points to the claim then.
        let claim = Claim::new();
        let registered = Registered(&mut *cases);
        for turn in 0..count {
            let case = turns.get(turn);
            let round = Round { claim: &claim, frame: payer.0, case, goal };
            if !registered.0[case].register(&round) {
                ordered_point();
                // Fails if another case has happened.
                claim.fire(RETRY);
            }
            ordered_point();
            if !claim.is_open() {
                break;
            }
        }
        let (winner, interrupted) = if otherwise.is_some() {
            let late = |case: &mut &mut dyn Case| !case.is_fleeting() && case.is_possible();
            let late = registered.0.iter_mut().any(late);
            ordered_point();
            claim.fire(if late { RETRY } else { OTHERWISE });
            (claim.winner().unwrap_or(RETRY), None)
        } else {
            let timeout = *timeout.get_or_insert_with(|| first_timeout(registered.0));
            decide(&claim, count, earliest(timeout, registered.0), &payer)
        };
        drop(registered);
        match (winner, interrupted, otherwise) {
            (RETRY, None, _) => {}
            (OTHERWISE, _, Some(at)) => return Ok(at),
            (INTERRUPTED | RETRY, Some(error), _) => return Err(error),
            (winner, error, _) => {
                if goal == Goal::Watch || cases[winner].conclude(&payer) {
                    return accept(cases, winner, &payer, error);
                }
            }
        }
    }
}

/// Whether a case is possible. If the goal is that it happens, it has.
fn possible(case: &mut dyn Case, goal: Goal, payer: &Payer<'_>) -> bool {
    match goal {
        Goal::Happen => case.attempt(payer),
        Goal::Watch => case.is_possible(),
    }
}

/// Accepts the winning case. If its outcome is a closed channel and the task is cancelled, the
/// result is the cancellation: usually the one follows from the other.
fn accept(
    cases: &[&mut dyn Case],
    winner: usize,
    payer: &Payer<'_>,
    interrupted: Option<Error>,
) -> Result<usize> {
    if cases[winner].is_closed() {
        if let Some(error) = interrupted {
            return Err(error);
        }
        payer.0.map_or(Ok(()), |frame| frame.check_cancelled())?;
    }
    if interrupted.is_some() {
        payer.0.inspect(|frame| frame.untell());
    }
    Ok(winner)
}

/// The earliest timeout and its case. Timeouts count from the first wait of the select.
fn first_timeout(cases: &[&mut dyn Case]) -> Option<(Instant, usize)> {
    let timeouts = cases.iter().enumerate();
    let (time, at) = timeouts.filter_map(|(at, case)| Some((case.timeout()?, at))).min()?;
    Some((time::now().checked_add(time)?, at))
}

/// The earliest timeout or timer. Timers are read again, because another receiver may have taken
/// one since the last round.
fn earliest(
    timeout: Option<(Instant, usize)>,
    cases: &[&mut dyn Case],
) -> Option<(Deadline, usize)> {
    let timers = cases.iter().enumerate().filter_map(|(at, case)| Some((case.due()?, at)));
    let (first, at) = timers.chain(timeout).min()?;
    Some((Deadline::after(first.saturating_duration_since(time::now())), at))
}

/// Waits until the claim is decided. Returns the winner, and the error if that is a cancellation.
fn decide(
    claim: &Claim,
    cases: usize,
    timeout: Option<(Deadline, usize)>,
    payer: &Payer<'_>,
) -> (usize, Option<Error>) {
    let deadline = timeout.map_or(Deadline::Never, |(deadline, _)| deadline);
    let mut interrupted = None;
    loop {
        if let Some(winner) = claim.winner() {
            return (winner, interrupted);
        }
        match may_wait(payer.0).and_then(|()| wait(payer.0, deadline, Why::Select(cases))) {
            Ok(Ended::Woken) => {}
            Ok(Ended::TimedOut) => {
                if let Some((_, case)) = timeout {
                    ordered_point();
                    claim.fire(case);
                }
            }
            Err(error) => {
                ordered_point();
                claim.fire(INTERRUPTED);
                interrupted = Some(error);
            }
        }
    }
}
