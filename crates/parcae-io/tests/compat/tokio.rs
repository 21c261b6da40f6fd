//! The helper runtime.

use super::*;
use parcae_io::compat;
use std::time::Duration;

#[test]
fn tokios_clock_and_sockets_work_in_children() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    rt.run(|cx| {
        cx.nursery(|n| {
            let exchange = compat::tokio::enter(async {
                ::tokio::time::sleep(Duration::from_millis(1)).await;
                let listener = ::tokio::net::TcpListener::bind("127.0.0.1:0").await?;
                let client = ::tokio::net::TcpStream::connect(listener.local_addr()?).await?;
                let (server, _) = listener.accept().await?;
                client.writable().await?;
                client.try_write(b"hello")?;
                server.readable().await?;
                let mut word = [0; 5];
                assert_eq!(server.try_read(&mut word)?, 5);
                Ok(word)
            })?;
            assert_eq!(&n.spawn_future(exchange)?.join()?, b"hello");
            let there = compat::tokio::spawn(async {
                ::tokio::time::sleep(Duration::from_millis(1)).await;
                std::thread::current().name().map(str::to_owned)
            })?;
            assert_eq!(n.spawn_future(there)?.join()?.as_deref(), Some("parcae-tokio"));
            let panics = compat::tokio::spawn(async { panic!("on purpose") })?;
            let error = n.spawn_future::<(), _>(async move {
                let error = panics.await.unwrap_err();
                assert!(error.to_string().contains("panic"), "{error}");
                Ok(())
            })?;
            error.join()
        })
    })
    .unwrap();
}

#[test]
fn refused_where_it_could_not_be_replayed() {
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let error = rt.run(|_| compat::tokio::handle().map(drop)).unwrap_err();
    assert!(error.to_string().contains("could not be replayed"), "{error}");
}
