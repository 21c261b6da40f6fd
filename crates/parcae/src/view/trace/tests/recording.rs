//! The contents of recordings.

use super::*;
use crate::sched::events::{EventKind, Words};

#[test]
fn a_trace_is_whole_and_agrees_with_the_counters_under_many_seeds() {
    for seed in 0..60 {
        for workers in [1, 2, 5] {
            let rt = Runtime::builder().deterministic(seed).workers(workers).build().unwrap();
            let recording = rt.trace(TraceOpts::new()).unwrap();
            program(&rt, seed);
            let trace = recording.stop();
            trace.check().unwrap_or_else(|flaw| panic!("seed {seed}: {flaw}"));
            assert!(trace.is_complete());
            assert_eq!(trace.counts(), counted(rt.stats().counters(), 1), "seed {seed}");
            assert_eq!(trace.len() * 32, rt.event_log().len(), "the log is the same events");
        }
    }
}

// rule: S3-EVID-1
#[test]
fn a_trace_is_whole_and_agrees_with_the_counters_on_threads() {
    for seed in 0..15 {
        for workers in [1, 2, 4] {
            let rt = Runtime::builder().seed(seed).workers(workers).build().unwrap();
            calm_down(&rt);
            let before = counted(rt.stats().counters(), 0);
            let recording = rt.trace(TraceOpts::new().events(1 << 16)).unwrap();
            for round in 0..3 {
                program(&rt, seed + round);
            }
            calm_down(&rt);
            let counters = counted(rt.stats().counters(), 3);
            let trace = recording.stop();
            trace.check().unwrap_or_else(|flaw| panic!("seed {seed}: {flaw}"));
            assert!(trace.is_complete());
            let counts = trace.counts();
            // A worker that falls asleep just when the recording begins is in one of them only.
            let slept = (counts.slept + before.slept).abs_diff(counters.slept);
            assert!(slept <= workers as u64, "{counts:?} {counters:?}");
            assert_eq!(EventCounts { slept: counters.slept, ..counts }, counters);
        }
    }
}

#[test]
fn stolen_and_movable_tasks_are_traced_in_order() {
    for seed in 0..20 {
        let rt = Runtime::builder().seed(seed).workers(4).build().unwrap();
        let recording = rt.trace(TraceOpts::new().events(1 << 16)).unwrap();
        rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..200 {
                    let opts = SpawnOpts::new();
                    // SAFETY: nothing but `Send` things on its stack, and no thread-local data.
                    let opts = unsafe { opts.migratable() };
                    n.spawn_with(opts, |cx| (0..5).try_for_each(|_| cx.yield_now()))?;
                }
                Ok(())
            })
        })
        .unwrap();
        calm_down(&rt);
        let trace = recording.stop();
        trace.check().unwrap_or_else(|flaw| panic!("seed {seed}: {flaw}"));
        assert_eq!(trace.counts().ended, 201);
    }
}

// rule: S3-EVID-2
#[test]
fn events_say_who_why_and_where() {
    let rt = Runtime::builder().deterministic(3).workers(1).build().unwrap();
    let recording = rt.trace(TraceOpts::new()).unwrap();
    let line = line!() + 3;
    rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new(), |n| {
            let slow = n.spawn(|cx| cx.sleep(Duration::from_millis(1)))?;
            n.spawn_with(SpawnOpts::new().name("fast"), |_| Ok(()))?;
            slow.join()
        })
    })
    .unwrap();
    let trace = recording.stop();
    let events: Vec<TraceEvent> = trace.events().collect();
    let of = |wanted: &dyn Fn(&What) -> bool| events.iter().find(|e| wanted(&e.what)).unwrap();
    let root = of(&|what| matches!(what, What::Spawned { by: 0 })).task;
    let slow = of(&|what| matches!(what, What::Spawned { by } if *by == root)).task;
    let fast = of(&|what| matches!(what, What::Started { name: Some(n), .. } if &**n == "fast"));
    assert_ne!(fast.task, slow);
    let started = events.iter().find(|e| e.task == slow && matches!(e.what, What::Started { .. }));
    let What::Started { name: None, spawned_at: Some(place) } = &started.unwrap().what else {
        panic!("{started:?}");
    };
    assert_eq!((place.file(), place.line()), (file!(), line));
    let waits = of(&|what| matches!(what, What::Parked { of: Some(_), .. }));
    assert!(matches!(waits.what, What::Parked { of: Some(of), .. } if of == slow));
    let sleeps = of(&|what| matches!(what, What::Parked { reason, .. } if &**reason == "time"));
    assert_eq!(sleeps.task, slow);
    let timer = of(&|what| matches!(what, What::TimerFired));
    assert_eq!(timer.task, slow);
    assert!(timer.at >= sleeps.at + Duration::from_micros(990), "virtual time");
    let woken = of(&|what| matches!(what, What::Woken { by, .. } if *by == slow));
    assert_eq!(woken.task, root, "who ends wakes who joins");
}

