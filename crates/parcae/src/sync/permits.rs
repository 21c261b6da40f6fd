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

use super::line::{Batch, Grant, Line, Node, Standing, Wake};
use super::{Waited, constructor};
use crate::lock::{Guard, Lock};

pub(super) struct Permits<W> {
    state: Lock<State<W>>,
}

struct State<W> {
    free: usize,
    line: Line<W>,
}

impl<W> Permits<W> {
    constructor! {
        pub(super) fn new(free: usize) -> Permits<W> {
            Permits { state: Lock::new(State { free, line: Line::new() }) }
        }
    }

    fn lock(&self) -> Guard<'_, State<W>> {
        self.state.lock()
    }

    pub(super) fn free(&self) -> usize {
        self.lock().free
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
        let can = self.line.is_empty() && self.free >= wanted;
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

    /// Grants the first in line what they want, as long as there is enough.
    fn serve<'p>(&'p self, mut state: Guard<'p, State<W>>) {
        loop {
            let mut batch = Batch::new();
            while !batch.is_full()
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

impl<W: Wake> Waited<W> for Permits<W> {
    unsafe fn step(&self, node: &Node<W>, waiter: impl FnOnce() -> W) -> bool {
        let mut state = self.lock();
        // SAFETY: as the caller says, here and below.
        match unsafe { state.line.standing(node) } {
            Standing::Granted(_) => {
                // SAFETY: as above.
                unsafe { state.line.remove(node) };
                true
            }
            Standing::Idle => {
                // SAFETY: as above.
                let wants = unsafe { state.line.wants(node) };
                let taken = state.try_take(wants);
                if !taken {
                    // SAFETY: as above.
                    unsafe { state.line.push(node, waiter()) };
                }
                taken
            }
            Standing::Waiting | Standing::Called { .. } => false,
        }
    }

    unsafe fn withdraw(&self, node: &Node<W>) -> bool {
        let mut state = self.lock();
        // SAFETY: as the caller says.
        let (wants, (standing, unused)) =
            unsafe { (state.line.wants(node), state.line.remove(node)) };
        if let Standing::Granted(_) = standing {
            state.free += wants;
        }
        // Those behind one who wanted many may want less.
        self.serve(state);
        drop(unused);
        false
    }
}
