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
        // And where the budget ends in the middle.
        let half = naive.2 / 2;
        let (a, b) =
            (charged(&text, Checks::Naive, half, seed), charged(&text, Checks::Merged, half, seed));
        assert_eq!(a, b, "with {half} ops:\n{text}");
        if naive.0 == "0" { finished += 1 } else { failed += 1 }
    }
    assert!(finished > 20 && failed > 5, "{finished} finished, {failed} failed");
}

#[test]
fn the_host_survives_hostile_programs() {
    for seed in 1..=800 {
        let text = support::hostile::program(seed);
        support::hostile::survive(&program(&text, Checks::Merged), &text, seed);
    }
}
