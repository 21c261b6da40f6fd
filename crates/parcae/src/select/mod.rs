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
//! - Exactly one case happens. The others have had no effect: nothing was taken from their channels, and
//!   nothing is left waiting there when the call returns.
//! - Among cases that are possible at once each has the same chance. On a task the choice comes from its
//!   worker's random numbers, so it is the same in a replay.
//! - A receive from a channel that is closed and empty, and a send into a closed one, *are possible*: the
//!   case gets the error.
//! - It is a cancel point. A timeout counts from the call, and yields to whatever is possible without waiting.
//!
//! # The protocol
//!
//! ```text
//!        ┌──────────────── retry: another case became possible ───────────────┐
//!        ▼                                                                    │
//!      try all, from a random one on ── one happened ──► return               │
//!        │ none                                                               │
//!        ▼                                                                    │
//!      register each with a new claim ── possible, and claim for retry won ──►│
//!        │                                                                    │ unregister all
//!        ▼                                                                    │
//!      park until the claim is decided; a deadline or a cancel claims too ────► return
//! ```
//!
//! Each registration carries the same `Claim`. Whoever serves one (a sender, a receiver,
//! a close, a token) sets the claim under the lock of its channel before it moves a value; so does
//! the select itself for its deadline, for a cancel, and to try again. Only one
//! sets it. A place whose claim is lost is passed over, and its value is not touched.
//!
//! *No value is lost*: after the claim is decided every case is unregistered, under its channel's
//! lock, which waits for whoever won there to finish; only the winner's place can have an outcome.
//!
//! *No wake-up is lost*: a registration looks in the same critical section whether the case is possible. If
//! it is, nothing is tried while others are registered (both could happen); the select withdraws and
//! starts over. If it is not, whoever makes it possible finds the place.
//!
//! *It ends*: to start over, somebody else must have been waiting or sent in between. Two selects that look for
//! each other might withdraw at the same time; they go on from random cases, and a select
//! that has registered fully is found.
//!
//! Rejected: to claim both selects of a pair while registered. It needs an order of claims, or a claim
//! that can be taken back, on which others then wait.

mod cases;
mod list;
mod macros;
#[cfg(all(test, not(loom)))]
mod tests;

#[doc(hidden)]
pub use cases::{Case, DefaultCase, Payer, RecvCase, Round, SendCase, TimeoutCase, TokenCase};
pub use list::Select;

use crate::channel::{Claim, may_wait};
use crate::error::{Error, Result};
use crate::wait::{self, Deadline, Ended, Waiter, Why};
use crate::worker;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

/// Claimed by the select itself: to try again, or because its task was cancelled.
const RETRY: usize = usize::MAX - 1;
const INTERRUPTED: usize = usize::MAX - 2;

/// Which of `count` comes first.
fn first(count: usize) -> usize {
    match worker::current() {
        _ if count < 2 => 0,
        Some(worker) => worker.rng.below(count),
        None => RandomState::new().build_hasher().finish() as usize % count,
    }
}

/// Waits until one of the cases has happened, and says which.
///
/// # Errors
///
/// There are no cases, or the task was cancelled or has no budget left: none has happened.
#[doc(hidden)]
pub fn run(cases: &mut [&mut dyn Case]) -> Result<usize> {
    let count = cases.len();
    if count == 0 {
        return Err(Error::msg("a select without cases would wait for ever"));
    }
    let payer = Payer::prepare()?;
    let otherwise = cases.iter().position(|case| case.is_default());
    let mut timeout = None;
    loop {
        let start = first(count);
        let in_turn = || (0..count).map(|at| (start + at) % count);
        if let Some(at) = in_turn().find(|&at| cases[at].attempt(&payer)) {
            return Ok(at);
        }
        if let Some(at) = otherwise {
            return Ok(at);
        }
        let timeout = *timeout.get_or_insert_with(|| first_timeout(cases));
        let claim = Arc::new(Claim::new());
        let waiter = Waiter::current();
        for case in in_turn() {
            let round = Round { claim: &claim, waiter: &waiter, case };
            if !cases[case].register(&round) {
                // If this fails, another case has happened.
                claim.fire(RETRY);
            }
            if !claim.is_open() {
                break;
            }
        }
        let (winner, error) = decide(&claim, count, timeout);
        for (at, case) in cases.iter_mut().enumerate() {
            case.unregister(at == winner, &payer);
        }
        match (winner, error) {
            (RETRY, _) => {}
            (INTERRUPTED, Some(error)) => return Err(error),
            (winner, _) => return Ok(winner),
        }
    }
}

/// The case that has the earliest deadline, and that; counted from the first time that a select has to wait.
fn first_timeout(cases: &[&mut dyn Case]) -> Option<(Deadline, usize)> {
    let timeouts = cases.iter().enumerate();
    let (time, at) = timeouts.filter_map(|(at, case)| Some((case.timeout()?, at))).min()?;
    Some((Deadline::after(time), at))
}

/// Waits until a claim is decided, and says for whom; if by a cancel, with what.
fn decide(
    claim: &Claim,
    cases: usize,
    timeout: Option<(Deadline, usize)>,
) -> (usize, Option<Error>) {
    let deadline = timeout.map_or(Deadline::Never, |(deadline, _)| deadline);
    let mut interrupted = None;
    loop {
        if let Some(winner) = claim.winner() {
            return (winner, interrupted);
        }
        match may_wait().and_then(|()| wait::wait(deadline, Why::Select(cases))) {
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
