//! `serve`: HTTP/1 beside hyper on tokio, connections, the tail of an echo beside a busy task, two
//! workers, and the simulated network.
//!
//! `http` and `connection` are measured in lockstep, as in [`io`](super::io): only the server's
//! thread runs, and its CPU time counts. `tail` has a client on a thread of its own, and needs a
//! quiet machine with two cores; `cpu` needs one more core than workers for its clients, or less
//! than its figure is lost to them.

use super::io::{cpu, current_thread, per_echo, tokio_stream};
use super::runtimes;
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use hyper::body::{Body, Frame, SizeHint};
use hyper::rt::{Read as HyperRead, ReadBufCursor, Write as HyperWrite};
use parcae::prelude::*;
use parcae::profile::Service;
use parcae::sync::Event;
use parcae_io::http::{Response, Server};
use std::cell::Cell;
use std::convert::Infallible;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

pub(super) static SERVE: Workload = Workload {
    name: "serve",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        lower("http_1", "server CPU of a GET, one connection", "ns", &HTTP_1),
        lower("http_64", "the same, of 64 connections", "ns", &HTTP_64),
        lower("connection", "server CPU of accept, echo and close", "ns", &CONNECTION),
        lower("tail_alone", "p99 of an echo, one worker", "us", &TAIL_ALONE),
        lower("tail_busy", "the same beside a task that computes", "us", &TAIL_BUSY),
        higher("cpu_1", "requests of 200 us each, one worker", "requests/s", &CPU_1),
        higher("cpu_2", "the same, two workers", "requests/s", &CPU_2),
        lower("simulated", "an echo of 64 bytes in the simulated network", "ns", &SIMULATED),
    ],
};

const fn lower(
    name: &'static str,
    about: &'static str,
    unit: &'static str,
    sides: &'static [Side],
) -> Variant {
    Variant { name, about, unit, better: Better::Lower, sides }
}

const fn higher(
    name: &'static str,
    about: &'static str,
    unit: &'static str,
    sides: &'static [Side],
) -> Variant {
    Variant { name, about, unit, better: Better::Higher, sides }
}

static HTTP_1: [Side; 3] = [
    Side::new(Peer::Parcae, |scale| http(1, scale)),
    Side::new(Peer::Hyper, |scale| hyper_http(1, scale)),
    Side::new(Peer::Std, |scale| floor(1, scale)),
];
static HTTP_64: [Side; 3] = [
    Side::new(Peer::Parcae, |scale| http(64, scale)),
    Side::new(Peer::Hyper, |scale| hyper_http(64, scale)),
    Side::new(Peer::Std, |scale| floor(64, scale)),
];
static CONNECTION: [Side; 2] =
    [Side::new(Peer::Parcae, connections), Side::new(Peer::Tokio, tokio_connections)];
static TAIL_ALONE: [Side; 2] = [
    Side::new(Peer::Parcae, |scale| tail(Company::None, scale)),
    Side::new(Peer::Tokio, |scale| tokio_tail(Company::None, scale)),
];
static TAIL_BUSY: [Side; 2] = [
    Side::new(Peer::Parcae, |scale| tail(Company::Busy, scale)),
    Side::new(Peer::Tokio, |scale| tokio_tail(Company::Busy, scale)),
];
static CPU_1: [Side; 1] = [Side::new(Peer::Parcae, |scale| computing(1, scale))];
static CPU_2: [Side; 1] = [Side::new(Peer::Parcae, |scale| computing(2, scale))];
static SIMULATED: [Side; 1] = [Side::new(Peer::Parcae, simulated)];

const REQUESTS: usize = 40_000;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn connected(address: SocketAddr) -> io::Result<TcpStream> {
    let client = TcpStream::connect(address)?;
    client.set_nodelay(true)?;
    Ok(client)
}

fn ask(clients: &[TcpStream]) -> io::Result<()> {
    clients.iter().try_for_each(|mut client| client.write_all(REQUEST))
}

/// Reads answers, which end with their body.
fn hear(clients: &[TcpStream]) -> io::Result<()> {
    for mut client in clients {
        let (mut answer, mut length) = ([0; 1024], 0);
        while !answer[..length].ends_with(b"hello") {
            match client.read(&mut answer[length..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => length += count,
            }
        }
    }
    Ok(())
}

/// `recv` and `send` of the same bytes, without parsing and without waiting.
fn floor(connections: usize, scale: &Scale) -> Result<f64, Failure> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let clients: Vec<_> =
        (0..connections).map(|_| connected(listener.local_addr()?)).collect::<io::Result<_>>()?;
    let servers: Vec<_> =
        (0..connections).map(|_| Ok(listener.accept()?.0)).collect::<io::Result<_>>()?;
    let mut rounds = Vec::new();
    for _ in 0..scale.of(REQUESTS) / connections {
        ask(&clients)?;
        let began = cpu();
        for mut server in &servers {
            let mut buffer = [0; 4096];
            let _ = server.read(&mut buffer)?; // a request is one segment
            server.write_all(ANSWER)?;
        }
        rounds.push(cpu() - began);
        hear(&clients)?;
    }
    Ok(per_echo(rounds, connections))
}

