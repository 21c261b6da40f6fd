//! Shares of the processors: tenants.

use crate::boundary::{sized, text};
use crate::caller;
use crate::decl::{Int, c_api};
use crate::fault::Fault;
use crate::global;
use crate::types::*;
use parcae::policy::{Latency, Weight};
use parcae::profile::ProfileId;
use std::ffi::{c_char, c_void};

fn weight(given: u32) -> Result<Weight, Fault> {
    Weight::new(given).ok_or_else(|| {
        Fault::argument(format!("a share of {given}: weights are from 1 to 1048576"))
    })
}

/// Adds the share that a nursery asks for, if it does.
pub(crate) fn apply(
    mut opts: parcae::NurseryOpts,
    given: &NurseryOpts,
) -> Result<parcae::NurseryOpts, Fault> {
    let latency = match (given.latency, given.latency_slice) {
        (LATENCY_NORMAL, 0) => None,
        (LATENCY_SENSITIVE, 0) => Some(Latency::Sensitive),
        (LATENCY_BATCH, 0) => Some(Latency::Batch),
        (LATENCY_SLICE, slice) => Some(Latency::Slice(slice)),
        (LATENCY_NORMAL | LATENCY_SENSITIVE | LATENCY_BATCH, _) => {
            return Err(Fault::argument("latency_slice takes latency PARCAE_LATENCY_SLICE"));
        }
        (other, _) => return Err(Fault::argument(format!("latency {other} is unknown"))),
    };
    if given.share == 0 && latency.is_none() {
        return Ok(opts);
    }
    if global::get()?.profile == ProfileId::Sovereign {
        let text = "in the sovereign profile a share needs a capability, which only programs in Rust \
                    can use";
        return Err(Fault::new(E_CAPABILITY, text));
    }
    if given.share > 0 {
        opts = opts.share(weight(given.share)?);
    }
    Ok(match latency {
        Some(latency) => opts.latency(latency),
        None => opts,
    })
}

impl TenantFigures {
    fn of(tenant: &parcae::stats::TenantFigures) -> TenantFigures {
        TenantFigures {
            size: size_of::<TenantFigures>(),
            weight: tenant.weight,
            open: tenant.open,
            ran_ns: tenant.ran.as_nanos().try_into().unwrap_or(u64::MAX),
            ops: tenant.ops,
            turns: tenant.turns,
            preempted: tenant.preempted,
            queued: tenant.queued.into(),
            wanted: tenant.wanted,
            feasible: tenant.feasible,
            got: tenant.got,
        }
    }
}

c_api! {
    /// Changes the weight of a nursery that was opened with a share; NULL: of the caller's
    /// innermost. It holds from the next turn of each worker on. 0 or -1.
    fn parcae_nursery_set_share(nursery: *mut c_void, share: u32) -> Int {
        let weight = weight(share)?;
        caller::current(|caller| {
            caller.with_nursery(nursery, |open| Ok(open.rt.nursery.set_share(weight)?))
        })?;
        Ok(Int(0))
    }

    /// The figures of the tenant with this name; NULL: of all tasks without a tenant. Set
    /// figures->size first. 0, or -1 if no nursery of this name has ever had a share.
    fn parcae_tenant_get(name: *const c_char, figures: *mut TenantFigures) -> Int {
        // SAFETY: the caller's.
        if unsafe { sized(figures.cast_const())? }.is_none() {
            return Err(Fault::new(E_NULL, "a parcae_tenant is required, not NULL"));
        }
        // SAFETY: the caller's.
        let name = unsafe { text(name) };
        let stats = global::running()?.runtime.stats();
        let found = match &name {
            Some(name) => stats.tenant(name),
            None => stats.tenants.first(),
        };
        let tenant = found.ok_or_else(|| match &name {
            Some(name) => Fault::argument(format!("there is no tenant `{name}`")),
            None => Fault::argument("no nursery has had a share yet"),
        })?;
        // SAFETY: the caller's, and as large as its size says, which was checked.
        unsafe { figures.write(TenantFigures::of(tenant)) };
        Ok(Int(0))
    }
}
