//! A stage for tenants: they run until the stage has seen enough.

use parcae::policy::{Latency, Weight};
use parcae::prelude::*;
use parcae::stats::{Snapshot, TenantFigures};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The weight with this number.
pub(crate) fn weight(weight: u32) -> Weight {
    Weight::new(weight).expect("from 1 to 2^20")
}

/// Options of a tenant with short slices, so that few ops make many turns.
pub(crate) fn tenant(name: &str, share: u32) -> NurseryOpts {
    NurseryOpts::new().name(name).share(weight(share)).latency(Latency::Slice(512))
}

/// A deterministic runtime.
pub(crate) fn runtime(seed: u64, workers: usize) -> Runtime {
    let builder = Runtime::builder().deterministic(seed).workers(workers).yield_interval(64);
    builder.build().expect("a runtime")
}

/// Tells tasks that it is over.
#[derive(Default)]
pub(crate) struct Curtain(AtomicBool);

impl Curtain {
    pub(crate) fn is_down(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn fall(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Computes until the curtain falls.
pub(crate) fn hog(cx: &Cx, curtain: &Curtain) -> parcae::Result<()> {
    while !curtain.is_down() {
        cx.checkpoint()?;
    }
    Ok(())
}

/// One tenant: its options, and the body that spawns its tasks.
pub(crate) type Play<'p> =
    (NurseryOpts, Box<dyn Fn(&Cx, &Curtain) -> parcae::Result<()> + Sync + 'p>);

/// A tenant whose body is a task of its own nursery.
pub(crate) fn play<'p>(
    opts: NurseryOpts,
    task: impl Fn(&Cx, &Curtain) -> parcae::Result<()> + Sync + 'p,
) -> Play<'p> {
    (opts, Box::new(task))
}

/// Runs all tenants for this many steps, and returns the figures.
pub(crate) fn stage(rt: &Runtime, steps: u64, plays: &[Play<'_>]) -> Snapshot {
    let curtain = Curtain::default();
    rt.run(|cx| {
        cx.nursery(|all| {
            for (opts, task) in plays {
                let curtain = &curtain;
                all.spawn(move |cx| {
                    cx.nursery_with(opts.clone(), |n| {
                        n.spawn(|cx| task(cx, curtain))?;
                        Ok(())
                    })
                })?;
            }
            cx.sleep(Duration::from_micros(steps))?;
            let stats = rt.stats();
            curtain.fall();
            Ok(stats)
        })
    })
    .expect("all tenants end")
}

/// The figures of this tenant.
pub(crate) fn of<'s>(stats: &'s Snapshot, name: &str) -> &'s TenantFigures {
    stats.tenant(name).unwrap_or_else(|| panic!("no tenant {name}: {:?}", stats.tenants))
}

/// Ops of this tenant and those inside of it.
pub(crate) fn ops(stats: &Snapshot, name: &str) -> u64 {
    fn inside(stats: &Snapshot, tenant: &TenantFigures) -> u64 {
        let inner = stats.tenants.iter().filter(|inner| {
            inner.parent == tenant.number && inner.number != 0 && inner.number != tenant.number
        });
        tenant.ops + inner.map(|inner| inside(stats, inner)).sum::<u64>()
    }
    inside(stats, of(stats, name))
}

/// Asserts that two tenants had ops in this proportion, within a part of 1/`slack`.
#[track_caller]
pub(crate) fn assert_ratio(stats: &Snapshot, few: &str, many: &str, ratio: f64, slack: f64) {
    let (few_ops, many_ops) = (ops(stats, few) as f64, ops(stats, many) as f64);
    let found = many_ops / few_ops;
    let error = (found / ratio - 1.0).abs();
    assert!(error <= 1.0 / slack, "{many}/{few} = {found:.3}, not {ratio}: {few_ops}, {many_ops}");
}
