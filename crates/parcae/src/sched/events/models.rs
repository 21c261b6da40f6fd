//! Models of the ring: one writer that does not wait, one reader.
//!
//! The hazards: a reader returns an event that is not published yet, or one that was overwritten
//! while it read. Such an event has words of different events, or another number than its position.

use super::*;
use loom::sync::Arc;
use loom::thread;

fn event(n: u64) -> Words {
    [n + 1, n + 1, n + 1, n + 1]
}

/// Reads once beside the writer and once after it. Checks each event, and that every event was seen
/// or counted as lost.
fn run(size: usize, before: u64, events: u64, write: fn(&EventRing, u64)) {
    let ring = Arc::new(EventRing::new(size));
    (0..before).for_each(|n| ring.push(event(n)));
    let writer = {
        let ring = Arc::clone(&ring);
        thread::spawn(move || (before..before + events).for_each(|n| write(&ring, n)))
    };
    let (mut cursor, mut all) = (0, 0);
    let mut look = || {
        let (mut out, from) = (Vec::new(), cursor);
        let lost = ring.read(&mut cursor, &mut out);
        for (at, words) in out.iter().enumerate() {
            assert_eq!(*words, event(from + lost + at as u64), "an event that was never written");
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
        run(1, 1, 2, |ring, n| ring.push(event(n)));
    });
}

/// The same for two events that are written together.
#[test]
fn nothing_is_read_that_two_have_overwritten() {
    crate::base::shim::explore("trace: two overwritten", Some(3), || {
        let (ring, size) = (Arc::new(EventRing::new(2)), 2);
        (0..size).for_each(|n| ring.push(event(n)));
        let writer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.push_two([event(2), event(3)]))
        };
        let (mut cursor, mut out) = (0, Vec::new());
        let lost = ring.read(&mut cursor, &mut out);
        for (at, words) in out.iter().enumerate() {
            assert_eq!(*words, event(lost + at as u64), "an event that was never written");
        }
        writer.join().unwrap();
        assert_eq!(ring.done(), 4);
    });
}

/// Events appear whole: not before they are written.
#[test]
fn nothing_is_read_before_it_is_written() {
    crate::base::shim::explore("trace: written", Some(3), || {
        run(2, 0, 2, |ring, n| ring.push(event(n)));
    });
}

/// A staged event is not seen before its last word is written.
#[test]
fn nothing_is_read_before_it_is_committed() {
    crate::base::shim::explore("trace: staged", Some(3), || {
        run(2, 1, 1, |ring, n| {
            ring.stage([n + 1, n + 1, n + 1, 0]);
            ring.amend(|words| words[3] == 0, n + 1);
            ring.commit();
        });
    });
}
