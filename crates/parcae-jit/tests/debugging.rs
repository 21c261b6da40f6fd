//! Generated functions are named, with their lines, where the functions of the host are: in
//! backtraces of the host's functions, in dumps and stall reports, by gdb.

#[path = "../../parcae/tests/support/child.rs"]
#[allow(dead_code, unreachable_pub, reason = "not every test uses all of it")]
mod child;
#[path = "../../parcae-interp/tests/support/mod.rs"]
mod support;
#[path = "../../parcae/tests/support/tools.rs"]
mod tools;

use parcae::inspect::Frames;
use parcae::prelude::*;
use parcae_interp::{Host, Program};
use parcae_jit::Options;
use std::backtrace::Backtrace;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use support::{Checks, module};

/// The host prints at line 2, on behalf of line 7, on behalf of line 14.
const NESTED: &str = "func inner(n: i64) -> i64 do
    print($\"in {n}\")
    n + 1
end
func middle(n: i64) -> i64 do
    let twice = n + n
    inner(twice) + 1
end
func main() -> i64 do
    var sum = 0
    for i in 0..<3 do
        sum += i
    end
    sum += middle(4)
    sum
end
";
const CALLS: [&str; 3] = ["inner at test.jan:2", "middle at test.jan:7", "main at test.jan:14"];
const VALUE: i64 = 3 + 10;

fn compile(text: &str, options: &Options) -> Program {
    options.compile(&module(text, Checks::Placed)).unwrap()
}

/// The generated functions among these, innermost first.
fn generated(functions: impl IntoIterator<Item = String>) -> Vec<String> {
    functions.into_iter().filter(|function| function.contains(".jan:")).collect()
}

/// The value of a program, and `look` at each call of its print function.
fn seen<T: Send + 'static>(
    program: &Program,
    look: impl Fn() -> T + Send + Sync + 'static,
) -> (i64, Vec<T>) {
    let found = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&found);
    let host = Host::new(move |_| into.lock().unwrap().push(look()));
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let value = program.run(&rt, host).unwrap();
    let found = std::mem::take(&mut *found.lock().unwrap());
    (value, found)
}

#[test]
fn a_function_of_the_host_sees_the_generated_functions_that_it_is_called_by() {
    let program = compile(NESTED, &Options::new());
    let (value, found) = seen(&program, Frames::here);
    assert_eq!((value, found.len()), (VALUE, 1));
    let functions: Vec<String> = found[0].functions().iter().map(ToString::to_string).collect();
    assert_eq!(generated(functions.clone()), CALLS, "{functions:#?}");
    assert!(!functions.iter().any(|name| name.contains("parcae_interp")), "{functions:#?}");
    let all: Vec<String> = found[0].all_functions().iter().map(ToString::to_string).collect();
    let inner = all.iter().position(|name| name == CALLS[0]).unwrap();
    let operate = all.iter().position(|name| name.contains("parcae_jit")).unwrap();
    assert!(operate < inner, "{all:#?}");
    assert!(all.iter().any(|name| name == "main (entry)"), "{all:#?}");
}

#[test]
fn a_panic_hook_sees_them() {
    // A hook belongs to the process.
    if child::is_victim() {
        std::panic::set_hook(Box::new(|_| {
            for function in Frames::here().functions() {
                eprintln!("-- {function}");
            }
        }));
        let program = compile(NESTED, &Options::new());
        let rt = Runtime::builder().deterministic(1).build().unwrap();
        program.run(&rt, Host::new(|_| panic!("the host panics"))).unwrap_err();
        return;
    }
    let victim = child::run(module_path!(), "a_panic_hook_sees_them");
    assert_eq!(victim.code, Some(0), "{}", victim.stderr);
    let lines = victim.stderr.lines().filter_map(|line| line.strip_prefix("-- "));
    assert_eq!(generated(lines.map(str::to_owned)), CALLS, "{}", victim.stderr);
}

