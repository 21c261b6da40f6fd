//! Attacks on the public API. Each test says what must be true.

use parcae::prelude::*;
use parcae::{Error, Result};
use std::panic::panic_any;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// Fails if `body` takes longer than `secs`: something hangs.
fn within<R: Send + 'static>(secs: u64, body: impl FnOnce() -> R + Send + 'static) -> R {
    let (tx, rx) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = tx.send(body());
    });
    match rx.recv_timeout(Duration::from_secs(secs)) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs"),
        Err(_) => match thread.join() {
            Err(payload) => std::panic::resume_unwind(payload),
            Ok(()) => unreachable!(),
        },
    }
}

fn rt(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

const MIXED: Budget = Budget { ops: 1_000_000, ..Budget::UNLIMITED };

/// Dropping it panics.
struct Bomb;
impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("bomb");
    }
}

// ---------------------------------------------------------------- unwinding out of a nursery

/// A nursery returns or unwinds only after its children have ended, whatever a callback of its
/// token throws.
#[test]
fn u1_callback_payload_bomb_body_error() {
    let live = AtomicBool::new(false);
    let late = within_scope(|| {
        let rt = rt(2);
        let started = AtomicBool::new(false);
        let _ = rt.run(|cx| {
            let out = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                cx.nursery(|n| {
                    n.spawn(|cx| {
                        cx.shield(|| {
                            live.store(true, SeqCst);
                            started.store(true, SeqCst);
                            let t = Instant::now();
                            while t.elapsed() < Duration::from_millis(300) {
                                let _ = cx.yield_now();
                            }
                            live.store(false, SeqCst);
                        });
                        Ok(())
                    })?;
                    while !started.load(SeqCst) {
                        cx.yield_now()?;
                    }
                    n.token().on_cancel(|_| panic_any(Bomb)).forget();
                    Err::<(), _>(Error::msg("body"))
                })
            }));
            let late = live.load(SeqCst);
            LATE.store(late, SeqCst);
            if late {
                eprintln!("LEFT EARLY, unwinding: {:?}", out.is_err());
                std::process::abort(); // the stack is broken beyond here
            }
            Ok(())
        });
        LATE.load(SeqCst)
    });
    assert!(!late, "the nursery was left while its child ran");
}
static LATE: AtomicBool = AtomicBool::new(false);
fn within_scope<R>(f: impl FnOnce() -> R) -> R {
    f()
}

#[derive(Debug)]
struct BadError;
impl std::fmt::Display for BadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("bad")
    }
}
impl std::error::Error for BadError {}
impl Drop for BadError {
    fn drop(&mut self) {
        panic!("error dropped");
    }
}

/// The same for an error of the body that is not the first, and panics when it is dropped.
#[test]
fn u2_second_error_panics_in_drop() {
    let live = AtomicBool::new(false);
    let started = AtomicBool::new(false);
    let rt = rt(2);
    let _ = rt.run(|cx| {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            cx.nursery(|n| {
                n.spawn(|cx| {
                    cx.shield(|| {
                        live.store(true, SeqCst);
                        started.store(true, SeqCst);
                        let t = Instant::now();
                        while t.elapsed() < Duration::from_millis(300) {
                            let _ = cx.yield_now();
                        }
                        live.store(false, SeqCst);
                    });
                    Ok(())
                })?;
                while !started.load(SeqCst) {
                    cx.yield_now()?;
                }
                n.spawn(|_| Err::<(), _>(Error::msg("first")))?;
                while !n.is_cancelled() {
                    let _ = cx.yield_now();
                    std::thread::yield_now();
                }
                Err::<(), _>(Error::from(BadError))
            })
        }));
        if live.load(SeqCst) {
            eprintln!("LEFT EARLY");
            std::process::abort();
        }
        Ok(())
    });
}

/// A child has a result when its handle says that it has ended.
#[test]
fn u3_child_without_output() {
    for workers in [1, 2] {
        let rt = rt(workers);
        rt.run(|cx| {
            let mut seen = None;
            let _ = cx.nursery(|n| {
                n.token().on_cancel(|_| panic_any(Bomb)).forget();
                let h = n.spawn(|_| Err::<[u64; 6], _>(Error::msg("child")))?;
                while !h.is_finished() {
                    let _ = cx.shield(|| cx.yield_now());
                }
                seen = Some(cx.shield(|| h.join()));
                Ok(())
            });
            match seen.unwrap() {
                Ok(garbage) => {
                    eprintln!("GARBAGE {garbage:x?}");
                    std::process::abort();
                }
                Err(e) => assert_eq!(e.task().unwrap().spawned_at().file(), file!()),
            }
            Ok(())
        })
        .unwrap();
    }
}

// ---------------------------------------------------------------- wrong task

