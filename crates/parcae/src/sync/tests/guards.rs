//! Guards for a part of the data, limits of readers, deadlines by instant.

use super::super::*;
use super::{deterministic, everywhere};
use crate::base::error::Result;
use crate::prelude::*;
use crate::sync::time;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

#[test]
fn a_part_keeps_the_whole_locked() {
    let mutex = Mutex::new((1, [2, 3]));
    let part = MutexGuard::map(mutex.lock().unwrap(), |data| &mut data.1);
    assert!(mutex.is_locked() && format!("{part:?}") == "[2, 3]");
    drop(part);
    assert!(!mutex.is_locked());

    let lock = RwLock::new((1, [2, 3]));
    let part = ReadGuard::map(lock.read().unwrap(), |data| &data.1[..]);
    assert!(lock.try_read().is_some() && lock.try_write().is_none());
    assert_eq!(*part, [2, 3]);
    drop(part);
    let mut part = WriteGuard::map(lock.write().unwrap(), |data| &mut data.1);
    assert!(lock.try_read().is_none());
    part[0] = 5;
    drop(part);
    assert_eq!(lock.into_inner(), (1, [5, 3]));
}

#[test]
fn a_part_that_is_not_there_gives_the_guard_back() {
    let mutex = Mutex::new(vec![1]);
    let guard = MutexGuard::filter_map(mutex.lock().unwrap(), |data| data.get_mut(3));
    assert_eq!(guard.err().map(|guard| guard.len()), Some(1));
    assert!(!mutex.is_locked());
    let part = MutexGuard::filter_map(mutex.lock().unwrap(), |data| data.get_mut(0));
    *part.ok().unwrap() += 1;
    let lock = RwLock::new(mutex.into_inner());
    assert!(ReadGuard::filter_map(lock.read().unwrap(), |data| data.get(3)).is_err());
    let part = WriteGuard::filter_map(lock.write().unwrap(), |data| data.get_mut(0));
    *part.ok().unwrap() += 1;
    assert!(WriteGuard::filter_map(lock.write().unwrap(), |data| data.get_mut(3)).is_err());
    assert_eq!(lock.into_inner(), [3]);
}

#[test]
fn a_panic_while_a_part_is_looked_for_unlocks() {
    let (mutex, lock) = (Mutex::new(1), RwLock::new(1));
    let no = || resume_unwind(Box::new("on purpose"));
    let panicked = [
        catch_unwind(AssertUnwindSafe(|| {
            drop(MutexGuard::map(mutex.lock().unwrap(), |_: &mut i32| -> &mut i32 { no() }));
        })),
        catch_unwind(AssertUnwindSafe(|| {
            drop(WriteGuard::map(lock.write().unwrap(), |_: &mut i32| -> &mut i32 { no() }));
        })),
        catch_unwind(AssertUnwindSafe(|| {
            drop(ReadGuard::map(lock.read().unwrap(), |_: &i32| -> &i32 { no() }));
        })),
    ];
    assert!(panicked.iter().all(|outcome| outcome.is_err()));
    assert!(mutex.try_lock().is_some() && lock.try_write().is_some());
}

