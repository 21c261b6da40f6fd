//! Programs: the examples on both executors, and one for each rule of the language.

mod support;

use parcae::prelude::*;
use parcae_interp::{Functions, Host, Program};
use parcae_lang::{Profile, Source};
use std::sync::{Arc, Mutex};
use support::cases::{FAULTS, STATEMENTS, main_of};
use support::{Checks, examples, module, output, program, run};

// rule: S1-LOWER-2, S1-LOWER-6, S1-TEST-6
#[test]
fn the_examples_print_what_they_should_under_many_seeds() {
    for (name, text, expected) in examples() {
        for checks in [Checks::Naive, Checks::Merged] {
            let program = program(&text, checks);
            for seed in 0..5 {
                let rt = Runtime::builder().deterministic(seed).workers(3).build().unwrap();
                let (outcome, output) = run(&program, &rt);
                assert_eq!(output, expected, "{name} {checks:?}, seed {seed}: {outcome:?}");
                assert_eq!(outcome.ok(), Some(0), "{name}");
                assert_eq!(rt.live_tasks(), 0, "{name}");
            }
        }
    }
}

// rule: S0-IR-3
#[test]
fn a_yield_lets_other_tasks_run_first() {
    let text = "func other() do\nprint(1)\nend\nasync func main() do\nnursery do\n\
                spawn other()\nYIELD\nprint(2)\nend\nend";
    let on_one = |text: &str| {
        let rt = Runtime::builder().deterministic(1).workers(1).build().unwrap();
        run(&program(text, Checks::Merged), &rt).1
    };
    assert_eq!(on_one(&text.replace("YIELD", "yield")), "1\n2\n");
    assert_eq!(on_one(&text.replace("YIELD\n", "")), "2\n1\n");
}

// rule: S1-LOWER-2, S1-TEST-6
#[test]
fn the_examples_print_what_they_should_on_threads() {
    for (name, text, expected) in examples() {
        let program = program(&text, Checks::Merged);
        for workers in [1, 2] {
            let rt = Runtime::builder().workers(workers).build().unwrap();
            let (outcome, output) = run(&program, &rt);
            assert_eq!(output, expected, "{name} on {workers} workers: {outcome:?}");
        }
    }
}

#[test]
fn statements_do_what_they_say() {
    for (statements, expected) in STATEMENTS {
        assert_eq!(&output(&main_of(statements)), expected, "{statements}");
    }
}

#[test]
fn faults_fail_the_task_and_are_caught_at_its_nursery() {
    for (statements, expected) in FAULTS {
        assert_eq!(output(&main_of(statements)), format!("failed: {expected}"), "{statements}");
        let caught = format!(
            "nursery do spawn func() do\n{statements}\nreturn 0 end end catch |e| do print($\"{{e}}\") end\nprint(\"+\")"
        );
        assert_eq!(output(&main_of(&caught)), format!("{expected}+"), "{statements}");
    }
}

#[test]
fn a_failure_says_where_it_happened() {
    let text =
        "func deep(a: []i64) -> i64 do\n    a[7]\nend\nfunc main() do\n    print(deep([1]))\nend\n";
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let (outcome, _) = run(&program(text, Checks::Naive), &rt);
    let failure = outcome.unwrap_err();
    assert_eq!((failure.at.line, failure.at.column, &*failure.func), (2, 5, "deep"));
}

#[test]
fn the_value_of_main_is_the_result_of_the_run() {
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let (outcome, _) = run(&program("func main() -> i64 do 42 end", Checks::Naive), &rt);
    assert_eq!(outcome.unwrap(), 42);
    let text = "error E { A }\nfunc main() ! E do fail E.A end";
    let (outcome, _) = run(&program(text, Checks::Naive), &rt);
    assert_eq!(outcome.unwrap_err().to_string(), "E.A");
}

