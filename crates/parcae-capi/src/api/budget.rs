//! Charges, and recharging children.

use crate::caller;
use crate::decl::{Int, Status, c_api};
use crate::fault::{Fault, number};
use crate::global;
use crate::objects::find;
use crate::types::*;
use parcae::budget::Account;
use parcae::foreign;
use parcae::profile::Feature;

fn charge(cost: parcae::Budget) -> Result<Status, Fault> {
    foreign::charge(cost)?;
    Ok(Status(OK))
}

/// The children of the caller that wait for a recharge, and where they draw.
fn exhausted() -> Vec<(u64, Account)> {
    caller::current(|caller| {
        let mut waiting = Vec::new();
        let _ = caller.find_nursery(|open| {
            let shared = open.rt.nursery.account();
            let suspended = shared.suspended();
            waiting.extend(suspended.iter().map(|task| (number(task.task.id()), shared.clone())));
            for (task, account) in &open.accounts {
                if account.suspended().iter().any(|other| number(other.task.id()) == *task) {
                    waiting.push((*task, account.clone()));
                }
            }
            None::<()>
        });
        waiting.sort_by_key(|(task, _)| *task);
        waiting
    })
}

c_api! {
    /// Charges the running task, all or nothing; waits for a recharge if its nursery's policy is
    /// PARCAE_SUSPEND. Outside of tasks nothing is counted. PARCAE_BUDGET if the budget is too
    /// small, PARCAE_CANCELLED if the task was cancelled.
    fn parcae_charge(cost: Budget) -> Status {
        charge(cost.into())
    }

    /// Charges loop iterations or calls.
    fn parcae_charge_ops(ops: u64) -> Status {
        charge(parcae::Budget { ops, ..parcae::Budget::ZERO })
    }

    /// Charges an allocation: its bytes, and one op.
    fn parcae_charge_memory(bytes: u64) -> Status {
        charge(parcae::Budget::allocation(bytes))
    }

    /// Charges children, with one op each.
    fn parcae_charge_spawns(children: u64) -> Status {
        let ops = children;
        charge(parcae::Budget { ops, spawn_count: children, ..parcae::Budget::ZERO })
    }

    /// Charges operations on channels, with one op each.
    fn parcae_charge_channel_ops(operations: u64) -> Status {
        let ops = operations;
        charge(parcae::Budget { ops, channel_ops: operations, ..parcae::Budget::ZERO })
    }

    /// Charges file or network operations, with one op each.
    fn parcae_charge_syscalls(operations: u64) -> Status {
        let ops = operations;
        charge(parcae::Budget { ops, syscalls: operations, ..parcae::Budget::ZERO })
    }

    /// The number of a child of the caller that waits for a recharge; each call returns another
    /// one, if there is one. 0 if there is none.
    fn janus_supervisor_poll_exhausted() -> u64 {
        let waiting = exhausted();
        let last = caller::current(|caller| caller.polled.get());
        let next = waiting.iter().map(|(task, _)| *task).find(|task| *task > last);
        let next = next.or_else(|| waiting.first().map(|(task, _)| *task)).unwrap_or(0);
        caller::current(|caller| caller.polled.set(next));
        Ok(next)
    }

    /// Recharges a child of the caller that waits for a recharge, up to the limit of the
    /// capability. Needs the cluster profile. 0 or -1.
    fn janus_budget_recharge_child(child_task_id: u64, amount: Budget, cap: *mut Cap) -> Int {
        global::running()?.check(Feature::Supervise)?;
        let cap = find!(cap, CapBudget);
        let waiting = exhausted();
        let (_, account) = waiting.iter().find(|(task, _)| *task == child_task_id).ok_or_else(|| {
            Fault::argument("no child of the caller with this number waits for a recharge")
        })?;
        account.recharge(&cap, amount.into())?;
        Ok(Int(0))
    }
}
