//! Budgets: how much of each resource a task may use.
//!
//! A budget is a vector of five counts. The arithmetic moves counts and never creates any: a
//! child's budget is taken from a pool with [`Budget::split`], and its rest returns with
//! [`Budget::absorb`]. A `Budget` itself is a plain value that can be copied; the runtime's pools
//! and accounts make sure that no copy is spent. The conserved quantity is the sum over all
//! holders, for each resource separately:
//!
//! ```text
//! granted = pool + children + spent
//! ```
//!
//! [`UNLIMITED`] in a component means that it is not counted: charging does not lower it
//! and splitting does not divide it. Only a root has such components: a bounded budget
//! never yields one, however much is asked for, and never becomes one by adding.

use core::fmt;

/// The value of a component that is not counted.
pub const UNLIMITED: u64 = u64::MAX;

/// How much of each resource a task may use.
///
/// ```
/// use parcae_core::{Budget, Resource};
///
/// let mut pool = Budget::SERVICE;
/// let mut child = pool.split(Budget::CHILD);
/// assert_eq!(child.ops, 10_000);
/// assert_eq!(pool.ops, 90_000);
///
/// child.charge(Budget::CHANNEL_OP)?;
/// let short = child.charge(Budget::SPAWN).unwrap_err(); // children may not spawn by default
/// assert_eq!(short.resource, Resource::SpawnCount);
///
/// pool.absorb(child); // the rest returns
/// assert_eq!(pool.ops, 99_999);
/// # Ok::<(), parcae_core::Shortfall>(())
/// ```
///
/// A literal starts from `UNLIMITED` or from `ZERO`:
///
/// ```
/// use parcae_core::Budget;
///
/// let bounded = Budget::UNLIMITED.with_ops(1_000).with_spawn_count(8);
/// let gift = Budget::ZERO.with_ops(500);
/// assert_eq!(gift, Budget { ops: 500, ..Budget::ZERO });
/// assert_eq!(
///     bounded.to_string(),
///     "1000 ops, memory unlimited, 8 spawn_count, channel_ops unlimited, syscalls unlimited"
/// );
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Abstract operations: loop iterations, calls, and one for each operation below.
    pub ops: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Children that may be spawned.
    pub spawn_count: u64,
    /// Sends and receives on channels.
    pub channel_ops: u64,
    /// File and network operations.
    pub syscalls: u64,
}

/// One of the five resources of a [`Budget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// [`Budget::ops`].
    Ops,
    /// [`Budget::memory`].
    Memory,
    /// [`Budget::spawn_count`].
    SpawnCount,
    /// [`Budget::channel_ops`].
    ChannelOps,
    /// [`Budget::syscalls`].
    Syscalls,
}

impl Resource {
    /// All five, in the order of the fields.
    pub const ALL: [Resource; 5] = [
        Resource::Ops,
        Resource::Memory,
        Resource::SpawnCount,
        Resource::ChannelOps,
        Resource::Syscalls,
    ];
}

impl Resource {
    /// The name of its field in a [`Budget`].
    pub const fn name(self) -> &'static str {
        match self {
            Resource::Ops => "ops",
            Resource::Memory => "memory",
            Resource::SpawnCount => "spawn_count",
            Resource::ChannelOps => "channel_ops",
            Resource::Syscalls => "syscalls",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A refused charge: the resource, the amount needed, and the amount left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortfall {
    /// The first resource that was short.
    pub resource: Resource,
    /// The cost of the operation.
    pub needed: u64,
    /// The amount left.
    pub left: u64,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortfall { resource, needed, left } = self;
        write!(
            f,
            "budget exhausted ({resource}): {needed} needed, {left} left; absorb more into it, or \
             start from a budget with more {resource}"
        )
    }
}

impl core::error::Error for Shortfall {}

impl Budget {
    /// Zero of each resource.
    pub const ZERO: Budget = Budget::of(0, 0, 0, 0, 0);
    /// No resource is counted: for the root.
    pub const UNLIMITED: Budget = Budget::of(UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED);
    /// The default slice of a child. It does not include spawns.
    pub const CHILD: Budget = Budget::of(10_000, 1 << 20, 0, 100, 10);
    /// The default of the `Service` profile.
    pub const SERVICE: Budget = Budget::of(100_000, 10 << 20, 100, 1_000, 100);
    /// The default of the `Cluster` profile.
    pub const CLUSTER: Budget = Budget::of(1_000_000, 100 << 20, 1_000, 10_000, 1_000);

