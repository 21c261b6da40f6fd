//! `cockroach#10214`: three locks, taken in opposite orders by two tasks.
//!
//! The sender of heartbeats takes the lock of the coalesced heartbeats, and then, for a replica
//! that cannot be reached, the lock of that replica. The ticker of the replica takes the replica's
//! two locks first, and adds its heartbeat to the coalesced ones at the end.
//!
//! Order that shows it: the ticker has the replica's locks, the sender takes the coalesced ones.
//! Kind: lock order. Tasks: 2.

use parcae::sync::Mutex;
use parcae::{Result, Runtime};

struct Replica {
    raft: Mutex<u64>,
    unreachable: Mutex<u64>,
}

struct Store {
    coalesced: Mutex<Vec<u64>>,
    replica: Replica,
}

impl Store {
    /// One round of the replica: count it, look at the peer, add a heartbeat.
    fn tick(&self) -> Result<()> {
        let mut ticks = self.replica.raft.lock()?;
        *ticks += 1;
        let unreachable = self.replica.unreachable.lock()?;
        if *unreachable == 0 {
            self.coalesced.lock()?.push(*ticks);
        }
        Ok(())
    }

    fn send_under_the_lock(&self) -> Result<()> {
        let mut coalesced = self.coalesced.lock()?;
        for beat in coalesced.drain(..) {
            self.report_unreachable(beat)?;
        }
        self.report_unreachable(0)
    }

    fn send_after_unlocking(&self) -> Result<()> {
        let beats = std::mem::take(&mut *self.coalesced.lock()?);
        for beat in beats {
            self.report_unreachable(beat)?;
        }
        self.report_unreachable(0)
    }

    fn report_unreachable(&self, _beat: u64) -> Result<()> {
        let _raft = self.replica.raft.lock()?;
        *self.replica.unreachable.lock()? += 1;
        Ok(())
    }
}

fn run(rt: &Runtime, send: fn(&Store) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let replica = Replica { raft: Mutex::new(0), unreachable: Mutex::new(0) };
        let store = Store { coalesced: Mutex::new(Vec::new()), replica };
        cx.nursery(|n| {
            n.spawn(|_| send(&store))?;
            n.spawn(|_| store.tick())?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Store::send_under_the_lock)
}

/// The heartbeats are taken out of the list before the replicas are locked.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Store::send_after_unlocking)
}
