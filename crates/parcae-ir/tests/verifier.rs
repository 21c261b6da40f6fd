//! The verifier, by one text for each rule; the text form under damage.

use parcae_ir::{
    insert_checks, merge_checks, parse, place_checks, print, strip_loops, unroll_loops, verify,
    verify_metering,
};

/// A module with this function and these others.
fn module(body: &str) -> String {
    format!(
        "file \"test\"\nentry @main\nstruct P {{ x: i64 }}\nerror ParseError {{ Invalid }}\n\
         func @main() -> void tenancy(CPU_Serial)\nb0:\n{body}end\n\
         func @one(%0: i64) -> i64 tenancy(CPU_Serial)\nb0:\n  Return %0\nend\n\
         func @root() -> i64 tenancy(CPU_Parallel)\nb0:\n  %0: i64 = Constant 1\n  Return %0\nend\n"
    )
}

#[test]
fn each_violated_rule_is_found() {
    let cases = [
        ("  %0: i64 = Constant true\n  Return\n", "does not fit the type"),
        ("  %0: u8 = Constant 300\n  Return\n", "does not fit the type"),
        (
            "  %0: i64 = Add %1, %1\n  %1: i64 = Constant 1\n  Return\n",
            "is used where it is not defined",
        ),
        ("  %0: i64 = Constant 1\n  %0: i64 = Constant 1\n  Return\n", "is defined twice"),
        ("  Return %7\n", "no value"),
        ("  Jump b9\n", "no block"),
        ("  Jump b0\n", "no block, or the first one"),
        ("  %0: i64 = Constant 1\n  Return %0\n", "is not that of the function"),
        ("  %0: i64 = Constant 1\n  Branch %0, b1, b1\nb1:\n  Return\n", "needs a bool"),
        ("  Jump b1\nb1(%0: i64):\n  Return\n", "do not fit"),
        ("  %0: i64 = Call @one\n  Return\n", "do not fit the function"),
        ("  %0: i64 = Call @root\n  Return\n", "tenancy"),
        (
            "  %0: i64 = Constant 1\n  %1: Nursery = Nursery_Begin\n  %2: Task[i64] = Spawn @one, %0\n  %3: i64 = Nursery_End %1\n  Return\n",
            "tenancy",
        ),
        ("  %0: Task[i64] = Spawn @root\n  Return\n", "outside of a nursery"),
        ("  %0: Nursery = Nursery_Begin\n  Return\n", "ends with an open nursery"),
        (
            "  %0: Nursery = Nursery_Begin\n  %1: i64 = Nursery_End %0\n  %2: i64 = Nursery_End %0\n  Return\n",
            "not the innermost",
        ),
        (
            "  %0: Nursery = Nursery_Begin\n  Jump b1\nb1:\n  Yield\n  Jump b2\nb2:\n  %1: i64 = Nursery_End %0\n  Return\n",
            "would leave 1 nurseries open",
        ),
        (
            "  Jump b1\nb1 unwind b2:\n  Yield\n  Return\nb2:\n  Return\n",
            "parameter of type Failure",
        ),
        (
            "  %0: i64 = Constant 1\n  Jump b1\nb1 unwind b2:\n  %1: i64 = Add %0, %0\n  Return\nb2(%2: Failure):\n  %3: i64 = Add %1, %1\n  Resume %2\n",
            "%1 is used where it is not defined",
        ),
        (
            "  %0: i64 = Constant 1\n  %1: struct P = Struct_Construct %0, %0\n  Return\n",
            "needs a value for each field",
        ),
        (
            "  %0: i64 = Constant 1\n  %1: struct P = Struct_Construct %0\n  %2: i64 = Field_Access 4, %1\n  Return\n",
            "no such field",
        ),
        ("  Budget_Decrement 0\n  Return\n", "from 1 to 65536"),
    ];
    for (body, rule) in cases {
        let module = parse(&module(body)).unwrap_or_else(|fault| panic!("{fault:?}\n{body}"));
        let found = verify(&module);
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(shown.iter().any(|text| text.contains(rule)), "{body}: {rule}: {shown:?}");
    }
    let correct = parse(&module("  Return\n")).unwrap();
    assert_eq!(verify(&correct), []);
}

#[test]
fn all_violations_are_collected() {
    let body = "  %0: i64 = Constant true\n  %1: bool = Constant 1\n  Yield %0\n  Return %0\n";
    assert_eq!(verify(&parse(&module(body)).unwrap()).len(), 4);
}

