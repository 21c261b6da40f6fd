//! Faults of the simulated network: streams deliver every byte in spite of them, datagrams do not.

use crate::support::deterministic_seeded;
use crate::{echo, pattern};
use parcae::prelude::*;
use parcae_io::net::{TcpListener, TcpStream, UdpSocket};
use parcae_io::sim::{self, Faults, Host};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Mutex;
use std::time::Duration;

fn hosts() -> (Host, Host) {
    (Host::new("10.0.0.1"), Host::new("10.0.0.2"))
}

/// Faults by a closure, because the structure may grow.
fn faults(set: impl FnOnce(&mut Faults)) -> Faults {
    let mut faults = Faults::default();
    set(&mut faults);
    faults
}

#[test]
fn a_stream_delivers_every_byte_in_spite_of_losses_and_interruptions() {
    deterministic_seeded(100, |cx, number| {
        let (server, client) = hosts();
        sim::set_faults(faults(|it| {
            it.loss = 200;
            it.duplication = 200;
            it.interruptions = 100;
        }))?;
        let listener = server.enter(|| TcpListener::bind("0.0.0.0:7"))?;
        cx.nursery(|n| {
            n.spawn(move |_| {
                let (mut stream, _) = listener.accept()?;
                let mut all = Vec::new();
                stream.read_to_end(&mut all)?; // retries what was interrupted
                Ok(stream.write_all(&all)?)
            })?;
            client.enter(|| {
                let mut stream = TcpStream::connect("10.0.0.1:7")?;
                let sent = pattern(3000, number as usize);
                stream.write_all(&sent)?;
                stream.shutdown(Shutdown::Write)?;
                let mut got = Vec::new();
                stream.read_to_end(&mut got)?;
                assert!(sent == got);
                Ok(())
            })
        })
    });
}

/// Numbers of the datagrams that arrive.
fn arrivals(link: Faults, others: usize) -> parcae::Result<Vec<u8>> {
    let (here, there) = hosts();
    here.set_faults_to(&there, link)?;
    let from = here.enter(|| UdpSocket::bind("10.0.0.1:1"))?;
    let to = there.enter(|| UdpSocket::bind("10.0.0.2:1"))?;
    // Another link, which is used more or less.
    let third = UdpSocket::bind("10.0.0.3:1")?;
    for n in 0..100_u8 {
        from.send_to(&[n], "10.0.0.2:1")?;
        (0..others).try_for_each(|_| from.send_to(&[0], "10.0.0.3:1").map(drop))?;
    }
    drop(third);
    to.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut byte = [0];
    Ok(std::iter::from_fn(|| to.recv(&mut byte).ok().map(|_| byte[0])).collect())
}

#[test]
fn datagrams_are_lost_doubled_and_reordered() {
    deterministic_seeded(50, |_, _| {
        let link = faults(|it| {
            it.loss = 300;
            it.duplication = 300;
        });
        let got = arrivals(link, 0)?;
        let mut sorted = got.clone();
        sorted.sort_unstable();
        assert_ne!(got, sorted, "reordered");
        sorted.dedup();
        assert!(sorted.len() < 95 && sorted.len() > 40, "lost: {}", sorted.len());
        assert!(got.len() > sorted.len() + 5, "doubled: {} of {}", got.len(), sorted.len());
        Ok(())
    });
}

/// The same seed has the same faults, and the traffic of another link does not change them.
#[test]
fn each_link_has_random_numbers_of_its_own() {
    let run = |seed, others| {
        let rt = crate::support::watched(Runtime::builder().deterministic(seed));
        let link = faults(|it| it.loss = 400);
        let mut got = rt.run(|_| arrivals(link, others)).unwrap();
        got.sort_unstable();
        got
    };
    let mut differ = 0;
    for seed in 0..20 {
        assert_eq!(run(seed, 0), run(seed, 0));
        assert_eq!(run(seed, 0), run(seed, 3), "another link is used");
        differ += usize::from(run(seed, 0) != run(seed + 1, 0));
    }
    assert!(differ >= 19, "{differ}");
}

