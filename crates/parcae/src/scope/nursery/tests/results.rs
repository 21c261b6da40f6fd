//! Results of children, handles and nurseries.

use super::*;
use crate::nursery::NurseryState;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

// rule: S0-PROFILE-3, S0-PROFILE-4, S0-SUBMIT-1, S0-SUBMIT-2, S1-PROFILE-2, S1-TEST-3
#[test]
fn children_borrow_and_their_values_come_back() {
    everywhere(|cx| {
        let words: Vec<String> = (0..20).map(|n| format!("word {n}")).collect();
        let lengths = cx.nursery(|n| {
            let handles: Vec<_> =
                words.iter().map(|word| n.spawn(move |_| Ok(word.len()))).collect::<Result<_>>()?;
            handles.into_iter().map(TaskHandle::join).collect::<Result<Vec<_>>>()
        })?;
        assert_eq!(lengths, words.iter().map(String::len).collect::<Vec<_>>());
        Ok(())
    });
}

// rule: S0-TASK-8, S2-ENTRY-2, S4-ORD-4, S4-ORD-5
#[test]
fn values_of_any_size_and_alignment_come_back() {
    #[repr(align(64))]
    struct Aligned([u8; 64]);
    everywhere(|cx| {
        cx.nursery(|n| {
            let large = n.spawn(|_| Ok([7_u64; 100]))?;
            let aligned = n.spawn(|_| Ok(Aligned([9; 64])))?;
            let nothing = n.spawn(|_| Ok(()))?;
            assert_eq!(large.join()?, [7; 100]);
            let value = aligned.join()?;
            assert!((&raw const value).addr().is_multiple_of(64) && value.0 == [9; 64]);
            nothing.join()
        })
    });
}

