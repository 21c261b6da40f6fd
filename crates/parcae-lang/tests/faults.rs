//! Each diagnostic code, by a program that has the fault; all faults of a file in one run.

use parcae_lang::{Profile, Source, check};

/// The codes and lines of the faults of a program.
fn faults(text: &str) -> Vec<(String, u32)> {
    let source = Source::new("test.jan", text);
    let found = check(&source, Profile::Core).err().unwrap_or_default();
    found.iter().map(|fault| (fault.code.to_owned(), source.position(fault.span.start).0)).collect()
}

fn codes(text: &str) -> Vec<String> {
    faults(text).into_iter().map(|(code, _)| code).collect()
}

/// A program with these statements in its `main`, in `:service`.
fn body(statements: &str) -> String {
    format!(
        "{{.profile: service.}}\nerror E {{ A, B }}\nstruct P {{ x: i64, y: i64 }}\n\
         func may(n: i64) -> i64 ! E do fail E.A when n > 1 n end\n\
         async func slow() -> i64 do 1 end\n\
         func plain(n: i64) -> i64 do n end\n\
         async func main() do\n{statements}\nend\n"
    )
}

#[test]
fn each_code_is_found_where_it_belongs() {
    let cases: &[(&str, &str)] = &[
        ("let s = \"open", "L0002"),
        ("let s = \"\\q\"", "L0005"),
        ("let n = 99999999999999999999", "L0004"),
        ("let n = 12ab", "L0004"),
        ("print(1 $ 2)", "L0001"),
        ("let = 3", "P0001"),
        ("if true then print(1) end", "P0007"),
        ("print 5", "P0006"),
        ("print(1 && 2)", "P0001"),
        ("select do case 5 do end end", "P0009"),
        ("print(nope)", "S1001"),
        ("nope(1)", "S1001"),
        ("nursery do spawn nope(1) end", "S1001"),
        ("let p = P { x: 1, z: 2 }", "S1001"),
        ("let p = P { x: 1 }", "S2011"),
        ("break", "S1005"),
        ("defer 5", "S1006"),
        ("let n: i64 = \"three\"", "S2001"),
        ("print(1 + \"a\")", "S2001"),
        ("print(true + true)", "S2001"),
        ("let x = 1\nx = 2", "S2004"),
        ("let x = 1\nvar x = 2", "S2005"),
        ("plain()", "S2002"),
        ("let n = print(1)", "S2002"),
        ("let a = []", "S2003"),
        ("let b: u8 = 256", "S2010"),
        ("match 3 { 1 => print(1), }", "S2007"),
        ("may(1)", "S3004"),
        ("let n = may(1)", "S3004"),
        ("may(1)?", "S3002"),
        ("plain(1)?", "S3003"),
        ("fail E.A", "S3002"),
        ("let c = CapSpawn { max_tasks: 1 }", "S3001"),
        ("nursery do spawn may(1) end", "S3004"),
        ("spawn plain(1)", "N1001"),
        ("async plain(1)", "N1001"),
        ("slow()", "N1004"),
        ("var n = 1\nnursery do spawn func() do n += 1 end end", "N1003"),
        ("nursery do let h = spawn plain(1)\nspawn func() do print(await h) end end", "S2006"),
        ("let x: ?i64 = 1", "S4001"),
        ("using x = 1", "S4001"),
        ("nursery with cap do end", "S4001"),
        ("print(1) /* open", "L0003"),
        ("select do end", "S1007"),
        ("select do default do print(1) end default do print(2) end end", "S1007"),
        ("let f = func(x: i64) -> i64 do return x when x > 1 end", "S2008"),
        ("let n = may(1) catch |e| do let m = 1 end", "S2008"),
        ("nursery do spawn 5 end", "S2012"),
        ("nursery do spawn func(x: i64) do print(x) end end", "S2012"),
    ];
    for (statements, code) in cases {
        let text = body(statements);
        let found = faults(&text);
        assert!(
            found.iter().any(|(found, line)| found == code && *line >= 8),
            "{statements}: expected {code}, found {found:?}"
        );
    }
    assert_eq!(codes(&body("print(await slow() + plain(1))")), Vec::<String>::new());
}

