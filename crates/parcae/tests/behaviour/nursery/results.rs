//! Results of children: they keep their type and alignment, and each is dropped once.

use crate::support::*;
use parcae::nursery::NurseryState;
use parcae::prelude::*;
use parcae::{Error, Result};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

// rule: S2-ENTRY-2
#[test]
fn values_of_children_keep_their_type_and_sign() {
    everywhere(|cx| {
        cx.nursery(|n| {
            let (small, large) = (n.spawn(|_| Ok(-1_i32))?, n.spawn(|_| Ok(-1_i64))?);
            let unsigned = n.spawn(|_| Ok(u32::MAX))?;
            let error = n.spawn(|_| Ok(Err::<(), i32>(-1)))?;
            assert_eq!((small.join()?, large.join()?), (-1, -1));
            assert_eq!((unsigned.join()?, error.join()?), (u32::MAX, Err(-1)));
            assert_eq!(n.state(), NurseryState::Open); // no value is a failure
            Ok(())
        })
    });
}

#[test]
fn closures_and_results_are_stored_where_they_are_aligned() {
    #[repr(align(16))]
    #[derive(Clone, Copy)]
    struct Aligned(u128);

    let seven = Aligned(7);
    let outcome = runtime(1).run(|cx| cx.nursery(|n| Ok(n.spawn(move |_| Ok(seven))?.join()?.0)));
    assert_eq!(outcome.unwrap(), 7);
}

/// How many results there are.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// A result that is counted.
struct Counted;

impl Counted {
    fn new() -> Counted {
        LIVE.fetch_add(1, SeqCst);
        Counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, SeqCst);
    }
}

type Counts<'s> = TaskHandle<'s, Counted>;

/// Drops it on another thread, which need not wait for the result.
fn drop_elsewhere(handle: Counts<'_>) {
    let _ = thread::scope(|s| {
        s.spawn(move || {
            for _ in 0..100 {
                if handle.is_finished() {
                    break;
                }
                thread::yield_now();
            }
            drop(handle);
        })
        .join()
    });
}

/// Ends with each handle in another way.
fn consume(cx: &Cx, handles: &Mutex<Receiver<Counts<'_>>>, who: usize) -> Result<()> {
    for turn in who.. {
        let received = handles.lock().unwrap().try_recv();
        let handle = match received {
            Ok(handle) => handle,
            Err(TryRecvError::Empty) => {
                cx.yield_now()?;
                continue;
            }
            Err(TryRecvError::Disconnected) => break,
        };
        match turn % 5 {
            0 => drop(handle),
            1 => drop(handle.join()),
            2 => {
                handle.cancel();
                drop(handle.join());
            }
            3 => match handle.try_join() {
                Ok(outcome) => drop(outcome),
                Err(handle) => drop(handle.join()),
            },
            _ => drop_elsewhere(handle),
        }
    }
    Ok(())
}

#[test]
fn results_are_dropped_once_whoever_joins_drops_or_cancels() {
    must_end(|| {
        for workers in [1, 2, 3] {
            let rt = runtime(workers);
            for round in 0..300_usize {
                let _ = rt.run(|cx| {
                    cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                        let (give, handles) = mpsc::channel();
                        let handles = Arc::new(Mutex::new(handles));
                        for who in 0..4 {
                            let handles = Arc::clone(&handles);
                            n.spawn(move |cx| consume(cx, &handles, who))?;
                        }
                        for i in 0..40 {
                            let counted = Counted::new();
                            let child = n.spawn(move |cx| {
                                if i % 3 == 0 {
                                    cx.yield_now()?;
                                }
                                if i % 7 == 0 {
                                    return Err(Error::msg("x"));
                                }
                                Ok(counted)
                            })?;
                            give.send(child).unwrap();
                            if i == 30 && round % 3 == 0 {
                                n.cancel();
                            }
                        }
                        drop(give);
                        Ok(())
                    })
                });
                assert_eq!(LIVE.load(SeqCst), 0, "workers {workers} round {round}");
            }
        }
    });
}
