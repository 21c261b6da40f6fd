//! `carter01`: two groups share a room; counters say who locks it.
//!
//! The first of a group to come takes the room for the group, the last to go gives it back. Both
//! groups have their counters under one lock, and the first one waits for the room with that lock:
//! the last of the other group, which needs it to leave, cannot go.
//!
//! Order that shows it: one group is inside when the first of the other comes. Kind: lock. Tasks:
//! 4.

use parcae::sync::{Mutex, Semaphore};
use parcae::{Result, Runtime};

struct House {
    room: Semaphore,
    /// How many of each group are inside; the locks may be one and the same.
    inside: [Mutex<[u32; 2]>; 2],
    /// For each group, the lock that its counter is under.
    lock_of: [usize; 2],
}

impl House {
    fn visit(&self, group: usize) -> Result<()> {
        let counters = &self.inside[self.lock_of[group]];
        let mut inside = counters.lock()?;
        inside[group] += 1;
        if inside[group] == 1 {
            self.room.acquire()?.forget(); // the last to go gives it back
        }
        drop(inside);
        let mut inside = counters.lock()?;
        inside[group] -= 1;
        if inside[group] == 0 {
            self.room.add(1);
        }
        Ok(())
    }
}

fn run(rt: &Runtime, lock_of: [usize; 2]) -> Result<()> {
    rt.run(|cx| {
        let house = House { room: Semaphore::new(1), inside: Default::default(), lock_of };
        let house = &house;
        cx.nursery(|n| {
            for guest in 0..4 {
                n.spawn(move |_| house.visit(guest % 2))?;
            }
            Ok(())
        })?;
        assert_eq!(house.room.available(), 1);
        Ok(())
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, [0, 0])
}

/// Each group has its counter under a lock of its own.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, [0, 1])
}
