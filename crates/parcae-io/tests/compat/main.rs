//! Async crates and TLS: each test body is written once and runs on the simulated network under
//! several seeds, and with threads on epoll and io_uring.

mod async_tls;
mod https;
mod hyper;
mod streams;
mod tls;
mod tokio;

use parcae::prelude::*;
use parcae::runtime::SocketBackend;
use parcae_io::net::{TcpListener, TcpStream};
use std::net::SocketAddr;

/// Runs a test on seeds, and on threads.
fn everywhere(seeds: u64, test: impl Fn(&Runtime) -> parcae::Result<()>) {
    for seed in 0..seeds {
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        test(&rt).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    for sockets in [SocketBackend::Epoll, SocketBackend::Ring] {
        for workers in [1, 2] {
            let rt = Runtime::builder().workers(workers).sockets(sockets).build().unwrap();
            test(&rt).unwrap_or_else(|error| panic!("{workers} workers, {sockets:?}: {error}"));
        }
    }
}

/// A listener at a free port of this host.
fn listener() -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Two ends of a connection: the client's, the server's.
fn connected() -> std::io::Result<(TcpStream, TcpStream)> {
    let (listener, address) = listener()?;
    let client = TcpStream::connect(address)?;
    Ok((client, listener.accept()?.0))
}

/// Bytes that tell their place.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 31 + place / 256) as u8).collect()
}

/// The path of a program, or a message that a test is skipped; an error where tools are required.
fn tool(name: &str) -> Option<std::path::PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|dir| dir.join(name)).find(|file| file.is_file());
    if found.is_none() {
        let required = std::env::var_os("PARCAE_REQUIRE_TOOLS").is_some();
        assert!(!required, "{name} is not installed, and PARCAE_REQUIRE_TOOLS is set");
        println!("skipped: {name} is not installed");
    }
    found
}
