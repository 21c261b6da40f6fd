//! `kubernetes#11298`: a notification without a waiter, and a channel whose reader waits for it.
//!
//! The reporter of a node waits on a condition variable for the node to be ready, and then reads
//! its states. The starter notifies without changing anything that the reporter could look at. If
//! the reporter is late, the notification is lost, and the states are not read.
//!
//! Order that shows it: the notification comes before the wait. Kind: condition variable. Tasks:
//! 3.

use parcae::channel::{Sender, channel};
use parcae::sync::{Condvar, Mutex};
use parcae::{Result, Runtime};

#[derive(Default)]
struct Node {
    ready: Mutex<bool>,
    changed: Condvar,
}

impl Node {
    fn start(&self, states: &Sender<u32>) -> Result<()> {
        *self.ready.lock()? = true;
        self.changed.notify_one();
        for state in 0..2 {
            states.send(state)?;
        }
        Ok(())
    }

    fn wait_for_the_notification(&self) -> Result<()> {
        let ready = self.ready.lock()?;
        self.changed.wait(ready).map(drop)
    }

    fn wait_for_the_state(&self) -> Result<()> {
        let ready = self.ready.lock()?;
        self.changed.wait_while(ready, |ready| !*ready).map(drop)
    }
}

fn run(rt: &Runtime, wait: fn(&Node) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let node = Node::default();
        let (report, reports) = channel(0);
        let (states_in, states) = channel(0);
        cx.nursery(|n| {
            n.spawn(|_| {
                wait(&node)?;
                for _ in 0..2 {
                    report.send(states.recv()?)?;
                }
                Ok(())
            })?;
            n.spawn(|_| node.start(&states_in))?;
            n.spawn(|_| {
                assert_eq!((reports.recv()?, reports.recv()?), (0, 1));
                Ok(())
            })?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Node::wait_for_the_notification)
}

/// The wait has a condition, which a notification that came before has made true.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Node::wait_for_the_state)
}
