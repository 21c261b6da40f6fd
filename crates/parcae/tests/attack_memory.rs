//! Attacks on the allocator wrapper.

use parcae::prelude::*;
use parcae::{Error, Result};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: parcae::Allocator = parcae::Allocator::system();

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

/// What a task returns is never taken for a frame: a named child (its `Extra` is freed after the
/// result was stored) whose result is a number.
#[test]
fn m1_output_as_frame() {
    rt(1)
        .run(|cx| {
            cx.nursery(|n| {
                let h = n.spawn_with(SpawnOpts::new().name("x"), |_| {
                    Ok([0x4141_4141_4141_4140_u64; 4])
                })?;
                h.join()
            })
        })
        .unwrap();
}

/// The same for what a closure captures: the log allocates between pick and start.
#[test]
fn m2_closure_as_frame() {
    let rt = Runtime::builder().workers(1).deterministic(1).build().unwrap();
    let a = [0x4141_4141_4141_4140_u64; 4];
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..5000 {
                n.spawn(move |_| Ok(std::hint::black_box(a)[1]))?;
            }
            Ok(())
        })
    })
    .unwrap();
}

/// The same for a closure in a box, in a record that another result lay in.
#[test]
fn m3_boxed_closure() {
    let big = [0x4141_4141_4141_4140_u64; 40];
    rt(1)
        .run(|cx| {
            cx.nursery(|n| {
                for _ in 0..10 {
                    n.spawn(|_| Ok([0x4141_4141_4141_4140_u64; 6]))?.join()?;
                    n.spawn(move |_| Ok(std::hint::black_box(big)[3]))?.join()?;
                }
                Ok(())
            })
        })
        .unwrap();
}

fn tenant(memory: u64) -> NurseryOpts {
    NurseryOpts::new()
        .budget(Budget { memory, ..Budget::UNLIMITED })
        .child_budget(Budget { memory, ..Budget::UNLIMITED })
}

/// One allocation that is far too large is an error of the task, not a hang.
#[test]
fn m4_one_large_allocation() {
    within(5, || {
        let r = rt(1).run(|cx| {
            cx.nursery_with(tenant(1 << 20), |n| {
                n.spawn(|cx| {
                    let v = vec![1_u8; 16 << 20];
                    cx.checkpoint()?;
                    Ok(v.len())
                })?
                .join()
            })
        });
        assert!(matches!(r.unwrap_err().kind(), ErrorKind::MemoryBudgetExhausted(_)));
    });
}

/// Nobody else runs in the middle of a `Vec::push` (a `RefCell` borrow, a lock).
#[test]
fn m5_switch_in_allocation() {
    thread_local!(static L: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) });
    within(5, || {
        static CLASH: AtomicBool = AtomicBool::new(false);
        let r = rt(1).run(|cx| {
            cx.nursery(|n| {
                n.spawn(|cx| {
                    cx.nursery_with(tenant(1 << 16), |n| {
                        n.spawn(|_| {
                            L.with_borrow_mut(|l| l.push(vec![0; 1 << 20]));
                            Ok(())
                        })?
                        .join()
                    })
                })?;
                for _ in 0..1000 {
                    cx.yield_now()?;
                    if L.with(|l| l.try_borrow().is_err()) {
                        CLASH.store(true, SeqCst);
                        n.cancel();
                        break;
                    }
                }
                Ok(())
            })
        });
        let _ = r;
        assert!(!CLASH.load(SeqCst), "another task ran in the middle of an allocation");
    });
}

/// A lock that is held over an allocation is not held over a wait: one tenant cannot stop a worker.
#[test]
fn m6_lock_over_allocation() {
    within(5, || {
        let m = Mutex::new(Vec::new());
        let r = rt(1).run(|cx| {
            cx.nursery(|n| {
                let m = &m;
                n.spawn(move |cx| {
                    cx.nursery_with(tenant(1 << 16), |n| {
                        n.spawn(move |_| {
                            m.lock().unwrap().push(vec![0_u8; 1 << 20]);
                            Ok(())
                        })?
                        .join()
                    })
                })?;
                for _ in 0..100 {
                    cx.yield_now()?;
                    drop(m.lock().unwrap());
                }
                n.cancel();
                Ok(())
            })
        });
        let _ = r;
    });
}