#[test]
fn budgets_and_cancellation_are_traced() {
    let rt = Runtime::builder().deterministic(5).workers(2).build().unwrap();
    let recording = rt.trace(TraceOpts::new()).unwrap();
    rt.run(|cx| {
        let little = Budget { ops: 50, ..Budget::UNLIMITED };
        let opts = NurseryOpts::new().budget(little).on_exhausted(OnExhausted::Suspend);
        cx.nursery_with(opts, |n| {
            let works =
                n.spawn(|cx| (0..80).try_for_each(|_| cx.checkpoint()).map(|()| cx.yield_now()))?;
            while n.suspended().is_empty() {
                cx.yield_now()?;
            }
            n.recharge(Budget { ops: 100, ..Budget::ZERO })?;
            works.join()??;
            n.spawn(
                |cx| loop {
                    cx.yield_now()?;
                } as crate::Result<()>,
            )?;
            cx.yield_now()?;
            n.wind_down();
            Ok(())
        })
    })
    .unwrap();
    let trace = recording.stop();
    trace.check().unwrap();
    let ops = crate::budget::Resource::Ops;
    let place = |wanted: What| trace.events().position(|event| event.what == wanted);
    let exhausted = place(What::Exhausted { resource: ops }).unwrap();
    let recharged = trace
        .events()
        .skip(exhausted)
        .find(|event| event.what == What::Recharged { resource: ops });
    assert!(recharged.is_some());
    let cancelled = What::Cancelled { reason: CancelReason::Explicit };
    let told: Vec<_> = trace.events().filter(|event| event.what == cancelled).collect();
    assert!(!told.is_empty());
    let tasks: std::collections::HashSet<_> = told.iter().map(|event| event.task).collect();
    assert_eq!(tasks.len(), told.len(), "each is told once");
}

#[test]
fn a_full_ring_keeps_the_end_and_counts_the_rest() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let mut recording = rt.trace(TraceOpts::new().events(100)).unwrap();
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..2 {
                n.spawn(|cx| (0..1000).try_for_each(|_| cx.yield_now()))?;
            }
            Ok(())
        })
    })
    .unwrap();
    let trace = loop {
        let trace = recording.snapshot();
        let last = trace.events().filter(|event| event.worker == Some(0)).last();
        if last.is_some_and(|last| last.what == What::Slept) {
            break trace;
        }
        std::thread::sleep(Duration::from_millis(1)); // it has not gone to sleep yet
    };
    assert!(trace.lost() > 1000 && !trace.is_complete());
    assert!(trace.len() <= 128 + 64, "rounded up, and the outside's");
    trace.check().unwrap();
    let again = recording.snapshot();
    assert_eq!(again.len(), trace.len(), "nothing happened since");
}

#[test]
fn one_recording_at_a_time_and_another_after_it() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let first = rt.trace(TraceOpts::new().events(64)).unwrap();
    assert!(matches!(rt.trace(TraceOpts::new()), Err(TraceError::Busy)));
    let error = rt.trace_to("never", TraceOpts::new()).unwrap_err().to_string();
    assert!(error.contains("one at a time"), "{error}");
    rt.run(|_| Ok(())).unwrap();
    calm_down(&rt); // its end belongs to this recording
    drop(first);
    for events in [64, 4096, 128, 1 << 15] {
        let next = rt.trace(TraceOpts::new().events(events)).unwrap();
        rt.run(|cx| cx.yield_now()).unwrap();
        calm_down(&rt);
        let trace = next.stop();
        trace.check().unwrap();
        assert_eq!(trace.counts().ended, 1, "what came before is not in it");
    }
}

/// A worker that is in the middle of a turn finds the larger ring of the next recording at once.
#[test]
fn a_recording_with_larger_rings_misses_nothing() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let yields = |cx: &crate::Cx, n: usize| (0..n).try_for_each(|_| cx.yield_now());
    rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(move |cx| yields(cx, 2_000))?;
            for round in 6..12 {
                let recording = rt.trace(TraceOpts::new().events(1 << round)).unwrap();
                yields(cx, 200)?; // so that the clock is rarely read
                drop(recording);
                let recording = rt.trace(TraceOpts::new().events(1 << (round + 6))).unwrap();
                yields(cx, 5)?;
                let trace = recording.stop();
                trace.check().unwrap();
                assert!(trace.counts().yielded >= 10, "round {round}: {:?}", trace.counts());
            }
            Ok(())
        })
    })
    .unwrap();
}

