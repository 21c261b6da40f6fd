//! `kubernetes#1321`: a distributor blocks on a watcher under the lock that removes the watcher.
//!
//! The distributor sends each event to all watchers, by rendezvous and under the lock of their
//! list. A watcher that has seen enough removes itself from the list, for which it takes the lock.
//!
//! Order that shows it: the distributor locks for another event before the watcher does.
//! Kind: channel and lock. Tasks: 2.

use parcae::channel::{Receiver, Sender, channel};
use parcae::prelude::*;
use parcae::sync::Mutex;
use parcae::{Result, Runtime};

struct Watcher {
    events: Sender<u32>,
    stopped: CancelToken,
}

struct Distributor {
    watchers: Mutex<Vec<Watcher>>,
}

impl Distributor {
    fn distribute_and_insist(&self, event: u32) -> Result<()> {
        for watcher in &*self.watchers.lock()? {
            watcher.events.send(event)?;
        }
        Ok(())
    }

    fn distribute_until_stopped(&self, event: u32) -> Result<()> {
        for watcher in &*self.watchers.lock()? {
            parcae::select! {
                send(watcher.events, event) -> sent => sent?,
                cancelled(watcher.stopped) -> _ => {}
            }?;
        }
        Ok(())
    }

    fn stop(&self, stopped: &CancelToken) -> Result<()> {
        stopped.cancel();
        self.watchers.lock()?.retain(|watcher| !watcher.stopped.is_cancelled());
        Ok(())
    }
}

fn watch_one(from: &Distributor, events: &Receiver<u32>, stopped: &CancelToken) -> Result<()> {
    assert_eq!(events.recv()?, 0);
    from.stop(stopped)
}

fn run(rt: &Runtime, distribute: fn(&Distributor, u32) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let (tx, events) = channel(0);
        let stopped = CancelToken::new();
        let watcher = Watcher { events: tx, stopped: stopped.clone() };
        let distributor = Distributor { watchers: Mutex::new(vec![watcher]) };
        cx.nursery(|n| {
            n.spawn(|_| watch_one(&distributor, &events, &stopped))?;
            n.spawn(|_| (0..2).try_for_each(|event| distribute(&distributor, event)))?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Distributor::distribute_and_insist)
}

/// The distributor does not wait for a watcher that has stopped.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Distributor::distribute_until_stopped)
}
