//! Fan out: many children that borrow from their parent and return results.

use super::{Demo, Size, check, cores};
use crate::stage::{BOLD, Stage, bar, grouped, paint};
use parcae::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(super) const DEMO: Demo = Demo {
    name: "fan-out",
    about: "a thousand tasks that borrow, then a million that do nothing",
    look: "The same work on one worker and on all: tasks borrow from the stack of their parent, and a nursery \
           waits for them.",
    run,
};

/// How many numbers a task tests.
const PIECE: u64 = 3_000;

fn run(stage: &Stage, size: Size) -> parcae::Result<()> {
    let numbers = size.pick(3_000_000, 90_000);
    let mut counts = Vec::new();
    let mut times = Vec::new();
    for workers in [1, cores()] {
        let rt = Runtime::builder().workers(workers).build()?;
        let start = Instant::now();
        let count = rt.run(|cx| count_primes(cx, stage, numbers))?;
        let took = start.elapsed();
        let tasks = numbers.div_ceil(PIECE);
        stage.say(format_args!(
            "{} primes below {}, by {tasks} tasks, {workers:2} at a time: {}",
            grouped(count),
            grouped(numbers),
            paint(BOLD, format!("{:.0} ms", took.as_secs_f64() * 1e3)),
        ));
        counts.push(count);
        times.push(took);
        // The last worker count has a second part.
        if workers == cores() {
            spawn_rate(&rt, stage, size.pick(1_000_000, 20_000))?;
            let stolen: u64 = rt.stats().counters().stolen;
            stage.say(format_args!("tasks moved between workers {} times", grouped(stolen)));
            break;
        }
    }
    stage.figure("primes", counts[0]);
    stage.figure("workers", cores());
    stage.figure("seconds_one_worker", times[0].as_secs_f64());
    stage.figure("seconds_all_workers", times[times.len() - 1].as_secs_f64());
    check(counts.iter().all(|&count| count == counts[0]), "every run counts the same primes")
}

/// A task for each piece. `done` lives here and is borrowed by all: the nursery does not return
/// before they have ended.
fn count_primes(cx: &Cx, stage: &Stage, numbers: u64) -> parcae::Result<u64> {
    let done = AtomicU64::new(0);
    cx.nursery(|n| {
        let mut pieces = Vec::new();
        for start in (0..numbers).step_by(PIECE as usize) {
            let (range, done) = (start..numbers.min(start + PIECE), &done);
            pieces.push(n.spawn(move |cx| {
                let count = primes_in(cx, range.clone())?;
                done.fetch_add(range.end - range.start, Ordering::Relaxed);
                Ok(count)
            })?);
        }
        while done.load(Ordering::Relaxed) < numbers {
            let done = done.load(Ordering::Relaxed);
            stage.live(|| format!("{} {}", bar(done, numbers, 40), grouped(done)));
            cx.sleep(Duration::from_millis(5))?;
        }
        pieces.into_iter().map(TaskHandle::join).sum()
    })
}

/// By trial division. Each number is a checkpoint: other tasks get their turns, and the task can be
/// cancelled.
fn primes_in(cx: &Cx, range: Range<u64>) -> parcae::Result<u64> {
    let mut count = 0;
    for number in range {
        cx.checkpoint()?;
        let mut divisors = (2..).take_while(|divisor| divisor * divisor <= number);
        count += u64::from(number >= 2 && divisors.all(|divisor| number % divisor != 0));
    }
    Ok(count)
}

/// The cost of an empty task.
fn spawn_rate(rt: &Runtime, stage: &Stage, tasks: u64) -> parcae::Result<()> {
    let ran = AtomicU64::new(0);
    let start = Instant::now();
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..tasks {
                n.spawn(|_| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })?;
            }
            Ok(())
        })
    })?;
    let seconds = start.elapsed().as_secs_f64();
    stage.say(format_args!(
        "{} tasks spawned, run and ended: {}",
        grouped(tasks),
        paint(BOLD, format!("{:.1} million per second", tasks as f64 / seconds / 1e6)),
    ));
    stage.figure("tasks", tasks);
    stage.figure("tasks_per_second", tasks as f64 / seconds);
    check(ran.into_inner() == tasks, "every task has run")
}
