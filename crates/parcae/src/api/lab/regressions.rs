//! The regression list: tokens of earlier failures, which run before the schedules of a hunt.
//!
//! A file has a line for each token: the name of the test, the token, and a remark after `#`. It is
//! `PARCAE_REGRESSIONS`, or `.parcae/regressions` in the directory in which tests run (the root of
//! their package, under cargo). It is read once per process; a hunt looks its test up by the name
//! of the thread, as the test harness sets it. With `PARCAE_KEEP` set, a failure adds its token;
//! otherwise nothing is written.
//!
//! A token that this version cannot read is reported and left out. A run that is no longer that of
//! the token is no failure: the program has changed.

use super::failure::{Failure, test_name};
use super::publish::tell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The tokens of each test.
type List = HashMap<String, Vec<String>>;

fn path() -> PathBuf {
    let given = std::env::var_os("PARCAE_REGRESSIONS").map(PathBuf::from);
    given.unwrap_or_else(|| Path::new(".parcae").join("regressions"))
}

/// The tokens of the test that runs on this thread.
pub(super) fn tokens() -> Vec<String> {
    static LIST: OnceLock<List> = OnceLock::new();
    let list = LIST.get_or_init(|| {
        let path = path();
        match fs::read_to_string(&path) {
            Ok(text) => parse(&text, |line| {
                tell(format_args!("{}: not a test and a token: {line}", path.display()));
            }),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tell(format_args!("{}: {error}", path.display()));
                }
                List::new()
            }
        }
    });
    test_name().and_then(|name| list.get(&name)).cloned().unwrap_or_default()
}

fn parse(text: &str, mut wrong: impl FnMut(&str)) -> List {
    let mut list = List::new();
    for line in text.lines() {
        let words = line.split('#').next().unwrap_or_default();
        match words.split_whitespace().collect::<Vec<_>>()[..] {
            [] => {}
            [test, token] => list.entry(test.into()).or_default().push(token.into()),
            _ => wrong(line),
        }
    }
    list
}

/// Adds a failure to the list, if the user has asked for it.
pub(super) fn keep(failure: &Failure) {
    let (Some(_), Some(test)) = (std::env::var_os("PARCAE_KEEP"), test_name()) else { return };
    let path = path();
    if let Err(error) = add(&path, &test, failure.token(), failure.signature()) {
        tell(format_args!("PARCAE_KEEP: cannot write {}: {error}", path.display()));
    }
}

fn add(path: &Path, test: &str, token: &str, remark: &str) -> io::Result<()> {
    /// Tests of one process take turns.
    static WRITING: Mutex<()> = Mutex::new(());
    let _turn = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let known = fs::read_to_string(path).unwrap_or_default();
    if parse(&known, |_| {}).get(test).is_some_and(|tokens| tokens.iter().any(|t| t == token)) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = File::options().create(true).append(true).open(path)?;
    let remark = remark.replace('\n', " ");
    file.write_all(format!("{test} {token} # {remark}\n").as_bytes())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn lines_name_a_test_and_a_token() {
        let mut wrong = Vec::new();
        let text = "a pcr1.x # a deadlock\n\n# nothing\nb::c pcr1.y\na pcr1.z\nnonsense\n";
        let list = parse(text, |line| wrong.push(line.to_owned()));
        assert_eq!(list["a"], ["pcr1.x", "pcr1.z"]);
        assert_eq!(list["b::c"], ["pcr1.y"]);
        assert_eq!((list.len(), &wrong[..]), (2, &["nonsense".to_owned()][..]));
    }

    #[test]
    fn a_failure_is_added_once() {
        let folder = std::env::temp_dir().join(format!("parcae-list-{}", std::process::id()));
        let path = folder.join("regressions");
        for token in ["pcr1.x", "pcr1.y", "pcr1.x"] {
            add(&path, "a", token, "panic at\nline 7").unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(text, "a pcr1.x # panic at line 7\na pcr1.y # panic at line 7\n");
    }
}
