//! A TCP proxy: each connection is passed on to another server, both directions at the same time.
//! Each client has a nursery of its own: when one direction fails, the other one is cancelled.
//!
//! `cargo run -p parcae-io --example proxy` runs it with a server and clients in one process;
//! `-- 127.0.0.1:8000 example.org:80` listens at the first address and passes on to the second.

use parcae::prelude::*;
use parcae_io::net::{TcpListener, TcpStream};
use std::io::{Read, Write};
use std::net::Shutdown;

fn main() -> parcae::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rt = Runtime::builder().workers(2).build()?;
    rt.run(|cx| match arguments.as_slice() {
        [from, to] => {
            let listener = TcpListener::bind(from.as_str())?;
            println!("{from} -> {to}");
            proxy(cx, &listener, to, &CancelToken::new())
        }
        _ => demonstrate(cx),
    })
}

/// Passes connections on until the token is cancelled.
fn proxy(cx: &Cx, listener: &TcpListener, to: &str, stop: &CancelToken) -> parcae::Result<()> {
    let opts = NurseryOpts::new().token(stop).on_failure(OnFailure::Isolate);
    let served = cx.nursery_with(opts, |n| {
        for client in listener.incoming() {
            let client = client?; // an error when the token is cancelled
            n.spawn(move |cx| {
                // A client that is gone, or a server that is not there, ends this connection only.
                match relay(cx, &client, to) {
                    Err(error) if error.is_cancelled() => Err(error),
                    _ => Ok(()),
                }
            })?;
        }
        Ok(())
    });
    served.or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })
}

/// One connection: both directions, until both have ended.
fn relay(cx: &Cx, client: &TcpStream, to: &str) -> parcae::Result<()> {
    let server = TcpStream::connect(to)?;
    cx.nursery(|n| {
        n.spawn(|_| pump(client, &server))?;
        n.spawn(|_| pump(&server, client))?;
        Ok(())
    })
}

fn pump(mut from: &TcpStream, mut to: &TcpStream) -> parcae::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Ok(to.shutdown(Shutdown::Write)?); // the end travels, too
        }
        to.write_all(&buffer[..length])?;
    }
}

/// A server that answers in capitals, the proxy before it, and clients.
fn demonstrate(cx: &Cx) -> parcae::Result<()> {
    let (server, front) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    let (to, address) = (server.local_addr()?.to_string(), front.local_addr()?);
    let stop = CancelToken::new();
    cx.nursery(|n| {
        n.spawn(|cx| {
            let served = cx.nursery_with(NurseryOpts::new().token(&stop), |n| {
                for stream in server.incoming() {
                    let mut stream = stream?;
                    n.spawn(move |_| {
                        let mut text = String::new();
                        stream.read_to_string(&mut text)?;
                        Ok(stream.write_all(text.to_uppercase().as_bytes())?)
                    })?;
                }
                Ok(())
            });
            served.or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })
        })?;
        n.spawn(|cx| proxy(cx, &front, &to, &stop))?;
        let clients: Vec<_> = (0..20)
            .map(|number| {
                n.spawn(move |_| {
                    let mut stream = TcpStream::connect(address)?;
                    write!(stream, "client {number}")?;
                    stream.shutdown(Shutdown::Write)?;
                    let mut answer = String::new();
                    stream.read_to_string(&mut answer)?;
                    assert_eq!(answer, format!("CLIENT {number}"));
                    Ok(answer.len())
                })
            })
            .collect::<parcae::Result<_>>()?;
        let bytes = clients.into_iter().map(TaskHandle::join).sum::<parcae::Result<usize>>()?;
        stop.cancel();
        println!("20 clients, {bytes} bytes came back through the proxy");
        Ok(())
    })
}