/// What `send_wrapper::SendWrapper` is: sound by itself, for it is used on its thread only.
struct SendWrapper<T>(T, std::thread::ThreadId);
unsafe impl<T> Send for SendWrapper<T> {}
unsafe impl<T> Sync for SendWrapper<T> {}
impl<T> SendWrapper<T> {
    fn new(t: T) -> Self {
        SendWrapper(t, std::thread::current().id())
    }
    fn get(&self) -> &T {
        assert_eq!(self.1, std::thread::current().id());
        &self.0
    }
}

/// A child that got hold of its parent's nursery on the same thread cannot spawn a task that
/// the nursery does not wait for.
#[test]
fn w1_spawn_by_child_after_close() {
    let rt = rt(1);
    static ENDED: AtomicBool = AtomicBool::new(false);
    let ended = rt
        .run(|cx| {
            cx.nursery(|n| {
                let w = SendWrapper::new(n);
                n.spawn(move |cx| {
                    for _ in 0..10 {
                        cx.yield_now()?; // the body has returned
                    }
                    let _ = w
                        .get()
                        .spawn(|cx| {
                            let _ = cx.shield(|| cx.park());
                            ENDED.store(true, SeqCst);
                            Ok(())
                        })
                        .map_err(|e| {
                            ENDED.store(true, SeqCst);
                            e
                        });
                    Ok(())
                })?;
                Ok(())
            })?;
            let ended = ENDED.load(SeqCst);
            if !ended {
                eprintln!("ORPHAN");
                std::process::abort();
            }
            Ok(ended)
        })
        .unwrap();
    assert!(ended, "an orphan");
}

/// A `Cx` opens nurseries for its own task only.
#[test]
fn w2_cx_of_the_parent_in_a_child() {
    let rt = rt(1);
    rt.run(|cx| {
        let w = SendWrapper::new(cx);
        cx.nursery(|n| {
            n.spawn(move |_| {
                let r = w.get().nursery(|_| Ok(()));
                assert!(r.is_err(), "a nursery on somebody else's frame");
                Ok(())
            })?;
            Ok(())
        })
    })
    .unwrap();
}

// ---------------------------------------------------------------- hangs

/// A destructor that joins while its task unwinds comes back.
#[test]
fn h1_join_in_unwind() {
    within(5, || {
        struct Joins<'s>(Option<TaskHandle<'s, ()>>);
        impl Drop for Joins<'_> {
            fn drop(&mut self) {
                let _ = self.0.take().unwrap().join();
            }
        }
        let r = rt(1).run(|cx| {
            cx.nursery(|n| {
                let _guard = Joins(Some(n.spawn(|_| Ok(()))?));
                if true {
                    panic!("body");
                }
                Ok(())
            })
        });
        assert!(r.unwrap_err().is_panic());
    });
}

/// A suspended task goes on when a sibling gives back what it did not use.
#[test]
fn h2_suspended_sibling_gives_back() {
    within(5, || {
        let r = rt(2).run(|cx| {
            let opts = NurseryOpts::new()
                .budget(Budget { ops: 20_002, ..Budget::UNLIMITED })
                .on_exhausted(OnExhausted::Suspend);
            cx.nursery_with(opts, |n| {
                let account = n.account();
                let rich = n.spawn(move |cx| {
                    while account.standing().suspended == 0 {
                        cx.yield_now()?;
                    }
                    Ok(())
                })?;
                let poor = n.spawn(|cx| {
                    for _ in 0..12_000 {
                        cx.checkpoint()?;
                    }
                    Ok(())
                })?;
                rich.join()?;
                poor.join()
            })
        });
        r.unwrap();
    });
}

/// A recharge reaches tasks that are suspended in nurseries below.
#[test]
fn h3_recharge_reaches_nested() {
    within(5, || {
        let r = rt(2).run(|cx| {
            let opts = NurseryOpts::new()
                .budget(Budget { ops: 5_000, ..Budget::UNLIMITED })
                .on_exhausted(OnExhausted::Suspend);
            cx.nursery_with(opts, |n| {
                let h = n.spawn(|cx| {
                    cx.nursery(|m| {
                        m.spawn(|cx| {
                            for _ in 0..8_000 {
                                cx.checkpoint()?;
                            }
                            Ok(())
                        })?
                        .join()
                    })
                })?;
                for _ in 0..200 {
                    cx.yield_now()?;
                    std::thread::sleep(Duration::from_millis(1));
                }
                n.recharge(Budget { ops: 10_000, ..Budget::ZERO })?;
                h.join()
            })
        });
        r.unwrap();
    });
}

