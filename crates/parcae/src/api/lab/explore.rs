//! The settings of a hunt, and its loop.
//!
//! Schedule number i of a hunt depends on the hunt's seed, on i, and on the schedules of the same
//! strategy before it (what PCT and URW have learnt). The strategies take turns. Three of four
//! schedules are bare; one of four has virtual workers. Threads divide the schedules of a hunt by
//! their numbers.
//!
//! A failure is [investigated](super::investigate).

use super::divergence::{Divergence, whole_trace};
use super::failure::{Failure, Report};
use super::faults::Faults;
use super::publish::{Publication, publish, tell};
use super::stand::{Oracles, ScheduleOpts, Stand};
use super::token::{Token, TokenForm};
use super::watch::Watch;
use super::{regressions, replay};
use crate::api::runtime::{Builder, Runtime};
use crate::base::error::{Error, Result};
use crate::base::rng::mix;
use crate::sched::lab::{Chooser, FaultRates, Strategy, chooser};
use crate::scope::cx::Preempt;
use crate::scope::profile::Profile;
use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A hunt for a schedule in which a test fails.
///
/// ```
/// use parcae::lab::Explore;
///
/// let report = Explore::new().schedules(50).run(|rt| rt.run(|cx| cx.yield_now()))?;
/// assert_eq!(report.schedules, 50);
/// # Ok::<(), parcae::lab::Failure>(())
/// ```
///
/// # Environment
///
/// Read once per hunt: `PARCAE_REPLAY=token` runs that run alone, `PARCAE_SCHEDULES=n` and
/// `PARCAE_TIME=seconds` replace the bounds of the hunt (`PARCAE_SCHEDULES=x10` multiplies it),
/// `PARCAE_STRATEGY=name` the strategies.
///
/// The tokens of the test in `PARCAE_REGRESSIONS=file` (default: `.parcae/regressions`) run first.
/// With `PARCAE_KEEP=1` a failure adds its token there. A line is the name of a test and a token.
///
/// `PARCAE_HTML=file` writes a picture of the failure, `PARCAE_RECORD=file` appends the run as a
/// line of JSON. With `PARCAE_REPLAY`: `PARCAE_UNTIL=step` adds a dump of all tasks before that
/// step to the recording, `PARCAE_SHRINK=1` shrinks the run first, `PARCAE_PROBE=samples` looks
/// longer for the step that decides. The program `parcae` sets these (`parcae replay`, `shrink`,
/// `explain`).
#[derive(Debug, Clone)]
#[must_use]
pub struct Explore {
    schedules: u64,
    time: Duration,
    workers: RangeInclusive<usize>,
    steps: u64,
    strategies: Vec<Strategy>,
    faults: Faults,
    seed: u64,
    threads: usize,
    watchdog: Duration,
    pub(super) virtual_time: Duration,
    verify: u64,
}

impl Default for Explore {
    fn default() -> Explore {
        Explore::new()
    }
}

/// The default portfolio. Those that have no weak spot come twice.
const PORTFOLIO: [Strategy; 10] = [
    Strategy::RandomSlices,
    Strategy::Urw,
    Strategy::Pct,
    Strategy::RandomWalk,
    Strategy::Pos,
    Strategy::Exhaustive,
    Strategy::Urw,
    Strategy::Pct,
    Strategy::Starvation,
    Strategy::RoundRobin,
];

impl Explore {
    /// The defaults: 1000 schedules, 10 seconds, all strategies, no faults, one thread.
    pub fn new() -> Explore {
        Explore {
            schedules: 1_000,
            time: Duration::from_secs(10),
            workers: 0..=3,
            steps: 20_000,
            strategies: PORTFOLIO.to_vec(),
            faults: Faults::default(),
            seed: 0,
            threads: 1,
            watchdog: Duration::from_secs(60),
            virtual_time: Duration::MAX,
            verify: 1_000,
        }
    }

    /// The most schedules.
    pub fn schedules(mut self, schedules: u64) -> Explore {
        self.schedules = schedules;
        self
    }

    /// The longest time of the hunt.
    pub fn time(mut self, time: Duration) -> Explore {
        self.time = time;
        self
    }

