//! Figures of real runs.

use super::*;
use crate::prelude::*;
use crate::support::{Schedule, WORKERS, schedules, watched};
use std::collections::HashMap;

/// Runs `test` under several schedules, with times measured.
fn measured(test: impl Fn(&Runtime)) {
    let timed = |schedule: Schedule| test(&watched(schedule.builder().measure(Measure::Times)));
    schedules(&[3], 20, 0, timed);
    schedules(&WORKERS, 0, 1, timed);
}

fn named(name: &str) -> NurseryOpts {
    NurseryOpts::new().name(name)
}

#[test]
fn tasks_of_a_nursery_are_counted() {
    measured(|rt| {
        rt.run(|cx| {
            for _ in 0..2 {
                cx.nursery_with(named("mixed").on_failure(OnFailure::Isolate), |n| {
                    for i in 0..10 {
                        let child = n.spawn(move |cx| match i % 5 {
                            0 => Err(std::io::Error::other("no").into()),
                            1 => panic!("never"),
                            _ => cx.yield_now(),
                        })?;
                        let _ = child.join();
                    }
                    let inside = rt_snapshot(cx);
                    assert_eq!(inside.nursery("mixed").unwrap().open, 1);
                    Ok(())
                })?;
            }
            cx.nursery(|n| {
                n.spawn(|_| Ok(()))?.join()?;
                let inside = rt_snapshot(cx);
                let open = |n: &&NurseryFigures| matches!(n.which, Which::Number(_));
                let me = inside.nurseries.iter().find(open).unwrap();
                assert_eq!((me.open, me.finished, me.live), (1, 1, 0));
                Ok(())
            })
        })
        .unwrap();
        let snapshot = rt.stats();
        let mixed = snapshot.nursery("mixed").unwrap();
        assert_eq!((mixed.finished, mixed.failed), (12, 8));
        assert_eq!((mixed.open, mixed.live), (0, 0));
        let find = |which| snapshot.nurseries.iter().find(|n| n.which == which).unwrap();
        assert_eq!(find(Which::Unnamed).finished, 1);
        assert_eq!((find(Which::Roots).finished, find(Which::Roots).failed), (1, 0));
        assert!(!snapshot.nurseries.iter().any(|n| matches!(n.which, Which::Number(_))));
    });
}

fn rt_snapshot<P: crate::scope::profile::Profile>(cx: &Cx<P>) -> Snapshot {
    Snapshot::of(&cx.frame().settings().shared)
}

#[test]
fn virtual_times_add_up() {
    for seed in 0..30 {
        let rt = Runtime::builder().deterministic(seed).workers(2).measure(Measure::Times);
        let rt = rt.build().unwrap();
        rt.run(|cx| {
            cx.nursery_with(named("sleepers"), |n| {
                for _ in 0..10 {
                    n.spawn(|cx| cx.sleep(Duration::from_millis(5)))?;
                }
                Ok(())
            })
        })
        .unwrap();
        let snapshot = rt.stats();
        let sleepers = snapshot.nursery("sleepers").unwrap();
        // Each waits for its five milliseconds, and for nothing else.
        let waited = sleepers.waited.as_micros();
        assert!((49_900..=50_100).contains(&waited), "seed {seed}: {waited}");
        assert!(sleepers.starved < Duration::from_millis(1), "{:?}", sleepers.starved);
        let all: Duration = snapshot.nurseries.iter().map(|n| n.ran).sum();
        let busy: Duration = snapshot.workers.iter().map(|w| w.busy).sum();
        assert_eq!(all, busy, "what workers ran is what tasks ran");
        assert_eq!(snapshot.run_length.sum(), busy);
        assert_eq!(snapshot.run_length.count(), snapshot.counters().executed);
    }
}

// rule: S3-GOAL-8
#[test]
fn who_starves_is_seen() {
    let rt = Runtime::builder().deterministic(1).workers(1).measure(Measure::Times);
    let rt = rt.build().unwrap();
    rt.run(|cx| {
        cx.nursery_with(named("crowd"), |n| {
            for _ in 0..20 {
                n.spawn(|cx| (0..10).try_for_each(|_| cx.yield_now()))?;
            }
            Ok(())
        })
    })
    .unwrap();
    let snapshot = rt.stats();
    let crowd = snapshot.nursery("crowd").unwrap();
    // Twenty take turns on one worker, which takes a step for each: nineteen twentieths of the time
    // they wait for it.
    assert!(crowd.starved > crowd.ran * 10, "{crowd:?}");
    assert_eq!(crowd.waited, Duration::ZERO);
    assert!(snapshot.wake_to_run.count() >= 200);
    assert!(snapshot.wake_to_run.quantile(0.5) >= Duration::from_micros(10));
}

