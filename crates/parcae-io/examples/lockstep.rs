//! Server CPU per echo, in lockstep: all clients send, then only the server runs, then all clients
//! read. The time counts from the last send to the last answer, on the CPU clock of the one thread
//! that does everything, so other processes and the network's own time do not count.
//!
//! ```text
//! cargo run --release -p parcae-io --example lockstep
//! ```
//!
//! The *floor* is one `recv` and one `send` for each request, without any waiting. *Bare epoll*
//! waits by one `epoll_wait` for all requests of a round. Rounds of all three are interleaved.

use parcae::prelude::*;
use parcae::sync::Event;
use parcae_io::net::TcpListener;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const MESSAGE: [u8; 64] = [7; 64];

/// CPU time of this thread.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes a structure of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Pairs of connected sockets: client, server.
fn pairs(count: usize) -> std::io::Result<Vec<(TcpStream, TcpStream)>> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    (0..count)
        .map(|_| {
            let client = TcpStream::connect(listener.local_addr()?)?;
            client.set_nodelay(true)?;
            Ok((client, listener.accept()?.0))
        })
        .collect()
}

fn send_all(pairs: &[(TcpStream, TcpStream)]) -> std::io::Result<()> {
    pairs.iter().try_for_each(|(client, _)| (&mut &*client).write_all(&MESSAGE))
}

fn receive_all(pairs: &[(TcpStream, TcpStream)]) -> std::io::Result<()> {
    let mut buffer = [0; 64];
    pairs.iter().try_for_each(|(client, _)| (&mut &*client).read_exact(&mut buffer))
}

fn echo(mut server: &TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    let length = server.read(&mut buffer)?;
    server.write_all(&buffer[..length])
}

/// Microseconds of one round by the bare calls; with an epoll that waits for the requests, if
/// given.
fn bare(pairs: &[(TcpStream, TcpStream)], epoll: Option<i32>) -> std::io::Result<f64> {
    send_all(pairs)?;
    let began = cpu();
    let mut answered = 0;
    while answered < pairs.len() {
        let Some(epoll) = epoll else {
            pairs.iter().try_for_each(|(_, server)| echo(server))?;
            break;
        };
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
        // SAFETY: the kernel writes at most so many events.
        let found = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), 256, -1) };
        for event in &events[..found.max(0) as usize] {
            echo(&pairs[event.u64 as usize].1)?;
            answered += 1;
        }
    }
    let took = cpu() - began;
    receive_all(pairs)?;
    Ok(took.as_secs_f64() * 1e6 / pairs.len() as f64)
}

/// An epoll with all servers, edge-triggered.
fn epoll_of(pairs: &[(TcpStream, TcpStream)]) -> i32 {
    // SAFETY: takes no pointers.
    let epoll = unsafe { libc::epoll_create1(0) };
    for (place, (_, server)) in pairs.iter().enumerate() {
        let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
        let mut event = libc::epoll_event { events, u64: place as u64 };
        let fd = server.as_raw_fd();
        // SAFETY: the event is on our stack.
        unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    }
    epoll
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Fibers, floor and bare epoll with so many connections: microseconds per echo.
fn measure(connections: usize, rounds: usize) -> parcae::Result<[f64; 3]> {
    let (floor, polled) = (pairs(connections)?, pairs(connections)?);
    let epoll = epoll_of(&polled);
    let rt = Runtime::builder().workers(1).build()?;
    let mut figures = [const { Vec::new() }; 3];
    rt.run(|cx| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (answered, all, stop) = (AtomicUsize::new(0), Event::new(), CancelToken::new());
        let served = cx.nursery_with(NurseryOpts::new().token(&stop), |n| {
            let mut clients = Vec::new();
            for _ in 0..connections {
                let client = TcpStream::connect(listener.local_addr()?)?;
                client.set_nodelay(true)?;
                clients.push(client);
                let (mut server, _) = listener.accept()?;
                let (answered, all) = (&answered, &all);
                n.spawn(move |_| {
                    let mut buffer = [0; 4096];
                    loop {
                        let length = server.read(&mut buffer)?;
                        if length == 0 {
                            return Ok(());
                        }
                        server.write_all(&buffer[..length])?;
                        // Relaxed: one worker.
                        if answered.fetch_add(1, Ordering::Relaxed) + 1 == connections {
                            all.set();
                        }
                    }
                })?;
            }
            cx.sleep(Duration::from_millis(20))?; // all of them wait
            let mut buffer = [0; 64];
            for round in 0..rounds {
                for client in &clients {
                    (&mut &*client).write_all(&MESSAGE)?;
                }
                answered.store(0, Ordering::Relaxed); // one worker
                all.reset();
                let began = cpu();
                all.wait()?;
                let took = cpu() - began;
                for client in &clients {
                    (&mut &*client).read_exact(&mut buffer)?;
                }
                let took = took.as_secs_f64() * 1e6 / connections as f64;
                let others = [bare(&floor, None)?, bare(&polled, Some(epoll))?];
                if round > rounds / 10 {
                    figures[0].push(took);
                    figures[1].push(others[0]);
                    figures[2].push(others[1]);
                }
            }
            stop.cancel();
            Ok(())
        });
        served.or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })
    })?;
    // SAFETY: ours, and used no more.
    unsafe { libc::close(epoll) };
    Ok(figures.map(median))
}

/// Memory of this process that is in use, in bytes.
fn resident() -> std::io::Result<usize> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    Ok(pages.unwrap_or(0) * 4096)
}

/// Bytes of this process for each connection that waits in a fiber.
fn idle_memory(connections: usize) -> parcae::Result<usize> {
    let pairs = pairs(connections)?;
    let rt = Runtime::builder().workers(1).build()?;
    rt.run(|cx| {
        let stop = CancelToken::new();
        let mut each = 0;
        let before = resident()?;
        let served = cx.nursery_with(NurseryOpts::new().token(&stop), |n| {
            let mut clients = Vec::new();
            for (client, server) in pairs {
                clients.push(client);
                let mut server = parcae_io::net::TcpStream::from_std(server)?;
                n.spawn(move |_| Ok(server.read(&mut [0; 64])?))?;
            }
            cx.sleep(Duration::from_millis(200))?;
            each = (resident()? - before) / connections;
            stop.cancel();
            Ok(())
        });
        served.or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })?;
        Ok(each)
    })
}

fn main() -> parcae::Result<()> {
    println!("server CPU per echo of 64 bytes, µs (medians)");
    println!("{:>12} {:>8} {:>8} {:>11}", "connections", "fibers", "floor", "bare epoll");
    for (connections, rounds) in [(1, 3000), (64, 600), (300, 200)] {
        let [fibers, floor, polled] = measure(connections, rounds)?;
        println!("{connections:>12} {fibers:>8.2} {floor:>8.2} {polled:>11.2}");
    }
    println!("an idle connection: {} bytes of this process", idle_memory(450)?);
    Ok(())
}
