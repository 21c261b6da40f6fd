//! Observers see why a task waits.

use crate::support::{runtime, seeded};
use crate::{connected, listener};
use std::io::Read;
use std::time::Duration;

#[test]
fn a_dump_names_the_operation_and_the_peer() {
    let rt = runtime(2);
    rt.run(|cx| {
        let (listener, address) = listener()?;
        let (client, mut server) = connected()?;
        cx.nursery(|n| {
            let reader = n.spawn(move |_| Ok(server.read(&mut [0; 8])?))?;
            let acceptor = n.spawn(move |_| Ok(listener.accept().map(drop)?))?;
            let expected = [
                format!("reading from `{}`", client.local_addr()?),
                format!("accepting at `{address}`"),
            ];
            loop {
                let dump = rt.dump().to_string();
                if expected.iter().all(|line| dump.contains(line)) {
                    break;
                }
                cx.sleep(Duration::from_millis(1))?;
            }
            reader.cancel();
            acceptor.cancel();
            Ok(())
        })
        .or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })
    })
    .unwrap();
}

/// In the simulation the other side is a task, too: a wait that no one can end is a deadlock.
#[test]
fn a_simulated_wait_for_no_one_is_a_deadlock() {
    let rt = seeded(1);
    let outcome = rt.run(|_| {
        let (_client, mut server) = connected()?;
        Ok(server.read(&mut [0; 8])?)
    });
    let error = outcome.unwrap_err();
    assert!(matches!(error.kind(), parcae::ErrorKind::Deadlock(_)), "{error}");
    assert!(error.to_string().contains("reading from"), "{error}");
}
