//! Random scripts, the same on all backends: streams, connects and datagrams on the simulated
//! network, on epoll and by io_uring; files on the simulated disk, by the pool and by io_uring.
//! Each operation's observable result is a line of a log, and the logs must be equal.

use crate::files::Folder;
use parcae::prelude::*;
use parcae::runtime::SocketBackend;
use parcae_io::fs::{self, File, OpenOptions};
use parcae_io::net::{TcpListener, TcpStream, UdpSocket};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::Shutdown;
use std::time::Duration;

/// Random numbers of a script (SplitMix64): the same on all backends.
struct Script(u64);

impl Script {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }
}

/// The part of a result that all backends must agree on.
fn shown<T: std::fmt::Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?}", error.kind()),
    }
}

/// Reads so many bytes, or up to the end, an error or the timeout: however many reads that takes.
fn read_all(mut from: impl Read, most: usize) -> String {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; most]);
    while bytes.len() < most {
        match from.read(&mut buffer[..most - bytes.len()]) {
            Ok(0) => return format!("{} {} end", bytes.len(), sum(&bytes)),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) => return format!("{} {} {:?}", bytes.len(), sum(&bytes), error.kind()),
        }
    }
    format!("{} {}", bytes.len(), sum(&bytes))
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

/// The runtime of a backend: simulated by a seed, or on threads.
fn on(seed: Option<u64>) -> Runtime {
    let builder = Runtime::builder().workers(1);
    match seed {
        Some(seed) => builder.deterministic(seed),
        None => builder,
    }
    .build()
    .unwrap()
}

/// Threads, and sockets by io_uring.
fn on_ring() -> Runtime {
    Runtime::builder().workers(1).sockets(SocketBackend::Ring).build().unwrap()
}

/// One end of a connection, as far as the script knows it.
#[derive(Default)]
struct Side {
    stream: Option<TcpStream>,
    /// Bytes that the peer has written and this side has not read.
    unread: u64,
    has_shut: bool,
}

/// A script on sockets. Operations whose results depend on the time that a segment travels (a write
/// to a peer that is gone) are left out.
fn sockets(number: u64) -> parcae::Result<Vec<String>> {
    let mut script = Script(number);
    let mut log = Vec::new();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let mut pairs: Vec<[Side; 2]> = Vec::new();
    for _ in 0..30 {
        let pair = script.below(3) as usize;
        let side = script.below(2) as usize;
        if pair >= pairs.len() {
            let client = match script.below(2) {
                0 => TcpStream::connect(address)?,
                _ => TcpStream::connect_timeout(&address, Duration::from_secs(10))?,
            };
            let server = listener.accept()?.0;
            log.push(format!("connect {}", client.local_addr()? == server.peer_addr()?));
            let end = |stream: TcpStream| -> io::Result<Side> {
                stream.set_read_timeout(Some(Duration::from_millis(40)))?;
                Ok(Side { stream: Some(stream), ..Side::default() })
            };
            pairs.push([end(client)?, end(server)?]);
            continue;
        }
        let [near, far] = &mut pairs[pair];
        let (near, far) = if side == 0 { (near, far) } else { (far, near) };
        let Some(stream) = &near.stream else { continue };
        let what = format!("{pair}.{side}");
        match script.below(10) {
            0..=3 if far.stream.is_some() && far.unread < 30_000 => {
                let bytes = crate::pattern(1 + script.below(3_000) as usize, number as usize);
                let written = (&mut &*stream).write_all(&bytes);
                if written.is_ok() {
                    far.unread += bytes.len() as u64;
                }
                log.push(format!("{what} write {} {}", bytes.len(), shown(written)));
            }
            4..=6 => {
                let most = 1 + script.below(4_000) as usize;
                log.push(format!("{what} read {most}: {}", read_all(stream, most)));
                near.unread = near.unread.saturating_sub(most as u64);
            }
            7 if far.stream.is_some() => {
                let mut buffer = vec![0; 1];
                let peeked = stream.peek(&mut buffer).map(|count| (count, buffer));
                log.push(format!("{what} peek {}", shown(peeked)));
            }
            8 => {
                log.push(format!("{what} shutdown {}", shown(stream.shutdown(Shutdown::Write))));
                near.has_shut = true;
            }
            9 => {
                // Bytes on their way have arrived: they make it a reset.
                parcae::time::sleep(Duration::from_millis(40))?;
                log.push(format!("{what} drop"));
                near.stream = None;
            }
            _ => {}
        }
    }
    Ok(log)
}

