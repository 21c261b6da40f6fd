//! Which case happens: equal chances, `default` only if nothing is possible, `biased`.

use super::*;
use crate::base::rng::Rng;
use crate::sync::channel::unbounded;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3_600);

/// How often each of the channels that have values is chosen, of `times`, under one seed.
fn counts(seed: u64, times: usize, ready: &[bool]) -> Vec<usize> {
    let rt = Runtime::builder().deterministic(seed).build().unwrap();
    let counts = rt.run(|_| {
        let channels: Vec<_> = ready.iter().map(|_| channel(times)).collect();
        for ((tx, _), _) in channels.iter().zip(ready).filter(|(_, ready)| **ready) {
            (0..times).try_for_each(|i| tx.send(i))?;
        }
        let mut counts = vec![0; ready.len()];
        for _ in 0..times {
            let mut select = Select::new();
            for (i, (_, rx)) in channels.iter().enumerate() {
                select.recv(rx, move |_| i);
            }
            counts[select.wait()?] += 1;
        }
        Ok(counts)
    });
    counts.unwrap()
}

#[test]
fn cases_that_are_possible_have_the_same_chance_wherever_they_stand() {
    for (ready, seeds) in [
        (&[false, false, true, true][..], 0..20),
        (&[true, false, false, false, false, false, true], 20..40),
        (&[true, true, false, true], 40..60),
        // More than are kept in place.
        (&[[false; 15].as_slice(), &[true; 2], &[false; 3]].concat(), 60..65),
    ] {
        let possible = ready.iter().filter(|ready| **ready).count();
        for seed in seeds {
            let times = 300 * possible;
            let counts = counts(seed, times, ready);
            for (i, &count) in counts.iter().enumerate() {
                // 300 expected, with a deviation of 15 or so; three quarters of 600 is what in
                // order from a random start gives.
                let fair = if ready[i] { 225..=375 } else { 0..=0 };
                assert!(fair.contains(&count), "seed {seed}: {counts:?} of {ready:?}");
            }
        }
    }
}

#[test]
fn the_same_seed_chooses_the_same() {
    let ready = [false, true, true, false, true];
    assert_eq!(counts(3, 50, &ready), counts(3, 50, &ready));
    assert_ne!(counts(3, 50, &ready), counts(4, 50, &ready));
}

/// Moves a value between channels so that at every moment one of them has one, until it is told to
/// stop.
fn move_around(
    channels: &[(Sender<u8>, Receiver<u8>)],
    stop: &AtomicBool,
    rng: &Rng,
) -> crate::Result<u64> {
    let (mut at, mut moves) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let to = rng.below(channels.len());
        channels[to].0.send(1)?; // before it leaves the other
        // The select may have taken one; it gives it back to the same channel, in which there is
        // another.
        channels[at].1.recv()?;
        (at, moves) = (to, moves + 1);
    }
    Ok(moves)
}

/// Selects with a `default` while a value moves: there is no moment at which that would be true.
fn never_default(channels: &[(Sender<u8>, Receiver<u8>)], watch: bool) -> crate::Result<()> {
    let mut cases = crate::sync::select::Cases::new();
    for (i, (_, rx)) in channels.iter().enumerate() {
        cases.recv(rx, move |_| i);
    }
    if watch {
        assert!(cases.try_ready()?.is_some(), "one was possible at every moment");
        return Ok(());
    }
    let Some(i) = cases.try_wait()? else { panic!("one was possible at every moment") };
    channels[i].0.send(1)?;
    Ok(())
}

/// A value moves between the first and the last of many channels, so that a pass over all cases
/// takes as long as several moves.
fn long_storm(cx: &Cx, rounds: usize) -> crate::Result<()> {
    let channels: Vec<_> = (0..90).map(|_| unbounded()).collect();
    let ends = [channels[0].clone(), channels[89].clone()];
    let stop = AtomicBool::new(false);
    ends[0].0.send(1)?;
    cx.nursery(|n| {
        let mover = n.spawn(|_| move_around(&ends, &stop, &Rng::new(1, 1)))?;
        for _ in 0..rounds {
            never_default(&channels, true)?;
        }
        stop.store(true, Ordering::Relaxed);
        mover.join().map(drop)
    })
}

/// Two values that move, so that one is there while the select has taken the other.
fn storm(cx: &Cx, seed: u64, count: usize, rounds: usize) -> crate::Result<()> {
    let channels: Vec<_> = (0..count).map(|_| unbounded()).collect();
    let (stop, moves) = (AtomicBool::new(false), AtomicU64::new(0));
    channels[0].0.send(1)?;
    cx.nursery(|n| {
        let mover = n.spawn(|_| move_around(&channels, &stop, &Rng::new(seed, 1)))?;
        for round in 0..rounds {
            never_default(&channels, (round + seed as usize).is_multiple_of(2))?;
            pause(cx, seed % 2)?;
        }
        stop.store(true, Ordering::Relaxed);
        moves.store(mover.join()?, Ordering::Relaxed);
        Ok(())
    })
}

#[test]
fn default_happens_only_if_no_case_was_possible() {
    crate::support::explored(0..200, |rt| rt.run(|cx| storm(cx, 1, 2, 20))).unwrap();
    crate::support::explored(0..100, |rt| rt.run(|cx| storm(cx, 2, 8, 20))).unwrap();
}

#[test]
fn default_happens_only_if_no_case_was_possible_on_threads() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    for seed in 0..20 {
        rt.run(|cx| storm(cx, seed, if seed % 2 == 0 { 2 } else { 8 }, 300)).unwrap();
    }
    rt.run(|cx| long_storm(cx, 2_000)).unwrap();
}

