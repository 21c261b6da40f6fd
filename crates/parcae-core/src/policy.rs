//! Policy decisions: settings that an external service may tune, within bounds, and the fallback
//! without it.
//!
//! A policy service decides about weights, slices and the floor of best effort, asynchronously: no
//! dispatch ever waits for it. It submits whole [`Decision`]s, each with an *epoch*, and the core
//! uses the last valid one. Submissions are checked as untrusted input:
//!
//! | the service is | result |
//! |---|---|
//! | stale: an epoch not above the last one | refused: a replay, or a service that was replaced |
//! | invalid: outside of the operator's [`Bounds`] | refused as a whole |
//! | silent for longer than `silent_after` | the last good decision holds for `grace` |
//! | silent for longer than both | [`Decision::BUILT_IN`] holds, until a new decision is accepted |
//!
//! ```text
//!              accepted                    silent                    silent
//!   built-in ───────────▶ fresh ◀─────▶ ──────────▶ last good ──────────────▶ built-in
//!                           accepted, heartbeat         │
//!                           ▲───────────────────────────┘
//! ```
//!
//! The fallback is a constant: it needs no memory, no service and no setup, so an operator can
//! always recover the machine. Refused submissions do not count as a sign of life. Time is an
//! argument, as everywhere.

use crate::dispatch::Floor;
use crate::fair::{Latency, Limits, Params, Weight};
use core::fmt;

/// The kind of work of an entity. A hint, which the policy maps to parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hint {
    /// No special kind.
    Normal,
    /// Latency matters: each answer is waited for.
    LatencySensitive,
    /// Only throughput matters.
    Batch,
    /// Serves a device.
    Driver,
    /// Polls for work.
    Poller,
    /// Runs generated code on behalf of a user.
    Agent,
}

impl Hint {
    /// All of them.
    pub const ALL: [Hint; 6] = [
        Hint::Normal,
        Hint::LatencySensitive,
        Hint::Batch,
        Hint::Driver,
        Hint::Poller,
        Hint::Agent,
    ];
}

/// A complete decision of a policy.
///
/// ```
/// use parcae_core::policy::{Decision, Hint};
///
/// let normal = Decision::BUILT_IN.params(Hint::Normal);
/// let poller = Decision::BUILT_IN.params(Hint::Poller);
/// assert!(poller.weight < normal.weight);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Greater than that of any decision before it.
    pub epoch: u64,
    /// The parameters of each kind of work, in the order of [`Hint::ALL`].
    pub params: [Params; Hint::ALL.len()],
    /// The floor of best effort.
    pub floor: Floor,
}

impl Decision {
    /// The fallback without a policy, for time in nanoseconds.
    pub const BUILT_IN: Decision = {
        const fn params(weight: Option<Weight>, latency: Latency) -> Params {
            let weight = match weight {
                Some(weight) => weight,
                None => Weight::NORMAL,
            };
            Params { weight, latency }
        }
        Decision {
            epoch: 0,
            params: [
                params(Some(Weight::NORMAL), Latency::Normal),
                params(Some(Weight::NORMAL), Latency::Sensitive),
                params(Weight::new(512), Latency::Batch),
                params(Weight::new(2048), Latency::Sensitive),
                params(Weight::new(256), Latency::Sensitive),
                params(Weight::new(512), Latency::Normal),
            ],
            floor: Floor::NANOS,
        }
    };

    /// The parameters of this kind of work.
    pub const fn params(&self, hint: Hint) -> Params {
        self.params[hint as usize]
    }
}

/// The operator's bounds for a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The least and the greatest weight.
    pub weights: (Weight, Weight),
    /// The queue's limits on slices.
    pub limits: Limits,
    /// The least share of best effort, in thousandths.
    pub floor_permille: u16,
}

impl Bounds {
    /// Weights within 16 times of normal, slices for nanoseconds, 2 % for best effort.
    pub const NANOS: Bounds = Bounds {
        weights: match (Weight::new(64), Weight::new(16_384)) {
            (Some(least), Some(greatest)) => (least, greatest),
            _ => (Weight::NORMAL, Weight::NORMAL),
        },
        limits: Limits::NANOS,
        floor_permille: 20,
    };