#[test]
fn a_partition_holds_back_a_stream_until_it_is_healed() {
    deterministic_seeded(60, |cx, _| {
        let (server, client) = hosts();
        let listener = server.enter(|| TcpListener::bind("0.0.0.0:7"))?;
        cx.nursery(|n| {
            n.spawn(move |_| {
                echo(listener.accept()?.0)?;
                Ok(())
            })?;
            client.enter(|| {
                let mut stream = TcpStream::connect("10.0.0.1:7")?;
                server.part_from(&client)?;
                stream.write_all(b"hello?")?;
                stream.set_read_timeout(Some(Duration::from_secs(3600)))?;
                let silent = stream.read(&mut [0; 8]).unwrap_err();
                assert_eq!(silent.kind(), ErrorKind::TimedOut);
                // A datagram is lost for good, and a connect gives up in the end.
                let began = parcae::time::now();
                let error = TcpStream::connect("10.0.0.1:7").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TimedOut);
                assert!(parcae::time::now() - began >= Duration::from_secs(127));
                sim::heal()?;
                let mut word = [0; 6];
                stream.read_exact(&mut word)?;
                assert_eq!(&word, b"hello?");
                Ok(())
            })
        })
    });
}

#[test]
fn a_connect_during_a_partition_succeeds_after_it() {
    deterministic_seeded(60, |cx, _| {
        let (server, client) = hosts();
        let listener = server.enter(|| TcpListener::bind("0.0.0.0:7"))?;
        server.part_from(&client)?;
        cx.nursery(|n| {
            n.spawn(move |_| Ok(listener.accept().map(drop)?))?;
            n.spawn(|cx| {
                cx.sleep(Duration::from_secs(30))?;
                Ok(sim::heal()?)
            })?;
            let began = parcae::time::now();
            client.enter(|| TcpStream::connect("10.0.0.1:7"))?;
            let took = parcae::time::now() - began;
            assert!(took > Duration::from_secs(29) && took < Duration::from_secs(35), "{took:?}");
            Ok(())
        })
    });
}

/// Connections break, and there is no room for descriptors: a client that tries again gets through,
/// and the loop of the listener goes on.
#[test]
fn resets_and_exhaustion_are_survived_by_trying_again() {
    let seen = Mutex::new(Vec::new());
    deterministic_seeded(100, |cx, _| {
        let (server, client) = hosts();
        sim::set_faults(faults(|it| {
            it.resets = 150;
            it.exhaustion = 200;
        }))?;
        let listener = server.enter(|| TcpListener::bind("0.0.0.0:7"))?;
        let stop = CancelToken::new();
        cx.nursery(|n| {
            n.spawn(|cx| {
                let opts = crate::under(&stop).on_failure(OnFailure::Isolate);
                let served = cx.nursery_with(opts, |n| {
                    for stream in listener.incoming() {
                        let stream = stream?;
                        n.spawn(move |_| Ok(echo(stream).is_ok()))?;
                    }
                    Ok(())
                });
                crate::unless_cancelled(served)
            })?;
            let attempt = || -> io::Result<()> {
                let mut stream = TcpStream::connect("10.0.0.1:7")?;
                stream.write_all(b"ping")?;
                let mut word = [0; 4];
                stream.read_exact(&mut word)?;
                assert_eq!(&word, b"ping");
                Ok(())
            };
            for _ in 0..5 {
                while let Err(error) = client.enter(attempt) {
                    seen.lock().unwrap().push((error.kind(), error.raw_os_error()));
                }
            }
            stop.cancel();
            Ok(())
        })
    });
    let seen = seen.into_inner().unwrap();
    assert!(seen.iter().any(|(kind, _)| *kind == ErrorKind::ConnectionReset));
    assert!(seen.iter().any(|(_, code)| *code == Some(libc::EMFILE)));
}
