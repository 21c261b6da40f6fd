//! The parser and the formatter: examples in canonical form, hostile and damaged input.

mod support;

use parcae_ir::{insert_checks, verify, verify_metering};
use parcae_lang::{Profile, Source, check, format, lower};
use support::examples;

fn formatted(text: &str) -> String {
    format(&Source::new("test.jan", text)).unwrap_or_else(|faults| panic!("{text}\n{faults:?}"))
}

#[test]
fn the_examples_are_correct_and_in_canonical_form() {
    for (name, text) in examples() {
        let source = Source::new(name.clone(), text.clone());
        if let Err(faults) = check(&source, Profile::Core) {
            let shown: String = faults.iter().map(|fault| fault.render(&source)).collect();
            panic!("{name}:\n{shown}");
        }
        assert_eq!(formatted(&text), text, "{name}");
    }
}

#[test]
fn formatting_gives_the_canonical_form_and_keeps_comments() {
    let text = "profile :service\n// about a\nfunc a(x:i64)->i64{ // first\n  let y=(1+2)*-x ; \n\n\n  if y>1 { return y } else { print(y) } /* odd */\n  0 }\nerror E{A,B} struct P{x:i64}\nfunc main() do select { case v = c.recv() { print(v) } timeout(5) do end } end // last\n";
    let want = "{.profile: service.}\n// about a\nfunc a(x: i64) -> i64 do\n    // first\n    let y = (1 + 2) * -x\n\n    if y > 1 do\n        return y\n    else do\n        print(y)\n    end /* odd */\n    0\nend\nerror E {\n    A,\n    B,\n}\nstruct P {\n    x: i64,\n}\nfunc main() do\n    select do\n        case v = c.recv() do\n            print(v)\n        end\n        timeout(5) do\n        end\n    end\nend // last\n";
    assert_eq!(formatted(text), want);
    assert_eq!(formatted(want), want);
}

#[test]
fn parentheses_stay_where_they_are_needed() {
    let cases = [
        ("(1 + 2) * 3", "(1 + 2) * 3"),
        ("1 + (2 * 3)", "1 + 2 * 3"),
        ("(1 - 2) - 3", "1 - 2 - 3"),
        ("1 - (2 - 3)", "1 - (2 - 3)"),
        ("2 ** (3 ** 4)", "2 ** 3 ** 4"),
        ("(2 ** 3) ** 4", "(2 ** 3) ** 4"),
        ("not (a and b)", "not (a and b)"),
        ("(not a) and b", "not a and b"),
        ("-(a + b)", "-(a + b)"),
        ("(a catch |e| do 1 end) + 2", "(a catch |e| do\n        1\n    end) + 2"),
        ("(await a) + b", "await a + b"),
        ("(-a).b", "(-a).b"),
        ("(x |> f)(y)", "(x |> f)(y)"),
        ("$\"{ a+1 }\\{{b}\"", "$\"{a + 1}\\{{b}\""),
    ];
    for (text, want) in cases {
        let program = |expr: &str| format!("func main() do\n    let v = {expr}\nend\n");
        assert_eq!(formatted(&program(text)), program(want), "{text}");
    }
}

/// Lexes, parses, checks and formats: must not panic, hang or give no answer.
fn survive(text: &str) {
    let source = Source::new("hostile.jan", text);
    let checked = check(&source, Profile::Service);
    if let Err(faults) = &checked {
        assert!(!faults.is_empty() && faults.len() <= 200);
        for fault in faults {
            assert!(fault.render(&source).len() < 4096);
            assert!(fault.json(&source).starts_with('{'));
        }
    }
    if checked.is_ok() {
        let mut module = lower(&source, Profile::Service).unwrap();
        assert_eq!(verify(&module), [], "{text}");
        insert_checks(&mut module);
        assert_eq!(verify_metering(&module), [], "{text}");
    }
    if let Ok(first) = format(&source) {
        let second = Source::new("again.jan", first.clone());
        match format(&second) {
            Ok(again) => assert_eq!(again, first, "not idempotent for:\n{text}"),
            Err(faults) => panic!("{text}\nbecomes\n{first}\nwith {faults:?}"),
        }
    }
}