#[test]
fn a_deep_recursion_is_followed_as_far_as_backtraces_go() {
    let text = "func down(n: i64) -> i64 do\nif n == 0 do\nprint(\"deep\")\nreturn 0\nend\n\
                down(n - 1) + 1\nend\nfunc main() -> i64 do down(500) end";
    let program = compile(text, &Options::new());
    let (value, found) = seen(&program, Frames::here);
    assert_eq!(value, 500);
    let functions: Vec<String> = found[0].functions().iter().map(ToString::to_string).collect();
    let frames = generated(functions);
    assert!(frames.len() > 90, "{}", frames.len());
    assert_eq!(frames[0], "down at test.jan:3");
    assert!(frames[1..].iter().all(|frame| frame == "down at test.jan:6"), "{frames:#?}");
}

#[test]
fn a_dump_shows_where_waiting_tasks_are() {
    let text = "func pass(input: Channel, out: Channel) do
    for v in input do
        out.send(v)
    end
    out.close()
end
async func main() do
    let input = channel(1)
    let out = channel(1)
    nursery do
        spawn pass(input, out)
        sleep(1)
        print(\"spawned\")
        input.send(7)
        input.close()
        for v in out do
            print(v)
        end
    end
end
";
    let program = compile(text, &Options::new());
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    let host = Host::new(move |text| {
        if text == "spawned" {
            gone.lock().unwrap().recv().unwrap();
        }
    });
    std::thread::scope(|scope| {
        let running = scope.spawn(|| program.run(&rt, host).unwrap());
        // The task gets to its loop, and waits there until its caller goes on.
        let mut dump = String::new();
        while !dump.contains("pass at test.jan:2") {
            assert!(!running.is_finished(), "{dump}");
            std::thread::yield_now();
            dump = rt.dump().to_string();
        }
        go.send(()).unwrap();
        assert_eq!(running.join().unwrap(), 0);
    });
}

#[test]
fn a_stall_report_names_the_functions_that_called_the_host() {
    let program = compile(NESTED, &Options::new());
    let (reports, stalls) = mpsc::channel();
    let rt = Runtime::builder()
        .workers(1)
        .stall_after(Duration::from_millis(20))
        .on_stall(move |stall| _ = reports.send(stall.to_string()))
        .build()
        .unwrap();
    let stalls = Mutex::new(stalls);
    let report = Arc::new(Mutex::new(String::new()));
    let found = Arc::clone(&report);
    // The host blocks its worker until that is reported.
    let host = Host::new(move |_| {
        let stall = stalls.lock().unwrap().recv_timeout(Duration::from_secs(60)).unwrap();
        *found.lock().unwrap() = stall;
    });
    assert_eq!(program.run(&rt, host).unwrap(), VALUE);
    let report = report.lock().unwrap();
    let positions: Vec<_> = CALLS.iter().map(|call| report.find(call)).collect();
    assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{report}");
}

/// Functions at the base of every task.
const BASE: [&str; 2] = ["fiber_main", "janus_fiber_entry"];

/// In a process of its own: see `Options::unwinder` about signals.
#[test]
fn other_unwinders_go_through_generated_frames_if_they_are_told_of_them() {
    if child::is_victim() {
        for (options, through) in [(Options::new(), false), (Options::new().unwinder(), true)] {
            let capture = || Backtrace::force_capture().to_string();
            // Tables that were taken back do no harm to the next.
            for _ in 0..3 {
                let (value, found) = seen(&compile(NESTED, &options), capture);
                assert_eq!(value, VALUE);
                let base = BASE.iter().any(|name| found[0].contains(name));
                assert_eq!(base, through, "{}", found[0]);
            }
        }
        // The runtime's own backtraces do not change.
        let program = compile(NESTED, &Options::new().unwinder());
        let found = seen(&program, Frames::here).1;
        let functions = found[0].all_functions();
        let functions: Vec<String> = functions.iter().map(ToString::to_string).collect();
        assert_eq!(generated(functions.clone()), CALLS);
        let base = |name: &String| BASE.iter().any(|base| name.contains(base));
        assert!(functions.iter().any(base), "{functions:#?}");
        return;
    }
    let test = "other_unwinders_go_through_generated_frames_if_they_are_told_of_them";
    if cfg!(all(target_os = "linux", target_env = "gnu")) {
        let victim = child::run(module_path!(), test);
        assert_eq!(victim.code, Some(0), "{}", victim.stderr);
    }
}

/// Where the debugger stops.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn parcae_test_host_prints() {
    std::hint::black_box(());
}

