//! Channels of changes (`watch`, `broadcast`): a change wakes all waiters.

use super::select::decided;
use super::*;

/// A state with a version, as that of a broadcast or of a watched value.
struct Versioned {
    version: u64,
    waiters: Queue<Sleeper>,
}

fn versioned() -> Shared<Lock<Versioned>> {
    Shared::new(Lock::new(Versioned { version: 0, waiters: Queue::new() }))
}

fn change(state: &Lock<Versioned>) {
    let mut state = state.lock();
    state.version += 1;
    let woken = notify_changed(&mut state.waiters);
    drop(state);
    woken.wake();
}

/// Waits for a version, as `Reader::wait_until` does.
fn watch(state: &Lock<Versioned>, version: u64) {
    let node = WaitNode::new(());
    loop {
        let mut locked = state.lock();
        if locked.version >= version {
            return;
        }
        // SAFETY: idle, and here until it was removed.
        unsafe { locked.waiters.push(&node, Sleeper::current(), None) };
        drop(locked);
        thread::park();
        // SAFETY: as above.
        unsafe { state.lock().waiters.remove(&node) };
    }
}

#[test]
fn a_change_wakes_all_waiters() {
    explore("changes: two wait for a change", Some(3), || {
        let state = versioned();
        let watchers = [(); 2].map(|()| {
            let state = Shared::clone(&state);
            thread::spawn(move || watch(&state, 1))
        });
        change(&state);
        watchers.into_iter().for_each(|watcher| watcher.join().unwrap());
    });
}

#[test]
fn the_last_change_wakes_its_waiter() {
    explore("changes: two changes", None, || {
        let state = versioned();
        let watcher = {
            let state = Shared::clone(&state);
            thread::spawn(move || watch(&state, 2))
        };
        change(&state);
        change(&state);
        watcher.join().unwrap();
    });
}

/// A select over two states, as `ChangeCase` takes part in it: decided once, and there is a change.
#[test]
fn a_select_of_two_states_sees_the_change_that_it_was_woken_for() {
    explore("changes: a select", Some(3), || {
        let both = [versioned(), versioned()];
        let setters = [0, 1].map(|i| {
            let state = Shared::clone(&both[i]);
            thread::spawn(move || change(&state))
        });
        let (claim, sleeper) = (Claim::new(), Sleeper::flag());
        let nodes = [WaitNode::new(()), WaitNode::new(())];
        for (i, state) in both.iter().enumerate() {
            let mut state = state.lock();
            if state.version > 0 {
                claim.fire(i);
                break;
            }
            // SAFETY: node and claim are here until the node was removed.
            unsafe {
                let case = CaseClaim::new(&claim, i);
                state.waiters.push(&nodes[i], sleeper.clone(), Some(case));
            }
        }
        let winner = decided(&claim, &sleeper);
        for (state, node) in both.iter().zip(&nodes) {
            // SAFETY: used with this queue only.
            unsafe { state.lock().waiters.remove(node) };
        }
        assert!(both[winner].lock().version > 0, "woken without a change");
        setters.into_iter().for_each(|setter| setter.join().unwrap());
    });
}
