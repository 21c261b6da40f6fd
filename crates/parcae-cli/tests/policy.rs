//! `parcae policy`: what it shows and changes in a running program, and what it says about files.

mod attached;

use attached::Folder;
use parcae::attach::AttachOpts;
use parcae::policy::{PolicyOpts, Weight};
use parcae::prelude::*;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const PLAY: &str = "PARCAE_TEST_POLICY";

/// A program with a policy, a tenant `web` and one `search` inside of it, until its input ends.
fn play() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let policy = rt.policy(PolicyOpts::new()).unwrap();
    let _attached = rt.attach(AttachOpts::new().allow_policy(&policy)).unwrap();
    let named = |name: &str| NurseryOpts::new().name(name).share(Weight::NORMAL);
    rt.run(|cx| {
        cx.nursery_with(named("web"), |web| {
            web.spawn(|cx| {
                cx.nursery_with(named("search"), |_| {
                    println!("open");
                    parcae::blocking(|| drop(std::io::stdin().read_to_end(&mut Vec::new())))
                })
            })?
            .join()
        })
    })
    .unwrap();
}

/// The program, as long as this lives.
struct Program {
    folder: Folder,
    child: Child,
}

impl Program {
    fn start(test: &str) -> Program {
        let folder = Folder::new(test);
        let mut command = folder.command(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture"]).env(PLAY, "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The harness may print before it, on the same line.
        assert!(lines.map_while(Result::ok).any(|line| line.ends_with("open")), "it ended");
        Program { folder, child }
    }

    fn policy(&self, args: &[&str]) -> Command {
        let mut command = self.folder.parcae();
        command.arg("policy").args(args);
        command
    }

    fn good(&self, args: &[&str]) -> String {
        let output = self.policy(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", err(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.good(&[args, &["--json"]].concat())).unwrap()
    }

    /// The exit code, and the message.
    fn bad(&self, args: &[&str]) -> (i32, String) {
        let output = self.policy(args).output().unwrap();
        (output.status.code().unwrap(), err(&output))
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.socket(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

// rule: S3-POLICY-6
#[test]
fn an_operator_shows_and_changes_the_policy() {
    if std::env::var_os(PLAY).is_some() {
        return play();
    }
    let program = Program::start("an_operator_shows_and_changes_the_policy");
    let shown = program.good(&["show"]);
    assert!(shown.contains("policy in force: built-in, epoch 0"), "{shown}");
    assert!(shown.contains("\nweb ") && shown.contains("\nweb/search "), "{shown}");
    assert_eq!(program.json(&["show"])["floor_permille"], 10);
    program.good(&["set", "web/search", "weight=2048", "latency=2ms"]);
    let search = program.json(&["explain", "web/search"]);
    assert_eq!((&search["weight"], &search["slice"]), (&2_048.into(), &2_000_000.into()));
    assert_eq!((&search["by"], &search["asked_weight"]), (&"operator".into(), &1_024.into()));
    let text = program.good(&["explain", "web/search"]);
    assert!(text.contains("weight 2048: a rule of the operator"), "{text}");
    let history = program.good(&["history"]);
    assert!(history.contains("the operator has changed rules"), "{history}");
    program.good(&["fallback"]);
    assert!(program.good(&["show"]).contains("built-in, held by the operator"));
    program.good(&["lift"]);
    program.good(&["unset", "web/search"]);
    assert_eq!(program.json(&["explain", "web/search"])["weight"], 1_024);
    // Refusals: by the program, and by this one.
    let (code, message) = program.bad(&["set", "web", "weight=1"]);
    assert!(code == 4 && message.contains("not from 64 to 16384"), "{code} {message}");
    let (code, message) = program.bad(&["explain", "nothing"]);
    assert!(code == 4 && message.contains("there is no tenant nothing"), "{message}");
    let (code, message) = program.bad(&["set", "web", "weight=heavy"]);
    assert!(code == 2 && message.contains("is no change: write weight=2048"), "{message}");
    assert_eq!(program.bad(&["set", "web"]).0, 2);
    let pid = program.child.id().to_string();
    assert_eq!(program.json(&["show", "--on", &pid])["held"], false);
    // Changes as they happen.
    let mut command = program.policy(&["watch"]);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("lets the service decide again")));
    program.good(&["fallback"]);
    assert!(lines.any(|line| line.contains("holds the built-in policy in force")));
    watch.kill().unwrap();
    watch.wait().unwrap();
}

const FILE: &str = "\
[tenant.\"web/search\"]
weight = 4096
[tenant.web]
latency = \"batch\"
[profile.agent]
weight = 128
[context.audio]
budget = \"2ms\"
period = \"10ms\"
";

// rule: S3-POLICY-6
#[test]
fn files_are_checked_and_loaded() {
    if std::env::var_os(PLAY).is_some() {
        return play();
    }
    let program = Program::start("files_are_checked_and_loaded");
    let path = program.file("rules.toml", FILE);
    let checked = program.good(&["check", &path]);
    assert!(checked.contains("context audio: worker 0"), "{checked}");
    assert!(checked.contains("correct: 2 tenants, 1 contexts on 2 workers"), "{checked}");
    assert_eq!(program.json(&["check", &path])["contexts"][0]["context"], "audio");
    let pid = program.child.id().to_string();
    program.good(&["check", &path, "--on", &pid]);
    assert_eq!(program.json(&["explain", "web/search"])["weight"], 1_024, "only checked");
    program.good(&["load", &path]);
    let shown = program.json(&["show"]);
    assert_eq!(shown["operator_rules"], 2);
    assert_eq!(shown["profiles"][5]["weight"], 128);
    assert_eq!(program.json(&["explain", "web/search"])["weight"], 4_096);
    assert_eq!(program.json(&["explain", "web"])["slice"], 100_000_000);

    // Wrong files: with line and column, and nothing changes.
    let wrong = program.file("wrong.toml", &FILE.replace("weight = 4096", "weight = 4 096"));
    for verb in ["check", "load"] {
        let (code, message) = program.bad(&[verb, &wrong]);
        assert!(code == 1 && message.contains("wrong.toml:2:"), "{code} {message}");
    }
    let heavy = program.file("heavy.toml", &FILE.replace("4096", "40960"));
    let (code, message) = program.bad(&["load", &heavy]);
    assert!(code == 4 && message.contains("not from 64 to 16384"), "{message}");
    let (code, message) = program.bad(&["check", &heavy]);
    assert!(code == 1 && message.contains("not from 64 to 16384"), "{message}");
    // Contexts that do not fit together are found by admission.
    let mut full = FILE.to_owned();
    for name in ["b", "c", "d"] {
        full.push_str(&format!("[context.{name}]\nbudget = \"7ms\"\nperiod = \"10ms\"\n"));
    }
    let full = program.file("full.toml", &full);
    let (code, message) = program.bad(&["check", &full]);
    assert!(
        code == 1 && message.contains("context.") && message.contains("not admitted"),
        "{message}"
    );
    program.good(&["check", &full, "--workers", "4"]);
    assert_eq!(program.json(&["explain", "web/search"])["weight"], 4_096);
    assert!(program.bad(&["check", "no such file"]).1.contains("no such file"));
}

/// A file that is followed is loaded again when it changes, and a wrong one changes nothing.
#[test]
fn a_file_is_followed() {
    if std::env::var_os(PLAY).is_some() {
        return play();
    }
    let program = Program::start("a_file_is_followed");
    let path = program.file("rules.toml", FILE);
    let mut command = program.policy(&["load", "--follow", &path]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut follows = command.spawn().unwrap();
    let mut said = BufReader::new(follows.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut complains =
        BufReader::new(follows.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("loaded: 2 tenants")));
    change(&path, "nonsense");
    assert!(complains.any(|line| line.contains("rules.toml:1:")));
    assert_eq!(program.json(&["explain", "web/search"])["weight"], 4_096);
    change(&path, &FILE.replace("4096", "40960"));
    assert!(complains.any(|line| line.contains("the program refused")));
    change(&path, &FILE.replace("4096", "512"));
    assert!(said.any(|line| line.contains("loaded: 2 tenants")));
    assert_eq!(program.json(&["explain", "web/search"])["weight"], 512);
    follows.kill().unwrap();
    follows.wait().unwrap();
}

/// Writes a file whole, with another time than before.
fn change(path: &str, text: &str) {
    let new = PathBuf::from(format!("{path}.new"));
    std::fs::write(&new, text).unwrap();
    let old = std::fs::metadata(path).unwrap().modified().unwrap();
    while std::fs::metadata(&new).unwrap().modified().unwrap() == old {
        std::thread::sleep(Duration::from_millis(5));
        std::fs::write(&new, text).unwrap();
    }
    std::fs::rename(new, path).unwrap();
}

/// A program without a policy says how to allow it.
#[test]
fn a_program_without_a_policy_refuses() {
    if attached::played() {
        return;
    }
    let program = attached::Program::start("a_program_without_a_policy_refuses");
    let output = program.folder.parcae().args(["policy", "show"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(err(&output).contains("AttachOpts::allow_policy"), "{}", err(&output));
}