    /// The numbers of virtual workers. With 0 in the range (the default is `0..=3`), three of four
    /// schedules have no workers: the strategy chooses the task itself. The others have these
    /// numbers in turn.
    pub fn workers(mut self, workers: RangeInclusive<usize>) -> Explore {
        self.workers = workers;
        self
    }

    /// Operations after which a schedule becomes fair; after twice as many it is a livelock.
    pub fn steps(mut self, steps: u64) -> Explore {
        self.steps = steps;
        self
    }

    /// The strategies that schedules have in turn.
    pub fn strategies(mut self, strategies: impl IntoIterator<Item = Strategy>) -> Explore {
        self.strategies = strategies.into_iter().collect();
        self
    }

    /// The faults that are injected.
    pub fn faults(mut self, faults: Faults) -> Explore {
        self.faults = faults;
        self
    }

    /// The seed of the hunt: the same seed gives the same schedules. Default: 0.
    pub fn seed(mut self, seed: u64) -> Explore {
        self.seed = seed;
        self
    }

    /// Threads that divide the schedules. Default: one, because tests run beside each other anyway.
    pub fn threads(mut self, threads: usize) -> Explore {
        self.threads = threads.max(1);
        self
    }

    /// The longest virtual time of a schedule: one that takes longer has failed. Time passes only
    /// when all tasks wait. Default: no bound.
    ///
    /// ```
    /// use parcae::lab::{Explore, FailureKind};
    /// use std::time::Duration;
    ///
    /// let hunt = Explore::new().virtual_time(Duration::from_secs(10));
    /// let slow = |rt: &parcae::Runtime| rt.run(|cx| cx.sleep(Duration::from_secs(20)));
    /// assert_eq!(hunt.run(slow).unwrap_err().kind(), FailureKind::Late);
    /// ```
    pub fn virtual_time(mut self, time: Duration) -> Explore {
        self.virtual_time = time;
        self
    }

    /// Every so many schedules, one is repeated on a new runtime, and the operations are compared:
    /// a test that depends on anything but its schedule shows, and so does a defect of the lab. A
    /// difference is reported by [`Report::diverged`]. Default: 1000; 0 for never.
    ///
    /// ```
    /// use parcae::lab::Explore;
    ///
    /// let report = Explore::new().schedules(50).verify(1).run(|rt| rt.run(|cx| cx.yield_now()))?;
    /// assert_eq!(report.diverged, None);
    /// # Ok::<(), parcae::lab::Failure>(())
    /// ```
    pub fn verify(mut self, every: u64) -> Explore {
        self.verify = every;
        self
    }

    /// The longest real time of one schedule. After that the token is printed and the process
    /// aborts: a task that neither ends nor reaches a point cannot be stopped. Default: a minute.
    pub fn watchdog(mut self, time: Duration) -> Explore {
        self.watchdog = time;
        self
    }

    /// Runs the test until it fails, or the settings say that it is enough.
    ///
    /// # Errors
    ///
    /// The schedule in which the test failed.
    ///
    /// # Panics
    ///
    /// If an environment variable of the lab has a value that it cannot have.
    pub fn run(
        &self,
        test: impl Fn(&Runtime) -> Result<()> + Sync,
    ) -> std::result::Result<Report, Failure> {
        self.run_on(Runtime::builder(), test)
    }

