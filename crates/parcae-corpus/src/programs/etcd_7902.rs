//! `etcd#7902`: followers wait for the leader with the lock that the leader needs.
//!
//! The clients of an election enter a round under its lock. A follower waits for the end of the
//! round without giving the lock back; the leader takes it to end the round.
//!
//! Order that shows it: a follower enters before the leader ends the round. Kind: lock and event.
//! Tasks: 3.

use parcae::sync::{Event, Mutex};
use parcae::{Result, Runtime};

#[derive(Default)]
struct Round {
    entered: Mutex<Vec<u32>>,
    over: Event,
}

impl Round {
    fn lead(&self) -> Result<()> {
        self.entered.lock()?.clear();
        self.over.set();
        Ok(())
    }

    fn follow_with_the_lock(&self, client: u32) -> Result<()> {
        let mut entered = self.entered.lock()?;
        entered.push(client);
        self.over.wait()
    }

    fn follow_without_the_lock(&self, client: u32) -> Result<()> {
        self.entered.lock()?.push(client);
        self.over.wait()
    }
}

fn run(rt: &Runtime, follow: fn(&Round, u32) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let round = Round::default();
        cx.nursery(|n| {
            n.spawn(|_| round.lead())?;
            for client in 1..=2 {
                let round = &round;
                n.spawn(move |_| follow(round, client))?;
            }
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Round::follow_with_the_lock)
}

/// The lock is held while the list is changed, and not longer.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Round::follow_without_the_lock)
}
