//! Timers under loom: each fires once, and the timer thread does not oversleep.
//! Run: `.ci/run loom`.

use super::deadlines::{NEVER, Rest, SharedWheel};
use super::thread::Horizon;
use crate::base::shim::cell::UnsafeCell;
use crate::base::shim::explore;
use crate::base::time::Nanos;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// The target of a timer: memory of the thread that armed it, which may use it freely once it has
/// disarmed the timer itself. Loom reports an access that is not ordered.
struct Place(UnsafeCell<usize>);

// SAFETY: accesses are exclusive, which the models check.
unsafe impl Sync for Place {}
// SAFETY: as above.
unsafe impl Send for Place {}

impl Place {
    fn new() -> Arc<Place> {
        Arc::new(Place(UnsafeCell::new(0)))
    }

    fn bump(&self) {
        // SAFETY: accesses are exclusive, which the models check.
        self.0.with_mut(|count| unsafe { *count += 1 });
    }
}

/// A timer fires while it is disarmed: one of the two has it, and only that one touches its target.
#[test]
fn fire_against_take_back() {
    explore("time::fire_against_take_back", None, || {
        let ring = Arc::new(SharedWheel::new(1));
        let place = Place::new();
        let (entry, _) = ring.insert(5, Arc::clone(&place));
        let firing = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut fired = 0;
                ring.fire(5, usize::MAX, |place: Arc<Place>| {
                    place.bump();
                    fired += 1;
                });
                fired
            })
        };
        let taken_back = ring.remove(entry).is_some();
        if taken_back {
            place.bump(); // ours again
        }
        let fired = firing.join().unwrap();
        assert_eq!(fired + usize::from(taken_back), 1, "a timer acts once or is taken back");
        assert_eq!(ring.next(), NEVER);
        place.bump();
    });
}

/// A timer fires while its task wakes up and looks whether it has: a timer that was seen to have
/// left the wheel fires, and one that was not is taken back or fires.
#[test]
fn fire_against_a_look_at_what_has_fired() {
    explore("time::fire_against_a_look_at_what_has_fired", None, || {
        let ring = Arc::new(SharedWheel::new(1));
        let (entry, _) = ring.insert(5, ());
        let firing = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut fired = 0;
                ring.fire(4, usize::MAX, |()| fired += 1);
                ring.fire(9, usize::MAX, |()| fired += 1);
                fired
            })
        };
        let seen = ring.has_taken(entry);
        let taken_back = ring.remove(entry).is_some();
        assert!(!(seen && taken_back), "a timer that was seen to have left is still in the wheel");
        let fired = firing.join().unwrap();
        assert_eq!(fired + usize::from(taken_back), 1, "a timer acts once or is taken back");
        assert!(ring.has_taken(entry), "all before the ninth tick are gone");
    });
}

/// A worker and the timer thread fire the same wheel, and its node is reused meanwhile: each timer
/// fires once, and disarming the first does not disarm the second.
#[test]
fn two_fire_while_a_node_is_reused() {
    explore("time::two_fire_while_a_node_is_reused", Some(3), || {
        let ring = Arc::new(SharedWheel::new(1));
        let acted = Arc::new(AtomicUsize::new(0));
        let (first, _) = ring.insert(5, 1_usize);
        let fire = |ring: &SharedWheel<usize>, acted: &AtomicUsize| {
            ring.fire(9, usize::MAX, |what| {
                acted.fetch_add(what, Ordering::Relaxed);
            })
        };
        let other = {
            let (ring, acted) = (Arc::clone(&ring), Arc::clone(&acted));
            thread::spawn(move || fire(&ring, &acted))
        };
        assert_eq!(fire(&ring, &acted), Rest::Nothing);
        ring.insert(7, 10);
        assert!(ring.remove(first).is_none(), "the first has fired: this is another");
        assert_eq!(other.join().unwrap(), Rest::Nothing);
        fire(&ring, &acted);
        assert_eq!(acted.load(Ordering::Relaxed), 11);
    });
}

/// A timer thread that checks and falls asleep while a timer is armed. Returns the end of its
/// sleep.
fn fall_asleep(horizon: &Horizon, ring: &SharedWheel<()>) -> Nanos {
    loop {
        if let Some(until) = horizon.sleep(4, || ring.overdue(0)) {
            return until;
        }
    }
}

/// A timer is armed while the thread falls asleep: it sleeps no longer, or is unparked.
// rule: S4-SLEEP-5
#[test]
fn set_against_sleep() {
    explore("time::set_against_sleep", None, || {
        let (ring, horizon) = (Arc::new(SharedWheel::new(1)), Arc::new(Horizon::new()));
        // It sleeps for a deadline that was disarmed, and passes.
        assert_eq!(horizon.sleep(0, || 3), Some(3));
        let watch = {
            let (ring, horizon) = (Arc::clone(&ring), Arc::clone(&horizon));
            thread::spawn(move || fall_asleep(&horizon, &ring))
        };
        let (_, is_first) = ring.insert(5, ());
        let told = is_first && horizon.must_tell(ring.next());
        let until = watch.join().unwrap();
        assert!(told || until <= 5, "the watch oversleeps");
    });
}

/// Two threads arm timers in two wheels while the timer thread falls asleep.
#[test]
fn two_set_against_sleep() {
    explore("time::two_set_against_sleep", Some(3), || {
        let rings = Arc::new([SharedWheel::new(1), SharedWheel::new(1)]);
        let horizon = Arc::new(Horizon::new());
        let set = |ring: &SharedWheel<()>, horizon: &Horizon, at| {
            let (_, is_first) = ring.insert(at, ());
            is_first && horizon.must_tell(ring.next())
        };
        let setter = {
            let (rings, horizon) = (Arc::clone(&rings), Arc::clone(&horizon));
            thread::spawn(move || set(&rings[0], &horizon, 5))
        };
        let watch = {
            let (rings, horizon) = (Arc::clone(&rings), Arc::clone(&horizon));
            thread::spawn(move || {
                loop {
                    let overdue = || rings[0].overdue(0).min(rings[1].overdue(0));
                    if let Some(until) = horizon.sleep(4, overdue) {
                        return until;
                    }
                }
            })
        };
        let told = set(&rings[1], &horizon, 7);
        let told = setter.join().unwrap() | told;
        assert!(told || watch.join().unwrap() <= 5, "the watch oversleeps");
    });
}

/// Timeouts that are disarmed at once do not unpark the thread again and again.
#[test]
fn what_was_told_is_kept() {
    explore("time::what_was_told_is_kept", None, || {
        let (ring, horizon) = (SharedWheel::new(1), Horizon::new());
        let mut told = 0;
        for at in 100..110 {
            let (entry, _) = ring.insert(at, ());
            told += usize::from(horizon.must_tell(ring.next()));
            ring.remove(entry);
            assert_eq!(horizon.sleep(5, || ring.overdue(0)), Some(100));
        }
        assert_eq!(told, 1);
        assert_eq!(horizon.sleep(100, || ring.overdue(0)), Some(NEVER));
    });
}
