//! Bytes come as they were sent: sizes around the limits, short reads with the end of the stream,
//! half-close, reset.

use crate::support::{everywhere, everywhere_seeded};
use crate::{connected, echo, listener, pattern};
use parcae_io::net::{TcpStream, UnixListener, UnixStream};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

// rule: S0-SUBSYS-5
#[test]
fn every_byte_comes_back() {
    everywhere_seeded(|cx, number| {
        let (listener, address) = listener()?;
        let sizes = [0, 1, 4095, 4096, 4097, 64 << 10];
        // The largest in a few runs: the simulated network splits it into thousands of pieces.
        let large = number % 50 == 6;
        let size = if large { (1 << 20) + 3 } else { sizes[(number % 6) as usize] };
        cx.nursery(|n| {
            n.spawn(move |_| Ok(echo(listener.accept()?.0)?))?;
            let client = TcpStream::connect(address)?;
            let sent = pattern(size, number as usize);
            let mut got = vec![0; size];
            cx.nursery(|n| {
                n.spawn(|_| {
                    (&client).write_all(&sent)?;
                    Ok(client.shutdown(Shutdown::Write)?)
                })?;
                (&client).read_exact(&mut got)?;
                Ok(())
            })?;
            assert!(sent == got, "{size} bytes");
            assert_eq!((&client).read(&mut [0; 8])?, 0, "the end");
            assert_eq!((&client).read(&mut [0; 8])?, 0, "and it stays");
            Ok(())
        })
    });
}