#[test]
fn unmetered_code_is_found() {
    let metered = |text: &str| {
        let module = parse(text).unwrap();
        assert_eq!(verify(&module), []);
        verify_metering(&module)
    };
    let functions =
        |body: &str| format!("file \"t\"\nentry @main\nerror ParseError {{ Invalid }}\n{body}");
    // Two functions that call each other, without checks before the calls; and a call by a value.
    let mutual = functions(
        "func @main() -> void tenancy(CPU_Serial)\nb0:\n  Call @other\n  Budget_Decrement 1\n  Budget_Check\n  Return\nend\n\
         func @other() -> void tenancy(CPU_Serial)\nb0:\n  Call @main\n  Budget_Decrement 1\n  Budget_Check\n  Return\nend\n",
    );
    assert!(metered(&mutual).iter().any(|v| v.message.contains("a cycle of calls")));
    let by_value = functions(
        "func @main() -> void tenancy(CPU_Serial)\nb0:\n  %0: func() -> void = Fn_Ref @main\n  Closure_Call %0\n  Return\nend\n",
    );
    assert!(metered(&by_value).iter().any(|v| v.message.contains("a cycle of calls")));
    // A handler that jumps back to the region which it handles.
    let handler = functions(
        "func @main() -> void tenancy(CPU_Serial)\nb0:\n  Budget_Decrement 1\n  Budget_Check\n  Jump b1\nb1 unwind b2:\n  Yield\n  Return\nb2(%0: Failure):\n  Jump b1\nend\n",
    );
    assert!(metered(&handler).iter().any(|v| v.message.contains("without a Budget_Check")));
    for text in [&mutual, &by_value, &handler] {
        let mut module = parse(text).unwrap();
        for block in module.funcs.iter_mut().flat_map(|func| &mut func.blocks) {
            block.insts.retain(|inst| !inst.op.name().starts_with("Budget"));
        }
        insert_checks(&mut module);
        assert_eq!(verify_metering(&module), [], "{}", print(&module));
        merge_checks(&mut module);
        assert_eq!(verify_metering(&module), [], "{}", print(&module));
    }
}

/// A loop in strips.
const STRIPS: &str = "entry @main
error ParseError { Invalid }
func @main() -> void tenancy(CPU_Serial)
b0:
  %0: i64 = Constant 0
  %1: i64 = Constant 100
  %2: i64 = Constant 1
  Budget_Decrement 1
  Budget_Check
  Jump b1(%0)
b1(%3: i64):
  %4: i64 = Budget_Strip 0, %3, %1
  Jump b2(%3)
b2(%5: i64) owes %5 - %3:
  %6: bool = Less %5, %4
  Branch %6, b3, b4
b3 owes %5 - %3:
  %7: i64 = Add %5, %2
  Jump b2(%7)
b4 owes %5 - %3:
  %8: i64 = Wrap_Sub %5, %3
  Budget_Decrement %8
  Budget_Check
  %9: bool = Less %5, %1
  Branch %9, b1(%5), b5
b5:
  Return
end
";

/// The faults of a text that has some.
fn refused(text: &str) -> String {
    let module = parse(text).unwrap_or_else(|fault| panic!("{fault:?}\n{text}"));
    let found = verify(&module).into_iter().chain(verify_metering(&module));
    let found: Vec<String> = found.map(|violation| violation.message).collect();
    assert!(!found.is_empty(), "no fault in\n{text}");
    found.join("; ")
}

#[test]
fn strips_are_proven_and_damage_to_each_part_of_their_form_is_found() {
    let module = parse(STRIPS).unwrap();
    assert_eq!((verify(&module), verify_metering(&module)), (vec![], vec![]));
    assert_eq!(parse(&print(&module)).as_ref(), Ok(&module));
    let damages = [
        ("Less %5, %4", "Less %5, %1", "cycle"),
        ("Less %5, %4", "LessEqual %5, %4", "cycle"),
        ("Branch %6, b3, b4", "Branch %6, b4, b3", "cycle"),
        ("Jump b2(%3)", "Jump b2(%0)", "charged"),
        ("b2(%5: i64) owes %5 - %3:", "b2(%5: i64) owes %5 - %0:", "charged"),
        ("b3 owes %5 - %3:", "b3 owes %3 - %5:", "charged"),
        ("b3 owes %5 - %3:", "b3:", "charged"),
        // Rounds that do not advance, or advance twice.
        ("Add %5, %2", "Add %5, %0", "charged"),
        ("  Jump b2(%7)", "  %10: i64 = Add %7, %2\n  Jump b2(%10)", "charged"),
        ("Wrap_Sub %5, %3", "Wrap_Sub %3, %5", "charged"),
        ("  Budget_Decrement %8\n  Budget_Check\n", "", "charged"),
        ("  Budget_Decrement %8\n  Budget_Check\n", "  Budget_Decrement %8\n", "cycle"),
        // The next strip begins though the loop has ended, or elsewhere, or bounds nothing.
        ("Branch %9, b1(%5), b5", "Branch %9, b1(%0), b5", "charged"),
        ("%9: bool = Less %5, %1", "%9: bool = Less %3, %1", "charged"),
        ("%9: bool = Less %5, %1", "%9: bool = LessEqual %5, %1", "charged"),
        ("Branch %9, b1(%5), b5", "Branch %9, b5, b1(%5)", "charged"),
        ("Budget_Strip 0, %3, %1", "Budget_Strip 0, %0, %1", "charged"),
        ("Budget_Strip 0, %3, %1", "Budget_Strip 1, %3, %1", "charged"),
        // Operations that others observe wait for the charge.
        ("  %7: i64 = Add", "  Yield\n  %7: i64 = Add", "charged"),
        ("  %9: bool", "  Yield\n  %9: bool", "charged"),
        ("  %8: i64 = Wrap_Sub %5, %3", "  %8: i64 = Budget_Left", "charged"),
    ];
    for (from, to, fault) in damages {
        let text = STRIPS.replacen(from, to, 1);
        assert_ne!(text, STRIPS, "{from}");
        let found = refused(&text);
        assert!(found.contains(fault), "{from} -> {to}: {found}\n{text}");
    }
    // A single strip is correct; a test of another value lets its rounds go on for ever.
    let single = STRIPS.replace("Branch %9, b1(%5), b5", "Jump b5");
    assert_eq!(verify_metering(&parse(&single).unwrap()), vec![]);
    let found = refused(&single.replace("Less %5, %4", "Less %3, %4"));
    assert!(found.contains("cycle"), "{found}");
}

