//! Accounts of children that have ended, to be returned to their pool together.
//!
//! Children of one nursery mostly draw the same budget. A worker adds up how much of it the
//! children that end there have used, and takes the pool's lock once, when it turns to other work.
//!
//! # Who returns them
//!
//! The batch is the deferred work of a worker (`sched::worker::Deferred`), behind a lock in the
//! part of the worker that other threads reach. The worker itself flushes it before it counts the
//! children as ended, so the pool, which lives as long as its nursery, is still there. Any other
//! worker flushes it on behalf of a task that would otherwise fail or wait for lack of budget
//! (`Shared::flush_deferred`). It holds the lock for the whole time: the owner cannot find the
//! batch empty, count the children and let the nursery end before the pool was written to.
//! Modelled in `models`.

use crate::base::lock::Lock;
use crate::sched::worker::{Deferred, Worker};
use crate::scope::budget::{Budget, BudgetPool, UNLIMITED};
use crate::wait::{Waiter, Wake, wake_all};
use std::any::Any;
use std::ptr::NonNull;

/// Accounts of one pool, of children that had drawn the same.
struct Returned<W = Waiter> {
    pool: Option<NonNull<BudgetPool<W>>>,
    /// Budget that each of them had drawn, and how much of it they have used together.
    each: Budget,
    used: Budget,
    children: u64,
}

impl<W> Default for Returned<W> {
    fn default() -> Returned<W> {
        Returned { pool: None, each: Budget::ZERO, used: Budget::ZERO, children: 0 }
    }
}

// SAFETY: the pool is made for sharing, and lives until the accounts are settled, as `add` demands.
unsafe impl<W: Send> Send for Returned<W> {}

impl<W: Wake> Returned<W> {
    /// Adds an account. `used` is meaningless for components that are not counted.
    ///
    /// Returns tasks that the caller wakes after it has released the lock.
    ///
    /// # Safety
    ///
    /// The pool lives until the next [`settle`](Returned::settle).
    #[inline]
    unsafe fn add(&mut self, pool: &BudgetPool<W>, drawn: &Budget, used: &Budget) -> Vec<W> {
        let mut waiting = Vec::new();
        if self.pool == Some(NonNull::from(pool)) && self.each == *drawn {
            // The sum of the counted resources does not exceed the amount drawn from the pool.
            self.used = self.used.zip(*used, u64::wrapping_add);
            self.children += 1;
        } else {
            waiting = self.settle();
            let (each, used) = (*drawn, *used);
            *self = Returned { pool: Some(NonNull::from(pool)), each, used, children: 1 };
        }
        if pool.is_hungry() {
            waiting.extend(self.settle());
        }
        waiting
    }

    /// Returns all accounts to their pool. The result are the tasks that waited for budget; the
    /// caller wakes them after it has released the lock.
    #[inline]
    #[must_use = "they wait"]
    fn settle(&mut self) -> Vec<W> {
        let Some(pool) = self.pool.take() else { return Vec::new() };
        let drawn = self.each.times(self.children);
        let left = drawn.zip(self.used, |drawn, used| match drawn {
            UNLIMITED => UNLIMITED,
            _ => drawn - used,
        });
        // SAFETY: as `add` demands.
        unsafe { pool.as_ref() }.settle_quietly(drawn, left)
    }
}

/// The batch of one worker.
pub(crate) struct ReturnedAccounts(Lock<Returned>);

impl Default for ReturnedAccounts {
    fn default() -> ReturnedAccounts {
        ReturnedAccounts(Lock::new(Returned::default()))
    }
}

impl Deferred for ReturnedAccounts {
    /// Returns the accounts, and wakes the tasks that waited for budget.
    fn flush(&self) {
        let waiting = self.0.lock().settle();
        wake_all(waiting);
    }
}

/// Adds the account of a child that ends on this worker to the worker's batch.
///
/// # Safety
///
/// The pool lives until the batch is flushed: the nursery of the child waits until the worker has
/// counted it.
#[inline]
pub(crate) unsafe fn return_account(
    worker: &Worker,
    pool: &BudgetPool,
    drawn: &Budget,
    used: &Budget,
) {
    let deferred = worker.defer();
    debug_assert!((deferred as &dyn Any).is::<ReturnedAccounts>());
    // SAFETY: the host makes no other batches.
    let returned = unsafe { &*(&raw const *deferred).cast::<ReturnedAccounts>() };
    // SAFETY: as the caller says.
    let waiting = unsafe { returned.0.lock().add(pool, drawn, used) };
    wake_all(waiting);
}

