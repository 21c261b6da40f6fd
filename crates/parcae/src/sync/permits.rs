//! A number of permits, and who waits for how many: what semaphores and read-write locks are made of.
//!
//! All under one small lock: `free` permits, and a line in which everybody wants some. Served strictly in order:
//! nobody takes permits while somebody waits, so that who wants many is not starved by those who
//! want few. Always, when the small lock is free: *the first in line wants more than is free*. Whatever
//! changes either side of that (permits that come back, a first that goes away) serves the line.
//!
//! The conserved quantity: `free` + what was granted and not given back = what was put in. A grant
//! moves permits out of `free` in the moment that the node leaves the line; a wait that
//! withdraws after its grant puts them back.
//!
//! # Closing
//!
//! `closed` is set once, under the small lock, and from then on nobody joins the line and nobody in it is served: the invariant
//! above ends there. Who is in line then is granted [`Grant::Common`] instead, which moves no permits, and
//! is how a waiter tells that it was refused. The line is emptied by the thread that closes, batch by batch; a
//! waiter that gives up in between takes its own node out.

use super::line::{Batch, Grant, Line, Node, Standing, Wake, grant_all};
use super::{Waited, constructor};
use crate::base::lock::{Guard, Lock};
use std::cell::Cell;

pub(super) struct Permits<W> {
    state: Lock<State<W>>,
}

struct State<W> {
    free: usize,
    closed: bool,
    line: Line<W>,
}

/// What one who asked for permits has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Got {
    Permits,
    /// Nothing, since it is closed.
    Refusal,
}

impl<W> Permits<W> {
    constructor! {
        pub(super) fn new(free: usize) -> Permits<W> {
            Permits { state: Lock::new(State { free, closed: false, line: Line::new() }) }
        }
    }

    fn lock(&self) -> Guard<'_, State<W>> {
        self.state.lock()
    }

    pub(super) fn free(&self) -> usize {
        self.lock().free
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(super) fn try_take(&self, wanted: usize) -> bool {
        self.lock().try_take(wanted)
    }

    /// Takes permits out for good, no more than are free; returns how many.
    pub(super) fn forget(&self, wanted: usize) -> usize {
        let mut state = self.lock();
        let taken = wanted.min(state.free);
        state.free -= taken;
        taken
    }
}

impl<W> State<W> {
    fn try_take(&mut self, wanted: usize) -> bool {
        let can = self.line.is_empty() && self.free >= wanted && !self.closed;
        if can {
            self.free -= wanted;
        }
        can
    }
}

impl<W: Wake> Permits<W> {
    /// Puts permits in.
    pub(super) fn give(&self, permits: usize) {
        let mut state = self.lock();
        state.free = state.free.checked_add(permits).expect("a count of permits that fits a word");
        self.serve(state);
    }

    /// Refuses all who are in line, and all who come.
    pub(super) fn close(&self) {
        let until = {
            let mut state = self.lock();
            state.closed = true; // nobody joins the line any more
            state.line.next_ticket()
        };
        grant_all(until, |grant| grant(&mut self.lock().line));
    }

    /// Grants the first in line what they want, as long as there is enough.
    fn serve<'p>(&'p self, mut state: Guard<'p, State<W>>) {
        loop {
            let mut batch = Batch::new();
            while !batch.is_full()
                && !state.closed
                && let Some(wants) = state.line.first_wants()
                && wants <= state.free
                && let Some(waker) = state.line.grant(Grant::Own)
            {
                state.free -= wants;
                batch.push(waker);
            }
            let more = batch.is_full();
            drop(state);
            batch.wake();
            if !more {
                return;
            }
            state = self.lock();
        }
    }
}

impl<W: Wake> Permits<W> {
    /// A [step](Waited::step), which says what was got; none if the node is in line.
    ///
    /// # Safety
    ///
    /// As for [`Waited::step`].
    unsafe fn ask(&self, node: &Node<W>, waiter: impl FnOnce() -> W) -> Option<Got> {
        let mut state = self.lock();
        // SAFETY: as the caller says, here and below.
        match unsafe { state.line.standing(node) } {
            Standing::Granted(grant) => {
                // SAFETY: as above.
                unsafe { state.line.remove(node) };
                Some(if grant == Grant::Common { Got::Refusal } else { Got::Permits })
            }
            Standing::Idle => {
                // SAFETY: as above.
                let wants = unsafe { state.line.wants(node) };
                if state.try_take(wants) {
                    return Some(Got::Permits);
                }
                if state.closed {
                    return Some(Got::Refusal);
                }
                // SAFETY: as above.
                unsafe { state.line.push(node, waiter()) };
                None
            }
            Standing::Waiting | Standing::Called { .. } => None,
        }
    }
}

/// For those who never close it.
impl<W: Wake> Waited<W> for Permits<W> {
    unsafe fn step(&self, node: &Node<W>, waiter: impl FnOnce() -> W) -> bool {
        // SAFETY: as the caller says.
        unsafe { self.ask(node, waiter) }.is_some()
    }

    unsafe fn withdraw(&self, node: &Node<W>) -> bool {
        let mut state = self.lock();
        // SAFETY: as the caller says.
        let (wants, (standing, unused)) =
            unsafe { (state.line.wants(node), state.line.remove(node)) };
        if standing == Standing::Granted(Grant::Own) {
            state.free += wants;
        }
        // Those behind one who wanted many may want less.
        self.serve(state);
        drop(unused);
        false
    }
}

/// One who asks for permits that may be refused.
pub(super) struct Asking<'p, W> {
    permits: &'p Permits<W>,
    refused: Cell<bool>,
}

impl<'p, W> Asking<'p, W> {
    pub(super) fn new(permits: &'p Permits<W>) -> Asking<'p, W> {
        Asking { permits, refused: Cell::new(false) }
    }

    /// Whether the wait has ended because of a refusal. Then it has got nothing.
    pub(super) fn was_refused(&self) -> bool {
        self.refused.get()
    }
}

impl<W: Wake> Waited<W> for Asking<'_, W> {
    unsafe fn step(&self, node: &Node<W>, waiter: impl FnOnce() -> W) -> bool {
        // SAFETY: as the caller says.
        let got = unsafe { self.permits.ask(node, waiter) };
        self.refused.set(got == Some(Got::Refusal));
        got.is_some()
    }

    unsafe fn withdraw(&self, node: &Node<W>) -> bool {
        // SAFETY: as the caller says.
        unsafe { self.permits.withdraw(node) }
    }
}
