//! Tasks that mean no good beside a service that goes on. What they do is in the example `hostile` of the library.

#[path = "../../../parcae/examples/hostile/service.rs"]
mod service;
#[path = "../../../parcae/examples/hostile/tenants.rs"]
mod tenants;

use super::{Demo, Size, check};
use crate::stage::{BAD, BOLD, GOOD, Stage, grouped, paint};
use parcae::channel::unbounded;
use parcae::prelude::*;
use serde_json::{Value, json};
use service::{Latencies, serve};
use std::sync::atomic::{AtomicBool, Ordering};
use tenants::{End, TENANTS, contain, hush};

pub(super) const DEMO: Demo = Demo {
    name: "hostile",
    about: "tasks that try everything, and a service that does not notice",
    look: "Each tenant is stopped by its own budget, with an error that says what it ran out of. The service answers \
           all the while; a tenant that never comes to a checkpoint delays it, once.",
    run,
};

fn run(stage: &Stage, size: Size) -> parcae::Result<()> {
    hush();
    let budget = Budget {
        ops: size.pick(100_000_000, 300_000),
        memory: 16 << 20,
        spawn_count: 500,
        ..Budget::ZERO
    };
    let rt = Runtime::builder().workers(2).build()?;
    let requests = size.pick(2_000, 100);
    let alone = rt.run(|cx| cx.nursery(|n| n.spawn(|cx| serve(cx, |n| n >= requests))?.join()))?;

    let (reports, ends) = unbounded();
    let (tenants, beside) = rt.run(|cx| {
        let all_ended = AtomicBool::new(false);
        cx.nursery(|n| {
            let all_ended = &all_ended;
            let urgent = SpawnOpts::new().name("service").priority(Priority::High);
            let service =
                n.spawn_with(urgent, |cx| serve(cx, |_| all_ended.load(Ordering::Relaxed)))?;
            for tenant in TENANTS {
                let reports = reports.clone();
                n.spawn(move |cx| Ok(reports.send(contain(cx, tenant, budget))?))?;
            }
            drop(reports);
            let mut tenants = Vec::new();
            for end in ends {
                let end = end?;
                say(stage, &end);
                tenants.push(entry(&end));
            }
            all_ended.store(true, Ordering::Relaxed);
            Ok((tenants, service.join()?))
        })
    })?;

    stage.say("");
    for (when, late) in [("alone", &alone), ("beside_them", &beside)] {
        let [p50, p99, max] = [50, 99, 100].map(|percent| micros(late, percent));
        stage.say(format_args!(
            "the service {:12} {:>6} requests, each waited for a worker {} (p50) {p99:.0} µs (p99) {max:.0} µs (max)",
            when.replace('_', " "),
            grouped(late.count() as u64),
            paint(BOLD, format!("{p50:.1} µs")),
        ));
        stage.figure(when, json!({ "requests": late.count(), "p50": p50, "p99": p99, "max": max }));
    }
    let all = tenants.iter().all(|tenant| tenant["contained"] == true);
    stage.figure("tenants", tenants);
    check(all, "every tenant is contained")
}

fn say(stage: &Stage, end: &End) {
    let mark = if end.is_contained() { paint(GOOD, "contained") } else { paint(BAD, "ESCAPED  ") };
    stage.say(format_args!(
        "{mark} {} {:36} {}",
        paint(BOLD, format!("{:9}", end.tenant.name)),
        end.tenant.tries,
        reason(end)
    ));
}

/// What it ended with, up to where the error gives advice.
fn reason(end: &End) -> String {
    let text = end.error.as_ref().map_or("no error".to_owned(), |error| error.kind().to_string());
    text.split(';').next().unwrap_or_default().to_owned()
}

fn entry(end: &End) -> Value {
    json!({
        "name": end.tenant.name,
        "tries": end.tenant.tries,
        "contained": end.is_contained(),
        "ended_with": reason(end),
        "ops": end.spent.ops,
        "memory": end.spent.memory,
        "spawns": end.spent.spawn_count,
    })
}

fn micros(late: &Latencies, percent: usize) -> f64 {
    late.percentile(percent).as_secs_f64() * 1e6
}
