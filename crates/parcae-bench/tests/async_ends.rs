//! Tokio and Parcae in one program: channels and handles connect them, and no thread is blocked.

use parcae::channel::{channel, oneshot};
use parcae::prelude::*;
use std::time::Duration;

/// A tokio runtime with one thread: a call that blocked it would stop everything on it.
fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

/// Many async clients ask one task; each question carries the way of its answer.
#[test]
fn async_code_asks_a_task() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    for capacity in [0, 4] {
        let (questions, asked) = channel::<(u64, parcae::channel::OneSender<u64>)>(capacity);
        let server = rt.spawn(move |_| {
            let mut served = 0;
            for question in &asked {
                let (number, answer) = question?;
                answer.send(2 * number)?;
                served += 1;
            }
            Ok(served)
        });
        let server = server.unwrap();
        tokio().block_on(async {
            let mut clients = tokio::task::JoinSet::new();
            for client in 0..50 {
                let questions = questions.clone();
                clients.spawn(async move {
                    for i in 0..20 {
                        let (answer, answered) = oneshot();
                        questions.send_async((client + i, answer)).await.unwrap();
                        assert_eq!(answered.recv_async().await.unwrap(), 2 * (client + i));
                    }
                });
            }
            drop(questions);
            while let Some(ended) = clients.join_next().await {
                ended.unwrap();
            }
            assert_eq!(server.await.unwrap(), 1_000); // a root task is a future
        });
    }
}

/// `tokio::select!` and `timeout` drop futures that are not ready: no value is lost with them.
#[test]
fn a_timeout_of_tokio_loses_no_value() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (tx, rx) = channel(0);
    let sender = rt.spawn(move |cx| {
        for i in 0..200_u64 {
            if i % 16 == 0 {
                cx.sleep(Duration::from_millis(1))?;
            }
            tx.send(i)?;
        }
        Ok(())
    });
    let got = tokio().block_on(async {
        let mut got = Vec::new();
        loop {
            match tokio::time::timeout(Duration::from_micros(200), rx.recv_async()).await {
                Ok(Ok(value)) => got.push(value),
                Ok(Err(_)) => break got, // closed
                Err(_) => {}             // dropped, and tried again
            }
        }
    });
    assert_eq!(got, (0..200).collect::<Vec<_>>());
    sender.unwrap().join().unwrap();
}

/// Tokio's tasks on several threads talk to each other through Parcae's channel.
#[test]
fn both_ends_are_async() {
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (tx, rx) = channel(1);
    threads.block_on(async move {
        let sender = tokio::spawn(async move {
            for i in 0..2_000_u64 {
                tx.send_async(i).await.unwrap();
            }
        });
        for i in 0..2_000 {
            assert_eq!(rx.recv_async().await.unwrap(), i);
        }
        assert!(rx.recv_async().await.unwrap_err().is_closed());
        sender.await.unwrap();
    });
}
