//! The debugger's view: `bt` inside a fiber shows the fiber's frames and ends at its base, at every
//! instruction of the switch and everywhere else. Fibers that do not run are shown by
//! `tools/gdb/parcae.py`, of a process and of a core file.

#![allow(unused_must_use, reason = "a step is looked at where it matters")]

use crate::support::{child, tools};
use parcae::fiber::{Fiber, Suspender};
use parcae::prelude::*;
use parcae::stack::{StackPool, StackSize};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where the debugger stops.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn parcae_test_stop_here() {
    std::hint::black_box(());
}

#[inline(never)]
fn visible_inner(f: &Suspender<'_>) {
    parcae_test_stop_here();
    f.suspend().unwrap();
    std::hint::black_box(f);
}

#[inline(never)]
fn visible_outer(f: &Suspender<'_>) {
    visible_inner(f);
    std::hint::black_box(f);
}

#[inline(never)]
fn visible_resumer(fiber: &mut Fiber) {
    fiber.start(visible_outer).unwrap();
    parcae_test_stop_here();
    fiber.resume().unwrap();
    std::hint::black_box(fiber);
}

#[inline(never)]
fn play_victim() {
    let pool = StackPool::new().unwrap();
    let mut fiber = Fiber::new(pool.acquire(StackSize::SERVICE).unwrap(), "watched").unwrap();
    visible_resumer(&mut fiber);
}

/// Runs the victim of `test` in gdb with these commands; `None` (and a line that says so)
/// if there is no gdb, or none that may trace.
fn gdb(test: &str, commands: &[&str]) -> Option<String> {
    let Some(gdb) = tools::find("gdb") else {
        tools::skip(test, "gdb", "Debian: apt-get install gdb");
        return None;
    };
    let output = run(&gdb, test, commands);
    if output.contains("ptrace: Operation not permitted") {
        tools::skip(test, "a gdb that may trace", "the sandbox forbids ptrace");
        return None;
    }
    Some(output)
}

fn run(gdb: &Path, test: &str, commands: &[&str]) -> String {
    let victim = child::victim(module_path!(), test);
    let mut command = batch(gdb, commands);
    command.arg("--args").arg(victim.get_program()).args(victim.get_args());
    command.envs(victim.get_envs().filter_map(|(key, value)| Some((key, value?))));
    said(&command.output().expect("gdb runs"))
}

/// gdb with these commands, and nothing to debug yet.
fn batch(gdb: &Path, commands: &[&str]) -> Command {
    let mut command = Command::new(gdb);
    command.args(["-nx", "-batch", "-ex", "set confirm off", "-ex", "set pagination off"]);
    command.args(["-ex", "set style enabled off", "-ex", "set debuginfod enabled off"]);
    for line in commands {
        command.args(["-ex", line]);
    }
    command
}

fn said(output: &Output) -> String {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// The frames of the `bt` that follows `marker`, innermost first.
fn frames<'a>(output: &'a str, marker: &str) -> Vec<&'a str> {
    let start = output.find(marker).unwrap_or_else(|| panic!("no {marker} in:\n{output}"));
    output[start..]
        .lines()
        .skip(1)
        .take_while(|line| !line.starts_with("-- "))
        .filter(|line| line.starts_with('#'))
        .collect()
}

fn position(frames: &[&str], name: &str) -> usize {
    frames
        .iter()
        .position(|frame| frame.contains(name))
        .unwrap_or_else(|| panic!("no {name} in {frames:#?}"))
}

#[test]
fn backtrace_inside_a_fiber_shows_its_frames_and_ends_at_its_base() {
    if child::is_victim() {
        return play_victim();
    }
    let commands = [
        "break parcae_test_stop_here",
        "run",
        "echo -- inside\\n",
        "bt",
        "continue",
        "echo -- outside\\n",
        "bt",
        "echo -- end\\n",
        "kill",
    ];
    let test = "backtrace_inside_a_fiber_shows_its_frames_and_ends_at_its_base";
    let Some(output) = gdb(test, &commands) else {
        return;
    };

    let inside = frames(&output, "-- inside");
    assert!(position(&inside, "visible_inner") < position(&inside, "visible_outer"), "{output}");
    assert!(inside.last().unwrap().contains("janus_fiber_entry"), "{inside:#?}");
    assert!(!inside.iter().any(|frame| frame.contains("visible_resumer (")), "{inside:#?}");

    let outside = frames(&output, "-- outside");
    position(&outside, "visible_resumer");
    assert!(!outside.iter().any(|frame| frame.contains("janus_fiber_entry")), "{outside:#?}");
    assert!(!output.contains("Backtrace stopped"), "gdb is not content:\n{output}");
}

#[test]
fn backtrace_is_whole_at_every_instruction_of_a_resume() {
    if child::is_victim() {
        return play_victim();
    }
    // From the resumer into the suspended fiber, instruction by instruction.
    const STEPS: usize = if cfg!(debug_assertions) { 500 } else { 120 };
    let mut commands = vec!["break parcae_test_stop_here", "run", "continue", "delete", "finish"];
    for _ in 0..STEPS {
        commands.extend(["echo -- step\\n", "bt", "stepi"]);
    }
    commands.extend(["echo -- end\\n", "kill"]);
    let test = "backtrace_is_whole_at_every_instruction_of_a_resume";
    let Some(output) = gdb(test, &commands) else { return };

    assert!(!output.contains("Backtrace stopped"), "gdb is not content:\n{output}");
    let mut inside = 0;
    for (number, step) in output.split("-- step").skip(1).enumerate() {
        let step = step.split("-- end").next().unwrap_or_default();
        let frames: Vec<&str> = step.lines().filter(|line| line.starts_with('#')).collect();
        let has = |name: &str| frames.iter().any(|frame| frame.contains(name));
        // In the middle of the switch, the frame that it is inlined into stands on top of
        // the fiber's, whose callers count.
        let at_base = frames.last().is_some_and(|frame| frame.contains("janus_fiber_entry"));
        let at_main = has("play_victim") && !at_base;
        assert!(at_base || at_main, "step {number}: {frames:#?}");
        inside += usize::from(at_base && has("visible_inner"));
    }
    assert!((8..STEPS).contains(&inside), "{inside} of {STEPS} steps were in the fiber:\n{output}");
}

