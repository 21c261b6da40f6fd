//! Pools: never more items than allowed, and every permit comes back.

use super::*;
use crate::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Counts how many there are, and the most there ever were.
struct Item(Arc<(AtomicUsize, AtomicUsize)>);

impl Item {
    fn new(counts: &Arc<(AtomicUsize, AtomicUsize)>) -> Item {
        let live = counts.0.fetch_add(1, Ordering::SeqCst) + 1;
        counts.1.fetch_max(live, Ordering::SeqCst);
        Item(Arc::clone(counts))
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

// rule: S4-KIND-8
#[test]
fn idle_items_are_lent_before_new_ones_are_made() {
    let counts = Arc::default();
    let made = Arc::clone(&counts);
    let pool = Pool::new(3, move || Ok(Item::new(&made)));
    (0..5).for_each(|_| drop(pool.borrow().unwrap()));
    assert_eq!((counts.1.load(Ordering::SeqCst), pool.available()), (1, 3));
    let all = [(); 3].map(|()| pool.try_borrow().unwrap());
    let refused = pool.try_borrow().err().unwrap();
    assert!(matches!(refused.kind(), ErrorKind::WouldWait));
    let late = pool.borrow_timeout(Duration::from_millis(1)).err().unwrap();
    assert!(matches!(late.kind(), ErrorKind::TimedOut));
    let [one, two, three] = all;
    let kept = one.take();
    drop((two, three));
    assert_eq!((counts.0.load(Ordering::SeqCst), pool.available()), (3, 3));
    pool.close();
    pool.close();
    assert_eq!(counts.0.load(Ordering::SeqCst), 1, "idle ones are dropped");
    assert!(matches!(pool.borrow().err().unwrap().kind(), ErrorKind::ChannelClosed));
    drop(kept);
}

// rule: S4-KIND-9
#[test]
fn failures_and_panics_give_the_permit_back() {
    let fails = Arc::new(AtomicUsize::new(0));
    let mode = Arc::clone(&fails);
    let pool = Pool::new(1, move || match mode.load(Ordering::SeqCst) {
        1 => Err(Error::msg("no connection")),
        2 => std::panic::resume_unwind(Box::new("while it was made")),
        _ => Ok(0_u8),
    })
    .reset(|item| match *item {
        9 => std::panic::resume_unwind(Box::new("while it was reset")),
        item => item < 5,
    });
    let quietly = |f: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
    fails.store(1, Ordering::SeqCst);
    assert_eq!(pool.borrow().err().unwrap().to_string(), "no connection");
    fails.store(2, Ordering::SeqCst);
    assert!(quietly(&|| drop(pool.borrow())));
    fails.store(0, Ordering::SeqCst);
    assert!(quietly(&|| *pool.borrow().unwrap() = 9));
    assert_eq!(pool.available(), 1);
    *pool.borrow().unwrap() = 3;
    assert_eq!(*pool.borrow().unwrap(), 3, "kept");
    *pool.borrow().unwrap() = 7;
    assert_eq!(*pool.borrow().unwrap(), 0, "made anew");
}

#[test]
fn borrowers_share_and_cancelled_ones_lose_nothing() {
    everywhere(|cx, seed| {
        let counts = Arc::default();
        let made = Arc::clone(&counts);
        let capacity = 1 + seed as usize % 3;
        let pool = Pool::new(capacity, move || Ok(Item::new(&made)));
        let outcome = cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
            let pool = &pool;
            let mut tasks = Vec::new();
            for task in 0..6 {
                tasks.push(n.spawn(move |cx| {
                    for turn in 0..4 {
                        let _item = pool.borrow()?;
                        pause(cx, (seed + task + turn) % 4)?;
                    }
                    Ok(())
                })?);
            }
            pause(cx, seed % 17)?;
            tasks[seed as usize % 6].cancel();
            Ok(())
        });
        assert!(outcome.is_ok() || outcome.unwrap_err().is_cancelled());
        assert!(counts.1.load(Ordering::SeqCst) <= capacity);
        assert_eq!(pool.available(), capacity);
        drop(pool);
        assert_eq!(counts.0.load(Ordering::SeqCst), 0);
        Ok(())
    });
}

#[test]
fn closing_tells_those_who_wait_and_drops_what_comes_back() {
    everywhere(|cx, seed| {
        let counts = Arc::default();
        let made = Arc::clone(&counts);
        let pool = Pool::new(1, move || Ok(Item::new(&made)));
        cx.nursery(|n| {
            let item = pool.borrow()?;
            let waits = n.spawn(|_| Ok(pool.borrow().map(drop)))?;
            pause(cx, seed % 5)?;
            pool.close_with(Error::msg("shut"));
            assert_eq!(waits.join()?.unwrap_err().to_string(), "shut");
            drop(item);
            assert_eq!(counts.0.load(Ordering::SeqCst), 0);
            Ok(())
        })
    });
}
