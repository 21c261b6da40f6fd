//! A recorded run: states, the step that decides, the timeline, the picture.

use parcae::lab::{Explore, Failure, RunState, TaskChange};
use parcae::prelude::*;
use parcae::sync::Mutex;
use parcae::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// A thousand schedules of a test with a bug, whatever the time.
fn found(workers: usize, test: impl Fn(&Runtime) -> parcae::Result<()> + Sync) -> Failure {
    let hunt = Explore::new().workers(workers..=workers).time(Duration::MAX);
    hunt.run(test).expect_err("a thousand schedules find it")
}

fn lock_order(rt: &Runtime) -> parcae::Result<()> {
    let (a, b) = (Mutex::new(0), Mutex::new(0));
    let add = |to: &Mutex<i32>, from: &Mutex<i32>| {
        *to.lock()? += *from.lock()?;
        Ok(())
    };
    rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn_with(SpawnOpts::new().name("<first>"), |_| add(&a, &b))?;
            n.spawn(|_| add(&b, &a))?;
            Ok(())
        })
    })
}

fn lost_update(rt: &Runtime) -> parcae::Result<()> {
    let count = AtomicU64::new(0);
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..2 {
                n.spawn(|_| {
                    count.store(count.load(SeqCst) + 1, SeqCst);
                    Ok(())
                })?;
            }
            Ok(())
        })
    })?;
    assert_eq!(count.into_inner(), 2);
    Ok(())
}

/// One task waits until another one wakes it, then fails.
fn woken(rt: &Runtime) -> parcae::Result<()> {
    let (tx, rx) = parcae::channel::channel::<u32>(1);
    rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(move |_| rx.recv().map(|value| assert_eq!(value, 8)).map_err(Into::into))?;
            n.spawn(move |_| Ok(tx.send(7)?))?;
            Ok(())
        })
    })
}

#[test]
fn a_deadlock_is_lost_when_each_task_has_its_first_lock() {
    for workers in [0, 2] {
        let failure = found(workers, lock_order);
        let run = failure.run();
        let lost = run.lost_after.expect("a schedule that passes");
        let before: Vec<_> = run.steps[..=lost].iter().filter(|step| step.object != 0).collect();
        let locks = before.iter().filter(|step| step.op.name() == "lock").count();
        assert_eq!(locks, 2, "{failure}");
        assert!(failure.to_string().contains('!'), "{failure}");
        assert!(run.shown().contains(&lost));
    }
}

#[test]
fn a_lost_update_is_decided_by_the_second_load() {
    let failure = found(0, lost_update);
    let run = failure.run();
    let lost = run.lost_after.expect("a schedule that passes");
    assert_eq!(run.operation(lost), "load #1", "{failure}");
    let first = run.steps.iter().position(|step| step.op.name() == "load").expect("a load");
    assert!(first < lost, "{failure}");
}

#[test]
fn a_test_that_always_fails_has_no_step_that_decides() {
    let failure = found(0, |rt| rt.run(|_| -> parcae::Result<()> { panic!("always") }));
    assert_eq!(failure.run().lost_after, None);
}

#[test]
fn states_follow_the_tasks() {
    let failure = found(0, lock_order);
    let run = failure.run();
    let at_start = run.states_before(0);
    assert!(at_start.iter().skip(1).all(|task| task.state == RunState::Unborn), "{at_start:?}");
    let at_end = run.states_before(run.steps.len());
    for (task, status) in at_end.iter().enumerate() {
        let RunState::Waiting { reason } = &status.state else { panic!("{task}: {status:?}") };
        let last = run.operation(status.last_step.expect("it has done something"));
        let (reason, last) = (&**reason, last.split(' ').next().unwrap_or_default());
        assert!(matches!((reason, last), ("its children", _) | ("mutex", "lock")), "{reason}");
    }
    for step in 0..run.steps.len() {
        let states = run.states_before(step);
        let running = states.iter().filter(|task| task.state == RunState::Running).count();
        assert!(running <= 1, "one worker: {states:?}");
        assert_ne!(states[run.steps[step].task as usize].state, RunState::Ended);
    }
}

#[test]
fn wakes_name_the_task_that_did_it() {
    for workers in [0, 2] {
        let failure = found(workers, woken);
        let run = failure.run();
        let wakes = run.events.iter().filter_map(|event| match event.change {
            TaskChange::Woken { by } => Some((by, event.task, event.after)),
            _ => None,
        });
        let wakes: Vec<_> = wakes.collect();
        // The receiver is task 1, the sender task 2. By the default policy the receiver is first.
        let wake = wakes.iter().find(|wake| wake.1 == 1);
        assert!(workers > 0 || wake.is_some(), "{:?}", run.events);
        if let Some(&(by, _, after)) = wake {
            assert_eq!(by, Some(2), "{wakes:?}");
            assert_eq!(run.steps[after - 1].op.name(), "send", "{failure}");
        }
        let ended = run.events.iter().any(|event| event.change == TaskChange::Ended);
        assert!(ended, "{:?}", run.events);
    }
}

#[test]
fn a_timeline_shows_places_of_the_program_alone() {
    let failure = found(0, lock_order);
    let text = failure.to_string();
    let timeline = text.lines().skip_while(|line| !line.contains("step  task"));
    let timeline: Vec<&str> = timeline.take_while(|line| !line.contains("objects")).collect();
    assert!((3..=11).contains(&timeline.len()), "{text}");
    assert!(timeline.iter().all(|line| !line.contains("src/sync")), "{text}");
    assert!(timeline[1..].iter().all(|line| line.contains("lab_run.rs")), "{text}");
    assert!(text.contains("objects: #1 lock, #2 lock"), "{text}");
    assert!(text.contains("parcae replay pcr1."), "{text}");
}

#[test]
fn the_picture_is_one_page_with_all_tasks_and_steps() {
    let failure = found(0, lock_order);
    let page = failure.to_html();
    let count = |part: &str| page.matches(part).count();
    assert_eq!(count("<circle"), failure.run().steps.len());
    assert_eq!(count("class=\"head\""), failure.run().tasks.len());
    assert_eq!(count("<path class=\"spawn\""), 2, "the root spawns two tasks");
    let forced = failure.run().steps.iter().filter(|step| step.forced).count();
    assert!((1..=forced).contains(&count("<path class=\"switch\"")), "{forced}");
    assert_eq!(count("class=\"lost\""), 1);
    assert!(count("class=\"waiting\"") >= 3, "all tasks wait in the end");
    assert!(page.contains("task &lt;first&gt;") && !page.contains("<first>"));
    for outside in ["http:", "https:", "src=", "href=", "@import"] {
        assert_eq!(count(outside), 0, "{outside}");
    }
    // Every element that is opened is closed.
    for name in ["svg", "g", "text", "title", "line", "defs", "marker", "style", "body"] {
        let opened = count(&format!("<{name}>")) + count(&format!("<{name} "));
        assert_eq!(opened, count(&format!("</{name}>")), "{name}");
    }
    assert!(found(0, woken).to_html().contains("<title>task 0.1 wakes task 0.0</title>"));
}
