//! Descriptors: none is leaked by churn and cancellation, and a server that has run out of them
//! goes on. A program of its own with one test at a time, because descriptors belong to the
//! process.

use parcae::prelude::*;
use parcae_io::net::{TcpListener, TcpStream};
use std::io::{Read, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

static ALONE: Mutex<()> = Mutex::new(());

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Answers until the end of input. A peer that has reset the connection is no error.
fn echo(mut stream: TcpStream) -> parcae::Result<()> {
    let mut buffer = [0; 256];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) if stream.write_all(&buffer[..length]).is_ok() => {}
            Err(error) if parcae_io::is_cancelled(&error) => return Err(error.into()),
            Ok(_) | Err(_) => return Ok(()),
        }
    }
}

/// Runs a server and a body with its address; then stops the server.
fn with_server(
    cx: &Cx,
    body: impl FnOnce(std::net::SocketAddr) -> parcae::Result<()>,
) -> parcae::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (address, stop) = (listener.local_addr()?, CancelToken::new());
    cx.nursery(|n| {
        n.spawn(|cx| {
            let served = cx.nursery_with(NurseryOpts::new().token(&stop), |n| {
                for stream in listener.incoming() {
                    let stream = stream?;
                    n.spawn(move |_| echo(stream))?;
                }
                Ok(())
            });
            served.or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })
        })?;
        let outcome = body(address);
        stop.cancel();
        outcome
    })
}

/// Thousands of connections come and go: some are served, some reset, some cancelled while they
/// wait. In the end as many descriptors are open as before.
#[test]
fn churn_leaks_no_descriptor() {
    let _alone = ALONE.lock().unwrap();
    let before = open_descriptors();
    let until = Instant::now() + Duration::from_secs(10);
    let rt = Runtime::builder().workers(2).build().unwrap();
    let made = rt.run(|cx| {
        let mut made = 0;
        with_server(cx, |address| {
            while made < 3_000 && Instant::now() < until {
                let stop = CancelToken::new();
                let opts = NurseryOpts::new().token(&stop);
                let round = cx.nursery_with(opts, |n| {
                    let served: Vec<_> = (0..40_usize)
                        .map(|number| n.spawn(move |_| client(address, number)))
                        .collect::<parcae::Result<_>>()?;
                    for task in served.into_iter().step_by(2) {
                        task.join()?; // the others wait for an answer that never comes
                    }
                    stop.cancel();
                    Ok(())
                });
                assert!(round.is_err_and(|error| error.is_cancelled()));
                made += 40;
            }
            Ok(())
        })?;
        Ok(made)
    });
    drop(rt);
    assert!(made.unwrap() >= 40);
    assert_eq!(open_descriptors(), before);
}

fn client(address: std::net::SocketAddr, number: usize) -> parcae::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let mut answer = [0; 3];
    if number.is_multiple_of(2) {
        stream.write_all(b"abc")?;
        if number.is_multiple_of(4) {
            return Ok(()); // closes with unread input: a reset
        }
    }
    stream.read_exact(&mut answer)?;
    Ok(())
}

/// The limit is reached: the server waits, and accepts again when there is room.
#[test]
fn a_server_survives_the_limit_of_descriptors() {
    let _alone = ALONE.lock().unwrap();
    let rt = Runtime::builder().workers(2).build().unwrap();
    rt.run(|cx| {
        with_server(cx, |address| {
            // Its poller is there before the limit is.
            let mut first = TcpStream::connect(address)?;
            first.write_all(b"x")?;
            first.read_exact(&mut [0; 1])?;
            let limit = limit_descriptors(open_descriptors() + 21);
            let mut clients = Vec::new();
            while let Ok(stream) = TcpStream::connect(address) {
                clients.push(stream);
            }
            assert!(!clients.is_empty());
            cx.sleep(Duration::from_millis(50))?; // the server is out of descriptors, too
            clients.truncate(2);
            // The rest was closed: those that waited in the kernel's queue are served.
            for stream in &mut clients {
                stream.write_all(b"y")?;
                stream.read_exact(&mut [0; 1])?;
            }
            limit_descriptors(limit);
            Ok(())
        })
    })
    .unwrap();
}

/// Sets the limit; returns the earlier one.
fn limit_descriptors(most: usize) -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads and writes a structure of ours.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        let before = limit.rlim_cur;
        limit.rlim_cur = most as libc::rlim_t;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        before as usize
    }
}
