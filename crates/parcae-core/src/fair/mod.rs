//! The fair queue: who runs next, so that everybody gets its share and gets it soon.
//!
//! The policy is EEVDF, *earliest eligible virtual deadline first* (Stoica and Abdel-Wahab,
//! 1995). Each entity has a **weight** w, its share relative to the others, and makes
//! **requests** of a length that it chooses, its *slice* r. Long slices mean few switches,
//! short ones mean a short wait; neither changes the share.
//!
//! # The quantities
//!
//! | | | |
//! |---|---|---|
//! | v | virtual time of an entity | what it had, over its weight; grows by Δ · 2²⁰ / w while it runs |
//! | V | virtual time of a group | Σ wᵢvᵢ / Σ wᵢ over everybody who is counted, the one that runs included |
//! | lag | w · (V − v) | what an entity is owed; its debt if negative |
//! | eligible | v ≤ V | it has had no more than its share |
//! | deadline | v + r · 2²⁰ / w | set when a request is made, renewed when v reaches it |
//!
//! The next to run is the eligible entity with the earliest deadline; of two that are due at
//! the same time the one in the lower slot. `average` computes V, `ready` and `node` find the
//! entity, `queue` says who is counted, `run` who runs.
//!
//! # What always holds, and why
//!
//! 1. **All lags sum to zero**: Σ wᵢ(V − vᵢ) = 0 is the definition of V. Whatever one
//!    entity is given, it is given by the others.
//! 2. **If anybody waits, somebody is eligible**: the least v is not above the average.
//!    Eligibility is compared exactly, in 128 bits and without dividing, so rounding cannot
//!    break this.
//! 3. **Lag is bounded**, in a set that does not change: −q ≤ lag < max(r_max, q), where r_max
//!    is the longest request and q the longest turn that was really taken
//!    ([`FairQueue::longest_run`]). So over any time T nobody's service is further than that
//!    from wT/W, and everybody who is runnable runs. The bound takes for granted that turns
//!    end with their requests ([`Charged::Served`]). Where nobody can enforce that, a turn
//!    that goes on for o beyond its request was let in too early by as much, and costs
//!    each other entity w/W of it: add w/W · Σ o over the worst overrun of each of the others.
//! 4. **Charging does not drift**: v carries the remainder of its division.
//!
//! # Coming and going
//!
//! Joining with lag l moves V by −l/W, leaving by +l/W, which keeps the sum at zero. Who leaves
//! with credit finds it again, up to the longest slice; placing it takes into account that
//! its own arrival moves V. Who is in *debt* does not leave: it **lingers**, counted but not
//! to be picked, until V has passed it or it wakes. Debt is therefore paid by waiting, and
//! neither a nap just before the end of a slice, nor leaving and coming back as somebody
//! else, nor moving to another queue and back ([`Departure`]) makes it vanish. (Who may be
//! several at once has several shares, of course: groups are against that.)
//!
//! Another weight leaves lag as it is, and so V: the entity is taken out and placed again.
//!
//! A turn costs at least [`Limits::min_charge`]. Without that, who yields at once never moves
//! forward and stays first for ever; glommio's users met that (its issues 431 and 674).
//!
//! # Groups
//!
//! A group is an entity to the group that it is in and has a V of its own for its members.
//! A charge goes to the entity that ran and to all groups around it. A group is runnable
//! while a member is.
//!
//! # What it costs
//!
//! O(log n) per operation, and nothing is allocated: entities, their groups and the tree that
//! orders them live in the [`Slot`]s, [`GroupSlot`]s and [`Node`]s that the caller gives. Up to
//! 16 who wait in a group are a flat array.
//!
//! # Limits
//!
//! Virtual deadlines order those who compete. They are not a bound on waiting in real time:
//! that depends on how many others there are, and on how soon they yield.
//!
//! # Rejected
//!
//! - *Two heaps*, of the eligible and of the others: V can go backwards, when somebody with
//!   credit joins, and then the eligible would have to be sorted anew.
//! - *Keys of 64 bits times weight*, in 64 bits: Linux 6.8 crashed on the overflow.
//! - *Forgetting lag at sleep*: simple, and an invitation to nap.

mod average;
mod error;
mod node;
mod queue;
mod ready;
mod run;
mod scale;
mod slot;
#[cfg(test)]
mod tests;

pub use error::FairError;
pub use node::Node;
pub use queue::{Departure, FairQueue, MAX_DEPTH, View, Woken};
pub use run::{Charged, MAX_RUN};
pub use scale::{Latency, Limits, Params, Weight};
pub use slot::{EntityId, GroupId, GroupSlot, Memory, Slot, State};