/// A child with a budget of its own that is suspended can be recharged by its parent.
#[test]
fn h4_recharge_reaches_own_budget() {
    within(5, || {
        let r = rt(2).run(|cx| {
            let opts = NurseryOpts::new().on_exhausted(OnExhausted::Suspend);
            cx.nursery_with(opts, |n| {
                let opts = SpawnOpts::new().budget(Budget { ops: 100, ..Budget::UNLIMITED });
                let h = n.spawn_with(opts, |cx| {
                    for _ in 0..200 {
                        cx.checkpoint()?;
                    }
                    Ok(())
                })?;
                for _ in 0..100 {
                    cx.yield_now()?;
                    std::thread::sleep(Duration::from_millis(1));
                }
                h.recharge(Budget { ops: 10_000, ..Budget::ZERO })?;
                h.join()
            })
        });
        r.unwrap();
    });
}

/// Cancelling one child reaches its children also while it waits at the end of its nursery.
#[test]
fn h5_handle_cancel_reaches_grandchildren() {
    within(5, || {
        let r = rt(2).run(|cx| {
            cx.nursery(|n| {
                let h = n.spawn(|cx| {
                    cx.nursery(|m| {
                        m.spawn(
                            |cx| loop {
                                cx.park()?
                            } as Result<()>,
                        )?;
                        Ok(())
                    })
                })?;
                for _ in 0..50 {
                    cx.yield_now()?;
                    std::thread::sleep(Duration::from_millis(1));
                }
                h.cancel();
                let e = h.join().unwrap_err();
                assert!(e.is_cancelled(), "{e:?}");
                Ok(())
            })
        });
        r.unwrap();
    });
}

/// Two schedulers that wait for each other on one thread: a panic, as documented, not a hang.
#[test]
fn h6_deterministic_reentered() {
    within(5, || {
        let a = Runtime::builder().workers(1).deterministic(1).build().unwrap();
        let b = Runtime::builder().workers(1).deterministic(1).build().unwrap();
        let r = a.run(|_| b.run(|_| a.run(|_| Ok(()))));
        assert!(r.is_err());
    });
}

/// Suspended in a destructor that runs for a panic: comes back.
#[test]
fn h7_suspend_in_unwind() {
    within(5, || {
        struct Checks<'c>(&'c Cx);
        impl Drop for Checks<'_> {
            fn drop(&mut self) {
                for _ in 0..20_000 {
                    if self.0.checkpoint().is_err() {
                        break;
                    }
                }
            }
        }
        let r = rt(1).run(|cx| {
            let opts = NurseryOpts::new()
                .budget(Budget { ops: 5_000, ..Budget::UNLIMITED })
                .on_exhausted(OnExhausted::Suspend);
            cx.nursery_with(opts, |n| {
                n.spawn(|cx| {
                    let _c = Checks(cx);
                    if true {
                        panic!("child");
                    }
                    Ok(())
                })?
                .join()
            })
        });
        assert!(r.unwrap_err().is_panic());
    });
}

// ---------------------------------------------------------------- runtime

/// Dropping a runtime waits for its tasks (as documented).
#[test]
fn r1_drop_waits_for_root_tasks() {
    let ended = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&ended);
    let rt = rt(2);
    let (tx, rx) = mpsc::channel();
    rt.handle()
        .spawn(move |_| {
            tx.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            theirs.store(true, SeqCst);
            Ok(())
        })
        .unwrap();
    rx.recv().unwrap();
    drop(rt);
    assert!(ended.load(SeqCst), "the runtime is gone, its task runs");
}

/// The same under the deterministic executor: what was spawned is cancelled, and dropped.
#[test]
fn r2_drop_deterministic() {
    let owned = Arc::new(());
    let theirs = Arc::clone(&owned);
    let rt = Runtime::builder().workers(1).deterministic(1).build().unwrap();
    rt.handle()
        .spawn(move |_| {
            let _theirs = theirs;
            Ok(())
        })
        .unwrap();
    drop(rt);
    assert_eq!(Arc::strong_count(&owned), 1, "the task was neither run nor dropped");
}

/// Two root tasks share the runtime's budget.
#[test]
fn r3_two_roots() {
    let rt = Runtime::builder().workers(2).budget(MIXED).build().unwrap();
    let r = rt.run(|cx| {
        let second = HANDLE_RUN(&rt);
        cx.checkpoint()?;
        second
    });
    r.unwrap();
}
#[allow(non_snake_case)]
fn HANDLE_RUN(rt: &Runtime) -> Result<()> {
    rt.handle()
        .spawn(|cx| {
            for _ in 0..10 {
                cx.checkpoint()?;
            }
            Ok(())
        })?
        .join()
}

// ---------------------------------------------------------------- budgets

