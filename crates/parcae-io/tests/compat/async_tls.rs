//! TLS in async code: futures against futures, against calls that wait, and under hyper.

use super::tls::{acceptor, connector};
use super::*;
use futures_lite::future::zip;
use futures_lite::io::{AsyncReadExt, AsyncWriteExt, split};
use parcae_io::compat::Async;
use parcae_io::tls::{TlsStream, rustls};
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

type Secured = Async<TlsStream<TcpStream>>;

/// Both ends of a connection by TLS, made by two futures: the client's, the server's.
fn secured(cx: &Cx) -> parcae::Result<(Secured, Secured)> {
    let (client, server) = connected()?;
    cx.nursery(|n| {
        let server = n.spawn_future(async move { Ok(acceptor().accept_async(server).await?) })?;
        let client = n.spawn_future(async move {
            let connector = connector(); // lives as long as the future that borrows it
            Ok(connector.connect_async("localhost", client).await?)
        })?;
        Ok((client.join()?, server.join()?))
    })
}

/// Each end writes more than all buffers hold, and reads meanwhile.
#[test]
fn both_sides_write_at_once() {
    everywhere(5, |rt| {
        rt.run(|cx| {
            let (client, server) = secured(cx)?;
            cx.nursery(|n| {
                for stream in [client, server] {
                    n.spawn_future(async move {
                        let (mut reader, mut writer) = split(stream);
                        let (sent, mut got) = (pattern(200_000), Vec::new());
                        let write = async {
                            writer.write_all(&sent).await?;
                            writer.close().await
                        };
                        let (read, written) = zip(reader.read_to_end(&mut got), write).await;
                        read?;
                        written?;
                        assert!(got == sent);
                        Ok(())
                    })?;
                }
                Ok(())
            })
        })
    });
}

/// A stream whose handshake was made by a call goes on in a future, and answers such a stream.
#[test]
fn one_side_waits_in_calls() {
    everywhere(5, |rt| {
        rt.run(|cx| {
            let (client, server) = connected()?;
            cx.nursery(|n| {
                n.spawn(move |_| {
                    let mut stream = acceptor().accept(server)?.into_async();
                    n.spawn_future(async move {
                        let mut word = [0; 100];
                        loop {
                            match stream.read(&mut word).await? {
                                0 => return Ok(stream.close().await?),
                                length => stream.write_all(&word[..length]).await?,
                            }
                        }
                    })?;
                    Ok(())
                })?;
                let mut stream = connector().connect("localhost", client)?;
                let mut got = Vec::new();
                for number in 0..20 {
                    stream.write_all(&pattern(number * 50))?;
                    let mut back = vec![0; number * 50];
                    stream.read_exact(&mut back)?;
                    assert_eq!(back, pattern(number * 50));
                }
                stream.close()?;
                assert_eq!(stream.read_to_end(&mut got)?, 0); // it has said that there is no more
                Ok(())
            })
        })
    });
}

/// A future that only reads tells its peer why it ends.
#[test]
fn a_reader_sends_its_alert() {
    everywhere(5, |rt| {
        rt.run(|cx| {
            let (client, server) = connected()?;
            cx.nursery(|n| {
                n.spawn_future(async move {
                    let error = match acceptor().accept_async(server).await {
                        Ok(mut stream) => stream.read(&mut [0; 10]).await.unwrap_err(),
                        Err(error) => error, // it came with the end of the handshake
                    };
                    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
                    Ok(())
                })?;
                let mut stream = connector().connect("localhost", client)?;
                // A record that its keys have not made.
                (&mut stream.get_ref())
                    .write_all(&[[23, 3, 3, 0, 20].as_slice(), &[9; 20]].concat())?;
                let error = stream.read(&mut [0; 10]).unwrap_err();
                let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
                assert!(matches!(cause, Some(rustls::Error::AlertReceived(_))), "{error:?}");
                Ok(())
            })
        })
    });
}

#[test]
fn the_end_of_a_stream_is_told_from_a_cut() {
    everywhere(5, |rt| {
        rt.run(|cx| {
            for says_so in [true, false] {
                // A client would have to read the tickets of the server.
                let (mut client, mut server) = secured(cx)?;
                cx.nursery(|n| {
                    n.spawn_future(async move {
                        server.write_all(b"all").await?;
                        if says_so {
                            server.close().await?;
                        }
                        Ok(())
                    })?;
                    n.spawn_future(async move {
                        let mut got = Vec::new();
                        let end = client.read_to_end(&mut got).await;
                        let end = end.map_err(|error| error.kind());
                        let expected = if says_so { Ok(3) } else { Err(ErrorKind::UnexpectedEof) };
                        assert_eq!((end, &got[..]), (expected, &b"all"[..]));
                        Ok(())
                    })?;
                    Ok(())
                })?;
            }
            Ok(())
        })
    });
}

#[test]
fn a_silent_client_is_given_up() {
    everywhere(5, |rt| {
        rt.run(|_| {
            let (client, server) = connected()?;
            let patient = acceptor().handshake_timeout(Duration::from_millis(30));
            let accepted = parcae::block_on(std::pin::pin!(patient.accept_async(server)))?;
            let error = accepted.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            drop(client);
            Ok(())
        })
    });
}

/// hyper's HTTP/2 by TLS, agreed on by ALPN.
#[test]
fn curl_speaks_http2_to_it() {
    let Some(curl) = hyper::curl_with_http2() else { return };
    let rt = Runtime::builder().workers(2).build().unwrap();
    let output = rt.run(|cx| {
        let (listener, address) = listener()?;
        cx.nursery(|n| {
            n.spawn(move |_| {
                let acceptor = tls::acceptor_for(&[b"h2"]);
                for stream in listener.incoming() {
                    let (stream, acceptor) = (stream?, acceptor.clone());
                    n.spawn_future(async move {
                        let stream = acceptor.accept_async(stream).await?;
                        assert_eq!(stream.get_ref().alpn_protocol().as_deref(), Some(&b"h2"[..]));
                        hyper::serve(stream, parcae_io::compat::hyper::NurseryExecutor::new(n))
                            .await
                    })?;
                }
                Ok(())
            })?;
            let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compat/tls/ca.pem");
            let output = parcae::blocking(|| {
                std::process::Command::new(&curl)
                    .args(["--http2", "-sS", "--max-time", "60", "-d", "ping"])
                    .args(["--cacert", authority, "-w", " %{http_version}"])
                    .arg(format!("https://localhost:{}/from/curl", address.port()))
                    .output()
            })??;
            n.wind_down();
            Ok(output)
        })
    });
    let output = output.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "/from/curl:ping 2", "{output:?}");
}
