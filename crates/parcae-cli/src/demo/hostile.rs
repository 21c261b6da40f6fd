//! Hostile tasks beside a service that keeps answering. The tasks are those of the library's
//! example `hostile`.

#[path = "../../../parcae/examples/hostile/beside.rs"]
mod beside;
#[path = "../../../parcae/examples/hostile/service.rs"]
mod service;
#[path = "../../../parcae/examples/hostile/tenants.rs"]
mod tenants;

use super::{Demo, Size, check};
use crate::stage::{BAD, BOLD, GOOD, Stage, grouped, paint};
use beside::beside;
use parcae::prelude::*;
use serde_json::{Value, json};
use service::{Latencies, serve};
use tenants::{End, hush};

pub(super) const DEMO: Demo = Demo {
    name: "hostile",
    about: "hostile tasks beside a service that is not disturbed",
    look: "Each tenant is stopped by its own budget, with an error that names the exhausted resource. The service \
           keeps answering; a tenant that never reaches a checkpoint delays it once.",
    run,
};

fn run(stage: &Stage, size: Size) -> parcae::Result<()> {
    hush();
    let budget = Budget {
        ops: size.pick(100_000_000, 300_000),
        memory: 16 << 20,
        spawn_count: 500,
        channel_ops: size.pick(1_000_000, 5_000),
        ..Budget::ZERO
    };
    let rt = Runtime::builder().workers(2).build()?;
    let requests = size.pick(2_000, 100);
    let alone = rt.run(|cx| cx.nursery(|n| n.spawn(|cx| serve(cx, |n| n >= requests))?.join()))?;

    let (ends, beside) = rt.run(|cx| beside(cx, budget, |end| say(stage, end)))?;

    stage.say("");
    for (when, late) in [("alone", &alone), ("beside_them", &beside)] {
        let [p50, p99, max] = [50, 99, 100].map(|percent| micros(late, percent));
        let when_text = when.replace('_', " ");
        stage.say(format_args!(
            "the service {when_text:12}{:>6} requests waited {} (p50), {p99:.0} µs (p99), {max:.0} µs (max)",
            grouped(late.count() as u64),
            paint(BOLD, format!("{p50:.1} µs")),
        ));
        stage.figure(when, json!({ "requests": late.count(), "p50": p50, "p99": p99, "max": max }));
    }
    stage.figure("tenants", ends.iter().map(entry).collect::<Vec<_>>());
    check(ends.iter().all(End::is_contained), "every tenant is contained")
}

fn say(stage: &Stage, end: &End) {
    let mark = if end.is_contained() { paint(GOOD, "contained") } else { paint(BAD, "ESCAPED  ") };
    stage.say(format_args!(
        "{mark} {} {:38} {}",
        paint(BOLD, format!("{:9}", end.tenant.name)),
        end.tenant.tries,
        reason(end)
    ));
}

/// The error, without its advice.
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
        "channel_ops": end.spent.channel_ops,
    })
}

fn micros(late: &Latencies, percent: usize) -> f64 {
    late.percentile(percent).as_secs_f64() * 1e6
}