    /// The cost of a loop iteration or a function call.
    pub const OP: Budget = Budget::of(1, 0, 0, 0, 0);
    /// The cost of a spawn.
    pub const SPAWN: Budget = Budget::of(1, 0, 1, 0, 0);
    /// The cost of a send or a receive.
    pub const CHANNEL_OP: Budget = Budget::of(1, 0, 0, 1, 0);
    /// The cost of a file or network operation.
    pub const SYSCALL: Budget = Budget::of(1, 0, 0, 0, 1);

    /// The cost of allocating `bytes`.
    pub const fn allocation(bytes: u64) -> Budget {
        Budget::of(1, bytes, 0, 0, 0)
    }

    const fn of(
        ops: u64,
        memory: u64,
        spawn_count: u64,
        channel_ops: u64,
        syscalls: u64,
    ) -> Budget {
        Budget { ops, memory, spawn_count, channel_ops, syscalls }
    }

    /// One component.
    pub const fn get(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Ops => self.ops,
            Resource::Memory => self.memory,
            Resource::SpawnCount => self.spawn_count,
            Resource::ChannelOps => self.channel_ops,
            Resource::Syscalls => self.syscalls,
        }
    }

    /// The same with another value of one component.
    #[must_use]
    pub const fn with(mut self, resource: Resource, amount: u64) -> Budget {
        match resource {
            Resource::Ops => self.ops = amount,
            Resource::Memory => self.memory = amount,
            Resource::SpawnCount => self.spawn_count = amount,
            Resource::ChannelOps => self.channel_ops = amount,
            Resource::Syscalls => self.syscalls = amount,
        }
        self
    }

    /// The same with this number of [`ops`](Budget::ops).
    #[must_use]
    pub const fn with_ops(self, ops: u64) -> Budget {
        self.with(Resource::Ops, ops)
    }

    /// The same with this number of bytes of [`memory`](Budget::memory).
    #[must_use]
    pub const fn with_memory(self, bytes: u64) -> Budget {
        self.with(Resource::Memory, bytes)
    }

    /// The same with this number of [children](Budget::spawn_count).
    #[must_use]
    pub const fn with_spawn_count(self, children: u64) -> Budget {
        self.with(Resource::SpawnCount, children)
    }

    /// The same with this number of [`channel_ops`](Budget::channel_ops).
    #[must_use]
    pub const fn with_channel_ops(self, ops: u64) -> Budget {
        self.with(Resource::ChannelOps, ops)
    }

    /// The same with this number of [`syscalls`](Budget::syscalls).
    #[must_use]
    pub const fn with_syscalls(self, calls: u64) -> Budget {
        self.with(Resource::Syscalls, calls)
    }

    /// Subtracts `cost`, all of it or nothing.
    ///
    /// # Errors
    ///
    /// The first component that does not suffice; the budget is unchanged.
    #[inline]
    pub fn charge(&mut self, cost: Budget) -> Result<(), Shortfall> {
        for resource in Resource::ALL {
            let (needed, left) = (cost.get(resource), self.get(resource));
            if needed > left {
                return Err(Shortfall { resource, needed, left });
            }
        }
        *self = self.zip(cost, counted_sub);
        Ok(())
    }

    /// Moves up to `wanted` of each component into a new budget; less where there is less.
    /// [`covers`](Budget::covers) checks whether the whole amount is available.
    ///
    /// A bounded pool never yields an unlimited component: it yields at most its own amount.
    #[inline]
    pub fn split(&mut self, wanted: Budget) -> Budget {
        let part = self.min(wanted);
        *self = self.zip(part, counted_sub);
        part
    }

    /// Adds `part`. Saturates just below [`UNLIMITED`], so that no bounded component becomes
    /// unlimited by adding; the excess is lost.
    #[inline]
    pub fn absorb(&mut self, part: Budget) {
        *self = self.zip(part, |whole, part| match whole {
            UNLIMITED => UNLIMITED,
            _ => whole.saturating_add(part).min(UNLIMITED - 1),
        });
    }

    /// The minimum of each component: the most that a holder of `limits` may request.
    #[inline]
    pub fn min(self, limits: Budget) -> Budget {
        self.zip(limits, u64::min)
    }

    /// Whether a task with this budget must stop: no operations or no memory left. Lack of
    /// the others stops only the operation that needs them.
    pub const fn is_exhausted(&self) -> bool {
        self.ops == 0 || self.memory == 0
    }

    /// Whether each component suffices for `cost`.
    #[inline]
    pub fn covers(&self, cost: Budget) -> bool {
        Resource::ALL.iter().all(|&resource| cost.get(resource) <= self.get(resource))
    }

