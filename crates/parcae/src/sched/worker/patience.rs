//! How long a worker that found nothing looks on before it sleeps.
//!
//! Work that comes soon is waited for awake: a wake-up costs the sleeper and the waker more. Work that comes
//! later is not, for the operating system holds time that was spent on looking against the thread when it is to
//! run again (measured on a busy machine: 2 ms until a woken worker ran, in one of a hundred cases). So a worker looks for
//! [`Builder::spin`](crate::runtime::Builder::spin) as long as that pays, and half as long each time that it did not.
//!
//! # Two who wait for each other
//!
//! Two tasks on two workers that talk to each other keep both asleep: each waits for the other to be woken, which takes
//! longer than anybody looks (30 µs on a virtual machine), although each answers within a microsecond. Two rules lead out
//! of that:
//!
//! - what counts is when somebody *called* the sleeper, not when it was awake: a worker that was called soon would have
//!   found the work by looking;
//! - after [`SLEEPS`] sleeps in a row it looks once for [`LONG`] times as long, and if that pays, up to [`TRIES`] times
//!   more. In that time it is awake when its partner's answer comes, answers at once, and so teaches the partner that
//!   looking pays. If the waits stay long, it was not such a pair, and it sleeps as before.

use std::cell::Cell;
use std::time::Duration;

/// After how many sleeps in a row a long look is tried.
const SLEEPS: u32 = 64;
/// How much longer than usual that is.
const LONG: u32 = 5;
/// How many long looks in a row may be needed.
const TRIES: u32 = 4;

/// What a worker has learnt.
#[derive(Debug)]
pub(super) struct Patience {
    /// What is usual.
    spin: Duration,
    /// How long it looks the next time.
    time: Cell<Duration>,
    /// Sleeps since looking last paid.
    sleeps: Cell<u32>,
    /// Long looks that paid, since a short one did.
    tries: Cell<u32>,
}

impl Patience {
    pub(super) fn new(spin: Duration) -> Patience {
        Patience { spin, time: Cell::new(spin), sleeps: Cell::new(0), tries: Cell::new(0) }
    }

    pub(super) fn time(&self) -> Duration {
        self.time.get()
    }

    /// It has found work by looking for so long.
    pub(super) fn found(&self, after: Duration) {
        if after <= self.spin {
            self.pays();
        } else if self.tries.replace(self.tries.get() + 1) >= TRIES {
            self.time.set(Duration::ZERO);
        }
    }

    /// It has slept, and was called so long after it began to look.
    pub(super) fn slept(&self, called: Duration) {
        if called < self.spin {
            return self.pays();
        }
        let sleeps = self.sleeps.get() + 1;
        self.sleeps.set(sleeps % SLEEPS);
        if sleeps == SLEEPS {
            self.tries.set(0);
            self.time.set(self.spin * LONG);
        } else {
            self.lessen();
        }
    }

    /// It has slept until a deadline of its own: nobody keeps it asleep, and there was nothing to find.
    pub(super) fn slept_in(&self) {
        self.lessen();
    }

    fn lessen(&self) {
        let half = self.time.get() / 2;
        self.time.set(if half < Duration::from_micros(1) { Duration::ZERO } else { half });
    }

    fn pays(&self) {
        self.time.set(self.spin);
        self.sleeps.set(0);
        self.tries.set(0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SPIN: Duration = Duration::from_micros(20);
    /// What a wake-up takes.
    const WAKE: Duration = Duration::from_micros(30);

    #[test]
    fn looking_that_does_not_pay_is_given_up() {
        let patience = Patience::new(SPIN);
        assert_eq!(patience.time(), SPIN);
        (0..6).for_each(|_| patience.slept(SPIN));
        assert_eq!(patience.time(), Duration::ZERO);
        patience.slept(SPIN / 2);
        assert_eq!(patience.time(), SPIN, "it would have paid");
        (0..1_000).for_each(|_| patience.slept_in());
        assert_eq!(patience.time(), Duration::ZERO, "there was nothing to find");
    }

    #[test]
    fn who_is_not_to_look_never_does() {
        let patience = Patience::new(Duration::ZERO);
        for _ in 0..1_000 {
            patience.slept(Duration::from_nanos(1));
            assert_eq!(patience.time(), Duration::ZERO);
        }
    }

    /// Waits that are too long for looking, but not for a long look: of a thousand not more than a tenth are looked through.
    #[test]
    fn long_waits_are_slept_through() {
        let patience = Patience::new(SPIN);
        let wait = SPIN * 3;
        let mut looked = 0;
        for _ in 0..1_000 {
            if patience.time() > wait {
                looked += 1;
                patience.found(wait);
            } else {
                patience.slept(wait);
            }
        }
        assert!((10..100).contains(&looked), "{looked}");
    }

    /// Two who answer each other at once, both asleep to begin with: in the end nobody sleeps.
    #[test]
    fn a_pair_that_keeps_each_other_asleep_wakes_up() {
        let pair = [Patience::new(SPIN), Patience::new(SPIN)];
        let answer = Duration::from_nanos(300);
        for _ in 0..8 {
            pair.iter().for_each(|one| one.slept(WAKE));
        }
        // Whether the one whose turn it is not was asleep when it was called: then it answers so much later.
        let (mut turn, mut asleep, mut sleeps) = (0, [true, true], 0);
        for round in 0..1_000 {
            let other = 1 - turn;
            // `turn` has sent, and waits; `other` answers.
            let wait = if asleep[other] { WAKE + answer } else { answer };
            asleep[turn] = pair[turn].time() < wait;
            if asleep[turn] {
                pair[turn].slept(wait);
            } else {
                pair[turn].found(wait);
            }
            sleeps += u32::from(asleep[turn] && round >= 500);
            turn = other;
        }
        assert_eq!(sleeps, 0, "{pair:?}");
    }
}