#[cfg(all(test, loom))]
mod models {
    //! A task that runs out of budget while a sibling ends on another worker.

    use super::*;
    use crate::base::shim::{Flag, explore};
    use crate::scope::budget::pool::models::suspension;
    use crate::scope::budget::{More, Resource};
    use loom::sync::Arc;
    use loom::thread;
    use std::pin::pin;

    fn ops(ops: u64) -> Budget {
        Budget { ops, ..Budget::ZERO }
    }

    /// The worker that the sibling ends on, and the pool of both.
    struct World {
        returned: Lock<Returned<Flag>>,
        pool: std::sync::Arc<BudgetPool<Flag>>,
    }

    impl World {
        fn new(granted: Budget, more: Option<More<Flag>>) -> Arc<World> {
            let pool = std::sync::Arc::new(BudgetPool::new(granted, more));
            Arc::new(World { returned: Lock::new(Returned::default()), pool })
        }

        /// A child that has drawn 4 and used 1 ends, and its worker continues with work during
        /// which it does not settle.
        fn end(&self) {
            let mut returned = self.returned.lock();
            // SAFETY: settled before the pool is closed, by `join`.
            let waiting = unsafe { returned.add(&self.pool, &ops(4), &ops(1)) };
            drop(returned);
            wake_all(waiting);
        }

        /// As `Shared::flush_deferred` does for each worker.
        fn flush(&self) {
            let waiting = self.returned.lock().settle();
            wake_all(waiting);
        }
    }

    /// A task that suspends itself gets the rest of the sibling's account, or is woken for it, even
    /// if the sibling's worker never settles by itself.
    #[test]
    fn suspend_against_the_end_of_a_sibling() {
        explore("returned::suspend_against_the_end_of_a_sibling", None, || {
            let world = World::new(ops(4), None);
            let all = world.pool.draw(ops(4), Resource::Ops);
            assert_eq!(all, ops(4));
            let sibling = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.end())
            };
            let waiter = Flag::new();
            let waiting = pin!(suspension(&world.pool));
            let mut drawn = waiting.as_ref().draw_or_wait(ops(2), || waiter.clone());
            if drawn.ops == 0 {
                world.flush(); // after it has registered
            }
            sibling.join().unwrap();
            if drawn.ops == 0 {
                assert!(waiter.woken() > 0, "asleep while an ended sibling has budget left");
                drawn = world.pool.draw(ops(2), Resource::Ops);
            }
            assert_eq!(drawn, ops(2));
        });
    }

    /// A worker settles on behalf of a task while the owner of the accounts settles them itself and
    /// lets the nursery end: the pool is written to before it is closed.
    #[test]
    fn two_settle_and_one_closes() {
        explore("returned::two_settle_and_one_closes", None, || {
            let world = World::new(ops(9), None);
            assert_eq!(world.pool.draw(ops(4), Resource::Ops), ops(4));
            world.end();
            let other = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.flush())
            };
            world.flush();
            // Counted as ended now: the nursery may end. Debug builds check that nothing is held.
            assert_eq!(world.pool.close().left, ops(8), "closed before an account came back");
            other.join().unwrap();
        });
    }

    /// Two children of one pool end, one of which had drawn something else, while a task is short.
    #[test]
    fn accounts_of_different_size() {
        explore("returned::accounts_of_different_size", Some(3), || {
            let world = World::new(ops(6), None);
            assert_eq!(world.pool.draw(ops(4), Resource::Ops), ops(4));
            assert_eq!(world.pool.draw(ops(2), Resource::Ops), ops(2));
            let sibling = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    world.end();
                    let mut returned = world.returned.lock();
                    // SAFETY: as in `end`.
                    let waiting = unsafe { returned.add(&world.pool, &ops(2), &ops(2)) };
                    drop(returned);
                    wake_all(waiting);
                })
            };
            let waiter = Flag::new();
            let waiting = pin!(suspension(&world.pool));
            let drawn = waiting.as_ref().draw_or_wait(ops(3), || waiter.clone());
            if drawn.ops == 0 {
                world.flush();
            }
            sibling.join().unwrap();
            if drawn.ops == 0 {
                assert!(waiter.woken() > 0, "asleep while an ended sibling has budget left");
            }
            world.flush();
            let standing = world.pool.standing();
            assert_eq!((standing.left.ops + drawn.ops, standing.spent.ops), (3, 3));
        });
    }
}
