//! Streams in futures: by their own methods, by `futures-io`, by `tokio::io`.

use super::*;
use futures_lite::future::{or, zip};
use futures_lite::io::{AsyncReadExt as _, AsyncWriteExt as _};
use parcae_io::compat::Async;
use std::time::Duration;

#[test]
fn every_byte_comes_back() {
    everywhere(20, |rt| {
        rt.run(|cx| {
            let (client, server) = connected()?;
            let sent = pattern(300_000);
            cx.nursery(|n| {
                n.spawn_future(async move {
                    let mut server = server.into_async();
                    let mut buffer = [0; 4096];
                    loop {
                        let length = server.read(&mut buffer).await?;
                        if length == 0 {
                            return Ok(());
                        }
                        server.write_all(&buffer[..length]).await?;
                    }
                })?;
                let sent = &sent;
                // Both directions at once, polled by one task, with the traits of `futures-io`.
                n.spawn_future(async move {
                    let client = client.into_async();
                    let (mut reader, mut writer) = futures_lite::io::split(client);
                    let mut got = vec![0; sent.len()];
                    let write = async {
                        writer.write_all(sent).await?;
                        writer.flush().await
                    };
                    let (read, written) = zip(reader.read_exact(&mut got), write).await;
                    read?;
                    written?;
                    assert!(got == *sent);
                    writer.close().await?;
                    assert_eq!(reader.read(&mut got).await?, 0);
                    Ok(())
                })?;
                Ok(())
            })
        })
    });
}

#[test]
fn unix_streams_and_tokios_traits() {
    everywhere(10, |rt| {
        rt.run(|cx| {
            let (left, right) = parcae_io::net::UnixStream::pair()?;
            cx.nursery(|n| {
                n.spawn_future(async move {
                    let mut left = Async::new(left);
                    let text = pattern(40_000);
                    let mut sent = 0;
                    while sent < text.len() {
                        sent += poll_write(&mut left, &text[sent..]).await?;
                    }
                    let mut left = std::pin::Pin::new(&mut left);
                    Ok(std::future::poll_fn(|context| {
                        ::tokio::io::AsyncWrite::poll_shutdown(left.as_mut(), context)
                    })
                    .await?)
                })?;
                n.spawn_future(async move {
                    let mut right = Async::new(right);
                    let mut got = Vec::new();
                    loop {
                        let mut bytes = [0; 1000];
                        let mut buffer = ::tokio::io::ReadBuf::new(&mut bytes);
                        std::future::poll_fn(|context| {
                            let right = std::pin::Pin::new(&mut right);
                            ::tokio::io::AsyncRead::poll_read(right, context, &mut buffer)
                        })
                        .await?;
                        if buffer.filled().is_empty() {
                            break;
                        }
                        got.extend_from_slice(buffer.filled());
                    }
                    assert!(got == pattern(40_000));
                    Ok(())
                })?;
                Ok(())
            })
        })
    });

    async fn poll_write(
        stream: &mut Async<parcae_io::net::UnixStream>,
        bytes: &[u8],
    ) -> std::io::Result<usize> {
        std::future::poll_fn(|context| {
            ::tokio::io::AsyncWrite::poll_write(std::pin::Pin::new(&mut *stream), context, bytes)
        })
        .await
    }
}

#[test]
fn a_read_loses_against_a_timer_and_loses_nothing() {
    everywhere(20, |rt| {
        rt.run(|cx| {
            let (client, server) = connected()?;
            cx.nursery(|n| {
                n.spawn_future(async move {
                    let mut server = server.into_async();
                    let mut word = [0; 5];
                    let slept = async {
                        parcae::time::sleep_async(Duration::from_millis(5)).await.unwrap();
                        None
                    };
                    let read = async { Some(server.read(&mut word).await) };
                    assert!(or(read, slept).await.is_none(), "nothing was sent");
                    server.write_all(b"?").await?;
                    server.read_exact(&mut word).await?;
                    assert_eq!(&word, b"hello");
                    Ok(())
                })?;
                n.spawn(move |_| {
                    use std::io::{Read, Write};
                    let mut question = [0];
                    (&client).read_exact(&mut question)?;
                    Ok((&client).write_all(b"hello")?)
                })?;
                Ok(())
            })
        })
    });
}

#[test]
fn a_cancelled_reader_is_dropped_at_once() {
    everywhere(20, |rt| {
        let outcome = rt.run(|cx| {
            let (client, server) = connected()?;
            cx.nursery(|n| {
                for stream in [client, server] {
                    n.spawn_future(async move {
                        let mut stream = stream.into_async();
                        stream.read(&mut [0; 8]).await?;
                        Ok(())
                    })?;
                }
                cx.sleep(Duration::from_millis(1))?;
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled());
        Ok(())
    });
}

/// The same as a task with a stack: an op and a syscall for each operation, none for a wait.
#[test]
fn operations_are_charged() {
    for threads in [false, true] {
        let budget = Budget { syscalls: 1_000, ..Budget::UNLIMITED };
        let rt = Runtime::builder().workers(1).budget(budget);
        let rt = if threads { rt.build() } else { rt.deterministic(7).build() }.unwrap();
        let spent = rt.run(|cx| {
            let (client, server) = connected()?;
            cx.nursery(|n| {
                let before = n.budget().spent.syscalls;
                let reader = n.spawn_future(async move {
                    let mut server = server.into_async();
                    Ok(server.read(&mut [0; 1]).await?)
                })?;
                let writer = n.spawn_future(async move {
                    parcae::time::sleep_async(Duration::from_millis(1)).await?;
                    Ok(client.into_async().write_all(b"x").await?)
                })?;
                writer.join()?;
                assert_eq!(reader.join()?, 1);
                Ok(n.budget().spent.syscalls - before)
            })
        });
        assert_eq!(spent.unwrap(), 2);
    }
}

#[test]
fn outside_of_tasks_it_says_what_to_do() {
    let (client, _server) = connected().unwrap();
    let mut client = client.into_async();
    let error = parcae::block_on(client.read(&mut [0; 1])).unwrap().unwrap_err();
    assert!(error.to_string().contains("spawn_future"), "{error}");
}

/// Many connections, woken by the poller, on two workers.
#[test]
fn many_futures_echo() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    rt.run(|cx| {
        let (listener, address) = listener()?;
        cx.nursery(|n| {
            n.spawn(move |_| {
                for _ in 0..100 {
                    let (stream, _) = listener.accept()?;
                    n.spawn_future(async move {
                        let mut stream = stream.into_async();
                        let mut buffer = [0; 64];
                        loop {
                            match stream.read(&mut buffer).await? {
                                0 => return Ok(()),
                                length => stream.write_all(&buffer[..length]).await?,
                            }
                        }
                    })?;
                }
                Ok(())
            })?;
            for client in 0..100_u8 {
                let stream = TcpStream::connect(address)?;
                n.spawn_future(async move {
                    let mut stream = stream.into_async();
                    for round in 0..50_u8 {
                        stream.write_all(&[client, round]).await?;
                        let mut answer = [0; 2];
                        stream.read_exact(&mut answer).await?;
                        assert_eq!(answer, [client, round]);
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    })
    .unwrap();
}
