//! Pools under loom: no wake-up is lost between an empty pool and a recharge, and two tasks that
//! draw at the same time neither create nor lose budget.
//!
//! Everything is counted under a lock, so an exploration is small. Errors can lie between two
//! critical sections: of `draw_or_wait`, of a withdrawal, of `top_up`, and of `draw` around it.

use super::*;
use crate::base::error::{TaskId, TaskInfo};
use crate::base::shim::{Flag, explore};
use loom::thread;
use std::panic::Location;
use std::pin::pin;

type Source = Arc<BudgetPool<Flag>>;

fn ops(ops: u64) -> Budget {
    Budget { ops, ..Budget::ZERO }
}

fn pool(granted: Budget) -> Source {
    Arc::new(BudgetPool::new(granted, None))
}

fn below(above: &Source, granted: Budget, grant: Budget) -> Source {
    Arc::new(BudgetPool::new(
        granted,
        Some(More { pool: Arc::clone(above), grant: grant.into(), ceiling: None }),
    ))
}

/// A task that is out of ops.
pub(in crate::scope::budget) fn suspension(pool: &BudgetPool<Flag>) -> Suspension<'_, Flag> {
    let spawned_at = Location::caller();
    let task = TaskInfo { id: TaskId(1), name: None, nursery: None, spawned_at };
    Suspension::new(pool, task, Resource::Ops)
}

/// `granted = left + held + spent`, of each counted resource; and no task waits beside ops.
fn check(pool: &BudgetPool<Flag>) -> Standing {
    let standing = pool.standing();
    assert!(standing.suspended == 0 || standing.left.ops == 0, "asleep beside a full pool");
    assert_eq!(standing.suspended, pool.suspended().len(), "the count is wrong");
    let mut sum = standing.left;
    sum.absorb(standing.held);
    sum.absorb(standing.spent);
    assert_eq!(standing.granted, sum, "budget was made or lost");
    standing
}

/// A task that finds the pool empty during a recharge gets some, or is woken and gets some then.
#[test]
fn draw_or_wait_against_recharge() {
    explore("pool::draw_or_wait_against_recharge", None, || {
        let pool = pool(Budget::ZERO);
        let recharger = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || assert!(pool.recharge(ops(5)).is_ok()))
        };
        let waiter = Flag::new();
        let waiting = pin!(suspension(&pool));
        let mut drawn = waiting.as_ref().draw_or_wait(ops(3), || waiter.clone());
        recharger.join().unwrap();
        if drawn.ops == 0 {
            assert_eq!(waiter.woken(), 1, "asleep beside a full pool");
            drawn = waiting.as_ref().draw_or_wait(ops(3), || waiter.clone());
        }
        assert_eq!(drawn, ops(3));
        assert_eq!(check(&pool).held, ops(3));
        pool.settle(drawn, ops(1));
        let standing = check(&pool);
        assert_eq!((standing.left.ops, standing.spent.ops), (3, 2));
    });
}

/// The same where the recharge comes to a pool further up, from which the empty one is filled.
#[test]
fn draw_or_wait_against_recharge_above() {
    explore("pool::draw_or_wait_against_recharge_above", None, || {
        let above = pool(Budget::ZERO);
        let pool = below(&below(&above, Budget::ZERO, ops(4)), Budget::ZERO, ops(4));
        let recharger = {
            let above = Arc::clone(&above);
            thread::spawn(move || assert!(above.recharge(ops(5)).is_ok()))
        };
        let waiter = Flag::new();
        let waiting = pin!(suspension(&pool));
        let mut drawn = waiting.as_ref().draw_or_wait(ops(3), || waiter.clone());
        recharger.join().unwrap();
        if drawn.ops == 0 {
            assert!(waiter.woken() > 0, "asleep below a full pool");
            drawn = waiting.as_ref().draw_or_wait(ops(3), || waiter.clone());
        }
        assert_eq!(drawn, ops(3));
        assert_eq!((check(&pool).left.ops, check(&above).left.ops), (1, 1));
    });
}

/// A task that finds the pool empty while a sibling returns its account.
#[test]
fn draw_or_wait_against_settle() {
    explore("pool::draw_or_wait_against_settle", None, || {
        let pool = pool(ops(4));
        let held = pool.draw(ops(4), Resource::Ops);
        let sibling = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.settle(held, ops(3)))
        };
        let waiter = Flag::new();
        let waiting = pin!(suspension(&pool));
        let mut drawn = waiting.as_ref().draw_or_wait(ops(3), || waiter.clone());
        sibling.join().unwrap();
        if drawn.ops == 0 {
            assert_eq!(waiter.woken(), 1, "asleep while a sibling has returned its account");
            drawn = waiting.as_ref().draw_or_wait(ops(3), || waiter.clone());
        }
        assert_eq!((drawn.ops, check(&pool).spent.ops), (3, 1));
    });
}

