//! Selects over channels: one winner, watchers, defaults.

use super::*;

/// Waits until a select is decided.
pub(super) fn decided(claim: &Claim, sleeper: &Sleeper) -> usize {
    loop {
        match claim.winner() {
            Some(winner) => return winner,
            None => sleeper.park(),
        }
    }
}

/// The action of a select if none of its cases is possible.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    Waits,
    Default,
}

/// Receives from one of two channels, as a select does, and returns which. `None` stands for its
/// `default`.
fn select_or(
    channels: &[Shared<Channel>; 2],
    otherwise: Otherwise,
) -> Option<(usize, Option<u32>)> {
    const RETRY: usize = usize::MAX - 1;
    const DEFAULT: usize = usize::MAX - 2;
    loop {
        for (i, core) in channels.iter().enumerate() {
            match try_recv(core) {
                Ok(value) => return Some((i, Some(value))),
                Err(Took::Closed(_)) => return Some((i, None)),
                Err(_) => {}
            }
        }
        let (claim, nodes, sleeper) = (Claim::new(), [node(), node()], Sleeper::flag());
        let mut memory = [Memory::new(0), Memory::new(0)];
        for (i, core) in channels.iter().enumerate() {
            let into = ValueAddress::of(memory[i].address());
            let case = (&claim, i);
            // SAFETY: node, memory and claim are there until the node was withdrawn.
            let queued =
                unsafe { core.register(Side::Receivers, &nodes[i], into, sleeper.clone(), case) };
            if !queued {
                claim.fire(RETRY);
            }
            if !claim.is_open() {
                break;
            }
        }
        if otherwise == Otherwise::Default {
            claim.fire(DEFAULT);
        }
        let winner = decided(&claim, &sleeper);
        let mut outcome = None;
        for (i, node) in nodes.iter().enumerate() {
            // SAFETY: used with this channel only.
            match unsafe { channels[i].waiters(Side::Receivers).withdraw(node) } {
                Some(Grant::Own) => {
                    assert!(outcome.replace((i, Some(memory[i].get()))).is_none());
                }
                Some(_) => assert!(outcome.replace((i, None)).is_none()),
                None => {}
            }
        }
        match outcome {
            Some(outcome) => {
                assert_eq!(outcome.0, winner, "the case that was claimed");
                return Some(outcome);
            }
            None if winner == DEFAULT => return None,
            None => assert_eq!(winner, RETRY),
        }
    }
}

fn select(channels: &[Shared<Channel>; 2]) -> (usize, Option<u32>) {
    select_or(channels, Otherwise::Waits).unwrap()
}

/// Waits until a receive is possible, as `Select::ready` does, without receiving.
fn ready(core: &Channel) {
    loop {
        if core.can_recv() {
            return;
        }
        let (claim, node) = (Claim::new(), node());
        let (watch, case) = (ValueAddress::WATCHER, (&claim, 0));
        // SAFETY: node and claim are there until the node was withdrawn.
        unsafe {
            if !core.register(Side::Receivers, &node, watch, Sleeper::current(), case) {
                continue;
            }
            while claim.is_open() {
                thread::park();
            }
            core.waiters(Side::Receivers).withdraw(&node);
        }
        return;
    }
}

#[test]
fn a_watcher_is_woken_by_a_value_a_waiting_sender_and_a_close() {
    for (capacity, closes) in [(1, false), (0, false), (0, true)] {
        explore("channel: somebody watches", None, move || {
            let core = channel(capacity);
            let other =
                spawn(&core, move |core| if closes { close(core) } else { send(core, 7).unwrap() });
            ready(&core);
            assert_eq!(recv(&core), (!closes).then_some(7), "it is still there");
            other.join().unwrap();
        });
    }
}

#[test]
fn a_watcher_takes_nothing_from_waiters() {
    explore("channel: one watches, one receives", Some(3), || {
        let core = channel(0);
        let watcher = spawn(&core, ready);
        let receiver = spawn(&core, recv);
        assert_eq!(send(&core, 1), Ok(()));
        assert_eq!(receiver.join().unwrap(), Some(1));
        close(&core); // whatever it has seen, this wakes it
        watcher.join().unwrap();
    });
}

/// A value is put into the second channel before it is taken out of the first: at every moment a
/// case is possible.
#[test]
fn a_default_needs_a_moment_without_a_possible_case() {
    explore("select: default, while a value moves", Some(3), || {
        let channels = [channel(2), channel(2)];
        assert!(matches!(try_send(&channels[1], 7), Put::Done(_)));
        let (from, to) = (Shared::clone(&channels[1]), Shared::clone(&channels[0]));
        let mover = thread::spawn(move || {
            assert_eq!(send(&to, 7), Ok(()));
            recv_briefly(&from).is_some()
        });
        assert!(matches!(select_or(&channels, Otherwise::Default), Some((_, Some(7)))));
        mover.join().unwrap();
    });
}

// rule: S4-SELECT-1
#[test]
fn a_select_has_one_winner_and_the_loser_keeps_its_value() {
    explore("select: two senders", Some(3), || {
        let channels = [channel(0), channel(0)];
        let senders = [0, 1]
            .map(|i| spawn(&channels[i], move |core| assert_eq!(send(core, i as u32), Ok(()))));
        let (first, value) = select(&channels);
        assert_eq!(value, Some(first as u32));
        assert_eq!(recv(&channels[1 - first]), Some(1 - first as u32), "untouched");
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn a_select_against_a_send_and_a_close() {
    explore("select: a send and a close", Some(3), || {
        let channels = [channel(0), channel(0)];
        let sender = spawn(&channels[0], |core| send(core, 7));
        let closer = spawn(&channels[1], close);
        match select(&channels) {
            (0, Some(7)) => {}
            (1, None) => assert_eq!(recv(&channels[0]), Some(7), "untouched"),
            other => panic!("{other:?}"),
        }
        assert_eq!(sender.join().unwrap(), Ok(()));
        closer.join().unwrap();
    });
}

#[test]
fn a_select_that_is_decided_is_passed_over() {
    explore("select: a select and a receiver", Some(2), || {
        let channels = [channel(0), channel(0)];
        let theirs = channels.clone();
        let selecting = thread::spawn(move || select(&theirs));
        let receiver = spawn(&channels[0], recv);
        let senders = [0, 1].map(|i| spawn(&channels[i], move |core| send(core, i as u32)));
        match selecting.join().unwrap() {
            // Its node in the first channel must not receive the value that is sent there.
            (1, Some(1)) => {}
            (0, Some(0)) => {
                assert_eq!(recv(&channels[1]), Some(1));
                assert_eq!(send(&channels[0], 0), Ok(()));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(receiver.join().unwrap(), Some(0));
        senders.into_iter().for_each(|sender| assert_eq!(sender.join().unwrap(), Ok(())));
    });
}
