//! Searches the files of a directory in parallel: a task for each directory and each file, at most
//! 64 files open at one time, and one budget for all of it.
//!
//! `cargo run -p parcae-io --example grep -- WORD [DIRECTORY]`; without arguments it searches the
//! sources of this crate for "SAFETY".

use parcae::prelude::*;
use parcae::sync::Semaphore;
use parcae_io::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Files that are open at one time: a process has some hundred descriptors.
const OPEN: usize = 64;

struct Search {
    word: String,
    room: Semaphore,
    files: AtomicUsize,
    found: AtomicUsize,
}

fn main() -> parcae::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let word = arguments.next().unwrap_or_else(|| "SAFETY".into());
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let directory = arguments.next().map_or(sources, PathBuf::from);
    let search = Search {
        word,
        room: Semaphore::new(OPEN),
        files: AtomicUsize::new(0),
        found: AtomicUsize::new(0),
    };
    let rt = Runtime::builder().build()?;
    rt.run(|cx| {
        // A tree of links or a device that never ends cannot take more than this.
        let budget = Budget::UNLIMITED.with_syscalls(10_000_000);
        cx.nursery_with(NurseryOpts::new().budget(budget), |n| list(n, &search, directory))
    })?;
    // Relaxed: all tasks have ended.
    let (files, found) =
        (search.files.load(Ordering::Relaxed), search.found.load(Ordering::Relaxed));
    println!("{found} lines in {files} files have \"{}\"", search.word);
    assert!(files > 0);
    Ok(())
}

/// Spawns a task for each entry of a directory.
fn list<'scope>(
    n: &'scope Nursery<'scope, '_>,
    search: &'scope Search,
    directory: PathBuf,
) -> parcae::Result<()> {
    for entry in fs::read_dir(&directory)? {
        let path = entry.path();
        match entry.file_type() {
            fs::FileType::Dir => drop(n.spawn(move |_| list(n, search, path))?),
            fs::FileType::File => drop(n.spawn(move |cx| search.file(cx, &path))?),
            _ => {} // links are not followed
        }
    }
    Ok(())
}

impl Search {
    fn file(&self, cx: &Cx, path: &Path) -> parcae::Result<()> {
        let _room = self.room.acquire()?;
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if parcae_io::is_cancelled(&error) => return Err(error.into()),
            Err(_) => return Ok(()), // not a text, or not for us
        };
        // Relaxed, both: counts.
        self.files.fetch_add(1, Ordering::Relaxed);
        for line in cx.each(text.lines()) {
            if line?.contains(&self.word) {
                self.found.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}
