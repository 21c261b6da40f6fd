//! Hostile programs from a seed, and runs of them within a budget.

use parcae::inspect::OnDeadlock;
use parcae::prelude::*;
use parcae_interp::{Host, Program};

/// Fragments that do not end, allocate, spawn, flood, wait for ever or fail, alone or in each
/// other: `{}` is the place of the next one.
const FRAGMENTS: [&str; 32] = [
    "while true do\n{}\nend",
    "while true do n = wrap_add(n, 1)\nend",
    "for i in 0..9223372036854775807 do\n{}\nend",
    "for i in 0..<1000000000 do\nfor j in 0..<1000000000 do n = wrap_add(n, j) end\nend",
    "deep(n)",
    "n = tree(60)",
    "n = left(n)",
    "let f = func(x: i64) -> i64 do deep(x) end\nn = f(1)",
    "let a = [0]\nwhile true do a.push(n)\n{}\nend",
    "var t = \"x\"\nwhile true do t = t + t end",
    "let a = array(1000000000000, 0)\nn = a.len",
    "let a = array(100000, [0])\nn = a.len",
    "let a: []List = []\nwhile true do a.push(List { next: a }) end",
    "nursery do while true do spawn work(n) end end",
    "nursery do spawn bomb(30) end",
    "nursery do spawn bomb(3)\n{}\nend",
    "nursery do\n{}\nend catch |e| do\n{}\nend",
    "nursery with Budget { ops: 9223372036854775807 } do spawn work(n)\n{}\nend",
    "nursery with Budget { ops: -5 } do\n{}\nend",
    "let c = channel(1)\nwhile true do c.send(n)\n{}\nend",
    "let c = channel(1000000)\nwhile true do let sent = c.try_send(n) end",
    "let c: Channel[[]i64] = channel(100)\nlet a = array(1000, 7)\nwhile true do c.send(a) end",
    "let c = channel(0)\nn = c.recv()",
    "let c = channel(-1)",
    "select do\ntimeout(1000000000000) do\n{}\nend\nend",
    "sleep(1000000000000)",
    "defer work(n)\n{}",
    "defer deep(n)\nwhile true do end",
    "while true do print(\"flood\") end",
    "let a = [1]\nn = a[n] + 1 / (n - n)",
    "yield\n{}",
    "panic(\"no\")",
];

/// The text of a program.
pub(crate) fn program(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        FRAGMENTS[(state >> 20) as usize % FRAGMENTS.len()]
    };
    let mut body = String::from("{}");
    for depth in 0..9 {
        let fragment = if depth < 8 { next() } else { "while true do end" };
        body = body.replacen("{}", fragment, 1);
    }
    let body = body.replace("{}", "n = wrap_add(n, 1)");
    format!(
        "struct List {{ next: []List }}\n\
         func deep(x: i64) -> i64 do 1 + deep(x) end\n\
         func tree(x: i64) -> i64 do\nreturn 1 when x == 0\ntree(x - 1) + tree(x - 1)\nend\n\
         func left(x: i64) -> i64 do right(x) + 1 end\nfunc right(x: i64) -> i64 do left(x) + 1 end\n\
         func bomb(x: i64) -> i64 do\nreturn 0 when x == 0\nnursery do\nspawn bomb(x - 1)\nspawn bomb(x - 1)\nend\n0\nend\n\
         func work(x: i64) -> i64 do\nvar n = x\nwhile n < 1000000000 do n += 1 end\nn\nend\n\
         async func main() do\nvar n = 0\n{body}\nend\n"
    )
}

/// Runs a program within a budget: the host lives, nothing is left behind.
pub(crate) fn survive(program: &Program, text: &str, seed: u64) {
    let budget =
        Budget { ops: 4_000, memory: 200_000, spawn_count: 40, channel_ops: 500, syscalls: 50 };
    let builder = Runtime::builder().deterministic(seed).workers(2).budget(budget);
    let rt = builder.on_deadlock(OnDeadlock::Fail).build().unwrap();
    // Whatever the outcome is, there is one.
    let outcome = program.run(&rt, Host::new(|_| ()));
    assert_eq!(rt.live_tasks(), 0, "seed {seed}: {outcome:?}\n{text}");
    // Cleanups have ops in reserve: as many again for each failing task.
    let spent = rt.budget().spent;
    assert!(spent.memory <= budget.memory, "seed {seed}: {} bytes\n{text}", spent.memory);
    assert!(spent.spawn_count <= budget.spawn_count && spent.syscalls <= budget.syscalls);
    assert!(spent.ops <= budget.ops, "seed {seed}: {} ops\n{text}", spent.ops);
}