/// What the body draws inside of a nursery with a budget of its own is not forgotten.
#[test]
fn b1_drawn_in_explicit_nursery() {
    let rt = rt(1);
    rt.run(|cx| {
        let opts = NurseryOpts::new().budget(Budget { ops: 100_000, ..Budget::UNLIMITED });
        cx.nursery_with(opts, |n| {
            let h = n.spawn(|cx| {
                let own = NurseryOpts::new().budget(Budget { ops: 1_000, ..Budget::UNLIMITED });
                cx.nursery_with(own, |_| {
                    for _ in 0..15_000 {
                        cx.checkpoint()?;
                    }
                    Ok(())
                })
            })?;
            h.join()?;
            let s = n.budget();
            println!("{s:?}");
            assert_eq!(s.held.ops, 0, "nobody holds anything");
            assert_eq!(s.granted.ops, s.left.ops + s.held.ops + s.spent.ops);
            assert_eq!(s.spent.ops, 15_001);
            Ok(())
        })
    })
    .unwrap();
}

/// What the owner put in and nobody used goes back to it.
#[test]
fn b2_recharge_goes_back() {
    let rt = Runtime::builder().workers(1).budget(MIXED).build().unwrap();
    rt.run(|cx| {
        let before = cx.budget().ops;
        let own = NurseryOpts::new().budget(Budget { ops: 10, ..Budget::ZERO });
        cx.nursery_with(own, |n| n.recharge(Budget { ops: 5_000, ..Budget::ZERO }))?;
        assert_eq!(cx.budget().ops, before, "unused budget is lost");
        Ok(())
    })
    .unwrap();
}

/// A component without limit stays without limit after a nursery.
#[test]
fn b3_unlimited_stays_unlimited() {
    let rt = Runtime::builder().workers(1).budget(MIXED).build().unwrap();
    rt.run(|cx| {
        for round in 0..2 {
            cx.nursery(|n| n.spawn(|cx| cx.nursery(|m| m.spawn(|_| Ok(()))?.join()))?.join())
                .map_err(|e| Error::msg(format!("round {round}: {e}")))?;
            assert_eq!(cx.budget().memory, u64::MAX, "after round {round}");
        }
        Ok(())
    })
    .unwrap();
}

/// A task that opens a nursery has not used up its budget by that.
#[test]
fn b4_fail_policy_in_own_nursery() {
    rt(1)
        .run(|cx| {
            let opts = NurseryOpts::new()
                .budget(Budget { ops: 100_000, ..Budget::UNLIMITED })
                .on_exhausted(OnExhausted::Fail);
            cx.nursery_with(opts, |n| {
                n.spawn(|cx| {
                    cx.checkpoint()?;
                    cx.nursery(|_| cx.checkpoint())
                })?
                .join()
            })
        })
        .unwrap();
}

/// A task that runs out of ops draws ops, not memory that its siblings need.
#[test]
fn b5_refill_hoards() {
    rt(1)
        .run(|cx| {
            let opts = NurseryOpts::new().budget(Budget {
                ops: 1_000_000,
                memory: 4 << 20,
                ..Budget::UNLIMITED
            });
            let go = AtomicBool::new(false);
            cx.nursery_with(opts, |n| {
                n.spawn(|cx| {
                    for _ in 0..200_000 {
                        cx.checkpoint()?;
                    }
                    go.store(true, SeqCst);
                    for _ in 0..100 {
                        cx.yield_now()?;
                    }
                    Ok(())
                })?;
                while !go.load(SeqCst) {
                    cx.yield_now()?;
                }
                println!("{:?}", n.budget());
                n.spawn(|cx| cx.charge(Budget { memory: 2 << 20, ..Budget::ZERO }))?.join()
            })
        })
        .unwrap();
}

/// Nothing is spent by a task that does nothing, also with very large budgets.
#[test]
fn b6_huge_memory() {
    let rt = Runtime::builder()
        .workers(1)
        .budget(Budget { memory: u64::MAX - 1, ..Budget::UNLIMITED })
        .build()
        .unwrap();
    rt.run(|_| Ok(())).unwrap();
    assert_eq!(rt.budget().spent.memory, 0);
}

/// Suspended tasks that are gone are not counted.
#[test]
fn b7_suspended_count() {
    rt(1)
        .run(|cx| {
            let opts = NurseryOpts::new()
                .budget(Budget { ops: 5_000, ..Budget::UNLIMITED })
                .on_exhausted(OnExhausted::Suspend);
            cx.nursery_with(opts, |n| {
                let h = n.spawn(
                    |cx| loop {
                        cx.checkpoint()?
                    } as Result<()>,
                )?;
                while n.budget().suspended == 0 {
                    cx.yield_now()?;
                }
                h.cancel();
                assert!(h.join().is_err());
                assert_eq!(n.budget().suspended, 0);
                Ok(())
            })
        })
        .unwrap();
}

// ---------------------------------------------------------------- errors

