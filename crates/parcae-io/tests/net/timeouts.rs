//! Timeouts and deadlines: they end a wait, and lose no byte.

use crate::support::{everywhere, threads};
use crate::{connected, listener};
use parcae_io::net::{TcpStream, UdpSocket};
use std::io::{self, Read, Write};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(5);

#[test]
fn a_read_times_out_and_takes_nothing() {
    everywhere(|_| {
        let (mut client, mut server) = connected()?;
        server.set_read_timeout(Some(SHORT))?;
        let late = server.read(&mut [0; 8]).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert!(late.to_string().starts_with("timed out reading from 127.0.0.1:"), "{late}");
        server.set_read_timeout(None)?;
        client.write_all(b"late")?;
        let mut word = [0; 4];
        server.read_exact(&mut word)?;
        assert_eq!(&word, b"late");
        assert!(server.set_read_timeout(Some(Duration::ZERO)).is_err());
        Ok(())
    });
}

/// A peer that reads nothing: the writer waits, its deadline ends that, and memory is bounded.
#[test]
fn a_writer_waits_for_a_slow_reader() {
    everywhere(|_| {
        let (mut client, _server) = connected()?;
        client.set_write_timeout(Some(SHORT))?;
        let mut written = 0_usize;
        let late = loop {
            match client.write(&[7; 32 << 10]) {
                Ok(length) => written += length,
                Err(error) => break error,
            }
            assert!(written < 256 << 20, "no one reads it");
        };
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert!(written > 0);
        Ok(())
    });
}

#[test]
fn the_deadline_of_a_scope_covers_all_waits_in_it() {
    everywhere(|cx| {
        let (listener, _) = listener()?;
        let (_client, mut server) = connected()?;
        let outcome = cx.timeout(SHORT, || Ok(server.read(&mut [0; 8])?));
        assert!(outcome.is_err());
        let outcome = cx.timeout(SHORT, || {
            let error = listener.accept().unwrap_err();
            assert!(parcae_io::is_cancelled(&error), "{error}");
            Err::<(), _>(error.into())
        });
        assert!(outcome.is_err());
        Ok(())
    });
}

#[test]
fn a_receive_times_out() {
    everywhere(|_| {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(SHORT))?;
        let late = socket.recv(&mut [0; 8]).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        Ok(())
    });
}

#[test]
fn a_connect_times_out_or_is_refused() {
    everywhere(|_| {
        let (listener, address) = listener()?;
        drop(listener);
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let refused = TcpStream::connect_timeout(&address, Duration::from_secs(60)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        Ok(())
    });
}

/// A worker that sleeps in the kernel's events wakes up for timers that are due earlier than the
/// next millisecond: all of them fit into the time of the test's watchdog only if each is short.
#[test]
fn short_sleeps_beside_an_idle_socket() {
    threads(|cx| {
        let (_client, mut server) = connected()?;
        cx.nursery(|n| {
            let reader = n.spawn(move |_| Ok(server.read(&mut [0; 8])?))?;
            for _ in 0..200 {
                cx.sleep(Duration::from_micros(100))?;
            }
            assert!(!reader.is_finished());
            reader.cancel();
            Ok(())
        })
        .or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })
    });
}

/// A socket that is always ready starves neither a timer nor another task of its worker.
#[test]
fn a_busy_socket_leaves_room_for_others() {
    everywhere(|cx| {
        let (client, server) = connected()?;
        cx.nursery(|n| {
            let busy = n.spawn(move |_| {
                let mut buffer = [0; 1];
                loop {
                    (&client).write_all(&[1])?;
                    (&server).read_exact(&mut buffer)?;
                }
                #[allow(unreachable_code)]
                Ok(())
            })?;
            for _ in 0..5 {
                cx.sleep(Duration::from_millis(1))?;
                cx.yield_now()?;
            }
            busy.cancel();
            Ok(())
        })
        .or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })
    });
}
