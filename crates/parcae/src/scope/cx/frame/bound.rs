//! A bound on the ops of a part of a task: [`Cx::limit_ops`](crate::Cx::limit_ops).
//!
//! It bounds turns, not the account, so nothing is moved between budgets, and a task without a
//! bound pays for nothing but a look at the end of each turn. While a bound is set:
//!
//! ```text
//! ops left in the bound = slice + turn + beyond
//! ops left in the turn  = slice + turn + aside
//! ```
//!
//! - `aside` is the part of the turn that the bound does not allow. It goes back into the turn when
//!   the bound ends or is raised.
//! - A turn that begins under the bound is taken out of `beyond`, and is no longer than that.
//! - A charge of more ops than the turn has takes the rest out of `beyond`.
//!
//! So at most one of `aside` and `beyond` is not 0. A checkpoint that finds the turn over and
//! `beyond` used up asks the owner of the bound, on the task, for more. There is no bound in the
//! meantime: the owner may wait, and what it uses is not counted here.
//!
//! A bound inside of another one has no more than the outer one has left, which pays for all that
//! was used inside.

use super::Frame;
use crate::base::error::{Error, Result};
use crate::scope::budget::{Resource, Shortfall};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

/// The bound of a running part, on the task's stack.
pub(super) struct OpsBound<'b> {
    beyond: Cell<u64>,
    aside: Cell<u64>,
    /// All that it was given.
    granted: Cell<u64>,
    /// The ops left in the outer bound when this one began.
    outer_left: u64,
    /// Set when the owner has refused to give more.
    refused: RefCell<Option<Error>>,
    owner: RefCell<GiveMore<'b>>,
    outer: Option<NonNull<OpsBound<'static>>>,
}

/// Answers with more ops, or with the error of the checkpoint.
type GiveMore<'b> = &'b mut dyn FnMut(Error) -> Result<u64>;

impl Frame {
    /// Runs a part of the task under a bound.
    pub(in crate::scope::cx) fn bounded<R>(
        &self,
        ops: u64,
        owner: GiveMore<'_>,
        body: impl FnOnce() -> R,
    ) -> R {
        if self.is_away() {
            return body(); // it has no turn, and its checkpoints are refused
        }
        let outer = self.bound.get();
        let outer_left = self.bound_left().unwrap_or(u64::MAX);
        let ops = ops.min(outer_left);
        let bound = OpsBound {
            beyond: Cell::new(0),
            aside: Cell::new(0),
            granted: Cell::new(ops),
            outer_left,
            refused: RefCell::new(None),
            owner: RefCell::new(owner),
            outer,
        };
        let turn = self.ops_left();
        if let Some(outer) = self.bound() {
            outer.aside.set(0); // it is in `turn`
        }
        self.bound.set(Some(NonNull::from(&bound).cast()));
        self.divide(&bound, turn, ops);
        let _end = EndBound { frame: self, bound: &bound };
        body()
    }

