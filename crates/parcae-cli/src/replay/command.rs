//! Running the test again, and reading the recording that it writes.

use super::recording::Recording;
use crate::Exit;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// Lines of a test's output that are shown if it writes no recording.
const LAST_LINES: usize = 20;

/// Why there is no run to show.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// A token without a command.
    NoCommand,
    /// The command cannot be started.
    NotStarted(OsString, io::Error),
    /// The command wrote no recording; the end of its output.
    NoRecording(String),
    /// A file that is no recording.
    NotARecording(PathBuf),
    /// A file of a run without its test: nothing can be run again.
    NoTest,
    Io(PathBuf, io::Error),
}

impl Trouble {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Trouble::NoCommand | Trouble::NoTest => Exit::Usage,
            Trouble::NotStarted(..) | Trouble::Io(..) => Exit::Missing,
            Trouble::NoRecording(_) | Trouble::NotARecording(_) => Exit::Target,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::NoCommand => f.write_str(
                "a token needs its test: parcae replay TOKEN -- cargo test NAME -- --exact",
            ),
            Trouble::NotStarted(program, error) => {
                write!(f, "cannot start {}: {error}", program.display())
            }
            Trouble::NoRecording(output) => {
                write!(
                    f,
                    "the command ran no test under the lab with this token. Does it name the test \
                     that printed the token? It ended with\n{output}"
                )
            }
            Trouble::NotARecording(path) => write!(
                f,
                "{}: neither a token (they begin with `pcr1.`) nor a file that a test has written \
                 with PARCAE_RECORD",
                path.display()
            ),
            Trouble::NoTest => f.write_str("this needs the test: give its command after `--`"),
            Trouble::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

/// Where the run comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A test that repeats a token.
    Test { token: String, command: Vec<OsString> },
    /// A recording that was made before.
    File(PathBuf),
}

impl Source {
    /// `run` is a token, or a file with a recording.
    pub(crate) fn new(run: &OsStr, command: &[OsString]) -> Result<Source, Trouble> {
        match run.to_str().filter(|text| text.starts_with("pcr")) {
            Some(_) if command.is_empty() => Err(Trouble::NoCommand),
            Some(token) => Ok(Source::Test { token: token.into(), command: command.to_vec() }),
            None => Ok(Source::File(run.into())),
        }
    }

    /// Runs the test with these variables. Returns the run, and its JSON.
    pub(crate) fn run(&self, settings: &[(&str, OsString)]) -> Result<(Recording, Value), Trouble> {
        let (token, command) = match self {
            Source::File(path) => {
                if !settings.is_empty() {
                    return Err(Trouble::NoTest);
                }
                let text =
                    fs::read_to_string(path).map_err(|error| Trouble::Io(path.clone(), error))?;
                return choose(&text, None).ok_or_else(|| Trouble::NotARecording(path.clone()));
            }
            Source::Test { token, command } => (token, command),
        };
        let file = TemporaryFile::new();
        let mut test = Command::new(&command[0]);
        test.args(&command[1..]).stdin(Stdio::null());
        test.env("PARCAE_REPLAY", token).env("PARCAE_RECORD", &file.0);
        for name in ["PARCAE_UNTIL", "PARCAE_SHRINK", "PARCAE_PROBE", "PARCAE_HTML"] {
            test.env_remove(name);
        }
        test.envs(settings.iter().map(|(name, value)| (name, value)));
        let output =
            test.output().map_err(|error| Trouble::NotStarted(command[0].clone(), error))?;
        let text = fs::read_to_string(&file.0).unwrap_or_default();
        choose(&text, Some(token)).ok_or_else(|| {
            let all = [output.stdout, output.stderr].concat();
            let all = String::from_utf8_lossy(&all);
            let lines: Vec<&str> = all.lines().filter(|line| !line.trim().is_empty()).collect();
            let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
            Trouble::NoRecording(last.iter().map(|line| format!("  {line}\n")).collect())
        })
    }
}

/// Of several recordings, the one of this token that fails; or else one that fails; or else the
/// first one. Other tests that ran the same token write recordings, too.
fn choose(text: &str, token: Option<&str>) -> Option<(Recording, Value)> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let runs: Vec<_> = lines.filter_map(|json| Some((Recording::read(&json)?, json))).collect();
    let rank = |(run, _): &&(Recording, Value)| {
        let own = token.is_none_or(|token| token == run.token);
        (run.signature.is_none(), !run.notes.is_empty(), !own)
    };
    runs.iter().min_by_key(rank).cloned()
}

/// The path of a file that is removed in the end.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new() -> TemporaryFile {
        static NEXT: AtomicU64 = AtomicU64::new(0); // Relaxed: only its uniqueness counts
        let number = NEXT.fetch_add(1, Ordering::Relaxed); // see `NEXT`
        let name = format!("parcae-run-{}-{number}.json", std::process::id());
        TemporaryFile(std::env::temp_dir().join(name))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0); // a test that did not record has written none
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_several_runs_the_one_that_fails_and_does_not_diverge_is_chosen() {
        let run = |token: &str, fails: bool, notes: &[&str]| {
            let mut run = json!({"parcae_run": 1, "token": token, "notes": notes});
            if fails {
                run["signature"] = "panic".into();
            }
            format!("{run}\n")
        };
        let other = run("pcr1.a", true, &["it differs"]);
        let own = run("pcr1.a", true, &[]);
        let passes = run("pcr1.a", false, &[]);
        for all in [[&other, &own, &passes], [&passes, &own, &other], [&own, &passes, &other]] {
            let text = all.map(String::as_str).concat() + "no json\n";
            let (chosen, _) = choose(&text, Some("pcr1.a")).expect("a run");
            assert!(chosen.signature.is_some() && chosen.notes.is_empty(), "{text}");
        }
        assert!(choose("{}\nnonsense\n", None).is_none());
    }

    #[test]
    fn a_token_needs_a_command_and_a_file_cannot_be_run_again() {
        assert!(matches!(Source::new(OsStr::new("pcr1.x"), &[]), Err(Trouble::NoCommand)));
        let file = Source::new(OsStr::new("run.json"), &[]).expect("a file");
        let until = [("PARCAE_UNTIL", OsString::from("3"))];
        assert!(matches!(file.run(&until), Err(Trouble::NoTest)));
    }
}