/// Faults of whole files, and of sizes.
#[test]
fn the_codes_of_files_and_limits_are_found() {
    let nested = |n: usize| (0..n).fold("1".to_owned(), |inner, _| format!("$\"{{{inner}}}\""));
    let defers = "defer print(1)\n".repeat(65);
    let lets: String = (0..5_000).map(|n| format!("let x{n} = 1\n")).collect();
    for (text, code) in [
        ("func f() do end\nfunc f() do end\nfunc main() do end\n".to_owned(), "S1002"),
        ("func print() do end\nfunc main() do end\n".to_owned(), "S1002"),
        ("error E { A, A }\nfunc main() do end\n".to_owned(), "S1002"),
        ("func helper() do end\n".to_owned(), "S1004"),
        ("func main(n: i64) do end\n".to_owned(), "S1004"),
        ("func main() -> String do \"a\" end\n".to_owned(), "S1004"),
        ("error Empty { }\nfunc main() do end\n".to_owned(), "S1003"),
        ("struct A { a: A }\nfunc main() do end\n".to_owned(), "S2009"),
        ("struct A { b: B }\nstruct B { a: A }\nfunc main() do end\n".to_owned(), "S2009"),
        (
            "func f(n: i64) -> i64 do return 1 when n > 0 end\nfunc main() do end\n".to_owned(),
            "S2008",
        ),
        (format!("func main() do print({}) end\n", nested(40)), "L0007"),
        (format!("func main() do print({}1{}) end\n", "(".repeat(5000), ")".repeat(5000)), "P0008"),
        (format!("func main() do\n{defers}end\n"), "S4002"),
        (format!("func main() do\n{lets}end\n"), "S4002"),
    ] {
        let found = codes(&text);
        let start: String = text.chars().take(60).collect();
        assert!(
            found.iter().any(|found| found == code),
            "{start}: expected {code}, found {found:?}"
        );
    }
    assert_eq!(codes(&format!("func main() do print({}) end\n", nested(20))), [""; 0]);
    assert_eq!(codes("struct A { a: []A }\nfunc main() do end\n"), [""; 0]);
    let defers = "defer print(1)\n".repeat(64);
    assert_eq!(codes(&format!("func main() do\n{defers}end\n")), [""; 0]);
}

/// Every code of the compiler is in a test of this file.
#[test]
fn no_code_is_without_a_test() {
    fn sources(folder: &std::path::Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, text);
            } else {
                *text += &std::fs::read_to_string(&path).unwrap();
            }
        }
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut text, mut tests) = (String::new(), String::new());
    sources(&root.join("src"), &mut text);
    sources(&root.join("tests"), &mut tests);
    let is_code = |part: &&str| {
        let (letter, digits) = part.split_at(part.len().min(1));
        "LPSN".contains(letter) && digits.len() == 4 && digits.bytes().all(|it| it.is_ascii_digit())
    };
    let codes: std::collections::BTreeSet<&str> = text
        .split('"')
        .filter(|part| part.is_ascii() && !part.is_empty())
        .filter(is_code)
        .collect();
    assert!(codes.len() > 40, "the scan finds only {codes:?}");
    // A fault of the compiler itself, which no program has.
    let of_programs = codes.iter().filter(|code| **code != "S9001");
    let missing: Vec<_> = of_programs.filter(|code| !tests.contains(**code)).collect();
    assert!(missing.is_empty(), "no test has these codes: {missing:?}");
}

#[test]
fn await_outside_of_async_functions_is_a_fault() {
    let text = "{.profile: service.}\nasync func f() do end\nfunc main() do\nawait f()\nend\n";
    assert_eq!(faults(text), [("N1002".to_owned(), 4)]);
}

