//! Lists: `ready`, reuse, values made on demand, temporaries.

use super::*;
use crate::sync::channel::tests::cancelling::at_every_point;
use crate::sync::channel::{after, tick, watch};
use crate::sync::select::{CaseId, Cases};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn ready_says_which_and_takes_nothing() {
    everywhere(|cx, seed| {
        for capacity in [0, 1] {
            let ((a, a_rx), (b, b_rx)) = (channel::<u8>(capacity), channel(capacity));
            cx.nursery(|n| {
                let b = &b;
                n.spawn(move |cx| {
                    pause(cx, seed % 5)?;
                    Ok(b.send(7)?)
                })?;
                let mut select = Select::new();
                select.recv(&a_rx, drop).recv(&b_rx, drop);
                assert_eq!((select.ready()?, select.ready()?), (1, 1), "it is still there");
                assert_eq!(b_rx.try_recv()?, 7);
                Ok(())
            })?;
            // The same for room.
            if capacity == 1 {
                b.send(1)?;
            }
            cx.nursery(|n| {
                let b_rx = &b_rx;
                n.spawn(move |cx| {
                    pause(cx, seed % 5)?;
                    drop_ok(b_rx.recv()?);
                    Ok(())
                })?;
                let mut slot = Some(2);
                let mut select = Select::new();
                select.recv(&a_rx, drop).offer(&b, &mut slot, |sent| assert!(sent.is_ok()));
                assert_eq!(select.ready()?, 1);
                select.wait()
            })?;
            // And for a close.
            cx.nursery(|n| {
                n.spawn(|cx| {
                    pause(cx, seed % 5)?;
                    a.close();
                    Ok(())
                })?;
                let mut select = Select::new();
                select.recv(&a_rx, |v| assert!(v.unwrap_err().is_closed()));
                assert_eq!(select.ready()?, 0);
                select.wait()
            })?;
            assert_nobody_waits(&a);
            assert_nobody_waits(&b);
        }
        Ok(())
    });
}

fn drop_ok(_: u8) {}

#[test]
fn ready_of_everything_else() {
    everywhere(|cx, seed| {
        let (level, mut watcher) = watch(0);
        let token = CancelToken::new();
        let timer = after(Duration::from_micros(seed % 40));
        cx.nursery(|n| {
            let child = n.spawn(|cx| pause(cx, seed % 4))?;
            let (level, token) = (&level, &token);
            n.spawn(move |cx| {
                pause(cx, seed % 7)?;
                level.set(1);
                token.cancel();
                Ok(())
            })?;
            let mut cases = Cases::new();
            cases.changed(&mut watcher, |v| *v.unwrap() == 1);
            cases.cancelled(token, |_| true);
            cases.ended(&child, |()| true);
            cases.after(&timer, |at| at.is_ok());
            let mut ids = Vec::new();
            while !cases.is_empty() {
                let id = cases.ready()?;
                assert!(cases.try_ready()?.is_some());
                ids.push(id);
                assert!(cases.remove(id) && !cases.remove(id), "once");
            }
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), 4);
            drop(cases);
            assert!(watcher.has_changed() && timer.try_recv().is_ok(), "nothing was taken");
            child.join()
        })
    });
}

#[test]
fn a_wait_until_something_is_ready_cancelled_at_any_point_leaves_nothing() {
    deterministic(100, |cx, seed| {
        at_every_point(seed, |turns| {
            let ((tx, rx), (out, out_rx)) = (channel::<u8>(0), channel::<u8>(0));
            let finished = cx.nursery(|n| {
                let (rx2, out2) = (&rx, &out);
                let victim = n.spawn(move |_| {
                    let mut slot = Some(1);
                    let mut select = Select::new();
                    select.recv(rx2, |_| ()).offer(out2, &mut slot, |_| ());
                    select.ready().map(drop)
                })?;
                n.spawn(|cx| {
                    pause(cx, 6 + seed % 3)?;
                    Ok(tx.send_timeout(5, LONG)?)
                })?;
                pause(cx, turns)?;
                let finished = victim.is_finished();
                victim.cancel();
                let _ = victim.join();
                assert_eq!(rx.recv()?, 5, "whoever watched has not taken it");
                Ok(finished)
            })?;
            assert_nobody_waits(&tx);
            assert_nobody_waits(&out);
            drop(out_rx);
            Ok(finished)
        })
    });
}

