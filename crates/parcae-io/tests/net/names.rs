//! Names of hosts, and connecting to one of several addresses.

use crate::support::{deterministic_seeded, everywhere, threads};
use crate::{listener, under};
use parcae::prelude::*;
use parcae_io::net::{TcpListener, TcpStream, lookup_host};
use parcae_io::sim;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn a_name_leads_to_its_host() {
    everywhere(|cx| {
        let (listener, address) = listener()?;
        cx.nursery(|n| {
            n.spawn(move |_| Ok(listener.accept()?.0.write_all(b"here")?))?;
            let mut text = String::new();
            TcpStream::connect(("localhost", address.port()))?.read_to_string(&mut text)?;
            assert_eq!(text, "here");
            Ok(())
        })
    });
}

#[test]
fn a_name_that_is_not_known_is_an_error() {
    everywhere(|_| {
        // Reserved: no name server knows it (RFC 6761).
        assert!(lookup_host("nowhere.invalid").is_err());
        assert!(TcpStream::connect("nowhere.invalid:80").is_err());
        Ok(())
    });
}

/// An address at which no one listens.
fn unused() -> io::Result<SocketAddr> {
    Ok(listener()?.1)
}

#[test]
fn the_second_address_is_tried_when_the_first_refuses() {
    everywhere(|cx| {
        let (listener, address) = listener()?;
        let addresses = [unused()?, address, unused()?];
        cx.nursery(|n| {
            n.spawn(move |_| Ok(listener.accept().map(drop)?))?;
            assert_eq!(TcpStream::connect(addresses)?.peer_addr()?, address);
            let refused = TcpStream::connect([unused()?, unused()?]).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            Ok(())
        })
    });
}

/// A listener whose queue is full: the kernel does not answer a further attempt.
fn silent() -> io::Result<(std::net::TcpListener, Vec<TcpStream>, SocketAddr)> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    // SAFETY: the descriptor is open. The call makes the queue shorter.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let (address, mut queued) = (listener.local_addr()?, Vec::new());
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(20)) {
        queued.push(stream);
    }
    Ok((listener, queued, address))
}

#[test]
fn an_address_that_does_not_answer_is_overtaken() {
    threads(|cx| {
        let (_listener, _queued, silent) = silent()?;
        let (other, address) = listener()?;
        cx.nursery(|n| {
            n.spawn(move |_| Ok(other.accept().map(drop)?))?;
            assert_eq!(TcpStream::connect([silent, address])?.peer_addr()?, address);
            Ok(())
        })
    });
}

#[test]
fn a_race_is_a_cancel_point() {
    threads(|cx| {
        let (_listener, _queued, silent) = silent()?;
        let stop = CancelToken::new();
        cx.nursery(|n| {
            let task = n.spawn(|cx| {
                let raced = cx
                    .nursery_with(under(&stop), |_| Ok(TcpStream::connect([silent; 3]).map(drop)?));
                Ok(raced.unwrap_err().is_cancelled())
            })?;
            cx.sleep(Duration::from_millis(2))?;
            stop.cancel();
            assert!(task.join()?);
            Ok(())
        })
    });
}

/// With long latencies both attempts are on their way; either one wins, and the other is given up.
#[test]
fn the_faster_of_two_addresses_wins() {
    let wins = [const { AtomicUsize::new(0) }; 2];
    deterministic_seeded(100, |cx, _| {
        sim::set_latency(Duration::from_millis(1)..Duration::from_secs(2))?;
        sim::set_name("shop.example", &["10.0.0.1", "10.0.0.2"])?;
        let listeners = [TcpListener::bind("10.0.0.1:80")?, TcpListener::bind("10.0.0.2:80")?];
        cx.nursery(|n| {
            let servers = listeners.map(|listener| {
                n.spawn(move |_| {
                    let mut text = String::new();
                    // A connection that was given up ends without a word, or by a reset.
                    let _ = listener.accept()?.0.read_to_string(&mut text);
                    Ok(text)
                })
            });
            let mut stream = TcpStream::connect("shop.example:80")?;
            let winner = usize::from(stream.peer_addr()?.ip().to_string() == "10.0.0.2");
            wins[winner].fetch_add(1, Ordering::Relaxed); // a count
            stream.write_all(b"bread")?;
            drop(stream);
            let [first, second] = servers;
            if winner == 0 {
                assert_eq!(first?.join()?, "bread");
                second?.cancel(); // it may not have been asked at all
            } else {
                assert_eq!(second?.join()?, "bread");
                assert_eq!(first?.join()?, "");
            }
            Ok(())
        })
    });
    let wins = wins.map(AtomicUsize::into_inner);
    assert!(wins[0] > 10 && wins[1] > 10, "{wins:?}");
}
