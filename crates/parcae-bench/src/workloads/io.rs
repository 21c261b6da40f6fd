//! `io`: the server's CPU for an echo, memory of an idle connection, a cached read of a file.
//!
//! Requests per second over loopback measure the kernel and the client. So an echo is measured *in
//! lockstep*: all clients send, then only the server runs, then all clients read, on one thread.
//! The CPU time of that thread counts, from the last send to the last answer. The side `std` is the
//! floor: one `recv` and one `send` for each request, and no waiting at all.
//!
//! tokio runs on its current-thread scheduler, which is faster here than one worker of the other.
//! smol runs on one thread that also drives its reactor; its second one mostly sleeps, so that
//! the CPU time of the process counts. may is not measured: with 64 connections and one worker it
//! stopped in the middle of a run, with all coroutines waiting.

use super::runtimes;
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::prelude::*;
use parcae::profile::Service;
use parcae::runtime::SocketBackend;
use parcae::sync::Event;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(super) static IO: Workload = Workload {
    name: "io",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant("echo_1", "server CPU of an echo of 64 bytes, one connection", "ns", &ECHO_1),
        variant("echo_64", "the same, of 64 connections", "ns", &ECHO_64),
        variant("echo_ring_64", "the same, with sockets by io_uring", "ns", &ECHO_RING_64),
        variant("idle", "memory of a connection that waits for input", "B", &IDLE),
        variant("read_4k", "a read of 4 KiB that are in the page cache", "ns", &READ_4K),
    ],
};

const fn variant(
    name: &'static str,
    about: &'static str,
    unit: &'static str,
    sides: &'static [Side],
) -> Variant {
    Variant { name, about, unit, better: Better::Lower, sides }
}

static ECHO_1: [Side; 4] = [
    Side::new(Peer::Parcae, |scale| echo(1, scale)),
    Side::new(Peer::Tokio, |scale| tokio_echo(1, scale)),
    Side::new(Peer::AsyncIo, |scale| smol_echo(1, scale)),
    Side::new(Peer::Std, |scale| floor(1, scale)),
];
static ECHO_64: [Side; 4] = [
    Side::new(Peer::Parcae, |scale| echo(64, scale)),
    Side::new(Peer::Tokio, |scale| tokio_echo(64, scale)),
    Side::new(Peer::AsyncIo, |scale| smol_echo(64, scale)),
    Side::new(Peer::Std, |scale| floor(64, scale)),
];
static ECHO_RING_64: [Side; 1] =
    [Side::new(Peer::Parcae, |scale| echo_by(SocketBackend::Ring, 64, scale))];
static IDLE: [Side; 1] = [Side::new(Peer::Parcae, idle)];
static READ_4K: [Side; 3] = [
    Side::new(Peer::Parcae, read),
    Side::new(Peer::Tokio, tokio_read),
    Side::new(Peer::Std, std_read),
];

/// Echoes of one measurement.
const ECHOES: usize = 40_000;
/// Idle connections. Each has two descriptors.
const CONNECTIONS: usize = 450;
const READS: usize = 100_000;
const MESSAGE: [u8; 64] = [7; 64];

/// CPU time of this thread.
pub(super) fn cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of all threads.
fn cpu_of_all() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes a structure of ours.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Connections: the client's end, and the server's.
fn pairs(count: usize) -> std::io::Result<Vec<(TcpStream, TcpStream)>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    (0..count)
        .map(|_| {
            let client = TcpStream::connect(listener.local_addr()?)?;
            client.set_nodelay(true)?;
            let (server, _) = listener.accept()?;
            server.set_nodelay(true)?;
            Ok((client, server))
        })
        .collect()
}

fn send(clients: &[TcpStream]) -> std::io::Result<()> {
    clients.iter().try_for_each(|mut client| client.write_all(&MESSAGE))
}

fn receive(clients: &[TcpStream]) -> std::io::Result<()> {
    clients.iter().try_for_each(|mut client| client.read_exact(&mut [0; 64]))
}

/// The middle of the rounds, in nanoseconds for one echo; the first tenth warms up.
pub(super) fn per_echo(mut rounds: Vec<Duration>, connections: usize) -> f64 {
    rounds.drain(..rounds.len() / 10);
    rounds.sort();
    rounds[rounds.len() / 2].as_nanos() as f64 / connections as f64
}

