//! Hostile clients, for a while: storms of resets, heads that never end (*slowloris*), connections
//! on which nothing comes, and readers that read nothing. Meanwhile other clients are served, and
//! in the end no descriptor is left open.
//!
//! `PARCAE_SOAK` is the number of connections of each kind; 150 without it, in halves on epoll and
//! io_uring. A program of its own:
//! descriptors belong to the process.

use parcae::prelude::*;
use parcae::runtime::SocketBackend;
use parcae_io::http::{Client, Limits, Request, Response, Server};
use parcae_io::net::{TcpListener, TcpStream};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

fn connections() -> usize {
    std::env::var("PARCAE_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(150)
}

/// Closes by a reset, whatever was read.
fn reset(stream: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: reads a structure of ours.
    unsafe {
        libc::setsockopt(
            stream.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of_val(&linger) as libc::socklen_t,
        );
    }
    drop(stream);
}

/// Waits until the server closes the connection.
fn until_closed(mut stream: TcpStream) {
    let mut rest = [0; 512];
    while stream.read(&mut rest).is_ok_and(|count| count > 0) {}
}

/// One hostile client. Its errors are those that it provokes, and are ignored.
fn hostile(cx: &Cx, address: SocketAddr, number: usize) -> parcae::Result<()> {
    let Ok(mut stream) = TcpStream::connect(address) else { return Ok(()) };
    match number % 5 {
        0 => reset(stream), // before a request
        1 => {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT");
            if number.is_multiple_of(2) {
                cx.sleep(Duration::from_millis(1))?;
            }
            reset(stream); // in the middle of an answer, and of the next request
        }
        2 => {
            // A byte of the head now and then.
            for byte in b"GET / HTTP/1.1\r\nX-Slow: abcdefghijklmnopqrstuvwxyz" {
                if stream.write_all(&[*byte]).is_err() {
                    break;
                }
                cx.sleep(Duration::from_millis(10))?;
            }
            until_closed(stream);
        }
        3 => until_closed(stream), // says nothing
        _ => {
            // Asks for much, and reads nothing.
            for _ in 0..20 {
                if stream.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").is_err() {
                    break;
                }
            }
            cx.sleep(Duration::from_millis(150))?;
        }
    }
    Ok(())
}

fn answer(_: &Cx, request: &mut Request<'_, '_>) -> parcae::Result<Response> {
    let body = if request.path() == "/large" { vec![7; 500_000] } else { b"served".to_vec() };
    Ok(Response::new(200).body(body))
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.head_time = Duration::from_millis(100);
    limits.idle_time = Duration::from_millis(200);
    limits.write_time = Duration::from_millis(200);
    limits.drain_time = Duration::from_secs(5);
    limits
}

/// One at a time: descriptors belong to the process.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_server_outlives_its_hostile_clients() {
    let _alone = ALONE.lock().unwrap();
    for sockets in [SocketBackend::Epoll, SocketBackend::Ring] {
        outlive_hostile_clients(sockets);
    }
}

fn outlive_hostile_clients(sockets: SocketBackend) {
    let before = open_descriptors();
    let rt = Runtime::builder().workers(2).sockets(sockets).build().unwrap();
    let served = AtomicUsize::new(0);
    rt.run(|cx| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, stop, done) =
            (listener.local_addr()?, CancelToken::new(), CancelToken::new());
        cx.nursery(|n| {
            n.spawn(|cx| Server::new().limits(limits()).serve(cx, &listener, &stop, answer))?;
            let polite = n.spawn(|cx| {
                let url = format!("http://{address}/");
                while !done.is_cancelled() || served.load(Ordering::Relaxed) == 0 {
                    let answer = Client::new().time(Duration::from_secs(60)).get(&url)?;
                    assert_eq!((answer.status(), answer.body()), (200, &b"served"[..]));
                    served.fetch_add(1, Ordering::Relaxed);
                    cx.sleep(Duration::from_millis(2))?;
                }
                Ok(())
            })?;
            cx.nursery(|n| {
                for number in 0..connections() * 5 / 2 {
                    n.spawn(move |cx| hostile(cx, address, number))?;
                    if number.is_multiple_of(50) {
                        cx.sleep(Duration::from_millis(5))?;
                    }
                }
                Ok(())
            })?;
            done.cancel();
            polite.join()?;
            stop.cancel();
            Ok(())
        })
    })
    .unwrap();
    drop(rt);
    assert!(served.load(Ordering::Relaxed) > 0);
    assert_eq!(open_descriptors(), before, "a descriptor was left open");
}

/// As many connections at once as there are descriptors for, up to 10 000 (2000 in debug builds);
/// half of them are closed and made again, and all are used before and after.
#[test]
fn many_connections_and_their_churn() {
    let _alone = ALONE.lock().unwrap();
    let most = if cfg!(debug_assertions) { 2_000 } else { 10_000 };
    let count = most.min(descriptors_allowed().saturating_sub(200) / 2);
    for sockets in [SocketBackend::Epoll, SocketBackend::Ring] {
        let before = open_descriptors();
        let rt = Runtime::builder().workers(2).sockets(sockets).build().unwrap();
        rt.run(|cx| {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let (address, stop) = (listener.local_addr()?, CancelToken::new());
            let served = cx.nursery_with(NurseryOpts::new().token(&stop), |n| {
                n.spawn(|cx| {
                    cx.nursery(|n| {
                        for stream in listener.incoming() {
                            let mut stream = stream?;
                            n.spawn(move |_| {
                                let mut buffer = [0; 16];
                                loop {
                                    match stream.read(&mut buffer)? {
                                        0 => return Ok(()),
                                        length => stream.write_all(&buffer[..length])?,
                                    }
                                }
                            })?;
                        }
                        Ok(())
                    })
                })?;
                let mut clients = Vec::new();
                for round in 0..3 {
                    while clients.len() < count {
                        clients.push(TcpStream::connect(address)?);
                    }
                    for (number, client) in clients.iter_mut().enumerate() {
                        client.write_all(&(number + round).to_le_bytes())?;
                    }
                    for (number, client) in clients.iter_mut().enumerate() {
                        let mut back = [0; 8];
                        client.read_exact(&mut back)?;
                        assert_eq!(usize::from_le_bytes(back), number + round);
                    }
                    let mut number = 0;
                    clients.retain(|_| {
                        number += 1;
                        number % 2 == 0
                    });
                }
                drop(clients);
                stop.cancel();
                Ok(())
            });
            assert!(served.is_err_and(|error| error.is_cancelled()));
            Ok(())
        })
        .unwrap();
        drop(rt);
        assert_eq!(open_descriptors(), before, "a descriptor was left open ({sockets:?})");
    }
}

/// The limit of descriptors, raised as far as the system allows.
fn descriptors_allowed() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads and writes a structure of ours.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
    limit.rlim_cur as usize
}
