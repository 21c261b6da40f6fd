//! Cancel at every wait: prompt, without an effect, and no descriptor is left open.

use crate::support::{everywhere_seeded, threads};
use crate::{connected, listener, pattern, under, unless_cancelled};
use parcae::prelude::*;
use parcae_io::net::{TcpStream, UdpSocket};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Runs a task that waits, and cancels it after a time that differs from run to run.
fn cancel_after(
    cx: &Cx,
    number: u64,
    body: impl FnOnce(&Cx) -> parcae::Result<()> + Send,
) -> parcae::Result<bool> {
    let token = CancelToken::new();
    let outcome = cx.nursery_with(under(&token), |n| {
        n.spawn(body)?;
        for _ in 0..number % 7 {
            cx.yield_now()?;
        }
        if !number.is_multiple_of(3) {
            cx.sleep(Duration::from_micros(number * 13 % 2_500))?;
        }
        token.cancel();
        Ok(())
    });
    let cancelled = outcome.as_ref().is_err_and(parcae::Error::is_cancelled);
    unless_cancelled(outcome)?;
    Ok(cancelled)
}

#[test]
fn a_cancelled_read_loses_no_byte() {
    everywhere_seeded(|cx, number| {
        let (mut client, server) = connected()?;
        let sent = pattern(300, number as usize);
        let mut got = Vec::new();
        cx.nursery(|n| {
            let sent = &sent;
            n.spawn(move |cx| {
                for part in sent.chunks(100) {
                    client.write_all(part)?;
                    cx.sleep(Duration::from_micros(300))?;
                }
                Ok(())
            })?;
            let mut round = number;
            while got.len() < sent.len() {
                round += 1;
                let part = std::sync::Mutex::new(Vec::new());
                cancel_after(cx, round, |_| {
                    loop {
                        let mut buffer = [0; 70];
                        let length = (&server).read(&mut buffer)?;
                        if length == 0 {
                            return Ok(());
                        }
                        part.lock().unwrap().extend_from_slice(&buffer[..length]);
                    }
                })?;
                got.append(&mut part.into_inner().unwrap());
            }
            Ok(())
        })?;
        assert!(sent == got);
        Ok(())
    });
}

#[test]
fn a_cancelled_write_has_written_what_it_said() {
    everywhere_seeded(|cx, number| {
        let _ = parcae_io::sim::set_buffer(512); // only in the simulation
        let (client, mut server) = connected()?;
        let written = AtomicUsize::new(0);
        cancel_after(cx, number, |_| {
            loop {
                let length = (&client).write(&[5; 400])?;
                written.fetch_add(length, Ordering::Relaxed);
                if written.load(Ordering::Relaxed) > 16 << 20 {
                    return Ok(());
                }
            }
        })?;
        drop(client);
        let mut got = Vec::new();
        server.read_to_end(&mut got)?;
        assert_eq!(got.len(), written.into_inner());
        Ok(())
    });
}

#[test]
fn a_cancelled_accept_loses_no_connection() {
    everywhere_seeded(|cx, number| {
        let (listener, address) = listener()?;
        cx.nursery(|n| {
            let client = n.spawn(move |_| {
                let mut stream = TcpStream::connect(address)?;
                let mut word = [0; 2];
                stream.read_exact(&mut word)?;
                Ok(word)
            })?;
            let mut served = false;
            for round in 0..1_000 {
                let accepted = std::sync::Mutex::new(None);
                cancel_after(cx, number + round, |_| {
                    *accepted.lock().unwrap() = Some(listener.accept()?.0);
                    Ok(())
                })?;
                if let Some(mut stream) = accepted.into_inner().unwrap() {
                    stream.write_all(b"ok")?;
                    served = true;
                    break;
                }
            }
            assert!(served, "the connection was lost");
            assert_eq!(&client.join()?, b"ok");
            Ok(())
        })
    });
}

#[test]
fn a_cancelled_connect_is_given_up() {
    everywhere_seeded(|cx, number| {
        let (_listener, address) = listener()?;
        for round in 0..3 {
            cancel_after(cx, number + round, |_| Ok(TcpStream::connect(address).map(drop)?))?;
        }
        Ok(())
    });
}

#[test]
fn a_cancelled_receive_takes_no_datagram() {
    everywhere_seeded(|cx, number| {
        let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        let got = std::sync::Mutex::new(Vec::new());
        let receive = |_: &Cx| {
            let mut buffer = [0; 8];
            let length = here.recv(&mut buffer)?;
            got.lock().unwrap().push(buffer[..length].to_vec());
            Ok(())
        };
        cancel_after(cx, number, receive)?;
        there.send_to(b"one", here.local_addr()?)?;
        for round in 0..1_000 {
            if !got.lock().unwrap().is_empty() {
                break;
            }
            cancel_after(cx, number + round, receive)?;
        }
        assert_eq!(*got.lock().unwrap(), [b"one".to_vec()]);
        Ok(())
    });
}

/// Many readers are cancelled together; none leaves a waiter behind.
#[test]
fn a_storm_of_cancelled_readers() {
    threads(|cx| {
        let pairs = (0..100).map(|_| connected()).collect::<std::io::Result<Vec<_>>>()?;
        for _ in 0..3 {
            let token = CancelToken::new();
            let outcome = cx.nursery_with(under(&token), |n| {
                for (_, server) in &pairs {
                    n.spawn(move |_| Ok((&*server).read(&mut [0; 8])?))?;
                }
                cx.sleep(Duration::from_millis(2))?;
                token.cancel();
                Ok(())
            });
            assert!(outcome.unwrap_err().is_cancelled());
        }
        // All can still be read.
        for (client, server) in &pairs {
            (&*client).write_all(b"x")?;
            (&*server).read_exact(&mut [0; 1])?;
        }
        Ok(())
    });
}

/// A task that lets others run after many operations is not told there that it is cancelled: the
/// operation succeeded, so an error of its own that follows is no consequence.
#[test]
fn an_operation_that_succeeds_does_not_tell_of_a_cancellation() {
    threads(|cx| {
        for writes in 0..64 {
            let (client, _server) = connected()?;
            let mut succeeded = 0;
            let outcome = cx.nursery(|n| {
                // Fails when the other task lets it run, which cancels the nursery. Its error may
                // follow from that of another task, so it is no better cause.
                let (sender, receiver) = parcae::channel::channel::<()>(1);
                drop(sender);
                n.spawn(move |_| Ok(receiver.recv()?))?;
                for _ in 0..writes {
                    (&client).write_all(b"x")?;
                    succeeded += 1;
                }
                Err::<(), _>(std::io::Error::other("the disk is full").into())
            });
            let text = outcome.unwrap_err().to_string();
            assert_eq!(text.contains("the disk"), succeeded == writes, "{writes} writes: {text}");
        }
        Ok(())
    });
}
