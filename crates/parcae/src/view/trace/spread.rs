//! Spreading events that share a reading of the clock over the time until the next reading.
//!
//! The events of a worker between two readings have the stamp of the first one (`sched::events`).
//! Their order is known, their times are not: they are spread evenly. The begin of a turn has the
//! time of the event before it, which ended the previous turn.
//!
//! An event must not come after its effects on other workers, whose stamps are readings. So an
//! event gets the least of
//!
//! - its place between the two readings;
//! - the time of the next event of its worker;
//! - the time of the next event of its task, on whatever worker.
//!
//! The events are visited from the last one to the first, so both times are known. Events are
//! sorted by their stamps, so later ones have stamps that are not lower. Hence no event gets a time
//! below its stamp, times of a worker and of a task do not decrease, and events of one worker or of
//! one task stay in order.

use super::recording::EventBatch;
use crate::sched::events::EventKind;
use crate::sched::events::kind::unpack;
use std::collections::HashMap;

/// A worker, as seen from its last event to its first.
#[derive(Debug, Clone, Copy)]
struct Behind {
    /// Stamp of the events that are being visited, and number of instants among them.
    stamp: u64,
    instants: u64,
    /// The instants that were not visited yet.
    left: u64,
    /// The stamp of the next reading.
    until: u64,
    /// Time of the next event.
    next: u64,
}

/// Whether an event has a time of its own, and not that of the event before it.
fn is_instant(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Start | EventKind::Resume | EventKind::Latched)
}

impl EventBatch {
    /// Gives events that share a stamp times of their own. Sorted before and afterwards.
    pub(super) fn spread(&mut self) {
        let mut instants: HashMap<(Option<usize>, u64), u64> = HashMap::new();
        for words in &self.events {
            if let Some((kind, worker, _)) = unpack(words) {
                *instants.entry((worker, words[0])).or_default() += u64::from(is_instant(kind));
            }
        }
        let mut workers: HashMap<Option<usize>, Behind> = HashMap::new();
        let mut tasks: HashMap<u64, u64> = HashMap::new();
        for words in self.events.iter_mut().rev() {
            let Some((kind, worker, _)) = unpack(words) else { continue };
            let stamp = words[0];
            let behind = workers.entry(worker).or_insert(Behind {
                stamp: u64::MAX,
                instants: 0,
                left: 0,
                until: stamp, // the last reading: nothing is known of the time after it
                next: u64::MAX,
            });
            if behind.stamp != stamp {
                let until = if behind.stamp == u64::MAX { stamp } else { behind.stamp };
                let count = instants.get(&(worker, stamp)).copied().unwrap_or(0);
                *behind = Behind { stamp, instants: count, left: count, until, ..*behind };
            }
            // The first instant is the reading itself.
            let place = behind.left.saturating_sub(1);
            let span = u128::from(behind.until - stamp);
            let offset = span * u128::from(place) / u128::from(behind.instants.max(1));
            let task = tasks.get(&words[2]).copied().unwrap_or(u64::MAX);
            let time = (stamp + offset as u64).min(behind.next).min(task);
            behind.left -= u64::from(is_instant(kind)).min(behind.left);
            behind.next = time;
            if words[2] != 0 {
                tasks.insert(words[2], time);
            }
            words[0] = time;
        }
        self.sort();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::base::rng::Rng;
    use crate::sched::events::Words;
    use crate::sched::events::kind::pack;

    fn event(time: u64, kind: EventKind, worker: usize, task: u64) -> Words {
        pack(time, kind, worker, 0, task, 0)
    }

    fn spread(events: Vec<Words>) -> Vec<Words> {
        let mut batch = EventBatch { events, ..EventBatch::default() };
        batch.sort();
        batch.spread();
        batch.events
    }

    #[test]
    fn turns_between_two_readings_are_spread_evenly() {
        let (yields, resumes) = (EventKind::Yield, EventKind::Resume);
        let times = spread(vec![
            event(100, yields, 0, 1),
            event(100, resumes, 0, 2),
            event(100, yields, 0, 2),
            event(100, resumes, 0, 1),
            event(100, yields, 0, 1),
            event(100, resumes, 0, 2),
            event(100, yields, 0, 2),
            event(100, resumes, 0, 1),
            event(180, yields, 0, 1),
            event(180, resumes, 0, 2),
        ]);
        let times: Vec<u64> = times.iter().map(|words| words[0]).collect();
        assert_eq!(times, [100, 100, 120, 120, 140, 140, 160, 160, 180, 180]);
    }

    #[test]
    fn a_cause_stays_before_its_effect_on_another_worker() {
        let times = spread(vec![
            event(100, EventKind::Spawn, 0, 7),
            event(100, EventKind::Spawn, 0, 8),
            event(100, EventKind::Spawn, 0, 9),
            event(110, EventKind::Steal, 1, 8),
            event(110, EventKind::Start, 1, 8),
            event(400, EventKind::Spawn, 0, 10),
        ]);
        let found: Vec<_> = times.iter().map(|words| (words[2], words[0])).collect();
        assert_eq!(found, [(7, 100), (8, 110), (8, 110), (8, 110), (9, 300), (10, 400)]);
        let kinds: Vec<_> = times.iter().filter_map(unpack).collect();
        assert_eq!(kinds[1].0, EventKind::Spawn, "before the steal");
    }

    /// Orders within workers and within tasks survive, and no time is below its stamp.
    #[test]
    fn random_traces_keep_their_orders() {
        let kinds = [EventKind::Spawn, EventKind::Resume, EventKind::Yield, EventKind::Wake];
        for seed in 0..200 {
            let rng = Rng::new(seed, 0);
            let mut clocks = [0_u64; 3];
            let mut now = 0;
            let mut events = Vec::new();
            for number in 0..200 {
                now += rng.below(10) as u64;
                let worker = rng.below(3);
                if rng.below(3) == 0 {
                    clocks[worker] = now; // a reading
                }
                let kind = kinds[rng.below(kinds.len())];
                let task = 1 + rng.below(5) as u64;
                events.push(pack(clocks[worker], kind, worker, 0, task, number));
            }
            events.sort_by_key(|words| words[0]);
            let after = spread(events.clone());
            assert!(after.is_sorted_by_key(|words| words[0]), "seed {seed}");
            for key in [|words: &Words| words[1] >> 8, |words: &Words| words[2] + (1 << 60)] {
                for one in events.iter().map(key) {
                    let numbers = |all: &[Words]| -> Vec<u64> {
                        all.iter().filter(|words| key(words) == one).map(|w| w[3]).collect()
                    };
                    assert_eq!(numbers(&events), numbers(&after), "seed {seed}");
                }
            }
            for words in &events {
                let same = after.iter().find(|other| other[3] == words[3]).unwrap();
                assert!(same[0] >= words[0], "seed {seed}");
            }
        }
    }
}
