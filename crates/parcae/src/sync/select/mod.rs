//! Waiting for the first of several things: [`select!`](crate::select!) for a fixed list,
//! [`Select`] for one that is made at run time.
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
//! - Exactly one case happens. The others have had no effect: nothing was taken from their
//!   channels, and nothing is left waiting there when the call returns.
//! - Among cases that are possible at once each has the same chance, however many there are that
//!   are not. On a task the choice comes from its worker's random numbers, so it is the same in a
//!   replay. With `biased;` the first in the order of the list is taken instead. Among cases that
//!   become possible while it waits it is the first to do so.
//! - `default` happens only if there was a moment at which no other case was possible.
//! - A receive from a channel that is closed and empty, and a send into a closed one, *are
//!   possible*: the case gets the error. Unless the task is cancelled: that is the result then, and
//!   no case happens.
//! - It is a checkpoint and a cancel point, also if it does not wait. A timeout counts from the
//!   call, and yields to whatever is possible without waiting.
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
//! Each registration carries the same `Claim`. Whoever serves one (a sender, a receiver, a close, a
//! token, a task that ends, a bell that rings) sets the claim under the lock of its channel before
//! it moves a value; so does the select itself for its deadline, for a cancel, for `default`, and
//! to try again. Only one sets it. A place whose claim is lost is passed over, and its value is not
//! touched.
//!
//! *No value is lost*: after the claim is decided every case is unregistered, under its channel's
//! lock, which waits for whoever won there to finish; only the winner's place can have an outcome.
//! Values lie in the cases, at addresses that the channel has while they are registered: they are
//! unregistered before the select returns, or unwinds.
//!
//! *No wake-up is lost*: a registration looks in the same critical section whether the case is
//! possible. If it is, nothing is tried while others are registered (both could happen); the select
//! withdraws and starts over. If it is not, whoever makes it possible finds the place.
//!
//! *Each has the same chance*: the order is a random permutation, drawn step by step. The first
//! possible case in it is each of the possible ones equally often, whatever lies between them.
//! (From a random start on, in order, a case would inherit the chances of impossible ones before
//! it.)
//!
//! *`default` is true*: looking at one channel after the other proves nothing, since a value may
//! move from one that was not looked at to one that was. A case is *fleeting* if it can cease to be
//! possible by the doing of others: a send or a receive. All others, once possible, stay so.
//!
//! - With one fleeting case at most, that one is tried and then all others: what is not possible
//!   later was not when the fleeting one was tried. That is the moment.
//! - Otherwise all are registered. From its registration on a case that becomes possible for this
//!   select takes its claim, as above; so while the claim is open and the last one is registered,
//!   none is possible. `default` claims for itself: if it wins, the moment was there. What is
//!   registered nowhere, a timer, is looked at between the two.
//!
//! *It ends*: to start over, somebody else must have been waiting or sent in between. Two selects
//! that look for each other might withdraw at the same time; they go on in random order, and a
//! select that has registered fully is found.
//!
//! *To watch* ([`Select::ready`], and a value that is yet to be made) is to register without an
//! address: whoever makes the operation possible sets the claim and wakes, and nothing is handed
//! over. What is found may be gone by the time that it is tried, and then the select starts over.
//!
//! Rejected: to claim both selects of a pair while registered. It needs an order of claims, or a
//! claim that can be taken back, on which others then wait. To take the locks of all channels in
//! the order of their addresses for the last look before `default`: locks for a few instructions
//! would be held for as long as the list is.

mod case;
mod channels;
mod events;
mod list;
mod macros;
#[cfg(all(test, not(loom)))]
mod tests;

pub use crate::wait::Ends;
#[doc(hidden)]
pub use case::{Case, Finish, Payer, Round};
#[doc(hidden)]
pub use channels::{RecvCase, SendCase, SendWithCase, send_with};
#[doc(hidden)]
pub use events::{
    ChangeCase, DeadlineCase, DefaultCase, EndedCase, NeverCase, TimeoutCase, TimerCase, TokenCase,
};
pub use list::{CaseId, Cases, Select};

use crate::base::error::{Error, Result};
use crate::sched::worker;
use crate::scope::cx::parking::{Deadline, Ended, wait};
use crate::sync::channel::may_wait;
use crate::sync::time;
use crate::wait::{Claim, Why};
use case::Goal;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Instant;

/// Claimed by the select itself: to try again, because its task was cancelled, or because nothing
/// is possible.
const RETRY: usize = usize::MAX - 1;
const INTERRUPTED: usize = usize::MAX - 2;
const OTHERWISE: usize = usize::MAX - 3;

