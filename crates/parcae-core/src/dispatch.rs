//! Dispatch classes: realtime before fair before idle, and a floor under best effort.
//!
//! ```text
//!   realtime   by criticality band, and in a band by earliest absolute deadline
//!   fair       the fair queue
//!   idle       another fair queue, for what may wait until nothing else wants to run
//! ```
//!
//! Strict order alone would let realtime work lock out everything else, including the operator's
//! tools to stop it. So of every *window* a *reserve* belongs to the fair class, if it wants it
//! (Linux has a deadline server for the same reason). It is handed out as late as possible:
//! realtime work goes first until what remains of the window is just the reserve.
//!
//! ```text
//!   │◀──────────── window ───────────▶│
//!   │ realtime, while there is any    │ fair │        until = end − what is left of it
//!   └─────────────────────────────────┴──────┘
//!                                      reserve
//! ```
//!
//! Guarantee: while the fair class is runnable throughout a window, it gets its reserve in that
//! window, minus the time that a realtime turn runs beyond [`Next::until`]; realtime work gets all
//! the rest. Time that the fair class ran earlier in the window counts. The idle class has no
//! floor.
//!
//! Realtime work is in a [`RealtimeQueue`] with a band, an absolute deadline and a handle of the
//! caller. The dispatcher does not know its budget: the caller removes work without budget.

mod realtime;

pub use realtime::{Band, RealtimeError, RealtimeId, RealtimeQueue, RealtimeSlot};

use crate::fair::{EntityId, FairQueue, GroupId, GroupSlot, Memory, Node, Slot};
use core::fmt;

/// Dispatch classes, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Admitted, with budget and deadline.
    Realtime,
    /// Best effort, by weight.
    Fair,
    /// Runs when no other class is runnable.
    Idle,
}

/// The guaranteed share of the fair class in each window.
///
/// ```
/// use parcae_core::dispatch::Floor;
///
/// let floor = Floor::new(100_000_000, 5_000_000).unwrap(); // 5 ms of 100
/// assert_eq!(floor, Floor::NANOS);
/// assert!(Floor::new(10, 11).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Floor {
    window: u64,
    reserve: u64,
}

/// A floor that is 0 or longer than its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloorError {
    /// The requested value.
    pub window: u64,
    /// The requested value.
    pub reserve: u64,
}

impl fmt::Display for FloorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FloorError { window, reserve } = self;
        write!(f, "a reserve is from 1 to the length of its window, not {reserve} of {window}")
    }
}

impl core::error::Error for FloorError {}

impl Floor {
    /// For nanoseconds: 5 ms of every 100 ms.
    pub const NANOS: Floor = Floor { window: 100_000_000, reserve: 5_000_000 };

    /// `reserve` of every `window`.
    ///
    /// # Errors
    ///
    /// If the reserve is 0 or longer than the window.
    pub const fn new(window: u64, reserve: u64) -> Result<Floor, FloorError> {
        if 1 <= reserve && reserve <= window {
            Ok(Floor { window, reserve })
        } else {
            Err(FloorError { window, reserve })
        }
    }

    /// The window's length.
    pub const fn window(self) -> u64 {
        self.window
    }

    /// The fair class's part of the window.
    pub const fn reserve(self) -> u64 {
        self.reserve
    }

    /// Whether it leaves the fair class at least `permille` of the time.
    pub(crate) const fn is_at_least(self, permille: u16) -> bool {
        self.reserve as u128 * 1000 >= self.window as u128 * permille as u128
    }
}

/// The dispatched work, and its time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next<T> {
    /// The dispatched work.
    pub who: Who<T>,
    /// When to pick again at the latest, because the fair class's reserve begins then. Only for
    /// realtime work while the fair class is runnable.
    pub until: Option<u64>,
}

/// The dispatched work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who<T> {
    /// The first of the realtime queue. It stays there until it is taken out.
    Realtime(T),
    /// The pick of the fair queue.
    Fair(EntityId),
    /// The pick of the idle queue.
    Idle(EntityId),
    /// No work is runnable.
    Nobody,
}

/// A queue of the fair or the idle class: a [`FairQueue`] in any memory.
pub trait BestEffort {
    /// Whether an entity is runnable.
    fn is_runnable(&self) -> bool;

    /// The next entity to run; the one that ran before is put back first.
    fn next(&mut self) -> Option<EntityId>;
}

