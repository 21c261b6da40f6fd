//! The example `ctrl_c`, in a process of its own in which the signal is blocked from the start: the harness has threads
//! that would not block it.

#[allow(dead_code)]
#[path = "../examples/ctrl_c.rs"]
mod ctrl_c;

use std::os::unix::process::CommandExt;
use std::process::Command;

const CHILD: &str = "PARCAE_TEST_CTRL_C";

#[test]
fn results_that_are_there_are_kept_and_the_rest_is_cancelled() {
    if std::env::var_os(CHILD).is_some() {
        let (done, all) = ctrl_c::run(Some(3)).unwrap();
        assert!(!all, "nothing was cancelled");
        assert!(done.len() >= 3 && done.iter().all(|(job, result)| job * job == *result));
        return;
    }
    let name = "results_that_are_there_are_kept_and_the_rest_is_cancelled";
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", name, "--nocapture"]).env(CHILD, "1");
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
    // SAFETY: it calls what is allowed there, see above.
    unsafe { child.pre_exec(block) };
    let output = child.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
