//! `parcae run`, `check`, `ir` and `fmt`, as a user runs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn parcae(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parcae"));
    command.env_remove("PARCAE_SEED").env("NO_COLOR", "1");
    command.args(args).output().expect("it starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/jan");
    folder.join(name).to_str().expect("UTF-8").to_owned()
}

/// A file with this text, which the test leaves behind in the folder for tests.
fn file(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the folder for tests can be written");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn run_prints_the_output_of_a_program_and_exits_with_its_value() {
    let done = parcae(&["run", &example("pipeline.jan")]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(text(&done.stdout), "sum of squares: 385\n");
    let seeded = parcae(&["run", &example("bank.jan"), "--seed", "7", "--workers", "3"]);
    assert_eq!(text(&seeded.stdout), "total: 400\n");

    let path = file(
        "value.jan",
        "func main() -> i64 do\n    for a in args() do\n        println(a)\n    end\n    7\nend\n",
    );
    let done = parcae(&["run", &path, "one", "--two"]);
    assert_eq!(done.status.code(), Some(7), "{}", text(&done.stderr));
    assert_eq!(text(&done.stdout), "one\n--two\n");
}

#[cfg(feature = "jit")]
#[test]
fn run_by_machine_code_prints_the_same() {
    for name in ["pipeline.jan", "quicksort.jan", "hostile_recursion.jan", "select.jan"] {
        let interpreted = parcae(&["run", "--interp", "--seed", "3", &example(name)]);
        let compiled = parcae(&["run", "--jit", "--seed", "3", &example(name)]);
        assert!(compiled.status.success(), "{name}: {}", text(&compiled.stderr));
        assert_eq!(text(&compiled.stdout), text(&interpreted.stdout), "{name}");
    }
    let path = file("endless_jit.jan", "func main() do\n    while true do\n    end\nend\n");
    let done = parcae(&["run", "--jit", "--budget", "ops=100_000", &path]);
    assert_eq!(done.status.code(), Some(1));
    let error = text(&done.stderr);
    assert!(error.starts_with("error: BudgetExceeded\n"), "{error}");
    assert!(error.contains("endless_jit.jan:") && error.contains("in `main`"), "{error}");
    let text_of = "func again() do main() end\nfunc main() do\n    let f = again\nend\n";
    let done = parcae(&["run", "--jit", &file("again.jan", text_of)]);
    assert_eq!(done.status.code(), Some(1));
    let error = text(&done.stderr);
    assert!(error.starts_with("error: not supported by the JIT yet: "), "{error}");
}

#[cfg(not(feature = "jit"))]
#[test]
fn run_says_how_to_build_the_jit_if_it_is_not_built_in() {
    let done = parcae(&["run", "--jit", &example("hello.jan")]);
    assert_eq!(done.status.code(), Some(2));
    let error = text(&done.stderr);
    assert!(error.starts_with("error: this parcae was built without the JIT\n"), "{error}");
    assert!(error.contains("--features jit"), "{error}");
    assert!(done.stdout.is_empty(), "nothing falls back silently");
}

#[test]
fn run_under_a_budget_says_what_ran_out_and_where() {
    let path = file(
        "endless.jan",
        "func main() do\n    println(\"on the way\")\n    while true do\n    end\nend\n",
    );
    let done = parcae(&["run", "--budget", "ops=100_000,memory=1000000", &path]);
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(text(&done.stdout), "on the way\n");
    let error = text(&done.stderr);
    assert!(error.starts_with("error: BudgetExceeded\n"), "{error}");
    assert!(error.contains("endless.jan:") && error.contains("in `main`"), "{error}");
    assert!(error.contains("ops"), "{error}");

    let done = parcae(&["run", "--budget", "time=5", &path]);
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("ops, memory, spawn_count"), "{}", text(&done.stderr));
}

#[test]
fn a_deadlock_is_reported() {
    let path = file(
        "philosophers.jan",
        "{.profile: service.}\n\
         func eat(first: Channel, second: Channel) do\n    first.recv()\n    sleep(5)\n    second.recv()\n    second.send(1)\n    first.send(1)\nend\n\
         async func main() do\n    let a = channel(1)\n    let b = channel(1)\n    a.send(1)\n    b.send(1)\n    \
         nursery do\n        spawn eat(a, b)\n        spawn eat(b, a)\n    end\nend\n",
    );
    let done = parcae(&["run", "--seed", "1", &path]);
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stdout));
    assert!(text(&done.stderr).contains("Deadlock"), "{}", text(&done.stderr));
}

#[test]
fn check_reports_all_faults_with_excerpts_or_as_json() {
    let path = file("wrong.jan", "func main() do\n    let n: i64 = true\n    print(nope)\nend\n");
    let done = parcae(&["check", &path]);
    assert_eq!(done.status.code(), Some(1));
    let error = text(&done.stderr);
    assert!(error.contains("error[S2001]: expected `i64`, found `bool`"), "{error}");
    assert!(error.contains("error[S1001]: there is no variable `nope`"), "{error}");
    assert!(error.contains("2 |     let n: i64 = true"), "{error}");
    assert!(error.ends_with("2 faults\n"), "{error}");
    let done = parcae(&["check", "--message-format", "json", &path]);
    let lines: Vec<serde_json::Value> = text(&done.stderr)
        .lines()
        .map(|line| serde_json::from_str(line).expect("one JSON object per line"))
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[1]["code"], &lines[1]["line"]), (&"S1001".into(), &3.into()));
    assert!(parcae(&["check", &example("hello.jan")]).status.success());
    assert_eq!(parcae(&["check", "/no/such.jan"]).status.code(), Some(3));
    let service = file("service.jan", "func main() do\n    yield\nend\n");
    assert_eq!(parcae(&["check", &service]).status.code(), Some(1), "without a profile: :core");
    assert!(parcae(&["check", "--profile", ":service", &service]).status.success());
}

