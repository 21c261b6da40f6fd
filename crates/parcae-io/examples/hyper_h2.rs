//! HTTP/2 by hyper, on children of a nursery: a server and a client in one program, over a real
//! connection, then over the simulated network.
//!
//! ```text
//! cargo run -p parcae-io --features http2 --example hyper_h2
//! ```

use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, client, server};
use parcae::prelude::*;
use parcae_io::compat::hyper::{NurseryExecutor, RuntimeTimer};
use parcae_io::net::{TcpListener, TcpStream};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body of one piece.
struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(Frame::data).map(Ok))
    }
}

async fn greet(request: Request<Incoming>) -> parcae::Result<Response<Whole>> {
    let text = format!("hello from {}", request.uri().path());
    Ok(Response::new(Whole(Some(text.into()))))
}

fn exchange(cx: &Cx, requests: usize) -> parcae::Result<Vec<String>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    cx.nursery(|n| {
        let spawn = NurseryExecutor::new(n); // hyper spawns its streams here
        n.spawn(move |_| {
            let (stream, _) = listener.accept()?; // straight-line code accepts
            n.spawn_future(async move {
                let mut builder = server::conn::http2::Builder::new(spawn);
                builder.timer(RuntimeTimer); // hyper's time limits need one
                let connection = builder.serve_connection(stream.into_async(), service_fn(greet));
                connection.await.map_err(parcae::Error::from)
            })?;
            Ok(())
        })?;
        let stream = TcpStream::connect(address)?.into_async();
        let handshake = client::conn::http2::handshake::<_, _, Whole>(spawn, stream);
        let (sender, connection) = parcae::block_on(handshake)?.map_err(parcae::Error::from)?;
        n.spawn_future(async move { connection.await.map_err(parcae::Error::from) })?;
        // All requests at once, on one connection.
        let answers = cx.nursery(|all| {
            let mut pending = Vec::new();
            for number in 0..requests {
                let mut sender = sender.clone();
                pending.push(all.spawn_future(async move {
                    let request = Request::get(format!("http://localhost/{number}"));
                    let request = request.body(Whole(None)).map_err(parcae::Error::from)?;
                    let answer = sender.send_request(request).await;
                    let mut body = answer.map_err(parcae::Error::from)?.into_body();
                    let mut text = Vec::new();
                    while let Some(frame) =
                        std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context))
                            .await
                    {
                        let frame = frame.map_err(parcae::Error::from)?;
                        text.extend(frame.into_data().unwrap_or_default());
                    }
                    Ok(String::from_utf8_lossy(&text).into_owned())
                })?);
            }
            pending.into_iter().map(TaskHandle::join).collect()
        })?;
        n.wind_down(); // the server waits for further requests
        Ok(answers)
    })
}

fn main() -> parcae::Result<()> {
    let rt = Runtime::builder().workers(2).build()?;
    for answer in rt.run(|cx| exchange(cx, 3))? {
        println!("{answer}");
    }
    let runs = |seed| -> parcae::Result<Vec<u8>> {
        let rt = Runtime::builder().workers(2).deterministic(seed).build()?;
        rt.run(|cx| exchange(cx, 10))?;
        Ok(rt.event_log())
    };
    let same = runs(1)? == runs(1)?;
    println!(
        "simulated, seed 1, twice: the runs are {}",
        if same { "the same" } else { "different" }
    );
    Ok(())
}