    /// Multiplied by a factor. Unlimited components stay unlimited; the others saturate just below
    /// [`UNLIMITED`].
    #[must_use]
    #[inline]
    pub fn times(self, count: u64) -> Budget {
        self.zip(Budget::ZERO, |component, _| match component {
            UNLIMITED => UNLIMITED,
            _ => component.saturating_mul(count).min(UNLIMITED - 1),
        })
    }

    /// The components that are counted; 0 for those that are not.
    #[must_use]
    pub fn counted(self) -> Budget {
        self.zip(Budget::ZERO, |own, zero| if own == UNLIMITED { zero } else { own })
    }

    /// The components that are not counted; 0 for those that are.
    #[must_use]
    pub fn uncounted(self) -> Budget {
        self.zip(Budget::ZERO, |own, zero| if own == UNLIMITED { own } else { zero })
    }

    /// The larger of each component.
    #[inline]
    pub fn max(self, other: Budget) -> Budget {
        self.zip(other, u64::max)
    }

    /// Combines two budgets component by component.
    #[inline]
    pub fn zip(self, other: Budget, f: impl Fn(u64, u64) -> u64) -> Budget {
        Budget {
            ops: f(self.ops, other.ops),
            memory: f(self.memory, other.memory),
            spawn_count: f(self.spawn_count, other.spawn_count),
            channel_ops: f(self.channel_ops, other.channel_ops),
            syscalls: f(self.syscalls, other.syscalls),
        }
    }
}

/// As a structure, with `unlimited` for components that are not counted.
impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Budget");
        for resource in Resource::ALL {
            match self.get(resource) {
                UNLIMITED => shown.field(resource.name(), &format_args!("unlimited")),
                amount => shown.field(resource.name(), &amount),
            };
        }
        shown.finish()
    }
}

/// All components that are not 0, with `unlimited` for those that are not counted.
impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Budget::UNLIMITED => return f.write_str("unlimited"),
            Budget::ZERO => return f.write_str("nothing"),
            _ => {}
        }
        let some = Resource::ALL.into_iter().filter(|&resource| self.get(resource) > 0);
        for (n, resource) in some.enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            match self.get(resource) {
                UNLIMITED => write!(f, "{comma}{resource} unlimited")?,
                amount => write!(f, "{comma}{amount} {resource}")?,
            }
        }
        Ok(())
    }
}

