//! The program as a user runs it: what it prints, how it ends, what it says about wrong input. No
//! test looks at how large a figure is that depends on the machine.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Without what cargo and the caller's terminal would add.
fn parcae() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parcae"));
    for name in ["CARGO", "CARGO_MANIFEST_DIR", "NO_COLOR", "CLICOLOR_FORCE", "PARCAE_SEED"] {
        command.env_remove(name);
    }
    command
}

fn run(args: &[&str]) -> Output {
    parcae().args(args).output().expect("it starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

const DEMOS: [&str; 10] = [
    "fan-out", "pipeline", "budgets", "hostile", "language", "shares", "cancel", "replay", "lab",
    "million",
];

/// The names of an object's fields, sorted.
fn fields(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        value.as_object().expect("an object").keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn the_list_names_every_demo() {
    let list = run(&["demo", "--list"]);
    assert!(list.status.success());
    let names: Vec<&str> =
        text(&list.stdout).lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, DEMOS);

    let list = json(&run(&["demo", "--list", "--json"]));
    for (entry, name) in list["demos"].as_array().unwrap().iter().zip(DEMOS) {
        assert_eq!(entry["name"], name);
        assert_eq!(fields(entry), ["about", "look", "name"]);
    }
}

#[test]
fn every_demo_runs_and_shows_what_it_promises() {
    let all = run(&["demo", "--quick"]);
    let (out, err) = (text(&all.stdout), text(&all.stderr));
    assert!(all.status.success(), "{out}\n{err}");
    // A machine that has no processor for a worker is reported, too.
    let report = |line: &str| line.starts_with("parcae: worker ") || line.starts_with("    ");
    assert!(err.lines().all(report), "{err}");
    for (i, name) in DEMOS.iter().enumerate() {
        assert!(out.contains(&format!("{name} {} of {}\n", i + 1, DEMOS.len())), "{out}");
    }
    assert_eq!(out.matches("✓ ").count(), DEMOS.len(), "{out}");
    for line in [
        "8 713 primes below 90 000",
        "5 040 values through 6 tasks",
        "the sponsor has nothing left: ",
        "contained spinner ",
        "endless loop ended ",
        "counted in ops, without a clock: free : paid : gold = ",
        "the fifth has exceeded its deadline",
        "events of seeds 1 and ",
        "it looks twice now: ",
        "fibers live after",
    ] {
        assert!(out.contains(line), "no {line:?} in\n{out}");
    }
    assert!(!out.contains('\x1b') && !out.contains('\r'), "colours for nobody: {out:?}");
}

#[test]
fn figures_of_demos_are_one_document() {
    let one = json(&run(&["demo", "--json", "--quick", "replay", "budgets"]));
    let demos = one["demos"].as_array().unwrap();
    assert_eq!(demos.len(), 2, "each that was named, in that order");
    for demo in demos {
        assert_eq!(fields(demo), ["error", "figures", "name", "ok", "seconds"]);
        assert_eq!((&demo["ok"], &demo["error"]), (&Value::Bool(true), &Value::Null));
    }
    let replay = &demos[0]["figures"];
    assert_eq!(fields(replay), ["events_in_common", "runs"]);
    let runs = replay["runs"].as_array().unwrap();
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0]["seed"], 1);
    assert_ne!(runs[0]["fingerprint"], runs[2]["fingerprint"]);
    let budgets = &demos[1]["figures"];
    assert_eq!(fields(budgets), ["ended", "granted", "recharged_by_capability", "rounds"]);
    assert_eq!(budgets["granted"], 6_500);
}

#[test]
fn the_same_seed_is_the_same_run_in_another_process_too() {
    let fingerprints =
        || json(&run(&["demo", "--json", "--quick", "replay"]))["demos"][0]["figures"].take();
    assert_eq!(fingerprints(), fingerprints());
}

#[test]
fn hostile_tenants_are_all_contained() {
    let hostile = json(&run(&["demo", "--json", "--quick", "hostile"]));
    let figures = &hostile["demos"][0]["figures"];
    assert_eq!(fields(figures), ["alone", "beside_them", "tenants"]);
    assert_eq!(fields(&figures["alone"]), ["max", "p50", "p99", "requests"]);
    let tenants = figures["tenants"].as_array().unwrap();
    assert!(tenants.len() >= 7);
    for tenant in tenants {
        assert_eq!(tenant["contained"], true, "{tenant}");
    }
}

