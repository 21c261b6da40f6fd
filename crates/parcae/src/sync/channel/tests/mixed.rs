//! Tasks at one end and plain threads at the other, and threads at both.

use super::*;
use std::time::Duration;

// rule: S4-KIND-1
#[test]
fn threads_alone() {
    for capacity in [0, 1, 7] {
        let (tx, rx) = channel::<u64>(capacity);
        std::thread::scope(|s| {
            for _ in 0..3 {
                let tx = tx.clone();
                s.spawn(move || (0..500).for_each(|i| tx.send(i).unwrap()));
            }
            drop(tx);
            let counts = [(); 2].map(|()| {
                let rx = rx.clone();
                s.spawn(move || rx.iter().map(Result::unwrap).sum::<u64>())
            });
            let sum: u64 = counts.into_iter().map(|count| count.join().unwrap()).sum();
            assert_eq!(sum, 3 * (0..500).sum::<u64>());
        });
    }
}

#[test]
fn a_thread_sends_and_tasks_receive() {
    for workers in [1, 2] {
        let rt = Runtime::builder().workers(workers).build().unwrap();
        for capacity in [0, 1, 16] {
            let (tx, rx) = channel::<u64>(capacity);
            let sum = std::thread::scope(|s| {
                s.spawn(move || (0..300).for_each(|i| tx.send(i).unwrap()));
                rt.run(|cx| {
                    cx.nursery(|n| {
                        let rx = &rx;
                        let tasks =
                            [(); 3].map(|()| n.spawn(move |_| rx.iter().sum::<Result<u64>>()));
                        let mut sum = 0;
                        for task in tasks {
                            sum += task?.join()?;
                        }
                        Ok(sum)
                    })
                })
            });
            assert_eq!(sum.unwrap(), (0..300).sum::<u64>());
        }
    }
}

// rule: S4-KIND-1
#[test]
fn tasks_send_and_a_thread_receives() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    for capacity in [0, 1, 16] {
        let (tx, rx) = channel::<u64>(capacity);
        std::thread::scope(|s| {
            let thread = s.spawn(move || rx.iter().map(Result::unwrap).collect::<Vec<_>>());
            rt.run(|cx| {
                cx.nursery(|n| {
                    for task in 0..3 {
                        let tx = tx.clone();
                        n.spawn(move |_| (0..100).try_for_each(|i| Ok(tx.send(task * 100 + i)?)))?;
                    }
                    Ok(())
                })
            })
            .unwrap();
            drop(tx);
            let mut got = thread.join().unwrap();
            for task in 0..3 {
                let of_task = got.iter().filter(|&&value| value / 100 == task);
                assert!(of_task.is_sorted(), "FIFO for each sender");
            }
            got.sort_unstable();
            assert_eq!(got, Vec::from_iter(0..300));
        });
    }
}

// rule: S4-CHAN-2
#[test]
fn two_runtimes_talk() {
    let (left, right) = (Runtime::builder().build().unwrap(), Runtime::builder().build().unwrap());
    let ((to_right, from_left), (to_left, from_right)) = (channel::<u32>(0), channel::<u32>(0));
    std::thread::scope(|s| {
        s.spawn(|| {
            right.run(|_| {
                for value in from_left {
                    to_left.send(value? + 1)?;
                }
                Ok(())
            })
        });
        left.run(|_| {
            for i in 0..200 {
                to_right.send(i)?;
                assert_eq!(from_right.recv()?, i + 1);
            }
            drop(to_right);
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn timeouts_of_threads_against_tasks() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (tx, rx) = channel::<u64>(0);
    std::thread::scope(|s| {
        let thread = s.spawn(move || {
            let mut got = Vec::new();
            loop {
                match rx.recv_timeout(Duration::from_micros(1 + got.len() as u64 % 50)) {
                    Ok(value) => got.push(value),
                    Err(error) if error.is_timeout() => {}
                    Err(_) => return got,
                }
            }
        });
        rt.run(|_| {
            for i in 0..300 {
                let (mut value, mut time) = (i, i % 70);
                while let Err(error) = tx.send_timeout(value, Duration::from_micros(time)) {
                    value = error.into_inner();
                    time += 1; // in the end they meet
                }
            }
            Ok(())
        })
        .unwrap();
        drop(tx);
        assert_eq!(thread.join().unwrap(), Vec::from_iter(0..300));
    });
}
