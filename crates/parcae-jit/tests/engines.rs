//! Both engines: the same output, the same failures, the same ops, the same events.

#[path = "../../parcae-interp/tests/support/mod.rs"]
mod support;

use parcae::prelude::*;
use parcae_interp::Program;
use support::cases::{FAULTS, STATEMENTS, main_of};
use support::generator::Generator;
use support::{Checks, charged, examples, module, run};

fn both(text: &str, checks: Checks) -> (Program, Program) {
    let module = module(text, checks);
    let interpreted = Program::new(&module).unwrap_or_else(|found| panic!("{found:#?}"));
    let compiled = parcae_jit::compile(&module).unwrap_or_else(|error| panic!("{error}\n{text}"));
    (interpreted, compiled)
}

#[test]
fn the_examples_print_what_they_should_under_many_seeds() {
    for (name, text, expected) in examples() {
        for checks in [Checks::Naive, Checks::Merged, Checks::Placed] {
            let (_, program) = both(&text, checks);
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
        let (_, program) = both(&text, Checks::Placed);
        for workers in [1, 2, 4] {
            let rt = Runtime::builder().workers(workers).build().unwrap();
            let (outcome, output) = run(&program, &rt);
            assert_eq!(output, expected, "{name} on {workers} workers: {outcome:?}");
        }
    }
}

#[test]
fn both_engines_charge_the_same_ops_in_the_examples() {
    for (name, text, _) in examples() {
        let (interpreted, _) = both(&text, Checks::Naive);
        let (_, compiled) = both(&text, Checks::Placed);
        for seed in [1, 7] {
            let a = charged(&interpreted, 10_000_000, seed);
            let b = charged(&compiled, 10_000_000, seed);
            assert_eq!((&a.0, &a.1), (&b.0, &b.1), "{name}");
            // The depth of a recursion is bounded by other limits.
            if name != "hostile_recursion" {
                assert_eq!(a.2, b.2, "{name}: ops");
                assert!(a.3 == b.3, "{name}: event logs differ");
            }
        }
    }
}

#[test]
fn both_engines_charge_the_same_ops_in_generated_programs() {
    let (mut finished, mut failed) = (0, 0);
    for seed in 1..=25 {
        let text = Generator::program(seed);
        let (interpreted, naive) = both(&text, Checks::Naive);
        let (placed, compiled) = both(&text, Checks::Placed);
        let a = charged(&interpreted, 200_000, seed);
        for program in [&naive, &placed, &compiled] {
            assert_eq!(a, charged(program, 200_000, seed), "{text}");
        }
        // And where the budget ends in the middle.
        for ops in [a.2 / 2, a.2 / 3, a.2.saturating_sub(1)] {
            let (a, b) = (charged(&interpreted, ops, seed), charged(&compiled, ops, seed));
            assert_eq!(a, b, "with {ops} ops:\n{text}");
        }
        if a.0 == "0" { finished += 1 } else { failed += 1 }
    }
    assert!(finished > 5 && failed > 2, "{finished} finished, {failed} failed");
}

/// Outcome with its place, and output, of one run.
fn placed(program: &Program) -> (String, String) {
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let (outcome, output) = run(program, &rt);
    let outcome = match outcome {
        Ok(value) => value.to_string(),
        Err(failure) => {
            format!("{failure} at {}:{} in {}", failure.at.line, failure.at.column, failure.func)
        }
    };
    (outcome, output)
}

#[test]
fn statements_do_what_they_say() {
    for (statements, expected) in STATEMENTS {
        let (_, compiled) = both(&main_of(statements), Checks::Placed);
        let (interpreted, _) = both(&main_of(statements), Checks::Naive);
        let (outcome, output) = placed(&compiled);
        assert_eq!(&output, expected, "{statements}: {outcome}");
        assert_eq!((outcome, output), placed(&interpreted), "{statements}");
    }
}

#[test]
fn faults_have_the_same_message_and_place() {
    for (statements, expected) in FAULTS {
        let (_, compiled) = both(&main_of(statements), Checks::Placed);
        let (interpreted, _) = both(&main_of(statements), Checks::Naive);
        let (outcome, output) = placed(&compiled);
        assert!(outcome.starts_with(expected), "{statements}: {outcome}");
        assert_eq!((outcome, output), placed(&interpreted), "{statements}");
        // In a task, caught at its nursery.
        let caught = main_of(&format!(
            "nursery do spawn func() do\n{statements}\nreturn 0 end end catch |e| do print($\"{{e}}\") end\nprint(\"+\")"
        ));
        let (_, compiled) = both(&caught, Checks::Placed);
        assert_eq!(placed(&compiled).1, format!("{expected}+"), "{statements}");
    }
}

/// Arithmetic at the edges of all types, by both engines.
#[test]
fn arithmetic_agrees_at_the_edges() {
    let words = ["0", "1", "-1", "2", "7", "-7", "63", "64", "255", "256", "max", "least"];
    let operators = ["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "**"];
    for (ty, max, least) in [
        ("i64", "9223372036854775807", "-9223372036854775807 - 1"),
        ("i32", "i32(2147483647)", "i32(-2147483648)"),
        ("u8", "u8(255)", "u8(0)"),
    ] {
        let mut text = String::from("error E { A }\n");
        for (number, operator) in operators.iter().enumerate() {
            text += &format!("func op{number}(a: {ty}, b: {ty}) -> {ty} do a {operator} b end\n");
        }
        text += "async func main() do\n";
        text += &format!("let max = {max}\nlet least = {least}\n");
        text += &format!("let words: []{ty} = [max, least]\n");
        for word in words.iter().filter(|word| word.parse::<i64>().is_ok()) {
            let number: i64 = word.parse().unwrap();
            let fits = match ty {
                "u8" => (0..256).contains(&number),
                _ => true,
            };
            if fits {
                text += &format!("words.push({ty}({word}))\n");
            }
        }
        text += "for a in words do\nfor b in words do\n";
        for number in 0..operators.len() {
            text += &format!(
                "nursery do let h = spawn op{number}(a, b)\nlet r = await h\nprint($\"{{r}} \") end catch |e| do print($\"{{e}} \") end\n"
            );
        }
        text +=
            "print($\"{a < b} {a <= b} {a > b} {a >= b} {a == b} {a != b}\\n\")\nend\nend\nend\n";
        let (interpreted, compiled) = both(&text, Checks::Merged);
        let (a, b) = (placed(&interpreted), placed(&compiled));
        assert_eq!(a.0, "0", "{ty}");
        assert!(a.1.contains("P002") && a.1.contains("P003"), "{ty}: {}", a.1);
        assert_eq!(a, b, "{ty}");
    }
}
