//! Backtraces begin with the program's own functions. This crate's name begins like the runtime's
//! on purpose. Also run in release builds, where much is inlined.

use parcae::inspect::Function;
use parcae::prelude::*;
use std::hint::black_box;
use std::sync::mpsc;
use std::time::Duration;

/// Where the runtime's sources are.
const RUNTIME: &str = "crates/parcae/src/";
/// The line of the call in `waits_inside`, and that of the call of it.
const INNER: u32 = line!() + 6;
const OUTER: u32 = line!() + 13;

/// Inlined everywhere.
#[inline(always)]
fn waits_inside(cx: &Cx) -> parcae::Result<()> {
    let slept = cx.sleep(Duration::from_secs(1_000));
    black_box(&slept); // no tail call: this frame stays
    slept
}

#[inline(never)]
fn waits_for_the_night(cx: &Cx) -> parcae::Result<()> {
    black_box(cx);
    let slept = waits_inside(cx);
    black_box(&slept);
    slept
}

fn sleeper(rt: &Runtime) -> Vec<parcae::inspect::TaskSnapshot> {
    loop {
        let dump = rt.dump();
        if dump.tasks.iter().any(|task| task.wait.is_some()) {
            return dump.tasks;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[track_caller]
fn check(functions: &[Function]) {
    let first: Vec<_> = functions.iter().take(2).map(|f| (f.name.as_str(), f.line)).collect();
    let [(inner, inner_line), (outer, outer_line)] = first[..] else { panic!("{functions:?}") };
    // Line tables alone have names without paths.
    assert!(inner.ends_with("waits_inside"), "{functions:#?}");
    assert!(outer.ends_with("waits_for_the_night"), "{functions:#?}");
    assert_eq!((inner_line, outer_line), (Some(INNER), Some(OUTER)), "{functions:#?}");
    for function in functions {
        let file = function.file.as_deref().unwrap_or_default();
        assert!(
            file.ends_with("tests/parcae_stacks/backtraces.rs"),
            "not the program's: {function}"
        );
    }
}

#[test]
fn a_sleeping_task_shows_its_own_functions_inlined_ones_too() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let _task = rt.handle().spawn(waits_for_the_night).unwrap();
    let tasks = sleeper(&rt);
    check(&tasks[0].frames.functions());
    let all = tasks[0].frames.all_functions();
    assert!(all.len() > tasks[0].frames.functions().len() + 3, "{all:#?}");
    assert!(all[0].file.as_deref().is_some_and(|file| file.contains(RUNTIME)), "{all:#?}");
    let dump = rt.dump();
    let text = dump.to_string();
    assert!(!text.contains(RUNTIME) && !text.contains("/library/core/"), "{text}");
    assert!(format!("{dump:#}").contains(RUNTIME), "{dump:#}");
    assert!(dump.to_json().contains("waits_inside"));
    assert!(!dump.to_json().contains(RUNTIME), "{}", dump.to_json());
    assert!(dump.full().to_json().contains(RUNTIME));
}

/// Through a box, a function pointer and an iterator of the standard library.
#[test]
fn closures_that_the_standard_library_calls_are_the_programs() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    type Boxed = Box<dyn FnOnce(&Cx) -> parcae::Result<()> + Send>;
    let boxed: Boxed = Box::new(|cx| {
        let waited = black_box(Some(cx)).map(|cx| {
            let waited = black_box(waits_for_the_night as fn(&Cx) -> _)(cx);
            black_box(waited)
        });
        black_box(waited).unwrap_or(Ok(()))
    });
    let _task = rt.handle().spawn(move |cx| black_box(boxed(cx))).unwrap();
    let functions = sleeper(&rt)[0].frames.functions();
    check(&functions);
    let closures = functions.iter().filter(|f| f.name.contains("{closure")).count();
    assert!(closures >= 2, "{functions:#?}");
}

#[test]
fn a_deadlock_report_begins_with_the_program() {
    #[inline(never)]
    fn waits_in_vain(cx: &Cx) -> parcae::Result<()> {
        let parked = cx.park();
        black_box(&parked);
        parked
    }
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let error = rt.run(waits_in_vain).unwrap_err();
    let ErrorKind::Deadlock(report) = error.kind() else { panic!("{error}") };
    let functions = report.tasks[0].frames.functions();
    assert!(functions[0].name.contains("waits_in_vain"), "{functions:?}");
    assert!(functions[0].line.is_some());
    let text = report.to_string();
    assert!(text.contains("waits_in_vain at ") && !text.contains(RUNTIME), "{text}");
    assert!(format!("{report:#}").contains(RUNTIME), "{report:#}");
}

#[test]
fn a_stall_report_begins_with_the_program() {
    #[inline(never)]
    fn blocks_its_worker(stop: &mpsc::Receiver<()>) {
        black_box(stop.recv()).ok();
        black_box(());
    }
    let (reports, stalls) = mpsc::channel();
    let (go, stop) = mpsc::channel();
    let rt = Runtime::builder()
        .workers(1)
        .stall_after(Duration::from_millis(20))
        .on_stall(move |report| drop(reports.send(report.clone())))
        .build()
        .unwrap();
    let task = rt.handle().spawn(move |_| {
        blocks_its_worker(&stop);
        Ok(())
    });
    let task = task.unwrap();
    let report = loop {
        let report = stalls.recv_timeout(Duration::from_secs(60)).expect("a report");
        if report.task.is_some() && !report.frames.is_empty() {
            break report;
        }
    };
    go.send(()).unwrap();
    task.join().unwrap();
    let functions = report.frames.functions();
    assert!(functions[0].name.contains("blocks_its_worker"), "{functions:#?}");
    assert!(functions[0].line.is_some(), "{functions:#?}");
    let text = report.to_string();
    assert!(!text.contains("/library/std/") && !text.contains(RUNTIME), "{text}");
    assert!(format!("{report:#}").contains("/library/std/"), "{report:#}");
}