#[test]
fn a_list_is_used_again_and_cases_come_and_go() {
    everywhere(|cx, seed| {
        let ((a, a_rx), (b, b_rx), (out, out_rx)) = (channel(2), channel(0), channel(1));
        let made = Cell::new(0);
        cx.nursery(|n| {
            n.spawn(move |cx| {
                for i in 0..6 {
                    pause(cx, (seed + i) % 4)?;
                    a.send(i)?;
                }
                Ok(())
            })?;
            n.spawn(move |_| Ok(b.send_all(10..16).map(drop)?))?;
            let receiver = n.spawn(move |_| out_rx.iter().take(4).sum::<crate::Result<u64>>())?;
            let mut cases: Cases<'_, (usize, Option<u64>)> = Cases::new();
            let make = || {
                made.set(made.get() + 1);
                made.get()
            };
            let mut ids: Vec<CaseId> = vec![
                cases.recv(&a_rx, |v| (0, v.ok())),
                cases.recv(&b_rx, |v| (1, v.ok())),
                cases.send_with(&out, make, |sent| (2, sent.ok().map(|()| 0))),
            ];
            ids.push(cases.timeout(LONG, |()| panic!("out of time")));
            assert_eq!(cases.len(), 4);
            let mut got = [Vec::new(), Vec::new(), Vec::new()];
            while cases.len() > 1 {
                match cases.wait()? {
                    (i, Some(value)) => got[i].push(value),
                    (i, None) => assert!(cases.remove(ids[i]), "closed"),
                }
            }
            assert!(cases.remove(ids[3]) && cases.is_empty());
            assert!(cases.wait().is_err() && cases.try_wait()?.is_none());
            assert_eq!(got[0], Vec::from_iter(0..6));
            assert_eq!(got[1], Vec::from_iter(10..16));
            assert_eq!(receiver.join()?, 1 + 2 + 3 + 4, "one after the other, none left out");
            Ok(())
        })
    });
}

#[test]
fn a_value_is_made_only_if_it_can_be_sent() {
    everywhere(|cx, seed| {
        let ((tx, rx), (_idle, idle_rx)) = (channel(0), channel::<u8>(0));
        let made = AtomicU64::new(0);
        let make = || made.fetch_add(1, Ordering::Relaxed);
        let none = crate::select! {
            send_with(tx, make) -> _ => "sent",
            recv(idle_rx) -> _ => "received",
            timeout(Duration::from_micros(seed % 20)) => "neither",
        }?;
        assert_eq!((none, made.load(Ordering::Relaxed)), ("neither", 0));
        let got = cx.nursery(|n| {
            let receiver = n.spawn(|cx| {
                pause(cx, seed % 5)?;
                Ok(rx.recv()?)
            })?;
            crate::select! {
                send_with(tx, || make() + 40) -> sent => sent?,
                recv(idle_rx) -> _ => panic!("nobody sends"),
            }?;
            receiver.join()
        })?;
        assert_eq!((got, made.load(Ordering::Relaxed)), (40, 1));
        rx.close();
        let error = crate::select! { send_with(tx, || 9) -> sent => sent.unwrap_err() }?;
        assert!(error.is_closed() && error.into_inner() == 9);
        assert_nobody_waits(&tx);
        Ok(())
    });
}

