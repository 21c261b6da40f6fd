//! The fair queue: picks the next entity to run, so that each gets its share without long waits.
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
//! | v | virtual time of an entity | its service over its weight; grows by Δ · 2²⁰ / w while it runs |
//! | V | virtual time of a group | Σ wᵢvᵢ / Σ wᵢ over all counted entities, including the running one |
//! | lag | w · (V − v) | the service that an entity is owed; its debt if negative |
//! | eligible | v ≤ V | it has received no more than its share |
//! | deadline | v + r · 2²⁰ / w | set when a request is made, renewed when v reaches it |
//!
//! The next to run is the eligible entity with the earliest deadline; of two that are due at the
//! same time the one in the lower slot. `average` computes V, `ready` and `node` find the entity,
//! `queue` adds and removes entities, `run` picks and charges.
//!
//! # Invariants
//!
//! 1. **All lags sum to zero**: Σ wᵢ(V − vᵢ) = 0 is the definition of V. An entity gains only what
//!    the others lose.
//! 2. **If an entity waits, one is eligible**: the least v is not above the average. Eligibility is
//!    compared exactly, in 128 bits and without dividing, so rounding cannot break this.
//! 3. **Lag is bounded**, in a set that does not change: −q ≤ lag < max(r_max, q), where r_max is
//!    the longest request and q the longest turn that was really taken
//!    ([`FairQueue::longest_run`]). So over any time T no entity's service is further than that
//!    from wT/W, and every runnable entity runs. The bound assumes that turns end with their
//!    requests ([`Charged::Served`]). If that is not enforced, a turn that exceeds its request by o
//!    was admitted too early by o, and costs each other entity w/W of it: add w/W · Σ o over the
//!    worst overrun of each of the others.
//! 4. **Charging does not drift**: v carries the remainder of its division.
//!
//! # Coming and going
//!
//! Joining with lag l moves V by −l/W, leaving by +l/W, which keeps the sum at zero. An entity that
//! leaves with credit keeps it, up to the longest slice; its placement takes into account that its
//! own arrival moves V. An entity in *debt* does not leave: it **lingers**, counted but not picked,
//! until V has passed it or it wakes. Debt is therefore paid by waiting. A nap just before the end
//! of a slice, leaving and rejoining as a new entity, or moving to another queue and back
//! ([`Departure`]) does not cancel it. (A user with several entities has several shares; groups
//! prevent that.)
//!
//! A change of weight keeps the lag, and so V: the entity is removed and placed again.
//!
//! A turn costs at least [`Limits::min_charge`]. Without that, an entity that yields immediately
//! would never move forward and would stay first forever, as in glommio (its issues 431 and 674).
//!
//! # Groups
//!
//! A group is an entity of its parent group, and has its own V for its members. A charge goes to
//! the entity that ran and to all groups around it. A group is runnable while a member is.
//!
//! # Costs
//!
//! O(log n) per operation, and nothing is allocated: entities, their groups and the tree that
//! orders them live in the [`Slot`]s, [`GroupSlot`]s and [`Node`]s that the caller gives. Up to 16
//! entities of a group are a flat array.
//!
//! # Limits
//!
//! Virtual deadlines order competing entities. They do not bound waiting in real time, which
//! depends on the number of entities and on how soon they yield.
//!
//! # Rejected
//!
//! - *Two heaps*, of eligible and other entities: V can go backwards, when an entity with credit
//!   joins, and then the eligible ones would have to be sorted anew.
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
