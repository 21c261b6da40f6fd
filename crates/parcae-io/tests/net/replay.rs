//! The same seed gives the same run; another seed gives others.

use crate::support::watched;
use crate::{echo, listener, pattern};
use parcae::prelude::*;
use parcae_io::net::TcpStream;
use parcae_io::sim::Host;
use std::io::{Read, Write};
use std::sync::Mutex;
use std::time::Duration;

/// Lengths of all reads and the times at which they returned.
fn run(seed: u64, connections: usize) -> Vec<(usize, usize, Duration)> {
    let rt = watched(Runtime::builder().workers(2).deterministic(seed));
    let log = Mutex::new(Vec::new());
    let outcome = rt.run(|cx| {
        let (listener, address) = listener()?;
        let began = parcae::time::now();
        cx.nursery(|n| {
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
                let log = &log;
                n.spawn(move |_| {
                    let mut stream = TcpStream::connect(address)?;
                    stream.write_all(&pattern(200, one))?;
                    let mut left = 200;
                    while left > 0 {
                        let mut buffer = [0; 200];
                        let length = stream.read(&mut buffer)?;
                        left -= length;
                        log.lock().unwrap().push((one, length, began.elapsed_virtually()));
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    });
    outcome.unwrap();
    log.into_inner().unwrap()
}

/// Time since then, on the virtual clock.
trait Virtually {
    fn elapsed_virtually(&self) -> Duration;
}

impl Virtually for std::time::Instant {
    fn elapsed_virtually(&self) -> Duration {
        parcae::time::now() - *self
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let mut different = 0;
    for seed in 0..20 {
        let first = run(seed, 10);
        assert_eq!(first, run(seed, 10));
        different += usize::from(first != run(seed + 1, 10));
    }
    assert!(different >= 19, "seeds make a difference: {different} of 20");
    assert_eq!(run(1, 500), run(1, 500));
}

#[test]
fn hosts_have_ports_of_their_own() {
    let rt = watched(Runtime::builder().deterministic(4));
    rt.run(|cx| {
        let hosts = [Host::new("10.0.0.1"), Host::new("10.0.0.2")];
        cx.nursery(|n| {
            for (number, host) in hosts.into_iter().enumerate() {
                let listener =
                    host.enter(|| parcae_io::net::TcpListener::bind("0.0.0.0:80")).unwrap();
                n.spawn(move |_| {
                    let (mut stream, from) = listener.accept()?;
                    assert_eq!(from.ip(), std::net::IpAddr::from([127, 0, 0, 1]));
                    Ok(stream.write_all(&[number as u8])?)
                })?;
            }
            for (number, host) in hosts.into_iter().enumerate() {
                let mut answer = [9];
                TcpStream::connect((host.ip(), 80))?.read_exact(&mut answer)?;
                assert_eq!(usize::from(answer[0]), number);
            }
            // The loopback address is the own host's, where no one listens.
            assert!(TcpStream::connect("127.0.0.1:80").is_err());
            assert!(hosts[0].enter(|| TcpStream::connect("127.0.0.1:81")).is_err());
            Ok(())
        })
    })
    .unwrap();
}
