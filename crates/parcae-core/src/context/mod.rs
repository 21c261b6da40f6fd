//! Scheduling contexts: processor time that is held, lent and used up.
//!
//! A context is a right to use a *budget* of time in each *period*, by a *deadline* after it
//! becomes ready. A party (a task, a service) runs only while it holds a context, and its use is
//! charged to that context. The model is that of seL4's mixed-criticality kernel; the replenishment
//! rules are in [`supply`], lending is in [`call`].
//!
//! # Ownership
//!
//! [`Contexts`] is the table of *one worker*. At most one of its contexts runs at a time, so there
//! is one place where time is charged, and one context it is charged to. Other workers do not touch
//! the table; they send requests to its owner, and a context that moves to another worker
//! [departs](Contexts::depart) and [arrives](Contexts::arrive). The caller provides the memory;
//! nothing here allocates. Handles are an index and a generation.
//!
//! # States
//!
//! ```text
//!            wake                start
//!  Asleep ---------->  Ready  ---------->  Running
//!    ^                  | ^                  | | ^
//!    |                  | '--- Preempted ----' | | donate, give_back: the holder changes,
//!    '------------------)------ Blocked -------' ' the context goes on running
//!                       |
//!           refused while depleted (`ready_at` is ahead) or halted
//! ```
//!
//! The table has no queue: it computes when a context is ready and how [urgent](Contexts::urgency)
//! it is. Charging never makes anything runnable, so a party cannot be both blocked and queued.
//!
//! # Invariants
//!
//! - Available and future amounts sum to the budget; re-checked after every charge in debug builds.
//! - A context has one holder or none; a party holds one context or none. A party waits for at most
//!   one call, and holds no context while it waits.
//! - All use is charged, also beyond the budget: a context that overran waits longer. In a
//!   cooperative runtime the overrun is at most the distance between two yield checks, q.
//! - Sliding window: in *every* window as long as the period, use ≤ budget + q. Hard CBS: so
//!   much per arrival, and arrivals are a period apart or were paid for by unused bandwidth; a
//!   window across them may hold two budgets and more, which admission knows.
//! - An operation first validates, then acts, and acting cannot fail. A refused operation changes
//!   nothing, except that a refused start may raise a timeout event.
//!
//! # Left out
//!
//! Yielding to a named context: under deadlines the more urgent runs anyway. Reclaiming unused
//! bandwidth (GRUB). Lending to another worker: fibers stay where they started. Queueing for a
//! server that is busy with another call: a caller that queues adds the wait, at most the gate's
//! `min_budget`, to the check distance for admission.
//!
//! ```
//! use parcae_core::context::{Contexts, ContextSlot, Gate, Params, PartySlot, Refused, Stop};
//!
//! let mut table = Contexts::new(0, [ContextSlot::EMPTY; 4], [PartySlot::EMPTY; 4]);
//! let client = table.register(None)?;
//! let server = table.register(None)?;
//! let context = table.create(Params::new(30, 100), 0)?;
//! table.bind(context, client)?;
//!
//! table.wake(client, 0)?;
//! assert_eq!(table.start(client, 0)?.limit, 30);
//! let call = table.donate(client, server, Gate { min_budget: 20 }, 5)?; // at time 5
//! table.give_back(call, 15)?; // the server took ten, at the client's cost
//! let charge = table.stop(32, Stop::Preempted)?; // two too late
//! assert_eq!((charge.used, charge.overrun, charge.depleted), (32, 2, Some(100)));
//!
//! assert_eq!(table.start(client, 50), Err(Refused::Depleted { until: 100 }));
//! assert_eq!(table.start(client, 100)?.limit, 28); // minus the overrun
//! # Ok::<(), Refused>(())
//! ```

pub mod call;
mod event;
mod params;
mod refused;
mod ring;
mod run;
pub mod supply;
mod table;

pub use call::{CallId, Gate, Returned};
pub use event::{Event, EventKind};
pub use params::{
    BadParams, Band, Endpoint, MAX_PERIOD, MAX_REFILLS, Overrun, Params, Refill, Urgency,
};
pub use refused::Refused;
pub use supply::{NEVER, Refilled};
pub use table::{
    Charge, Context, ContextId, ContextSlot, Contexts, Grant, Party, PartyId, PartySlot, Stop,
    Traveller, Usage,
};
