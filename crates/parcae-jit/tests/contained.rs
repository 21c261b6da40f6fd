//! Generated code does no harm: recursion, endless loops, panics of the host, collections, code
//! that is freed.

#[path = "../../parcae-interp/tests/support/mod.rs"]
mod support;

use parcae::prelude::*;
use parcae_interp::{FailureKind, Host, Program};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use support::{Checks, module, run};

fn compiled(text: &str) -> Program {
    parcae_jit::compile(&module(text, Checks::Placed)).unwrap_or_else(|error| panic!("{error}"))
}

fn outcome(text: &str) -> String {
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    match run(&compiled(text), &rt) {
        (Ok(value), output) => format!("{output}{value}"),
        (Err(failure), output) => format!("{output}{failure}"),
    }
}

#[test]
fn recursion_ends_with_a_stack_overflow_whatever_its_form() {
    for body in [
        "func f(n: i64) -> i64 do 1 + f(n + 1) end\nfunc start() -> i64 do f(0) end",
        "func f(n: i64) -> i64 do g(n) + 1 end\nfunc g(n: i64) -> i64 do f(n) + 1 end\n\
         func start() -> i64 do f(0) end",
        // Through a value, with a frame of many references.
        "func f(g: func(i64) -> i64, n: i64) -> i64 do\nlet a = [n]\nlet b = [a]\nlet c = [b]\n\
         let h = func(x: i64) -> i64 do f(g, x) + a[0] end\nh(n) + c.len\nend\n\
         func id(n: i64) -> i64 do n end\nfunc start() -> i64 do f(id, 1) end",
        // With floats, and a cleanup in each frame.
        "func f(x: f64) -> f64 do\nvar n = 0\ndefer count(n)\nf(x * 2.0) + 1.0\nend\n\
         func count(n: i64) do end\nfunc start() -> i64 do\nlet x = f(1.0)\n0 end",
    ] {
        let text = format!(
            "{body}\nasync func main() do\nnursery do spawn start() end catch |e| do print($\"{{e}} \") end\n\
             print(\"alive\")\nend"
        );
        assert_eq!(outcome(&text), "StackOverflow alive0", "{body}");
    }
}

#[test]
fn a_recursion_that_fits_is_not_refused() {
    let text = "func f(n: i64) -> i64 do\nreturn 0 when n == 0\n1 + f(n - 1)\nend\n\
                func main() -> i64 do f(1000) end";
    assert_eq!(outcome(text), "1000");
}

#[test]
fn a_task_in_an_endless_loop_is_cancelled() {
    let text = "func spin() do\ndefer print(\"cleaned \")\nvar n = 0\nwhile true do n = wrap_add(n, 1) end\nend\n\
                async func main() do\nnursery do\nlet h = spawn spin()\nsleep(5)\ncancel(h)\nend\nprint(\"over\")\nend";
    assert_eq!(outcome(text), "cleaned over0");
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (value, output) = run(&compiled(text), &rt);
    assert_eq!((value.unwrap(), output.as_str()), (0, "cleaned over"));
}

#[test]
fn the_slow_path_of_a_check_preserves_all_registers() {
    // More live integers and floats than there are registers, over many payments.
    let names: Vec<String> = (0..12).map(|n| format!("i{n}")).collect();
    let floats: Vec<String> = (0..20).map(|n| format!("x{n}")).collect();
    let mut text = String::from("func main() do\n");
    for (n, name) in names.iter().enumerate() {
        text += &format!("var {name} = {n}\n");
    }
    for (n, name) in floats.iter().enumerate() {
        text += &format!("var {name} = {n}.5\n");
    }
    text += "for k in 0..<20000 do\n";
    for (n, name) in names.iter().enumerate() {
        text += &format!("{name} = wrap_add({name}, {} + k)\n", n + 1);
    }
    for (n, name) in floats.iter().enumerate() {
        text += &format!("{name} = {name} + {n}.25\n");
    }
    text += "end\n";
    for name in names.iter().chain(&floats) {
        text += &format!("print($\"{{{name}}} \")\n");
    }
    text += "end\n";
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let interpreted = Program::new(&module(&text, Checks::Placed)).unwrap();
    assert_eq!(run(&compiled(&text), &rt).1, run(&interpreted, &rt).1);
}

#[test]
fn a_panic_of_the_host_passes_generated_frames_and_no_handler_sees_it() {
    let text = "func show(n: i64) do\ndefer print(\"cleanup\")\nprint(\"boom\")\nend\n\
                async func main() do\nnursery do spawn show(1) end catch |e| do print(\"caught\") end\nend";
    let program = compiled(text);
    let printed = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&printed);
    let host = Host::new(move |text| {
        seen.lock().unwrap().push(text.to_owned());
        assert!(text != "boom", "the host panics");
    });
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    // The task that panicked fails; its nursery may catch that, as for every other task.
    let value = program.run(&rt, host);
    assert_eq!(value.unwrap(), 0);
    assert_eq!(*printed.lock().unwrap(), ["boom", "caught"]);
    // In the first task it ends the run.
    let program = compiled("func main() do print(\"boom\") end");
    let failure = program.run(&rt, Host::new(|_| panic!("the host panics"))).unwrap_err();
    let FailureKind::Runtime(error) = failure.kind else { panic!("{failure:?}") };
    assert!(error.to_string().contains("the host panics"), "{error}");
}