fn unless_cancelled(outcome: parcae::Result<()>) -> parcae::Result<()> {
    outcome.or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })
}

fn http(connections: usize, scale: &Scale) -> Result<f64, Failure> {
    let rounds = http_rounds(connections, scale.of(REQUESTS) / connections)?;
    Ok(per_echo(rounds, connections))
}

/// The server's CPU for a request of each connection, in each round.
///
/// # Errors
///
/// If a socket or the runtime cannot be made.
pub(crate) fn http_rounds(connections: usize, count: usize) -> Result<Vec<Duration>, Failure> {
    let rt = runtimes::runtime::<Service>(1)?;
    let mut rounds = Vec::new();
    rt.run(|cx| {
        let listener = parcae_io::net::TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (answered, all, stop) = (AtomicUsize::new(0), Event::new(), CancelToken::new());
        let handler = |_: &Cx, _: &mut parcae_io::http::Request<'_, '_>| {
            // Relaxed, here and below: one worker. The answer leaves before another task runs.
            if answered.fetch_add(1, Ordering::Relaxed) + 1 == connections {
                all.set();
            }
            Ok(Response::text("hello"))
        };
        cx.nursery(|n| {
            n.spawn(|cx| Server::new().serve(cx, &listener, &stop, handler))?;
            let clients: Vec<_> =
                (0..connections).map(|_| connected(address)).collect::<io::Result<_>>()?;
            cx.sleep(Duration::from_millis(20))?; // all of them wait
            for _ in 0..count {
                ask(&clients)?;
                answered.store(0, Ordering::Relaxed);
                all.reset();
                let began = cpu();
                all.wait()?;
                rounds.push(cpu() - began);
                hear(&clients)?;
            }
            stop.cancel();
            Ok(())
        })
    })?;
    Ok(rounds)
}

/// A body of one piece.
struct Text(Option<&'static [u8]>);

impl Body for Text {
    type Data = &'static [u8];
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<&'static [u8]>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.map_or(0, |bytes| bytes.len() as u64))
    }
}

/// A stream of tokio for hyper.
struct Wire(tokio::net::TcpStream);

impl HyperRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: tokio takes nothing out of initialised bytes, and says how many it has written.
        unsafe {
            let mut room = ReadBuf::uninit(buffer.as_mut());
            ready!(Pin::new(&mut self.0).poll_read(context, &mut room))?;
            let filled = room.filled().len();
            buffer.advance(filled);
        }
        Poll::Ready(Ok(()))
    }
}

impl HyperWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

fn hyper_http(connections: usize, scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(REQUESTS) / connections;
    let mut rounds = Vec::new();
    let tasks = tokio::task::LocalSet::new();
    let measured: io::Result<()> = tasks.block_on(&current_thread()?, async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let (answered, all) = (Rc::new(Cell::new(0)), Rc::new(tokio::sync::Notify::new()));
        let mut clients = Vec::new();
        for _ in 0..connections {
            clients.push(connected(listener.local_addr()?)?);
            let server = listener.accept()?.0;
            server.set_nodelay(true)?;
            let stream = Wire(tokio_stream(server)?);
            let (answered, all) = (Rc::clone(&answered), Rc::clone(&all));
            let service = hyper::service::service_fn(move |_| {
                answered.set(answered.get() + 1);
                if answered.get() == connections {
                    all.notify_one();
                }
                async { Ok::<_, Infallible>(hyper::Response::new(Text(Some(b"hello")))) }
            });
            let http = hyper::server::conn::http1::Builder::new();
            tokio::task::spawn_local(http.serve_connection(stream, service));
        }
        tokio::time::sleep(Duration::from_millis(20)).await; // all of them wait
        for _ in 0..count {
            ask(&clients)?;
            answered.set(0);
            let began = cpu();
            all.notified().await;
            rounds.push(cpu() - began);
            hear(&clients)?;
        }
        Ok(())
    });
    measured?;
    Ok(per_echo(rounds, connections))
}

/// Connections that are made at once.
const AT_ONCE: usize = 32;
const CONNECTED: usize = 6_400;

/// Clients that have connected and asked.
fn asking(address: SocketAddr) -> io::Result<Vec<TcpStream>> {
    let clients: Vec<_> =
        (0..AT_ONCE).map(|_| connected(address)).collect::<io::Result<Vec<_>>>()?;
    clients.iter().try_for_each(|mut client| client.write_all(b"hello"))?;
    Ok(clients)
}

