//! An echo server and its clients in one process. Prints the number of bytes that came back.
//!
//! `cargo run -p parcae-io --example echo`

use parcae::prelude::*;
use parcae_io::net::{TcpListener, TcpStream};
use std::io::{Read, Write};
use std::net::SocketAddr;

const CLIENTS: usize = 50;
const ROUNDS: usize = 20;

fn main() -> parcae::Result<()> {
    let rt = Runtime::builder().workers(2).build()?;
    let echoed = rt.run(|cx| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let stop = CancelToken::new();
        cx.nursery(|n| {
            n.spawn(|cx| serve(cx, &listener, &stop))?;
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| n.spawn(move |_| client(address, number as u8)))
                .collect::<parcae::Result<_>>()?;
            let echoed =
                clients.into_iter().map(TaskHandle::join).sum::<parcae::Result<usize>>()?;
            stop.cancel();
            Ok(echoed)
        })
    })?;
    println!("{CLIENTS} clients, {echoed} bytes came back");
    Ok(())
}

/// Serves connections until the token is cancelled.
fn serve(cx: &Cx, listener: &TcpListener, stop: &CancelToken) -> parcae::Result<()> {
    let served = cx.nursery_with(NurseryOpts::new().token(stop), |n| {
        for stream in listener.incoming() {
            let stream = stream?; // an error when the token is cancelled
            n.spawn(move |_| echo(stream))?;
        }
        Ok(())
    });
    served.or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })
}

fn echo(mut stream: TcpStream) -> parcae::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let length = stream.read(&mut buffer)?; // parks the task
        if length == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..length])?;
    }
}

fn client(address: SocketAddr, number: u8) -> parcae::Result<usize> {
    let mut stream = TcpStream::connect(address)?;
    let mut answer = [0; 64];
    for _ in 0..ROUNDS {
        stream.write_all(&[number; 64])?;
        stream.read_exact(&mut answer)?;
        assert_eq!(answer, [number; 64]);
    }
    Ok(ROUNDS * answer.len())
}
