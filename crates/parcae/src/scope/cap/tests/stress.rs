//! Many threads at one tree: the limits hold at every moment, and nothing is lost.

use super::*;
use std::sync::Barrier;
use std::sync::atomic::AtomicU32;
use std::thread;

const THREADS: usize = 4;
const ROUNDS: usize = 20_000;

/// Counts who is inside, independently of the capability.
#[derive(Default)]
struct Inside(AtomicU32);

impl Inside {
    fn enter(&self, max: u32) {
        let inside = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(inside <= max, "{inside} inside, {max} allowed");
    }

    fn leave(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn never_more_tasks_than_allowed() {
    let root = mint().spawn(tasks(3), Delegation::Allowed);
    let children = [0; 2].map(|_| root.attenuate(tasks(2)).unwrap());
    let (in_root, in_children) = (Inside::default(), [Inside::default(), Inside::default()]);
    let barrier = Barrier::new(THREADS);
    let admitted: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|index| {
                let (child, in_child) = (&children[index % 2], &in_children[index % 2]);
                let (barrier, in_root) = (&barrier, &in_root);
                scope.spawn(move || {
                    barrier.wait();
                    let mut admitted = 0;
                    for round in 0..ROUNDS {
                        let Ok(permit) = child.admit() else { continue };
                        admitted += 1;
                        in_child.enter(2);
                        in_root.enter(3);
                        if round % 8 == 0 {
                            thread::yield_now();
                        }
                        in_root.leave();
                        in_child.leave();
                        drop(permit);
                    }
                    admitted
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(admitted > 0);
    assert_eq!([root.live(), children[0].live(), children[1].live()], [0, 0, 0]);
}

#[test]
fn after_a_revocation_nobody_enters_and_all_leave() {
    for _ in 0..200 {
        let root = mint().spawn(tasks(100), Delegation::Allowed);
        let child = root.attenuate_delegable(tasks(100)).unwrap();
        let leaves = [0; THREADS].map(|_| child.attenuate(tasks(100)).unwrap());
        let barrier = Barrier::new(THREADS + 1);
        let permits: Vec<TaskPermit> = thread::scope(|scope| {
            let threads: Vec<_> = leaves
                .iter()
                .map(|leaf| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        (0..20).map_while(|_| leaf.admit().ok()).collect::<Vec<_>>()
                    })
                })
                .collect();
            barrier.wait();
            child.revoke();
            let seen = child.live();
            let permits: Vec<TaskPermit> =
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            assert!(permits.len() <= seen as usize, "somebody entered after the revocation");
            permits
        });
        assert!(leaves.iter().all(|leaf| leaf.admit().is_err()));
        assert_eq!(child.live() as usize, permits.len());
        drop((child, leaves));
        drop(permits);
        assert_eq!(root.live(), 0);
        drop(root.admit().unwrap());
    }
}

#[test]
fn capabilities_and_permits_end_in_any_order() {
    let mint = mint_at(8, AuditLevel::Off);
    let root = mint.spawn(tasks(u32::MAX), Delegation::Allowed);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let root = &root;
            scope.spawn(move || {
                for _ in 0..ROUNDS / 10 {
                    let cap = root.attenuate_delegable(tasks(4)).unwrap();
                    let leaf = cap.attenuate(tasks(4)).unwrap();
                    let permits = [leaf.admit().unwrap(), cap.admit().unwrap()];
                    let revoker = leaf.revoker();
                    thread::scope(|scope| {
                        scope.spawn(move || drop(permits));
                        drop(leaf);
                        revoker.revoke();
                    });
                    drop(cap);
                }
            });
        }
    });
    assert_eq!(root.live(), 0);
    drop(root);
    assert_eq!(Arc::strong_count(&mint.issuer), 1, "all nodes are freed");
}

#[test]
fn budget_is_conserved_between_threads() {
    let total = Budget { ops: 1_000, memory: 500, ..Budget::ZERO };
    let root = mint().budget(BudgetLimits::total(total), Delegation::Allowed);
    let kept = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let cap = root.attenuate(BudgetLimits::total(total)).unwrap();
                scope.spawn(move || {
                    let mut kept = Budget::ZERO;
                    for round in 0..ROUNDS / 10 {
                        let wanted = Budget { ops: 3, memory: 1, ..Budget::ZERO };
                        match cap.take(wanted) {
                            Ok(granted) if round % 3 == 0 => kept.absorb(granted),
                            Ok(granted) => cap.give_back(granted),
                            Err(error) => {
                                assert!(matches!(error, CapError::BudgetLimitExceeded { .. }));
                            }
                        }
                    }
                    kept
                })
            })
            .collect();
        threads.into_iter().fold(Budget::ZERO, |mut sum, thread| {
            sum.absorb(thread.join().unwrap());
            sum
        })
    });
    let mut sum = root.left();
    sum.absorb(kept);
    assert_eq!(sum, total);
}
