//! HTTP by TLS: against itself, against `curl`, and with clients that do not keep to it.

use super::tls::{acceptor, connector, connector_for};
use super::*;
use parcae_io::http::{Client, Limits, Outgoing, Response, Server};
use std::io::{Read, Write};
use std::time::Duration;

/// Serves while the body runs, and stops.
fn with_server(
    rt: &Runtime,
    limits: Limits,
    body: impl FnOnce(&Cx, SocketAddr) -> parcae::Result<()> + Send,
) -> parcae::Result<()> {
    rt.run(|cx| {
        let ((listener, address), stop) = (listener()?, CancelToken::new());
        cx.nursery(|n| {
            n.spawn(|cx| {
                let server = Server::new().limits(limits);
                server.serve_tls(cx, &listener, &acceptor(), &stop, |_, request| {
                    let length = request.bytes()?.len();
                    assert!(request.with_tls(|tls| tls.is_handshaking()) == Some(false));
                    Ok(match request.path() {
                        "/stream" => {
                            Response::new(200).stream(std::io::Cursor::new(vec![7; 50_000]))
                        }
                        path => Response::text(format!("{path} {length}")),
                    })
                })
            })?;
            let outcome = body(cx, address);
            stop.cancel();
            outcome
        })
    })
}

fn url(address: SocketAddr, path: &str) -> String {
    format!("https://localhost:{}{path}", address.port())
}

#[test]
fn requests_and_bodies() {
    everywhere(5, |rt| {
        with_server(rt, Limits::default(), |_, address| {
            let client = Client::new().tls(connector());
            for round in 0..3 {
                let answer = client.get(&url(address, "/one"))?;
                assert_eq!((answer.status(), answer.text()), (200, Some("/one 0")), "{round}");
            }
            let post = Outgoing::new("POST", &url(address, "/two")).body(pattern(40_000));
            assert_eq!(client.send(&post)?.text(), Some("/two 40000"));
            assert_eq!(client.get(&url(address, "/stream"))?.body(), vec![7; 50_000]);
            Ok(())
        })
    });
}

/// Connections that wait for a request, and those that have not made their handshake, end at once.
#[test]
fn idle_connections_end_when_the_server_drains() {
    everywhere(5, |rt| {
        let now = || rt.run(|_| Ok(parcae::time::now()));
        let (client, mut silent) = (Client::new().tls(connector()), None);
        let before = now()?;
        with_server(rt, Limits::default(), |cx, address| {
            assert_eq!(client.get(&url(address, "/kept"))?.status(), 200);
            silent = Some(TcpStream::connect(address)?);
            cx.sleep(Duration::from_millis(20))
        })?;
        assert!(now()? - before < Limits::default().drain_time);
        Ok(())
    });
}

/// A kept connection that the server has closed meanwhile is replaced without an error.
#[test]
fn a_connection_that_the_server_has_closed_is_replaced() {
    everywhere(5, |rt| {
        let mut limits = Limits::default();
        limits.idle_time = Duration::from_millis(20);
        with_server(rt, limits, |_, address| {
            let client = Client::new().tls(connector());
            for _ in 0..3 {
                assert_eq!(client.get(&url(address, "/"))?.status(), 200);
                parcae::time::sleep(Duration::from_millis(60))?;
            }
            Ok(())
        })
    });
}

/// A client that sends a record byte by byte does not put the limit of a head off.
#[test]
fn a_record_that_never_ends_is_given_up() {
    everywhere(5, |rt| {
        let mut limits = Limits::default();
        limits.idle_time = Duration::from_millis(60);
        with_server(rt, limits, |cx, address| {
            let stream = connector().connect("localhost", TcpStream::connect(address)?)?;
            // The head of a record of 8 KiB, then its bytes, one at a time, for ever.
            (&mut stream.get_ref()).write_all(&[23, 3, 3, 32, 0])?;
            let mut sent = 0;
            while sent < 1_000 && (&mut stream.get_ref()).write_all(&[1]).is_ok() {
                sent += 1;
                cx.sleep(Duration::from_millis(5))?;
            }
            assert!(sent < 1_000, "the server waits for it still");
            Ok(())
        })
    });
}

#[test]
fn what_cannot_be_secured_is_an_error() {
    everywhere(3, |rt| {
        with_server(rt, Limits::default(), |_, address| {
            let text = url(address, "/");
            let error = Client::new().get(&text).unwrap_err();
            assert!(error.to_string().contains("Client::tls"), "{error}");
            let client = Client::new().tls(connector());
            // The authority is not known to this one.
            let error = Client::new().tls(connector_for(b"")).get(&text).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{error}");
            // Without TLS the server is not served: its alert, or the end.
            assert!(client.get(&format!("http://{address}/")).is_err());
            // Others are.
            assert_eq!(client.get(&text)?.status(), 200);
            Ok(())
        })
    });
}

/// An answer without a length that is cut is no shorter answer.
#[test]
fn an_answer_that_is_cut_is_an_error() {
    everywhere(5, |rt| {
        for says_so in [true, false] {
            rt.run(|cx| {
                let (listener, address) = listener()?;
                cx.nursery(|n| {
                    n.spawn(move |_| {
                        let mut stream = acceptor().accept(listener.accept()?.0)?;
                        let mut head = Vec::new();
                        while !head.ends_with(b"\r\n\r\n") {
                            let mut byte = [0; 1];
                            stream.read_exact(&mut byte)?;
                            head.push(byte[0]);
                        }
                        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf")?;
                        match says_so {
                            true => Ok(stream.close()?),
                            false => Ok(stream.get_ref().shutdown(std::net::Shutdown::Write)?),
                        }
                    })?;
                    let answer = Client::new().tls(connector()).get(&url(address, "/"));
                    assert_eq!(answer.is_ok(), says_so, "{answer:?}");
                    Ok(())
                })
            })?;
        }
        Ok(())
    });
}

#[test]
fn curl_speaks_to_it() {
    let Some(curl) = tool("curl") else { return };
    let rt = Runtime::builder().workers(2).build().unwrap();
    with_server(&rt, Limits::default(), |_, address| {
        let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compat/tls/ca.pem");
        let urls = [url(address, "/a"), url(address, "/b")];
        let output = parcae::blocking(|| {
            std::process::Command::new(&curl)
                .args(["--silent", "--show-error", "--max-time", "60", "--http1.1"])
                .args(["--cacert", authority, "--data", "four"])
                .args(&urls)
                .output()
        })??;
        assert_eq!(String::from_utf8_lossy(&output.stdout), "/a 4/b 4", "{output:?}");
        Ok(())
    })
    .unwrap();
}