/// In which order cases are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bias {
    /// In a random one.
    None,
    /// In that of the list.
    First,
}

/// A number below `count`.
fn random(count: usize) -> usize {
    if count < 2 {
        return 0;
    }
    worker::with_current(|worker| worker.rng.below(count))
        .unwrap_or_else(|| RandomState::new().build_hasher().finish() as usize % count)
}

/// An order of cases, which is drawn as far as it is asked for.
struct Turns {
    /// The first of them: a select rarely has more.
    few: [u8; Turns::FEW],
    /// All, if there are more.
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

    /// The case at this position; those before it were drawn.
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

    /// The same, for one that was drawn.
    fn get(&self, at: usize) -> usize {
        if self.many.is_empty() { usize::from(self.few[at]) } else { self.many[at] }
    }
}

/// Cases that may be registered: none is after this.
struct Registered<'r, 'c>(&'r mut [&'c mut dyn Case]);

impl Drop for Registered<'_, '_> {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|case| case.unregister());
    }
}

/// Waits until one of the cases has happened, and says which.
///
/// # Errors
///
/// There are no cases, or the task was cancelled or has no budget left: none has happened.
#[doc(hidden)]
pub fn run(cases: &mut [&mut dyn Case]) -> Result<usize> {
    choose(cases, Bias::None, Goal::Happen)
}

/// The same, with the first of those that are possible.
///
/// # Errors
///
/// As for [`run`].
#[doc(hidden)]
pub fn run_biased(cases: &mut [&mut dyn Case]) -> Result<usize> {
    choose(cases, Bias::First, Goal::Happen)
}

/// Waits until one of the cases has happened, or is possible, and says which.
fn choose(cases: &mut [&mut dyn Case], bias: Bias, goal: Goal) -> Result<usize> {
    let count = cases.len();
    if count == 0 {
        return Err(Error::msg("a select without cases would wait for ever"));
    }
    let payer = Payer::prepare()?;
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
        // Before `registered`, which is dropped first: no node points to the claim then.
        let claim = Claim::new();
        let registered = Registered(&mut *cases);
        for turn in 0..count {
            let case = turns.get(turn);
            let round = Round { claim: &claim, frame: payer.0, case, goal };
            if !registered.0[case].register(&round) {
                // If this fails, another case has happened.
                claim.fire(RETRY);
            }
            if !claim.is_open() {
                break;
            }
        }
        let (winner, interrupted) = if otherwise.is_some() {
            let late = |case: &mut &mut dyn Case| !case.is_fleeting() && case.is_possible();
            claim.fire(if registered.0.iter_mut().any(late) { RETRY } else { OTHERWISE });
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

/// Whether a case is possible; then it has happened, unless that is not the goal.
fn possible(case: &mut dyn Case, goal: Goal, payer: &Payer) -> bool {
    match goal {
        Goal::Happen => case.attempt(payer),
        Goal::Watch => case.is_possible(),
    }
}

/// The case that has won. If all that has happened there is that somebody else has gone, and this
/// task is to end, that is what it is told: mostly the one follows from the other.
fn accept(
    cases: &[&mut dyn Case],
    winner: usize,
    payer: &Payer,
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

/// The timeout that comes first, and its case; counted from the first time that a select has to
/// wait.
fn first_timeout(cases: &[&mut dyn Case]) -> Option<(Instant, usize)> {
    let timeouts = cases.iter().enumerate();
    let (time, at) = timeouts.filter_map(|(at, case)| Some((case.timeout()?, at))).min()?;
    Some((time::now().checked_add(time)?, at))
}

/// The same, or the timer that comes before it: others may have received it since the last time.
fn earliest(
    timeout: Option<(Instant, usize)>,
    cases: &[&mut dyn Case],
) -> Option<(Deadline, usize)> {
    let timers = cases.iter().enumerate().filter_map(|(at, case)| Some((case.due()?, at)));
    let (first, at) = timers.chain(timeout).min()?;
    Some((Deadline::after(first.saturating_duration_since(time::now())), at))
}

/// Waits until a claim is decided, and says for whom; if by a cancel, with what.
fn decide(
    claim: &Claim,
    cases: usize,
    timeout: Option<(Deadline, usize)>,
    payer: &Payer,
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
                    claim.fire(case);
                }
            }
            Err(error) => {
                claim.fire(INTERRUPTED);
                interrupted = Some(error);
            }
        }
    }
}