    /// Checks that a decision is within the bounds.
    ///
    /// # Errors
    ///
    /// The first violation.
    pub fn check(&self, decision: &Decision) -> Result<(), Refusal> {
        for hint in Hint::ALL {
            let Params { weight, latency } = decision.params(hint);
            let (least, greatest) = self.weights;
            if !(least..=greatest).contains(&weight) {
                return Err(Refusal::Weight { hint, least, greatest });
            }
            if self.limits.slice_for(latency).is_none() {
                let Limits { min_slice: min, max_slice: max, .. } = self.limits;
                return Err(Refusal::Slice { hint, min, max });
            }
        }
        if !decision.floor.is_at_least(self.floor_permille) {
            return Err(Refusal::Floor { permille: self.floor_permille });
        }
        Ok(())
    }
}

/// Why a submission was refused. The decision in force is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Its epoch is not above the last one; for a heartbeat, not the last one.
    Stale {
        /// The epoch of the last decision that was accepted.
        last: u64,
    },
    /// The last decision is no longer in force, so nothing can keep it there.
    Expired,
    /// A weight is out of bounds.
    Weight {
        /// Whose.
        hint: Hint,
        /// The least allowed.
        least: Weight,
        /// The greatest allowed.
        greatest: Weight,
    },
    /// A slice is out of bounds.
    Slice {
        /// Whose.
        hint: Hint,
        /// The shortest allowed.
        min: u64,
        /// The longest allowed.
        max: u64,
    },
    /// The floor of best effort is too low.
    Floor {
        /// The least, in thousandths.
        permille: u16,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Stale { last } => write!(
                f,
                "the epoch is stale: the last decision has {last}; read it and go on from there"
            ),
            Refusal::Expired => f.write_str(
                "the heartbeat came too late and the built-in policy is in force: submit a \
                 decision with a new epoch",
            ),
            Refusal::Weight { hint, least, greatest } => write!(
                f,
                "the weight of {hint:?} must be from {} to {}: choose one of these, or ask the \
                 operator for wider bounds",
                least.get(),
                greatest.get()
            ),
            Refusal::Slice { hint, min, max } => write!(
                f,
                "the slice of {hint:?} must be from {min} to {max}: choose one of these, or ask \
                 the operator for wider bounds"
            ),
            Refusal::Floor { permille } => write!(
                f,
                "best effort must keep {permille} ‰: raise the reserve, or shorten its window"
            ),
        }
    }
}

impl core::error::Error for Refusal {}

/// The source of the decision in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The policy, which is alive.
    Fresh,
    /// The policy, which is silent: its last valid decision.
    LastGood,
    /// The built-in fallback: there is no policy, or it has been silent for too long.
    BuiltIn,
}

/// The state of a policy: its last valid decision, and the time of its last sign of life.
///
/// ```
/// use parcae_core::policy::{Bounds, Decision, Policy, Source};
///
/// const MS: u64 = 1_000_000;
/// let mut policy = Policy::new(Bounds::NANOS, 250 * MS, 250 * MS);
/// policy.submit(Decision { epoch: 1, ..Decision::BUILT_IN }, 0).unwrap();
/// policy.heartbeat(1, 200 * MS).unwrap();
/// assert_eq!(policy.source(400 * MS), Source::Fresh);
/// assert_eq!(policy.source(500 * MS), Source::LastGood); // silent for 300 ms
/// assert_eq!(policy.source(900 * MS), Source::BuiltIn);
/// ```
#[derive(Debug, Clone)]
pub struct Policy {
    bounds: Bounds,
    silent_after: u64,
    grace: u64,
    last: Decision,
    /// The time of the last accepted message; `None` if there was none.
    heard: Option<u64>,
    refused: u64,
}

