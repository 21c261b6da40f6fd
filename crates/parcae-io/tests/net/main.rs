//! Sockets, files and children: each test body is written once and runs on the simulated network
//! under many seeds, and with threads on epoll and io_uring.

#[path = "../../../parcae/tests/support/mod.rs"]
mod support;

mod accepting;
mod authority;
mod budgets;
mod cancelling;
mod children;
mod datagrams;
mod differential;
mod echo;
mod edges;
mod faults;
mod files;
mod homes;
mod http;
mod inspecting;
mod names;
mod outside;
mod replay;
mod ring;
mod ring_sockets;
mod signals;
mod timeouts;

use parcae::prelude::*;
use parcae_io::net::{TcpListener, TcpStream};
use std::io::{Read, Write};
use std::net::SocketAddr;

/// A listener at a free port of this host.
pub fn listener() -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Two ends of a connection: the client's, the server's.
pub fn connected() -> std::io::Result<(TcpStream, TcpStream)> {
    let (listener, address) = listener()?;
    let client = TcpStream::connect(address)?;
    Ok((client, listener.accept()?.0))
}

/// Answers with the same bytes until the end of input.
pub fn echo(mut stream: TcpStream) -> std::io::Result<u64> {
    let (mut buffer, mut sum) = ([0; 4096], 0);
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(sum);
        }
        stream.write_all(&buffer[..length])?;
        sum += length as u64;
    }
}

/// Bytes that tell their place and their sender.
pub fn pattern(length: usize, salt: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 31 + salt * 7) as u8).collect()
}

/// Turns a cancellation that the test has asked for into success.
pub fn unless_cancelled<T: Default>(outcome: parcae::Result<T>) -> parcae::Result<T> {
    outcome.or_else(|error| if error.is_cancelled() { Ok(T::default()) } else { Err(error) })
}

/// Options of a nursery that ends with a token.
pub fn under(token: &CancelToken) -> NurseryOpts {
    NurseryOpts::new().token(token)
}
