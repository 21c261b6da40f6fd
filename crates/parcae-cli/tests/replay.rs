//! `parcae replay`, `shrink` and `explain`, on a test of this program: `victim` has a bug if the
//! environment asks for it.

use parcae::sync::Mutex;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Asks `victim` to have its bug.
const BUG: &str = "PARCAE_TEST_BUG";

/// Two tasks take two locks in different orders, if the environment says so.
#[test]
fn victim() {
    let has_bug = std::env::var_os(BUG).is_some();
    parcae::check(|rt| {
        let (a, b) = (Mutex::new(1), Mutex::new(2));
        let add = |to: &Mutex<i32>, from: &Mutex<i32>| {
            let mut to = to.lock()?;
            *to += *from.lock()?;
            Ok(())
        };
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|_| add(&a, &b))?;
                n.spawn(|_| if has_bug { add(&b, &a) } else { add(&a, &b) })?;
                Ok(())
            })
        })
    });
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The command that runs `victim`.
fn victim_command() -> Vec<String> {
    let program = std::env::current_exe().expect("this program");
    vec![program.to_str().expect("UTF-8").into(), "victim".into(), "--exact".into()]
}

/// Without variables of a caller that runs these tests under the lab.
fn clean(command: &mut Command) -> &mut Command {
    for name in
        ["PARCAE_REPLAY", "PARCAE_RECORD", "PARCAE_HTML", "PARCAE_UNTIL", "PARCAE_KEEP", "NO_COLOR"]
    {
        command.env_remove(name);
    }
    command.env("RUST_BACKTRACE", "0")
}

/// The token that `victim` prints.
fn token() -> String {
    let command = victim_command();
    let output = clean(Command::new(&command[0]).args(&command[1..]).env(BUG, "1")).output();
    let output = text(&output.expect("it starts").stdout);
    let at = output.find("PARCAE_REPLAY=").unwrap_or_else(|| panic!("no token in\n{output}"));
    let token = output[at..].split_whitespace().next().expect("a word");
    token.trim_start_matches("PARCAE_REPLAY=").to_owned()
}

fn parcae(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parcae"));
    clean(&mut command).args(args).env(BUG, "1");
    command
}

fn on_victim(args: &[&str]) -> Output {
    parcae(args).arg("--").args(victim_command()).output().expect("it starts")
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("parcae-{}-{name}", std::process::id()))
}

#[test]
fn without_a_terminal_a_run_is_printed_step_by_step() {
    let out = printed(&on_victim(&["replay", &token()]));
    assert!(out.contains("victim: deadlock"), "{out}");
    assert!(out.contains("the end: deadlock"), "{out}");
    assert!(out.contains("tests/replay.rs:"), "{out}");
    // All tasks wait in the end, two of them for locks.
    assert_eq!(out.matches(" waiting      mutex: lock #").count(), 2, "{out}");
    assert_eq!(out.matches(" waiting      its children").count(), 1, "{out}");
}

#[test]
fn a_run_can_be_stopped_before_a_step_and_dumped() {
    let token = token();
    let json: Value =
        serde_json::from_str(&printed(&on_victim(&["--json", "replay", &token]))).expect("JSON");
    let (lost, steps) = (json["lost_after"].as_u64(), json["steps"].as_array());
    let (lost, steps) = (lost.expect("a step"), steps.expect("steps").len());
    assert!((lost as usize) < steps);

    let out = printed(&on_victim(&["replay", &token, "--until", &lost.to_string()]));
    assert!(!out.contains("the end:"), "{out}");
    let (_, dump) = out.split_once("all tasks before step").expect("a dump");
    // The task that holds the first lock is in the middle of its function, with a backtrace.
    assert!(dump.contains("replay::victim::{{closure}}"), "{out}");
    assert!(dump.contains("waiting"), "{out}");

    let out = printed(&on_victim(&["replay", &token, "--until", "10000"]));
    assert!(out.contains("the run has no such step"), "{out}");
}

#[test]
fn explain_names_the_step_that_decides() {
    let out = printed(&on_victim(&["explain", &token(), "--samples", "40"]));
    assert!(out.contains("After step "), "{out}");
    assert!(out.contains(" it was lost: task 0."), "{out}");
    assert!(out.contains(" did lock #"), "{out}");
    let (_, timeline) = out.split_once("   step  task ").expect("a timeline");
    let (timeline, _) = timeline.split_once("  objects: ").expect("its end");
    assert!((4..=11).contains(&timeline.lines().count()), "{out}");
    assert_eq!(timeline.matches("! ").count(), 1, "{out}");
}