fn play_debugged() {
    let program = compile(NESTED, &Options::new());
    assert_eq!(seen(&program, || parcae_test_host_prints()).0, VALUE);
}

/// The output of gdb about the victim of `test`; `None` if there is no gdb, or none that may trace.
fn gdb(test: &str, commands: &[&str]) -> Option<String> {
    let Some(gdb) = tools::find("gdb") else {
        tools::skip(test, "gdb", "Debian: apt-get install gdb");
        return None;
    };
    let victim = child::victim(module_path!(), test);
    let mut command = Command::new(gdb);
    command.args(["-nx", "-batch", "-ex", "set confirm off", "-ex", "set pagination off"]);
    command.args(["-ex", "set style enabled off", "-ex", "set debuginfod enabled off"]);
    command.args(["-ex", "set breakpoint pending on", "-ex", "set width 0"]);
    for line in commands {
        command.args(["-ex", line]);
    }
    command.arg("--args").arg(victim.get_program()).args(victim.get_args());
    command.envs(victim.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let output = command.output().expect("gdb runs");
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    if text.contains("ptrace: Operation not permitted") {
        tools::skip(test, "a gdb that may trace", "the sandbox forbids ptrace");
        return None;
    }
    Some(text)
}

/// The frames of each backtrace behind a line that begins with `marker`.
fn backtraces<'a>(output: &'a str, marker: &str) -> Vec<Vec<&'a str>> {
    let parts = output.split(marker).skip(1);
    let frames = |part: &'a str| {
        let lines = part.lines().skip(1).take_while(|line| !line.starts_with("-- "));
        lines.filter(|line| line.starts_with('#')).collect()
    };
    parts.map(frames).collect()
}

fn position(frames: &[&str], text: &str) -> Option<usize> {
    frames.iter().position(|frame| frame.contains(text))
}

#[test]
fn gdb_shows_generated_frames_with_their_lines() {
    if child::is_victim() {
        return play_debugged();
    }
    let commands =
        ["break parcae_test_host_prints", "run", "echo -- bt\\n", "bt", "echo -- end\\n", "kill"];
    let Some(output) = gdb("gdb_shows_generated_frames_with_their_lines", &commands) else {
        return;
    };
    let found = backtraces(&output, "-- bt");
    let frames = &found[0];
    let calls = ["inner () at test.jan:2", "middle () at test.jan:7", "main () at test.jan:14"];
    let calls: Vec<_> = calls.iter().map(|call| position(frames, call)).collect();
    assert!(calls.iter().all(Option::is_some) && calls.is_sorted(), "{output}");
    assert!(position(frames, "parcae_test_host_prints") == Some(0), "{output}");
    assert!(frames.last().unwrap().contains("janus_fiber_entry"), "{output}");
    assert!(!output.contains("Backtrace stopped"), "{output}");
}

#[test]
fn gdb_stops_at_lines_and_follows_every_instruction() {
    const STEPS: usize = 60;
    if child::is_victim() {
        return play_debugged();
    }
    let mut commands = vec!["break test.jan:6", "run", "delete"];
    for _ in 0..STEPS {
        commands.extend(["echo -- step\\n", "bt", "stepi"]);
    }
    commands.extend(["echo -- end\\n", "kill"]);
    let test = "gdb_stops_at_lines_and_follows_every_instruction";
    let Some(output) = gdb(test, &commands) else { return };
    let steps = backtraces(&output, "-- step");
    assert_eq!(steps.len(), STEPS, "{output}");
    assert_eq!(position(&steps[0], "middle () at test.jan:6"), Some(0), "{output}");
    let mut inner = 0;
    for frames in &steps {
        // The last instructions of a function have no unwind information of their own.
        let middle = position(frames, " middle (");
        let main = position(frames, "main () at test.jan:14");
        assert!(middle.is_some() && middle < main, "{frames:#?}");
        assert!(frames.last().unwrap().contains("janus_fiber_entry"), "{frames:#?}");
        inner += usize::from(position(frames, " inner (").is_some());
    }
    assert!(inner > 10, "{inner} of {STEPS} steps were in the inner function:\n{output}");
}