    /// As [`run`](Explore::run), on runtimes of another profile or with other settings. The lab
    /// chooses the executor, the workers and the seed.
    ///
    /// ```
    /// use parcae::lab::Explore;
    /// use parcae::prelude::*;
    /// use parcae::profile::Cluster;
    ///
    /// let cluster = Runtime::builder().profile::<Cluster>().budget(Budget::CLUSTER);
    /// let report = Explore::new().schedules(50).run_on(cluster, |rt| {
    ///     rt.run(|cx| {
    ///         assert!(cx.budget().ops <= Budget::CLUSTER.ops);
    ///         cx.yield_now()
    ///     })
    /// })?;
    /// assert_eq!(report.schedules, 50);
    /// # Ok::<(), parcae::lab::Failure>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`run`](Explore::run).
    ///
    /// # Panics
    ///
    /// As for [`run`](Explore::run).
    pub fn run_on<P: Profile + Clone>(
        &self,
        builder: Builder<P>,
        test: impl Fn(&Runtime<P>) -> Result<()> + Sync,
    ) -> std::result::Result<Report, Failure> {
        let hunt = self.clone().with_environment();
        if let Ok(token) = std::env::var("PARCAE_REPLAY") {
            return replay::from_environment(&hunt, &token, builder, &test);
        }
        let mut report = Report::default();
        for token in regressions::tokens() {
            match hunt.replay_on(builder.clone(), &token, &test) {
                Ok(Ok(passed)) => report.add(passed),
                Ok(Err(mut failure)) => {
                    failure.add_note("an earlier failure, from the regression list");
                    publish(&Publication::of(&failure));
                    return Err(failure);
                }
                Err(error) => tell(format_args!("regression list: {error}")),
            }
        }
        let started = Instant::now();
        // The lowest number of a schedule that has failed.
        let failed = AtomicU64::new(u64::MAX);
        let part = |first: u64| {
            let builder = builder.clone();
            hunt.hunt(first, started, &failed, builder, Oracles::All, &mut |rt| test(rt))
        };
        let results: Vec<_> = if hunt.threads == 1 {
            vec![part(0)]
        } else {
            std::thread::scope(|scope| {
                let part = &part;
                let threads: Vec<_> =
                    (0..hunt.threads as u64).map(|at| scope.spawn(move || part(at))).collect();
                threads.into_iter().map(|thread| thread.join().expect("a hunt")).collect()
            })
        };
        let mut first: Option<Failure> = None;
        for result in results {
            match result {
                Ok(part) => report.add(part),
                Err(failure) => {
                    if first.as_ref().is_none_or(|first| failure.schedule() < first.schedule()) {
                        first = Some(failure);
                    }
                }
            }
        }
        report.time = started.elapsed();
        match first {
            Some(failure) => {
                publish(&Publication::of(&failure));
                regressions::keep(&failure);
                Err(failure)
            }
            None => Ok(report),
        }
    }

    fn with_environment(mut self) -> Explore {
        let given = |name: &str| std::env::var(name).ok();
        if let Some(text) = given("PARCAE_SCHEDULES") {
            let times = text.strip_prefix(['x', '×']);
            let number: std::result::Result<u64, _> = times.unwrap_or(&text).parse();
            let Ok(number) = number else {
                panic!("PARCAE_SCHEDULES is `{text}`; it takes a number, or a factor like x10")
            };
            self.schedules = if times.is_some() { self.schedules * number } else { number };
            self.time = Duration::MAX;
        }
        if let Some(text) = given("PARCAE_TIME") {
            let Ok(seconds) = text.trim_end_matches('s').parse() else {
                panic!("PARCAE_TIME is `{text}`; it takes seconds, like 60 or 60s")
            };
            self.time = Duration::from_secs_f64(seconds);
            if given("PARCAE_SCHEDULES").is_none() {
                self.schedules = u64::MAX;
            }
        }
        if let Some(text) = given("PARCAE_STRATEGY") {
            let named = text.split(',').map(str::parse).collect::<std::result::Result<_, _>>();
            self.strategies = named.unwrap_or_else(|error| panic!("PARCAE_STRATEGY: {error}"));
        }
        assert!(!self.strategies.is_empty(), "a hunt needs a strategy");
        self
    }

