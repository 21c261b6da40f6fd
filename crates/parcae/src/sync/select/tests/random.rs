//! Selects against selects, sends, receives, cancels and timeouts: one case each, no value lost, no
//! waiter left behind.

use super::*;
use crate::base::rng::Rng;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

#[test]
fn a_select_cancelled_at_any_point_has_no_effect() {
    deterministic(150, |cx, seed| {
        for turns in 0..200 {
            let ((a, a_rx), (b, b_rx)) = (channel(0), channel(1));
            let finished = cx.nursery(|n| {
                let got = std::sync::Arc::new(Mutex::new(Vec::new()));
                let (mine, a_in, b_in) = (std::sync::Arc::clone(&got), a_rx.clone(), b_rx.clone());
                let victim = n.spawn(move |_| {
                    for _ in 0..4 {
                        let outcome = crate::select! {
                            recv(a_in) -> v => v,
                            recv(b_in) -> v => v,
                        };
                        match outcome {
                            Ok(Ok(value)) => mine.lock().unwrap().push(value),
                            Ok(Err(error)) => {
                                assert!(error.is_closed());
                                break;
                            }
                            Err(error) => {
                                assert!(error.is_cancelled());
                                break;
                            }
                        }
                    }
                    Ok(())
                })?;
                let (a2, b2) = (a.clone(), b.clone());
                n.spawn(move |_| (0..3).try_for_each(|i| Ok(a2.send(i)?)))?;
                n.spawn(move |_| (10..13).try_for_each(|i| Ok(b2.send(i)?)))?;
                pause(cx, turns + seed % 3)?;
                let finished = victim.is_finished();
                victim.cancel();
                let _ = victim.join();
                // The rest is still there.
                let mut all = std::mem::take(&mut *got.lock().unwrap());
                while all.len() < 6 {
                    crate::select! {
                        recv(a_rx) -> v => all.push(v?),
                        recv(b_rx) -> v => all.push(v?),
                    }?;
                }
                assert!(all.iter().filter(|&&v| v < 10).is_sorted());
                all.sort_unstable();
                assert_eq!(all, [0, 1, 2, 10, 11, 12]);
                Ok(finished)
            })?;
            assert_nobody_waits(&a);
            assert_nobody_waits(&b);
            if finished {
                return Ok(());
            }
        }
        panic!("it never ended by itself");
    });
}

/// Tasks that select over sends to some channels and receives from others.
fn mix(cx: &Cx, seed: u64) -> crate::Result<()> {
    let rng = Rng::new(seed, 99);
    let channels: Vec<_> =
        (0..3).map(|_| channel::<(u64, u64)>([0, 0, 1, 2][rng.below(4)])).collect();
    let (sent, got) = (Mutex::new(BTreeSet::new()), Mutex::new(Vec::new()));
    let tasks = 2 + rng.below(4) as u64;
    let cancels = rng.below(3);
    let outcome = cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
        let mut handles = Vec::new();
        for task in 0..tasks {
            let (channels, sent, got) = (&channels, &sent, &got);
            handles.push(n.spawn(move |cx| {
                let rng = Rng::new(seed, task);
                for number in 0..10 {
                    let mut slot = Some((task, number));
                    let send_to = rng.below(3);
                    let mut select = Select::new();
                    let value = (task, number);
                    for (i, (_, rx)) in channels.iter().enumerate() {
                        if i != send_to && rng.below(3) > 0 {
                            select.recv(rx, |v| {
                                if let Ok(v) = v {
                                    got.lock().unwrap().push(v);
                                }
                            });
                        }
                    }
                    select.offer(&channels[send_to].0, &mut slot, |r| {
                        if r.is_ok() {
                            sent.lock().unwrap().insert(value);
                        }
                    });
                    select.timeout(Duration::from_micros(rng.below(60) as u64), |()| {});
                    select.wait()?;
                    let was_sent = sent.lock().unwrap().contains(&value);
                    assert_eq!(slot.is_some(), !was_sent, "here or there");
                    pause(cx, rng.below(3) as u64)?;
                }
                Ok(())
            })?);
        }
        for _ in 0..cancels {
            pause(cx, rng.below(10) as u64)?;
            handles.swap_remove(rng.below(handles.len())).cancel();
            if handles.is_empty() {
                break;
            }
        }
        Ok(())
    });
    match outcome {
        Err(error) if !error.is_cancelled() => return Err(error),
        _ => {}
    }
    let mut got = got.into_inner().unwrap();
    for (tx, rx) in &channels {
        assert_nobody_waits(tx);
        while let Ok(value) = rx.try_recv() {
            got.push(value);
        }
    }
    let (sent, count) = (sent.into_inner().unwrap(), got.len());
    assert_eq!(BTreeSet::from_iter(got), sent);
    assert_eq!(count, sent.len(), "none twice");
    Ok(())
}

// rule: S4-SELECT-2
#[test]
fn selects_against_selects_lose_nothing() {
    deterministic(1_000, mix);
}

#[test]
fn selects_against_selects_lose_nothing_on_threads() {
    threads(100, mix);
}

#[test]
fn threads_select_against_tasks() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let ((a, a_rx), (b, b_rx)) = (channel::<u64>(0), channel::<u64>(2));
    std::thread::scope(|s| {
        let thread = s.spawn(move || {
            let (mut got, mut open) = (Vec::new(), 2);
            while open > 0 {
                let value = crate::select! {
                    recv(a_rx) -> v => v,
                    recv(b_rx) -> v => v,
                    timeout(Duration::from_micros(20)) => continue,
                };
                match value.unwrap() {
                    Ok(value) => got.push(value),
                    // Each closed channel goes on being possible: the other must not starve.
                    Err(_) if a_rx.is_closed() && b_rx.is_closed() => {
                        open = usize::from(!a_rx.is_empty()) + usize::from(!b_rx.is_empty());
                    }
                    Err(_) => {}
                }
            }
            got
        });
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(move |_| (0..200).try_for_each(|i| Ok(a.send(i)?)))?;
                n.spawn(move |_| (200..400).try_for_each(|i| Ok(b.send(i)?)))?;
                Ok(())
            })
        })
        .unwrap();
        let mut got = thread.join().unwrap();
        got.sort_unstable();
        assert_eq!(got, Vec::from_iter(0..400));
    });
}
