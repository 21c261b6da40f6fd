//! Task-local values: made on first use, dropped at the end of their task, passed on by request.

use crate::support::*;
use parcae::prelude::*;
use parcae::sync::Event;
use parcae::{Error, Result};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

parcae::task_local! {
    static NUMBER: Cell<u64> = Cell::new(1);
    static WORDS: RefCell<Vec<String>> = RefCell::default();
    static SHARED: RefCell<Option<Arc<()>>> = RefCell::new(None);
    static COUNTED: Rc<Cell<u32>> = Rc::default();
    static FIRST: RefCell<Option<Noted>> = RefCell::new(None);
    static SECOND: RefCell<Option<Noted>> = RefCell::new(None);
    static LATE: Cell<u8> = Cell::new(3);
    static RECURSIVE: u8 = if DEPTH.fetch_add(1, SeqCst) == 0 { RECURSIVE.with(|_| 1) } else { 2 };
}

static DEPTH: AtomicUsize = AtomicUsize::new(0);

/// Calls a closure when it is dropped.
struct Noted(Box<dyn Fn()>);

impl Drop for Noted {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn every_task_has_a_value_of_its_own_over_its_waits() {
    everywhere_seeded(|cx, seed| {
        NUMBER.set(100);
        cx.nursery(|n| {
            for i in 0..10 {
                n.spawn(move |cx| {
                    assert_eq!(NUMBER.get(), 1, "not inherited");
                    NUMBER.set(i);
                    for turn in 0..5 {
                        pause(cx, (seed + turn) % 3)?;
                        assert_eq!(NUMBER.get(), i + turn);
                        NUMBER.with(|number| -> Result<()> {
                            cx.yield_now()?; // a reference over a wait
                            number.set(number.get() + 1);
                            Ok(())
                        })?;
                    }
                    WORDS.with_borrow_mut(|words| words.push(i.to_string()));
                    COUNTED.with(|count| count.set(count.get() + 1));
                    assert_eq!(WORDS.with_borrow(Vec::len), 1);
                    assert_eq!(COUNTED.with(|count| count.get()), 1);
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        assert_eq!(NUMBER.replace(1), 100);
        Ok(())
    });
}

/// However a task ends, its values are gone when its nursery is: returned, failed, panicked,
/// cancelled at any point. One that was cancelled before its start has made none.
#[test]
fn values_are_dropped_however_their_task_ends() {
    deterministic_seeded(100, |cx, seed| {
        let held = Arc::new(());
        for turns in 0..8 {
            let opts = NurseryOpts::new().on_failure(OnFailure::Isolate);
            let _ = cx.nursery_with(opts, |n| {
                let mut children = Vec::new();
                for i in 0..6_u64 {
                    let held = &held;
                    children.push(n.spawn(move |cx| {
                        SHARED.with_borrow_mut(|shared| *shared = Some(Arc::clone(held)));
                        pause(cx, (seed + i) % 5)?;
                        match i % 3 {
                            0 => Ok(()),
                            1 => Err(Error::msg("failed")),
                            _ => std::panic::resume_unwind(Box::new("panicked")),
                        }
                    })?);
                }
                pause(cx, turns)?;
                children[(seed % 6) as usize].cancel();
                for child in children {
                    let _ = child.join();
                }
                assert_eq!(Arc::strong_count(&held), 1, "before a join returns");
                n.spawn(|cx| {
                    SHARED.with_borrow_mut(|shared| *shared = Some(Arc::clone(&held)));
                    asleep(cx)
                })?;
                pause(cx, turns)?;
                n.cancel();
                Ok(())
            });
            assert_eq!(Arc::strong_count(&held), 1);
        }
        Ok(())
    });
}

/// A destructor runs on its task: it knows its other values, waits, and may be the last user of a
/// key. The latest value goes first. A key whose value is gone is refused.
#[test]
fn destructors_run_on_their_task_in_reverse_order() {
    everywhere(|cx| {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let go = Arc::new(Event::new());
        cx.nursery(|n| {
            let (first, second) = (Arc::clone(&notes), Arc::clone(&notes));
            let opened = Arc::clone(&go);
            let child = n.spawn(move |_| {
                NUMBER.set(42);
                FIRST.with_borrow_mut(|slot| {
                    *slot = Some(Noted(Box::new(move || {
                        let again = SECOND.try_with(|_| ()).is_err();
                        let own = FIRST.try_with(|_| ()).is_err();
                        first.lock().unwrap().push(format!(
                            "first {} {again} {own} {}",
                            NUMBER.get(),
                            LATE.get()
                        ));
                    })));
                });
                SECOND.with_borrow_mut(|slot| {
                    *slot = Some(Noted(Box::new(move || {
                        opened.wait().unwrap(); // parks the task
                        second.lock().unwrap().push("second".to_string());
                    })));
                });
                Ok(())
            })?;
            pause(cx, 10)?;
            assert!(!child.is_finished(), "it waits in a destructor");
            go.set();
            child.join()
        })?;
        assert_eq!(*notes.lock().unwrap(), ["second", "first 42 true true 3"]);
        Ok(())
    });
}

/// A destructor that panics harms neither the task's result nor its other values.
#[test]
fn a_panic_of_a_destructor_is_contained() {
    deterministic(|cx| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let value = cx.nursery(|n| {
            let counts = Arc::clone(&dropped);
            n.spawn(move |_| {
                FIRST.with_borrow_mut(|slot| {
                    *slot = Some(Noted(Box::new(move || {
                        counts.fetch_add(1, SeqCst);
                    })));
                });
                SECOND.with_borrow_mut(|slot| {
                    *slot = Some(Noted(Box::new(|| {
                        std::panic::resume_unwind(Box::new("in a destructor"))
                    })));
                });
                Ok(5)
            })?
            .join()
        })?;
        assert_eq!((value, dropped.load(SeqCst)), (5, 1));
        Ok(())
    });
}

#[test]
fn a_value_is_passed_on_by_request_to_children_and_roots() {
    with_runtimes(|rt| {
        let root = {
            let handle = rt.handle();
            rt.run(move |cx| {
                NUMBER.set(9);
                cx.nursery(|n| {
                    let child = n.spawn(NUMBER.inherit(|cx: &Cx| {
                        let same = NUMBER.get();
                        NUMBER.set(10); // a copy: the parent keeps its own
                        let below = NUMBER.inherit(|_| Ok(NUMBER.get()));
                        Ok((same, cx.nursery(|n| n.spawn(below)?.join())?))
                    }))?;
                    assert_eq!(child.join()?, (9, 10));
                    assert_eq!(NUMBER.get(), 9);
                    Ok(())
                })?;
                WORDS.with_borrow_mut(|words| words.push("passed".into()));
                handle.spawn(WORDS.inherit(|_| Ok(WORDS.with_borrow(|words| words.join(" ")))))
            })
            .unwrap()
        };
        // Its caller is a thread, so there is no value to pass on.
        let outside = rt.spawn(NUMBER.inherit(|_| Ok(NUMBER.get()))).unwrap();
        // The deterministic executor runs roots while another runs.
        rt.run(|cx| {
            while !(root.is_finished() && outside.is_finished()) {
                cx.yield_now()?;
            }
            Ok(())
        })
        .unwrap();
        assert_eq!((root.join().unwrap(), outside.join().unwrap()), ("passed".to_string(), 1));
    });
}

#[test]
fn outside_of_tasks_there_is_no_value_and_the_error_says_so() {
    let error = NUMBER.try_with(Cell::get).unwrap_err();
    assert!(error.to_string().contains("outside of a task"), "{error}");
    let error = runtime(1).run(|_| Ok(RECURSIVE.try_with(|_| ()).is_err()));
    assert!(error.is_err(), "used by its own initialiser");
}
