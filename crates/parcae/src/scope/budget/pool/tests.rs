//! Pools alone: the order in which suspended tasks are listed and woken; draws that fail midway.

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
    assert!(pool.recharge(ops(1)).is_ok());
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
        assert!(top.recharge(ops(1)).is_ok());
        assert_eq!(*woken.lock().unwrap(), [1]);
        assert_eq!((listed(&top), listed(&middle), listed(&pool)), (vec![], vec![1], vec![1]));
    }
    for pool in [&top, &middle, &pool, &apart] {
        assert!(!pool.is_hungry() && listed(pool).is_empty(), "a node is left behind");
    }
}

/// A draw that has to ask above returns its first, useless part before it draws again.
#[test]
fn a_draw_that_asks_above_holds_no_more_than_it_returns() {
    let wanted = Budget { ops: 10, channel_ops: 5, ..Budget::ZERO };
    let top = Arc::new(BudgetPool::<Numbered>::new(wanted.times(10), None));
    let pool = below(&top, wanted);
    assert!(pool.recharge(ops(10)).is_ok());
    let drawn = pool.draw(wanted, Resource::ChannelOps);
    assert!(drawn.channel_ops > 0);
    assert_eq!(pool.standing().held, drawn);
}

/// Takes memory out of a pool at its second wake, as a task that was faster.
struct Thief(Arc<Mutex<Wakes>>);

/// The number of wakes so far, and the pool.
type Wakes = (u32, Option<Arc<BudgetPool<Thief>>>);

impl Wake for Thief {
    fn wake(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 += 1;
        if state.0 == 2 {
            assert_eq!(state.1.as_ref().unwrap().try_draw_memory(3), 3);
        }
    }
}

/// A named budget is there when another task takes a part of it, on its way down: the attempt
/// fails, and all that is left of it goes back up.
#[test]
fn a_raise_that_fails_midway_gives_back_what_it_moved() {
    let memory = |bytes| Budget::ZERO.with_memory(bytes);
    let top = Arc::new(BudgetPool::new(Budget::ZERO, None));
    let middle = below(&top, memory(100));
    let pool = below(&middle, memory(100));
    let wakes = Arc::new(Mutex::new((0, Some(Arc::clone(&middle)))));
    {
        let task =
            TaskInfo { id: TaskId(1), name: None, nursery: None, spawned_at: Location::caller() };
        let waiting = pin!(Suspension::new(&middle, task, Resource::Memory));
        let thief = || Thief(Arc::clone(&wakes));
        assert_eq!(waiting.as_ref().draw_or_wait(memory(1), thief), Budget::ZERO);
        // Wakes it for the first time; it still waits below.
        assert!(top.recharge(memory(8)).is_ok());
        assert!(pool.raise(memory(6)).is_err(), "3 of 8 were taken on the way");
        assert_eq!(wakes.lock().unwrap().0, 2);
    }
    assert_eq!((top.standing().left, middle.standing().left), (memory(5), Budget::ZERO));
    wakes.lock().unwrap().1 = None; // the pool owned its waiter
}
