//! Processor accounts: how long an owner ran, and why it stopped.
//!
//! An account is started when its owner is put on a worker and stopped when it leaves. Both
//! take the time as an argument, in any unit that only grows: nanoseconds in production,
//! budget operations in a deterministic run. Between a stop and the next start nothing is
//! added, so blocked time is never charged, and the account is a plain value, so it moves
//! with its owner from worker to worker.
//!
//! ```text
//!            start(now)
//!   stopped ───────────▶ running ─┐ tick(now): charges what ran since the last tick
//!      ▲                    │  ▲──┘
//!      └────────────────────┘
//!       stop(now, why)
//! ```
//!
//! # Clock errors
//!
//! Clocks of virtual machines jump. A reading *before* the last one is taken as no time at all; an
//! interval longer than [`MAX_GAP`] is charged as [`MAX_GAP`]. Both are counted in
//! [`gaps`](CpuAccount::gaps), so that quotas enforced by a broken clock are visible. So `runtime`
//! never decreases and never jumps.
//!
//! # Virtual runtime
//!
//! The same time divided by the weight, with the remainder carried: after any number of
//! charges it is exactly `runtime · 2²⁰ / weight`, rounded down once and not once per charge.
//! It is a figure for reports; the fair queue keeps its own, which also moves when an entity
//! sleeps or changes its weight.

use crate::fair::Weight;

/// The longest interval that is charged at once. Anything longer, such as the suspension of a
/// virtual machine, counts as a gap of the clock. In nanoseconds it is a second: far above any
/// slice, and harmless if charged wrongly.
pub const MAX_GAP: u64 = 1_000_000_000;

/// Why an owner left its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stop {
    /// It was runnable: its slice ended, or more urgent work arrived.
    Preempted,
    /// It waits, or yielded.
    Blocked,
    /// It handed its worker directly to the task that it waits for.
    HandedOff,
    /// It ended.
    Exited,
}

/// Processor use of one owner, and how often it started and stopped.
///
/// ```
/// use parcae_core::account::{CpuAccount, Stop};
/// use parcae_core::fair::Weight;
///
/// let mut account = CpuAccount::new(Weight::NORMAL);
/// account.start(1_000);
/// assert_eq!(account.tick(1_200), 200);
/// assert_eq!(account.stop(1_500, Stop::Blocked), 300);
///
/// account.start(9_000); // the time in between is not charged
/// account.stop(9_100, Stop::Preempted);
/// assert_eq!(account.runtime(), 600);
/// assert_eq!((account.switches(), account.preemptions(), account.blocks()), (2, 1, 1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuAccount {
    runtime: u64,
    /// The last reading of the clock while running; `None` while stopped.
    since: Option<u64>,
    last_start: u64,
    virtual_runtime: u64,
    /// The remainder of the division, below `weight`.
    remainder: u32,
    weight: Weight,
    switches: u64,
    preemptions: u64,
    blocks: u64,
    hand_offs: u64,
    gaps: u64,
}

impl CpuAccount {
    /// An account that never ran.
    pub const fn new(weight: Weight) -> CpuAccount {
        CpuAccount {
            runtime: 0,
            since: None,
            last_start: 0,
            virtual_runtime: 0,
            remainder: 0,
            weight,
            switches: 0,
            preemptions: 0,
            blocks: 0,
            hand_offs: 0,
            gaps: 0,
        }
    }

    /// The owner starts on a worker. If it was running already, this is a [`tick`](Self::tick).
    pub fn start(&mut self, now: u64) {
        if self.since.is_some() {
            self.tick(now);
            return;
        }
        self.since = Some(now);
        self.last_start = now;
        self.switches += 1;
    }

    /// Charges the time since the start or the last tick, and returns it. 0 if stopped.
    pub fn tick(&mut self, now: u64) -> u64 {
        let Some(since) = self.since else { return 0 };
        let used = match now.checked_sub(since) {
            Some(used) if used <= MAX_GAP => used,
            jump => {
                self.gaps += 1;
                if jump.is_some() { MAX_GAP } else { 0 }
            }
        };
        self.since = Some(now);
        self.runtime = self.runtime.saturating_add(used);
        let (virtually, remainder) = self.weight.stretch(used, self.remainder);
        self.virtual_runtime = self.virtual_runtime.saturating_add(virtually);
        self.remainder = remainder;
        used
    }

    /// The owner leaves its worker. Returns the time since the start or the last tick; 0, without
    /// counting a stop, if it was stopped already.
    pub fn stop(&mut self, now: u64, why: Stop) -> u64 {
        if self.since.is_none() {
            return 0;
        }
        let used = self.tick(now);
        self.since = None;
        match why {
            Stop::Preempted => self.preemptions += 1,
            Stop::Blocked => self.blocks += 1,
            Stop::HandedOff => self.hand_offs += 1,
            Stop::Exited => {}
        }
        used
    }

    /// Changes the weight for later charges. Earlier charges stay.
    pub fn set_weight(&mut self, weight: Weight) {
        self.weight = weight;
        self.remainder = 0;
    }