/// A task that finds the pool empty while a spawn fails, which had taken all that was left.
#[test]
fn draw_or_wait_against_unspawn() {
    explore("pool::draw_or_wait_against_unspawn", None, || {
        let pool = pool(Budget { ops: 4, spawn_count: 1, ..Budget::ZERO });
        let account = pool.spawn(ops(3).into()).unwrap();
        let spawner = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.unspawn(account))
        };
        let waiter = Flag::new();
        let waiting = pin!(suspension(&pool));
        let mut drawn = waiting.as_ref().draw_or_wait(ops(4), || waiter.clone());
        spawner.join().unwrap();
        if drawn.ops == 0 {
            assert_eq!(waiter.woken(), 1, "asleep beside the account of a child without a task");
            drawn = waiting.as_ref().draw_or_wait(ops(4), || waiter.clone());
        }
        assert_eq!((drawn.ops, check(&pool).held.ops), (4, 4));
    });
}

/// Recharges the pool, pays for four children in advance, spawns one of them and takes the rest:
/// there is budget again, and all of it is prepaid.
fn prepay(pool: &BudgetPool<Flag>) {
    let some = Budget { ops: 32, spawn_count: 16, ..Budget::ZERO };
    assert!(pool.recharge(some).is_ok());
    assert_eq!(pool.spawn_default(ops(1), ops(1).into()), Ok(ops(1)));
    pool.draw_all();
}

/// A task that finds the pool empty while a sibling pays for children in advance: it takes the
/// payment back before it waits.
#[test]
fn draw_or_wait_against_prepaid_children() {
    explore("pool::draw_or_wait_against_prepaid_children", None, || {
        let pool = pool(Budget::ZERO);
        let owner = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || prepay(&pool))
        };
        let waiter = Flag::new();
        let waiting = pin!(suspension(&pool));
        let drawn = waiting.as_ref().draw_or_wait(ops(1), || waiter.clone()).ops;
        owner.join().unwrap();
        assert!(drawn == 1 || waiter.woken() > 0, "asleep beside children that are paid for");
        check(&pool);
    });
}

/// The same with a pool further up.
#[test]
fn draw_or_wait_against_prepaid_children_above() {
    explore("pool::draw_or_wait_against_prepaid_children_above", None, || {
        let above = pool(Budget::ZERO);
        let pool = below(&above, Budget::ZERO, ops(1));
        let owner = {
            let above = Arc::clone(&above);
            thread::spawn(move || prepay(&above))
        };
        let waiter = Flag::new();
        let waiting = pin!(suspension(&pool));
        let drawn = waiting.as_ref().draw_or_wait(ops(1), || waiter.clone()).ops;
        owner.join().unwrap();
        assert!(drawn == 1 || waiter.woken() > 0, "asleep below children that are paid for");
        check(&pool);
    });
}

/// A task asks again while recharges come, of which another task draws the first: a node that was
/// granted in vain is queued again.
#[test]
fn ask_again_against_recharges() {
    explore("pool::ask_again_against_recharges", None, || {
        let pool = pool(Budget::ZERO);
        let other = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                assert!(pool.recharge(ops(1)).is_ok());
                let drawn = pool.draw(ops(1), Resource::Ops);
                assert!(pool.recharge(ops(1)).is_ok());
                drawn.ops
            })
        };
        let waiter = Flag::new();
        let waiting = pin!(suspension(&pool));
        let ask = || waiting.as_ref().draw_or_wait(ops(1), || waiter.clone()).ops;
        let (first, before) = (ask(), waiter.woken());
        let second = if first == 0 { ask() } else { 0 };
        let theirs = other.join().unwrap();
        let standing = check(&pool);
        assert_eq!(standing.left.ops + first + second + theirs, 2);
        if first + second == 0 {
            assert!(waiter.woken() > before, "asleep beside a full pool");
            assert_eq!(ask(), 1);
        }
    });
}

/// Two tasks wait, and one of them gives up during a recharge: the other one is woken, and the pool
/// remembers neither.
#[test]
fn cancel_against_recharge() {
    explore("pool::cancel_against_recharge", None, || {
        let pool = pool(Budget::ZERO);
        let (cancelled, waiter) = (Flag::new(), Flag::new());
        let waiting = pin!(suspension(&pool));
        let recharger = {
            let gone = pin!(suspension(&pool));
            assert_eq!(gone.as_ref().draw_or_wait(ops(1), || cancelled.clone()).ops, 0);
            assert_eq!(waiting.as_ref().draw_or_wait(ops(1), || waiter.clone()).ops, 0);
            assert_eq!(check(&pool).suspended, 2);
            let pool = Arc::clone(&pool);
            thread::spawn(move || assert!(pool.recharge(ops(1)).is_ok()))
        };
        recharger.join().unwrap();
        assert_eq!(waiter.woken(), 1, "asleep behind a task that was cancelled");
        assert!(cancelled.woken() <= 1);
        assert!(!pool.is_hungry());
        assert_eq!(check(&pool).suspended, 0);
    });
}

