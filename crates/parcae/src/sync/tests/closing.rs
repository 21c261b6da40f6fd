//! Semaphores that are closed, permits that are split and merged.

use super::super::*;
use super::{cancelled_at_every_point, everywhere};
use crate::base::error::{ErrorKind, Result};
use std::sync::{Arc, OnceLock};

fn is_closed<T>(outcome: Result<T>) -> bool {
    outcome.is_err_and(|error| matches!(error.kind(), ErrorKind::SemaphoreClosed))
}

#[test]
fn those_who_wait_and_those_who_come_are_refused() {
    everywhere(|cx| {
        let semaphore = Arc::new(Semaphore::new(2));
        let held = semaphore.acquire_many(2)?;
        cx.nursery(|n| {
            let waiters: Result<Vec<_>> = (0..40)
                .map(|i| {
                    let semaphore = &semaphore;
                    n.spawn(move |_| Ok(is_closed(semaphore.acquire_many(1 + i % 3))))
                })
                .collect();
            cx.yield_now()?;
            semaphore.close();
            for waiter in waiters? {
                assert!(waiter.join()?, "served, or with another error");
            }
            Ok(())
        })?;
        assert!(is_closed(semaphore.acquire()) && is_closed(semaphore.acquire_owned(1)));
        assert!(is_closed(semaphore.acquire_timeout(1, std::time::Duration::ZERO)));
        drop(held);
        assert_eq!(semaphore.available(), 2);
        assert!(semaphore.try_acquire(1).is_none() && semaphore.try_acquire_owned(0).is_none());
        assert!(is_closed(semaphore.acquire()), "there are permits, but they are not given out");
        Ok(())
    });
}

/// The task that closes a semaphore is often cancelled together with those that wait for it.
#[test]
fn a_cancelled_task_is_not_told_that_a_semaphore_is_closed() {
    everywhere(|cx| {
        let semaphore = Semaphore::new(0);
        // Not asserted in the child: a panic after the cancellation would be a consequence of it.
        // One waits for a permit, the other asks for one when everything has happened.
        let (started, closed) = (Semaphore::new(0), Event::new());
        let (waits, comes) = (OnceLock::new(), OnceLock::new());
        let outcome: Result<()> = cx.nursery(|n| {
            n.spawn(|_| {
                started.add(1);
                let _ = waits.set(semaphore.acquire().map(drop).unwrap_err());
                Ok(())
            })?;
            n.spawn(|cx| {
                started.add(1);
                cx.shield(|| closed.wait())?;
                let _ = comes.set(semaphore.acquire().map(drop).unwrap_err());
                Ok(())
            })?;
            started.acquire_many(2).map(drop)?;
            n.cancel();
            semaphore.close();
            closed.set();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        for told in [waits, comes] {
            let error = told.into_inner().expect("the child has ended");
            assert!(error.is_cancelled(), "{error}");
        }
        Ok(())
    });
}

/// Closed at every moment of a wait that is cancelled: no permit is lost, and none is made.
#[test]
fn closing_conserves_permits() {
    for closes in [false, true] {
        let place = std::sync::Mutex::new(Arc::new(Semaphore::new(1)));
        let semaphore = || Arc::clone(&place.lock().unwrap());
        cancelled_at_every_point(
            |_| match semaphore().acquire() {
                Err(error) if matches!(error.kind(), ErrorKind::SemaphoreClosed) => Ok(()),
                outcome => outcome.map(drop),
            },
            |cx| {
                let semaphore = semaphore();
                let held = semaphore.try_acquire(1);
                cx.yield_now()?;
                if closes {
                    semaphore.close();
                }
                cx.yield_now()?;
                drop(held);
                Ok(())
            },
            || {
                let fresh = Arc::new(Semaphore::new(1));
                let used = std::mem::replace(&mut *place.lock().unwrap(), fresh);
                assert_eq!(used.available(), 1);
            },
        );
    }
}

#[test]
fn permits_are_split_and_merged() {
    let semaphore = Arc::new(Semaphore::new(4));
    let mut all = semaphore.acquire_owned(4).unwrap();
    assert!(all.split(5).is_none());
    let one = all.split(1).unwrap();
    let none = all.split(0).unwrap();
    assert_eq!((all.permits(), one.permits(), none.permits()), (3, 1, 0));
    drop((one, none));
    assert_eq!(semaphore.available(), 1);
    all.merge(semaphore.acquire_owned(1).unwrap());
    assert_eq!((semaphore.available(), all.permits()), (0, 4));
    drop(all);
    assert_eq!(semaphore.available(), 4);
}

#[test]
fn permits_of_another_semaphore_are_not_merged() {
    let (one, other) = (Semaphore::new(1), Semaphore::new(1));
    let merged = std::panic::catch_unwind(|| {
        let mut permit = one.acquire().unwrap();
        permit.merge(other.acquire().unwrap());
    });
    assert!(merged.is_err());
    assert_eq!((one.available(), other.available()), (1, 1), "both came back");
}