fn floor(connections: usize, scale: &Scale) -> Result<f64, Failure> {
    let (clients, servers): (Vec<_>, Vec<_>) = pairs(connections)?.into_iter().unzip();
    let mut rounds = Vec::new();
    for _ in 0..scale.of(ECHOES) / connections {
        send(&clients)?;
        let began = cpu();
        for mut server in &servers {
            let mut buffer = [0; 4096];
            let length = server.read(&mut buffer)?;
            server.write_all(&buffer[..length])?;
        }
        rounds.push(cpu() - began);
        receive(&clients)?;
    }
    Ok(per_echo(rounds, connections))
}

fn echo(connections: usize, scale: &Scale) -> Result<f64, Failure> {
    echo_by(SocketBackend::Epoll, connections, scale)
}

fn echo_by(sockets: SocketBackend, connections: usize, scale: &Scale) -> Result<f64, Failure> {
    let rounds = echo_rounds(sockets, connections, scale.of(ECHOES) / connections)?;
    Ok(per_echo(rounds, connections))
}

/// The server's CPU for an echo of each connection, in each round.
///
/// # Errors
///
/// If a socket or the runtime cannot be made.
pub(crate) fn echo_rounds(
    sockets: SocketBackend,
    connections: usize,
    count: usize,
) -> Result<Vec<Duration>, Failure> {
    let rt = Runtime::builder().profile::<Service>().workers(1).sockets(sockets).build()?;
    let (clients, servers): (Vec<_>, Vec<_>) = pairs(connections)?.into_iter().unzip();
    let mut rounds = Vec::new();
    rt.run(|cx| {
        let (answered, all, stop) = (AtomicUsize::new(0), Event::new(), CancelToken::new());
        let served = cx.nursery_with(NurseryOpts::new().token(&stop), |n| {
            for server in servers {
                let mut server = parcae_io::net::TcpStream::from_std(server)?;
                let (answered, all) = (&answered, &all);
                n.spawn(move |_| {
                    let mut buffer = [0; 4096];
                    loop {
                        let length = server.read(&mut buffer)?;
                        server.write_all(&buffer[..length])?;
                        // Relaxed, here and below: one worker.
                        if answered.fetch_add(1, Ordering::Relaxed) + 1 == connections {
                            all.set();
                        }
                    }
                    #[allow(unreachable_code, reason = "names the type")]
                    Ok(())
                })?;
            }
            cx.sleep(Duration::from_millis(20))?; // all of them wait
            for _ in 0..count {
                send(&clients)?;
                answered.store(0, Ordering::Relaxed);
                all.reset();
                let began = cpu();
                all.wait()?;
                rounds.push(cpu() - began);
                receive(&clients)?;
            }
            stop.cancel();
            Ok(())
        });
        served.or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })
    })?;
    Ok(rounds)
}

pub(super) fn current_thread() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()
}

pub(super) fn tokio_stream(server: TcpStream) -> std::io::Result<tokio::net::TcpStream> {
    server.set_nonblocking(true)?;
    tokio::net::TcpStream::from_std(server)
}

fn tokio_echo(connections: usize, scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(ECHOES) / connections;
    let (clients, servers): (Vec<_>, Vec<_>) = pairs(connections)?.into_iter().unzip();
    let mut rounds = Vec::new();
    let tasks = tokio::task::LocalSet::new();
    let measured: std::io::Result<()> = tasks.block_on(&current_thread()?, async {
        let (answered, all) = (Rc::new(Cell::new(0)), Rc::new(tokio::sync::Notify::new()));
        for server in servers {
            let mut server = tokio_stream(server)?;
            let (answered, all) = (Rc::clone(&answered), Rc::clone(&all));
            tokio::task::spawn_local(async move {
                let mut buffer = [0; 4096];
                while let Ok(length) = server.read(&mut buffer).await {
                    if length == 0 || server.write_all(&buffer[..length]).await.is_err() {
                        break;
                    }
                    answered.set(answered.get() + 1);
                    if answered.get() == connections {
                        all.notify_one();
                    }
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(20)).await; // all of them wait
        for _ in 0..count {
            send(&clients)?;
            answered.set(0);
            let began = cpu();
            all.notified().await;
            rounds.push(cpu() - began);
            receive(&clients)?;
        }
        Ok(())
    });
    measured?;
    Ok(per_echo(rounds, connections))
}

fn smol_echo(connections: usize, scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(ECHOES) / connections;
    let (clients, servers): (Vec<_>, Vec<_>) = pairs(connections)?.into_iter().unzip();
    let mut rounds = Vec::new();
    let tasks = async_executor::LocalExecutor::new();
    let measured: std::io::Result<()> = async_io::block_on(tasks.run(async {
        let (answered, all) = (Rc::new(Cell::new(0)), Rc::new(tokio::sync::Notify::new()));
        let mut running = Vec::new();
        for server in servers {
            let mut server = async_io::Async::new(server)?;
            let (answered, all) = (Rc::clone(&answered), Rc::clone(&all));
            running.push(tasks.spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(length) =
                    futures_lite::AsyncReadExt::read(&mut server, &mut buffer).await
                {
                    let bytes = &buffer[..length];
                    let wrote = futures_lite::AsyncWriteExt::write_all(&mut server, bytes).await;
                    if length == 0 || wrote.is_err() {
                        break;
                    }
                    answered.set(answered.get() + 1);
                    if answered.get() == connections {
                        all.notify_one();
                    }
                }
            }));
        }
        async_io::Timer::after(Duration::from_millis(20)).await; // all of them wait
        for _ in 0..count {
            send(&clients)?;
            answered.set(0);
            let began = cpu_of_all();
            all.notified().await;
            rounds.push(cpu_of_all() - began);
            receive(&clients)?;
        }
        Ok(())
    }));
    measured?;
    Ok(per_echo(rounds, connections))
}

/// Memory of this process that is in use, in bytes.
fn resident() -> std::io::Result<usize> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    Ok(pages.unwrap_or(0) * 4096)
}

