//! The counting tree and the accounts under loom. Run: `.ci/run loom`.
//!
//! Permits guard cells that loom watches: two holders of one place, or a holder that does not
//! see what the one before it did, are reported as a data race.

use super::*;
use crate::base::shim::cell::UnsafeCell;
use crate::base::shim::explore;
use loom::sync::Arc as Shared;
use loom::thread;

/// A cell that a protocol is supposed to guard.
struct Guarded(UnsafeCell<u32>);

// SAFETY: the models are about just that.
unsafe impl Send for Guarded {}
// SAFETY: as above.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn new() -> Guarded {
        Guarded(UnsafeCell::new(0))
    }

    fn write(&self) {
        // SAFETY: checked by loom.
        self.0.with_mut(|value| unsafe { *value += 1 });
    }

    fn read(&self) -> u32 {
        // SAFETY: checked by loom.
        self.0.with(|value| unsafe { *value })
    }
}

fn mint() -> Mint {
    Mint::new(0, AuditLevel::Off, Box::new(|| 0))
}

fn tasks(max_tasks: u32) -> SpawnLimits {
    SpawnLimits { max_tasks, task_budget: Budget::ZERO }
}

fn spawn(max_tasks: u32) -> CapSpawn {
    mint().spawn(tasks(max_tasks), Delegation::Allowed)
}

#[test]
fn two_children_race_for_the_last_place_of_their_parent() {
    explore("cap: two children, one place", None, || {
        let root = spawn(1);
        let [a, b] = [0; 2].map(|_| root.attenuate(tasks(1)).unwrap());
        let other = thread::spawn(move || {
            let permit = b.admit();
            (b, permit)
        });
        let mine = a.admit();
        let (b, theirs) = other.join().unwrap();
        assert_ne!(mine.is_ok(), theirs.is_ok(), "just one of them");
        assert_eq!(root.live(), 1);
        assert_eq!([a.live() == 1, b.live() == 1], [mine.is_ok(), theirs.is_ok()]);
        drop((mine, theirs));
        assert_eq!([root.live(), a.live(), b.live()], [0, 0, 0]);
    });
}

#[test]
fn three_race_for_two_permits() {
    explore("cap: three uses, two permits", Some(3), || {
        let cap = Shared::new(spawn(2));
        let others = [0; 2].map(|_| {
            let cap = Shared::clone(&cap);
            thread::spawn(move || cap.admit().ok())
        });
        let mine = cap.admit().ok();
        let permits: Vec<TaskPermit> =
            others.into_iter().filter_map(|other| other.join().unwrap()).chain(mine).collect();
        assert_eq!((permits.len(), cap.live()), (2, 2));
    });
}

#[test]
fn a_place_that_was_given_back_is_taken_with_all_that_was_done_in_it() {
    explore("cap: drop against admit", None, || {
        let root = spawn(1);
        let [a, b] = [0; 2].map(|_| root.attenuate(tasks(1)).unwrap());
        let work = Shared::new(Guarded::new());
        let permit = a.admit().unwrap();
        let theirs = Shared::clone(&work);
        let other = thread::spawn(move || {
            theirs.write();
            drop(permit);
        });
        if let Ok(permit) = b.admit() {
            assert_eq!(work.read(), 1);
            work.write();
            drop(permit);
        }
        other.join().unwrap();
        assert_eq!([root.live(), a.live(), b.live()], [0, 0, 0]);
    });
}

#[test]
fn a_place_is_held_by_one_at_a_time() {
    explore("cap: two uses, one place", None, || {
        let cap = Shared::new(spawn(1));
        let work = Shared::new(Guarded::new());
        let using = |cap: &CapSpawn, work: &Guarded| {
            if let Ok(permit) = cap.admit() {
                work.write();
                drop(permit);
            }
        };
        let (theirs, cell) = (Shared::clone(&cap), Shared::clone(&work));
        let other = thread::spawn(move || using(&theirs, &cell));
        using(&cap, &work);
        other.join().unwrap();
        assert!(work.read() > 0, "one of them went first");
    });
}

#[test]
fn who_reads_that_nobody_is_left_sees_what_they_did() {
    explore("cap: drop against live", None, || {
        let cap = spawn(1);
        let work = Shared::new(Guarded::new());
        let permit = cap.admit().unwrap();
        let theirs = Shared::clone(&work);
        let other = thread::spawn(move || {
            theirs.write();
            drop(permit);
        });
        cap.revoke();
        if cap.live() == 0 {
            assert_eq!(work.read(), 1);
        }
        other.join().unwrap();
    });
}