/// A task that waits at three pools gives up while the middle one is recharged.
#[test]
fn cancel_against_recharge_above() {
    explore("pool::cancel_against_recharge_above", None, || {
        let top = pool(Budget::ZERO);
        let above = below(&top, Budget::ZERO, ops(4));
        let pool = below(&above, Budget::ZERO, ops(4));
        let waiter = Flag::new();
        let recharger = {
            let waiting = pin!(suspension(&pool));
            assert_eq!(waiting.as_ref().draw_or_wait(ops(1), || waiter.clone()).ops, 0);
            for pool in [&top, &above, &pool] {
                assert_eq!(check(pool).suspended, 1, "a recharge there would not be noticed");
            }
            let above = Arc::clone(&above);
            thread::spawn(move || assert!(above.recharge(ops(1)).is_ok()))
        };
        recharger.join().unwrap();
        for pool in [&top, &above, &pool] {
            assert!(!pool.is_hungry());
            assert_eq!(check(pool).suspended, 0, "a node is left behind");
        }
        assert_eq!(pool.draw(ops(1), Resource::Ops), ops(1));
    });
}

/// Two tasks join the queue while a recharge makes room for those that it wakes: whatever number it
/// has seen first, none is left behind.
#[test]
fn two_join_against_recharge() {
    explore("pool::two_join_against_recharge", None, || {
        let pool = pool(Budget::ZERO);
        let recharger = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || assert!(pool.recharge(ops(4)).is_ok()))
        };
        let (first, second) = (pin!(suspension(&pool)), pin!(suspension(&pool)));
        let joined = [first.as_ref(), second.as_ref()].map(|waiting| {
            let waiter = Flag::new();
            (waiting.draw_or_wait(ops(1), || waiter.clone()).ops, waiter)
        });
        recharger.join().unwrap();
        assert!(!pool.is_hungry());
        for (drawn, waiter) in joined {
            assert_eq!(waiter.woken() as u64, 1 - drawn, "asleep beside a full pool");
        }
        check(&pool);
    });
}

/// Two tasks spawn, one of them in vain, spend and settle: every reading adds up, and in the end no
/// task holds anything.
#[test]
fn spawn_unspawn_and_settle() {
    explore("pool::spawn_unspawn_and_settle", None, || {
        // Memory is not counted here.
        let granted = Budget { ops: 20, spawn_count: 2, memory: UNLIMITED, ..Budget::ZERO };
        let pool = pool(granted);
        let wanted = Budget { ops: 6, memory: 7, ..Budget::ZERO };
        let other = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                let mut account = pool.spawn(wanted.into()).unwrap();
                assert_eq!(account.memory, UNLIMITED);
                account.charge(ops(4)).unwrap();
                pool.settle(Budget { ops: 6, ..account }, account);
            })
        };
        let account = pool.spawn(wanted.into()).unwrap();
        let standing = pool.standing();
        assert_eq!(20, standing.left.ops + standing.held.ops + standing.spent.ops);
        pool.unspawn(account);
        other.join().unwrap();
        let Standing { left, held, spent, .. } = pool.standing();
        assert_eq!(held, Budget::ZERO);
        assert_eq!((left.ops, left.spawn_count, left.memory), (15, 1, UNLIMITED));
        assert_eq!(spent, Budget { ops: 5, spawn_count: 1, ..Budget::ZERO });
    });
}

/// Two who draw on one pool that is filled from above: all that is moved is counted once, above
/// as held and below as granted.
#[test]
fn two_draw_from_above() {
    explore("pool::two_draw_from_above", Some(3), || {
        let above = pool(ops(10));
        let pool = below(&above, Budget::ZERO, ops(4));
        let other = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.draw(ops(3), Resource::Ops))
        };
        let here = pool.draw(ops(3), Resource::Ops);
        let there = other.join().unwrap();
        assert!(here.ops > 0 && there.ops > 0, "empty-handed beside a full pool");
        let standing = check(&pool);
        assert_eq!(standing.held.ops, here.ops + there.ops);
        assert_eq!(standing.granted, check(&above).held);
        pool.settle(here, here);
        pool.settle(there, Budget::ZERO);
        let ClosedPool { left, topped_up } = pool.close();
        above.settle(topped_up, left);
        let standing = check(&above);
        assert_eq!((standing.held.ops, standing.spent.ops), (0, there.ops));
    });
}