// rule: S0-NURSERY-2, S0-NURSERY-10, S0-TASK-5, S0-TERM-6, S1-AWAIT-1, S1-AWAIT-2, S1-AWAIT-3
// rule: S1-AWAIT-4, S1-GUARD-1, S1-GUARD-2, S1-MODULE-3, S1-NOTIFY-1, S1-NOTIFY-3, S1-NOTIFY-4
// rule: S1-NURSERY-4, S1-NURSERY-5, S2-API-4, S2-SCOPE-2
#[test]
fn the_end_waits_for_children_whose_handles_were_dropped() {
    everywhere(|cx| {
        let done = AtomicUsize::new(0);
        cx.nursery(|n| {
            for _ in 0..50 {
                n.spawn(|cx| {
                    for _ in 0..5 {
                        cx.yield_now()?;
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        assert_eq!(done.into_inner(), 50);
        Ok(())
    });
}

// rule: S0-NURSERY-12, S0-TASK-8
#[test]
fn values_that_nobody_takes_are_dropped_once() {
    struct Counted<'c>(&'c AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    everywhere(|cx| {
        let dropped = AtomicUsize::new(0);
        cx.nursery(|n| {
            for round in 0..30 {
                let handle = n.spawn(|cx| {
                    cx.yield_now()?;
                    Ok(Counted(&dropped))
                })?;
                match round % 3 {
                    0 => drop(handle),
                    1 => drop(handle.join()?),
                    _ => {
                        while !handle.is_finished() {
                            cx.yield_now()?;
                        }
                        drop(handle);
                    }
                }
            }
            Ok(())
        })?;
        assert_eq!(dropped.into_inner(), 30);
        Ok(())
    });
}

// rule: S0-SEC-4, S0-VYIELD-3
#[test]
fn a_handle_can_be_joined_by_a_sibling() {
    everywhere(|cx| {
        cx.nursery(|n| {
            let first = n.spawn(|cx| {
                cx.yield_now()?;
                Ok(20)
            })?;
            let second = n.spawn(move |_| Ok(first.join()? + 1))?;
            assert_eq!(second.join()?, 21);
            Ok(())
        })
    });
}

#[test]
fn try_join_gives_the_handle_back_until_the_child_has_ended() {
    everywhere(|cx| {
        cx.nursery(|n| {
            let mut handle = n.spawn(|cx| {
                cx.yield_now()?;
                Ok(5)
            })?;
            let value = loop {
                match handle.try_join() {
                    Ok(value) => break value?,
                    Err(again) => handle = again,
                }
                cx.yield_now()?;
            };
            assert_eq!(value, 5);
            Ok(())
        })
    });
}

// rule: S0-NURSERY-3, S0-NURSERY-13, S1-NURSERY-3, S2-SCOPE-3
#[test]
fn nurseries_nest_in_tasks_and_in_bodies() {
    fn tree(cx: &Cx, depth: u32) -> Result<u64> {
        if depth == 0 {
            return Ok(1);
        }
        cx.nursery(|n| {
            let left = n.spawn(move |cx| tree(cx, depth - 1))?;
            let right = cx.nursery(|_| Ok(0_u64))?;
            let other = n.spawn(move |cx| tree(cx, depth - 1))?;
            Ok(left.join()? + right + other.join()?)
        })
    }
    everywhere(|cx| {
        assert_eq!(tree(cx, 6)?, 64);
        Ok(())
    });
}

// rule: S1-TEST-3, S2-SCOPE-3
#[test]
fn nurseries_nest_ten_thousand_deep() {
    fn down(cx: &Cx, depth: u32) -> Result<u32> {
        if depth == 0 {
            return Ok(0);
        }
        cx.nursery(|n| Ok(n.spawn(move |cx| down(cx, depth - 1))?.join()? + 1))
    }
    let depth = if cfg!(parcae_valgrind) { 500 } else { 10_000 };
    let rt = Runtime::builder().workers(2).build().unwrap();
    assert_eq!(rt.run(|cx| down(cx, depth)).unwrap(), depth);
}

// rule: S2-SLOT-1, S2-SLOT-2
#[test]
fn result_slots_need_no_lock() {
    everywhere(|cx| {
        let mut slots = [0_usize; 64];
        cx.nursery(|n| {
            for (index, slot) in slots.iter_mut().enumerate() {
                n.spawn(move |_| {
                    *slot = index * index;
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        assert!(slots.iter().enumerate().all(|(index, &slot)| slot == index * index));
        Ok(())
    });
}

// rule: S1-NURSERY-1, S1-NURSERY-6, S1-TEST-4
#[test]
fn the_body_sees_the_states_of_its_nursery() {
    everywhere(|cx| {
        let outcome = cx.nursery(|n| {
            assert_eq!(n.state(), NurseryState::Open);
            n.spawn(forever)?;
            assert_eq!(n.live(), 1);
            n.cancel();
            assert_eq!(n.state(), NurseryState::Cancelling);
            assert!(n.spawn(|_| Ok(())).is_err());
            Ok(())
        });
        assert!(matches!(kind_of(outcome), ErrorKind::Cancelled(crate::CancelReason::Explicit)));
        Ok(())
    });
}

#[test]
fn finished_children_leave_nothing_behind() {
    let rt = Runtime::builder().workers(1).deterministic(1).build().unwrap();
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..200 {
                for _ in 0..50 {
                    n.spawn(|cx| cx.yield_now())?;
                }
                while n.live() > 0 {
                    cx.yield_now()?;
                }
            }
            Ok(())
        })
    })
    .unwrap();
    // Ten thousand children, fifty at a time: one chunk of records was enough.
    assert_eq!(rt.live_tasks(), 0);
}

// rule: S0-NURSERY-7, S0-TASK-5
#[test]
fn names_and_places_of_tasks() {
    everywhere(|cx| {
        cx.nursery_with(NurseryOpts::new().name("outer"), |n| {
            let line = line!() + 1;
            let child = n.spawn_with(SpawnOpts::new().name("child"), |cx| Ok(cx.info()))?;
            let info = child.join()?;
            assert_eq!((info.name(), info.nursery()), (Some("child"), Some("outer")));
            assert_eq!(info.spawned_at().line(), line);
            assert!(info.to_string().starts_with("task `child` of `outer`, spawned at "), "{info}");
            Ok(())
        })
    });
}

// rule: S2-STACK-1
#[test]
fn stacks_of_another_size_are_bound_and_given_back() {
    use crate::stack::StackSize;
    everywhere(|cx| {
        let usual = cx.stack_left();
        let seen = Mutex::new(Vec::new());
        cx.nursery(|n| {
            for bytes in [64 << 10, 1 << 20, 64 << 10, 256 << 10] {
                let opts = SpawnOpts::new().stack_size(StackSize::new(bytes)?);
                let seen = &seen;
                n.spawn_with(opts, move |cx| {
                    let before = cx.stack_left();
                    cx.yield_now()?;
                    assert_eq!(before, cx.stack_left());
                    seen.lock().unwrap().push((bytes, before));
                    Ok(())
                })?;
                n.spawn(|_| Ok(()))?;
            }
            Ok(())
        })?;
        for (bytes, left) in seen.into_inner().unwrap() {
            assert!(left < bytes && left > bytes - 32 * 1024, "{left} of {bytes}");
        }
        assert_eq!(usual, cx.stack_left());
        Ok(())
    });
}