#[test]
fn admit_against_revoke_of_the_parent() {
    explore("cap: admit against revoke", None, || {
        let root = spawn(2);
        let leaf = root.attenuate(tasks(2)).unwrap();
        let reason = Shared::new(Guarded::new());
        let theirs = Shared::clone(&reason);
        let other = thread::spawn(move || {
            let permit = leaf.admit();
            match permit {
                Ok(_) => {}
                Err(CapError::Revoked { .. }) => assert_eq!(theirs.read(), 1),
                Err(other) => panic!("{other}"),
            }
            (leaf, permit)
        });
        reason.write();
        root.revoke();
        let seen = root.live();
        let (leaf, permit) = other.join().unwrap();
        if permit.is_ok() {
            assert_eq!(seen, 1, "admitted after the revocation");
        }
        assert_eq!([root.live(), leaf.live()], [u32::from(permit.is_ok()); 2]);
        assert!(leaf.admit().is_err());
        drop(permit);
        assert_eq!([root.live(), leaf.live()], [0, 0]);
    });
}

#[test]
fn derive_against_revoke() {
    explore("cap: attenuate against revoke", None, || {
        let cap = Shared::new(spawn(1));
        let theirs = Shared::clone(&cap);
        let other = thread::spawn(move || theirs.attenuate(tasks(1)));
        cap.revoke();
        if let Ok(derived) = other.join().unwrap() {
            assert!(matches!(derived.admit(), Err(CapError::Revoked { .. })), "born revoked");
        }
        assert!(cap.is_revoked());
    });
}

#[test]
fn who_is_told_that_it_was_revoked_sees_why() {
    explore("cap: is_revoked against revoke", None, || {
        let cap = Shared::new(spawn(1));
        let reason = Shared::new(Guarded::new());
        let (theirs, why) = (Shared::clone(&cap), Shared::clone(&reason));
        let other = thread::spawn(move || {
            if theirs.is_revoked() {
                assert_eq!(why.read(), 1);
            }
        });
        reason.write();
        cap.revoke();
        other.join().unwrap();
    });
}

#[test]
fn the_last_of_permit_and_capability_frees_the_node() {
    explore("cap: last permit against last reference", None, || {
        let mint = mint();
        let root = mint.spawn(tasks(1), Delegation::Allowed);
        let leaf = root.attenuate(tasks(1)).unwrap();
        drop(root);
        let permit = leaf.admit().unwrap();
        let revoker = leaf.revoker();
        let other = thread::spawn(move || drop(permit));
        drop(leaf);
        revoker.revoke();
        drop(revoker);
        other.join().unwrap();
        assert_eq!(Arc::strong_count(&mint.issuer), 1, "all nodes are freed");
    });
}

#[test]
fn budget_taken_by_two_children_is_conserved() {
    explore("cap: two takes, one account", None, || {
        let ops = |ops| Budget { ops, ..Budget::ZERO };
        let root = mint().budget(BudgetLimits::total(ops(3)), Delegation::Allowed);
        let [a, b] = [0; 2].map(|_| root.attenuate(BudgetLimits::total(ops(2))).unwrap());
        let other = thread::spawn(move || {
            let granted = b.take(ops(2)).unwrap();
            b.give_back(ops(1));
            granted.ops - 1
        });
        let mine = a.take(ops(2)).unwrap().ops;
        let theirs = other.join().unwrap();
        assert_eq!(root.left().ops + mine + theirs, 3);
        assert_eq!(a.left().ops + mine, 2);
    });
}

#[test]
fn a_child_is_not_overdrawn_while_its_parent_is_asked() {
    explore("cap: two takes through one child", None, || {
        let ops = |ops| Budget { ops, ..Budget::ZERO };
        let root = mint().budget(BudgetLimits::total(ops(4)), Delegation::Allowed);
        let child = Shared::new(root.attenuate(BudgetLimits::total(ops(2))).unwrap());
        let theirs = Shared::clone(&child);
        let other = thread::spawn(move || theirs.take(ops(2)).is_ok());
        let mine = child.take(ops(2)).is_ok();
        assert_ne!(mine, other.join().unwrap(), "just one of them");
        assert_eq!([root.left(), child.left()], [ops(2), ops(0)]);
    });
}
