//! A dump on a signal, seen from outside the process.

use crate::support::child;
use parcae::prelude::*;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

/// Each of two runtimes is dumped, by its name; one that does not ask any more is not.
// rule: S0-ROOT-3
#[test]
fn every_runtime_that_asks_is_dumped_and_no_other() {
    if child::is_victim() {
        let runtimes: Vec<_> = ["first", "second", "third"]
            .into_iter()
            .map(|name| {
                let rt = Runtime::builder().workers(1).build().unwrap();
                let dumps = rt.dump_on_signal(libc::SIGUSR1).unwrap();
                let task = rt
                    .handle()
                    .spawn_with(SpawnOpts::new().name(name), |cx| cx.sleep(Duration::MAX))
                    .unwrap();
                (rt, dumps, task)
            })
            .collect();
        let mut runtimes = runtimes.into_iter();
        let (third, second) = (runtimes.next_back().unwrap(), runtimes.next_back().unwrap());
        drop(third.1);
        std::thread::sleep(Duration::from_millis(100)); // the tasks sleep, most likely
        // SAFETY: a signal that has a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
        std::thread::sleep(Duration::from_secs(60)); // until the parent has read enough
        drop((second, third.0, third.2));
    }
    let test = "every_runtime_that_asks_is_dumped_and_no_other";
    let mut victim = child::victim(module_path!(), test).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stderr, mut text, mut buffer) =
        (victim.stderr.take().unwrap(), String::new(), [0; 4096]);
    while !(text.contains("`first`") && text.contains("`second`")) {
        let read = stderr.read(&mut buffer).unwrap();
        assert!(read > 0, "ended without both dumps: {text}");
        text += &String::from_utf8_lossy(&buffer[..read]);
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    stderr.read_to_string(&mut text).unwrap();
    assert!(text.contains("parcae: 1 tasks: "), "{text}");
    assert!(!text.contains("`third`"), "{text}");
}