impl Policy {
    /// No policy yet. It counts as silent after `silent_after`, and its last decision holds for
    /// `grace` after that.
    pub const fn new(bounds: Bounds, silent_after: u64, grace: u64) -> Policy {
        Policy { bounds, silent_after, grace, last: Decision::BUILT_IN, heard: None, refused: 0 }
    }

    /// Submits a decision, which takes effect immediately.
    ///
    /// # Errors
    ///
    /// See [`Refusal`].
    pub fn submit(&mut self, decision: Decision, now: u64) -> Result<(), Refusal> {
        let checked = if decision.epoch > self.last.epoch {
            self.bounds.check(&decision)
        } else {
            Err(Refusal::Stale { last: self.last.epoch })
        };
        match checked {
            Ok(()) => {
                self.last = decision;
                self.hear(now);
            }
            Err(_) => self.refused += 1,
        }
        checked
    }

    /// A sign of life from the service that made the last decision.
    ///
    /// # Errors
    ///
    /// [`Refusal::Stale`], [`Refusal::Expired`].
    pub fn heartbeat(&mut self, epoch: u64, now: u64) -> Result<(), Refusal> {
        let checked = if epoch != self.last.epoch || self.heard.is_none() {
            Err(Refusal::Stale { last: self.last.epoch })
        } else if self.source(now) == Source::BuiltIn {
            Err(Refusal::Expired)
        } else {
            Ok(())
        };
        match checked {
            Ok(()) => self.hear(now),
            Err(_) => self.refused += 1,
        }
        checked
    }

    /// The decision that is in force.
    pub fn in_force(&self, now: u64) -> Decision {
        match self.source(now) {
            Source::BuiltIn => Decision::BUILT_IN,
            Source::Fresh | Source::LastGood => self.last,
        }
    }

    /// Where it comes from.
    pub fn source(&self, now: u64) -> Source {
        let Some(heard) = self.heard else { return Source::BuiltIn };
        match now.saturating_sub(heard) {
            silent if silent <= self.silent_after => Source::Fresh,
            silent if silent - self.silent_after <= self.grace => Source::LastGood,
            _ => Source::BuiltIn,
        }
    }

    /// The epoch of the last decision that was accepted; 0 if none was.
    pub const fn epoch(&self) -> u64 {
        self.last.epoch
    }

