//! `grpc#1353`: updates are sent under a lock that their receiver takes.
//!
//! The balancer sends each new list of addresses to its watcher, under its lock and by rendezvous.
//! The watcher connects to the addresses of one list, for which it takes the lock, before it
//! receives the next list.
//!
//! Order that shows it: the balancer locks for the second list before the watcher locks for the
//! first. Kind: channel and lock. Tasks: 3.

use parcae::channel::{Receiver, Sender, channel};
use parcae::sync::Mutex;
use parcae::{Result, Runtime};

struct Balancer {
    addresses: Mutex<Vec<u32>>,
    lists: Sender<Vec<u32>>,
}

impl Balancer {
    fn update_under_the_lock(&self, address: u32) -> Result<()> {
        let mut addresses = self.addresses.lock()?;
        addresses.push(address);
        Ok(self.lists.send(addresses.clone())?)
    }

    fn update_after_unlocking(&self, address: u32) -> Result<()> {
        let mut addresses = self.addresses.lock()?;
        addresses.push(address);
        let list = addresses.clone();
        drop(addresses);
        Ok(self.lists.send(list)?)
    }

    fn is_known(&self, address: u32) -> Result<bool> {
        Ok(self.addresses.lock()?.contains(&address))
    }
}

fn watch(balancer: &Balancer, lists: &Receiver<Vec<u32>>, updates: usize) -> Result<()> {
    for _ in 0..updates {
        for address in lists.recv()? {
            assert!(balancer.is_known(address)?);
        }
    }
    Ok(())
}

fn run(rt: &Runtime, update: fn(&Balancer, u32) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let (tx, lists) = channel(0);
        let balancer = Balancer { addresses: Mutex::default(), lists: tx };
        cx.nursery(|n| {
            n.spawn(|_| watch(&balancer, &lists, 2))?;
            for address in 1..=2 {
                let balancer = &balancer;
                n.spawn(move |_| update(balancer, address))?;
            }
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Balancer::update_under_the_lock)
}

/// The list is sent after unlocking.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Balancer::update_after_unlocking)
}