/// A failure is heard of by the handle, or by the nursery: also if the handle is dropped just then.
#[test]
fn e1_isolate_race() {
    let rt = rt(2);
    let lost = rt
        .run(|cx| {
            let mut lost = 0;
            for round in 0..60_000_u64 {
                let turn = AtomicU64::new(0);
                let r = cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                    let h = n.spawn(|_| {
                        turn.store(1, SeqCst);
                        Err::<(), _>(Error::msg("x"))
                    })?;
                    let t = Instant::now();
                    while turn.load(SeqCst) == 0 && t.elapsed() < Duration::from_millis(2) {
                        std::hint::spin_loop();
                    }
                    for _ in 0..(round % 200) * 4 {
                        std::hint::spin_loop();
                    }
                    drop(h);
                    Ok(())
                });
                if r.is_ok() {
                    lost += 1;
                }
            }
            Ok(lost)
        })
        .unwrap();
    assert_eq!(lost, 0, "failures that nobody heard of");
}

/// Which task failed is told, whoever keeps a copy of the error.
#[test]
fn e3_task_info_with_clone() {
    let kept = Mutex::new(None);
    let e = rt(1)
        .run(|cx| {
            cx.nursery(|n| {
                n.spawn(|_| {
                    let e = Error::msg("a");
                    *kept.lock().unwrap() = Some(e.clone());
                    Err::<(), _>(e)
                })?
                .join()
            })
        })
        .unwrap_err();
    assert!(e.task().is_some());
}

// ---------------------------------------------------------------- layout

#[repr(align(16))]
#[derive(Clone, Copy)]
struct Al(u128);

/// Results and closures are stored where they are aligned.
#[test]
fn l1_alignment() {
    let x = Al(7);
    let r = rt(1)
        .run(|cx| {
            cx.nursery(|n| {
                let a = n.spawn(move |_| Ok(x))?;
                let a = a.join()?;
                Ok(a.0)
            })
        })
        .unwrap();
    assert_eq!(r, 7);
}

// ---------------------------------------------------------------- abort

#[budgeted]
fn cleanup() {
    for _ in 0..3 {
        std::hint::black_box(0);
    }
}
struct Cleans;
impl Drop for Cleans {
    fn drop(&mut self) {
        cleanup();
    }
}
#[budgeted]
#[allow(unconditional_recursion)]
fn dive(depth: u64) -> u64 {
    let _c = Cleans;
    let frame = [depth; 64];
    dive(depth + 1) + std::hint::black_box(frame)[3]
}

/// A recursion bomb whose frames clean up with budgeted code fails the task, not the process.
#[test]
fn a1_budgeted_in_unwind_of_overflow() {
    let e = rt(1).run(|_| Ok(dive(0))).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::StackOverflow { .. }), "{e}");
}

/// A payload that panics whenever it is dropped does not end the process, and does not keep a nursery.
struct Hydra;
impl Drop for Hydra {
    fn drop(&mut self) {
        panic_any(Hydra);
    }
}
#[test]
fn a2_hydra_output() {
    within(20, || {
        let rt = rt(2);
        let r = rt.run(|cx| {
            for round in 0..3000_u64 {
                let turn = AtomicU64::new(0);
                let _ = cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                    let h = n.spawn(|_| {
                        turn.store(1, SeqCst);
                        Ok(Hydra)
                    })?;
                    while turn.load(SeqCst) == 0 {
                        std::hint::spin_loop();
                    }
                    for _ in 0..(round % 200) * 4 {
                        std::hint::spin_loop();
                    }
                    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(h)))
                        .map_err(std::mem::forget);
                    Ok(())
                });
            }
            Ok(())
        });
        std::mem::forget(r);
    });
}

/// Whatever is derived from a token while that is cancelled is cancelled.
#[test]
fn c1_derived_while_cancelled() {
    let lost = within(30, || {
        let mut lost = 0;
        for round in 0..20_000 {
            let root = parcae::CancelToken::new();
            let go = AtomicBool::new(false);
            std::thread::scope(|s| {
                let canceller = s.spawn(|| {
                    while !go.load(SeqCst) {
                        std::hint::spin_loop();
                    }
                    for _ in 0..round % 500 {
                        std::hint::spin_loop();
                    }
                    root.cancel();
                });
                go.store(true, SeqCst);
                let children: Vec<_> = (0..400).map(|_| root.child()).collect();
                canceller.join().unwrap();
                lost += children.iter().filter(|child| !child.is_cancelled()).count();
            });
        }
        lost
    });
    assert_eq!(lost, 0, "tokens below a cancelled one that are not cancelled");
}

