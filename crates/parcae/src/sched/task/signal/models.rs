//! The signal of a task under loom: a request to end is seen by a checkpoint, whenever it comes.

use super::*;
use crate::base::shim::explore;
use crate::sched::task::state::RecordHandle;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

struct Modelled {
    state: StateWord,
    signal: TaskSignal,
}

/// A task that runs, and a thread that asks it to end.
fn asked_to_end() -> (Arc<Modelled>, JoinHandle<()>) {
    let task = Arc::new(Modelled { state: StateWord::new(), signal: TaskSignal::new() });
    let generation = task.state.spawn(RecordHandle::None);
    task.state.claim(0);
    let theirs = Arc::clone(&task);
    let asks = thread::spawn(move || {
        assert!(matches!(request_end(&theirs.state, generation, &theirs.signal), Woken::Noted));
    });
    (task, asks)
}

/// A thread that makes the task take the slow path, for another reason.
fn hints(task: &Arc<Modelled>) -> JoinHandle<()> {
    let task = Arc::clone(task);
    thread::spawn(move || task.signal.hint())
}

impl Modelled {
    /// A checkpoint; whether it sees a request to end.
    fn checkpoint(&self) -> bool {
        self.signal.get() > 0 && {
            self.signal.take();
            self.state.is_cancelled()
        }
    }
}

#[test]
fn request_against_checkpoint() {
    explore("signal::request_against_checkpoint", None, || {
        let (task, asks) = asked_to_end();
        let hints = hints(&task);
        let seen = task.checkpoint();
        asks.join().unwrap();
        hints.join().unwrap();
        assert!(seen || task.checkpoint(), "the task runs on");
    });
}

/// A checkpoint in the shield takes the signal. The first one after the shield sees the request
/// nevertheless.
#[test]
fn request_against_end_of_shield() {
    explore("signal::request_against_end_of_shield", None, || {
        let (task, asks) = asked_to_end();
        task.checkpoint(); // shielded: what it sees does not count
        task.signal.end_shield(&task.state);
        let seen = task.checkpoint();
        asks.join().unwrap();
        assert!(seen || task.checkpoint(), "the task runs on after its shield");
    });
}

/// The same with a timer that ends the grace period of the shield.
#[test]
fn request_against_end_of_grace() {
    explore("signal::request_against_end_of_grace", Some(3), || {
        let (task, asks) = asked_to_end();
        let hints = hints(&task);
        task.checkpoint();
        task.signal.end_shield(&task.state);
        let seen = task.checkpoint();
        asks.join().unwrap();
        hints.join().unwrap();
        assert!(seen || task.checkpoint(), "the task runs on after its shield");
    });
}