#[test]
fn references_survive_collections() {
    // Each iteration makes garbage; the list, the closure and the struct stay.
    let text = "struct Node { value: i64, name: String, next: []Node }\n\
                func grow(list: []Node, n: i64) -> []Node do\nlet junk = $\"junk {n}\"\n\
                [Node { value: n, name: junk, next: list }]\nend\n\
                func main() do\nvar list: []Node = []\nvar total = 0\nlet add = func(n: i64) do total += n end\n\
                for i in 0..<20000 do\nlet t = $\"number {i}\"\nif i % 100 == 0 do list = grow(list, i) end\nadd(t.len % 2)\nend\n\
                var sum = 0\nvar at = list\nwhile at.len > 0 do\nsum += at[0].value + at[0].name.len\nat = at[0].next\nend\n\
                print($\"{sum} {total}\")\nend";
    let interpreted = Program::new(&module(text, Checks::Placed)).unwrap();
    let budget = Budget::UNLIMITED.with_memory(400_000);
    let rt = Runtime::builder().deterministic(1).budget(budget).build().unwrap();
    let (a, b) = (run(&interpreted, &rt), run(&compiled(text), &rt));
    assert_eq!(b.0.map_err(|failure| failure.to_string()), Ok(0), "{}", b.1);
    assert_eq!(a.1, b.1);
}

#[test]
fn allocation_and_spawning_stay_within_the_budget() {
    for (work, failure) in [
        ("var a = [0]\nwhile true do a.push(1) end", "MemoryBudgetExhausted"),
        ("var t = \"x\"\nwhile true do t = t + t end", "MemoryBudgetExhausted"),
        ("let a = array(1000000000, 0)\nprint(a.len)", "MemoryBudgetExhausted"),
        ("nursery do while true do spawn idle() end end", "SpawnBudgetExhausted"),
        ("while true do end", "BudgetExceeded"),
        ("let c = channel(1)\nwhile true do let sent = c.try_send(1) end", "BudgetExceeded"),
    ] {
        let text = format!(
            "func idle() do end\nfunc work() do\n{work}\nend\nasync func main() do\n\
             nursery with Budget {{ ops: 500000, memory: 500000, spawn_count: 100, channel_ops: 1000 }} do\nspawn work()\nend catch |e| do print($\"{{e}} \") end\n\
             print(\"alive\")\nend"
        );
        let found = outcome(&text);
        assert!(found.ends_with(" alive0"), "{work}: {found}");
        assert!(found.starts_with(failure), "{work}: {found}");
    }
}

#[test]
fn code_is_freed_with_its_last_run() {
    // Many programs, each freed while the next is compiled; runs of one at the same time.
    let count = AtomicUsize::new(0);
    for n in 0..40 {
        let program = compiled(&format!("func main() -> i64 do {n} * 2 end"));
        let rt = Runtime::builder().workers(2).build().unwrap();
        let value = std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let rt = Runtime::builder().workers(1).build().unwrap();
                program.clone().run(&rt, Host::new(|_| ())).unwrap()
            });
            let first = program.clone().run(&rt, Host::new(|_| ())).unwrap();
            first + second.join().unwrap()
        });
        drop(program);
        assert_eq!(value, 4 * n);
        count.fetch_add(1, Ordering::Relaxed);
    }
    assert_eq!(count.into_inner(), 40);
}

#[test]
fn what_is_not_supported_is_named() {
    let error = parcae_jit::compile(&module(
        "func again() do main() end\nfunc main() do\nlet f = again\nend",
        Checks::Placed,
    ))
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "not supported by the JIT yet: a use of the function that the program begins with, in `again`"
    );
}

#[test]
fn the_host_survives_hostile_programs() {
    for seed in 801..=880 {
        let text = support::hostile::program(seed);
        support::hostile::survive(&compiled(&text), &text, seed);
    }
}

#[test]
fn the_map_for_perf_names_functions_and_their_lines() {
    let text = "func twice(n: i64) -> i64 do n + n end\nfunc main() do\nprint(twice(4))\nend";
    let map = std::env::temp_dir().join(format!("parcae-map-{}", std::process::id()));
    let options = parcae_jit::Options::new().map(&map);
    let program = options.compile(&module(text, Checks::Placed)).unwrap();
    let lines = std::fs::read_to_string(&map).unwrap();
    std::fs::remove_file(&map).unwrap();
    for name in ["twice at test.jan:1", "main at test.jan:2"] {
        let line = lines.lines().find(|line| line.ends_with(name));
        let line = line.unwrap_or_else(|| panic!("{name}: {lines}"));
        let mut numbers = line.split(' ').take(2).map(|it| usize::from_str_radix(it, 16).unwrap());
        assert!(numbers.next().unwrap() > 4096 && numbers.next().unwrap() > 0, "{line}");
    }
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    assert_eq!(support::run(&program, &rt).1, "8\n");
}
