//! Root tasks: started by handles with options, joined by plain threads.

use crate::support::*;
use parcae::prelude::*;
use parcae::sync::Mutex;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn handles_start_root_tasks_with_options() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let opts = SpawnOpts::new().name("beat").priority(Priority::High).budget(ops(1 << 20));
    let task = rt.handle().spawn_with(opts.clone(), |cx| {
        work(cx, 5_000)?;
        Ok(cx.info().to_string())
    });
    assert!(task.unwrap().join().unwrap().starts_with("task `beat`, spawned at "));
    let small = opts.stack_size(parcae::stack::StackSize::CORE);
    let left = rt.run_with(small, |cx| Ok(cx.stack_left())).unwrap();
    assert!(left <= 64 << 10, "{left}");
}

// rule: S1-AWAIT-5, S2-API-4
#[test]
fn a_plain_thread_waits_for_a_root_task_and_for_a_child() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let root = rt.handle().spawn(|cx| {
        for _ in 0..100 {
            cx.yield_now()?;
        }
        Ok(7)
    });
    assert_eq!(root.unwrap().join().unwrap(), 7);
    let value = rt.run(|cx| {
        cx.nursery(|n| {
            let child = n.spawn(|_| Ok(8))?;
            std::thread::scope(|s| s.spawn(|| child.join()).join().unwrap())
        })
    });
    assert_eq!(value.unwrap(), 8);
}

/// Waits when it is dropped.
struct Waits(Arc<Mutex<()>>);

impl Drop for Waits {
    fn drop(&mut self) {
        drop(self.0.lock());
    }
}

/// A result without a taker is dropped by its task, which may wait.
#[test]
fn a_root_result_that_waits_in_its_drop_holds_up_nobody() {
    must_end(|| {
        let rt = Runtime::builder().workers(1).temporary_workers(0).build().unwrap();
        let lock = Arc::new(Mutex::new(()));
        let (held, handle) = (Arc::clone(&lock), rt.handle());
        let root = rt.handle().spawn(move |cx| {
            let guard = held.lock()?;
            let result = Waits(Arc::clone(&held));
            drop(handle.spawn(move |_| Ok(result))?);
            cx.sleep(Duration::from_millis(50))?; // the other has ended, but for its result
            drop(guard);
            Ok(())
        });
        root.unwrap().join().unwrap();
    });
}
