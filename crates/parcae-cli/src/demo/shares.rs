//! Tenants that compute on the same worker and get time by weight: live on a thread, then again
//! under the deterministic executor, where the shares are exact enough to be checked.

use super::{Demo, Size, check};
use crate::stage::{BOLD, DIM, Stage, bar, paint};
use parcae::policy::Weight;
use parcae::prelude::*;
use parcae::stats::{Snapshot, TenantFigures};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) const DEMO: Demo = Demo {
    name: "shares",
    about: "three tenants get processor time by weight, not by their number of tasks",
    look: "Weights are 1 : 2 : 4. The lightest tenant has ten times the tasks of the others, which gains it nothing. \
           Then the weight of the lightest is raised while it runs. `wanted` is the share by weight, `feasible` what \
           the ready tasks allow, `got` what was measured.",
    run,
};

/// Names, weights and numbers of tasks.
const TENANTS: [(&str, u32, usize); 3] = [("free", 1024, 50), ("paid", 2048, 5), ("gold", 4096, 5)];
/// The weight of the first tenant in the second half.
const RAISED: u32 = 2 * 4096;

/// Runs the tenants for two periods; `look` is called several times in each, and at its end.
fn play(
    rt: &Runtime,
    period: Duration,
    looks: u32,
    mut look: impl FnMut(&Snapshot) + Send,
) -> parcae::Result<[Snapshot; 2]> {
    let over = AtomicBool::new(false);
    let mut watch = |cx: &Cx| -> parcae::Result<Snapshot> {
        for _ in 0..looks {
            cx.sleep(period / looks)?;
            look(&rt.stats());
        }
        Ok(rt.stats())
    };
    rt.run(|cx| {
        cx.nursery(|tenants| {
            let (tx, rx) = parcae::channel::channel::<Weight>(1);
            for (name, weight, tasks) in TENANTS {
                let (over, rx) = (&over, rx.clone());
                tenants.spawn(move |cx| {
                    let opts = NurseryOpts::new().name(name).share(share(weight)?);
                    cx.nursery_with(opts, |n| {
                        for _ in 0..tasks {
                            n.spawn(move |cx| {
                                while !over.load(Ordering::Relaxed) {
                                    cx.checkpoint()?;
                                }
                                Ok(())
                            })?;
                        }
                        // The body belongs to no tenant; it waits.
                        if name == TENANTS[0].0 {
                            n.set_share(rx.recv()?)?;
                        }
                        Ok(())
                    })
                })?;
            }
            let first = watch(cx);
            tx.send(share(RAISED)?)?;
            let second = watch(cx);
            over.store(true, Ordering::Relaxed);
            Ok([first?, second?])
        })
    })
}

fn share(weight: u32) -> parcae::Result<Weight> {
    Weight::new(weight).ok_or_else(|| parcae::Error::msg("weights are from 1 to 2^20"))
}

fn named(stats: &Snapshot) -> impl Iterator<Item = &TenantFigures> {
    TENANTS.iter().filter_map(|(name, ..)| stats.tenant(name))
}

fn run(stage: &Stage, size: Size) -> parcae::Result<()> {
    let rt = Runtime::builder().workers(1).build()?;
    let period = size.pick(Duration::from_millis(2_000), Duration::from_millis(200));
    let seen = play(&rt, period, size.pick(40, 4), |stats| {
        stage.live(|| {
            let cell = |tenant: &TenantFigures| {
                let got = (tenant.got * 1000.0) as u64;
                let name = tenant.name.as_deref().unwrap_or_default();
                format!("{name} {} {:>3.0} %", bar(got, 1000, 14), 100.0 * tenant.got)
            };
            named(stats).map(cell).collect::<Vec<_>>().join("   ")
        });
    })?;
    for (stats, title) in seen.iter().zip(["weights 1 : 2 : 4", "then free gets weight 8"]) {
        stage.say(paint(DIM, format!("{title}, on a thread")));
        stage.say(paint(DIM, "tenant   tasks  weight  wanted  feasible     got     ran"));
        for (tenant, (name, _, tasks)) in named(stats).zip(TENANTS) {
            let percent = |share: f64| format!("{:.1} %", 100.0 * share);
            stage.say(format_args!(
                "{} {tasks:>7} {:>7} {:>7} {:>9} {:>7} {:>4} ms  {}",
                paint(BOLD, format!("{name:6}")),
                tenant.weight,
                percent(tenant.wanted),
                percent(tenant.feasible),
                percent(tenant.got),
                tenant.ran.as_millis(),
                bar((tenant.got * 1000.0) as u64, 1000, 20),
            ));
        }
    }
    stage.figure("threads", json!([figures(&seen[0]), figures(&seen[1])]));
    check(named(&seen[1]).all(|tenant| tenant.turns > 0), "no tenant starves")?;

    // Other programs take the processor from a thread, but not from the deterministic executor.
    // Its clock advances by a microsecond for each run of a task.
    let exact = Runtime::builder().deterministic(7).workers(1).yield_interval(64).build()?;
    let period = Duration::from_micros(size.pick(40_000, 20_000));
    let [first, second] = play(&exact, period, 1, |_| {})?;
    let ops = |stats: &Snapshot| named(stats).map(|tenant| tenant.ops as f64).collect::<Vec<_>>();
    let (before, all) = (ops(&first), ops(&second));
    let after: Vec<f64> = all.iter().zip(&before).map(|(all, before)| all - before).collect();
    stage.say("");
    for (ops, weights) in [(&before, [1.0, 2.0, 4.0]), (&after, [8.0, 2.0, 4.0])] {
        let unit = ops.iter().sum::<f64>() / weights.iter().sum::<f64>();
        let [free, paid, gold] = [0, 1, 2].map(|at| ops[at] / unit);
        stage.say(format_args!(
            "counted in ops, without a clock: free : paid : gold = {}",
            paint(BOLD, format!("{free:.2} : {paid:.2} : {gold:.2}")),
        ));
        let near = |(got, weight): (f64, f64)| (got / weight - 1.0).abs() < 0.05;
        check(
            [free, paid, gold].into_iter().zip(weights).all(near),
            "ops are used by weight, within 5 %",
        )?;
    }
    stage.figure("ops", json!([before, after]));
    Ok(())
}

fn figures(stats: &Snapshot) -> serde_json::Value {
    let entry = |tenant: &TenantFigures| {
        json!({
            "name": tenant.name.as_deref(),
            "weight": tenant.weight,
            "wanted": tenant.wanted,
            "feasible": tenant.feasible,
            "got": tenant.got,
            "ran_ms": tenant.ran.as_millis() as u64,
        })
    };
    named(stats).map(entry).collect()
}
