//! Sockets by io_uring: a cancel that comes too late loses nothing, a full ring leaves the rest to
//! epoll, and nothing is left when the runtime ends.

use crate::support::{must_end, watched};
use crate::{connected, echo, listener, pattern, under};
use parcae::prelude::*;
use parcae::runtime::SocketBackend;
use parcae_io::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn on_ring(workers: usize) -> Arc<Runtime> {
    watched(Runtime::builder().workers(workers).sockets(SocketBackend::Ring))
}

/// Runs a test if the kernel allows io_uring.
fn with_ring(workers: usize, test: impl Fn(&Cx) -> parcae::Result<()> + Send + Sync + 'static) {
    must_end(move || {
        let rt = on_ring(workers);
        let outcome = rt.run(|cx| {
            if parcae_io::net::backend() != SocketBackend::Ring {
                println!("skipped: io_uring: the kernel does not allow it");
                return Ok(());
            }
            test(cx)
        });
        outcome.unwrap();
    });
}

/// The buffer of a cancelled read is the task's again: bytes that come later do not go there.
#[test]
fn a_cancelled_read_leaves_the_buffer_alone() {
    with_ring(1, |cx| {
        for round in 0..50_u64 {
            let (mut client, mut server) = connected()?;
            let stop = CancelToken::new();
            let mut buffer = [9; 64];
            let place = &mut buffer;
            let server_side = &mut server;
            let ended = cx.nursery_with(under(&stop), |n| {
                let reader = n.spawn(move |_| Ok(server_side.read(place)?))?;
                if round % 2 == 0 {
                    cx.sleep(Duration::from_micros(200))?;
                }
                stop.cancel();
                drop(reader);
                Ok(())
            });
            assert!(ended.is_err_and(|error| error.is_cancelled()));
            client.write_all(&[7; 64])?;
            cx.sleep(Duration::from_micros(100))?;
            assert_eq!(buffer, [9; 64]);
            server.read_exact(&mut buffer)?;
            assert_eq!(buffer, [7; 64]);
        }
        Ok(())
    });
}

/// Bytes and cancels race: each byte is read once, by a task that was told so or afterwards.
#[test]
fn a_cancel_that_comes_too_late_loses_no_byte() {
    with_ring(2, |cx| {
        let (mut client, server) = connected()?;
        let read = AtomicUsize::new(0);
        for round in 0..400_u64 {
            let stop = CancelToken::new();
            let (client, server, read) = (&mut client, &server, &read);
            let ended = cx.nursery_with(under(&stop), |n| {
                for _ in 0..3 {
                    n.spawn(move |_| {
                        let mut byte = [0; 1];
                        let count = (&mut &*server).read(&mut byte)?;
                        assert_eq!((count, byte), (1, [7]));
                        read.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    })?;
                }
                for _ in 0..round % 5 {
                    parcae::yield_now()?;
                }
                if round % 2 == 0 {
                    client.write_all(&[7])?;
                    stop.cancel();
                } else {
                    stop.cancel();
                    // The nursery of this task is cancelled: by a child of another one.
                    let _ = client.write_all(&[7]);
                }
                Ok(())
            });
            assert!(ended.is_err_and(|error| error.is_cancelled()));
        }
        drop(client);
        let mut rest = Vec::new();
        (&mut &server).read_to_end(&mut rest)?;
        let read = read.load(Ordering::Relaxed);
        assert!(rest.iter().all(|byte| *byte == 7));
        assert!((200..=400).contains(&(read + rest.len())), "{read} read, {} left", rest.len());
        Ok(())
    });
}

