//! Capabilities.

use crate::decl::{Int, c_api};
use crate::fault::Fault;
use crate::global::ROOT;
use crate::objects::{Thing, ThingKind};
use crate::types::*;
use crate::{caller, global};
use parcae::Error;
use parcae::cap::{BudgetLimits, ChannelLimits, Delegation, SpawnLimits};
use std::sync::Arc;

fn delegation(given: i32) -> Result<Delegation, Fault> {
    match given {
        NOT_DELEGABLE => Ok(Delegation::Forbidden),
        DELEGABLE => Ok(Delegation::Allowed),
        other => Err(Fault::argument(format!("delegation {other} is unknown"))),
    }
}

fn put(thing: Thing) -> Result<*mut Cap, Fault> {
    Ok(ROOT.objects.insert(thing)?.cast())
}

const KINDS: [ThingKind; 3] = [ThingKind::CapSpawn, ThingKind::CapBudget, ThingKind::CapChannel];

/// A capability of whichever kind.
fn find_any(cap: *mut Cap) -> Result<Thing, Fault> {
    let mut answer = ROOT.objects.get(cap, ThingKind::CapSpawn);
    for kind in &KINDS[1..] {
        match answer {
            Err(Fault { kind: E_HANDLE, .. }) => answer = ROOT.objects.get(cap, *kind),
            known => return known,
        }
    }
    answer
}

/// Only the owner of the runtime mints, on a thread, and no task.
fn mint() -> Result<Arc<global::Global>, Fault> {
    if parcae::foreign::task_id().is_some() {
        let text = "a task does not mint capabilities: do it on a thread, and hand them to tasks";
        return Err(Fault::new(E_CAPABILITY, text));
    }
    global::get()
}

c_api! {
    /// Mints a capability to spawn: at most max_tasks at a time, each with at most task_budget. Not
    /// allowed on a task. NULL on failure.
    fn parcae_cap_spawn(max_tasks: u32, task_budget: Budget, delegable: i32) -> *mut Cap {
        let limits = SpawnLimits { max_tasks, task_budget: task_budget.into() };
        put(Thing::CapSpawn(Arc::new(mint()?.runtime.cap_spawn(limits, delegation(delegable)?))))
    }

    /// Mints a capability to recharge, up to total. Not allowed on a task.
    fn parcae_cap_budget(total: Budget, delegable: i32) -> *mut Cap {
        let limits = BudgetLimits::total(total.into());
        put(Thing::CapBudget(Arc::new(mint()?.runtime.cap_budget(limits, delegation(delegable)?))))
    }

    /// Mints a capability to create channels: at most max_channels at a time, each with a capacity
    /// of at most max_buffer. Not allowed on a task.
    fn parcae_cap_channel(max_channels: u32, max_buffer: usize, delegable: i32) -> *mut Cap {
        let limits = ChannelLimits { max_channels, max_buffer };
        put(Thing::CapChannel(Arc::new(mint()?.runtime.cap_channel(limits, delegation(delegable)?))))
    }

    /// Derives a weaker capability to spawn from a delegable one. NULL on failure.
    fn parcae_cap_spawn_attenuate(cap: *mut Cap, max_tasks: u32, task_budget: Budget) -> *mut Cap {
        let cap = crate::objects::find!(cap, CapSpawn);
        let limits = SpawnLimits { max_tasks, task_budget: task_budget.into() };
        put(Thing::CapSpawn(Arc::new(cap.attenuate(limits).map_err(Error::from)?)))
    }

    /// Derives a weaker capability to recharge from a delegable one.
    fn parcae_cap_budget_attenuate(cap: *mut Cap, total: Budget) -> *mut Cap {
        let cap = crate::objects::find!(cap, CapBudget);
        let limits = BudgetLimits::total(total.into());
        put(Thing::CapBudget(Arc::new(cap.attenuate(limits).map_err(Error::from)?)))
    }

    /// Sets the capability in use for the calling task or thread: a spawn capability for
    /// janus_nursery_spawn in the sovereign profile, a recharge capability for
    /// janus_budget_recharge. Children do not inherit it. 0 or -1.
    fn parcae_cap_use(cap: *mut Cap) -> Int {
        match find_any(cap)? {
            Thing::CapSpawn(cap) => caller::current(|caller| *caller.cap_spawn.borrow_mut() = Some(cap)),
            Thing::CapBudget(cap) => caller::current(|caller| *caller.cap_budget.borrow_mut() = Some(cap)),
            _ => {
                let text = "a capability to make channels is an argument of parcae_channel_create_i64 and _ptr";
                return Err(Fault::argument(text));
            }
        }
        Ok(Int(0))
    }

    /// Revokes a capability and all capabilities derived from it, with immediate effect. 0 or -1.
    fn parcae_cap_revoke(cap: *mut Cap) -> Int {
        match find_any(cap)? {
            Thing::CapSpawn(cap) => cap.revoke(),
            Thing::CapBudget(cap) => cap.revoke(),
            Thing::CapChannel(cap) => cap.revoke(),
            _ => unreachable!("one of three kinds"),
        }
        Ok(Int(0))
    }

    /// Ends the handle. The capability is freed with its last use. 0 or -1.
    fn parcae_cap_release(cap: *mut Cap) -> Int {
        let kind = crate::table::Object::kind(&find_any(cap)?);
        drop(ROOT.objects.remove(cap, kind)?);
        Ok(Int(0))
    }
}