#[test]
fn cleanups_run_once_on_every_way_out_of_a_scope() {
    let ways = [
        ("", "body d2 d1 "),
        ("return 1", "d2 d1 "),
        ("let a = [0]\na[9] = 1", "d2 d1 "),
        ("fail E.A", "d2 d1 "),
        ("may(2)?", "d2 d1 "),
    ];
    for (way, expected) in ways {
        let text = format!(
            "error E {{ A, B }}\nfunc may(n: i64) -> i64 ! E do fail E.B when n > 1 n end\n\
             func scoped() -> i64 ! E do\ndefer print(\"d1 \")\nfor i in 0..<1 do\ndefer print(\"d2 \")\n\
             {way}\nprint(\"body \")\nend\n0\nend\n\
             async func main() do\nnursery do spawn scoped() end catch |e| do print(\"\") end\nend\n"
        );
        assert_eq!(output(&text), expected, "{way}");
    }
}

#[test]
fn an_exhausted_task_still_cleans_up_but_not_forever() {
    let text = "func spin() do\ndefer print(\"cleaned \")\nwhile true do end\nend\n\
                func stuck() do\ndefer forever()\nwhile true do end\nend\n\
                func forever() do while true do end end\n\
                async func main() do\n\
                nursery with Budget { ops: 3000 } do spawn spin() end catch |e| do print(e) end\n\
                nursery with Budget { ops: 3000 } do spawn stuck() end catch |e| do print(e) end\nend\n";
    assert_eq!(output(text), "cleaned BudgetExceeded\nBudgetExceeded\n");
}

#[test]
fn the_heap_of_a_long_task_stays_bounded() {
    // Each iteration makes a text and an array; a megabyte is enough for a million of them.
    let text = "func work() do\nvar n = 0\nfor i in 0..<20000 do\nlet t = $\"number {i}\"\nlet a = [t, t]\nn += a.len\nend\nprint(n)\nend\n\
                async func main() do nursery with Budget { memory: 400000 } do spawn work() end end";
    assert_eq!(output(text), "40000\n");
    // Memory of tasks that have ended is there for the next ones.
    let text = "func work() do\nlet a = array(10000, 1)\nend\n\
                async func main() do nursery with Budget { memory: 1000000 } do\n\
                for i in 0..<50 do\nlet h = spawn work()\nawait h\nend\nend\nprint(1)\nend";
    assert_eq!(output(text), "1\n");
}

#[test]
fn a_deep_list_neither_overflows_the_host_nor_leaks() {
    let text = "struct Node { value: i64, next: []Node }\n\
                func main() do\nvar list: []Node = []\nfor i in 0..<100000 do\nlist = [Node { value: i, next: list }]\nend\n\
                print(list[0].value)\nlist = []\nvar n = 0\nfor i in 0..<100000 do\nlet a = [i]\nn += a[0] % 2\nend\nprint(n)\nend";
    assert_eq!(output(text), "99999\n50000\n");
    // A cycle goes to another task as a cycle.
    let text = "struct Node { value: i64, next: []Node }\n\
                func walk(a: []Node) -> i64 do a[0].next[0].next[0].value end\n\
                async func main() do\nlet a: []Node = []\na.push(Node { value: 7, next: a })\n\
                nursery do let h = spawn walk(a)\nprint(await h) end end";
    assert_eq!(output(text), "7\n");
}

#[test]
fn a_module_without_checks_is_refused() {
    let mut module = module("func main() do while true do end end", Checks::Naive);
    for block in module.funcs.iter_mut().flat_map(|func| &mut func.blocks) {
        block.insts.retain(|inst| !inst.op.name().starts_with("Budget"));
    }
    let found = parcae_interp::Program::new(&module).unwrap_err();
    assert!(found.iter().any(|v| v.message.contains("a cycle without a Budget_Check")));
}