    /// The bound that the task is under.
    #[inline]
    fn bound(&self) -> Option<&OpsBound<'static>> {
        // SAFETY: it is in a frame of `bounded` on the task's stack, which takes it out before it
        // returns or unwinds.
        self.bound.get().map(|bound| unsafe { bound.as_ref() })
    }

    /// Ops that are left in the bound; none if there is no bound.
    fn bound_left(&self) -> Option<u64> {
        let bound = self.bound()?;
        Some(self.slice.get() + self.turn.get() + bound.beyond.get())
    }

    /// The part of the turn that the bound does not allow.
    pub(super) fn turn_aside(&self) -> u64 {
        self.bound().map_or(0, |bound| bound.aside.get())
    }

    /// Divides the rest of a turn and that of a bound into slice, turn, aside and beyond.
    fn divide(&self, bound: &OpsBound<'_>, turn: u64, left: u64) {
        let balance = self.balance();
        self.slice.set(0);
        self.turn.set(turn.min(left));
        bound.aside.set(turn.saturating_sub(left));
        bound.beyond.set(left.saturating_sub(turn));
        self.set_balance(balance);
    }

    /// The longest turn that may begin now, of at most `most` ops.
    #[inline]
    pub(super) fn allowed_turn(&self, most: u64) -> u64 {
        self.bound().map_or(most, |bound| bound.beyond.get().min(most))
    }

    /// Ends the turn after at most so many ops; what the bound allows beyond that stays allowed.
    /// Does nothing without a bound.
    pub(super) fn shorten_bounded(&self, ops: u64) -> bool {
        let Some((bound, left)) = self.bound().zip(self.bound_left()) else { return false };
        let turn = self.ops_left().min(ops);
        bound.aside.set(0);
        self.divide(bound, turn, left);
        true
    }

    /// A turn of so many ops has begun.
    #[inline]
    pub(super) fn turn_began(&self, ops: u64) {
        self.take_beyond(ops);
    }

    /// Takes ops that were not in the turn out of the bound.
    #[inline]
    pub(super) fn take_beyond(&self, ops: u64) {
        if let Some(bound) = self.bound() {
            bound.beyond.set(bound.beyond.get().saturating_sub(ops));
        }
    }

    /// Ensures that the bound has `needed` ops left, before they are used.
    ///
    /// # Errors
    ///
    /// That of the owner of the bound, who gives no more.
    #[inline]
    pub(super) fn ensure_bound(&self, needed: u64) -> Result<()> {
        match self.bound_left() {
            Some(left) if left < needed => self.overrun(needed),
            _ => Ok(()),
        }
    }

    /// The bound is used up. Asks its owner for more, until there is enough.
    #[cold]
    fn overrun(&self, needed: u64) -> Result<()> {
        while let Some((bound, left)) = self.bound().zip(self.bound_left()) {
            if left >= needed {
                return Ok(());
            }
            if let Some(error) = &*bound.refused.borrow() {
                return Err(error.clone());
            }
            let short = Shortfall { resource: Resource::Ops, needed, left };
            let error = Error::short(short).in_task(|| self.info());
            // The owner may wait, for which there is no bound.
            let put_back = PutBack { frame: self, bound: self.bound.take() };
            self.divide_whole(bound);
            let answer = match bound.owner.try_borrow_mut() {
                Ok(mut owner) => owner(error),
                Err(_) => Err(error), // the owner's own code has set a bound
            };
            let turn = self.ops_left();
            drop(put_back);
            match answer {
                Ok(0) => bound.refused.replace(Some(Error::short(short))),
                Ok(more) => {
                    bound.granted.set(bound.granted.get().saturating_add(more));
                    self.divide(bound, turn, left.saturating_add(more));
                    continue;
                }
                Err(error) => bound.refused.replace(Some(error)),
            };
            self.divide(bound, turn, left);
        }
        Ok(())
    }

    /// Gives the turn back the part that the bound does not allow.
    fn divide_whole(&self, bound: &OpsBound<'_>) {
        let balance = self.balance();
        let turn = self.slice.take() + self.turn.get() + bound.aside.take();
        self.turn.set(turn);
        self.set_balance(balance);
    }
}

/// Puts a bound back that its owner was asked without, also if the owner unwinds.
struct PutBack<'f> {
    frame: &'f Frame,
    bound: Option<NonNull<OpsBound<'static>>>,
}

impl Drop for PutBack<'_> {
    fn drop(&mut self) {
        self.frame.bound.set(self.bound);
    }
}

/// Ends a bound, also if the part unwinds.
struct EndBound<'f, 'b> {
    frame: &'f Frame,
    bound: &'f OpsBound<'b>,
}

impl Drop for EndBound<'_, '_> {
    fn drop(&mut self) {
        let (frame, bound) = (self.frame, self.bound);
        let left = frame.bound_left().unwrap_or(0);
        let used = bound.granted.get().saturating_sub(left);
        frame.divide_whole(bound);
        frame.bound.set(bound.outer);
        if let Some(outer) = frame.bound() {
            outer.aside.set(0);
            frame.divide(outer, frame.ops_left(), bound.outer_left.saturating_sub(used));
        }
    }
}