#[test]
fn ir_prints_each_stage() {
    let ir = |stage: &str| {
        let done = parcae(&["ir", "--stage", stage, &example("handles.jan")]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        let module = parcae_ir::parse(text(&done.stdout)).expect("the text form");
        assert!(parcae_ir::verify(&module).is_empty());
        text(&done.stdout).to_owned()
    };
    assert!(!ir("high").contains("Budget_Check"));
    assert!(ir("checks").contains("Budget_Check") && ir("checks").contains("Spawn"));
    assert!(ir("merged").contains("Async_Call"));
    assert!(ir("low").contains("Task_Create") && !ir("low").contains("Spawn"));
}

#[test]
fn fmt_rewrites_a_file_once() {
    let path = file("ugly.jan", "func main() { print(1+2) }\n");
    let done = parcae(&["fmt", "--check", &path]);
    assert_eq!(done.status.code(), Some(1));
    assert!(parcae(&["fmt", &path]).status.success());
    let formatted = std::fs::read_to_string(&path).expect("it is there");
    assert_eq!(formatted, "func main() do\n    print(1 + 2)\nend\n");
    assert!(parcae(&["fmt", "--check", &path]).status.success());
    let broken = file("broken.jan", "func main() do\n");
    assert_eq!(parcae(&["fmt", &broken]).status.code(), Some(1));
}

/// A folder of this test's own, empty.
fn folder(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("the folder for tests can be written");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn files_need_an_option_and_stay_beneath_their_directory() {
    let program = file(
        "files.jan",
        "{.profile: service.}\nfunc main() do\n    write_file(\"a.txt\", \"one\\n\")\n    \
         append_file(\"a.txt\", \"two\\n\")\n    print(read_file(\"a.txt\"))\n    \
         print(file_exists(\"a.txt\"))\n    remove_file(\"a.txt\")\n    \
         print(file_exists(\"a.txt\"))\n    nursery do\n        print(read_file(\"../files.jan\"))\n    \
         end catch |e| do\n        println($\"{e}\")\n    end\nend\n",
    );
    let dir = folder("files-of-a-program");
    let done = parcae(&["run", "--allow-read", &dir, "--allow-write", &dir, &program]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let out = text(&done.stdout);
    assert!(out.starts_with("one\ntwo\ntrue\nfalse\nP007 `read_file` failed: "), "{out}");

    let refused = parcae(&["run", "--allow-read", &dir, &program]);
    assert_eq!(refused.status.code(), Some(1));
    let error = text(&refused.stderr);
    assert!(error.contains("S3001") && error.contains("--allow-write DIR"), "{error}");
    assert!(!error.contains("--allow-read"), "{error}");
    // A check is about the program alone.
    assert!(parcae(&["check", &program]).status.success());
    let missing = parcae(&["run", "--allow-read", "/no/such/folder", &example("hello.jan")]);
    assert_eq!(missing.status.code(), Some(3), "{}", text(&missing.stderr));

    let core = file("core_files.jan", "func main() do\n    print(read_file(\"a\"))\nend\n");
    let done = parcae(&["check", &core]);
    let error = text(&done.stderr);
    assert!(error.contains("S3005") && error.contains("a file requires :service"), "{error}");
}

#[test]
fn sockets_need_an_option_and_reach_no_other_address() {
    let program = file(
        "sockets.jan",
        "{.profile: service.}\nfunc serve(listener: i64) do\n    let s = tcp_accept(listener)\n    \
         let line = tcp_read_line(s)\n    tcp_write(s, $\"got {line}and\\n\")\n    tcp_close(s)\nend\n\n\
         func main() do\n    let listener = tcp_listen(\"127.0.0.1:0\")\n    nursery do\n        \
         spawn serve(listener)\n        let c = tcp_connect($\"127.0.0.1:{tcp_port(listener)}\")\n        \
         tcp_write(c, \"hello\\n\")\n        print(tcp_read_line(c))\n        print(tcp_read_line(c))\n        \
         println($\"<{tcp_read(c)}>\")\n    end\n    nursery do\n        let c = tcp_connect(\"127.0.0.2:1\")\n    \
         end catch |e| do\n        println($\"{e}\")\n    end\nend\n",
    );
    for extra in [&[][..], &["--seed", "5"]] {
        let mut args = vec!["run", "--allow-net", "127.0.0.1:*"];
        args.extend(extra);
        args.push(&program);
        let done = parcae(&args);
        assert!(done.status.success(), "{extra:?}: {}", text(&done.stderr));
        let out = text(&done.stdout);
        let start = "got hello\nand\n<>\nP007 `tcp_connect` failed: ";
        assert!(out.starts_with(start), "{extra:?}: {out}");
    }
    let refused = parcae(&["run", &program]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("--allow-net"), "{}", text(&refused.stderr));
}

#[test]
fn ir_prints_llvm_text_or_says_which_construct_has_none() {
    let llvm = parcae(&["ir", "--emit", "llvm", &example("fan_out.jan")]);
    assert!(llvm.status.success(), "{}", text(&llvm.stderr));
    for name in ["janus_scheduler_create", "janus_nursery_spawn", "parcae_charge_ops"] {
        assert!(text(&llvm.stdout).contains(name), "{name}");
    }
    let refused = parcae(&["ir", "--emit", "llvm", &example("quicksort.jan")]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("no LLVM text for an array"));
    // Strips are the form that is run.
    let counted =
        "func main() do\n    var n = 0\n    for i in 0..9 do\n        n += i\n    end\nend\n";
    let placed = parcae(&["ir", &file("counted.jan", counted)]);
    assert!(text(&placed.stdout).contains("Budget_Strip"));
}