#[test]
fn default_and_all_kinds_of_cases() {
    everywhere(|cx, _| {
        let ((tx, rx), (full, _full_rx)) = (channel::<u8>(1), channel::<u8>(0));
        let token = CancelToken::new();
        let (news, mut sub) = crate::sync::channel::broadcast(2);
        let timer = crate::sync::channel::after(LONG);
        let mut slot = Some(1);
        cx.nursery(|n| {
            let child = n.spawn(|cx| cx.sleep(LONG))?;
            for _ in 0..2 {
                let none = crate::select! {
                    recv(rx) -> _ => "recv",
                    offer(full, &mut slot) -> _ => "offer",
                    next(sub) -> _ => "next",
                    cancelled(token) => "token",
                    ended(child) => "child",
                    recv(timer) -> _ => "timer",
                    timeout(Duration::ZERO) => "timeout",
                    default => "none",
                }?;
                assert_eq!((none, slot), ("none", Some(1)));
            }
            assert_nobody_waits(&tx);
            assert_nobody_waits(&full);
            token.cancel();
            news.send(1)?;
            for _ in 0..2 {
                let found = crate::select! { recv(rx) -> _ => "recv", cancelled(token) => "token", default => "none" }?;
                assert_eq!(found, "token");
            }
            let found = crate::select! {
                recv(rx) -> _ => "recv",
                send(full, 1) -> _ => "send",
                next(sub) -> _ => "next",
                default => "none",
            }?;
            assert_eq!(found, "next");
            child.cancel();
            assert!(child.join().unwrap_err().is_cancelled());
            Ok(())
        })
    });
}

#[test]
fn two_selects_with_a_default_may_meet_and_lose_nothing() {
    everywhere(|cx, seed| {
        let (a, b) = (channel(0), channel(0));
        let (sent, got) = (AtomicU64::new(0), AtomicU64::new(0));
        cx.nursery(|n| {
            let (a, b, sent, got) = (&a, &b, &sent, &got);
            n.spawn(move |cx| {
                for i in 0..30 {
                    crate::select! {
                        send(a.0, i) -> _ => sent.fetch_add(1 + i, Ordering::Relaxed),
                        recv(b.1) -> v => got.fetch_add(1 + v?, Ordering::Relaxed),
                        default => 0,
                    }?;
                    pause(cx, (seed + i) % 3)?;
                }
                Ok(())
            })?;
            n.spawn(move |cx| {
                for i in 0..30 {
                    crate::select! {
                        recv(a.1) -> v => got.fetch_add(1 + v?, Ordering::Relaxed),
                        send(b.0, i) -> _ => sent.fetch_add(1 + i, Ordering::Relaxed),
                        default => 0,
                    }?;
                    pause(cx, (seed / 3 + i) % 3)?;
                }
                Ok(())
            })?;
            Ok(())
        })?;
        assert_eq!(sent.into_inner(), got.into_inner());
        assert_nobody_waits(&a.0);
        assert_nobody_waits(&b.0);
        Ok(())
    });
}

#[test]
fn with_a_bias_the_first_that_is_possible_happens() {
    everywhere(|_, _| {
        let channels = [(); 3].map(|()| channel(100));
        let (_, idle) = (&channels[0].0, &channels[0].1);
        for (tx, _) in &channels[1..] {
            tx.send_all(0..50)?;
        }
        for _ in 0..20 {
            let first = crate::select! {
                biased;
                recv(idle) -> _ => 0,
                recv(channels[1].1) -> _ => 1,
                recv(channels[2].1) -> _ => 2,
                default => 3,
            }?;
            assert_eq!(first, 1);
            let mut list = Select::new().biased();
            list.recv(idle, |_| 0).recv(&channels[2].1, |_| 2).recv(&channels[1].1, |_| 1);
            assert_eq!(list.wait()?, 2);
        }
        Ok(())
    });
}

/// A case that is impossible when it is looked at, and has become possible when it is registered:
/// as a value that moves from one channel to another, always ahead of the looks.
struct Elusive<'l> {
    was_registered: &'l std::cell::Cell<bool>,
}

impl Case for Elusive<'_> {
    fn attempt(&mut self, _: &Payer<'_>) -> bool {
        self.was_registered.get()
    }

    fn is_possible(&mut self) -> bool {
        self.was_registered.get()
    }

    fn register(&mut self, _: &Round<'_>) -> bool {
        self.was_registered.set(true);
        false
    }

    fn unregister(&mut self) {}

    fn conclude(&mut self, _: &Payer<'_>) -> bool {
        true
    }

    fn is_fleeting(&self) -> bool {
        true
    }
}

/// The case that happens if no other one is possible.
struct Otherwise;

impl Case for Otherwise {
    fn attempt(&mut self, _: &Payer<'_>) -> bool {
        false
    }

    fn is_possible(&mut self) -> bool {
        false
    }

    fn register(&mut self, _: &Round<'_>) -> bool {
        true
    }

    fn unregister(&mut self) {}

    fn conclude(&mut self, _: &Payer<'_>) -> bool {
        true
    }

    fn is_default(&self) -> bool {
        true
    }
}

#[test]
fn default_waits_for_a_second_look_at_fleeting_cases() {
    let was_registered = std::cell::Cell::new(false);
    let mut elusive = [0, 1].map(|_| Elusive { was_registered: &was_registered });
    let [first, second] = &mut elusive;
    let chosen = run_biased(&mut [first, second, &mut Otherwise]).unwrap();
    assert_eq!(chosen, 0, "one of them was possible at every moment");
}