/// The commands for fibers, of this checkout.
fn script() -> String {
    format!("source {}/../../tools/gdb/parcae.py", env!("CARGO_MANIFEST_DIR"))
}

#[inline(never)]
fn visible_wait(door: &parcae::channel::Receiver<u32>) -> parcae::Result<u32> {
    let got = door.recv();
    Ok(std::hint::black_box(got)?)
}

/// A named task waits. Then `end` stops or kills the process.
fn play_runtime(end: fn()) {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let (sender, door) = parcae::channel::channel::<u32>(0);
    let opts = SpawnOpts::new().name("porter");
    let porter = rt.handle().spawn(move |cx| {
        cx.nursery(|n| {
            let door = &door;
            n.spawn_with(opts, move |_| visible_wait(door))?.join()
        })
    });
    while !rt.dump().to_string().contains("`porter`, spawned at") {
        std::thread::yield_now();
    }
    end();
    sender.send(7).unwrap();
    assert_eq!(porter.unwrap().join().unwrap(), 7);
}

/// The expected output of `parcae fibers` and `parcae bt porter`.
fn check_fibers(output: &str) {
    let list = output.split("-- list").nth(1).unwrap_or_else(|| panic!("no list in\n{output}"));
    let list = list.split("-- porter").next().unwrap_or_default();
    let named = |line: &&str| line.contains("task `porter`: suspended, ");
    assert_eq!(list.lines().filter(named).count(), 1, "{output}");
    assert!(list.contains(": runs on thread "), "the worker's own: {output}");
    let porter = output.split("-- porter").nth(1).unwrap_or_default();
    let frames: Vec<&str> = porter.lines().filter(|line| line.contains(" in ")).collect();
    let wait = position(&frames, "debugger::visible_wait at ");
    assert!(wait > 0, "what it waits in: {frames:#?}");
    assert!(frames.len() > wait + 1, "its caller: {frames:#?}");
    let loops = frames.iter().any(|frame| frame.contains("parcae::sched::worker::strand_main"));
    assert!(!loops, "the worker's loop is no part of it: {frames:#?}");
    assert!(output.contains("no such fiber; `parcae fibers` lists them"), "{output}");
}

const LOOK: [&str; 5] = [
    "echo -- list\\n",
    "parcae fibers",
    "echo -- porter\\n",
    "parcae bt porter",
    "parcae bt nobody",
];

#[test]
fn fibers_of_a_process_are_listed_and_it_goes_on() {
    if child::is_victim() {
        return play_runtime(|| parcae_test_stop_here());
    }
    let source = script();
    let mut commands = vec![source.as_str(), "break parcae_test_stop_here", "run"];
    commands.extend(LOOK);
    commands.extend(["echo -- own\\n", "bt", "echo -- end\\n", "continue"]);
    let test = "fibers_of_a_process_are_listed_and_it_goes_on";
    let Some(output) = gdb(test, &commands) else { return };
    check_fibers(&output);
    position(&frames(&output, "-- own"), "play_runtime"); // its own stack is unchanged
    assert!(output.contains("1 passed"), "it ended as if nobody had looked:\n{output}");
}

#[test]
fn fibers_of_a_core_file_are_listed() {
    let folder = |pid| std::env::temp_dir().join(format!("parcae-core-{pid}"));
    if child::is_victim() {
        // SAFETY: asks for a larger limit, and names the process that started this one.
        let folder = unsafe {
            let all = libc::rlimit { rlim_cur: 1 << 30, rlim_max: libc::RLIM_INFINITY };
            libc::setrlimit(libc::RLIMIT_CORE, &all);
            folder(libc::getppid() as u32)
        };
        std::env::set_current_dir(folder).unwrap();
        return play_runtime(|| std::process::abort());
    }
    let test = "fibers_of_a_core_file_are_listed";
    let Some(gdb) = tools::find("gdb") else {
        return tools::skip(test, "gdb", "Debian: apt-get install gdb");
    };
    let folder = folder(std::process::id());
    std::fs::create_dir_all(&folder).unwrap();
    child::run(module_path!(), test);
    let entries = folder.read_dir().unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let core: Option<PathBuf> = entries.into_iter().next();
    // Where core files go is up to the kernel's settings, which a test should not change.
    if let Some(core) = &core {
        let source = script();
        let mut commands = vec![source.as_str()];
        commands.extend(LOOK);
        let mut command = batch(&gdb, &commands);
        command.arg(std::env::current_exe().unwrap()).arg(core);
        check_fibers(&said(&command.output().expect("gdb runs")));
    } else {
        eprintln!(
            "skipped: {test}: no core file in the working directory (kernel.core_pattern, ulimit -Hc)"
        );
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