#[test]
fn values_that_are_made_are_sent_once_though_many_send() {
    everywhere(|cx, seed| {
        let (tx, rx) = channel(seed as usize % 2);
        let (made, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let got = cx.nursery(|n| {
            let (made, stop, tx) = (&made, &stop, &tx);
            let mut senders = Vec::new();
            for _ in 0..3 {
                senders.push(n.spawn(move |_| {
                    let mut cases = Cases::new();
                    cases.send_with(
                        tx,
                        || made.fetch_add(1, Ordering::Relaxed),
                        |sent| sent.is_ok(),
                    );
                    let mut sent = 0;
                    while !stop.load(Ordering::Relaxed) {
                        sent += u64::from(cases.wait()?);
                    }
                    Ok(sent)
                })?);
            }
            let mut got = Vec::new();
            for _ in 0..12 {
                got.push(rx.recv()?);
                pause(cx, seed % 3)?;
            }
            stop.store(true, Ordering::Relaxed);
            rx.close();
            let mut sent = 0;
            for sender in senders {
                sent += sender.join()?;
            }
            got.extend(rx.iter().collect::<crate::Result<Vec<_>>>()?);
            assert_eq!(got.len() as u64, sent, "each that was sent is received");
            Ok(got)
        })?;
        let mut unique = got.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), got.len(), "none twice");
        assert_nobody_waits(&tx);
        Ok(())
    });
}

#[test]
fn both_directions_of_one_channel_with_a_value_to_be_made() {
    everywhere(|_, seed| {
        let (tx, rx) = channel(0);
        let own = crate::select! {
            recv(rx) -> _ => "received",
            send_with(tx, || -> u8 { panic!("only this select receives") }) -> _ => "sent",
            timeout(Duration::from_micros(1 + seed % 30)) => "neither",
        }?;
        assert_eq!(own, "neither");
        // In this order the receive registers last, and must not wake the select itself.
        let own = crate::select! {
            biased;
            send_with(tx, || -> u8 { panic!("only this select receives") }) -> _ => "sent",
            recv(rx) -> _ => "received",
            timeout(Duration::from_micros(1 + seed % 30)) => "neither",
        }?;
        assert_eq!(own, "neither");
        assert_nobody_waits(&tx);
        Ok(())
    });
}

#[test]
fn a_closure_that_panics_leaves_nothing_behind() {
    let ((tx, rx), (other, other_rx)) = (channel::<u8>(1), channel::<u8>(0));
    let panics = std::panic::AssertUnwindSafe(|| {
        crate::select! {
            send_with(tx, || std::panic::resume_unwind(Box::new("no value"))) -> _ => (),
            recv(other_rx) -> _ => (),
        }
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_nobody_waits(&tx);
    assert_nobody_waits(&other);
    assert!(rx.is_empty());
}

#[test]
fn operands_may_be_temporaries_and_references() {
    let (tx, rx) = channel(1);
    let senders = std::sync::Mutex::new(vec![tx.clone()]);
    let shared = std::sync::Arc::new(rx.clone());
    let (one, answer) = crate::sync::channel::oneshot();
    crate::select! { send(senders.lock().unwrap()[0], 5) -> sent => sent.unwrap() }.unwrap();
    let got = crate::select! { recv(rx.clone()) -> v => v.unwrap() };
    assert_eq!(got.unwrap(), 5);
    tx.send(6).unwrap();
    assert_eq!(crate::select! { recv(shared) -> v => v.unwrap() }.unwrap(), 6);
    tx.clone().send(7).unwrap();
    assert_eq!(crate::select! { recv(&&rx) -> v => v.unwrap() }.unwrap(), 7);
    one.send(8).unwrap();
    assert_eq!(crate::select! { recv(answer) -> v => v.unwrap() }.unwrap(), 8);
    let late = crate::select! {
        recv(after(Duration::ZERO)) -> at => at.is_ok(),
        recv(tick(LONG)) -> _ => false,
        offer(tx.clone(), &mut None) -> _ => false,
    };
    assert!(late.unwrap());
}
