//! Observers see why a task waits.

use crate::support::{seeded, watched};
use crate::{connected, listener};
use parcae::prelude::*;
use parcae::runtime::SocketBackend;
use std::io::{Read, Write};
use std::time::Duration;

// rule: S0-STATE-3
#[test]
fn a_dump_names_the_operation_the_peer_and_the_backend() {
    for sockets in [SocketBackend::Epoll, SocketBackend::Ring] {
        let rt = watched(Runtime::builder().workers(2).sockets(sockets));
        rt.run(|cx| {
            let (listener, address) = listener()?;
            let (client, mut server) = connected()?;
            let backend = match parcae_io::net::backend() {
                SocketBackend::Ring => "sockets by io_uring; ",
                _ if sockets == SocketBackend::Ring => "sockets by epoll: the kernel refuses",
                _ => "sockets by epoll; ",
            };
            cx.nursery(|n| {
                let reader = n.spawn(move |_| Ok(server.read(&mut [0; 8])?))?;
                let acceptor = n.spawn(move |_| Ok(listener.accept().map(drop)?))?;
                let expected = [
                    format!("reading from `{}`", client.local_addr()?),
                    format!("accepting at `{address}`"),
                    backend.into(),
                ];
                loop {
                    let dump = rt.dump();
                    let (text, json) = (dump.to_string(), dump.to_json());
                    if expected.iter().all(|line| text.contains(line)) && json.contains(backend) {
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
}

/// A worker that computes without a checkpoint serves no descriptor; the report counts those with
/// input. Its own epoll is not asked: the bytes are read afterwards.
#[test]
fn a_stuck_worker_is_reported_with_the_descriptors_that_it_neglects() {
    for sockets in [SocketBackend::Epoll, SocketBackend::Ring] {
        let (reports, stalls) = std::sync::mpsc::channel();
        let builder = Runtime::builder().workers(1).temporary_workers(0).sockets(sockets);
        let builder = builder.stall_after(Duration::from_millis(20));
        let rt = watched(builder.on_stall(move |report| {
            let _ = reports.send((report.neglected_descriptors, report.to_string()));
        }));
        let stalls = std::sync::Mutex::new(stalls);
        rt.run(|cx| {
            let pairs = (0..3).map(|_| connected()).collect::<std::io::Result<Vec<_>>>()?;
            cx.nursery(|n| {
                let readers: Vec<_> = pairs
                    .iter()
                    .map(|(_, server)| n.spawn(move |_| Ok((&mut &*server).read(&mut [0; 8])?)))
                    .collect::<parcae::Result<_>>()?;
                cx.sleep(Duration::from_millis(5))?; // all of them wait
                for (client, _) in &pairs[..2] {
                    // Not by the runtime, which would let others run.
                    use std::os::fd::AsFd;
                    let mut client = std::fs::File::from(client.as_fd().try_clone_to_owned()?);
                    client.write_all(b"hello")?;
                }
                let (neglected, text) = stalls.lock().unwrap().recv()?; // blocks the worker
                assert_eq!(neglected, 2, "{text}");
                assert!(text.contains("2 descriptors of its tasks have input"), "{text}");
                (&mut &pairs[2].0).write_all(b"hello")?;
                for reader in readers {
                    assert_eq!(reader.join()?, 5);
                }
                Ok(())
            })
        })
        .unwrap();
    }
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