fn functions() -> Functions {
    Functions::new()
        .add("twice", Budget::ZERO.with_ops(100), |n: i64| n * 2)
        .add("half", Budget::ZERO, |x: f64| x / 2.0)
        .add(
            "shout",
            Budget::SYSCALL,
            |text: String, loud: bool| {
                if loud { text.to_uppercase() } else { text }
            },
        )
        .add("refuse", Budget::ZERO, |n: i64| match n {
            0 => Ok(()),
            n => Err(format!("no {n}")),
        })
        .add("nothing", Budget::ZERO, || ())
}

fn embedded(text: &str) -> Program {
    let source = Source::new("plugin.jan", text);
    Program::compile(&source, Profile::Service, &functions()).unwrap_or_else(|faults| {
        panic!("{}", faults.iter().map(|fault| fault.render(&source)).collect::<String>())
    })
}

#[test]
fn functions_of_the_host_are_called_with_their_types_and_charged() {
    let text = "func worker(n: i64) -> i64 do twice(n) end\n\
                async func main() -> i64 do\nprint(shout(\"quiet \", false))\nprint(shout(\"loud \", true))\n\
                nothing()\nrefuse(0)\nprint($\"{half(5.0)} \")\n\
                nursery do spawn func() do refuse(7) end end catch |e| do print(e) end\n\
                nursery do let h = spawn worker(20)\nreturn await h + 2 end end";
    let program = embedded(text);
    let output = Arc::new(Mutex::new(String::new()));
    for seed in 0..5 {
        let rt = Runtime::builder().deterministic(seed).budget(Budget::SERVICE).build().unwrap();
        let out = Arc::clone(&output);
        output.lock().unwrap().clear();
        let host = Host::new(move |text| out.lock().unwrap().push_str(text));
        let value = program.run(&rt, host.functions(&functions())).unwrap();
        assert_eq!(value, 42);
        let expected = "quiet LOUD 2.5 P007 `refuse` failed: no 7\n";
        assert_eq!(*output.lock().unwrap(), expected);
        // `shout` twice and `print` four times; a hundred ops for `twice`.
        let spent = rt.budget().spent;
        assert_eq!(spent.syscalls, 6);
        assert!((100..200).contains(&spent.ops), "{} ops", spent.ops);
    }
}

#[test]
fn a_program_runs_many_times_in_nurseries_of_its_host() {
    let program =
        embedded("func main() -> i64 do\nvar n = 0\nfor i in 0..<100 do n += twice(i) end\nn\nend");
    let endless = embedded(
        "async func main() do\nnursery do\nwhile true do spawn spin() end\nend\nend\n\
                            func spin() do while true do end end",
    );
    let rt = Runtime::builder().deterministic(3).build().unwrap();
    let handle = rt.handle();
    let outcomes = rt.run(move |cx| {
        let host = || Host::new(|_| ()).functions(&functions());
        let mut outcomes = Vec::new();
        for _ in 0..3 {
            outcomes.push(program.run_in(cx, &handle, Budget::SERVICE, host()));
            // 99 calls cost 100 ops each: the budget of the next run does not suffice.
            let small = Budget::SERVICE.with_ops(5_000);
            outcomes.push(program.run_in(cx, &handle, small, host()));
            outcomes.push(endless.run_in(cx, &handle, small.with_spawn_count(20), host()));
        }
        Ok(outcomes)
    });
    let outcomes: Vec<String> = outcomes
        .unwrap()
        .into_iter()
        .map(|outcome| outcome.map_or_else(|failure| failure.to_string(), |v| v.to_string()))
        .collect();
    for three in outcomes.chunks(3) {
        assert_eq!(&three[..2], ["9900", "BudgetExceeded"]);
        assert!(
            ["BudgetExceeded", "SpawnBudgetExhausted"].contains(&three[2].as_str()),
            "{}",
            three[2]
        );
    }
    assert_eq!(rt.live_tasks(), 0);
}

