//! A pipeline: stages connected by bounded channels, with a slow last stage.

use super::{Demo, Size, check};
use crate::stage::{BOLD, Stage, bar, grouped, paint};
use parcae::channel::channel;
use parcae::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(super) const DEMO: Demo = Demo {
    name: "pipeline",
    about: "stages connected by channels; a slow one holds back the first",
    look: "Channels hold 16 values each. While the last stage is slow they fill up and the first stage waits; \
           then the last stage becomes fast.",
    run,
};

const CAPACITY: usize = 16;
const SQUARERS: usize = 4;
/// The most values in flight: in both channels, and one in each task.
const MOST_UNDER_WAY: u64 = (2 * CAPACITY + SQUARERS + 2) as u64;

fn run(stage: &Stage, size: Size) -> parcae::Result<()> {
    let slow = size.pick(300, 40);
    let values = slow + size.pick(300_000, 5_000);
    let rt = Runtime::builder().workers(2).build()?;
    let flow = Flow::default();
    let mut fast_since = None;
    let total = rt.run(|cx| {
        let (numbers, to_square) = channel::<u64>(CAPACITY);
        let (squares, to_sum) = channel(CAPACITY);
        cx.nursery(|n| {
            let flow = &flow;
            let (first, second) = (numbers.downgrade(), squares.downgrade());
            n.spawn(move |_| {
                for number in 0..values {
                    numbers.send(number)?; // waits while the channel is full
                    flow.sent.fetch_add(1, Ordering::Relaxed);
                }
                Ok(()) // the sender is dropped, which closes the channel: the next stage ends
            })?;
            for _ in 0..SQUARERS {
                let (to_square, squares) = (to_square.clone(), squares.clone());
                n.spawn(move |_| {
                    for number in to_square {
                        squares.send(number?.pow(2))?;
                    }
                    Ok(())
                })?;
            }
            drop((to_square, squares)); // the tasks have their own
            let fast_since = &mut fast_since;
            let sum = n.spawn(move |cx| {
                let mut sum = 0;
                for (received, square) in to_sum.into_iter().enumerate() {
                    sum += square?;
                    flow.came_out();
                    if (received as u64) < slow {
                        cx.sleep(Duration::from_millis(2))?;
                    } else {
                        fast_since.get_or_insert_with(Instant::now);
                    }
                }
                Ok(sum)
            })?;
            while !sum.is_finished() {
                let fill = |len: Option<usize>| bar(len.unwrap_or(0) as u64, CAPACITY as u64, 12);
                stage.live(|| {
                    format!(
                        "numbers ▶ {} ▶ square ▶ {} ▶ sum   {} of {}",
                        fill(first.upgrade().map(|channel| channel.len())),
                        fill(second.upgrade().map(|channel| channel.len())),
                        grouped(flow.received.load(Ordering::Relaxed)),
                        grouped(values),
                    )
                });
                cx.sleep(Duration::from_millis(5))?;
            }
            sum.join()
        })
    })?;
    let fast = fast_since.map_or(Duration::ZERO, |since| since.elapsed());
    let per_second = (values - slow) as f64 / fast.as_secs_f64();
    let most = flow.most_under_way.into_inner();
    stage.say(format_args!(
        "{} values through {} tasks, {} under way at most (the channels allow {MOST_UNDER_WAY})",
        grouped(values),
        SQUARERS + 2,
        paint(BOLD, most),
    ));
    stage.say(format_args!(
        "slow end: 2 ms for each value; fast end: {}",
        paint(BOLD, format!("{:.1} million values per second", per_second / 1e6)),
    ));
    stage.figure("values", values);
    stage.figure("most_under_way", most);
    stage.figure("allowed_under_way", MOST_UNDER_WAY);
    stage.figure("values_per_second", per_second);
    let expected: u64 = (0..values).map(|number| number.pow(2)).sum();
    check(total == expected, "no value is lost or doubled")?;
    check(most <= MOST_UNDER_WAY, "the first stage is held back")
}

/// How many values went in and came out.
#[derive(Default)]
struct Flow {
    sent: AtomicU64,
    received: AtomicU64,
    most_under_way: AtomicU64,
}

impl Flow {
    /// One more has come out. Counted by the last stage alone, before it takes the next.
    fn came_out(&self) {
        let out = self.received.fetch_add(1, Ordering::Relaxed) + 1;
        let under_way = self.sent.load(Ordering::Relaxed).saturating_sub(out);
        self.most_under_way.fetch_max(under_way, Ordering::Relaxed);
    }
}