/// Odd stack sizes, parking, many at once, few stacks: everything ends, with a result or NoStack.
#[test]
fn s1_odd_stacks() {
    use parcae::stack::StackSize;
    within(60, || {
        for max in [usize::MAX, 40, 12, 6] {
            for det in 0..6_u64 {
                let builder = Runtime::builder().workers(2).max_stacks(max);
                let builder = if det > 0 { builder.deterministic(det) } else { builder };
                let rt = builder.build().unwrap();
                let r = rt.run(|cx| {
                    let sizes =
                        [64, 128, 256, 512, 1024].map(|k| StackSize::new(k * 1024).unwrap());
                    for round in 0..4_usize {
                        cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
                            let mut handles = Vec::new();
                            for i in 0..60_usize {
                                let opts = SpawnOpts::new().stack_size(sizes[(i * 7 + round) % 5]);
                                handles.push(n.spawn_with(opts, move |cx| {
                                    for _ in 0..i % 4 {
                                        cx.yield_now()?;
                                    }
                                    if i % 3 == 0 {
                                        let waker = cx.waker();
                                        cx.nursery(|m| {
                                            m.spawn(move |_| {
                                                waker.wake();
                                                Ok(())
                                            })?;
                                            cx.park()
                                        })?;
                                    }
                                    Ok(i)
                                })?);
                            }
                            let mut refused = 0;
                            for (i, h) in handles.into_iter().enumerate() {
                                match h.join() {
                                    Ok(k) => assert_eq!(k, i),
                                    Err(e) if matches!(e.kind(), ErrorKind::NoStack(_)) => {
                                        refused += 1
                                    }
                                    Err(e) => panic!("{e:?}"),
                                }
                            }
                            assert!(refused == 0 || max != usize::MAX);
                            Ok(())
                        })?;
                    }
                    Ok(())
                });
                if let Err(e) = r {
                    assert!(
                        matches!(e.kind(), ErrorKind::NoStack(_) | ErrorKind::Several(_)),
                        "{e:?}"
                    );
                }
            }
        }
    });
}

/// A mixed program: nurseries, budgets, cancels, panics, handles sent around.
fn program(rt: &Runtime, seed: u64) -> String {
    let r = rt.run(|cx| {
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = move |n: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x % n
        };
        let mut told = String::new();
        for _ in 0..20 {
            let budget = Budget {
                ops: 500 + next(5000),
                memory: 1000 + next(10_000),
                spawn_count: next(20),
                ..Budget::UNLIMITED
            };
            let grant = Budget {
                ops: 1 + next(300),
                memory: next(500),
                spawn_count: next(4),
                channel_ops: 1,
                syscalls: 1,
            };
            let on_exhausted =
                [OnExhausted::Refill, OnExhausted::Fail, OnExhausted::Suspend][next(3) as usize];
            let on_failure =
                [OnFailure::FailFast, OnFailure::Isolate, OnFailure::Collect][next(3) as usize];
            let opts = NurseryOpts::new()
                .child_budget(grant)
                .on_exhausted(on_exhausted)
                .on_failure(on_failure);
            let opts = if next(4) == 0 { opts } else { opts.budget(budget) };
            let mut standing = None;
            let r = cx.nursery_with(opts, |n| {
                let mut handles = Vec::new();
                for _ in 0..next(12) {
                    let (kind, much) = (next(9), next(400));
                    let inner = if next(2) == 0 {
                        None
                    } else {
                        Some(Budget {
                            ops: 20 + next(100),
                            memory: next(300),
                            spawn_count: 2,
                            ..Budget::ZERO
                        })
                    };
                    let spawn_opts = match next(4) {
                        0 => SpawnOpts::new().budget(Budget {
                            ops: 10 + next(200),
                            memory: next(100),
                            spawn_count: next(3),
                            channel_ops: 0,
                            syscalls: 0,
                        }),
                        1 => SpawnOpts::new()
                            .budget(Budget { ops: 10 + next(200), ..Budget::UNLIMITED }),
                        _ => SpawnOpts::new(),
                    };
                    let h = n.spawn_with(spawn_opts, move |cx| {
                        match kind {
                            0 => panic!("x"),
                            1 => return Err(Error::msg("y")),
                            2 => cx.charge(Budget { memory: much, ..Budget::ZERO })?,
                            3 | 4 => {
                                let opts = match inner {
                                    None => NurseryOpts::new(),
                                    Some(b) => NurseryOpts::new().budget(b),
                                };
                                cx.nursery_with(opts, |m| {
                                    let h = m.spawn(move |cx| {
                                        for _ in 0..much {
                                            cx.checkpoint()?;
                                        }
                                        Ok(())
                                    });
                                    for _ in 0..much {
                                        cx.checkpoint()?;
                                    }
                                    h?.join()
                                })?;
                            }
                            5 => {
                                cx.park()?;
                            }
                            _ => {
                                for _ in 0..much * 3 {
                                    cx.checkpoint()?;
                                }
                            }
                        }
                        Ok(much)
                    });
                    match h {
                        Ok(h) => handles.push(h),
                        Err(_) => break,
                    }
                }
                for _ in 0..next(30) {
                    cx.yield_now()?;
                }
                if next(3) == 0 {
                    n.recharge(Budget { ops: 100, ..Budget::ZERO })?;
                }
                let s = n.budget();
                for res in parcae::Resource::ALL {
                    let g = s.granted.get(res);
                    if g != u64::MAX {
                        assert_eq!(
                            g,
                            s.left.get(res) + s.held.get(res) + s.spent.get(res),
                            "{res}: {s:?}"
                        );
                    }
                }
                standing = Some(s);
                let keep = next(4);
                for (i, h) in handles.into_iter().enumerate() {
                    match (keep + i as u64) % 4 {
                        0 => drop(h),
                        1 => h.cancel(),
                        2 => {
                            h.cancel();
                            let _ = h.join();
                        }
                        _ => std::mem::forget(h),
                    }
                }
                for _ in 0..50 {
                    cx.yield_now()?;
                }
                n.cancel();
                Ok(())
            });
            told += &format!("{standing:?} {}\n", r.is_ok());
        }
        Ok(told)
    });
    format!("{r:?} {:?}", rt.budget())
}