/// A script on datagrams and on addresses at which no one listens. A socket has one datagram at
/// most on its way to it: the simulated network delivers several in any order.
fn datagrams(number: u64) -> parcae::Result<Vec<String>> {
    let mut script = Script(number);
    let mut log = Vec::new();
    let sockets: Vec<_> = (0..3)
        .map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.set_read_timeout(Some(Duration::from_millis(20)))?;
            Ok(socket)
        })
        .collect::<io::Result<_>>()?;
    let addresses: Vec<_> = sockets.iter().map(UdpSocket::local_addr).collect::<io::Result<_>>()?;
    let mut expected = [false; 3];
    for _ in 0..25 {
        let (from, to) = (script.below(3) as usize, script.below(3) as usize);
        match script.below(8) {
            0..=2 if !expected[to] => {
                let bytes = crate::pattern(script.below(1_500) as usize, from);
                let sent = sockets[from].send_to(&bytes, addresses[to]);
                expected[to] = sent.is_ok();
                log.push(format!("{from} to {to} {}", shown(sent)));
            }
            3..=5 if expected[to] || script.below(4) == 0 => {
                let mut buffer = vec![0; 1 + script.below(1_600) as usize];
                let taken = sockets[to].recv_from(&mut buffer).map(|(length, sender)| {
                    let sender = addresses.iter().position(|address| *address == sender);
                    (length, sum(&buffer[..length]), sender)
                });
                expected[to] &= taken.is_err();
                log.push(format!("{to} takes {}", shown(taken)));
            }
            6 => {
                let sent = sockets[from].send(b"to the only peer");
                log.push(format!("{from} sends {}", shown(sent)));
            }
            7 if script.below(3) == 0 => {
                let closed = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
                let refused = match script.below(2) {
                    0 => TcpStream::connect(closed),
                    _ => TcpStream::connect_timeout(&closed, Duration::from_secs(10)),
                };
                log.push(format!("connect {}", shown(refused.map(drop))));
            }
            7 if !expected[from] && from != to => {
                let peer = UdpSocket::bind("127.0.0.1:0")?;
                let connected = sockets[from].connect(peer.local_addr()?);
                log.push(format!("{from} connects {}", shown(connected)));
                log.push(format!("{from} sends {}", shown(sockets[from].send(b"hello"))));
                let mut buffer = [0; 16];
                let taken = peer.recv(&mut buffer).map(|length| buffer[..length].to_vec());
                log.push(format!("its peer takes {}", shown(taken)));
                log.push(format!(
                    "{from} connects {}",
                    shown(sockets[from].connect(addresses[to]))
                ));
                break; // a later send to the peer, which is gone, could be refused or not
            }
            _ => {}
        }
    }
    Ok(log)
}

#[test]
fn datagrams_behave_alike_on_all_backends() {
    for number in crate::support::seeds(60) {
        let real = on(None).run(|_| datagrams(number)).unwrap();
        let by_ring = on_ring().run(|_| datagrams(number)).unwrap();
        assert_same("epoll against io_uring", number, &real, &by_ring);
        for seed in 0..4 {
            let simulated = on(Some(seed)).run(|_| datagrams(number)).unwrap();
            assert_same(&format!("epoll against seed {seed}"), number, &real, &simulated);
        }
    }
}

fn assert_same(what: &str, number: u64, expected: &[String], log: &[String]) {
    for (at, (expected, line)) in expected.iter().zip(log).enumerate() {
        assert_eq!(expected, line, "script {number}, line {at}, {what}: {:?}", &log[..at]);
    }
    assert_eq!(expected.len(), log.len(), "script {number}, {what}");
}

#[test]
fn sockets_behave_alike_on_all_backends() {
    for number in crate::support::seeds(60) {
        let real = on(None).run(|_| sockets(number)).unwrap();
        let by_ring = on_ring().run(|_| sockets(number)).unwrap();
        assert_same("epoll against io_uring", number, &real, &by_ring);
        for seed in 0..4 {
            let simulated = on(Some(seed)).run(|_| sockets(number)).unwrap();
            assert_same(&format!("epoll against seed {seed}"), number, &real, &simulated);
        }
    }
}

