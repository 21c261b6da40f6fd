//! Ctrl-C: what is done is kept, the rest is cancelled, and a report says how far it got.
//!
//! `rt.token().cancel()` would not do: it ends the whole runtime for good, and `run` returns an error instead of the results.
//! So the jobs run in a nursery with a token of its own, and leave their results outside of it.
//!
//! The signal is blocked in all threads and taken by one that waits for it, so no code of a signal handler runs
//! anywhere. A second Ctrl-C ends the process at once, for jobs that do not listen. Without `libc`, the crate
//! `ctrlc` does the same: `ctrlc::set_handler(move || stop.cancel())`.
//!
//! ```sh
//! cargo run --example ctrl_c       # press Ctrl-C
//! cargo run --example ctrl_c 3     # as if it was pressed when three jobs are done
//! ```

use parcae::prelude::*;
use std::sync::Mutex;
use std::time::Duration;

const JOBS: u64 = 8;

/// Blocks `SIGINT` in this thread and all that it starts from now on.
fn block_interrupts() {
    // SAFETY: a set of our own, filled before it is used.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &interrupt(), std::ptr::null_mut());
    }
}

fn interrupt() -> libc::sigset_t {
    // SAFETY: a set of bits, for which zeros are as good as anything; then it is initialised.
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
        // SAFETY: both are ours. The signal is blocked in all threads, so that it comes here.
        while unsafe { libc::sigwait(&interrupt(), &mut signal) } == 0 {
            if stop.is_cancelled() {
                std::process::exit(130); // what shells say of a program that Ctrl-C has ended
            }
            stop.cancel();
        }
    });
}

/// A job that takes a while, the last ones minutes, and listens wherever it waits or comes to a checkpoint.
fn work(cx: &Cx, job: u64) -> parcae::Result<u64> {
    cx.sleep(Duration::from_millis(100 * 3_u64.pow(job as u32)))?;
    Ok(job * job)
}

/// Runs the jobs. Returns those that were done, with their results, and whether all were. `press_after`: after so many
/// results the program presses Ctrl-C itself.
pub(crate) fn run(press_after: Option<usize>) -> parcae::Result<(Vec<(u64, u64)>, bool)> {
    block_interrupts(); // before there are other threads
    let stop = CancelToken::new();
    cancel_on_interrupt(stop.clone());

    let rt = Runtime::builder().build()?;
    let done = Mutex::new(Vec::new()); // outside: it is here whatever the run comes to
    let outcome = rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().token(&stop), |n| {
            for job in 0..JOBS {
                let done = &done;
                n.spawn(move |cx| {
                    let result = work(cx, job)?;
                    let mut done = done.lock().expect("not poisoned");
                    done.push((job, result));
                    if Some(done.len()) == press_after {
                        // SAFETY: a signal to ourselves, which a thread of ours waits for.
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