#[test]
fn a_demo_that_cannot_show_what_it_should_ends_with_1() {
    let output =
        parcae().args(["demo", "--json", "--quick", "replay"]).env("PARCAE_SEED", "7").output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("unset it"), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["demos"][0]["ok"], false);
}

#[test]
fn wrong_names_are_answered_with_what_would_be_right() {
    for (args, help) in [
        (&["demo", "fanout"][..], "a similar value exists: 'fan-out'"),
        (&["demo", "nonsense"], "replay"),
        (&["dmeo"], "a similar subcommand exists: 'demo'"),
        (&[], "Usage: parcae"),
        (&["demo", "--quik"], "--quick"),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        let err = text(&output.stderr);
        assert!(err.contains(help), "{args:?}: {err}");
    }
    let unknown = run(&["demo", "nonsense"]);
    for name in DEMOS {
        assert!(text(&unknown.stderr).contains(name), "{}", text(&unknown.stderr));
    }
}

#[test]
fn exit_codes_are_part_of_the_help() {
    let help = run(&["--help"]);
    assert!(help.status.success());
    assert!(text(&help.stdout).contains("Exit codes: 0 success; 1 "), "{}", text(&help.stdout));
}

#[test]
fn colours_can_be_had_and_refused() {
    let list = |variable: &str| {
        let output = parcae().args(["demo", "--list"]).env(variable, "1").output().unwrap();
        text(&output.stdout).contains('\x1b')
    };
    assert!(list("CLICOLOR_FORCE"));
    assert!(!list("NO_COLOR"));
}

#[test]
fn a_reader_that_has_had_enough_is_no_error_to_speak_of() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = parcae().args(["demo", "--quick", "replay"]).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

/// The program in a folder where nothing is beside it; the folder is removed at the end. Linked,
/// because what has just been written cannot always be executed while other threads start
/// processes.
struct Alone(PathBuf);

impl Alone {
    fn new(name: &str) -> Alone {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::hard_link(env!("CARGO_BIN_EXE_parcae"), folder.join("parcae")).unwrap();
        Alone(folder)
    }

    fn bench(&self, args: &[&str]) -> Output {
        let mut command = Command::new(self.0.join("parcae"));
        command.env_remove("CARGO").env_remove("CARGO_MANIFEST_DIR");
        command.arg("bench").args(args).output().unwrap()
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn bench_without_its_program_says_how_to_get_it() {
    let output = Alone::new("alone").bench(&["switch"]);
    assert_eq!(output.status.code(), Some(3));
    let err = text(&output.stderr);
    assert!(err.contains("cargo run --release -p parcae-bench"), "{err}");
}

/// Its help is there before it is built, which takes minutes.
#[test]
fn bench_helps_without_its_program() {
    let alone = Alone::new("help");
    for help in ["--help", "-h"] {
        let output = alone.bench(&[help]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let out = text(&output.stdout);
        assert!(out.contains("Usage: parcae bench") && out.contains("--quick"), "{out}");
    }
    let output = alone.bench(&["--quick", "--help"]);
    assert!(output.status.success(), "help among other arguments");
}

#[test]
fn bench_hands_its_arguments_to_the_program_beside_it() {
    let folder = Alone::new("beside");
    std::os::unix::fs::symlink("/bin/sh", folder.0.join("parcae-bench")).unwrap();
    let script = "printf '%s,' \"$@\"; exit 7";
    let output = folder.bench(&["-c", script, "sh", "--quick", "--json", "x y", "--help"]);
    assert_eq!(output.status.code(), Some(7), "its exit code is ours: {}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "--quick,--json,x y,--help,");
}

#[test]
fn under_cargo_bench_is_built_and_run_from_the_same_checkout() {
    let mut command = parcae();
    command.env("CARGO", "/bin/echo").env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"));
    let output = command.args(["--json", "bench", "--quick", "switch"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let called = text(&output.stdout);
    assert!(
        called.starts_with("run --release --package parcae-bench --manifest-path "),
        "{called}"
    );
    // `--quiet`, if the program was built before.
    let called = called.replace("Cargo.toml --quiet --", "Cargo.toml --");
    assert!(called.ends_with("Cargo.toml -- --json --quick switch\n"), "{called}");
}