#[test]
fn a_host_without_a_function_refuses_the_program() {
    let program = embedded("func main() do nothing() end");
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let failure = program.run(&rt, Host::new(|_| ())).unwrap_err();
    assert!(failure.to_string().starts_with("P007 the host has no function `half`"), "{failure}");
    let other = functions().add("twice", Budget::ZERO, |text: String| text);
    let failure = program.run(&rt, Host::new(|_| ()).functions(&other)).unwrap_err();
    assert!(failure.to_string().contains("`twice`"), "{failure}");
    // Wrong types and redefinitions are faults of the program.
    for (text, code) in [
        ("func main() do twice(\"x\") end", "S2001"),
        ("func main() do twice(1, 2) end", "S2002"),
        ("func twice(n: i64) -> i64 do n end\nfunc main() do end", "S1002"),
        ("func main() do thrice(1) end", "S1001"),
    ] {
        let source = Source::new("plugin.jan", text);
        let faults = Program::compile(&source, Profile::Core, &functions()).unwrap_err();
        assert!(faults[0].render(&source).contains(code), "{}", faults[0].render(&source));
    }
}

#[test]
fn the_text_form_has_functions_of_the_host() {
    let source = Source::new("p.jan", "func main() do print(shout(\"a\", true)) end");
    let module = parcae_lang::lower_with(&source, Profile::Core, &functions().types()).unwrap();
    let text = parcae_ir::print(&module);
    assert!(text.contains("host @shout(String, bool) -> String\n"), "{text}");
    assert!(text.contains("Host_Call \"shout\", "), "{text}");
    let again = parcae_ir::parse(&text).unwrap();
    assert_eq!(again, module);
    assert!(parcae_ir::verify(&again).is_empty());
    let mut without = again;
    without.hosts.clear();
    assert!(!parcae_ir::verify(&without).is_empty());
}

#[test]
fn the_programs_of_the_book_print_what_it_says() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/reference/language.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut count = 0;
    for part in page.split("```jan\n").skip(1) {
        let (program, rest) = part.split_once("```").unwrap();
        let expected = rest.strip_prefix("\n\n```text\n").expect("its output follows");
        let (expected, _) = expected.split_once("```").unwrap();
        // Programs declare their profile, as a user would run them.
        let source = Source::new("book.jan", program);
        let program = Program::compile(&source, Profile::Core, &Functions::new());
        let program = program.unwrap_or_else(|faults| panic!("{}", faults[0].render(&source)));
        let rt = Runtime::builder().deterministic(1).build().unwrap();
        let (outcome, output) = run(&program, &rt);
        assert_eq!(output, expected, "{}: {outcome:?}", source.text());
        count += 1;
    }
    assert_eq!(count, 8);
}

#[test]
fn a_defer_in_a_loop_or_branch_of_a_nursery_ends_with_that() {
    for (body, expected) in [
        ("for i in 0..<2 do\ndefer say(\"d \")\nsay(\"b \")\nend", "b d b d n "),
        ("var i = 0\nwhile i < 2 do\ndefer say(\"d \")\ni += 1\nend", "d d n "),
        ("if true do\ndefer say(\"d \")\nsay(\"b \")\nend\nsay(\"c \")", "b d c n "),
        ("defer say(\"d \")\nfor i in 0..<2 do\ndefer say(\"i \")\nend", "i i n d "),
        (
            "while true do\ndefer say(\"d \")\nlet a = [0]\na[9] = 1\nend",
            "d n P001 index 9 is out of bounds, the length is 1 ",
        ),
    ] {
        let text = format!(
            "func say(t: String) do print(t) end\nfunc last(c: Channel) do\nlet x = c.recv() \nsay(\"n \")\nend\n\
             async func main() do\nlet c = channel(1)\nc.send(1)\nnursery do\n{body}\nnursery do spawn last(c) end\nend catch |e| do say($\"n {{e}} \") end\nend"
        );
        assert_eq!(output(&text), expected, "{body}");
    }
}