    /// The schedules `first`, `first + threads` and so on.
    fn hunt<P: Profile + Clone>(
        &self,
        first: u64,
        started: Instant,
        failed: &AtomicU64,
        builder: Builder<P>,
        oracles: Oracles,
        test: &mut dyn FnMut(&Runtime<P>) -> Result<()>,
    ) -> std::result::Result<Report, Failure> {
        let stand = Stand::new(builder, oracles);
        let watch = Watch::start(self.watchdog);
        let mut choosers: BTreeMap<Strategy, Box<dyn Chooser>> = BTreeMap::new();
        let mut seen: HashSet<u64> = HashSet::new();
        let mut report = Report::default();
        let mut schedule = first;
        let mut unfinished: Vec<Strategy> = self.strategies.clone();
        // Relaxed: a later look finds the number.
        while schedule < self.schedules
            && started.elapsed() < self.time
            && failed.load(Ordering::Relaxed) > schedule
        {
            let turn = (schedule / self.threads as u64) as usize;
            let strategy = unfinished[turn % unfinished.len()];
            let opts = self.opts(schedule, strategy);
            let used = choosers.remove(&strategy).unwrap_or_else(|| chooser(strategy));
            let token = Token {
                strategy,
                workers: opts.workers,
                limit: opts.limit,
                seed: opts.seed,
                faults: opts.faults,
                hash: 0,
                form: TokenForm::Seed { memory: used.memory() },
            };
            watch.begin(&token);
            let ran = stand.run(opts, used, test);
            watch.end();
            report.schedules += 1;
            report.steps += ran.steps;
            *report.strategies.entry(strategy).or_default() += 1;
            if seen.len() < 1 << 20 && seen.insert(ran.hash) {
                report.distinct += 1;
            }
            if ran.symptom.is_none()
                && report.diverged.is_none()
                && self.verify > 0
                && report.schedules.is_multiple_of(self.verify)
            {
                report.diverged = self.compare(&stand, &token, opts, ran.hash, test);
            }
            if ran.symptom.is_some() {
                failed.fetch_min(schedule, Ordering::Relaxed); // as above
                let token = Token { hash: ran.hash, ..token };
                return Err(self.investigate(&stand, schedule, &token, ran, test));
            }
            if !ran.more {
                report.exhausted = true;
                unfinished.retain(|other| *other != strategy);
                if unfinished.is_empty() {
                    break;
                }
            }
            choosers.insert(strategy, ran.chooser);
            schedule += self.threads as u64;
        }
        report.time = started.elapsed();
        Ok(report)
    }

    /// Repeats a schedule that has passed on a new runtime, and compares the operations.
    fn compare<P: Profile + Clone>(
        &self,
        stand: &Stand<P>,
        token: &Token,
        opts: ScheduleOpts,
        hash: u64,
        test: &mut dyn FnMut(&Runtime<P>) -> Result<()>,
    ) -> Option<Divergence> {
        stand.forget();
        if stand.run(opts, token.chooser(), test).hash == hash {
            return None;
        }
        // Both again, recorded: on a new runtime, and on that runtime after a reset.
        let opts = ScheduleOpts { record: true, ..opts };
        stand.forget();
        let anew = stand.run(opts, token.chooser(), test);
        let reset = stand.run(opts, token.chooser(), test);
        let expected = whole_trace(&anew.run.steps);
        Divergence::of(&expected, true, &reset.run).or_else(|| Some(Divergence::somewhere()))
    }

    fn opts(&self, schedule: u64, strategy: Strategy) -> ScheduleOpts {
        let mut numbers = self.workers.clone().filter(|&workers| workers > 0);
        let count = numbers.clone().count() as u64;
        let bare = self.workers.contains(&0) && (schedule % 4 != 3 || count == 0);
        let bare = bare || strategy == Strategy::Exhaustive && self.workers.contains(&0);
        let workers = match bare || count == 0 {
            true => 0,
            false => numbers.nth((schedule / 4 % count) as usize).unwrap_or(1),
        };
        let faults = self.faults.of_schedule(schedule);
        let seed = mix(self.seed ^ mix(schedule.wrapping_add(1)));
        let (limit, until) = (self.steps, self.virtual_time);
        ScheduleOpts { seed, workers, preempts: true, limit, until, faults, record: false }
    }
}

/// Runs a test under the given seeds, with the workers of the builder. Returns the first seed that
/// fails, and its error.
pub(crate) fn run_seeds<P: Profile + Clone>(
    builder: Builder<P>,
    workers: usize,
    preempt: Preempt,
    seeds: impl IntoIterator<Item = u64>,
    test: &mut dyn FnMut(&Runtime<P>) -> Result<()>,
) -> std::result::Result<(), (u64, Error)> {
    let stand = Stand::new(builder, Oracles::OfTheTest);
    let mut used = chooser(Strategy::RandomSlices);
    for seed in seeds {
        let opts = ScheduleOpts {
            seed,
            workers,
            preempts: preempt == Preempt::Randomly,
            limit: u64::MAX / 4,
            until: Duration::MAX,
            faults: FaultRates::default(),
            record: false,
        };
        let ran = stand.run(opts, used, test);
        if let Some(symptom) = ran.symptom {
            return Err((seed, symptom.error));
        }
        used = ran.chooser;
    }
    Ok(())
}
