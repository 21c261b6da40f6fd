//! Models of the ring: one writer that does not wait, one reader.
//!
//! The hazards: a reader returns an event that is not published yet, or one that was overwritten
//! while it read. Such an event has words of different events, or another number than its position.
//!
//! A block has room for three words. `push` begins a block for each event; an event of one word can
//! be appended to it.

use super::*;
use loom::sync::Arc;
use loom::thread;

/// An event of three words.
fn event(n: u64) -> Words {
    pack(n, EventKind::Steal, 0, n + 1, n + 1, n + 1)
}

/// Reads once beside the writer and once after it. Checks each event, and that every event was seen
/// or counted as lost.
fn run(blocks: usize, before: u64, events: u64, write: fn(&EventRing, u64), of: fn(u64) -> Words) {
    let ring = Arc::new(EventRing::with_blocks(0, 1, blocks));
    (0..before).for_each(|n| write(&ring, n));
    let writer = {
        let ring = Arc::clone(&ring);
        thread::spawn(move || (before..before + events).for_each(|n| write(&ring, n)))
    };
    let (mut cursor, mut all) = (RingCursor::default(), 0);
    let mut look = || {
        let (mut out, from) = (Vec::new(), cursor.events);
        let lost = ring.read(&mut cursor, usize::MAX, &mut out);
        for (at, words) in out.iter().enumerate() {
            assert_eq!(*words, of(from + lost + at as u64), "an event that was never written");
        }
        all += lost + out.len() as u64;
    };
    look();
    writer.join().unwrap();
    look();
    assert_eq!(all, before + events);
}

/// A reader that the writer overtakes discards the overwritten events.
#[test]
fn nothing_is_read_that_was_overwritten() {
    crate::base::shim::explore("trace: overwritten", Some(3), || {
        run(1, 1, 1, |ring, n| ring.push(event(n)), event);
    });
}

/// The same with a block in between, which stays.
#[test]
fn nothing_is_read_of_an_overwritten_block() {
    crate::base::shim::explore("trace: block overwritten", Some(3), || {
        run(2, 2, 1, |ring, n| ring.push(event(n)), event);
    });
}

/// Events appear whole: not before they are written.
#[test]
fn nothing_is_read_before_it_is_written() {
    crate::base::shim::explore("trace: written", Some(3), || {
        run(2, 0, 2, |ring, n| ring.push(event(n)), event);
    });
}

/// The same for events that are appended to a block, some of them by the fast path.
#[test]
fn nothing_is_read_before_it_is_appended() {
    fn spawn(n: u64) -> Words {
        pack(7, EventKind::Spawn, 0, 0, n + 1, 0)
    }
    fn write(ring: &EventRing, n: u64) {
        if !ring.spawned(n + 1, 0) {
            ring.push(spawn(n));
            ring.share(0, u64::MAX);
        }
    }
    crate::base::shim::explore("trace: appended", Some(3), || run(2, 1, 2, write, spawn));
}

/// A start is not seen before its origin is known.
#[test]
fn no_start_is_read_without_its_origin() {
    fn start(n: u64) -> Words {
        pack(n, EventKind::Start, 0, 0, n + 1, n + 1)
    }
    crate::base::shim::explore("trace: staged", Some(3), || {
        let write = |ring: &EventRing, n| {
            ring.stage(n, n + 1);
            ring.originate(n + 1, n + 1, 0);
        };
        run(4, 1, 1, write, start); // a start takes two blocks: none is overwritten
    });
}