#[test]
fn every_prefix_and_every_missing_word_of_the_examples_is_survived() {
    for (_, text) in examples() {
        let step = (text.len() / 120).max(1);
        for end in (0..text.len()).step_by(step).filter(|end| text.is_char_boundary(*end)) {
            survive(&text[..end]);
        }
        let words: Vec<&str> = text.split_inclusive([' ', '\n', '(', ')', ',']).collect();
        let step = (words.len() / 120).max(1);
        for skip in (0..words.len()).step_by(step) {
            let damaged: String =
                words.iter().enumerate().filter(|(at, _)| *at != skip).map(|(_, w)| *w).collect();
            survive(&damaged);
        }
    }
}

/// A small generator: the tests need the same sequence every time.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below
    }
}

#[test]
fn random_sequences_of_tokens_are_survived() {
    const WORDS: [&str; 64] = [
        "func ",
        "main",
        "()",
        " do\n",
        " end\n",
        "let ",
        "var ",
        "x",
        "y",
        " = ",
        "1",
        "2.5",
        "\"s\"",
        "$\"a{",
        "}b\"",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ",",
        ".",
        "..",
        "..<",
        "if ",
        "else ",
        "while ",
        "for ",
        " in ",
        "match ",
        "=>",
        "nursery ",
        "spawn ",
        "await ",
        "async ",
        "select ",
        "case ",
        "timeout",
        "default ",
        "return ",
        "fail ",
        "catch ",
        "|e|",
        "?",
        "error ",
        "struct ",
        "E",
        ":",
        "i64",
        "->",
        "!",
        "+",
        "-",
        "*",
        " and ",
        " not ",
        "yield\n",
        "defer ",
        "when ",
        "\n",
        "// c\n",
        "/* d */",
        "{.profile: service.}",
    ];
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    for _ in 0..3000 {
        let length = 1 + random.next(60);
        let text: String = (0..length).map(|_| WORDS[random.next(WORDS.len())]).collect();
        survive(&text);
        survive(&format!("func main() do\n{text}\nend\n"));
    }
    for _ in 0..500 {
        let bytes: Vec<u8> = (0..random.next(80)).map(|_| random.next(256) as u8).collect();
        survive(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn deep_and_long_programs_are_refused_or_parsed_within_bounds() {
    let many = |text: &str, times: usize| text.repeat(times);
    let main = |text: &str| format!("func main() do\n{text}\nend\n");
    let deep = [
        format!("let x = {}1{}", many("(", 100_000), many(")", 100_000)),
        format!("let x = {}1", many("-", 100_000)),
        format!("let x = {}1", many("not ", 100_000)),
        format!("let x = 1{}", many(" + 1", 100_000)),
        format!("let x = 2{}", many(" ** 2", 100_000)),
        format!("let x = a{}", many(".b", 100_000)),
        format!("let x = a{}", many("()", 100_000)),
        format!("let x = {}1{}", many("[", 100_000), many("]", 100_000)),
        format!("{}{}", many("if true do ", 100_000), many("end ", 100_000)),
        format!("{}{}", many("nursery { ", 100_000), many("}", 100_000)),
        format!("let f = {}{}", many("func() do ", 100_000), many("end ", 100_000)),
        format!("let x: {}i64 = 1", many("[]", 100_000)),
        many("let x = $\"{", 10_000),
        format!("{}if b do end", many("if a do else ", 100_000)),
    ];
    for text in deep {
        let source = Source::new("deep.jan", main(&text));
        let faults = check(&source, Profile::Service).unwrap_err();
        assert!(!faults.is_empty() && faults.len() <= 200);
    }
    // Long and flat is fine.
    let arms: String = (0..5000).map(|i| format!("else if n == {i} do print({i})\n")).collect();
    let wide = main(&format!("let n = 1\nif n == 0 do print(0)\n{arms}end"));
    assert!(check(&Source::new("wide.jan", wide), Profile::Core).is_ok());
    let big = Source::new("big.jan", " ".repeat(Source::MAX_BYTES + 1));
    assert_eq!(check(&big, Profile::Core).unwrap_err()[0].code, "L0006");
}
