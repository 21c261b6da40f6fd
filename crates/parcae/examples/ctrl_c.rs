//! Ctrl-C: results so far are kept, the rest is cancelled, and a report shows both.
//!
//! `rt.token().cancel()` would end the whole runtime, and `run` would return an error instead of
//! the results. So the jobs run in a nursery with its own token, and store their results outside of
//! it.
//!
//! The signal is blocked in all threads, and one thread waits for it, so there is no signal
//! handler. A second Ctrl-C ends the process immediately, for jobs without cancel points. The crate
//! `ctrlc` does the same without `libc`: `ctrlc::set_handler(move || stop.cancel())`.
//!
//! ```sh
//! cargo run --example ctrl_c       # press Ctrl-C
//! cargo run --example ctrl_c 3     # as if it was pressed when three jobs are done
//! ```

use parcae::prelude::*;
use std::sync::Mutex;
use std::time::Duration;

const JOBS: u64 = 8;

/// Blocks `SIGINT` in this thread and in all threads that it starts later.
fn block_interrupts() {
    // SAFETY: a set of our own, filled before it is used.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &interrupt(), std::ptr::null_mut());
    }
}

fn interrupt() -> libc::sigset_t {
    // SAFETY: a set of bits, for which zeros are a valid value; it is initialised below.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGINT);
        set
    }
}

/// A thread that cancels the token at the first Ctrl-C, and ends the process at the second.
fn cancel_on_interrupt(stop: CancelToken) {
    std::thread::spawn(move || {
        let mut signal = 0;
        // SAFETY: both are local variables. The signal is blocked in all threads, so it is
        // delivered here.
        while unsafe { libc::sigwait(&interrupt(), &mut signal) } == 0 {
            if stop.is_cancelled() {
                std::process::exit(130); // the shell's exit code for Ctrl-C
            }
            stop.cancel();
        }
    });
}

/// A job that takes a while, the last ones minutes. Its waits and checkpoints are cancel points.
fn work(cx: &Cx, job: u64) -> parcae::Result<u64> {
    cx.sleep(Duration::from_millis(100 * 3_u64.pow(job as u32)))?;
    Ok(job * job)
}

/// Runs the jobs. Returns the finished ones with their results, and whether all finished.
/// `press_after`: after this many results the program sends itself Ctrl-C.
pub(crate) fn run(press_after: Option<usize>) -> parcae::Result<(Vec<(u64, u64)>, bool)> {
    block_interrupts(); // before other threads start
    let stop = CancelToken::new();
    cancel_on_interrupt(stop.clone());

    let rt = Runtime::builder().build()?;
    let done = Mutex::new(Vec::new()); // outside: it survives a cancelled run
    let outcome = rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().token(&stop), |n| {
            for job in 0..JOBS {
                let done = &done;
                n.spawn(move |cx| {
                    let result = work(cx, job)?;
                    let mut done = done.lock().expect("not poisoned");
                    done.push((job, result));
                    if Some(done.len()) == press_after {
                        // SAFETY: a signal to this process, for which a thread waits.
                        unsafe { libc::kill(libc::getpid(), libc::SIGINT) };
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    });
    let mut done = done.into_inner().expect("not poisoned");
    done.sort_unstable();
    match outcome {
        Ok(()) => Ok((done, true)),
        Err(error) if error.is_cancelled() && stop.is_cancelled() => Ok((done, false)),
        Err(error) => Err(error), // a job failed
    }
}

fn main() -> parcae::Result<()> {
    let press_after = std::env::args().nth(1).map(|count| count.parse()).transpose()?;
    let (done, all) = run(press_after)?;
    for (job, result) in &done {
        println!("job {job}: {result}");
    }
    println!(
        "{} of {JOBS} jobs done{}",
        done.len(),
        if all { "" } else { "; the rest was cancelled" }
    );
    Ok(())
}
