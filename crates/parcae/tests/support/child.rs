//! Crashes are tested in a child process: the test binary runs itself again with one test
//! selected and an environment variable that tells it to play the victim.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

const VICTIM: &str = "PARCAE_TEST_VICTIM";

/// Whether this process is to play the victim of the test that asks.
pub fn is_victim() -> bool {
    std::env::var_os(VICTIM).is_some()
}

/// This test binary with only `test` selected, as a victim. `module` is its `module_path!()`.
pub fn victim(module: &str, test: &str) -> Command {
    // libtest names a test by its path below the crate.
    let path =
        module.split_once("::").map_or(test.to_owned(), |(_, below)| format!("{below}::{test}"));
    let exe = std::env::current_exe().expect("the path of this test binary");
    let mut command = Command::new(exe);
    command.args([path.as_str(), "--exact", "--nocapture", "--test-threads=1"]).env(VICTIM, "1");
    command
}

/// Runs the victim of `test` to its end.
pub fn run(module: &str, test: &str) -> Outcome {
    let output = victim(module, test).output().expect("the test binary runs");
    Outcome::of(&output)
}

/// How a victim ended.
#[derive(Debug)]
pub struct Outcome {
    pub signal: Option<i32>,
    pub code: Option<i32>,
    pub stderr: String,
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
