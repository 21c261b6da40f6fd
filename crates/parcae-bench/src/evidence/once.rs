//! One measurement in a process of its own, watched or not: the child of [`super`].
//!
//! A process of its own has no threads of earlier measurements, whose counters would be lost or
//! counted twice, and no memory that they left behind.

use super::kernel::Moment;
use super::perf::{self, Counters, Open, Reading, Sampler};
use super::symbols::{self, Function};
use crate::case::{Case, Failure, Peer, Scale};
use crate::workloads::WORKLOADS;
use clap::ValueEnum;
use parcae::engine::{self, Totals};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// Samples are taken for so long at least.
const SAMPLED: Duration = Duration::from_millis(300);
/// How many functions are listed.
const SYMBOLS: usize = 12;

/// The arguments of the child.
#[derive(Debug, Clone, clap::Args)]
pub struct OnceArgs {
    #[allow(missing_docs)]
    pub workload: String,
    #[allow(missing_docs)]
    pub variant: String,
    /// The kind of observation meanwhile
    #[arg(long, value_enum, default_value = "nothing")]
    pub watch: Watch,
    /// Schedulers record events from their start
    #[arg(long)]
    pub record: bool,
    /// A tenth of the work
    #[arg(long)]
    pub quick: bool,
}

/// The kind of observation during a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Watch {
    /// Nothing: the figure is clean
    Nothing,
    /// Counters of kernel and processor
    Counters,
    /// Samples of instructions
    Samples,
}

/// Measures, and returns the document that the parent reads.
pub(super) fn measure(args: &OnceArgs) -> Result<Value, Failure> {
    measure_with(args, perf::open)
}

fn measure_with(args: &OnceArgs, open: Open) -> Result<Value, Failure> {
    let case = find(&args.workload, &args.variant)?;
    let scale = Scale::new(args.quick);
    engine::record(args.record);
    (case.side.run)(&scale)?; // warms up
    let before = engine::totals();
    let start = Moment::now();
    let counters = (args.watch == Watch::Counters).then(|| Counters::start(open));
    let sampler = (args.watch == Watch::Samples).then(|| Sampler::start(open));
    let began = Instant::now();
    let value = loop {
        let value = (case.side.run)(&scale);
        // A short measurement is repeated until there are samples.
        if args.watch != Watch::Samples || value.is_err() || began.elapsed() > SAMPLED {
            break value;
        }
    };
    let wall = began.elapsed();
    let readings = counters.map(|counters| counters.read());
    let samples = sampler.map(|sampler| sampler.map(Sampler::stop));
    let end = Moment::now();
    let mut document = json!({
        "value": value?,
        "padded": !cfg!(feature = "unpadded"),
        "wall_nanos": wall.as_nanos() as u64,
        "steal": end.steal_since(&start),
        "runtime": runtime(engine::totals(), before),
    });
    if let Some(mut readings) = readings {
        end.replace(&start, &mut readings);
        readings.extend(end.process_since(&start));
        document["process"] = readings.iter().map(reading).collect();
        document["machine"] = end.machine_since(&start).iter().map(reading).collect();
    }
    document["samples"] = match samples {
        None => Value::Null,
        Some(Err(why)) => json!({ "absent": why }),
        Some(Ok(samples)) => {
            let functions = symbols::functions(&samples);
            json!({
                "hertz": perf::HERTZ,
                "taken": samples.total(),
                "lost": samples.lost,
                "full": samples.is_full,
                "kernel": samples.has_kernel,
                "parts": parts(&functions),
                "symbols": functions.iter().take(SYMBOLS).map(|f| json!([f.name, f.samples])).collect::<Vec<_>>(),
            })
        }
    };
    Ok(document)
}

/// The side of parcae.
pub(super) fn find(workload: &str, variant: &str) -> Result<Case, Failure> {
    let workload = WORKLOADS.iter().find(|w| w.name == workload).ok_or("no such workload")?;
    let mut cases = workload.cases(|peer| peer == Peer::Parcae).into_iter();
    Ok(cases.find(|case| case.variant.name == variant).ok_or("no such variant")?)
}

fn reading(reading: &Reading) -> Value {
    match &reading.value {
        Ok(value) => json!({ "name": reading.name, "value": value, "source": reading.source }),
        Err(why) => json!({ "name": reading.name, "absent": why }),
    }
}

/// Counters of the schedulers that have ended in between.
fn runtime(now: Totals, before: Totals) -> Value {
    let old = before.workers.named();
    let since = now.workers.named().into_iter().zip(old);
    let counters: Map<String, Value> = since
        .map(|((name, now), (_, old))| (name.to_owned(), now.saturating_sub(old).into()))
        .collect();
    json!({
        "schedulers": now.schedulers - before.schedulers,
        "event_bytes": now.event_bytes - before.event_bytes,
        "counters": counters,
    })
}

/// Samples by part of the program.
fn parts(functions: &[Function]) -> Value {
    let of = |part: &str| -> u64 {
        functions.iter().filter(|function| function.part == part).map(|f| f.samples).sum()
    };
    symbols::PARTS.map(|part| (part.to_owned(), Value::from(of(part)))).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn args(watch: Watch, record: bool) -> OnceArgs {
        let (workload, variant) = ("yield".to_owned(), "t2".to_owned());
        OnceArgs { workload, variant, watch, record, quick: true }
    }

    fn denied(_: &[u64; 14], _: i32) -> io::Result<std::os::fd::OwnedFd> {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }

    /// One test: totals and the switch of recordings belong to the process.
    #[test]
    fn a_measurement_has_its_counters_and_what_was_refused() {
        let document = measure_with(&args(Watch::Counters, true), denied).unwrap();
        assert!(document["value"].as_f64().is_some_and(|value| value > 0.0), "{document:#}");
        assert!(document["runtime"]["schedulers"].as_u64().is_some_and(|n| n > 0));
        let counters = &document["runtime"]["counters"];
        assert!(counters["yielded"].as_u64().is_some_and(|n| n > 1000), "{counters:#}");
        assert!(document["runtime"]["event_bytes"].as_u64().is_some_and(|bytes| bytes > 1000));
        let process = document["process"].as_array().unwrap();
        let find = |name: &str| process.iter().find(|r| r["name"] == name).unwrap();
        assert!(find("instructions")["absent"].as_str().unwrap().contains("not permitted"));
        assert_eq!(find("minor_faults")["source"], "getrusage");
        assert!(find("cpu_nanos")["value"].as_u64().is_some_and(|nanos| nanos > 0));
        assert!(document["samples"].is_null());

        let document = measure_with(&args(Watch::Samples, false), denied).unwrap();
        assert!(document["samples"]["absent"].as_str().unwrap().contains("not permitted"));
        assert_eq!(document["runtime"]["event_bytes"], 0, "nothing is recorded any more");
        assert!(document["process"].is_null());
    }

    #[test]
    fn unknown_names_are_refused() {
        assert!(find("yield", "t2").is_ok());
        assert!(find("yield", "t3").is_err());
        assert!(find("yeild", "t2").is_err());
    }

    #[test]
    fn samples_are_added_up_by_part() {
        let function = |part, samples| Function { name: String::new(), part, samples };
        let parts = parts(&[function("kernel", 3), function("runtime", 4), function("kernel", 5)]);
        assert_eq!(parts, json!({ "kernel": 8, "runtime": 4, "libraries": 0, "workload": 0 }));
    }
}