#[test]
fn many_connections_at_once() {
    raise_the_limit_of_descriptors();
    everywhere_seeded(|cx, number| {
        let connections = if number == 7 { 1000 } else { 20 };
        let (listener, address) = listener()?;
        cx.nursery(|n| {
            // The backlog holds all of them: one accept for each connect.
            n.spawn(move |cx| {
                cx.nursery(|n| {
                    for _ in 0..connections {
                        let (stream, _) = listener.accept()?;
                        n.spawn(move |_| Ok(echo(stream)?))?;
                    }
                    Ok(())
                })
            })?;
            for one in 0..connections {
                n.spawn(move |_| {
                    let mut stream = TcpStream::connect(address)?;
                    for round in 0..5 {
                        let sent = pattern(100, one + round);
                        let mut got = [0; 100];
                        stream.write_all(&sent)?;
                        stream.read_exact(&mut got)?;
                        assert_eq!(sent, got);
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    });
}

/// More than the 128 that the standard library asks for: the kernel would drop the others' first
/// packets, and their clients would try again after a second.
#[test]
fn a_burst_waits_to_be_accepted() {
    const BURST: usize = 400;
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    assert!(most.trim().parse::<usize>().unwrap() >= BURST, "net.core.somaxconn is {most}");
    raise_the_limit_of_descriptors();
    crate::support::threads_numbered(1, |_, _| {
        let (listener, address) = listener()?;
        let clients: Vec<_> = (0..BURST)
            .map(|_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(500)))
            .collect::<io::Result<_>>()?;
        for _ in &clients {
            listener.accept()?;
        }
        Ok(())
    });
}

/// A thousand connections have two thousand ends in this process.
fn raise_the_limit_of_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads and writes a structure of ours.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_max.min(4096);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
}

/// The end comes with the data: it is not announced a second time.
#[test]
fn a_short_read_and_the_end_in_one_segment() {
    everywhere(|cx| {
        for round in 0..20 {
            let (mut client, mut server) = connected()?;
            cx.nursery(|n| {
                n.spawn(move |cx| {
                    if round % 2 == 0 {
                        cx.yield_now()?;
                    }
                    client.write_all(b"last words")?;
                    Ok(()) // closes
                })?;
                let mut text = Vec::new();
                let mut buffer = [0; 64];
                loop {
                    match server.read(&mut buffer)? {
                        0 => break,
                        length => text.extend_from_slice(&buffer[..length]),
                    }
                }
                assert_eq!(text, b"last words");
                Ok(())
            })?;
        }
        Ok(())
    });
}

#[test]
fn each_direction_ends_by_itself() {
    everywhere(|cx| {
        let (client, server) = connected()?;
        cx.nursery(|n| {
            n.spawn(|_| {
                (&client).write_all(b"question")?;
                Ok(client.shutdown(Shutdown::Write)?)
            })?;
            let mut question = String::new();
            (&server).read_to_string(&mut question)?;
            assert_eq!(question, "question");
            // The other direction is open.
            (&server).write_all(b"answer")?;
            let mut answer = [0; 6];
            (&client).read_exact(&mut answer)?;
            assert_eq!(&answer, b"answer");
            let refused = (&client).write(b"more").unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
            client.shutdown(Shutdown::Write)?; // again: no error
            Ok(())
        })
    });
}

#[test]
fn a_peer_that_is_gone_is_an_error_in_the_end() {
    everywhere(|cx| {
        let (mut client, server) = connected()?;
        (&server).write_all(b"unread")?;
        let mut first = [0; 1];
        client.read_exact(&mut first)?; // there are bytes, which it does not read
        drop(client);
        cx.sleep(std::time::Duration::from_millis(10))?;
        let failed = (0..1000).find_map(|_| {
            let written = (&server).write(b"anyone?");
            let _ = cx.sleep(std::time::Duration::from_millis(1));
            written.err()
        });
        let kind = failed.map(|error| error.kind());
        let known = [Some(io::ErrorKind::ConnectionReset), Some(io::ErrorKind::BrokenPipe)];
        assert!(known.contains(&kind), "{kind:?}");
        Ok(())
    });
}

#[test]
fn a_peek_takes_nothing() {
    everywhere(|_| {
        let (mut client, mut server) = connected()?;
        client.write_all(b"twice")?;
        let mut first = [0; 1];
        assert_eq!(server.peek(&mut first)?, 1);
        assert_eq!(&first, b"t");
        let mut all = [0; 5];
        server.read_exact(&mut all)?;
        assert_eq!(&all, b"twice");
        assert_eq!(server.read(&mut [])?, 0, "an empty buffer is not the end");
        Ok(())
    });
}

#[test]
fn several_buffers_at_once() {
    everywhere(|cx| {
        let (mut client, mut server) = connected()?;
        cx.nursery(|n| {
            n.spawn(move |_| {
                let (mut rest, whole) = (0, b"head and body");
                while rest < whole.len() {
                    let (left, right) = whole[rest..].split_at((whole.len() - rest) / 2);
                    rest += client.write_vectored(&[IoSlice::new(left), IoSlice::new(right)])?;
                }
                Ok(())
            })?;
            let mut got: Vec<u8> = Vec::new();
            loop {
                let (mut one, mut two) = ([0; 3], [0; 5]);
                let mut into = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
                match server.read_vectored(&mut into)? {
                    0 => break,
                    length => got.extend(one.iter().chain(&two).take(length)),
                }
            }
            assert_eq!(got, b"head and body");
            Ok(())
        })
    });
}

#[test]
fn halves_are_used_by_two_tasks() {
    everywhere(|cx| {
        let (client, server) = connected()?;
        cx.nursery(|n| {
            n.spawn(move |_| Ok(echo(server)?))?;
            let (mut read, mut write) = client.into_split();
            n.spawn(move |_| {
                (0..50).try_for_each(|round| write.write_all(&pattern(64, round)))?;
                Ok(()) // drops its half: the output ends
            })?;
            let mut got = Vec::new();
            read.read_to_end(&mut got)?;
            let sent: Vec<u8> = (0..50).flat_map(|round| pattern(64, round)).collect();
            assert!(sent == got);
            Ok(())
        })
    });
}

#[test]
fn owned_halves_are_one_stream_again() {
    everywhere(|_| {
        let ((one, mut two), (three, _four)) = (connected()?, connected()?);
        let (read, write) = one.into_split();
        let (other, others) = three.into_split();
        let (read, others) = read.reunite(others).unwrap_err();
        drop((other, others));
        let mut one = read.reunite(write).unwrap();
        one.write_all(b"still open")?;
        two.read_exact(&mut [0; 10])?;
        Ok(())
    });
}

#[test]
fn a_graceful_close_waits_for_the_peer() {
    everywhere(|cx| {
        let (client, mut server) = connected()?;
        cx.nursery(|n| {
            n.spawn(move |_| {
                (&client).write_all(b"bye")?;
                Ok(client.close_gracefully(std::time::Duration::from_secs(60))?)
            })?;
            server.write_all(b"not read")?;
            let mut text = String::new();
            server.read_to_string(&mut text)?;
            assert_eq!(text, "bye");
            drop(server);
            Ok(())
        })
    });
}

#[test]
fn unix_streams() {
    everywhere_seeded(|cx, number| {
        let name = format!("parcae-io-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        cx.nursery(|n| {
            n.spawn(|_| {
                let mut stream = listener.accept()?;
                let mut word = [0; 4];
                stream.read_exact(&mut word)?;
                Ok(stream.write_all(&word)?)
            })?;
            let mut stream = UnixStream::connect(&path)?;
            stream.write_all(b"unix")?;
            let mut word = [0; 4];
            stream.read_exact(&mut word)?;
            assert_eq!(&word, b"unix");
            Ok(())
        })?;
        let _ = std::fs::remove_file(&path);
        let (mut left, mut right) = UnixStream::pair()?;
        left.write_all(b"pair")?;
        drop(left);
        let mut text = String::new();
        right.read_to_string(&mut text)?;
        assert_eq!(text, "pair");
        Ok(())
    });
}