#[test]
fn shrink_prints_a_token_that_fails_in_the_same_way() {
    // The seed form of the token, from a recording.
    let out = printed(&on_victim(&["shrink", &token()]));
    let shrunk = out.lines().last().expect("a token").to_owned();
    assert!(shrunk.starts_with("pcr1."), "{out}");
    assert!(printed(&on_victim(&["replay", &shrunk])).contains("victim: deadlock"));
}

#[test]
fn a_picture_and_a_recording_are_written_where_the_user_says() {
    let (page, run) = (file("run.html"), file("run.json"));
    let token = token();
    printed(&on_victim(&["replay", &token, "--html", page.to_str().expect("UTF-8")]));
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains(&token), "{html}");

    // A hunt that fails writes a recording, too, which can be opened without the test.
    let command = victim_command();
    let mut hunt = Command::new(&command[0]);
    clean(&mut hunt).args(&command[1..]).env(BUG, "1").env("PARCAE_RECORD", &run);
    assert!(!hunt.output().expect("it starts").status.success());
    let out = printed(&parcae(&["replay", run.to_str().expect("UTF-8")]).output().expect("it"));
    assert!(out.contains("victim: deadlock"), "{out}");
    for file in [page, run] {
        std::fs::remove_file(file).expect("it is there");
    }
}

#[test]
fn a_repaired_program_passes_and_says_so() {
    let token = token();
    let mut replay = parcae(&["replay", &token]);
    replay.env_remove(BUG).arg("--").args(victim_command());
    let out = printed(&replay.output().expect("it starts"));
    assert!(out.contains("the run passes"), "{out}");
    assert!(out.contains("note: the repeated run went another way at step"), "{out}");
}

#[test]
fn kept_failures_run_first_from_then_on() {
    let list = file("regressions");
    let hunt = |settings: &[(&str, &str)]| {
        let command = victim_command();
        let mut hunt = Command::new(&command[0]);
        clean(&mut hunt).args(&command[1..]).env("PARCAE_REGRESSIONS", &list);
        let output = hunt.envs(settings.iter().copied()).output().expect("it starts");
        (output.status.success(), text(&output.stdout))
    };
    // Nothing is written unless the user asks for it.
    assert!(!hunt(&[(BUG, "1")]).0);
    assert!(!list.exists());
    assert!(!hunt(&[(BUG, "1"), ("PARCAE_KEEP", "1")]).0);
    let kept = std::fs::read_to_string(&list).expect("a list");
    assert!(kept.starts_with("victim pcr1.") && kept.contains(" # deadlock"), "{kept}");
    // No other schedule is needed to find it again; the repaired program passes.
    let (passed, out) = hunt(&[(BUG, "1"), ("PARCAE_SCHEDULES", "0")]);
    assert!(!passed && out.contains("an earlier failure, from the regression list"), "{out}");
    assert!(hunt(&[]).0);
    assert!(hunt(&[(BUG, "1"), ("PARCAE_REGRESSIONS", "/nowhere"), ("PARCAE_SCHEDULES", "0")]).0);
    std::fs::remove_file(list).expect("it is there");
}

#[test]
fn wrong_input_is_answered_with_a_remedy() {
    let cases: [(&[&str], i32, &str); 5] = [
        (&["replay", "pcr1.AQ"], 2, "cargo test NAME"),
        (&["replay", "/nowhere/run.json"], 3, "/nowhere/run.json"),
        (&["replay", "/dev/null"], 4, "PARCAE_RECORD"),
        (&["replay", "pcr1.AQ", "--", "/nowhere/program"], 3, "cannot start /nowhere/program"),
        (&["explain", "pcr1.AQ", "--", "true"], 4, "ran no test under the lab"),
    ];
    for (args, code, help) in cases {
        let output = parcae(args).output().expect("it starts");
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {err}");
        assert!(err.contains(help), "{args:?}: {err}");
    }
    // The test is there, and says what is wrong with the token.
    let output = on_victim(&["replay", "pcr1.nonsense"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains("is no token of this version"));
}