/// With a buffer of 64 bytes, on the stack of its fiber. Futures are on the heap, which keeps the
/// memory of the round before, so that the process does not grow: they are not measured here.
fn idle(_: &Scale) -> Result<f64, Failure> {
    let rt = runtimes::runtime::<Service>(1)?;
    let pairs = pairs(CONNECTIONS)?;
    let each = rt.run(|cx| {
        let (stop, mut each) = (CancelToken::new(), 0);
        let before = resident()?;
        let served = cx.nursery_with(NurseryOpts::new().token(&stop), |n| {
            let mut clients = Vec::new();
            for (client, server) in pairs {
                clients.push(client);
                let mut server = parcae_io::net::TcpStream::from_std(server)?;
                n.spawn(move |_| Ok(server.read(&mut [0; 64])?))?;
            }
            cx.sleep(Duration::from_millis(200))?;
            each = resident()?.saturating_sub(before) / CONNECTIONS;
            stop.cancel();
            Ok(())
        });
        served.or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })?;
        Ok(each)
    })?;
    Ok(each as f64)
}

/// A file of 64 KiB in the page cache, which is removed at the end.
struct Cached(std::path::PathBuf);

impl Cached {
    fn new() -> std::io::Result<Cached> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed); // a number
        let name = format!("parcae-bench-{}-{number}", std::process::id());
        let cached = Cached(std::env::temp_dir().join(name));
        std::fs::write(&cached.0, vec![7; 64 << 10])?;
        Ok(cached)
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0); // a file in the folder for such files
    }
}

fn std_read(scale: &Scale) -> Result<f64, Failure> {
    let cached = Cached::new()?;
    let (file, count) = (std::fs::File::open(&cached.0)?, scale.of(READS));
    let mut buffer = [0; 4096];
    let began = Instant::now();
    for read in 0..count {
        let at = (read % 16 * 4096) as u64;
        assert_eq!(std::os::unix::fs::FileExt::read_at(&file, &mut buffer, at)?, 4096);
    }
    Ok(super::nanos_per(began, count))
}

fn read(scale: &Scale) -> Result<f64, Failure> {
    let (cached, count) = (Cached::new()?, scale.of(READS));
    let rt = runtimes::runtime::<Service>(1)?;
    Ok(rt.run(|_| {
        let file = parcae_io::fs::File::open(&cached.0)?;
        let mut buffer = [0; 4096];
        let began = Instant::now();
        for read in 0..count {
            let at = (read % 16 * 4096) as u64;
            assert_eq!(file.read_at(&mut buffer, at)?, 4096);
        }
        Ok(super::nanos_per(began, count))
    })?)
}

/// From the beginning to the end, again and again: it has no read at an offset.
fn tokio_read(scale: &Scale) -> Result<f64, Failure> {
    let (cached, count) = (Cached::new()?, scale.of(READS) / 10);
    let rt = current_thread()?;
    let took: std::io::Result<f64> = rt.block_on(async {
        let mut file = tokio::fs::File::open(&cached.0).await?;
        file.set_max_buf_size(4096);
        let mut buffer = [0; 4096];
        let mut spent = Duration::ZERO;
        for read in 0..count {
            if read % 16 == 0 {
                tokio::io::AsyncSeekExt::rewind(&mut file).await?;
            }
            let began = Instant::now();
            assert_eq!(file.read(&mut buffer).await?, 4096);
            spent += began.elapsed();
        }
        Ok(spent.as_nanos() as f64 / count as f64)
    });
    Ok(took?)
}