    /// The number of refused messages.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// A clock that goes backwards does not shorten a silence.
    fn hear(&mut self, now: u64) {
        self.heard = Some(self.heard.map_or(now, |heard| heard.max(now)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    fn decision(epoch: u64) -> Decision {
        Decision { epoch, ..Decision::BUILT_IN }
    }

    fn policy() -> Policy {
        Policy::new(Bounds::NANOS, 100, 50)
    }

    // rule: S3-POLICY-1
    #[test]
    fn the_built_in_decision_is_one_that_would_be_accepted() {
        assert_eq!(Bounds::NANOS.check(&Decision::BUILT_IN), Ok(()));
        assert_eq!(policy().in_force(0), Decision::BUILT_IN);
        assert_eq!(policy().source(u64::MAX), Source::BuiltIn);
        for (place, hint) in Hint::ALL.into_iter().enumerate() {
            assert_eq!(hint as usize, place);
        }
    }

    #[test]
    fn stale_decisions_are_refused() {
        let mut policy = policy();
        assert_eq!(policy.submit(decision(0), 0), Err(Refusal::Stale { last: 0 }));
        policy.submit(decision(5), 0).unwrap();
        for epoch in [0, 4, 5] {
            assert_eq!(policy.submit(decision(epoch), 1), Err(Refusal::Stale { last: 5 }));
        }
        policy.submit(decision(u64::MAX), 1).unwrap();
        assert_eq!((policy.epoch(), policy.refused()), (u64::MAX, 4));
    }

    // rule: S3-POLICY-5
    #[test]
    fn invalid_decisions_are_refused_as_a_whole() {
        let mut policy = policy();
        let mut good = decision(1);
        good.params[0].weight = Weight::new(700).unwrap();
        policy.submit(good, 0).unwrap();
        let mut bad = decision(2);
        bad.params[1].weight = Weight::new(900).unwrap(); // valid alone
        bad.params[5].weight = Weight::MAX;
        let refused = policy.submit(bad, 10).unwrap_err();
        assert!(matches!(refused, Refusal::Weight { hint: Hint::Agent, .. }));
        assert!(refused.to_string().contains("from 64 to 16384"));
        bad = decision(2);
        bad.params[2].latency = Latency::Slice(1);
        let refused = policy.submit(bad, 10).unwrap_err();
        assert!(matches!(refused, Refusal::Slice { hint: Hint::Batch, .. }));
        bad = decision(2);
        bad.floor = Floor::new(1_000, 19).unwrap();
        assert_eq!(policy.submit(bad, 10), Err(Refusal::Floor { permille: 20 }));
        assert_eq!(policy.in_force(10), good);
        bad.floor = Floor::new(1_000, 20).unwrap();
        policy.submit(bad, 10).unwrap();
    }

    /// S3's gate: dead, stuck, stale or hostile, the core goes on.
    // rule: S3-POLICY-7
    #[test]
    fn a_silent_policy_is_replaced_by_the_built_in_one() {
        let mut policy = policy();
        let mut good = decision(1);
        good.params[0].weight = Weight::new(700).unwrap();
        policy.submit(good, 1_000).unwrap();
        for (now, source) in [
            (1_100, Source::Fresh),
            (1_101, Source::LastGood),
            (1_150, Source::LastGood),
            (1_151, Source::BuiltIn),
            (u64::MAX, Source::BuiltIn),
        ] {
            assert_eq!(policy.source(now), source, "at {now}");
            let expected = if source == Source::BuiltIn { Decision::BUILT_IN } else { good };
            assert_eq!(policy.in_force(now), expected);
        }
        // Too late to say that it is still there; a new decision brings it back.
        assert_eq!(policy.heartbeat(1, 1_151), Err(Refusal::Expired));
        assert_eq!(policy.submit(decision(1), 1_151), Err(Refusal::Stale { last: 1 }));
        policy.submit(decision(2), 1_200).unwrap();
        assert_eq!(policy.source(1_200), Source::Fresh);
    }

    #[test]
    fn heartbeats_keep_a_decision_and_refusals_do_not() {
        let mut policy = policy();
        assert!(policy.heartbeat(0, 0).is_err(), "nothing was decided");
        policy.submit(decision(1), 0).unwrap();
        for now in (90..2_000).step_by(90) {
            policy.heartbeat(1, now).unwrap();
            assert_eq!(policy.source(now + 100), Source::Fresh);
        }
        let last = 1_980;
        for now in last..last + 151 {
            let _ = policy.submit(decision(1), now);
            assert_eq!(policy.heartbeat(7, now), Err(Refusal::Stale { last: 1 }));
        }
        assert_eq!(policy.source(last + 151), Source::BuiltIn);
    }

    proptest! {
        /// The decision in force is within the bounds, whichever decisions are sent in any order.
        #[test]
        fn nothing_invalid_is_ever_in_force(
            sent in prop::collection::vec(
                (0..20_u64, 0..6_usize, 1..1_048_577_u32, 0..200_000_000_u64, 1..1_000_u64, 0..400_u64),
                0..60,
            ),
        ) {
            let mut policy = policy();
            let mut epoch = 0;
            for (e, hint, weight, slice, reserve, now) in sent {
                let mut decision = decision(e);
                decision.params[hint].weight = Weight::new(weight).unwrap();
                decision.params[hint].latency = Latency::Slice(slice);
                decision.floor = Floor::new(1_000, reserve).unwrap();
                let _ = policy.submit(decision, now);
                prop_assert!(policy.epoch() >= epoch);
                epoch = policy.epoch();
                prop_assert_eq!(Bounds::NANOS.check(&policy.in_force(now)), Ok(()));
            }
        }
    }
}
