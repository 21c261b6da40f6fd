//! A tree of nurseries: one branch is cancelled, one exceeds its deadline, then all end.

use super::{Demo, Size, check};
use crate::stage::{BOLD, DIM, Stage, bar, grouped, paint};
use parcae::prelude::*;
use parcae::sync::Event;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(super) const DEMO: Demo = Demo {
    name: "cancel",
    about: "a tree of tasks, cancelled branch by branch",
    look: "Every bar is a nursery of tasks that wait forever. Cancelling a branch ends all tasks below it and no \
           others; every task cleans up before it ends.",
    run,
};

const BRANCHES: usize = 6;
/// This one has a deadline of its own.
const HURRIED: usize = 4;

/// Counters of a branch.
#[derive(Default)]
struct Branch {
    waiting: AtomicUsize,
    cleaned_up: AtomicUsize,
    token: Mutex<Option<CancelToken>>,
}

impl Branch {
    /// A nursery of tasks that wait forever. Cancelling it does not cancel the tree. With a limit
    /// it exceeds its deadline that long after all tasks wait.
    fn grow(
        &self,
        cx: &Cx,
        opts: NurseryOpts,
        leaves: usize,
        limit: Option<(&Event, Duration)>,
    ) -> parcae::Result<String> {
        let never = Event::new();
        let ended = cx.nursery_with(opts, |n| {
            *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(n.token());
            for _ in 0..leaves {
                n.spawn(|cx| {
                    self.waiting.fetch_add(1, Ordering::Relaxed);
                    let stopped = never.wait(); // an error when it is cancelled
                    // Nothing in a shield is a cancel point: cleanup can wait, lock and send.
                    cx.shield(|| self.cleaned_up.fetch_add(1, Ordering::Relaxed));
                    stopped
                })?;
            }
            let Some((all_wait, time)) = limit else { return Ok(()) };
            all_wait.wait()?;
            cx.nursery_with(NurseryOpts::new().timeout(time), |_| never.wait())
        });
        Ok(ended.map_or_else(|error| error.kind().to_string(), |()| "not cancelled".to_owned()))
    }

    fn cut(&self) {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        token.inspect(CancelToken::cancel);
    }

    fn live(&self) -> u64 {
        let cleaned_up = self.cleaned_up.load(Ordering::Relaxed);
        self.waiting.load(Ordering::Relaxed).saturating_sub(cleaned_up) as u64
    }
}

fn run(stage: &Stage, size: Size) -> parcae::Result<()> {
    let leaves = size.pick(10_000, 200);
    let pause = size.pick(Duration::from_millis(500), Duration::from_millis(10));
    let rt = Runtime::builder().workers(2).build()?;
    let branches: [Branch; BRANCHES] = Default::default();
    let all_wait = Event::new();
    let live = |branch: &Branch| branch.live();
    let show = |what: &str| {
        let bars: Vec<String> =
            branches.iter().map(|branch| bar(branch.live(), leaves as u64, 8)).collect();
        stage.say(format_args!("{}  {what}", bars.join(" ")));
    };
    let mut cut_all = Instant::now();
    let (others_stayed, reasons) = rt.run(|cx| {
        cx.nursery(|root| {
            let mut tasks = Vec::new();
            for (i, branch) in branches.iter().enumerate() {
                let opts = NurseryOpts::new().name(format!("branch-{i}"));
                let limit = (i == HURRIED).then_some((&all_wait, 3 * pause));
                tasks.push(root.spawn(move |cx| branch.grow(cx, opts, leaves, limit))?);
            }
            while branches.iter().map(live).sum::<u64>() < (BRANCHES * leaves) as u64 {
                stage.live(|| grouped(branches.iter().map(live).sum()));
                cx.sleep(Duration::from_millis(1))?;
            }
            all_wait.set();
            show(&format!("{} tasks wait", grouped((BRANCHES * leaves) as u64)));
            cx.sleep(pause)?;

            let start = Instant::now();
            branches[1].cut();
            while branches[1].live() > 0 {
                cx.yield_now()?;
            }
            let took = format!("{:.1} ms", start.elapsed().as_secs_f64() * 1e3);
            show(&format!("the second is cancelled by its token: {}", paint(BOLD, took)));
            let others_stayed = branches[0].live() == leaves as u64;

            while branches[HURRIED].live() > 0 {
                cx.sleep(Duration::from_millis(1))?;
            }
            show("the fifth has exceeded its deadline");
            cx.sleep(pause)?;

            cut_all = Instant::now();
            branches.iter().for_each(Branch::cut);
            let reasons: Vec<String> =
                tasks.into_iter().map(TaskHandle::join).collect::<parcae::Result<_>>()?;
            Ok((others_stayed, reasons))
        })
    })?;
    let all = cut_all.elapsed().as_secs_f64() * 1e3;
    show(&format!("all are cancelled, and have ended: {}", paint(BOLD, format!("{all:.1} ms"))));
    for (i, reason) in reasons.iter().enumerate() {
        stage.say(paint(DIM, format!("  branch {}: {reason}", i + 1)));
    }
    let cleaned: usize = branches.iter().map(|b| b.cleaned_up.load(Ordering::Relaxed)).sum();
    stage.figure("tasks", BRANCHES * leaves);
    stage.figure("cleaned_up", cleaned);
    stage.figure("milliseconds_to_end_the_rest", all);
    stage.figure("reasons", reasons);
    check(others_stayed, "cancelling a branch leaves the others alone")?;
    check(cleaned == BRANCHES * leaves, "every task has cleaned up")
}