/// A script on the files of a directory.
fn files(number: u64) -> parcae::Result<Vec<String>> {
    let mut script = Script(number);
    let folder = Folder::new()?;
    let mut open: Vec<Option<File>> = (0..3).map(|_| None).collect();
    let mut log = Vec::new();
    for _ in 0..60 {
        let at = script.below(3) as usize;
        let names = [script.below(4), script.below(4)].map(|name| format!("n{name}"));
        let path = folder.at(&names[0]);
        let line = match (script.below(16), &mut open[at]) {
            (0..=3, place) => {
                let mut options = OpenOptions::new();
                let kind = script.below(6);
                match kind {
                    0 => options.read(true),
                    1 => options.write(true).create(true).truncate(true),
                    2 => options.read(true).write(true).create(true),
                    3 => options.read(true).append(true).create(true),
                    4 => options.write(true).create_new(true),
                    _ => options.create(true),
                };
                let opened = options.open(&path);
                let outcome = match &opened {
                    Ok(_) => "done".into(),
                    Err(error) => format!("{:?}", error.kind()),
                };
                // The cursor of a directory is the business of each file system.
                *place = opened.ok().filter(|file| file.metadata().is_ok_and(|f| f.is_file()));
                format!("open {kind} {} {outcome}", names[0])
            }
            (4, _) => {
                format!("rename {names:?} {}", shown(fs::rename(&path, folder.at(&names[1]))))
            }
            (5, _) => format!("remove {} {}", names[0], shown(fs::remove_file(&path))),
            (6, _) => format!("mkdir {} {}", names[0], shown(fs::create_dir(&path))),
            (7, _) => format!("rmdir {} {}", names[0], shown(fs::remove_dir(&path))),
            (8, _) => {
                let facts = fs::metadata(&path);
                let facts =
                    facts.map(|facts| (facts.is_dir(), facts.is_file().then(|| facts.len())));
                format!("facts {} {}", names[0], shown(facts))
            }
            (9, _) => {
                let mut names: Vec<_> = fs::read_dir(&folder.0)?.map(|e| e.file_name()).collect();
                names.sort();
                format!("list {names:?}")
            }
            (10, Some(file)) => {
                let bytes = crate::pattern(1 + script.below(5_000) as usize, at);
                format!("{at} write {} {}", bytes.len(), shown(file.write_all(&bytes)))
            }
            (11, Some(file)) => {
                let most = 1 + script.below(6_000) as usize;
                format!("{at} read {most}: {}", read_all(&*file, most))
            }
            (12, Some(file)) => {
                let to = match script.below(3) {
                    0 => SeekFrom::Start(script.below(9_000)),
                    1 => SeekFrom::Current(script.below(2_000) as i64 - 1_000),
                    _ => SeekFrom::End(script.below(2_000) as i64 - 1_500),
                };
                format!("{at} seek {to:?} {}", shown(file.seek(to)))
            }
            (13, Some(file)) => {
                let size = script.below(8_000);
                format!("{at} size {size} {}", shown(file.set_len(size)))
            }
            (14, Some(file)) => {
                let mut buffer = [0; 1];
                let read = file.read_at(&mut buffer, script.below(9_000));
                format!("{at} byte {}", shown(read.map(|count| (count, buffer))))
            }
            (15, Some(file)) => format!("{at} sync {}", shown(file.sync_all())),
            _ => continue,
        };
        log.push(line);
    }
    Ok(log)
}

#[test]
fn files_behave_alike_on_all_backends() {
    crate::ring::with_each_backend(|backend| {
        for number in crate::support::seeds(120) {
            let real = on(None).run(|_| files(number)).unwrap();
            for seed in 0..2 {
                let simulated = on(Some(seed)).run(|_| files(number)).unwrap();
                let what = format!("{backend:?} against seed {seed}");
                assert_same(&what, number, &real, &simulated);
            }
        }
    });
}

#[test]
fn a_difference_is_noticed() {
    let [one, two] = [1, 2].map(|number| on(Some(0)).run(|_| files(number)).unwrap());
    let same = std::panic::catch_unwind(|| assert_same("two scripts", 0, &one, &two));
    assert!(same.is_err());
}
