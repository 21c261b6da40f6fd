//! A stream is used on several workers: its registration follows its reader.

use crate::support::{Watchdog, everywhere, runtime, threads};
use crate::{connected, echo, pattern};
use parcae::prelude::*;
use parcae_io::net::TcpStream;
use std::io::{Read, Write};
use std::sync::Arc;

#[test]
fn a_stream_is_passed_from_task_to_task() {
    everywhere(|cx| {
        let (mut client, server) = connected()?;
        cx.nursery(|n| {
            n.spawn(move |_| Ok(echo(server)?))?;
            for round in 0..20 {
                let task = n.spawn(move |_| {
                    let sent = pattern(50, round);
                    let mut got = [0; 50];
                    client.write_all(&sent)?;
                    client.read_exact(&mut got)?;
                    assert_eq!(sent, got);
                    Ok(client)
                })?;
                client = task.join()?;
            }
            Ok(())
        })
    });
}

/// Reader and writer wait at the same time, on any two workers.
#[test]
fn reader_and_writer_on_two_workers() {
    threads(|cx| {
        let (client, server) = connected()?;
        let (client, server) = (Arc::new(client), Arc::new(server));
        const BYTES: usize = 2 << 20;
        cx.nursery(|n| {
            for (writes, reads) in [(&client, &server), (&server, &client)] {
                let (writes, reads) = (Arc::clone(writes), Arc::clone(reads));
                n.spawn(move |_| Ok((&*writes).write_all(&pattern(BYTES, 1))?))?;
                n.spawn(move |_| {
                    let mut got = vec![0; BYTES];
                    (&*reads).read_exact(&mut got)?;
                    assert!(got == pattern(BYTES, 1));
                    Ok(())
                })?;
            }
            Ok(())
        })
    });
}

/// A stream that a task of one runtime has waited for is used in another one, and on a thread.
#[test]
fn a_stream_goes_to_another_runtime() {
    let (one, two) = (runtime(1), runtime(2));
    let (mut client, server) = one
        .run(|cx| {
            let (client, server) = connected()?;
            cx.nursery(|n| {
                let reader = n.spawn(|_| Ok((&server).read_exact(&mut [0; 4])?))?;
                cx.sleep(std::time::Duration::from_millis(2))?; // it waits there
                (&client).write_all(b"1234")?;
                reader.join()
            })?;
            Ok((client, server))
        })
        .unwrap();
    let server = two
        .run(|cx| {
            cx.nursery(|n| {
                let reader = n.spawn(|_| {
                    (&server).read_exact(&mut [0; 4])?;
                    Ok(())
                })?;
                cx.sleep(std::time::Duration::from_millis(2))?;
                client.write_all(b"5678")?;
                reader.join()
            })?;
            Ok(server)
        })
        .unwrap();
    drop((one, two));
    // Its home is gone; a thread needs none.
    client.write_all(b"9").unwrap();
    (&server).read_exact(&mut [0; 1]).unwrap();
}

/// The runtime ends while streams are open and registered.
#[test]
fn streams_outlive_their_runtime() {
    for _ in 0..5 {
        let rt = runtime(2);
        let streams: Vec<(TcpStream, TcpStream)> = rt
            .run(|cx| {
                let pairs = (0..50).map(|_| connected()).collect::<std::io::Result<Vec<_>>>()?;
                let stop = CancelToken::new();
                let outcome = cx.nursery_with(crate::under(&stop), |n| {
                    for (_, server) in &pairs {
                        n.spawn(move |_| Ok((&*server).read(&mut [0; 1])?))?;
                    }
                    cx.sleep(std::time::Duration::from_millis(1))?;
                    stop.cancel();
                    Ok(())
                });
                assert!(outcome.unwrap_err().is_cancelled());
                Ok(pairs)
            })
            .unwrap();
        drop(rt);
        drop(streams);
    }
}

/// A writer waits where a reader of another runtime waits, and that runtime ends.
#[test]
fn a_writer_outlives_the_runtime_of_the_reader() {
    const BYTES: usize = 32 << 20;
    let _watchdog = Watchdog::start();
    let (one, two) = (runtime(1), runtime(1));
    let (ours, mut theirs) = one.run(|_| Ok(connected()?)).unwrap();
    let (bytes, stop) = (pattern(BYTES, 3), CancelToken::new());
    let is_waiting = |rt: &Runtime, what: &str| {
        while !rt.dump().to_string().contains(what) {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|s| {
        let (rt, ours, stop) = (Arc::clone(&one), &ours, &stop);
        let reader = s.spawn(move || {
            rt.run(|cx| cx.nursery_with(crate::under(stop), |_| Ok((&*ours).read(&mut [0])?)))
        });
        is_waiting(&one, "reading from");
        let writer = s.spawn(|| two.run(|_| Ok((&*ours).write_all(&bytes)?)));
        is_waiting(&two, "writing to");
        stop.cancel();
        assert!(reader.join().unwrap().unwrap_err().is_cancelled());
        drop(one);
        let mut got = vec![0; BYTES];
        theirs.read_exact(&mut got).unwrap(); // on a thread
        assert!(got == bytes);
        writer.join().unwrap().unwrap();
    });
}
