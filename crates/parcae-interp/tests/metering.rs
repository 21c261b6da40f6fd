//! Exact counts: naive and merged checks charge the same ops before every observable action.

mod support;

use parcae::prelude::*;
use support::{Checks, examples, program, run};

/// Outcome, output and ops spent of a run with a budget, under a seed.
fn charged(text: &str, checks: Checks, ops: u64, seed: u64) -> (String, String, u64, Vec<u8>) {
    let budget = Budget::UNLIMITED.with_ops(ops);
    let rt = Runtime::builder().deterministic(seed).workers(2).budget(budget).build().unwrap();
    let (outcome, output) = run(&program(text, checks), &rt);
    let outcome = match outcome {
        Ok(value) => value.to_string(),
        Err(failure) => format!("{failure}"),
    };
    (outcome, output, rt.budget().spent.ops, rt.event_log())
}

#[test]
fn naive_and_merged_checks_charge_the_same_ops_in_the_examples() {
    for (name, text, _) in examples() {
        for seed in [1, 7] {
            let naive = charged(&text, Checks::Naive, 10_000_000, seed);
            let merged = charged(&text, Checks::Merged, 10_000_000, seed);
            assert_eq!(naive.0, merged.0, "{name}");
            assert_eq!(naive.1, merged.1, "{name}");
            assert_eq!(naive.2, merged.2, "{name}: ops");
            assert!(naive.3 == merged.3, "{name}: event logs differ");
        }
    }
}

#[test]
fn the_budget_is_used_up_at_the_same_place_for_every_amount() {
    let text = "func leaf(x: i64) -> i64 do x + 1 end\n\
                func work(n: i64) -> i64 do\nvar sum = 0\nfor i in 0..<n do\nsum += leaf(i)\n\
                let t = $\"{sum}\"\nprint(t)\nend\nsum\nend\n\
                func main() do\nprint(work(3))\nlet a = [1]\nprint(a[0])\nprint(a[1])\nend";
    let (outcome, _, all, _) = charged(text, Checks::Naive, 10_000, 1);
    assert!(outcome.starts_with("P001"), "{outcome}");
    assert!((20..200).contains(&all), "{all} ops");
    let mut outputs = std::collections::BTreeSet::new();
    for ops in 1..=all + 2 {
        let naive = charged(text, Checks::Naive, ops, 1);
        let merged = charged(text, Checks::Merged, ops, 1);
        assert_eq!(naive, merged, "{ops} ops");
        assert_eq!(naive.0 == "BudgetExceeded", ops < all, "{ops} of {all} ops: {}", naive.0);
        outputs.insert(naive.1);
    }
    assert!(outputs.len() > 5, "the end of the budget falls on different places");
}

#[test]
fn loops_calls_and_allocations_cost_what_the_specification_says() {
    let ops = |body: &str| {
        charged(
            &format!("func f() do end\nfunc main() do\n{body}\nend"),
            Checks::Naive,
            1_000_000,
            1,
        )
        .2
    };
    let empty = ops("");
    assert_eq!(ops("for i in 0..<10 do end") - empty, 10, "one op per iteration");
    assert_eq!(ops("f()\nf()") - empty, 2, "one per call");
    assert_eq!(ops("let a = [1]\nlet b = [2]") - empty, 2, "one per allocation");
    assert_eq!(
        ops("let c = channel(2)\nc.send(1)\nc.recv()") - empty,
        3,
        "one per channel operation"
    );
    assert_eq!(ops("yield\nyield"), empty, "a voluntary yield costs nothing");
    let large = ops("let a = array(6400, 0)") - empty;
    assert_eq!(large, 1 + 6400 * 8 / 64, "memory that is written costs by its size");
}

/// Programs from a seed: bounded loops, arithmetic, calls, arrays, texts, tasks.
struct Generator {
    state: u64,
    text: String,
    depth: usize,
}

impl Generator {
    fn below(&mut self, n: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % n
    }

