//! HTTP/2 by hyper, on children without a stack.

use super::*;
use ::hyper::body::{Body, Bytes, Frame, Incoming};
use ::hyper::{Request, Response, client, server, service::service_fn};
use parcae_io::compat::hyper::{NurseryExecutor, RuntimeTimer};
use parcae_io::compat::{Async, PolledStream};
use std::convert::Infallible;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Poll};
use std::time::Duration;

/// A body of one piece.
struct Whole(Option<Bytes>);

impl Whole {
    fn new(bytes: impl Into<Bytes>) -> Whole {
        Whole(Some(bytes.into()))
    }
}

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().filter(|bytes| !bytes.is_empty()).map(Frame::data).map(Ok))
    }
}

/// All bytes of a body.
async fn collect(mut body: Incoming) -> parcae::Result<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(frame) =
        std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
    {
        let frame = frame.map_err(parcae::Error::from)?;
        if let Ok(data) = frame.into_data() {
            all.extend_from_slice(&data);
        }
    }
    Ok(all)
}

/// Answers with the path and the body of the request.
async fn answer(request: Request<Incoming>) -> parcae::Result<Response<Whole>> {
    let path = request.uri().path().to_owned();
    if path == "/slow" {
        parcae::time::sleep_async(Duration::from_millis(20)).await?;
    }
    let body = collect(request.into_body()).await?;
    Ok(Response::new(Whole::new([path.as_bytes(), b":", &body].concat())))
}

/// Serves one connection, as a child.
pub(crate) async fn serve<S: PolledStream + Send + Unpin>(
    stream: Async<S>,
    spawn: NurseryExecutor<'_, '_, parcae::profile::Service>,
) -> parcae::Result<()> {
    let mut builder = server::conn::http2::Builder::new(spawn);
    builder.timer(RuntimeTimer).auto_date_header(false);
    let connection = builder.serve_connection(stream, service_fn(answer));
    connection.await.map_err(parcae::Error::from)
}

#[test]
fn requests_over_one_connection() {
    everywhere(10, |rt| {
        rt.run(|cx| {
            let (client, server) = connected()?;
            cx.nursery(|n| {
                let spawn = NurseryExecutor::new(n);
                n.spawn_future(serve(server.into_async(), spawn))?;
                let handshake = client::conn::http2::Builder::new(spawn)
                    .timer(RuntimeTimer)
                    .handshake::<_, Whole>(client.into_async());
                let (sender, connection) =
                    parcae::block_on(handshake)?.map_err(parcae::Error::from)?;
                n.spawn_future(async move { connection.await.map_err(parcae::Error::from) })?;
                cx.nursery(|requests| {
                    for number in 0..20 {
                        let mut sender = sender.clone();
                        requests.spawn_future(async move {
                            let path = if number % 5 == 0 { "/slow" } else { "/quick" };
                            let body = pattern(number * 1_000);
                            let request = Request::post(format!("http://localhost{path}"));
                            let request = request.body(Whole::new(body.clone())).unwrap();
                            let answer = sender.send_request(request).await;
                            let answer = answer.map_err(parcae::Error::from)?;
                            assert_eq!(answer.status(), 200);
                            let got = collect(answer.into_body()).await?;
                            assert!(got == [path.as_bytes(), b":", &body].concat());
                            Ok(())
                        })?;
                    }
                    Ok(())
                })?;
                drop(sender);
                n.wind_down(); // the server's side waits for further requests
                Ok(())
            })
        })
    });
}

/// The same requests take the same course, from the same seed.
#[test]
fn a_run_is_replayed_from_its_seed() {
    let run = |seed| {
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        rt.run(|cx| {
            let (client, server) = connected()?;
            cx.nursery(|n| {
                let spawn = NurseryExecutor::new(n);
                n.spawn_future(serve(server.into_async(), spawn))?;
                let handshake = client::conn::http2::Builder::new(spawn)
                    .handshake::<_, Whole>(client.into_async());
                let (mut sender, connection) =
                    parcae::block_on(handshake)?.map_err(parcae::Error::from)?;
                n.spawn_future(async move { connection.await.map_err(parcae::Error::from) })?;
                for _ in 0..3 {
                    let request = Request::get("http://localhost/x").body(Whole::new("")).unwrap();
                    let answer = parcae::block_on(sender.send_request(request))?;
                    assert!(answer.is_ok());
                }
                n.wind_down();
                Ok(())
            })
        })
        .unwrap();
        rt.event_log()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

/// `curl`, if it is installed and knows HTTP/2.
pub(crate) fn curl_with_http2() -> Option<std::path::PathBuf> {
    let curl = tool("curl")?;
    let version = Command::new(&curl).arg("--version").output().unwrap();
    if !String::from_utf8_lossy(&version.stdout).contains("HTTP2") {
        println!("skipped: curl without HTTP/2");
        return None;
    }
    Some(curl)
}

#[test]
fn curl_speaks_to_it() {
    let Some(curl) = curl_with_http2() else { return };
    let rt = Runtime::builder().workers(2).build().unwrap();
    let output = rt.run(|cx| {
        let (listener, address) = listener()?;
        cx.nursery(|n| {
            let spawn = NurseryExecutor::new(n);
            n.spawn(move |_| {
                for stream in listener.incoming() {
                    n.spawn_future(serve(stream?.into_async(), spawn))?;
                }
                Ok(())
            })?;
            let output = parcae::blocking(|| {
                Command::new(&curl)
                    .args(["--http2-prior-knowledge", "-sS", "--max-time", "20", "-d", "ping"])
                    .args(["-w", " %{http_version}"])
                    .arg(format!("http://{address}/from/curl"))
                    .output()
            })??;
            n.wind_down();
            Ok(output)
        })
    });
    let output = output.unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(text, "/from/curl:ping 2", "{errors}");
}