/// Events that come fast share a reading of the clock, but not with an earlier recording.
#[test]
fn no_event_is_older_than_its_recording() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    for round in 0..5 {
        let recording = rt.trace(TraceOpts::new()).unwrap();
        let began = Duration::from_nanos(
            recording.source.shared.rate().nanos(recording.source.shared.ticks()),
        );
        rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..50 {
                    n.spawn(|cx| cx.yield_now())?;
                }
                Ok(())
            })
        })
        .unwrap();
        calm_down(&rt);
        let trace = recording.stop();
        // Ticks are converted at a rate that is measured anew, and is good to a thousandth.
        let slack = began / 500 + Duration::from_micros(50);
        // Of tasks: a worker may have read the clock for its sleep just before the recording began.
        let mut events = trace.events();
        let first = events.find(|event| event.worker == Some(0) && event.task != 0).unwrap();
        assert!(first.at + slack >= began, "round {round}: {first:?} before {began:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The worker is busy and writes no event between two recordings: its last reading of the clock is
/// of the first one.
#[test]
fn a_recording_that_begins_in_a_turn_reads_the_clock() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let yields = |cx: &Cx| {
        cx.nursery(|n| {
            n.spawn(|cx| (0..20).try_for_each(|_| cx.yield_now()))?;
            n.spawn(|cx| (0..20).try_for_each(|_| cx.yield_now()))?;
            Ok(())
        })
    };
    let (trace, began) = rt
        .run(|cx| {
            let first = rt.trace(TraceOpts::new()).unwrap();
            yields(cx)?;
            drop(first.stop());
            std::thread::sleep(Duration::from_millis(20));
            let second = rt.trace(TraceOpts::new()).unwrap();
            let shared = &second.source.shared;
            let began = Duration::from_nanos(shared.rate().nanos(shared.ticks()));
            yields(cx)?;
            Ok((second.stop(), began))
        })
        .unwrap();
    // As above.
    let slack = began / 500 + Duration::from_micros(50);
    let first = trace.events().find(|event| event.worker == Some(0) && event.task != 0).unwrap();
    assert!(first.at + slack >= began, "{first:?} before {began:?}");
}

#[test]
fn tasks_that_are_refused_are_traced_too() {
    let rt = Runtime::builder().workers(1).max_stacks(2).build().unwrap();
    let recording = rt.trace(TraceOpts::new()).unwrap();
    let outcome = rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..4 {
                n.spawn(|cx| cx.sleep(Duration::from_millis(1)))?;
            }
            Ok(())
        })
    });
    assert!(outcome.is_err());
    calm_down(&rt);
    let trace = recording.stop();
    trace.check().unwrap();
    assert_eq!(trace.counts().ended, trace.counts().spawned_here + 1);
}

#[test]
fn a_reader_disturbs_nobody() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let mut recording = rt.trace(TraceOpts::new().events(256)).unwrap();
    std::thread::scope(|s| {
        let run = s.spawn(|| (0..20).for_each(|seed| program(&rt, seed)));
        while !run.is_finished() {
            // Read while it is written: what is there is whole and in order.
            let trace = recording.snapshot();
            trace.check().unwrap();
        }
        run.join().unwrap();
    });
}

#[test]
fn a_flaw_is_found() {
    let rt = Runtime::builder().deterministic(1).workers(2).build().unwrap();
    let recording = rt.trace(TraceOpts::new()).unwrap();
    program(&rt, 1);
    let whole = recording.stop();
    let find =
        |kind: EventKind| whole.batch.events.iter().position(|w| w[1] as u8 == kind as u8).unwrap();
    let mutate = |change: &dyn Fn(&mut Vec<Words>)| {
        let mut trace = Trace {
            known: std::sync::Arc::default(),
            batch: crate::view::trace::recording::EventBatch {
                events: whole.batch.events.clone(),
                lost: Vec::new(),
            },
            rate: whole.rate,
            table: std::sync::Arc::clone(&whole.table),
            workers: whole.workers,
            complete: true,
            causal: true,
        };
        change(&mut trace.batch.events);
        trace.check()
    };
    mutate(&|_| ()).unwrap();
    for kind in [
        EventKind::Spawn,
        EventKind::Start,
        EventKind::Resume,
        EventKind::Yield,
        EventKind::Park,
        EventKind::Wake,
    ] {
        let flaw = mutate(&|events| _ = events.remove(find(kind))).unwrap_err();
        assert!(flaw.to_string().starts_with("event "), "{flaw}");
    }
    for kind in [EventKind::Start, EventKind::Finish, EventKind::Yield] {
        mutate(&|events| events.insert(find(kind), events[find(kind)])).unwrap_err();
    }
    mutate(&|events| events[find(EventKind::Finish)][0] = 0).unwrap_err();
    mutate(&|events| events[3][1] = 0xff).unwrap_err();
    mutate(&|events| events[3][1] |= 77 << 8).unwrap_err();
}
