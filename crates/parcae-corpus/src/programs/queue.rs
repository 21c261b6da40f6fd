//! `queue`: flags on a ring buffer, read without its lock.
//!
//! The buffer has flags for "there is room" and "there is something", so that the lock need not be
//! taken in vain. A producer that saw room writes under the lock without looking again.
//!
//! Order that shows it: two producers see the last place. Kind: atomicity. Tasks: 3.

use crate::atomic::{AtomicBool, Ordering::Relaxed};
use parcae::prelude::*;
use parcae::sync::{Condvar, Mutex};
use parcae::{Result, Runtime};

const PLACES: usize = 2;
const PRODUCERS: usize = 2;
const EACH: usize = 2;

#[derive(Default)]
struct Ring {
    places: [Option<usize>; PLACES],
    written: usize,
    read: usize,
}

impl Ring {
    fn is_full(&self) -> bool {
        self.written - self.read >= PLACES
    }

    fn put(&mut self, item: usize) {
        let old = self.places[self.written % PLACES].replace(item);
        assert_eq!(old, None, "an item was overwritten");
        self.written += 1;
    }

    fn take(&mut self) -> Option<usize> {
        let item = self.places[self.read % PLACES].take()?;
        self.read += 1;
        Some(item)
    }
}

struct Queue {
    ring: Mutex<Ring>,
    changed: Condvar,
    has_room: AtomicBool,
    has_items: AtomicBool,
}

impl Queue {
    fn note(&self, ring: &Ring) {
        self.has_room.store(!ring.is_full(), Relaxed);
        self.has_items.store(ring.written > ring.read, Relaxed);
        self.changed.notify_all();
    }

    fn put_by_flag(&self, item: usize, cx: &Cx) -> Result<()> {
        while !self.has_room.load(Relaxed) {
            cx.yield_now()?;
        }
        let mut ring = self.ring.lock()?;
        ring.put(item);
        self.note(&ring);
        Ok(())
    }

    fn put_by_lock(&self, item: usize, _: &Cx) -> Result<()> {
        let mut ring = self.changed.wait_while(self.ring.lock()?, |ring| ring.is_full())?;
        ring.put(item);
        self.note(&ring);
        Ok(())
    }

    fn take(&self, cx: &Cx) -> Result<usize> {
        while !self.has_items.load(Relaxed) {
            cx.yield_now()?;
        }
        let mut ring = self.ring.lock()?;
        let item = ring.take().expect("there is one consumer");
        self.note(&ring);
        Ok(item)
    }
}

fn run(rt: &Runtime, put: fn(&Queue, usize, &Cx) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let queue = Queue {
            ring: Mutex::default(),
            changed: Condvar::new(),
            has_room: AtomicBool::new(true),
            has_items: AtomicBool::new(false),
        };
        let queue = &queue;
        cx.nursery(|n| {
            for producer in 0..PRODUCERS {
                n.spawn(move |cx| (0..EACH).try_for_each(|i| put(queue, producer * EACH + i, cx)))?;
            }
            n.spawn(move |cx| {
                let mut sum = 0;
                for _ in 0..PRODUCERS * EACH {
                    sum += queue.take(cx)?;
                }
                assert_eq!(sum, (0..PRODUCERS * EACH).sum::<usize>());
                Ok(())
            })?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Queue::put_by_flag)
}

/// The flag is not trusted: the producer waits under the lock.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Queue::put_by_lock)
}
