//! Accept loops: they go on, end when they are cancelled, and spread connections over workers.

use crate::support::{everywhere, runtime};
use crate::{echo, listener, under, unless_cancelled};
use parcae::prelude::*;
use parcae_io::net::{TcpListener, TcpStream};
use std::io::{Read, Write};

#[test]
fn a_server_ends_with_its_token() {
    everywhere(|cx| {
        let (listener, address) = listener()?;
        let stop = CancelToken::new();
        cx.nursery(|n| {
            let (stop, listener) = (&stop, &listener);
            n.spawn(move |cx| {
                let served = cx.nursery_with(under(stop), |n| {
                    let mut errors = 0;
                    for stream in listener.incoming() {
                        match stream {
                            Ok(stream) => drop(n.spawn(move |_| Ok(echo(stream)?))?),
                            Err(error) => {
                                assert!(parcae_io::is_cancelled(&error), "{error}");
                                errors += 1;
                            }
                        }
                    }
                    assert_eq!(errors, 1, "the loop ends after it");
                    Ok(())
                });
                unless_cancelled(served)
            })?;
            for _ in 0..5 {
                let mut stream = TcpStream::connect(address)?;
                stream.write_all(b"ping")?;
                stream.read_exact(&mut [0; 4])?;
            }
            stop.cancel();
            Ok(())
        })
    });
}

#[test]
fn two_tasks_accept_from_one_listener() {
    everywhere(|cx| {
        let (listener, address) = listener()?;
        cx.nursery(|n| {
            for _ in 0..2 {
                n.spawn(|_| Ok(listener.accept().map(drop)?))?;
            }
            for _ in 0..2 {
                n.spawn(move |_| Ok(TcpStream::connect(address).map(drop)?))?;
            }
            Ok(())
        })
    });
}

/// Each connection comes to one of the listeners at an address; when one is closed, further ones
/// come to the others.
#[test]
fn several_listeners_share_an_address() {
    everywhere(|cx| {
        let mut listeners = TcpListener::bind_shards("127.0.0.1:0", 3)?;
        let address = listeners[0].local_addr()?;
        assert!(listeners.iter().all(|one| one.local_addr().is_ok_and(|at| at == address)));
        for _ in 0..2 {
            let (stop, accepted) = (CancelToken::new(), parcae::sync::Semaphore::new(0));
            let served = cx.nursery_with(under(&stop), |n| {
                for listener in &listeners {
                    let accepted = &accepted;
                    n.spawn(move |_| {
                        for stream in listener.incoming() {
                            stream?.write_all(b"hello")?;
                            accepted.add(1);
                        }
                        Ok(())
                    })?;
                }
                for _ in 0..6 {
                    let mut word = [0; 5];
                    TcpStream::connect(address)?.read_exact(&mut word)?;
                    assert_eq!(&word, b"hello");
                }
                accepted.acquire_many(6)?.forget();
                stop.cancel();
                Ok(())
            });
            assert!(served.unwrap_err().is_cancelled());
            assert!(accepted.try_acquire(1).is_none(), "a connection was accepted twice");
            listeners.pop();
        }
        let taken = TcpListener::bind_shards("127.0.0.1:0", 0).unwrap_err();
        assert_eq!(taken.kind(), std::io::ErrorKind::InvalidInput);
        let alone = TcpListener::bind("127.0.0.1:0")?;
        let taken = TcpListener::bind_shards(alone.local_addr()?, 2).unwrap_err();
        assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse, "it has not agreed to share");
        Ok(())
    });
}

/// A connection that was not started yet is stolen by an idle worker, and registered there.
#[test]
fn connections_spread_over_workers() {
    let rt = runtime(2);
    let workers = rt.run(|cx| {
        let (listener, address) = listener()?;
        cx.nursery(|n| {
            let served = n.spawn(move |cx| {
                cx.nursery(|n| {
                    let mut tasks = Vec::new();
                    for _ in 0..100 {
                        let (stream, _) = listener.accept()?;
                        tasks.push(n.spawn(move |_| {
                            // Some work before the first wait, so that there is something to steal.
                            std::hint::black_box((0..20_000_u64).fold(0, |a, b| a ^ (b * 31)));
                            let worker = std::thread::current().name().map(str::to_owned);
                            echo(stream)?;
                            Ok(worker)
                        })?);
                    }
                    tasks.into_iter().map(TaskHandle::join).collect::<parcae::Result<Vec<_>>>()
                })
            })?;
            let clients = (0..100).map(|_| TcpStream::connect(address));
            let clients = clients.collect::<std::io::Result<Vec<_>>>()?;
            for client in &clients {
                (&*client).write_all(b"x")?;
                (&*client).read_exact(&mut [0; 1])?;
            }
            drop(clients);
            served.join()
        })
    });
    let workers: std::collections::BTreeSet<_> = workers.unwrap().into_iter().flatten().collect();
    assert!(workers.len() >= 2, "{workers:?}");
}
