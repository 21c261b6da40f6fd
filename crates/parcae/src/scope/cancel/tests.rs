//! Tokens and their tree.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};

// rule: S1-BIND-5, S2-FILES-2
#[test]
fn cancelling_goes_down_and_not_up() {
    let root = CancelToken::new();
    let (left, right) = (root.child(), root.child());
    let below = left.child();
    left.cancel();
    assert_eq!(left.reason(), Some(CancelReason::Explicit));
    assert_eq!(below.reason(), Some(CancelReason::Parent));
    assert!(!root.is_cancelled() && !right.is_cancelled());
    left.cancel_because(CancelReason::Timeout);
    assert_eq!(left.reason(), Some(CancelReason::Explicit), "the first reason stays");
}

#[test]
fn a_child_of_a_cancelled_token_is_born_cancelled() {
    let root = CancelToken::new();
    root.cancel_because(CancelReason::Timeout);
    let child = root.child();
    assert_eq!(child.reason(), Some(CancelReason::Parent));
    assert!(child.check().unwrap_err().is_cancelled());
}

#[test]
fn more_children_than_fit_anywhere_are_all_cancelled() {
    let root = CancelToken::new();
    let children: Vec<_> = (0..1_000).map(|_| root.child()).collect();
    assert!(children.iter().all(|child| !child.is_cancelled()));
    root.cancel();
    assert!(children.iter().all(CancelToken::is_cancelled));
}

#[test]
fn callbacks_are_called_once_and_can_be_taken_back() {
    let token = CancelToken::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = |n: usize| {
        let calls = Arc::clone(&calls);
        move |_| {
            calls.fetch_add(n, StdOrdering::Relaxed);
        }
    };
    token.on_cancel(count(1)).forget();
    let kept = token.on_cancel(count(10));
    drop(token.on_cancel(count(100)));
    token.cancel();
    token.cancel();
    assert_eq!(calls.load(StdOrdering::Relaxed), 11);
    drop(kept);
    let late = token.on_cancel(count(1_000));
    assert_eq!(calls.load(StdOrdering::Relaxed), 1_011, "at once if it is cancelled already");
    drop(late);
}

#[test]
fn a_callback_that_panics_keeps_nobody_from_being_told() {
    let token = CancelToken::new();
    let child = token.child();
    let told = Arc::new(AtomicUsize::new(0));
    let flag = Arc::clone(&told);
    let first = token.on_cancel(|_| std::panic::resume_unwind(Box::new(())));
    let second = token.on_cancel(move |_| {
        flag.fetch_add(1, StdOrdering::Relaxed);
    });
    token.cancel();
    assert_eq!(told.load(StdOrdering::Relaxed), 1);
    assert!(child.is_cancelled());
    drop((first, second));
}

#[test]
fn a_callback_may_use_the_token() {
    let token = CancelToken::new();
    let same = token.clone();
    let guard = token.on_cancel(move |reason| {
        assert_eq!(same.reason(), Some(reason));
        same.cancel();
        assert!(same.child().is_cancelled());
    });
    token.cancel();
    drop(guard);
}

#[test]
fn tokens_that_are_gone_leave_no_trace() {
    let root = CancelToken::new();
    for _ in 0..1_000 {
        drop(root.child());
    }
    assert_eq!(root.node.lock().listed.children.len(), 0);
}

#[test]
fn a_long_chain_is_cancelled_and_dropped_without_recursion() {
    let root = CancelToken::new();
    let mut last = root.clone();
    for _ in 0..200_000 {
        last = last.child();
    }
    root.cancel();
    assert!(last.is_cancelled());
    drop(root);
    drop(last);
}

#[test]
fn threads_race_to_cancel_and_to_derive() {
    for _ in 0..200 {
        let root = CancelToken::new();
        std::thread::scope(|s| {
            let derive = s.spawn(|| (0..20).map(|_| root.child()).collect::<Vec<_>>());
            s.spawn(|| root.cancel());
            let children = derive.join().unwrap();
            while !root.is_cancelled() {
                std::thread::yield_now();
            }
            // `cancel` may still be at work.
            while !children.iter().all(CancelToken::is_cancelled) {
                std::thread::yield_now();
            }
        });
    }
}

#[test]
fn an_old_key_does_not_remove_a_newer_value() {
    let mut registry = Registry::new();
    let old = registry.insert("old");
    assert_eq!(registry.remove(old), Some("old"));
    let new = registry.insert("new");
    assert_eq!((registry.remove(old), registry.len()), (None, 1));
    assert_eq!(registry.remove(new), Some("new"));
}