/// Connections and cancels race: each connection is accepted once.
#[test]
fn a_cancel_that_comes_too_late_loses_no_connection() {
    with_ring(2, |cx| {
        let (listener, address) = listener()?;
        let accepted = Mutex::new(Vec::new());
        let mut clients = Vec::new();
        for round in 0..200_u64 {
            let stop = CancelToken::new();
            let ended = cx.nursery_with(under(&stop), |n| {
                for _ in 0..2 {
                    n.spawn(|_| {
                        let (stream, _) = listener.accept()?;
                        accepted.lock().unwrap().push(stream);
                        Ok(())
                    })?;
                }
                for _ in 0..round % 4 {
                    parcae::yield_now()?;
                }
                clients.push(std::net::TcpStream::connect(address)?);
                stop.cancel();
                Ok(())
            });
            assert!(ended.is_err_and(|error| error.is_cancelled()));
        }
        let mut accepted = accepted.into_inner().unwrap();
        while accepted.len() < clients.len() {
            accepted.push(listener.accept()?.0);
        }
        let mut peers: Vec<_> = accepted.iter().map(|stream| stream.peer_addr().unwrap()).collect();
        let mut expected: Vec<_> = clients.iter().map(|c| c.local_addr().unwrap()).collect();
        peers.sort();
        expected.sort();
        assert_eq!(peers, expected);
        Ok(())
    });
}

/// Datagrams and cancels race: each datagram is taken once, whole, with its sender.
#[test]
fn a_cancel_that_comes_too_late_loses_no_datagram() {
    with_ring(2, |cx| {
        let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        let (to, from) = (here.local_addr()?, there.local_addr()?);
        let taken = Mutex::new(Vec::new());
        let take = || {
            let mut buffer = [0; 64];
            let (length, sender) = here.recv_from(&mut buffer)?;
            assert_eq!(sender, from);
            assert!(buffer[1..length].iter().all(|byte| *byte == buffer[0]));
            assert_eq!(length, 1 + usize::from(buffer[0]) % 60);
            taken.lock().unwrap().push(buffer[0]);
            Ok(())
        };
        const ROUNDS: u8 = 200;
        for round in 0..ROUNDS {
            let stop = CancelToken::new();
            let ended = cx.nursery_with(under(&stop), |n| {
                for _ in 0..2 {
                    n.spawn(|_| take())?;
                }
                for _ in 0..round % 4 {
                    parcae::yield_now()?;
                }
                there.send_to(&vec![round; 1 + usize::from(round) % 60], to)?;
                stop.cancel();
                Ok(())
            });
            assert!(ended.is_err_and(|error| error.is_cancelled()));
        }
        while taken.lock().unwrap().len() < usize::from(ROUNDS) {
            take()?;
        }
        let mut taken = taken.into_inner().unwrap();
        taken.sort_unstable();
        assert_eq!(taken, (0..ROUNDS).collect::<Vec<_>>());
        Ok(())
    });
}

/// Connects that the peer does not answer end by their timeout and by a cancel, and leave nothing
/// behind; the next one succeeds.
#[test]
fn a_connect_without_an_answer_can_be_left() {
    with_ring(1, |cx| {
        // A listener whose queue is full: the kernel drops further requests.
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        // SAFETY: takes no pointers; the socket listens already, and gets a queue for one.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let address = listener.local_addr()?;
        let first = TcpStream::connect(address)?;
        for round in 0..10 {
            let time = Duration::from_millis(2 + round);
            let error = TcpStream::connect_timeout(&address, time).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
            let stop = CancelToken::new();
            let ended = cx.nursery_with(under(&stop), |n| {
                n.spawn(|_| Ok(TcpStream::connect(address).map(drop)?))?;
                cx.sleep(Duration::from_micros(round * 300))?;
                stop.cancel();
                Ok(())
            });
            assert!(ended.is_err_and(|error| error.is_cancelled()));
        }
        drop(listener.accept()?);
        drop(first);
        let stream = TcpStream::connect(address)?;
        assert_eq!(stream.peer_addr()?, address);
        Ok(())
    });
}

