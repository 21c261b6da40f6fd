//! The clock of timestamps: a counter that is cheap to read.
//!
//! The system's clock costs four times as much as a whole yield. The processor's counter costs
//! less, and serves as a clock where it runs at a constant rate (`cpuid` says so; on aarch64 it
//! always does). The length of a tick is computed when a recording is read, from two readings of
//! both clocks that are far apart.
//!
//! Under the deterministic executor a tick is a step.

use crate::base::time::Nanos;
use std::time::{Duration, Instant};

/// Least time between the two readings. The clocks are read to about 100 ns, which is 5 in a
/// million of this.
const BASELINE: Duration = Duration::from_millis(20);

/// Duration of a step of the deterministic executor, and of a tick of virtual time.
pub(crate) const STEP: Nanos = 1_000;

/// A source of ticks, with its first reading.
#[derive(Debug)]
pub(crate) struct Clock {
    source: TickSource,
    /// One reading of both clocks.
    ticks: u64,
    at: Instant,
    /// See [`Clock::short`].
    short: u64,
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
        let mut clock = Clock { source, ticks, at, short: 0 };
        let reading = (0..8).map(|_| {
            let before = clock.ticks();
            clock.ticks() - before
        });
        clock.short = reading.min().unwrap_or(0).clamp(16, 1 << 16) * 32;
        clock
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

    /// As `ticks`, and ordered after this thread's earlier reads of memory.
    #[inline]
    pub(crate) fn ticks_after_reads(&self) -> u64 {
        counter::wait_for_reads();
        self.ticks()
    }

    /// A distance between events, in ticks, that is short in comparison with a reading of this
    /// clock: 32 times the time that a reading takes. About a thousand ticks of the counter; more
    /// where a reading is a system call or is simulated.
    #[inline]
    pub(crate) fn short(&self) -> u64 {
        self.short
    }

    /// Duration of a tick. Sleeps if the clock was made just now.
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

/// Conversion of ticks to nanoseconds, as a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    nanos: u64,
    ticks: u64,
}

impl Rate {
    /// The rate of virtual time.
    pub(crate) const STEPS: Rate = Rate { nanos: STEP, ticks: 1 };

    /// The rate of a clock that counts nanoseconds.
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
            // The rate is good to a thousandth, even on a busy machine.
            let slack = Duration::from_millis(1);
            assert!(nanos + slack >= before && nanos <= after + slack, "{source:?}");
        }
    }
}
