//! The watchdog of a hunt, and the token that outlives a crash.
//!
//! The token of the schedule that runs is in a file, so that a run which ends the process can be
//! repeated. Writing a file for each schedule would take longer than the schedule; instead the file
//! is mapped into memory, and the kernel keeps its contents when the process dies. The file is
//! removed when the hunt is over.
//!
//! A thread looks now and then at the beginning of the schedule. If it is too long ago, it prints
//! the token and aborts the process: a task that reaches no point cannot be stopped.

use super::token::Token;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Size of the file.
const SIZE: usize = 4096;

/// Watches the schedules of one thread.
pub(super) struct Watch {
    shared: Arc<ScheduleWatch>,
    thread: Option<std::thread::JoinHandle<()>>,
    map: Option<TokenFile>,
}

struct ScheduleWatch {
    /// Schedules that have begun, times two; odd while one runs. Relaxed: the thread only compares.
    count: AtomicU64,
    over: Mutex<bool>,
    wake: Condvar,
    path: Option<PathBuf>,
}

/// A file that is mapped into memory.
struct TokenFile {
    at: *mut u8,
    path: PathBuf,
}

impl TokenFile {
    fn new() -> Option<TokenFile> {
        static NEXT: AtomicU64 = AtomicU64::new(0); // Relaxed: only its uniqueness counts
        let number = NEXT.fetch_add(1, Ordering::Relaxed); // see `NEXT`
        let name = format!("parcae-lab-{}-{number}.token", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path).ok()?;
        file.set_len(SIZE as u64).ok()?;
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping of a file that is large enough.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), SIZE, access, shared, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            let _ = fs::remove_file(&path);
            return None;
        }
        Some(TokenFile { at: at.cast(), path })
    }

    fn write(&self, text: &[u8]) {
        let length = text.len().min(SIZE - 1);
        // SAFETY: the mapping has `SIZE` bytes, and this thread alone writes to it.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), self.at, length);
            self.at.add(length).write(b'\n');
        }
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and not used any more.
        unsafe { libc::munmap(self.at.cast(), SIZE) };
        let _ = fs::remove_file(&self.path); // it is only of use if the process died
    }
}

impl Watch {
    pub(super) fn start(limit: Duration) -> Watch {
        let map = TokenFile::new();
        let shared = Arc::new(ScheduleWatch {
            count: AtomicU64::new(0),
            over: Mutex::new(false),
            wake: Condvar::new(),
            path: map.as_ref().map(|map| map.path.clone()),
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("parcae-lab".into());
        let thread = thread.spawn(move || theirs.look(limit)).ok();
        Watch { shared, thread, map }
    }

    /// A schedule begins.
    pub(super) fn begin(&self, token: &Token) {
        self.shared.count.fetch_add(1, Ordering::Relaxed); // see `count`
        if let Some(map) = &self.map {
            map.write(&token.text());
        }
    }

    /// The schedule has ended.
    pub(super) fn end(&self) {
        self.shared.count.fetch_add(1, Ordering::Relaxed); // see `count`
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.shared.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl ScheduleWatch {
    fn look(&self, limit: Duration) {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut seen, mut since) = (0, Instant::now());
        while !*over {
            let pause = (limit / 4).min(Duration::from_secs(1));
            let waited = self.wake.wait_timeout(over, pause);
            over = waited.unwrap_or_else(PoisonError::into_inner).0;
            let count = self.count.load(Ordering::Relaxed); // see `count`
            if count != seen || count.is_multiple_of(2) {
                (seen, since) = (count, Instant::now());
            } else if since.elapsed() > limit && !*over {
                self.give_up(limit);
            }
        }
    }

    fn give_up(&self, limit: Duration) {
        let token = self.path.as_ref().and_then(|path| fs::read_to_string(path).ok());
        let token = token.as_deref().and_then(|text| text.lines().next()).unwrap_or("?");
        let _ = writeln!(
            io::stderr(),
            "parcae: a schedule has not ended within {limit:?}; repeat it with \
             PARCAE_REPLAY={token}"
        );
        std::process::abort();
    }
}