/// Two who draw at the same time do not get more together than the ceiling of their pool.
#[test]
fn two_draw_up_to_a_ceiling() {
    explore("pool::two_draw_up_to_a_ceiling", Some(3), || {
        let above = pool(ops(20));
        let ceiling = Some(Ceiling { most: ops(5), cap: 1 });
        let more = More { pool: Arc::clone(&above), grant: ops(4).into(), ceiling };
        let pool: Source = Arc::new(BudgetPool::new(Budget::ZERO, Some(more)));
        let other = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.draw(ops(4), Resource::Ops))
        };
        let here = pool.draw(ops(4), Resource::Ops);
        let there = other.join().unwrap();
        assert!(check(&pool).granted.ops <= 5, "beyond the ceiling");
        assert!(check(&above).held.ops <= 5);
        let rest = pool.draw(ops(9), Resource::Ops);
        assert_eq!(here.ops + there.ops + rest.ops, 5, "less than the ceiling allows");
        assert_eq!(pool.draw(ops(1), Resource::Ops), Budget::ZERO);
        assert_eq!(pool.bounded_by(Resource::Ops), Some(1));
    });
}

/// A recharge that comes when the pool closes is refused, or was there before: never both
/// taken and gone without a trace.
#[test]
fn recharge_against_close() {
    explore("pool::recharge_against_close", None, || {
        let pool = pool(ops(5));
        let recharger = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.recharge(ops(3)).is_ok())
        };
        assert_eq!(pool.close().left, ops(5), "what somebody else put in is not given out");
        let taken = recharger.join().unwrap();
        assert_eq!(pool.standing(), Standing::default());
        assert!(pool.recharge(ops(1)).is_err() || taken);
        assert_eq!(pool.draw(ops(9), Resource::Ops), Budget::ZERO);
    });
}

/// Two recharges of pools below a ceiling, at the same time: together they add no more than the
/// ceiling allows. The rest counts for nothing, also below another ceiling that would have allowed
/// it.
#[test]
fn two_recharges_below_a_ceiling() {
    explore("pool::two_recharges_below_a_ceiling", Some(3), || {
        let ceiling = Some(Ceiling { most: ops(5), cap: 1 });
        let top = pool(Budget::ZERO);
        let more = More { pool: Arc::clone(&top), grant: ops(1).into(), ceiling };
        let bounded = Arc::new(BudgetPool::new(ops(1), Some(more)));
        let wider = Some(Ceiling { most: ops(9), cap: 2 });
        let more = More { pool: Arc::clone(&bounded), grant: ops(1).into(), ceiling: wider };
        let nested = Arc::new(BudgetPool::new(Budget::ZERO, Some(more)));
        let other = {
            let nested = Arc::clone(&nested);
            thread::spawn(move || nested.recharge(ops(3)).map_or(0, |added| added.ops))
        };
        let here = bounded.recharge(ops(3)).map_or(0, |added| added.ops);
        let there = other.join().unwrap();
        assert_eq!(here + there, 4);
        assert_eq!((check(&bounded).granted.ops, check(&nested).granted.ops), (1 + here, there));
        let recharged = |pool: &BudgetPool<Flag>| pool.lock().recharged.ops;
        assert_eq!((recharged(&bounded), recharged(&nested)), (here + there, there));
        assert!(bounded.recharge(ops(1)).is_err());
        assert_eq!(bounded.bounded_by(Resource::Ops), Some(1));
    });
}

/// Two spawns demand more than the slices that their pool draws, and above there is enough for one:
/// one of them gets all that it demands, the other leaves nothing behind that it has fetched.
#[test]
fn two_demand_from_above() {
    explore("pool::two_demand_from_above", Some(3), || {
        let spawns = |budget: Budget| Budget { spawn_count: 9, ..budget };
        let above = pool(spawns(ops(12)));
        let slice = Budget { ops: 2, spawn_count: 1, ..Budget::ZERO };
        let pool = below(&above, Budget::ZERO, slice);
        let demand = Slice::named(Budget::ZERO).between(ops(7), ops(7));
        let other = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.spawn(demand))
        };
        let here = pool.spawn(demand);
        let there = other.join().unwrap();
        let drawn = match (here, there) {
            (Ok(drawn), Err(short)) | (Err(short), Ok(drawn)) => {
                assert_eq!(short.resource, Resource::Ops);
                drawn
            }
            outcome => panic!("one is paid for: {outcome:?}"),
        };
        assert_eq!(drawn, ops(7));
        let standing = check(&pool);
        assert_eq!((standing.held, standing.spent.ops), (ops(7), 1));
        assert_eq!(standing.granted, check(&above).held);
        assert!(standing.left.ops <= 4, "more than both have missed");
        pool.settle(drawn, drawn);
        let ClosedPool { left, topped_up } = pool.close();
        above.settle(topped_up, left);
        assert_eq!((check(&above).left.ops, check(&above).spent), (11, Budget::SPAWN));
    });
}
