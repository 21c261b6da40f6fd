//! The lab: a bug that ordinary runs do not show, found, shrunk, explained and repaired.

use super::{Demo, Size, check};
use crate::stage::{BOLD, DIM, Stage, paint};
use parcae::lab::{Explore, FailureKind};
use parcae::prelude::*;
use parcae::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

pub(super) const DEMO: Demo = Demo {
    name: "lab",
    about: "finds the schedule in which a cache computes a value twice, and shows why",
    look: "A cache should compute each value once. It looks, computes and stores, and two tasks can look before either \
           has stored. The lab runs the test under many schedules until one fails, keeps the switches that matter, and \
           names the step after which no schedule could have saved it.",
    run,
};

/// A cache of squares.
#[derive(Default)]
struct Cache {
    values: RwLock<Vec<(u32, u32)>>,
    computed: Mutex<u32>,
}

impl Cache {
    /// The bug: the lock is free between the look and the store.
    fn square(&self, of: u32) -> parcae::Result<u32> {
        if let Some(square) = find(&self.values.read()?, of) {
            return Ok(square);
        }
        let square = self.compute(of)?;
        self.values.write()?.push((of, square));
        Ok(square)
    }

    /// Looks again under the lock with which it stores.
    fn square_once(&self, of: u32) -> parcae::Result<u32> {
        if let Some(square) = find(&self.values.read()?, of) {
            return Ok(square);
        }
        let mut values = self.values.write()?;
        if let Some(square) = find(&values, of) {
            return Ok(square);
        }
        let square = self.compute(of)?;
        values.push((of, square));
        Ok(square)
    }

    fn compute(&self, of: u32) -> parcae::Result<u32> {
        *self.computed.lock()? += 1;
        Ok(of * of)
    }
}

fn find(values: &[(u32, u32)], of: u32) -> Option<u32> {
    values.iter().find(|value| value.0 == of).map(|value| value.1)
}

type Lookup = fn(&Cache, u32) -> parcae::Result<u32>;

/// The test: three tasks want the same value.
fn test(rt: &Runtime, square: Lookup) -> parcae::Result<()> {
    let cache = Cache::default();
    rt.run(|cx| {
        cx.nursery(|n| {
            for name in ["Clotho", "Lachesis", "Atropos"] {
                n.spawn_with(SpawnOpts::new().name(name), |_| square(&cache, 7).map(drop))?;
            }
            Ok(())
        })
    })?;
    assert_eq!(*cache.computed.lock()?, 1, "computed more than once");
    Ok(())
}

fn run(stage: &Stage, size: Size) -> parcae::Result<()> {
    // Without virtual workers: the strategy chooses the task itself.
    let hunt = Explore::new().workers(0..=0).time(Duration::from_secs(30));
    let started = Instant::now();
    let Err(failure) = hunt.run(|rt| test(rt, Cache::square)) else {
        return check(false, "the lab finds the bug");
    };
    let seconds = started.elapsed().as_secs_f64();
    stage.say(format_args!(
        "{} in schedule {}, by the strategy {}; forced switches after shrinking: {}; {seconds:.2} s in all",
        paint(BOLD, failure.kind().name()),
        failure.schedule(),
        failure.strategy().name(),
        failure.forced_switches(),
    ));
    let run = failure.run();
    run.to_string().lines().for_each(|line| stage.say(format_args!("  {line}")));
    if let Some(lost) = run.lost_after {
        let who = run.name(run.steps[lost].task);
        stage.say(format_args!(
            "after step {lost}, {} of {}, no continuation passed",
            run.operation(lost),
            paint(BOLD, who),
        ));
    }
    let Ok(Err(again)) = hunt.replay(failure.token(), |rt| test(rt, Cache::square)) else {
        return check(false, "the token repeats the failure");
    };
    check(again.signature() == failure.signature(), "the token repeats the same failure")?;
    check(failure.kind() == FailureKind::Panic, "the assertion fails, and nothing else")?;
    stage.say(paint(DIM, format!("the token repeats it: {}", failure.token())));

    let hunt = hunt.schedules(size.pick(4_000, 300)).time(Duration::from_secs(5));
    let repaired = hunt.run(|rt| test(rt, Cache::square_once));
    let report = repaired.map_err(|failure| parcae::Error::msg(failure.to_string()))?;
    stage.say(format_args!("it looks twice now: {report}, none of them fails"));
    stage.figure("schedule", failure.schedule());
    stage.figure("forced_switches", failure.forced_switches());
    stage.figure("lost_after", run.lost_after);
    stage.figure("token", failure.token());
    stage.figure("repaired_schedules", report.schedules);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bug_is_found_and_explained_and_the_repair_holds() {
        let hunt = Explore::new().workers(0..=0).time(Duration::MAX);
        let failure = hunt.run(|rt| test(rt, Cache::square)).unwrap_err();
        assert_eq!(failure.kind(), FailureKind::Panic);
        assert!(failure.run().lost_after.is_some(), "{failure}");
        hunt.schedules(200).run(|rt| test(rt, Cache::square_once)).unwrap();
    }
}