    fn expr(&mut self, depth: usize) -> String {
        match if depth == 0 { self.below(3) } else { self.below(9) } {
            0 => self.below(50).to_string(),
            1 => ["a", "b", "c"][self.below(3) as usize].to_owned(),
            2 => {
                let fails = self.below(60) == 0;
                format!("list[{}]", if fails { 5 } else { self.below(5) })
            }
            3 => format!("leaf({})", self.expr(depth - 1)),
            4 => format!("twice({})", self.expr(depth - 1)),
            5 => format!("({} % 7)", self.expr(depth - 1)),
            op => {
                let (left, right) = (self.expr(depth - 1), self.expr(depth - 1));
                format!("({left} {} {right})", ["+", "-", "*"][op as usize - 6])
            }
        }
    }

    fn block(&mut self) {
        for _ in 0..=self.below(4) {
            let line = match if self.depth > 2 { self.below(4) } else { self.below(9) } {
                0 => format!("a = {}", self.expr(2)),
                1 => format!("b = {} % 1000", self.expr(2)),
                2 => format!("list[{}] = {}", self.below(4), self.expr(1)),
                3 => format!("println($\"{{{}}} {{a}}\")", self.expr(1)),
                4 => {
                    let times = self.below(6);
                    let head = format!("for i{} in 0..<{times} do", self.depth);
                    self.nested(&head);
                    continue;
                }
                5 => {
                    let head = format!("if {} > {} do", self.expr(1), self.expr(1));
                    self.nested(&head);
                    continue;
                }
                6 => {
                    let head = format!(
                        "nursery do\nlet h = spawn leaf({})\nc = await h % 100",
                        self.expr(1)
                    );
                    self.nested(&head);
                    self.text += "catch |e| do println($\"{e}\") end\n";
                    continue;
                }
                7 => format!("pipe.send({})\nb = take(pipe)\nprint(text(b))", self.expr(1)),
                _ => format!("c = may({}) catch |e| do a % 5 end", self.expr(1)),
            };
            self.text += &line;
            self.text.push('\n');
        }
    }

    fn nested(&mut self, head: &str) {
        self.text += head;
        self.text.push('\n');
        self.depth += 1;
        self.block();
        self.depth -= 1;
        self.text += "end\n";
    }

    fn program(seed: u64) -> String {
        let head = "error E { A }\nfunc leaf(x: i64) -> i64 do x % 1000 + 1 end\n\
                    func twice(x: i64) -> i64 do leaf(x) + leaf(x) end\n\
                    func may(x: i64) -> i64 ! E do fail E.A when x % 3 == 0 x end\n\
                    func take(c: Channel) -> i64 do c.recv() end\n\
                    func text(x: i64) -> String do $\"<{x}>\" end\n\
                    async func main() do\nvar a = 1\nvar b = 2\nvar c = 3\nlet list = [1, 2, 3, 4, 5]\nlet pipe = channel(2)\n";
        let state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut generator = Generator { state, text: head.to_owned(), depth: 0 };
        for _ in 0..3 {
            generator.block();
        }
        generator.text += "println($\"{a} {b} {c}\")\nend\n";
        generator.text
    }
}

#[test]
fn generated_programs_are_charged_the_same_in_both_forms() {
    let (mut finished, mut failed) = (0, 0);
    for seed in 1..=150 {
        let text = Generator::program(seed);
        let naive = charged(&text, Checks::Naive, 200_000, seed);
        let merged = charged(&text, Checks::Merged, 200_000, seed);
        assert_eq!(naive, merged, "{text}");
        // And where the budget ends in the middle.
        let half = naive.2 / 2;
        let (a, b) =
            (charged(&text, Checks::Naive, half, seed), charged(&text, Checks::Merged, half, seed));
        assert_eq!(a, b, "with {half} ops:\n{text}");
        if naive.0 == "0" { finished += 1 } else { failed += 1 }
    }
    assert!(finished > 20 && failed > 5, "{finished} finished, {failed} failed");
}