/// Budget is conserved, nothing hangs, nothing panics in the runtime; the same seed gives the same run.
#[test]
fn f1_fuzz() {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        if !text.ends_with("x") {
            eprintln!("{text}");
        }
    }));
    within(60, || {
        for seed in 0..150_u64 {
            let limits = if seed % 2 == 0 {
                Budget::UNLIMITED
            } else {
                Budget {
                    ops: 10_000_000,
                    memory: 1 << 30,
                    spawn_count: 100_000,
                    ..Budget::UNLIMITED
                }
            };
            let make = || {
                Runtime::builder()
                    .workers(1 + seed as usize % 3)
                    .budget(limits)
                    .yield_interval([1, 7, 1024][seed as usize % 3])
            };
            let run = || {
                let rt = make().deterministic(seed).build().unwrap();
                let told = program(&rt, seed);
                (told, rt.event_log())
            };
            let (a, log_a) = run();
            let (b, log_b) = run();
            assert_eq!(a, b, "seed {seed}");
            assert!(log_a == log_b, "seed {seed}: different runs");
            assert!(!a.contains("anicked: as"), "seed {seed}: {a}");
            let rt = make().build().unwrap();
            let told = program(&rt, seed);
            assert!(!told.contains("anicked: as"), "seed {seed}: {told}");
            if seed % 2 == 1 {
                let s = rt.budget();
                assert_eq!(s.held, Budget { memory: 0, ..Budget::ZERO }, "seed {seed}: {s:?}");
                assert_eq!(s.granted.ops, s.left.ops + s.spent.ops);
                assert_eq!(s.granted.memory, s.left.memory + s.spent.memory);
            }
        }
    });
}

/// A child that is refused for want of a stack is counted for its own nursery.
#[test]
fn s2_refused_child_is_counted_where_it_belongs() {
    use parcae::stack::StackSize;
    within(8, || {
        for max in 3..6 {
            let rt = Runtime::builder().workers(1).max_stacks(max).build().unwrap();
            let odd = SpawnOpts::new().stack_size(StackSize::new(1 << 20).unwrap());
            let r = rt.run(|cx| {
                cx.nursery(|q| {
                    let h = q.spawn_with(odd.clone(), |_| Ok(()))?;
                    cx.shield(|| {
                        cx.nursery(|p| {
                            p.spawn(|_| Ok(()))?;
                            Ok(())
                        })
                    })?;
                    cx.shield(|| h.join())
                })
            });
            eprintln!("max {max}: {r:?} restarts {:?}", rt.stats());
            assert!(!format!("{:?}", rt.stats()).contains("restarts: 1"));
        }
    });
}

static LIVE: AtomicUsize = AtomicUsize::new(0);
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

/// Results are dropped once, whoever joins, drops, cancels where and when.
#[test]
fn p1_results_once() {
    within(60, || {
        for workers in [1, 2, 3] {
            let rt = rt(workers);
            for round in 0..300_usize {
                let _ = rt.run(|cx| {
                    cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                        let (tx, rx) = mpsc::channel::<TaskHandle<'_, Counted>>();
                        let rx = Arc::new(Mutex::new(rx));
                        for who in 0..4_usize {
                            let rx = Arc::clone(&rx);
                            n.spawn(move |cx| {
                                for k in 0.. {
                                    let got = rx.lock().unwrap().try_recv();
                                    match got {
                                        Ok(h) => match (k + who) % 5 {
                                            0 => drop(h),
                                            1 => drop(h.join()),
                                            2 => {
                                                h.cancel();
                                                drop(h.join());
                                            }
                                            3 => match h.try_join() {
                                                Ok(r) => drop(r),
                                                Err(h) => drop(h.join()),
                                            },
                                            _ => {
                                                let _ = std::thread::scope(|s| {
                                                    s.spawn(move || {
                                                        for _ in 0..100 {
                                                            if h.is_finished() {
                                                                break;
                                                            }
                                                            std::thread::yield_now();
                                                        }
                                                        drop(h)
                                                    })
                                                    .join()
                                                });
                                            }
                                        },
                                        Err(mpsc::TryRecvError::Empty) => cx.yield_now()?,
                                        Err(mpsc::TryRecvError::Disconnected) => break,
                                    }
                                }
                                Ok(())
                            })?;
                        }
                        for i in 0..40_usize {
                            let c = Counted::new();
                            tx.send(n.spawn(move |cx| {
                                if i % 3 == 0 {
                                    cx.yield_now()?;
                                }
                                if i % 7 == 0 {
                                    return Err(Error::msg("x"));
                                }
                                Ok(c)
                            })?)
                            .unwrap();
                            if i == 30 && round % 3 == 0 {
                                n.cancel();
                            }
                        }
                        drop(tx);
                        Ok(())
                    })
                });
                assert_eq!(LIVE.load(SeqCst), 0, "workers {workers} round {round}");
            }
        }
    });
}

