//! The trimmer of a pool, which gives the memory of surplus stacks back.

use super::reclaim::{TOGETHER, give_surplus_back};
use super::{StackPool, lock};
use std::sync::atomic::Ordering;

/// While workers work, one in so many surplus stacks gives its memory back at each tick of the
/// trimmer: most are done with after a second.
const SHARE_AT_WORK: usize = 64;

/// The same while no worker works.
const SHARE_AT_REST: usize = 4;

/// The right and duty to give the memory of surplus stacks back, a part at a time.
///
/// A stack that is released above the watermark goes to the surplus list of its class, with its
/// memory: the release costs no system call. At each [`tick`](Trimmer::tick) the trimmer takes a
/// share of the stacks that were not needed since the last one, and gives their memory back with
/// one call for each [`TOGETHER`]. Taking a stack out of a list makes its taker the owner, under
/// the lock of the class; so a stack is in use, or in a list, or with the trimmer, and never in two
/// of these. A thread that finds all lists empty while the trimmer holds some (`trimming`) waits
/// for them before it reports that there are no more stacks.
///
/// No surplus is left behind when the last trimmer goes: it clears its count first and empties the
/// lists of all classes after that, each under its lock. A release that takes that lock later sees
/// the count, and gives back by itself.
pub(crate) struct Trimmer {
    pub(super) pool: StackPool,
}

/// Whether memory is needed soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Workers work: the trimmer takes little processor time, and stacks may be needed again.
    AtWork,
    /// No worker works.
    AtRest,
}

impl Trimmer {
    /// Gives a share of the unneeded memory back. Returns how many surplus stacks are left.
    pub(crate) fn tick(&self, pace: Pace) -> usize {
        let share = match pace {
            Pace::AtWork => SHARE_AT_WORK,
            Pace::AtRest => SHARE_AT_REST,
        };
        let shared = &*self.pool.shared;
        let mut left = 0;
        for class in &shared.classes {
            let mut locked = lock(class);
            let unneeded = locked.unneeded.min(locked.surplus.len());
            let mut due = unneeded.min((unneeded / share).max(TOGETHER));
            locked.unneeded = locked.surplus.len() - due;
            drop(locked);
            while due > 0 {
                let given = give_surplus_back(shared, class, TOGETHER.min(due));
                if given == 0 {
                    break;
                }
                due -= given;
            }
            left += lock(class).surplus.len();
        }
        left
    }
}

impl Drop for Trimmer {
    fn drop(&mut self) {
        let shared = &*self.pool.shared;
        // Relaxed: ordered by the locks that are taken below; see the type.
        if shared.trimmers.fetch_sub(1, Ordering::Relaxed) == 1 {
            for class in &shared.classes {
                while give_surplus_back(shared, class, TOGETHER) > 0 {}
            }
        }
    }
}
