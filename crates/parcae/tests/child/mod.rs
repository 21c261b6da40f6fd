//! Crashes are tested in a child process: the test binary runs itself again with one test
//! selected and an environment variable that tells it to play the victim.

// Each test crate compiles its own copy and need not use all of it.
#![allow(dead_code)]

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

const VICTIM: &str = "PARCAE_TEST_VICTIM";

/// Whether this process is to play the victim of the test that asks.
pub(crate) fn is_victim() -> bool {
    std::env::var_os(VICTIM).is_some()
}

/// This test binary with only `test` selected, as a victim.
pub(crate) fn victim(test: &str) -> Command {
    let exe = std::env::current_exe().expect("the path of this test binary");
    let mut command = Command::new(exe);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(VICTIM, "1");
    command
}

/// Runs the victim of `test` to its end.
pub(crate) fn run(test: &str) -> Outcome {
    let output = victim(test).output().expect("the test binary runs");
    Outcome::of(&output)
}

/// How a victim ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) signal: Option<i32>,
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
}

impl Outcome {
    fn of(output: &Output) -> Outcome {
        Outcome {
            signal: output.status.signal(),
            code: output.status.code(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
