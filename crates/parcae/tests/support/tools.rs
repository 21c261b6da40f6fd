//! Programs that some tests need and a machine may lack: a cross compiler, an
//! emulator, a debugger.
//!
//! Such a test looks for its program with [`find`] and, where there is none, says
//! so with [`skip`] and returns:
//!
//! ```text
//! let Some(gdb) = tools::find("gdb") else {
//!     return tools::skip("names_of_fibers", "gdb", "Debian: apt-get install gdb");
//! };
//! ```
//!
//! A skipped test counts as passed, so a machine that must not skip anything
//! (continuous integration) sets `PARCAE_REQUIRE_TOOLS=1`: then [`skip`] panics.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The first executable file called `tool` in the directories of `PATH`.
pub(crate) fn find(tool: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|directory| directory.join(tool)).find(|file| {
        fs::metadata(file).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    })
}

/// Reports that `test` is skipped for want of `tool`; `hint` says how to get it.
///
/// The line goes to the standard error output of the process, because libtest captures
/// what the macros print.
///
/// # Panics
///
/// If `PARCAE_REQUIRE_TOOLS` is 1, with the same line.
pub(crate) fn skip(test: &str, tool: &str, hint: &str) {
    let line = format!("skipped: {test}: {tool} not found ({hint})\n");
    if env::var_os("PARCAE_REQUIRE_TOOLS").is_some_and(|it| it == "1") {
        panic!("{}", line.trim_end());
    }
    // One write, so that lines of parallel tests do not mix. If standard error is
    // closed, the line is lost.
    let _ = io::stderr().write_all(line.as_bytes());
}
