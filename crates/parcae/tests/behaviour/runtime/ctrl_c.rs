//! The example `ctrl_c`. It runs in a process of its own in which the signal is blocked from the
//! start, because the threads of libtest do not block it.

#[allow(dead_code)]
#[path = "../../../examples/ctrl_c.rs"]
mod example;

use crate::support::child;
use std::os::unix::process::CommandExt;

#[test]
fn results_that_are_there_are_kept_and_the_rest_is_cancelled() {
    if child::is_victim() {
        let (done, all) = example::run(Some(3)).unwrap();
        assert!(!all, "nothing was cancelled");
        assert!(done.len() >= 3 && done.iter().all(|(job, result)| job * job == *result));
        return;
    }
    let name = "results_that_are_there_are_kept_and_the_rest_is_cancelled";
    let mut victim = child::victim(module_path!(), name);
    let block = || {
        // SAFETY: a set of our own; `pthread_sigmask` may be called between fork and exec.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGINT);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        }
        Ok(())
    };
    // SAFETY: it calls only functions that are allowed there, see above.
    unsafe { victim.pre_exec(block) };
    let output = victim.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
