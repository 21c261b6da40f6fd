//! One writer, one reader: order, loss, staged starts.

use super::*;
use crate::base::rng::Rng;
use std::sync::atomic::{AtomicBool, Ordering};

const WORKER: usize = 3;

/// An event of three words, whose parts all tell its number.
fn event(n: u64) -> Words {
    pack(n, EventKind::Steal, WORKER, n & 0xffff, n ^ 0xff, !n)
}

fn read(ring: &EventRing, cursor: &mut RingCursor) -> (u64, Vec<Words>) {
    let mut out = Vec::new();
    (ring.read(cursor, usize::MAX, &mut out), out)
}

#[test]
fn the_last_events_are_kept_and_the_rest_is_counted() {
    let ring = EventRing::new(WORKER, 8);
    let mut cursor = RingCursor::default();
    (0..5).for_each(|n| ring.push(event(n)));
    assert_eq!(read(&ring, &mut cursor), (0, (0..5).map(event).collect()));
    assert_eq!(cursor, ring.end());
    (5..200).for_each(|n| ring.push(event(n)));
    let (lost, out) = read(&ring, &mut cursor);
    assert!(out.len() >= 8, "there is room for as many as were asked for");
    assert_eq!(lost + out.len() as u64, 195);
    assert_eq!(out, (5 + lost..200).map(event).collect::<Vec<_>>());
    assert_eq!((cursor, cursor.events), (ring.end(), 200));
    assert_eq!(read(&ring, &mut cursor), (0, Vec::new()));
    (200..210).for_each(|n| ring.push(event(n)));
    let mut out = Vec::new();
    assert_eq!(ring.read(&mut cursor, 4, &mut out), 6, "only the last ones are wanted");
    assert_eq!(out, (206..210).map(event).collect::<Vec<_>>());
}

/// Any number of words per event, and any length of a block.
#[test]
fn as_many_events_as_asked_for_are_kept() {
    for wanted in [1, 2, 8, 64, 100] {
        let ring = EventRing::new(WORKER, wanted);
        for n in 0..500 {
            ring.push(event(n));
            let (_, out) = read(&ring, &mut RingCursor::default());
            assert!(out.len() as u64 >= (n + 1).min(wanted as u64), "{wanted} at {n}");
        }
    }
}

#[test]
fn a_staged_start_is_seen_with_its_origin() {
    let start = |stamp, task, origin| pack(stamp, EventKind::Start, WORKER, 0, task, origin);
    let ring = EventRing::new(WORKER, 64);
    let mut cursor = RingCursor::default();
    ring.push(event(1));
    ring.originate(7, 5, 0); // nothing is staged
    ring.stage(2, 7);
    assert_eq!(read(&ring, &mut cursor).1, [event(1)]);
    ring.originate(8, 5, 0); // another one
    assert!(read(&ring, &mut cursor).1.is_empty());
    ring.share(0, 1000);
    assert!(!ring.spawned(9, 0) && !ring.starts(9), "nothing overtakes it");
    ring.originate(7, 5, 1000);
    assert!(ring.finished() && ring.starts(8));
    ring.originate(8, 5, 0);
    assert!(!ring.finished(), "the stamp is not to be shared");
    let finish = pack(2, EventKind::Finish, WORKER, 0, 7, 0);
    assert_eq!(read(&ring, &mut cursor).1, [start(2, 7, 5), finish, start(2, 8, 5)]);
    ring.stage(3, 10);
    ring.push(event(4));
    assert_eq!(read(&ring, &mut cursor).1, [start(3, 10, 0), event(4)]);
}

/// A recording that begins needs a new stamp, whatever the last one allowed.
#[test]
fn no_stamp_is_shared_with_an_earlier_recording() {
    let ring = EventRing::new(WORKER, 64);
    ring.push(pack(1, EventKind::Resume, WORKER, 0, 5, 0));
    ring.share(4, 1000);
    assert!(!ring.alone(), "another task runs");
    ring.share(5, 1000);
    assert!(ring.spawned(6, 5) && !ring.take_restarted());
    ring.restart();
    assert!(!ring.spawned(7, 5) && !ring.alone() && !ring.switched(6));
    assert!(ring.take_restarted() && !ring.take_restarted());
}