fn connections(scale: &Scale) -> Result<f64, Failure> {
    let rt = runtimes::runtime::<Service>(1)?;
    let mut rounds = Vec::new();
    rt.run(|cx| {
        let listener = parcae_io::net::TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (counts, stop) = ([const { AtomicUsize::new(0) }; 2], CancelToken::new());
        let all = [Event::new(), Event::new()];
        // Relaxed, here and below: one worker.
        let count = |place: usize| {
            if counts[place].fetch_add(1, Ordering::Relaxed) + 1 == AT_ONCE {
                counts[place].store(0, Ordering::Relaxed);
                all[place].set();
            }
        };
        let served = cx.nursery_with(NurseryOpts::new().token(&stop), |n| {
            n.spawn(|cx| {
                cx.nursery(|n| {
                    for stream in listener.incoming() {
                        let (mut stream, count) = (stream?, &count);
                        n.spawn(move |_| {
                            let mut buffer = [0; 64];
                            let length = stream.read(&mut buffer)?;
                            stream.write_all(&buffer[..length])?;
                            count(0);
                            let _ = stream.read(&mut buffer)?; // the end
                            drop(stream);
                            count(1);
                            Ok(())
                        })?;
                    }
                    Ok(())
                })
            })?;
            for _ in 0..scale.of(CONNECTED) / AT_ONCE {
                let clients = asking(address)?;
                let began = cpu();
                all[0].wait()?;
                let answering = cpu() - began;
                all[0].reset();
                hear(&clients)?;
                drop(clients);
                let began = cpu();
                all[1].wait()?;
                rounds.push(answering + (cpu() - began));
                all[1].reset();
            }
            stop.cancel();
            Ok(())
        });
        unless_cancelled(served)
    })?;
    Ok(per_echo(rounds, AT_ONCE))
}

fn tokio_connections(scale: &Scale) -> Result<f64, Failure> {
    let mut rounds = Vec::new();
    let tasks = tokio::task::LocalSet::new();
    let measured: io::Result<()> = tasks.block_on(&current_thread()?, async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let counts = Rc::new([Cell::new(0), Cell::new(0)]);
        let all = Rc::new([tokio::sync::Notify::new(), tokio::sync::Notify::new()]);
        let (told, tell) = (Rc::clone(&all), Rc::clone(&counts));
        let count = move |place: usize| {
            tell[place].set(tell[place].get() + 1);
            if tell[place].get() == AT_ONCE {
                tell[place].set(0);
                told[place].notify_one();
            }
        };
        tokio::task::spawn_local(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let count = count.clone();
                tokio::task::spawn_local(async move {
                    let _ = stream.set_nodelay(true);
                    let mut buffer = [0; 64];
                    if let Ok(length) = stream.read(&mut buffer).await {
                        let _ = stream.write_all(&buffer[..length]).await;
                    }
                    count(0);
                    let _ = stream.read(&mut buffer).await; // the end
                    drop(stream);
                    count(1);
                });
            }
        });
        for _ in 0..scale.of(CONNECTED) / AT_ONCE {
            let clients = asking(address)?;
            let began = cpu();
            all[0].notified().await;
            let answering = cpu() - began;
            hear(&clients)?;
            drop(clients);
            let began = cpu();
            all[1].notified().await;
            rounds.push(answering + (cpu() - began));
        }
        Ok(())
    });
    measured?;
    Ok(per_echo(rounds, AT_ONCE))
}

/// The tasks beside the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Company {
    None,
    /// One that computes, and lets others run now and then.
    Busy,
}

const ECHOES: usize = 10_000;

/// The 99th percentile of the times of echoes, in microseconds, as a client of its own sees them.
fn p99(address: SocketAddr, scale: &Scale) -> io::Result<f64> {
    let mut client = connected(address)?;
    let mut times = Vec::new();
    for _ in 0..scale.of(ECHOES) {
        let began = Instant::now();
        client.write_all(b"hello")?;
        client.read_exact(&mut [0; 5])?;
        times.push(began.elapsed());
    }
    times.sort();
    Ok(times[times.len() * 99 / 100].as_nanos() as f64 / 1e3)
}

fn tail(company: Company, scale: &Scale) -> Result<f64, Failure> {
    let rt = runtimes::runtime::<Service>(1)?;
    let listener = parcae_io::net::TcpListener::bind("127.0.0.1:0")?;
    let (address, done) = (listener.local_addr()?, AtomicBool::new(false));
    std::thread::scope(|threads| {
        let client = threads.spawn(|| {
            let figure = p99(address, scale);
            done.store(true, Ordering::Relaxed); // pairs with the Relaxed load below: a flag
            figure
        });
        rt.run(|cx| {
            cx.nursery(|n| {
                if company == Company::Busy {
                    n.spawn(|cx| {
                        while !done.load(Ordering::Relaxed) {
                            cx.checkpoint()?; // Relaxed: a flag, as above
                        }
                        Ok(())
                    })?;
                }
                let (mut stream, _) = listener.accept()?;
                let mut buffer = [0; 64];
                loop {
                    match stream.read(&mut buffer)? {
                        0 => return Ok(()),
                        length => stream.write_all(&buffer[..length])?,
                    }
                }
            })
        })?;
        Ok(client.join().map_err(|_| "the client has panicked")??)
    })
}

