//! Cases for tasks that end, deadlines, broadcasts and what is watched.

use super::*;
use crate::base::rng::Rng;
use crate::sync::channel::tests::cancelling::at_every_point;
use crate::sync::channel::{broadcast, watch};
use crate::{Budget, time};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn the_first_task_to_end_wins_and_is_joined_without_waiting() {
    everywhere(|cx, seed| {
        cx.nursery(|n| {
            let mut racers = Vec::new();
            for lane in 0..4 {
                let turns = Rng::new(seed, lane).below(6) as u64;
                racers.push(n.spawn(move |cx| pause(cx, turns).map(|()| lane))?);
            }
            let mut order = Vec::new();
            while !racers.is_empty() {
                let mut select = Select::new();
                for (at, racer) in racers.iter().enumerate() {
                    select.ended(racer, move |()| at);
                }
                let at = select.wait()?;
                let Ok(lane) = racers.swap_remove(at).try_join() else { panic!("not ended") };
                order.push(lane?);
            }
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3]);
            Ok(())
        })
    });
}

#[test]
fn root_tasks_are_selected_by_tasks_and_threads() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let handle = rt.handle();
    for i in 0..50 {
        let (quick, slow) = (
            handle.spawn(move |cx| pause(cx, i % 5).map(|()| i)).unwrap(),
            handle.spawn(|cx| cx.sleep(LONG)).unwrap(),
        );
        let wait = || {
            crate::select! {
                ended(quick) => "quick",
                ended(slow) => "slow",
                timeout(LONG) => "none",
            }
        };
        let winner = if i % 2 == 0 { wait() } else { rt.run(|_| wait()) };
        assert_eq!(winner.unwrap(), "quick");
        let Ok(value) = quick.try_join() else { panic!("not ended") };
        assert_eq!(value.unwrap(), i);
        let slow = slow.join_timeout(Duration::ZERO).unwrap_err();
        slow.cancel();
        assert!(slow.join().unwrap_err().is_cancelled());
    }
}

#[test]
fn deadlines_are_points_in_time_of_the_one_who_waits() {
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    rt.run(|_| {
        let (_tx, rx) = channel::<u8>(0);
        let start = time::now();
        for minute in 1..=3 {
            let at = start + minute * Duration::from_secs(60);
            let late = crate::select! {
                recv(rx) -> _ => false,
                deadline(at) => true,
                deadline(start + LONG) => false,
                timeout(LONG) => false,
            }?;
            assert!(late && time::now() >= at && time::now() < at + Duration::from_secs(1));
        }
        // One that has passed yields to what is possible, as a timeout does.
        let (tx, rx) = channel(1);
        tx.send(1)?;
        let got = crate::select! { recv(rx) -> v => v?, deadline(start) => 0 }?;
        let none = crate::select! { recv(rx) -> v => v?, deadline(start) => 0 }?;
        assert_eq!((got, none), (1, 0));
        Ok(())
    })
    .unwrap();
    let passed = crate::select! { deadline(time::now() + Duration::from_millis(1)) => 5 };
    assert_eq!(passed.unwrap(), 5);
}

#[test]
fn broadcasts_and_changes_are_seen_and_closed_ones_are_possible() {
    everywhere(|cx, seed| {
        let (tx, mut rx) = broadcast(2);
        let (level, mut watcher) = watch(0);
        let nothing = crate::select! {
            next(rx) -> _ => "value",
            changed(watcher) -> _ => "change",
            default => "nothing",
        }?;
        assert_eq!(nothing, "nothing");
        cx.nursery(|n| {
            n.spawn(move |cx| {
                for i in 0..5 {
                    pause(cx, (seed + i) % 4)?;
                    tx.send(i)?;
                }
                Ok(())
            })?;
            n.spawn(move |cx| {
                for i in 1..=5 {
                    pause(cx, (seed / 4 + i) % 4)?;
                    level.set(i);
                }
                Ok(())
            })?;
            let (mut seen, mut newest, mut open) = (0, 0, [true, true]);
            while open != [false, false] {
                // A closed one stays possible: it is left out.
                let mut select = Select::new();
                if open[0] {
                    select.next(&mut rx, |v| (0, v.map(Some)));
                }
                if open[1] {
                    select.changed(&mut watcher, |v| (1, v.map(|v| Some(*v))));
                }
                match select.wait()? {
                    (0, Ok(value)) => {
                        assert_eq!(value, Some(seen));
                        seen += 1;
                    }
                    (0, Err(error)) => match error.missed() {
                        Some(missed) => seen += missed,
                        None => open[0] = false,
                    },
                    (_, Ok(value)) => {
                        assert!(value > Some(newest));
                        newest = value.unwrap_or_default();
                    }
                    (_, Err(error)) => {
                        assert!(error.is_closed());
                        open[1] = false;
                    }
                }
            }
            assert_eq!((seen, newest), (5, 5), "the last of each is not missed");
            Ok(())
        })
    });
}

