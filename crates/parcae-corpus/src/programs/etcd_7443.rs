//! `etcd#7443`: a send into a channel of capacity 1, under the lock that its receiver takes.
//!
//! A balancer tells its watcher which address it uses. `up` and `down` send that under the
//! balancer's lock. The watcher asks the balancer, with the lock, before it dials. While it waits
//! for the lock, one message fills the channel, and a second one waits for room with the lock
//! held.
//!
//! Order that shows it: two messages are sent between a receive and the lock of the watcher.
//! Kind: channel and lock. Tasks: 4.

use parcae::channel::{Receiver, Sender, channel};
use parcae::sync::Mutex;
use parcae::{Result, Runtime};

#[derive(Default)]
struct Pinned {
    address: Option<u32>,
    closed: bool,
}

struct Balancer {
    pinned: Mutex<Pinned>,
    notify: Sender<Option<u32>>,
}

impl Balancer {
    fn notify_under_the_lock(&self, address: Option<u32>) -> Result<()> {
        let mut pinned = self.pinned.lock()?;
        if !pinned.closed {
            pinned.address = address;
            self.notify.send(address)?;
        }
        Ok(())
    }

    fn notify_after_unlocking(&self, address: Option<u32>) -> Result<()> {
        let mut pinned = self.pinned.lock()?;
        if pinned.closed {
            return Ok(());
        }
        pinned.address = address;
        drop(pinned);
        match self.notify.send(address) {
            Err(error) if error.is_closed() => Ok(()),
            other => Ok(other?),
        }
    }

    fn close(&self) -> Result<()> {
        let mut pinned = self.pinned.lock()?;
        pinned.closed = true;
        self.notify.close();
        Ok(())
    }
}

fn watch(balancer: &Balancer, notified: &Receiver<Option<u32>>) -> Result<()> {
    let mut dialled = 0;
    for address in notified {
        let pinned = balancer.pinned.lock()?;
        if pinned.address == address? {
            dialled += 1;
        }
    }
    assert!(dialled <= 4);
    Ok(())
}

fn run(rt: &Runtime, notify: fn(&Balancer, Option<u32>) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let (tx, notified) = channel(1);
        let balancer = Balancer { pinned: Mutex::default(), notify: tx };
        cx.nursery(|n| {
            n.spawn(|_| watch(&balancer, &notified))?;
            n.spawn(|_| {
                notify(&balancer, Some(1))?;
                notify(&balancer, None)
            })?;
            n.spawn(|_| {
                notify(&balancer, Some(2))?;
                notify(&balancer, None)
            })?;
            n.spawn(|_| balancer.close())?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Balancer::notify_under_the_lock)
}

/// The message is sent after unlocking.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Balancer::notify_after_unlocking)
}