fn tokio_tail(company: Company, scale: &Scale) -> Result<f64, Failure> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let (address, done) = (listener.local_addr()?, AtomicBool::new(false));
    std::thread::scope(|threads| {
        let client = threads.spawn(|| {
            let figure = p99(address, scale);
            done.store(true, Ordering::Relaxed); // pairs with the Relaxed load below: a flag
            figure
        });
        let done = &done;
        let server = async move {
            let server = listener.accept()?.0;
            server.set_nodelay(true)?;
            let mut stream = tokio_stream(server)?;
            let mut buffer = [0; 64];
            loop {
                match stream.read(&mut buffer).await? {
                    0 => return io::Result::Ok(()),
                    length => stream.write_all(&buffer[..length]).await?,
                }
            }
        };
        let busy = async move {
            // As long as a turn of the other side.
            while company == Company::Busy && !done.load(Ordering::Relaxed) {
                spin(10_000); // Relaxed, above: a flag
                tokio::task::yield_now().await;
            }
        };
        let tasks = futures_lite::future::zip(server, busy);
        current_thread()?.block_on(tasks).0?;
        Ok(client.join().map_err(|_| "the client has panicked")??)
    })
}

/// Clients at once, and requests of all.
const CLIENTS: usize = 4;
const COMPUTED: usize = 4_000;

fn spin(rounds: u32) {
    for round in 0..rounds {
        let _ = black_box(round);
    }
}

/// About 200 µs of work.
fn compute(cx: &Cx) -> parcae::Result<()> {
    for _ in 0..200 {
        spin(2_000);
        cx.checkpoint()?;
    }
    Ok(())
}

/// Requests per second that need the processor.
fn computing(workers: usize, scale: &Scale) -> Result<f64, Failure> {
    let each = scale.of(COMPUTED) / CLIENTS;
    let rt = runtimes::runtime::<Service>(workers)?;
    let listener = parcae_io::net::TcpListener::bind("127.0.0.1:0")?;
    let (address, stop) = (listener.local_addr()?, CancelToken::new());
    std::thread::scope(|threads| {
        let client = move || {
            let client = [connected(address)?];
            for _ in 0..each {
                ask(&client)?;
                hear(&client)?;
            }
            io::Result::Ok(())
        };
        let stop = &stop;
        let measure = threads.spawn(move || {
            let began = Instant::now();
            let outcome = std::thread::scope(|threads| {
                let clients: Vec<_> = (0..CLIENTS).map(|_| threads.spawn(client)).collect();
                clients.into_iter().try_for_each(|client| {
                    client.join().map_err(|_| io::Error::other("a client has panicked"))?
                })
            });
            let took = began.elapsed();
            stop.cancel();
            outcome.map(|()| (each * CLIENTS) as f64 / took.as_secs_f64())
        });
        rt.run(|cx| {
            Server::new().serve(cx, &listener, stop, |cx, _| {
                compute(cx)?;
                Ok(Response::text("hello"))
            })
        })?;
        Ok(measure.join().map_err(|_| "the clients have panicked")??)
    })
}

fn simulated(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(200_000);
    Ok(simulated_echoes(count)?.as_nanos() as f64 / count as f64)
}

/// The time of so many echoes in the simulated network.
///
/// # Errors
///
/// If the runtime cannot be made.
pub(crate) fn simulated_echoes(count: usize) -> Result<Duration, Failure> {
    let rt = Runtime::builder().workers(1).deterministic(1).build()?;
    Ok(rt.run(|cx| {
        let listener = parcae_io::net::TcpListener::bind("10.0.0.1:80")?;
        cx.nursery(|n| {
            n.spawn(move |_| {
                let (mut stream, _) = listener.accept()?;
                let mut buffer = [0; 64];
                loop {
                    match stream.read(&mut buffer)? {
                        0 => return Ok(()),
                        length => stream.write_all(&buffer[..length])?,
                    }
                }
            })?;
            let mut client = parcae_io::net::TcpStream::connect("10.0.0.1:80")?;
            let began = Instant::now();
            for _ in 0..count {
                client.write_all(&[7; 64])?;
                client.read_exact(&mut [0; 64])?;
            }
            Ok(began.elapsed())
        })
    })?)
}