/// Random events, by all paths, read in parts and as a whole: what was written is read.
#[test]
fn all_events_are_read_as_they_were_written() {
    let kinds = [
        EventKind::Spawn,
        EventKind::Start,
        EventKind::Resume,
        EventKind::Yield,
        EventKind::Park,
        EventKind::Wake,
        EventKind::Steal,
        EventKind::Finish,
        EventKind::Sleep,
        EventKind::Alone,
        EventKind::Latched,
        EventKind::Cancel,
    ];
    for seed in 0..300 {
        let rng = Rng::new(seed, 0);
        let ring = EventRing::new(WORKER, 1 << 12);
        let small = EventRing::new(WORKER, 8);
        let (mut cursor, mut read_so_far) = (RingCursor::default(), Vec::new());
        let (mut all, mut now, mut current) = (Vec::new(), rng.below(1 << 20) as u64, 0);
        for _ in 0..1 + rng.below(1000) {
            let task = match rng.below(8) {
                0 => u64::MAX - rng.below(3) as u64, // no such id
                1 => 1 << 63 | rng.below(3) as u64,
                2 => 0xffff << 40 | rng.below(3) as u64,
                _ => 1 + rng.below(4) as u64,
            };
            let about = if rng.below(2) == 0 { current } else { task };
            if rng.below(2) == 0 && packed::fits(task) {
                let stamp = ring.own.stamp.get();
                let of = |kind, task, detail| pack(stamp, kind, WORKER, 0, task, detail);
                let (which, until) = (rng.below(6), ring.position() + rng.below(3) as u64);
                let by = if rng.below(2) == 0 { current } else { task };
                let write = |ring: &EventRing| match which {
                    0 => ring.switched(task),
                    1 => ring.alone(),
                    2 => ring.spawned(task, by),
                    3 => ring.yielded(),
                    4 => ring.resumed(task),
                    _ => ring.finished(),
                };
                ring.share(about, until);
                if write(&ring) {
                    match which {
                        0 => {
                            all.push(of(EventKind::Yield, about, 0));
                            all.push(of(EventKind::Resume, task, 0));
                            current = task;
                        }
                        1 => all.push(of(EventKind::Alone, about, 0)),
                        2 => all.push(of(EventKind::Spawn, task, by)),
                        3 => all.push(of(EventKind::Yield, about, 0)),
                        4 => {
                            all.push(of(EventKind::Resume, task, 0));
                            current = task;
                        }
                        _ => all.push(of(EventKind::Finish, about, 0)),
                    }
                    for event in &all[all.len() - if which == 0 { 2 } else { 1 }..] {
                        small.push(*event);
                    }
                }
                continue;
            }
            now += [0, 1, 1000][rng.below(3)];
            if seed % 10 == 0 && rng.below(200) == 0 {
                now += 1 << 57; // too far for a word
            }
            let kind = kinds[rng.below(kinds.len())];
            let extra = [0, WORKER as u64, (1 << 40) - 1][rng.below(3)];
            let detail = [0, current, 77, u64::MAX][rng.below(4)];
            let event = pack(now, kind, WORKER, extra, about, detail);
            if matches!(kind, EventKind::Start | EventKind::Resume) {
                current = about;
            }
            if kind == EventKind::Start && about != 0 && rng.below(2) == 0 {
                ring.stage(now, about);
                ring.originate(about, detail, 0);
                small.push(pack(now, kind, WORKER, 0, about, detail));
                all.push(pack(now, kind, WORKER, 0, about, detail));
            } else {
                ring.push(event);
                small.push(event);
                all.push(event);
            }
            if rng.below(30) == 0 {
                let (lost, mut part) = read(&ring, &mut cursor);
                assert_eq!((lost, cursor), (0, ring.end()));
                read_so_far.append(&mut part);
                assert_eq!(read_so_far, all, "seed {seed}");
            }
        }
        assert_eq!(read(&ring, &mut RingCursor::default()), (0, all.clone()), "seed {seed}");
        let (lost, last) = read(&small, &mut RingCursor::default());
        assert_eq!(last, all[lost as usize..], "seed {seed}");
    }
}

#[test]
fn a_reader_beside_a_writer_sees_whole_events_in_order() {
    let (ring, stop) = (EventRing::new(WORKER, 16), AtomicBool::new(false));
    std::thread::scope(|s| {
        let writer = s.spawn(|| {
            (0..200_000).for_each(|n| ring.push(event(n)));
            stop.store(true, Ordering::Release);
        });
        let (mut cursor, mut seen, mut lost) = (RingCursor::default(), 0, 0);
        loop {
            let last = stop.load(Ordering::Acquire);
            let before = cursor.events;
            let (gone, out) = read(&ring, &mut cursor);
            for (at, words) in out.iter().enumerate() {
                assert_eq!(*words, event(before + gone + at as u64));
            }
            (seen, lost) = (seen + out.len() as u64, lost + gone);
            if last {
                break;
            }
        }
        writer.join().unwrap();
        assert_eq!(seen + lost, 200_000);
    });
}