/// A charge of nothing does not pay a debt.
#[test]
fn m7_debt_is_not_forgiven() {
    within(20, || {
        let r = rt(1).run(|cx| {
            cx.nursery_with(tenant(1 << 20), |n| {
                n.spawn(|cx| {
                    let mut hoard = Vec::new();
                    for _ in 0..3 {
                        hoard.push(vec![1_u8; 1 << 20]);
                        cx.charge(Budget::ZERO)?;
                    }
                    cx.checkpoint()?;
                    Ok(hoard.len())
                })?
                .join()
            })
        });
        let e = r.expect_err("a hundred times its budget");
        assert!(matches!(e.kind(), ErrorKind::MemoryBudgetExhausted(_)), "{e}");
    });
}

/// Opening a nursery does not pay a debt.
#[test]
fn m8_nursery_does_not_forgive() {
    within(20, || {
        let r = rt(1).run(|cx| {
            cx.nursery_with(tenant(1 << 20), |n| {
                n.spawn(|cx| {
                    let mut hoard = Vec::new();
                    for _ in 0..3 {
                        hoard.push(vec![1_u8; 1 << 20]);
                        cx.nursery(|_| Ok(()))?;
                    }
                    cx.checkpoint()?;
                    Ok(hoard.len())
                })?
                .join()
            })
        });
        let e = r.expect_err("a hundred times its budget");
        assert!(matches!(e.kind(), ErrorKind::MemoryBudgetExhausted(_)), "{e}");
    });
}

#[test]
fn z_unused() -> Result<()> {
    let _ = Error::msg("");
    Ok(())
}

/// As m2, with the log growing at every possible event.
#[test]
fn m2b_closure_as_frame() {
    let a = [0x4141_4141_4141_4140_u64; 4];
    for yields in 0..40 {
        let rt = Runtime::builder().workers(1).deterministic(1).build().unwrap();
        rt.run(|cx| {
            for _ in 0..yields {
                cx.yield_now()?;
            }
            cx.nursery(|n| {
                for _ in 0..200 {
                    n.spawn(move |_| Ok(std::hint::black_box(a)[1]))?;
                }
                Ok(())
            })
        })
        .unwrap();
    }
}

/// Memory that was allocated before a nursery and freed in it makes no budget.
#[test]
fn m9_freed_in_a_nursery() {
    within(10, || {
        let r = rt(1).run(|cx| {
            cx.nursery_with(tenant(10 << 20), |n| {
                n.spawn(|cx| {
                    let v = std::hint::black_box(vec![1_u8; 5 << 20]);
                    cx.checkpoint()?;
                    let before = cx.budget().memory;
                    cx.nursery(|_| {
                        drop(v);
                        Ok(())
                    })?;
                    assert!(cx.budget().memory >= before + (4 << 20));
                    assert!(cx.budget().memory <= 10 << 20);
                    Ok(7)
                })?
                .join()
            })
        });
        assert_eq!(r.unwrap(), 7);
    });
}

/// A cancellation reaches a task that waits for memory, wherever it allocates: also if it does so in the
/// runtime, with a lock held.
#[test]
fn m10_lock_of_the_runtime_over_allocation() {
    within(10, || {
        for pad in 0..60 {
            let _ = rt(1).run(|cx| {
                cx.nursery_with(tenant(1 << 16), |n| {
                    n.spawn(move |cx| {
                        let _hoard = std::hint::black_box(vec![1_u8; (4 << 16) - pad * 16]);
                        cx.park() // registers with the node, under its lock
                    })?;
                    for _ in 0..20 {
                        cx.yield_now()?;
                    }
                    n.cancel();
                    Ok(())
                })
            });
        }
    });
}