#[test]
fn the_profile_gates_concurrency_before_types() {
    // SPEC-027: without a directive a file is `:core`; `:core` rejects all of it.
    let text = "async func main() do\nnursery do\nspawn f()\nend\nlet c = channel(1)\nyield\nend\nfunc f() do end\n";
    let source = Source::new("test.jan", text);
    let found = check(&source, Profile::Core).unwrap_err();
    let lines: Vec<(&str, u32)> =
        found.iter().map(|fault| (fault.code, source.position(fault.span.start).0)).collect();
    assert_eq!(lines, [("S3005", 1), ("S3005", 2), ("S3005", 3), ("S3005", 5), ("S3005", 6)]);
    assert_eq!(found[1].message, "nursery requires :service profile or higher (current: :core)");
    assert!(found[1].hint.as_ref().unwrap().contains("{.profile: service.}"));
    assert!(check(&source, Profile::Service).is_ok(), "the default may be set from outside");
    for directive in ["{.profile: service.}", "{.profile: :service.}", "profile :service"] {
        let source = Source::new("test.jan", format!("{directive}\n{text}"));
        assert!(check(&source, Profile::Core).is_ok(), "{directive}");
    }
    let core = Source::new("test.jan", format!("{{.profile: core.}}\n{text}"));
    assert!(check(&core, Profile::Service).is_err(), "the directive wins");
    assert_eq!(codes("{.profile: nosuch.}\nfunc main() do end\n"), ["S3006"]);
    assert_eq!(codes("func main() do end\n{.profile: service.}\n"), ["P0005"]);
}

#[test]
fn a_missing_end_names_the_block_that_is_open() {
    let text = "func a() do\n    while true do\n        print(1)\n\nfunc main() do\nend\n";
    let source = Source::new("test.jan", text);
    let found = check(&source, Profile::Core).unwrap_err();
    let first = &found[0];
    assert_eq!(first.code, "P0002");
    assert_eq!(source.position(first.span.start).0, 5, "noticed at the next function");
    let (place, note) = first.note.as_ref().unwrap();
    assert_eq!(source.position(place.start).0, 2, "{note}");
    assert!(note.contains("`while`"), "{note}");
}

#[test]
fn all_faults_of_a_file_are_found_in_one_run() {
    let mut text = String::new();
    for i in 0..10 {
        text += &format!("func f{i}() do\n    let x = = {i}\n    print(1)\nend\n");
    }
    text += "func main() do end\n";
    let found = faults(&text);
    let lines: Vec<u32> = found.iter().map(|(_, line)| *line).collect();
    assert_eq!(lines, (0..10).map(|i| i * 4 + 2).collect::<Vec<_>>());
    let types = (0..10).map(|i| format!("    let x{i}: i64 = true\n")).collect::<String>();
    assert_eq!(codes(&format!("func main() do\n{types}end\n")), vec!["S2001"; 10]);
}

#[test]
fn a_fault_is_shown_with_its_line_and_as_json() {
    let source = Source::new("shop.jan", "func main() do\n    let n: i64 = \"three\"\nend\n");
    let found = check(&source, Profile::Core).unwrap_err();
    assert_eq!(
        found[0].render(&source),
        "error[S2001]: expected `i64`, found `String`\n --> shop.jan:2:18\n  |\n\
         2 |     let n: i64 = \"three\"\n  |                  ^^^^^^^\n"
    );
    assert_eq!(
        found[0].json(&source),
        "{\"level\":\"error\",\"code\":\"S2001\",\"message\":\"expected `i64`, found `String`\",\
         \"file\":\"shop.jan\",\"line\":2,\"column\":18,\"end_line\":2,\"end_column\":25}"
    );
}

#[test]
fn programs_without_faults_are_accepted() {
    let cases = [
        "let a: i32 = 5\nlet b = a + 1\nprint(1 + b)",
        "let x = 1\nlet x = \"text\"\nprint(x)",
        "var n = 0\nwhile n < 3 { n += 1 }\nprint(n)",
        "let v = may(1) catch e { return }\nprint(v)",
        "match may(0) catch |e| do -1 end { 0 => print(1), n when n > 5 => print(n), else => do print(2) end }",
        "let f = func(x: i64) -> i64 do x end\nprint(f(2))",
        "let s = $\"a {1 + 2} b {$\"inner {\"}\"}\"}\"\nprint(s)",
        "for i in 0..5 do continue when i == 2; print(i) end",
        "nursery |n| do n.cancel() end catch |e| do print(e) end",
        "let a = [[1, 2], [3]]\nprint(a[0][1])",
        "if plain(1) == 1 { print(1) } else { print(2) }",
        "let p = P { x: 1, y: 2 }\nif p.x < 2 do print(p.y) end",
    ];
    for statements in cases {
        let found = faults(&body(statements));
        assert!(found.is_empty(), "{statements}: {found:?}");
    }
}
