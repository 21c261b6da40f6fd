//! Deadlock detection: each deadlock is found, and no wait that can end is taken for one.

use crate::support::*;
use parcae::channel::channel;
use parcae::inspect::OnDeadlock;
use parcae::prelude::*;
use parcae::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

fn failing() -> Runtime {
    Runtime::builder().workers(2).on_deadlock(OnDeadlock::Fail).build().unwrap()
}

/// The error of a task that joins itself.
fn joins_itself(rt: &Runtime) -> parcae::Error {
    let (give, given) = channel::<parcae::RootTask<()>>(1);
    let (tell, told) = mpsc::channel();
    let task = rt.handle().spawn(move |cx| {
        // A deadline that wakes no task is no reason to wait for ever.
        let (_token, _expiry) = cx.token_with_timeout(Duration::from_millis(700));
        let joined = given.recv()?.join();
        tell.send(joined).expect("somebody who listens");
        Ok(())
    });
    give.send(task.unwrap()).unwrap();
    told.recv().unwrap().unwrap_err()
}

/// The reply comes from a root task, which has the other end in its mailbox.
#[test]
fn a_reply_that_takes_long_is_no_deadlock() {
    must_end(|| {
        let rt = failing();
        let (ask, asked) = channel::<parcae::channel::Sender<u32>>(1);
        let service = rt.handle().spawn(move |cx| {
            let reply = asked.recv()?;
            cx.sleep(Duration::from_millis(1_500))?;
            Ok(reply.send(7)?)
        });
        let got = rt.run(|_| {
            let (reply, answer) = channel(1);
            ask.send(reply)?;
            Ok(answer.recv()?)
        });
        assert_eq!(got.unwrap(), 7);
        service.unwrap().join().unwrap();
    });
}

/// A nursery with a timeout ends by itself, even if its tasks wait for each other.
#[test]
fn what_a_timeout_will_end_is_no_deadlock() {
    must_end(|| {
        let rt = failing();
        let outcome: parcae::Result<()> = rt.run(|cx| {
            let lock = Mutex::new(());
            let _held = lock.lock()?;
            cx.nursery_with(NurseryOpts::new().timeout(Duration::from_millis(1_500)), |n| {
                let lock = &lock;
                n.spawn(move |_| lock.lock().map(drop))?.join()
            })
        });
        let error = outcome.unwrap_err();
        assert!(error.is_cancelled(), "{error:?}");
    });
}

/// Numbers of tasks are unique in a runtime, not among runtimes.
#[test]
fn a_channel_from_another_runtime_is_no_deadlock() {
    must_end(|| {
        let (here, there) = (failing(), failing());
        let (give, given) = mpsc::channel();
        let sender = there.handle().spawn(move |cx| {
            let (tx, rx) = channel::<u32>(1);
            give.send(rx).expect("somebody who takes it");
            cx.sleep(Duration::from_millis(1_500))?;
            Ok(tx.send(7)?)
        });
        let rx = given.recv().unwrap();
        assert_eq!(here.run(|_| Ok(rx.recv()?)).unwrap(), 7);
        sender.unwrap().join().unwrap();
    });
}

/// A thread that dumps all the time holds tasks still, one after another. The deadlock is found all
/// the same.
#[test]
fn a_deadlock_is_found_while_somebody_else_looks() {
    must_end(|| {
        let rt = failing();
        let done = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    rt.dump();
                    // A worker that is inspected without a pause does nothing else.
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
            for _ in 0..4 {
                let error = joins_itself(&rt);
                assert!(matches!(error.kind(), ErrorKind::Deadlock(_)), "{error:?}");
            }
            done.store(true, Ordering::Relaxed);
        });
    });
}

/// A deadline that wakes no task does not hide the deadlock: the task still waits in vain.
#[test]
fn a_deadline_that_wakes_nobody_does_not_hide_a_deadlock() {
    must_end(|| {
        let error = joins_itself(&failing());
        assert!(matches!(error.kind(), ErrorKind::Deadlock(_)), "{error:?}");
    });
}

#[test]
fn two_deterministic_runtimes_that_would_wait_for_each_other_are_an_error() {
    must_end(|| {
        let (a, b) = (seeded(1), seeded(1));
        assert!(a.run(|_| b.run(|_| a.run(|_| Ok(())))).is_err());
    });
}