/// A part may go to another task, which unlocks the whole.
#[test]
fn a_part_travels() {
    everywhere(|cx| {
        let data = Mutex::new((0, 0));
        cx.nursery(|n| {
            for _ in 0..20 {
                let mut part = MutexGuard::map(data.lock()?, |data| &mut data.1);
                n.spawn(move |cx| {
                    cx.yield_now()?;
                    *part += 1;
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        assert_eq!(data.into_inner(), (0, 20));
        Ok(())
    });
}

#[test]
fn no_more_readers_than_allowed() {
    everywhere(|cx| {
        let lock = RwLock::with_max_readers((), 3);
        let (readers, most, writers) =
            (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        cx.nursery(|n| {
            for i in 0..30 {
                let (lock, readers, most, writers) = (&lock, &readers, &most, &writers);
                n.spawn(move |cx| {
                    if i % 10 == 9 {
                        let guard = lock.write()?;
                        assert_eq!(readers.load(Relaxed), 0);
                        writers.fetch_add(1, Relaxed);
                        cx.yield_now()?;
                        writers.fetch_sub(1, Relaxed);
                        let guard = guard.downgrade();
                        drop(guard);
                        return Ok(());
                    }
                    let _guard = lock.read()?;
                    assert_eq!(writers.load(Relaxed), 0);
                    most.fetch_max(readers.fetch_add(1, Relaxed) + 1, Relaxed);
                    cx.yield_now()?;
                    readers.fetch_sub(1, Relaxed);
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        assert!(most.into_inner() <= 3);
        assert!(lock.try_write().is_some());
        Ok(())
    });
    assert!(RwLock::with_max_readers((), 0).try_read().is_some());
}

/// All waits with a deadline by instant: in vain until then, and with success if it can be had.
#[test]
fn deadlines_by_instant() {
    const SECOND: Duration = Duration::from_secs(1);
    deterministic(|cx| {
        let (mutex, lock, semaphore) = (Mutex::new(()), RwLock::new(()), Semaphore::new(1));
        let (notify, event, token) = (Notify::new(), Event::new(), CancelToken::new());
        let (free, condvar) = (Mutex::new(0), Condvar::new());
        let start = time::now();
        let late = |seconds: u32, outcome: Result<()>| {
            assert!(outcome.unwrap_err().is_timed_out());
            assert_eq!((time::now() - start).as_secs(), u64::from(seconds));
        };
        let taken = (mutex.lock()?, lock.write()?, semaphore.acquire()?);
        late(1, mutex.lock_deadline(start + SECOND).map(drop));
        late(2, lock.read_deadline(start + SECOND * 2).map(drop));
        late(3, lock.write_deadline(start + SECOND * 3).map(drop));
        late(4, semaphore.acquire_deadline(1, start + SECOND * 4).map(drop));
        late(5, notify.wait_deadline(start + SECOND * 5));
        late(6, event.wait_deadline(start + SECOND * 6));
        late(7, token.wait_deadline(start + SECOND * 7).map(drop));
        let never = condvar.wait_while_deadline(free.lock()?, start + SECOND * 8, |_| true);
        late(8, never.map(drop));
        late(8, notify.wait_deadline(start)); // long past
        drop(taken);
        event.set();
        let until = start + SECOND * 60;
        cx.nursery(|n| {
            n.spawn(|cx| {
                cx.sleep(SECOND)?;
                *free.lock()? = 1;
                condvar.notify_all();
                notify.notify_one();
                token.cancel();
                Ok(())
            })?;
            drop(mutex.lock_deadline(until)?);
            drop(lock.read_deadline(until)?);
            drop(lock.write_deadline(until)?);
            drop(semaphore.acquire_deadline(1, until)?);
            event.wait_deadline(until)?;
            drop(condvar.wait_while_deadline(free.lock()?, until, |data| *data == 0)?);
            notify.wait_deadline(until)?;
            assert_eq!(token.wait_deadline(until)?, CancelReason::Explicit);
            Ok(())
        })?;
        assert_eq!((time::now() - start).as_secs(), 9);
        Ok(())
    });
    let (mutex, soon) = (Mutex::new(()), std::time::Instant::now() + Duration::from_millis(2));
    let _guard = mutex.lock().unwrap();
    assert!(mutex.lock_deadline(soon).unwrap_err().is_timed_out()); // a thread
    assert!(std::time::Instant::now() >= soon);
}

#[test]
fn a_cell_may_have_its_value_from_the_start() {
    let cell = OnceCell::new_with(Some(3));
    assert_eq!(*cell.get_or_init(|| 4).unwrap(), 3);
    assert_eq!(cell.set(5).unwrap(), Err(5));
    assert_eq!(*OnceCell::new_with(None).get_or_init(|| 4).unwrap(), 4);
    assert_eq!(OnceCell::from(6).into_inner(), Some(6));
}