/// Spawning from outside against the end of the runtime: every join comes back.
#[test]
fn p2_spawn_storm_against_drop() {
    within(60, || {
        for round in 0..200_u64 {
            let rt = rt(2);
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let handle = rt.handle();
                    std::thread::spawn(move || {
                        for i in 0..50_u64 {
                            let Ok(task) = handle.spawn(move |cx| {
                                if i % 2 == 0 {
                                    cx.nursery(|n| {
                                        n.spawn(
                                            |cx| loop {
                                                cx.park()?
                                            }
                                                as Result<()>,
                                        )?;
                                        n.cancel();
                                        Ok(())
                                    })?;
                                }
                                Ok(i)
                            }) else {
                                break;
                            };
                            if i % 3 != 0 {
                                let _ = task.join();
                            }
                        }
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_micros(round * 7));
            drop(rt);
            for t in threads {
                t.join().unwrap();
            }
        }
    });
}

/// A runtime inside of another's task, both ways, with joins across.
#[test]
fn p3_nested_runtimes() {
    within(30, || {
        for det in [false, true] {
            let outer = rt(2);
            let r = outer.run(|cx| {
                let b = Runtime::builder().workers(2);
                let inner = if det { b.deterministic(3) } else { b }.build()?;
                let one = outer.handle().spawn(|_| Ok(1))?;
                let sum = inner.run(|icx| {
                    let one = one.join()?; // of the other runtime
                    icx.nursery(|n| {
                        let two = n.spawn(|_| Ok(2))?;
                        Ok(one + two.join()?)
                    })
                })?;
                cx.checkpoint()?;
                let token = cx.token();
                let e = inner.run(|icx| {
                    let w = icx.waker();
                    let _c = token.on_cancel(move |_| w.wake());
                    token.cancel();
                    icx.park()?;
                    Ok(())
                });
                e?;
                assert!(cx.checkpoint().is_err());
                Ok(sum)
            });
            assert_eq!(r.unwrap(), 3);
        }
    });
}

/// The last owner of a runtime is one of its tasks.
#[test]
fn p4_dropped_by_its_task() {
    within(20, || {
        for _ in 0..100 {
            let rt = rt(2);
            let handle = rt.handle();
            let (tx, rx) = mpsc::channel();
            let task = handle
                .spawn(move |cx| {
                    let rt: Runtime = rx.recv().unwrap();
                    drop(rt);
                    assert!(cx.checkpoint().is_err());
                    cx.shield(|| cx.nursery(|n| n.spawn(|_| Ok(5))?.join()))
                })
                .unwrap();
            drop(handle);
            tx.send(rt).unwrap();
            assert_eq!(task.join().unwrap(), 5);
        }
    });
}

/// The account of a nursery that counts nothing takes nothing.
#[test]
fn b8_account_of_an_unlimited_nursery() {
    use parcae::cap::{BudgetLimits, Delegation};
    let rt = rt(1);
    let limits = BudgetLimits { total: Budget::SERVICE, per_request: Budget::SERVICE };
    let cap = rt.cap_budget(limits, Delegation::Forbidden);
    let account = rt.run(|cx| cx.nursery(|n| Ok(n.account()))).unwrap();
    assert_eq!(account.recharge(&cap, Budget::CHILD).unwrap(), Budget::ZERO);
    assert_eq!(cap.left(), Budget::SERVICE);
}

/// A result's destructor runs on the task: what waits there parks it, and does not block the worker.
#[test]
fn h8_join_in_the_drop_of_a_result() {
    within(5, || {
        struct Joins(Option<parcae::RootTask<()>>);
        impl Drop for Joins {
            fn drop(&mut self) {
                let _ = self.0.take().unwrap().join();
            }
        }
        let rt = rt(1);
        let handle = rt.handle();
        rt.run(|cx| {
            cx.nursery(|n| {
                let task = handle.spawn(|_| Ok(()))?;
                drop(n.spawn(move |_| Ok(Joins(Some(task))))?);
                Ok(())
            })
        })
        .unwrap();
    });
}
