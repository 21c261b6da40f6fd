//! The order in which suspended tasks are listed and woken.

use super::*;
use crate::base::error::{TaskId, TaskInfo};
use std::panic::Location;
use std::pin::{Pin, pin};
use std::sync::Mutex;

/// A waiter that notes its number when it is woken.
struct Numbered(u64, Arc<Mutex<Vec<u64>>>);

impl Wake for Numbered {
    fn wake(&self) {
        self.1.lock().unwrap().push(self.0);
    }
}

fn ops(ops: u64) -> Budget {
    Budget { ops, ..Budget::ZERO }
}

fn below<W>(above: &Arc<BudgetPool<W>>, grant: Budget) -> Arc<BudgetPool<W>> {
    let more = More { pool: Arc::clone(above), grant: grant.into(), ceiling: None };
    Arc::new(BudgetPool::new(Budget::ZERO, Some(more)))
}

fn suspension<W>(pool: &BudgetPool<W>, id: u64) -> Suspension<'_, W> {
    let spawned_at = Location::caller();
    let task = TaskInfo { id: TaskId(id), name: None, nursery: None, spawned_at };
    Suspension::new(pool, task, Resource::Ops)
}

fn listed<W>(pool: &BudgetPool<W>) -> Vec<u64> {
    pool.suspended().iter().map(|suspended| suspended.task.id.0).collect()
}

#[test]
fn tasks_are_listed_and_woken_in_the_order_of_their_arrival() {
    let woken = Arc::new(Mutex::new(Vec::new()));
    let waiter = |id| Numbered(id, Arc::clone(&woken));
    let wait = |waiting: Pin<&Suspension<'_, Numbered>>, id| {
        assert_eq!(waiting.draw_or_wait(ops(1), || waiter(id)), Budget::ZERO);
    };
    let pool = BudgetPool::new(Budget::ZERO, None);
    let (first, third) = (pin!(suspension(&pool, 1)), pin!(suspension(&pool, 3)));
    wait(first.as_ref(), 1);
    {
        let second = pin!(suspension(&pool, 2));
        wait(second.as_ref(), 2);
        wait(third.as_ref(), 3);
        wait(first.as_ref(), 1); // keeps its place
        assert_eq!(listed(&pool), [1, 2, 3]);
    } // the second gives up
    assert_eq!((listed(&pool), pool.standing().suspended), (vec![1, 3], 2));
    assert!(pool.recharge(ops(1)));
    assert_eq!(*woken.lock().unwrap(), [1, 3]);
    assert_eq!(third.as_ref().draw_or_wait(ops(1), || waiter(3)), ops(1));
    wait(first.as_ref(), 1); // in vain: queued again
    assert_eq!(listed(&pool), [1]);
    pool.settle(ops(1), ops(1));
    assert_eq!((listed(&pool), &woken.lock().unwrap()[..]), (vec![], &[1, 3, 1][..]));
}

#[test]
fn a_task_waits_at_every_pool_that_could_bring_budget() {
    let woken = Arc::new(Mutex::new(Vec::new()));
    let waiter = |id| Numbered(id, Arc::clone(&woken));
    let top = Arc::new(BudgetPool::new(Budget::ZERO, None));
    let middle = below(&top, ops(4));
    let pool = below(&middle, ops(4));
    let apart = below(&pool, Budget::ZERO); // has a bound of its own
    {
        let (waiting, other) = (pin!(suspension(&pool, 1)), pin!(suspension(&apart, 2)));
        for (waiting, id) in [(waiting.as_ref(), 1), (other.as_ref(), 2)] {
            assert_eq!(waiting.draw_or_wait(ops(1), || waiter(id)), Budget::ZERO);
        }
        for pool in [&top, &middle, &pool] {
            assert_eq!(listed(pool), [1]);
        }
        assert_eq!(listed(&apart), [2]);
        assert!(top.recharge(ops(1)));
        assert_eq!(*woken.lock().unwrap(), [1]);
        assert_eq!((listed(&top), listed(&middle), listed(&pool)), (vec![], vec![1], vec![1]));
    }
    for pool in [&top, &middle, &pool, &apart] {
        assert!(!pool.is_hungry() && listed(pool).is_empty(), "a node is left behind");
    }
}
