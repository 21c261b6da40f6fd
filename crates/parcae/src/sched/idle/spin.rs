//! The spin policy: how long a worker that found no work spins before it sleeps.
//!
//! Work often arrives within microseconds, and spinning for it is cheaper than a sleep and a
//! wake-up. Spinning for work that comes later is not only wasted: the operating system charges the
//! time to the thread and lets it wait longer after its wake-up (measured on a busy machine: 2 ms
//! until a woken worker ran, in one of a hundred cases). So a worker spins for
//! [`Builder::spin`](crate::runtime::Builder::spin) as long as that pays, and half as long each
//! time that it did not.
//!
//! A pause between two searches grows up to 64 spin-loop hints, since a search takes lines from
//! other caches. A look at the worker's own inboxes takes none, so it comes after every hint.
//!
//! # Two workers that wait for each other
//!
//! Two tasks on two workers that talk to each other can keep both workers asleep: each waits until
//! the other is woken, which takes longer than it spins (30 µs on a virtual machine), although each
//! answers within a microsecond. Two rules lead out of that:
//!
//! - what counts is when the sleeper was *called*, not when it was awake: a worker that was called
//!   soon would have found the work by spinning;
//! - after [`SLEEPS`] sleeps in a row it spins once for [`LONG`] times as long and, if that pays,
//!   up to [`TRIES`] times more. Meanwhile it is awake when the answer of its partner comes,
//!   answers at once, and so teaches the partner that spinning pays. If the waits stay long, it was
//!   not such a pair, and the worker sleeps as before.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Sleeps in a row after which a long spin is tried. Not measured.
const SLEEPS: u32 = 64;
/// How much longer than usual that is: longer than a wake-up takes.
const LONG: u32 = 5;
/// The most long spins in a row.
const TRIES: u32 = 4;

/// State of the policy of one worker. Used by the worker alone.
#[derive(Debug)]
pub(crate) struct SpinPolicy {
    /// The usual time.
    usual: Duration,
    /// The time of the next spin.
    time: Cell<Duration>,
    /// Sleeps since spinning last paid.
    sleeps: Cell<u32>,
    /// Long spins that paid, since a short one did.
    tries: Cell<u32>,
}

impl SpinPolicy {
    pub(crate) fn new(spin: Duration) -> SpinPolicy {
        SpinPolicy { usual: spin, time: Cell::new(spin), sleeps: Cell::new(0), tries: Cell::new(0) }
    }

    /// Begins to spin, for no longer than `most`.
    pub(crate) fn begin(&self, started: Instant, most: Duration) -> Spin {
        Spin { started, time: self.time.get().min(most), pause: 1 }
    }

    /// The spin has found work.
    pub(crate) fn found(&self, spin: &Spin) {
        if spin.pause > 1 {
            self.found_after(spin.started.elapsed());
        }
    }

    fn found_after(&self, after: Duration) {
        if after <= self.usual {
            self.pays();
        } else if self.tries.replace(self.tries.get() + 1) >= TRIES {
            self.time.set(Duration::ZERO);
        }
    }

    /// The worker has slept, and was called so long after it began to spin.
    pub(crate) fn slept(&self, called: Duration) {
        if called < self.usual {
            return self.pays();
        }
        let sleeps = self.sleeps.get() + 1;
        self.sleeps.set(sleeps % SLEEPS);
        if sleeps == SLEEPS {
            self.tries.set(0);
            self.time.set(self.usual * LONG);
        } else {
            self.lessen();
        }
    }

    /// The worker has slept until a deadline of its own: there was no work to find.
    pub(crate) fn slept_in(&self) {
        self.lessen();
    }

    fn lessen(&self) {
        let half = self.time.get() / 2;
        self.time.set(if half < Duration::from_micros(1) { Duration::ZERO } else { half });
    }

    fn pays(&self) {
        self.time.set(self.usual);
        self.sleeps.set(0);
        self.tries.set(0);
    }
}

/// A spin in progress.
#[derive(Debug)]
pub(crate) struct Spin {
    started: Instant,
    time: Duration,
    /// Spin-loop hints of the next pause: doubles up to 64.
    pause: u32,
}

impl Spin {
    /// Pauses, until `early` at the latest; false once the time is up.
    pub(crate) fn pause(&mut self, early: impl Fn() -> bool) -> bool {
        if self.time.is_zero() || self.started.elapsed() >= self.time {
            return false;
        }
        for _ in 0..self.pause {
            std::hint::spin_loop();
            if early() {
                break;
            }
        }
        self.pause = (self.pause * 2).min(64);
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SPIN: Duration = Duration::from_micros(20);
    /// Time of a wake-up.
    const WAKE: Duration = Duration::from_micros(30);

    #[test]
    fn spinning_that_does_not_pay_is_given_up() {
        let policy = SpinPolicy::new(SPIN);
        assert_eq!(policy.time.get(), SPIN);
        (0..6).for_each(|_| policy.slept(SPIN));
        assert_eq!(policy.time.get(), Duration::ZERO);
        policy.slept(SPIN / 2);
        assert_eq!(policy.time.get(), SPIN, "it would have paid");
        (0..1_000).for_each(|_| policy.slept_in());
        assert_eq!(policy.time.get(), Duration::ZERO, "there was nothing to find");
    }

    #[test]
    fn a_spin_of_zero_never_spins() {
        let policy = SpinPolicy::new(Duration::ZERO);
        for _ in 0..1_000 {
            policy.slept(Duration::from_nanos(1));
            assert_eq!(policy.time.get(), Duration::ZERO);
        }
    }

    /// Waits that are too long for a spin, but not for a long one: of a thousand not more than a
    /// tenth are spun through.
    #[test]
    fn long_waits_are_slept_through() {
        let policy = SpinPolicy::new(SPIN);
        let wait = SPIN * 3;
        let mut looked = 0;
        for _ in 0..1_000 {
            if policy.time.get() > wait {
                looked += 1;
                policy.found_after(wait);
            } else {
                policy.slept(wait);
            }
        }
        assert!((10..100).contains(&looked), "{looked}");
    }

    /// Two workers that answer each other at once, both asleep at first: in the end neither sleeps.
    #[test]
    fn a_pair_that_keeps_each_other_asleep_wakes_up() {
        let pair = [SpinPolicy::new(SPIN), SpinPolicy::new(SPIN)];
        let answer = Duration::from_nanos(300);
        for _ in 0..8 {
            pair.iter().for_each(|one| one.slept(WAKE));
        }
        // A worker that was asleep when it was called answers later by a wake-up.
        let (mut turn, mut asleep, mut sleeps) = (0, [true, true], 0);
        for round in 0..1_000 {
            let other = 1 - turn;
            // `turn` has sent, and waits; `other` answers.
            let wait = if asleep[other] { WAKE + answer } else { answer };
            asleep[turn] = pair[turn].time.get() < wait;
            if asleep[turn] {
                pair[turn].slept(wait);
            } else {
                pair[turn].found_after(wait);
            }
            sleeps += u32::from(asleep[turn] && round >= 500);
            turn = other;
        }
        assert_eq!(sleeps, 0, "{pair:?}");
    }
}
