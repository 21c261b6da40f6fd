//! LLVM text of programs of the language: compiled, linked with the library, and run.

use crate::installed::{Linked, compile, compiler, execute, prefix, read};
use crate::tools;
use parcae_lang::{Profile, Source, lower};
use std::path::{Path, PathBuf};
use std::process::Command;

/// LLVM text of a program, if it has one.
fn emitted(name: &str, text: &str) -> Result<String, String> {
    let source = Source::new(format!("{name}.jan"), text);
    let mut module = lower(&source, Profile::Core).expect("a correct program");
    parcae_ir::insert_checks(&mut module);
    parcae_ir::merge_checks(&mut module);
    parcae_ir::emit_llvm(&module).map_err(|error| error.to_string())
}

/// An object of this text, by `clang` or `llc`; none if there is neither.
fn object(name: &str, text: &str) -> Option<PathBuf> {
    let (source, object) =
        (prefix().join(format!("{name}.ll")), prefix().join(format!("{name}.ll.o")));
    std::fs::write(&source, text).expect("the folder can be written");
    let run = |tool: &Path, args: &[&str]| {
        let mut command = Command::new(tool);
        command.args(args).arg("-o").arg(&object).arg(&source);
        command.output().expect("a compiler that runs")
    };
    let llc = ["-filetype=obj", "-relocation-model=pic"];
    let output = match (tools::find("llc"), tools::find("clang")) {
        (Some(tool), _) => {
            let new = run(&tool, &llc);
            // LLVM 14 has to be told that pointers have no types.
            if new.status.success() {
                new
            } else {
                run(&tool, &[&llc[..], &["-opaque-pointers"]].concat())
            }
        }
        (None, Some(tool)) => run(&tool, &["-c", "-fPIC", "-Wno-override-module"]),
        (None, None) => return None,
    };
    assert!(output.status.success(), "{name}: {}\n{text}", String::from_utf8_lossy(&output.stderr));
    Some(object)
}

/// Exit code, output and errors of a program; none if a tool is missing.
fn run(name: &str, text: &str) -> Option<(Option<i32>, String, String)> {
    let llvm = emitted(name, text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let Some(object) = object(name, &llvm) else {
        println!("skipped: {name}: neither llc nor clang found (Debian: apt-get install llvm)");
        return None;
    };
    let program = prefix().join(format!("{name}-llvm"));
    let cc = compiler(name, "main.c")?;
    if let Err(said) = compile(&cc, &[], &[object], &program, Linked::Shared) {
        panic!("{name} is not linked:\n{said}");
    }
    let outcome = execute(&program, &[]);
    Some((outcome.code, outcome.stdout, outcome.stderr))
}

#[test]
fn examples_of_the_language_run_as_llvm_text() {
    let mut names = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/jan");
    for entry in std::fs::read_dir(folder).expect("the examples").flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "jan") {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let text = read(&format!("../../examples/jan/{name}.jan"));
            if emitted(&name, &text).is_ok() {
                names.push(name);
            }
        }
    }
    names.sort();
    for name in ["collatz", "fan_out", "handles", "hello", "pipeline"] {
        assert!(names.iter().any(|it| it == name), "{name} has no LLVM text: {names:?}");
    }
    for name in names {
        let (text, expected) = (
            read(&format!("../../examples/jan/{name}.jan")),
            read(&format!("../../examples/jan/{name}.out")),
        );
        let Some((code, stdout, stderr)) = run(&name, &text) else { return };
        assert_eq!((code, stdout), (Some(0), expected), "{name}: {stderr}");
    }
}

#[test]
fn failures_errors_and_values_arrive_through_llvm_text() {
    let text = "{.profile: service.}\nerror E { A, B }\n\
        func may(n: i64) -> i64 ! E do\nfail E.B when n > 1\nn * 2\nend\n\
        func deep(n: i64) -> i64 do deep(n + 1) + 1 end\n\
        func mean(a: f64, b: f64) -> f64 do (a + b) / 2.0 end\n\
        func task(n: i64) -> i64 do 100 / n end\n\
        async func main() -> i64 do\n\
        println($\"{may(1) catch |e| do 0 end} {7 % -3} {-7 / 2} {true} {i64(mean(3.0, 4.0) * 2.0)}\")\n\
        let r = may(2) catch |e| do println($\"100% {e}\")\n5 end\n\
        nursery do spawn task(0) end catch |e| do println(\"caught\") end\n\
        nursery do spawn deep(0) end catch |e| do println(\"too deep\") end\n\
        let bad = nursery do spawn task(-50) end\n\
        nursery do let h = spawn task(20)\nlet big: i32 = i32(2147483647)\nprintln($\"{await h} {bad}\")\n\
        print(big + i32(1)) end catch |e| do println($\"{e}\") end\n\
        print(r)\n9\nend\n";
    let expected = "2 1 -3 true 7\n100% E.B\ncaught\ntoo deep\n5 -2\nP002 integer overflow\n5\n";
    if let Some((code, stdout, stderr)) = run("values", text) {
        assert_eq!((code, stdout.as_str()), (Some(9), expected), "{stderr}");
    }
    let text = "func main() do\nlet n = 9223372036854775807\nprint(n + 1)\nend\n";
    if let Some((code, stdout, stderr)) = run("failing", text) {
        let error = "error: P002 integer overflow\n";
        assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(1), "", error));
    }
    let refused = emitted("array", "func main() do\nlet a = [1]\nprint(a[0])\nend\n").unwrap_err();
    assert_eq!(refused, "no LLVM text for an array, in `main`; `parcae run` runs the program");
}
