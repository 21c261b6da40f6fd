//! What events are stamped with: a counter that is cheap to read.
//!
//! Asking the system for the time costs four times as much as a whole yield. The processor's own counter costs less,
//! and where it runs at one speed for ever (`cpuid` says so; on aarch64 it always does) it serves as a clock. How long
//! one tick takes is found out when somebody reads what was recorded, from two readings of both clocks that are far apart.
//!
//! Under the deterministic executor a tick is a step.

use crate::sched::timers::{Nanos, STEP};
use std::time::{Duration, Instant};

/// The longer the two readings are apart, the better the rate: the clocks are read to about 100 ns, which is 5 in a
/// million of this.
const BASELINE: Duration = Duration::from_millis(20);

/// Where ticks come from, and what they were at the beginning.
#[derive(Debug)]
pub(crate) struct Clock {
    source: TickSource,
    /// One reading of both clocks.
    ticks: u64,
    at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TickSource {
    /// The processor's counter.
    Counter,
    /// The system's clock, in nanoseconds.
    System,
}

impl Clock {
    /// A clock that begins now.
    pub(crate) fn new() -> Clock {
        let source = if counter::is_steady() { TickSource::Counter } else { TickSource::System };
        Clock::of(source)
    }

    fn of(source: TickSource) -> Clock {
        let at = Instant::now();
        let ticks = if source == TickSource::Counter { counter::read() } else { 0 };
        Clock { source, ticks, at }
    }

    /// Ticks since the beginning.
    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        match self.source {
            // Another processor's counter may be behind by a little.
            TickSource::Counter => counter::read().saturating_sub(self.ticks),
            TickSource::System => self.at.elapsed().as_nanos() as u64,
        }
    }

    /// As `ticks`, and not before what was read from memory until now: for what follows from what others wrote.
    #[inline]
    pub(crate) fn ticks_after_reads(&self) -> u64 {
        counter::wait_for_reads();
        self.ticks()
    }

    /// How long a tick takes. Waits if the clock was made just now.
    pub(crate) fn rate(&self) -> Rate {
        if self.source == TickSource::System {
            return Rate::nanoseconds();
        }
        if let Some(rest) = BASELINE.checked_sub(self.at.elapsed()) {
            std::thread::sleep(rest);
        }
        let nanos = self.at.elapsed().as_nanos() as u64;
        Rate { nanos: nanos.max(1), ticks: self.ticks().max(1) }
    }
}

/// So many nanoseconds are so many ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    nanos: u64,
    ticks: u64,
}

impl Rate {
    /// Of virtual time.
    pub(crate) const STEPS: Rate = Rate { nanos: STEP, ticks: 1 };

    /// Of a clock that counts nanoseconds.
    pub(crate) const fn nanoseconds() -> Rate {
        Rate { nanos: 1, ticks: 1 }
    }

    pub(crate) fn nanos(self, ticks: u64) -> Nanos {
        // Cannot overflow: less than 2^64 each.
        let nanos = u128::from(ticks) * u128::from(self.nanos) / u128::from(self.ticks);
        Nanos::try_from(nanos).unwrap_or(Nanos::MAX)
    }
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    /// Whether it runs at the same speed in all states of power and frequency.
    #[allow(unused_unsafe)] // safe in newer compilers than 1.88
    pub(super) fn is_steady() -> bool {
        const POWER: u32 = 0x8000_0007;
        // Under Miri and valgrind `cpuid` says no.
        // SAFETY: every x86_64 has the instruction and its leaf 0x8000_0000.
        let has_leaf = unsafe { __cpuid(0x8000_0000) }.eax >= POWER;
        // SAFETY: as above; the leaf exists.
        has_leaf && unsafe { __cpuid(POWER) }.edx & (1 << 8) != 0
    }

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86_64 has it; Linux does not forbid it to programs unless asked to.
        unsafe { _rdtsc() }
    }

    /// A processor reads its counter as early as it can.
    #[inline]
    pub(super) fn wait_for_reads() {
        // SAFETY: every x86_64 has it.
        unsafe { std::arch::x86_64::_mm_lfence() };
    }
}

#[cfg(target_arch = "aarch64")]
mod counter {
    /// The architecture demands it.
    pub(super) fn is_steady() -> bool {
        true
    }

    #[inline]
    pub(super) fn read() -> u64 {
        let ticks: u64;
        // SAFETY: reads a register that Linux lets programs read.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }

    /// A processor reads its counter as early as it can.
    #[inline]
    pub(super) fn wait_for_reads() {
        // SAFETY: a barrier.
        unsafe { std::arch::asm!("isb", options(nostack)) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds() {
        assert_eq!(Rate::STEPS.nanos(7), 7 * STEP);
        let rate = Rate { nanos: 1_000, ticks: 3_000 };
        assert_eq!(rate.nanos(9), 3);
        assert_eq!(Rate { nanos: u64::MAX, ticks: 1 }.nanos(u64::MAX), Nanos::MAX);
    }

    #[test]
    fn both_sources_agree_with_the_system() {
        for source in [TickSource::Counter, TickSource::System] {
            let clock = Clock::of(source);
            let before = clock.at.elapsed();
            let (ticks, after) = (clock.ticks(), clock.at.elapsed());
            let nanos = Duration::from_nanos(clock.rate().nanos(ticks));
            // The rate is good to a thousandth, whatever else the machine does between two readings.
            let slack = Duration::from_millis(1);
            assert!(nanos + slack >= before && nanos <= after + slack, "{source:?}");
        }
    }
}