impl<E: Memory<Slot>, N: Memory<Node>, G: Memory<GroupSlot>> BestEffort for FairQueue<E, N, G> {
    fn is_runnable(&self) -> bool {
        self.runnable(GroupId::ROOT).is_ok_and(|runnable| runnable > 0)
    }

    fn next(&mut self) -> Option<EntityId> {
        self.pick()
    }
}

/// Decides between the classes. It holds only the floor's state: the caller owns the queues.
///
/// ```
/// use parcae_core::dispatch::{Band, Class, Dispatcher, Floor, RealtimeQueue, RealtimeSlot, Who};
/// use parcae_core::fair::{FairQueue, GroupId, Limits, Params, Slot};
///
/// let mut realtime = RealtimeQueue::new([RealtimeSlot::EMPTY; 4]);
/// let mut fair = FairQueue::new([Slot::EMPTY; 4], [], Limits::OPS)?;
/// let mut idle = FairQueue::new([Slot::EMPTY; 4], [], Limits::OPS)?;
/// let mut dispatcher = Dispatcher::new(Floor::new(1_000, 100).unwrap(), 0);
///
/// let shell = fair.add(GroupId::ROOT, Params::default())?;
/// let _ = fair.wake(shell)?;
/// realtime.insert("audio", Band::new(1), 500).unwrap();
///
/// let next = dispatcher.pick(0, &realtime, &mut fair, &mut idle);
/// assert_eq!(next.who, Who::Realtime("audio"));
/// assert_eq!(next.until, Some(900)); // the last tenth is the shell's
/// dispatcher.charge(Class::Realtime, 900);
/// assert_eq!(dispatcher.pick(900, &realtime, &mut fair, &mut idle).who, Who::Fair(shell));
/// # Ok::<(), parcae_core::fair::FairError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Dispatcher {
    floor: Floor,
    /// When the window began.
    start: u64,
    /// The remaining reserve in it.
    left: u64,
    /// How often best effort went before waiting realtime work.
    rescued: u64,
}

impl Dispatcher {
    /// The first window begins `now`.
    pub const fn new(floor: Floor, now: u64) -> Dispatcher {
        Dispatcher { floor, start: now, left: floor.reserve, rescued: 0 }
    }

    /// Changes the floor.
    pub const fn set_floor(&mut self, floor: Floor, now: u64) {
        let rescued = self.rescued;
        *self = Dispatcher { rescued, ..Dispatcher::new(floor, now) };
    }

    /// The work to run now. The entity that ran before is put back when its queue picks again.
    pub fn pick<T: Copy, R: Memory<RealtimeSlot<T>>>(
        &mut self,
        now: u64,
        realtime: &RealtimeQueue<T, R>,
        fair: &mut impl BestEffort,
        idle: &mut impl BestEffort,
    ) -> Next<T> {
        let begins = self.reserve_begins(now);
        let wants = fair.is_runnable();
        if let Some(first) = realtime.first() {
            if !(wants && now >= begins) {
                return Next { who: Who::Realtime(first), until: wants.then_some(begins) };
            }
            self.rescued += 1;
        }
        let who = fair.next().map(Who::Fair);
        let who = who.or_else(|| idle.next().map(Who::Idle)).unwrap_or(Who::Nobody);
        Next { who, until: None }
    }

    /// Charges time used. Only time of the fair class counts against its reserve.
    pub fn charge(&mut self, class: Class, used: u64) {
        if class == Class::Fair {
            self.left = self.left.saturating_sub(used);
        }
    }

    /// How often best effort went before realtime work that was waiting, because its
    /// reserve had begun.
    pub const fn rescued(&self) -> u64 {
        self.rescued
    }

    /// When the rest of the reserve has to begin: in the window of `now`, or in the next
    /// one if nothing is left of it. A clock that goes backwards stays in its window.
    fn reserve_begins(&mut self, now: u64) -> u64 {
        let Floor { window, reserve } = self.floor;
        let past = now.saturating_sub(self.start) / window;
        if past > 0 {
            self.start += past * window;
            self.left = reserve;
        }
        match self.left {
            0 => self.start.saturating_add(window).saturating_add(window - reserve),
            left => self.start.saturating_add(window - left),
        }
    }
}

#[cfg(test)]
mod tests;