/// As many readers as a submission queue has places, and more, are cancelled at one time, and by
/// their timeouts.
#[test]
fn a_storm_of_cancels_and_timeouts_ends() {
    with_ring(2, |cx| {
        let pairs = (0..400).map(|_| UnixStream::pair()).collect::<std::io::Result<Vec<_>>>()?;
        let stop = CancelToken::new();
        let timed_out = AtomicUsize::new(0);
        let ended = cx.nursery_with(under(&stop), |n| {
            for (number, (left, _)) in pairs.iter().enumerate() {
                let timed_out = &timed_out;
                if number % 2 == 0 {
                    left.set_read_timeout(Some(Duration::from_millis(3)))?;
                }
                n.spawn(move |_| {
                    match (&mut &*left).read(&mut [0; 8]) {
                        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                            timed_out.fetch_add(1, Ordering::Relaxed);
                        }
                        other => drop(other?),
                    }
                    Ok(())
                })?;
            }
            while timed_out.load(Ordering::Relaxed) < pairs.len() / 2 {
                cx.sleep(Duration::from_millis(1))?;
            }
            stop.cancel();
            Ok(())
        });
        assert!(ended.is_err_and(|error| error.is_cancelled()));
        for (left, right) in &pairs {
            (&mut &*right).write_all(b"x")?;
            left.set_read_timeout(None)?;
            (&mut &*left).read_exact(&mut [0; 1])?;
        }
        Ok(())
    });
}

/// More operations than the ring has room for: the rest waits by epoll, and all of them end.
#[test]
fn a_full_ring_leaves_the_rest_to_epoll() {
    const READERS: usize = 5_000;
    with_ring(1, |cx| {
        let (left, right) = UnixStream::pair()?;
        cx.nursery(|n| {
            let readers: Vec<_> = (0..READERS)
                .map(|_| {
                    let left = &left;
                    n.spawn(move |_| Ok((&mut &*left).read(&mut [0; 1])?))
                })
                .collect::<parcae::Result<_>>()?;
            cx.sleep(Duration::from_millis(20))?; // all of them wait
            (&mut &right).write_all(&pattern(READERS, 1))?;
            for reader in readers {
                assert_eq!(reader.join()?, 1);
            }
            Ok(())
        })
    });
}

/// A task that is migratable waits on one worker's ring and is cancelled on another one.
#[test]
fn tasks_that_may_move_are_cancelled_elsewhere() {
    with_ring(4, |cx| {
        for _ in 0..50 {
            let pairs = (0..8).map(|_| UnixStream::pair()).collect::<std::io::Result<Vec<_>>>()?;
            let stop = CancelToken::new();
            let ended = cx.nursery_with(under(&stop), |n| {
                for (left, _) in &pairs {
                    // SAFETY: the task keeps nothing that belongs to its thread.
                    let options = unsafe { SpawnOpts::new().migratable() };
                    n.spawn_with(options, move |_| {
                        let mut byte = [0; 1];
                        Ok((&mut &*left).read(&mut byte).map(drop)?)
                    })?;
                }
                for (_, right) in &pairs[..4] {
                    (&mut &*right).write_all(b"x")?;
                }
                parcae::yield_now()?;
                stop.cancel();
                Ok(())
            });
            assert!(ended.is_err_and(|error| error.is_cancelled()));
        }
        Ok(())
    });
}

/// Streams that were opened by one runtime are used by another with the other backend, and by a
/// thread, at the same time.
#[test]
fn backends_share_a_stream() {
    must_end(|| {
        let server = on_ring(1);
        let client = watched(Runtime::builder().workers(1));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap(); // on a thread
        let address = listener.local_addr().unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| server.run(|_| Ok(echo(listener.accept()?.0)?)).unwrap());
            let stream = TcpStream::connect(address).unwrap();
            (&mut &stream).write_all(b"by a thread").unwrap();
            client.run(|_| Ok((&mut &stream).read_exact(&mut [0; 11])?)).unwrap();
            client.run(|_| Ok((&mut &stream).write_all(b"by epoll")?)).unwrap();
            let other = on_ring(2);
            other.run(|_| Ok((&mut &stream).read_exact(&mut [0; 8])?)).unwrap();
        });
    });
}