#[test]
fn unrolled_loops_are_proven_and_their_guard_is_needed() {
    let text = "entry @main\nerror ParseError { Invalid }\n\
                func @main() -> void tenancy(CPU_Serial)\nb0:\n  Jump b1\nb1:\n  Jump b1\nend\n";
    let mut module = parse(text).unwrap();
    place_checks(&mut module);
    let text = print(&module);
    assert_eq!((verify(&module), verify_metering(&module)), (vec![], vec![]), "{text}");
    assert_eq!(text.matches("Budget_Round").count(), 7, "{text}");
    let damages = [
        ("Constant 8", "Constant 6", "test that they are left"),
        ("GreaterEqual", "LessEqual", "test that they are left"),
        ("  Budget_Round\n", "", "charged"),
        ("Budget_Decrement 8", "Budget_Decrement 7", "charged"),
        ("owes 3:", "owes 4:", "charged"),
        ("owes 3:", "owes 4000:", "test that they are left"),
    ];
    for (from, to, fault) in damages {
        assert!(text.contains(from), "{from}\n{text}");
        let found = refused(&text.replacen(from, to, 1));
        assert!(found.contains(fault), "{from}: {found}");
    }
    // Both passes leave alone what they have made.
    let again = module.clone();
    strip_loops(&mut module);
    unroll_loops(&mut module);
    assert_eq!(module, again);
}

#[test]
fn damaged_texts_are_refused_or_verified_without_a_panic() {
    let text = module(
        "  %0: i64 = Constant -5 ; 3:4\n  %1: String = Constant \"a \\\"b\\\" \\a;\"\n  %2: f64 = Constant 0f3ff8000000000000\n  %3: Nursery = Nursery_Begin\n  Jump b1\nb1 unwind b2:\n  %4: Task[i64] = Spawn @root\n  %5: bool = Less %0, %0\n  Branch %5, b3(%0), b3(%0)\nb2(%6: Failure):\n  %7: Failure = Nursery_Abort %3, %6\n  Resume %7\nb3(%8: i64):\n  %9: i64 = Nursery_End %3\n  Print 1, %1\n  Return\n",
    );
    let parsed = parse(&text).unwrap();
    assert_eq!(verify(&parsed), []);
    assert_eq!(print(&parsed), text);
    let survive = |text: &str| {
        let Ok(module) = parse(text) else { return };
        if verify(&module).is_empty() {
            assert_eq!(parse(&print(&module)).map(|again| print(&again)), Ok(print(&module)));
            verify_metering(&module);
            let mut module = module;
            // A damaged text may have checks already.
            let budget = |inst: &parcae_ir::Inst| inst.op.name().starts_with("Budget");
            let mut blocks = module.funcs.iter().flat_map(|func| &func.blocks);
            if !blocks.any(|block| block.insts.iter().any(budget)) {
                insert_checks(&mut module);
                assert_eq!(verify_metering(&module), [], "{}", print(&module));
            }
        }
    };
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        survive(&text[..end]);
    }
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below
    };
    let lines: Vec<&str> = text.lines().collect();
    let tokens = [
        "%0",
        "%99999999",
        "b1",
        "b7",
        "i64",
        "[]",
        "(",
        ")",
        ",",
        ":",
        "=",
        "Jump",
        "\"",
        "Nursery_End",
        "-1",
        "Return",
        "@one",
        "Result[",
        ";",
    ];
    for _ in 0..4000 {
        let mut damaged: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        for _ in 0..=random(3) {
            let at = random(damaged.len());
            match random(4) {
                0 => drop(damaged.remove(at)),
                1 => {
                    let from = random(damaged.len());
                    let copy = damaged[from].clone();
                    damaged.insert(at, copy);
                }
                2 => {
                    let token = tokens[random(tokens.len())];
                    let words: Vec<&str> = damaged[at].split(' ').collect();
                    let place = random(words.len());
                    let mut words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
                    words[place] = token.to_owned();
                    damaged[at] = words.join(" ");
                }
                _ => {
                    let other = random(damaged.len());
                    damaged.swap(at, other);
                }
            }
            if damaged.is_empty() {
                break;
            }
        }
        survive(&damaged.join("\n"));
    }
    assert!(parse(&format!("struct P {{ x: {}i64 }}", "[]".repeat(100_000))).is_err());
}
