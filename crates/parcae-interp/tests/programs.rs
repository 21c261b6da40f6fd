//! Programs: the examples on both executors, and one for each rule of the language.

mod support;

use parcae::prelude::*;
use support::{Checks, examples, module, output, program, run};

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

/// The output of statements in `main`, in `:service`.
fn main_of(statements: &str) -> String {
    output(&format!(
        "error E {{ A, B }}\nstruct P {{ x: i64, q: Q }}\nstruct Q {{ y: i64 }}\n\
         func may(n: i64) -> i64 ! E do fail E.B when n > 1 n end\n\
         func plain(n: i64) -> i64 do n end\n\
         async func main() do\n{statements}\nend\n"
    ))
}

#[test]
fn statements_do_what_they_say() {
    let cases = [
        ("print(7 / 2)\nprint(-7 / 2)\nprint(-7 % 3)\nprint(2 ** 10)", "3\n-3\n-1\n1024\n"),
        ("print(7.0 / 2.0)\nprint(3.0)\nprint(0.1 + 0.2)", "3.5\n3.0\n0.30000000000000004\n"),
        ("print(1 << 4 | 3)\nprint(255 & 15 ^ 1)\nprint(-8 >> 1)", "19\n14\n-4\n"),
        ("let b: u8 = 250\nprint(b + 5)\nprint(i64(b) + 10)\nprint(i32(7))", "255\n260\n7\n"),
        ("for i in 3..1 do print(i) end\nfor i in 1..<1 do print(i) end\nprint(0)", "0\n"),
        ("for i in 9223372036854775806..9223372036854775807 do print(i % 10) end", "6\n7\n"),
        ("for i in 0..5 do continue when i == 1; break when i == 3; print(i) end", "0\n2\n"),
        ("var n = 0\nwhile true do n += 1\nbreak when n > 4 end\nprint(n)", "5\n"),
        ("let a = [1, 2, 3]\nlet b = a\nb[0] = 9\nprint(a[0])\nprint(a[1..<3].len)", "9\n2\n"),
        (
            "var p = P { x: 1, q: Q { y: 2 } }\nlet old = p\np.q.y = 5\nprint(old.q.y)\nprint(p.q.y)",
            "2\n5\n",
        ),
        ("let a = [P { x: 1, q: Q { y: 2 } }]\na[0].q.y += 40\nprint(a[0].q.y)", "42\n"),
        (
            "print(\"abc\"[1])\nprint(\"hello\"[1..3])\nprint(\"\\n\")\nprint(\"é\".len)",
            "98\nell\n2\n",
        ),
        ("print($\"{1}{true}{\"x\"}{2.5} \\{{E.A}\\}\\n\")", "1truex2.5 {E.A}\n"),
        (
            "print(\"12\".parse() catch |e| do 0 end)\nprint(\"x\".parse() catch |e| do -1 end)",
            "12\n-1\n",
        ),
        (
            "print(may(1) catch |e| do 5 end)\nprint(may(2) catch |e| do print(e)\n6 end)",
            "1\nE.B\n6\n",
        ),
        (
            "match may(2) catch |e| do 9 end { 1 => print(1), n when n > 5 => print(n + 1), else => print(0), }",
            "10\n",
        ),
        ("if plain(1) > 0 and plain(0) == 0 or plain(5) / 0 == 1 do print(1) end", "1\n"),
        (
            "print(wrap_add(9223372036854775807, 1))\nprint(min(3, 2))\nprint(max(1.5, 2.5))\nprint(abs(-3))",
            "-9223372036854775808\n2\n2.5\n3\n",
        ),
        ("let a: []String = []\na.push(\"x\")\na.push(\"y\")\nprint(a.pop() + a[0])", "yx"),
        ("for t in args() do print(t) end\nprint(chr(233) + String(5))", "onetwoé5"),
        (
            "let c = channel(2)\nprint(c.try_send(1))\nprint(c.try_send(2))\nprint(c.try_send(3))\nc.close()\nprint(c.is_closed())",
            "true\ntrue\nfalse\ntrue\n",
        ),
        (
            "let c: Channel[[]String] = channel(1)\nlet a = [\"x\"]\nc.send(a)\na[0] = \"changed\"\nprint(c.recv()[0])",
            "x",
        ),
        (
            "var n = 0\nnursery do\nn = 1\nlet a = [0]\na[5] = 1\nend catch |e| do print(n) end",
            "1\n",
        ),
        // The body of a nursery in a task whose memory is used up.
        (
            "nursery with Budget { memory: 50000 } do\nspawn func() do\nnursery do\n\
             let a = array(100000, 0)\nend catch |e| do print(e) end\nend\nend",
            "MemoryBudgetExhausted\n",
        ),
        ("var n = 0\nlet f = func() do n += 1 end\nf()\nf()\nprint(n)", "2\n"),
        ("let r = nursery do spawn plain(3) end\nprint(r)", "0\n"),
        ("let r = nursery do spawn plain(-3) end\nprint(r)", "-3\n"),
        ("nursery do let h = spawn plain(4)\nprint(await h)\nprint(await h) end", "4\n4\n"),
        (
            "nursery do let h = spawn func() do sleep(100000)\nreturn 1 end\ncancel(h) end\nprint(1)",
            "1\n",
        ),
        ("let start = now_ms()\nsleep(30)\nprint(now_ms() - start >= 30)", "true\n"),
    ];
    for (statements, expected) in cases {
        assert_eq!(main_of(statements), expected, "{statements}");
    }
}

#[test]
fn faults_fail_the_task_and_are_caught_at_its_nursery() {
    let cases = [
        ("let n = 9223372036854775807\nprint(n + 1)", "P002 integer overflow"),
        ("let n = -9223372036854775807 - 1\nprint(n / -1)", "P002 integer overflow"),
        ("let n = -9223372036854775807 - 1\nprint(-n)", "P002 integer overflow"),
        ("let b: u8 = 200\nlet c: u8 = 100\nprint(b + c)", "P002 integer overflow"),
        ("let n = 2147483648\nprint(i32(n))", "P002 integer overflow"),
        ("print(i64(1.0e300))", "P002 integer overflow"),
        ("print(1 << plain(64))", "P002 a shift by 64 in 64 bits"),
        ("print(1 / plain(0))", "P003 division by zero"),
        ("print(1 % plain(0))", "P003 division by zero"),
        ("print([1, 2][plain(2)])", "P001 index 2 is out of bounds, the length is 2"),
        ("print([1, 2][plain(-1)])", "P001 index -1 is out of bounds, the length is 2"),
        ("print(\"ab\"[1..<9])", "P001 the range 1..<9 is out of bounds, the length is 2"),
        ("print(array(plain(-1), 0).len)", "P001 an array of -1 elements"),
        ("let a = array(4611686018427387904, 0)\nprint(a.len)", "P006 out of memory"),
        ("assert(1 > 2)", "P004 an assertion failed"),
        ("panic(\"no way\")", "P005 no way"),
        ("let c = channel(0)\nc.close()\nprint(c.recv())", "ChannelClosed"),
        ("let c = channel(-1)", "P002 the capacity of a channel is 0 to 1048576"),
    ];
    for (statements, expected) in cases {
        assert_eq!(main_of(statements), format!("failed: {expected}"), "{statements}");
        let caught = format!(
            "nursery do spawn func() do\n{statements}\nreturn 0 end end catch |e| do print($\"{{e}}\") end\nprint(\"+\")"
        );
        assert_eq!(main_of(&caught), format!("{expected}+"), "{statements}");
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