// rule: S0-WORKER-8
#[test]
fn turns_on_threads_are_measured() {
    let rt = Runtime::builder().workers(2).measure(Measure::Times).build().unwrap();
    rt.run(|cx| {
        cx.nursery_with(named("workers"), |n| {
            for _ in 0..50 {
                n.spawn(|cx| (0..20).try_for_each(|_| cx.yield_now()))?;
            }
            Ok(())
        })
    })
    .unwrap();
    while rt.live_tasks() > 0 {
        std::thread::yield_now();
    }
    let snapshot = rt.stats();
    let counters = snapshot.counters();
    assert_eq!(snapshot.run_length.count(), counters.executed);
    assert!(snapshot.wake_to_run.count() > 0);
    let busy: Duration = snapshot.workers.iter().map(|w| w.busy).sum();
    assert!(busy > Duration::ZERO && busy <= snapshot.at * 2, "{busy:?} of {:?}", snapshot.at);
    assert!(snapshot.nursery("workers").unwrap().ran > Duration::ZERO);
}

#[test]
fn budget_spent_is_that_of_the_nursery() {
    measured(|rt| {
        let rounds = 3;
        rt.run(|cx| {
            for _ in 0..rounds {
                let budget = Budget { ops: 10_000_000, spawn_count: 100, ..Budget::UNLIMITED };
                cx.nursery_with(named("bounded").budget(budget), |n| {
                    for _ in 0..5 {
                        n.spawn(|cx| (0..7).try_for_each(|_| cx.checkpoint()))?;
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
        .unwrap();
        let spent = rt.stats().nursery("bounded").unwrap().spent;
        assert_eq!((spent.spawn_count, spent.memory), (rounds * 5, 0));
        assert!(spent.ops >= rounds * 5 * 7 && spent.ops < 1_000, "{spent:?}");
    });
}

// rule: S0-ROOT-12, S3-EVID-1
#[test]
fn without_times_there_are_counters() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    rt.run(|cx| cx.nursery_with(named("any"), |n| n.spawn(|_| Ok(()))?.join())).unwrap();
    let snapshot = rt.stats();
    assert_eq!(snapshot.counters().spawned_here, 1);
    assert!(snapshot.nurseries.is_empty() && snapshot.run_length.count() == 0);
    assert!(!snapshot.to_prometheus().contains("seconds"));
}

/// A sample: name, labels, value.
type Sample = (String, Vec<(String, String)>, f64);

/// The text format, strictly: comments first, each family once, values that are numbers.
fn parse(text: &str) -> (HashMap<String, String>, Vec<Sample>) {
    let (mut kinds, mut samples) = (HashMap::new(), Vec::new());
    let mut helped = None;
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = help.split(' ').next().map(str::to_owned);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(helped.as_deref(), Some(name), "help comes before type");
            assert!(["counter", "gauge", "histogram"].contains(&kind));
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
        } else {
            samples.push(sample(line));
        }
    }
    (kinds, samples)
}

fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(end);
    assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap();
            let (mut value, mut chars) = (String::new(), after.char_indices());
            let end = loop {
                match chars.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match chars.next().unwrap().1 {
                        'n' => '\n',
                        c @ ('\\' | '"') => c,
                        c => panic!("escape {c}"),
                    }),
                    (_, c) => value.push(c),
                }
            };
            labels.push((label.to_owned(), value));
            rest = &after[end + 1..];
            match rest.split_at(1) {
                (",", more) => rest = more,
                ("}", more) => {
                    rest = more;
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    (name.to_owned(), labels, rest.trim().parse().unwrap())
}

#[test]
fn prometheus_can_read_it() {
    let nasty = "a \"quoted\\\" name\nwith a line";
    measured(|rt| {
        rt.run(|cx| {
            cx.nursery_with(named(nasty), |n| {
                n.spawn(|cx| cx.sleep(Duration::from_millis(1)))?.join()
            })
        })
        .unwrap();
        let snapshot = rt.stats();
        let (kinds, samples) = parse(&snapshot.to_prometheus());
        for (name, labels, value) in &samples {
            assert!(value.is_finite() && *value >= 0.0);
            let family =
                ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let kind = kinds.get(family.unwrap_or(name)).or(kinds.get(name)).unwrap();
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} {kind} {labels:?}");
        }
        let nasty = vec![("nursery".to_owned(), nasty.to_owned())];
        let found = samples.iter().find(|s| s.0 == "parcae_nursery_finished_total" && s.1 == nasty);
        assert_eq!(found.unwrap().2, 1.0);
        let buckets: Vec<f64> =
            samples.iter().filter(|s| s.0 == "parcae_run_seconds_bucket").map(|s| s.2).collect();
        assert!(buckets.is_sorted() && buckets.len() == 26);
        let count = samples.iter().find(|s| s.0 == "parcae_run_seconds_count").unwrap().2;
        assert_eq!((*buckets.last().unwrap(), count), (count, snapshot.run_length.count() as f64));
        let mut names: Vec<_> = samples.iter().map(|s| (&s.0, &s.1)).collect();
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a sample twice");
    });
}

#[test]
fn names_do_not_grow_without_end() {
    let rt = Runtime::builder().workers(1).measure(Measure::Times).build().unwrap();
    rt.run(|cx| {
        for i in 0..1100 {
            cx.nursery_with(named(&format!("number {i}")), |n| n.spawn(|_| Ok(()))?.join())?;
        }
        Ok(())
    })
    .unwrap();
    let snapshot = rt.stats();
    assert_eq!(snapshot.nurseries.len(), 1024 + 2);
    let finished: u64 = snapshot.nurseries.iter().map(|n| n.finished).sum();
    assert_eq!(finished, 1101, "the rest is counted with the unnamed");
}

#[cfg(feature = "metrics")]
mod published {
    use super::*;
    use metrics::{
        Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder,
        SharedString, Unit,
    };
    use std::sync::{Arc, Mutex};

    #[derive(Default, Clone)]
    struct Kept(Arc<Mutex<HashMap<String, f64>>>);

    struct One(String, Kept);

    impl CounterFn for One {
        fn increment(&self, _: u64) {
            panic!("counters are set");
        }
        fn absolute(&self, value: u64) {
            self.1.0.lock().unwrap().insert(self.0.clone(), value as f64);
        }
    }

    impl GaugeFn for One {
        fn increment(&self, _: f64) {
            panic!("gauges are set");
        }
        fn decrement(&self, _: f64) {
            panic!("gauges are set");
        }
        fn set(&self, value: f64) {
            self.1.0.lock().unwrap().insert(self.0.clone(), value);
        }
    }

    impl Kept {
        fn one(&self, key: &Key) -> Arc<One> {
            let labels: String =
                key.labels().map(|label| format!(" {}={}", label.key(), label.value())).collect();
            Arc::new(One(format!("{}{labels}", key.name()), self.clone()))
        }
    }

    impl Recorder for Kept {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.one(key))
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(self.one(key))
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            panic!("none is used")
        }
    }

    #[test]
    fn a_recorder_gets_what_the_snapshot_has() {
        let rt = Runtime::builder().deterministic(4).workers(2).measure(Measure::Times);
        let rt = rt.build().unwrap();
        rt.run(|cx| cx.nursery_with(named("any"), |n| n.spawn(|_| Ok(()))?.join())).unwrap();
        let (kept, snapshot) = (Kept::default(), rt.stats());
        metrics::with_local_recorder(&kept, || snapshot.publish());
        let kept = kept.0.lock().unwrap();
        assert_eq!(kept["parcae_nursery_finished_total nursery=any"], 1.0);
        let ended: f64 =
            (0..2).map(|w| kept[&format!("parcae_worker_ended_total worker={w}")]).sum();
        assert_eq!(ended, 2.0);
        assert!(kept.contains_key("parcae_run_seconds quantile=0.99"));
        let families: usize = families::all(&snapshot).iter().map(|f| f.samples.len()).sum();
        assert_eq!(kept.len(), families + 8);
    }
}