#[test]
fn only_what_happened_is_charged() {
    let budget = Budget { channel_ops: 100, ..Budget::UNLIMITED };
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    rt.run_with(SpawnOpts::new().budget(budget), |cx| {
        let (level, mut watcher) = watch(0);
        let left = || cx.budget().channel_ops;
        let few = Budget { channel_ops: 3, ..Budget::UNLIMITED };
        cx.nursery_with(NurseryOpts::new().budget(few), |n| {
            let child = n.spawn(|_| Ok(()))?;
            crate::select! { ended(child) => (), changed(watcher) -> _ => panic!("it has not") }?;
            child.join()
        })?;
        crate::select! { changed(watcher) -> _ => (), timeout(LONG) => () }?;
        assert_eq!(left(), 100);
        level.set(1);
        crate::select! { changed(watcher) -> v => assert_eq!(*v?, 1) }?;
        assert_eq!(left(), 99);
        drop(level);
        crate::select! { changed(watcher) -> v => assert!(v.is_err()) }?;
        assert_eq!(left(), 99);
        Ok(())
    })
    .unwrap();
}

/// A select over all kinds of cases, cancelled at each of its wait points: what it did not take is
/// still there.
// rule: S4-SELECT-2
#[test]
fn a_select_of_all_kinds_cancelled_at_any_point_has_no_effect() {
    deterministic(150, |cx, seed| {
        at_every_point(seed, |turns| {
            let ((tx, rx), (out, out_rx)) = (channel(0), channel(0));
            let ((news, mut sub), (level, mut watcher)) = (broadcast(8), watch(0));
            let got = std::sync::Mutex::new((0, 0, 0, 0));
            let finished = cx.nursery(|n| {
                let (got, rx, out) = (&got, &rx, &out);
                let child = n.spawn(|cx| pause(cx, 4).map(|()| 9))?;
                let victim = n.spawn(move |_| {
                    let mut child = Some(child);
                    for _ in 0..5 {
                        let mut ended = false;
                        let mut select = Select::new();
                        select.recv(rx, |v| got.lock().unwrap().0 += v.unwrap());
                        select.send(out, 10, |r| got.lock().unwrap().1 += r.map_or(0, |()| 10));
                        select.next(&mut sub, |v| got.lock().unwrap().2 += v.unwrap_or(0));
                        select.changed(&mut watcher, |v| {
                            got.lock().unwrap().3 += v.map_or(0, |v| *v);
                        });
                        if let Some(child) = &child {
                            select.ended(child, |()| ended = true);
                        }
                        select.deadline(time::now() + LONG, |()| ());
                        select.wait()?;
                        if ended {
                            let Some(Ok(value)) = child.take().map(TaskHandle::try_join) else {
                                panic!("not ended")
                            };
                            assert_eq!(value?, 9);
                        }
                    }
                    Ok(())
                })?;
                let sender = n.spawn(|_| Ok(tx.send_timeout(1, LONG).is_ok()))?;
                let receiver = n.spawn(|_| Ok(out_rx.recv_timeout(LONG).unwrap_or(0)))?;
                n.spawn(move |cx| {
                    cx.yield_now()?;
                    news.send(100)?;
                    level.set(1_000);
                    Ok(())
                })?;
                pause(cx, turns)?;
                let finished = victim.is_finished();
                victim.cancel();
                let _ = victim.join();
                // Receives the values that were not taken from the sender, and sends those that
                // were not sent.
                let (received, sent, news, change) = *got.lock().unwrap();
                let rest = if received == 0 { rx.recv()? } else { 0 };
                if sent == 0 {
                    out.send(10)?;
                }
                assert!(sender.join()? && received + rest == 1, "once");
                assert_eq!(receiver.join()?, 10);
                assert!(matches!((news, change), (0 | 100, 0 | 1_000)), "each once at most");
                Ok(finished)
            })?;
            assert_nobody_waits(&tx);
            assert_nobody_waits(&out);
            Ok(finished)
        })
    });
}