/// Subtracts, except from an unlimited component. Callers have checked that the amount suffices.
#[inline]
fn counted_sub(whole: u64, part: u64) -> u64 {
    match whole {
        UNLIMITED => UNLIMITED,
        _ => whole - part,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;

    fn amount() -> impl Strategy<Value = u64> {
        prop_oneof![8 => 0..1_000_u64, 1 => Just(0), 1 => Just(UNLIMITED - 1)]
    }

    fn budget() -> impl Strategy<Value = Budget> {
        (amount(), amount(), amount(), amount(), amount())
            .prop_map(|(a, b, c, d, e)| Budget::of(a, b, c, d, e))
    }

    // rule: S2-BUDGET-2, S2-BUDGET-3, S2-BUDGET-4
    #[test]
    fn defaults_are_the_documented_numbers() {
        assert_eq!(Budget::CHILD, Budget::of(10_000, 1_048_576, 0, 100, 10));
        assert_eq!(Budget::SERVICE, Budget::of(100_000, 10_485_760, 100, 1_000, 100));
        assert_eq!(Budget::CLUSTER, Budget::of(1_000_000, 104_857_600, 1_000, 10_000, 1_000));
        assert_eq!(Budget::ZERO, Budget::default());
    }

    // rule: S0-BUDGET-2, S0-BUDGET-3, S0-BUDGET-4, S0-BUDGET-5, S0-BUDGET-6, S0-COST-3, S0-COST-5
    // rule: S0-COST-6, S0-COST-7, S0-COST-8, S1-MODULE-6, S2-BUDGET-1
    #[test]
    fn costs_are_those_of_the_table() {
        assert_eq!(Budget::OP, Budget::of(1, 0, 0, 0, 0));
        assert_eq!(Budget::allocation(77), Budget::of(1, 77, 0, 0, 0));
        assert_eq!(Budget::SPAWN, Budget::of(1, 0, 1, 0, 0));
        assert_eq!(Budget::CHANNEL_OP, Budget::of(1, 0, 0, 1, 0));
        assert_eq!(Budget::SYSCALL, Budget::of(1, 0, 0, 0, 1));
    }

    // rule: S0-BUDGET-8
    #[test]
    fn exhaustion_is_of_ops_or_memory() {
        assert!(Budget::ZERO.is_exhausted());
        assert!(!Budget::of(1, 1, 0, 0, 0).is_exhausted());
        assert!(Budget::of(0, 1, 1, 1, 1).is_exhausted());
        assert!(Budget::of(1, 0, 1, 1, 1).is_exhausted());
    }

    #[test]
    fn a_refused_charge_names_the_resource_and_changes_nothing() {
        let mut budget = Budget::of(5, 100, 0, 3, 0);
        let before = budget;
        let short = budget.charge(Budget::SYSCALL).unwrap_err();
        assert_eq!(short, Shortfall { resource: Resource::Syscalls, needed: 1, left: 0 });
        assert_eq!(budget, before);
        assert!(short.to_string().contains("(syscalls): 1 needed, 0 left"));
        let short = budget.charge(Budget::allocation(101)).unwrap_err();
        assert_eq!(short.resource, Resource::Memory);
    }

    #[test]
    fn unlimited_components_are_not_counted() {
        let mut root = Budget::UNLIMITED;
        root.charge(Budget::allocation(1 << 40)).unwrap();
        assert_eq!(root, Budget::UNLIMITED);
        let child = root.split(Budget::CHILD);
        assert_eq!(child, Budget::CHILD);
        assert_eq!(root, Budget::UNLIMITED);
        root.absorb(child);
        assert_eq!(root, Budget::UNLIMITED);
        // A bounded pool cannot be made unlimited, neither by asking nor by adding.
        let mut pool = Budget::SERVICE;
        assert_eq!(pool.split(Budget::UNLIMITED), Budget::SERVICE);
        let mut full = Budget::of(UNLIMITED - 1, 0, 0, 0, 0);
        full.absorb(Budget::OP);
        assert_eq!(full.ops, UNLIMITED - 1);
    }

    #[test]
    fn what_is_not_counted_is_printed_as_a_word() {
        let some = Budget::of(7, UNLIMITED, 0, 0, 3);
        assert_eq!(some.to_string(), "7 ops, memory unlimited, 3 syscalls");
        assert_eq!(
            std::format!("{some:?}"),
            "Budget { ops: 7, memory: unlimited, spawn_count: 0, channel_ops: 0, syscalls: 3 }"
        );
        assert_eq!(Budget::UNLIMITED.to_string(), "unlimited");
        assert_eq!(Budget::ZERO.to_string(), "nothing");
    }

    #[test]
    fn one_component_is_replaced_by_name() {
        for (n, resource) in Resource::ALL.into_iter().enumerate() {
            let one = Budget::ZERO.with(resource, n as u64 + 1);
            for other in Resource::ALL {
                let expected = if other == resource { n as u64 + 1 } else { 0 };
                assert_eq!(one.get(other), expected);
            }
        }
        let all = Budget::ZERO.with_ops(1).with_memory(2).with_spawn_count(3);
        assert_eq!(all.with_channel_ops(4).with_syscalls(5), Budget::of(1, 2, 3, 4, 5));
    }

    proptest! {
        // rule: S0-BUDGET-7
        #[test]
        fn charging_is_all_or_nothing(budget in budget(), cost in budget()) {
            let mut after = budget;
            match after.charge(cost) {
                Ok(()) => {
                    prop_assert!(budget.covers(cost));
                    for r in Resource::ALL {
                        prop_assert_eq!(after.get(r) + cost.get(r), budget.get(r));
                    }
                }
                Err(short) => {
                    prop_assert!(!budget.covers(cost));
                    prop_assert_eq!(after, budget);
                    prop_assert!(short.needed > short.left);
                }
            }
        }

        /// Any tree of splits, charges and returns conserves the total.
        #[test]
        fn granted_is_pool_plus_children_plus_spent(
            pool in (0..1_000_u64).prop_map(|n| Budget::of(n, n * 3, n / 2, n * 7, n)),
            steps in prop::collection::vec((0..4_u8, any::<usize>(), budget()), 0..60),
        ) {
            let granted = pool;
            let mut holders = std::vec![pool];
            let mut spent = Budget::ZERO;
            for (what, pick, amount) in steps {
                let pick = pick % holders.len();
                match what {
                    0 => {
                        let child = holders[pick].split(amount);
                        holders.push(child);
                    }
                    1 if holders[pick].charge(amount).is_ok() => spent.absorb(amount),
                    2 if pick > 0 => {
                        let child = holders.swap_remove(pick);
                        holders[0].absorb(child);
                    }
                    _ => {}
                }
                let all: Vec<Budget> = holders.iter().copied().chain([spent]).collect();
                for r in Resource::ALL {
                    let sum: u64 = all.iter().map(|b| b.get(r)).sum();
                    prop_assert_eq!(sum, granted.get(r));
                }
            }
        }
    }
}