    /// The total time charged. Never decreases.
    pub const fn runtime(&self) -> u64 {
        self.runtime
    }

    /// When it last started; 0 if never.
    pub const fn last_start(&self) -> u64 {
        self.last_start
    }

    /// Whether it is on a worker.
    pub const fn is_running(&self) -> bool {
        self.since.is_some()
    }

    /// Runtime over weight: `runtime · 2²⁰ / weight` while the weight does not change.
    pub const fn virtual_runtime(&self) -> u64 {
        self.virtual_runtime
    }

    /// How often it started.
    pub const fn switches(&self) -> u64 {
        self.switches
    }

    /// How often it was preempted.
    pub const fn preemptions(&self) -> u64 {
        self.preemptions
    }

    /// How often it blocked.
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// How often it handed its worker over.
    pub const fn hand_offs(&self) -> u64 {
        self.hand_offs
    }

    /// How often the clock went backwards, or by more than [`MAX_GAP`] at once.
    pub const fn gaps(&self) -> u64 {
        self.gaps
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;

    // rule: S3-GATE-3, S3-GOAL-3
    #[test]
    fn measured_runtime_grows_while_running() {
        let mut account = CpuAccount::new(Weight::NORMAL);
        account.start(10);
        let mut last = 0;
        for now in 11..500 {
            account.tick(now);
            assert!(account.runtime() > last);
            last = account.runtime();
        }
        assert_eq!(last, 489);
    }

    // rule: S3-GATE-4
    #[test]
    fn measured_runtime_stands_still_while_blocked() {
        let mut account = CpuAccount::new(Weight::NORMAL);
        account.start(10);
        account.stop(20, Stop::Blocked);
        for now in 21..500 {
            assert_eq!(account.tick(now), 0);
            assert_eq!(account.stop(now, Stop::Blocked), 0);
        }
        assert_eq!((account.runtime(), account.blocks()), (10, 1));
        assert_eq!(account.last_start(), 10);
    }

    // rule: S3-ACCT-2, S3-ACCT-5
    #[test]
    fn every_way_to_stop_is_counted_once() {
        let mut account = CpuAccount::new(Weight::NORMAL);
        let ways = [Stop::Preempted, Stop::Blocked, Stop::HandedOff, Stop::Exited];
        for (at, why) in ways.into_iter().enumerate() {
            let at = at as u64 * 10;
            account.start(at);
            assert!(account.is_running());
            assert_eq!(account.stop(at + 3, why), 3);
            assert!(!account.is_running());
        }
        assert_eq!(account.switches(), 4);
        assert_eq!((account.preemptions(), account.blocks(), account.hand_offs()), (1, 1, 1));
        assert_eq!(account.runtime(), 12);
    }

    #[test]
    fn a_clock_that_jumps_is_bounded_and_counted() {
        let mut account = CpuAccount::new(Weight::NORMAL);
        account.start(1_000);
        assert_eq!(account.tick(999), 0, "backwards is no time");
        assert_eq!(account.gaps(), 1);
        assert_eq!(account.tick(1_004), 5, "and the clock goes on from there");
        assert_eq!(account.tick(u64::MAX), MAX_GAP);
        assert_eq!(account.gaps(), 2);
        assert_eq!(account.stop(u64::MAX, Stop::Blocked), 0);
        assert_eq!(account.runtime(), MAX_GAP + 5);
    }

    #[test]
    fn an_account_moves_with_its_owner() {
        let mut here = CpuAccount::new(Weight::NORMAL);
        here.start(0);
        here.stop(100, Stop::Preempted);
        let mut there = here; // another worker, whose clock reads a little less
        there.start(90);
        there.stop(95, Stop::Exited);
        assert_eq!((there.runtime(), there.gaps()), (105, 0));
    }

    proptest! {
        /// However the time is cut into charges, and whatever the weight.
        // rule: S3-ACCT-4
        #[test]
        fn virtual_runtime_has_no_drift(
            weight in 1..=Weight::MAX.get(),
            pieces in prop::collection::vec(0..5_000_u64, 0..200),
        ) {
            let mut account = CpuAccount::new(Weight::new(weight).unwrap());
            let (mut now, mut total) = (7, 0);
            account.start(now);
            for piece in pieces {
                now += piece;
                total += piece;
                account.tick(now);
            }
            prop_assert_eq!(account.runtime(), total);
            let exact = (u128::from(total) << 20) / u128::from(weight);
            prop_assert_eq!(u128::from(account.virtual_runtime()), exact);
        }

        // rule: S3-ACCT-1
        #[test]
        fn runtime_is_monotone_under_any_clock(
            readings in prop::collection::vec((any::<u64>(), 0..3_u8), 0..100),
        ) {
            let mut account = CpuAccount::new(Weight::NORMAL);
            let mut last = 0;
            for (now, what) in readings {
                match what {
                    0 => account.start(now),
                    1 => { account.tick(now); }
                    _ => { account.stop(now, Stop::Blocked); }
                }
                prop_assert!(account.runtime() >= last);
                prop_assert!(account.runtime() - last <= MAX_GAP);
                last = account.runtime();
            }
        }
    }
}
