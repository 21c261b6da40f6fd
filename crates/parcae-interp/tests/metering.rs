//! Exact counts: naive and merged checks charge the same ops before every observable action.

mod support;

use support::generator::Generator;
use support::{Charged, Checks, examples, program};

fn charged(text: &str, checks: Checks, ops: u64, seed: u64) -> Charged {
    support::charged(&program(text, checks), ops, seed)
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
            let placed = charged(&text, Checks::Placed, 10_000_000, seed);
            assert_eq!((&naive.0, &naive.1, naive.2), (&placed.0, &placed.1, placed.2), "{name}");
            assert!(naive.3 == placed.3, "{name}: event logs of the form that is run differ");
        }
    }
}

// rule: S0-IR-1, S0-IR-2
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

/// Loops of all forms, with a failure in the middle of a round and one that is caught.
const LOOPS: &str = "func half(n: i64, a: []i64) -> i64 do\nvar s = 0\nfor i in 0..<n do\nbreak when i * 2 > 30\n\
    s += a[i % a.len]\nend\nvar k = 1\nwhile k < n do k += k\na[0] += 1\nend\nfor i in 3..n do s += 7 / (20 - i) end\n\
    for v in a do s += v end\nwhile true do\nreturn s when s > 90\ns += 9\nend\ns\nend\n\
    func main() do\nlet a = [1, 2, 3]\nfor i in 0..3 do print(half(i * 5, a)) end\nnursery do\nprint(half(25, a))\nend catch |e| do\n\
    print($\"{e} {a[0]}\")\nend\nfor i in 0..<9 do a[i] = i end\nend";

#[test]
fn loops_in_strips_and_unrolled_ones_end_at_the_same_round_for_every_budget() {
    let naive = program(LOOPS, Checks::Naive);
    let placed = program(LOOPS, Checks::Placed);
    let whole = support::charged(&naive, 10_000, 1);
    assert!(whole.0.starts_with("P001") && whole.1.contains("P003"), "{whole:?}");
    assert!(whole.2 > 100, "{} ops", whole.2);
    for ops in 1..=whole.2 + 2 {
        let (a, b) = (support::charged(&naive, ops, 1), support::charged(&placed, ops, 1));
        assert_eq!(a, b, "{ops} ops");
    }
}

#[test]
fn long_loops_look_around_as_often_as_in_the_naive_form() {
    let text = "{.profile: service.}\nfunc spin(n: i64) -> i64 do\nvar s = 0\nfor i in 0..<n do s = wrap_add(s, i) end\n\
        var k = 0\nwhile k < n do k += 3 end\ns + k\nend\n\
        func main() do nursery do for i in 1..3 do spawn spin(i * 3000) end end end";
    for seed in 1..=5 {
        let naive = charged(text, Checks::Naive, 100_000, seed);
        assert_eq!(naive, charged(text, Checks::Placed, 100_000, seed), "events, seed {seed}");
    }
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

#[test]
fn generated_programs_are_charged_the_same_in_both_forms() {
    let (mut finished, mut failed) = (0, 0);
    for seed in 1..=150 {
        let text = Generator::program(seed);
        let naive = charged(&text, Checks::Naive, 200_000, seed);
        let merged = charged(&text, Checks::Merged, 200_000, seed);
        assert_eq!(naive, merged, "{text}");
        assert_eq!(naive, charged(&text, Checks::Placed, 200_000, seed), "as run:\n{text}");
        // And where the budget ends in the middle.
        let half = naive.2 / 2;
        let (a, b) =
            (charged(&text, Checks::Naive, half, seed), charged(&text, Checks::Merged, half, seed));
        assert_eq!(a, b, "with {half} ops:\n{text}");
        let placed = charged(&text, Checks::Placed, half, seed);
        assert_eq!(a, placed, "as run, with {half} ops:\n{text}");
        if naive.0 == "0" { finished += 1 } else { failed += 1 }
    }
    assert!(finished > 20 && failed > 5, "{finished} finished, {failed} failed");
}

#[test]
fn the_host_survives_hostile_programs() {
    for seed in 1..=800 {
        let text = support::hostile::program(seed);
        support::hostile::survive(&program(&text, Checks::Placed), &text, seed);
    }
}
