//! A server that waits for work is not reported, whatever its tasks wait for.

use crate::support::child;
use parcae::Error;
use parcae::channel::{channel, oneshot};
use parcae::prelude::*;
use parcae::sync::{Event, Notify};
use std::time::Duration;

/// Longer than the monitor takes to report tasks that all wait.
const IDLE: Duration = Duration::from_millis(1_500);

#[test]
fn an_idle_server_prints_nothing() {
    if !child::is_victim() {
        let outcome = child::run(module_path!(), "an_idle_server_prints_nothing");
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert_eq!(outcome.stderr, "");
        return;
    }
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (event, notify, token) = (Event::new(), Notify::new(), CancelToken::new());
    rt.run(|cx| {
        // All made on a task; a thread that the runtime does not know ends the waits.
        let (requests_tx, requests) = channel::<u32>(1);
        let (answer_tx, answer) = oneshot::<u32>();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                std::thread::sleep(IDLE);
                requests_tx.send(1).unwrap();
                answer_tx.send(2).unwrap();
                event.set();
                notify.notify_one();
                token.cancel();
            });
            cx.nursery(|n| {
                n.spawn(|_| {
                    requests.recv().map(|request| assert_eq!(request, 1)).map_err(Error::from)
                })?;
                n.spawn(|_| {
                    answer.recv().map(|answer| assert_eq!(answer, 2)).map_err(Error::from)
                })?;
                n.spawn(|_| event.wait())?;
                n.spawn(|_| notify.wait())?;
                n.spawn(|_| token.wait().map(drop))?;
                Ok(())
            })
        })
    })
    .unwrap();
}
