//! Very many live fibers, each with its own guarded stack, and their memory.

use super::{Demo, Size, check, cores};
use crate::stage::{BOLD, DIM, Stage, bar, bytes, grouped, paint};
use parcae::prelude::*;
use parcae::stack::StackSize;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(super) const DEMO: Demo = Demo {
    name: "million",
    about: "a hundred thousand live fibers with guarded stacks; a million with --million (about 5 GiB)",
    look: "Each fiber has started, has a stack of 256 KiB with a guard page below, and waits. Only the pages that it \
           has touched take memory. Then all are woken, and end.",
    run,
};

/// Memory of one fiber, with page tables and records: measured, rounded up.
const NEEDED: u64 = 5 << 10;

fn run(stage: &Stage, size: Size) -> parcae::Result<()> {
    let wanted = wanted(size);
    let machine = from_kernel("/proc/meminfo", "MemAvailable:")?;
    let available = container_limit().map_or(machine, |limit| limit.min(machine));
    let fibers = fitting(wanted, available);
    stage.say(format_args!(
        "{} fibers need about {}; {} are available",
        grouped(fibers),
        bytes(fibers * NEEDED),
        bytes(available),
    ));
    if fibers < wanted {
        stage.say(paint(DIM, format!("{} would use more than half of it", grouped(wanted))));
    }
    if size == Size::Full {
        let note = format!(
            "a million: `parcae demo million --million`, about {}",
            bytes(NEEDED * 1_000_000)
        );
        stage.say(paint(DIM, note));
    }
    check(fibers > 0, "there is memory for a thousand fibers")?;

    let before = Memory::now()?;
    let rt = Runtime::builder().workers(cores()).build()?;
    let (waiting, sum) = (AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    let mut woken = start;
    let mut all_live = None;
    rt.run(|cx| {
        cx.nursery(|n| {
            for number in 1..=fibers {
                let (waiting, sum) = (&waiting, &sum);
                n.spawn(move |cx| {
                    waiting.fetch_add(1, Ordering::Relaxed);
                    let woken = cx.park(); // waits here, on its own stack
                    sum.fetch_add(number, Ordering::Relaxed);
                    woken
                })?;
            }
            while waiting.load(Ordering::Relaxed) < fibers {
                let live = waiting.load(Ordering::Relaxed);
                stage.live(|| {
                    let resident = Memory::now().map_or(0, |memory| memory.resident);
                    format!("{} {} {}", bar(live, fibers, 40), grouped(live), bytes(resident))
                });
                cx.sleep(Duration::from_millis(5))?;
            }
            all_live = Some((Memory::now()?, start.elapsed()));
            woken = Instant::now();
            n.wind_down(); // cancels all, which wakes them
            Ok(())
        })
    })?;
    let ended = woken.elapsed();
    let Some((after, took)) = all_live else {
        return check(false, "all fibers live at once");
    };
    let per = |value: fn(&Memory) -> u64| value(&after).saturating_sub(value(&before)) / fibers;
    stage.say(format_args!(
        "{} fibers live after {:.1} s: {} for each",
        paint(BOLD, grouped(fibers)),
        took.as_secs_f64(),
        paint(BOLD, format!("{} B in memory", grouped(per(|memory| memory.resident)))),
    ));
    let limit = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    stage.say(format_args!(
        "page tables {} B, addresses {}; {} mappings in all, of {} that the kernel allows",
        per(|memory| memory.page_tables),
        bytes(per(|memory| memory.reserved)),
        after.mappings,
        limit.trim(),
    ));
    stage.say(format_args!("woken, run and ended in {:.1} s", ended.as_secs_f64()));
    stage.figure("fibers", fibers);
    stage.figure("stack_size", StackSize::SERVICE.bytes());
    stage.figure("resident_per_fiber", per(|memory| memory.resident));
    stage.figure("page_tables_per_fiber", per(|memory| memory.page_tables));
    stage.figure("reserved_per_fiber", per(|memory| memory.reserved));
    stage.figure("mappings", after.mappings);
    stage.figure("seconds_until_all_lived", took.as_secs_f64());
    stage.figure("seconds_until_all_had_ended", ended.as_secs_f64());
    check(sum.into_inner() == fibers * (fibers + 1) / 2, "every fiber continued when it was woken")
}

/// A million fibers take much memory, so they have to be requested.
fn wanted(size: Size) -> u64 {
    match size {
        Size::Quick => 10_000,
        Size::Full => 100_000,
        Size::Million => 1_000_000,
    }
}

/// As many thousands as fit into half of the available memory.
fn fitting(wanted: u64, available: u64) -> u64 {
    wanted.min(available / 2 / NEEDED / 1000 * 1000)
}

/// Memory that the control groups of this process still allow, in bytes. `None` without a limit.
fn container_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let groups = Path::new(group).ancestors().map(|group| Path::new("/sys/fs/cgroup").join(group));
    let left = |group: PathBuf| {
        Some(
            number(group.join("memory.max"))?.saturating_sub(number(group.join("memory.current"))?),
        )
    };
    groups.filter_map(left).min()
}

/// Memory of this process by the kernel's figures, in bytes.
struct Memory {
    resident: u64,
    page_tables: u64,
    reserved: u64,
    mappings: usize,
}

impl Memory {
    fn now() -> parcae::Result<Memory> {
        const STATUS: &str = "/proc/self/status";
        Ok(Memory {
            resident: from_kernel(STATUS, "VmRSS:")?,
            page_tables: from_kernel(STATUS, "VmPTE:")?,
            reserved: from_kernel(STATUS, "VmSize:")?,
            mappings: fs::read_to_string("/proc/self/maps")?.lines().count(),
        })
    }
}

/// A field that the kernel gives in kilobytes, in bytes.
fn from_kernel(file: &str, field: &str) -> parcae::Result<u64> {
    let text = fs::read_to_string(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    match number {
        Some(number) => Ok(number * 1024),
        None => Err(parcae::Error::msg(format!("no {field} in {file}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_no_more_than_half_of_the_memory() {
        assert_eq!(fitting(1_000_000, 64 << 30), 1_000_000);
        assert_eq!(fitting(1_000_000, 1 << 30), 104_000);
        assert_eq!(fitting(1_000_000, 1 << 20), 0);
        assert!(fitting(1_000_000, 4 << 30) * NEEDED <= 2 << 30);
    }

    #[test]
    fn a_million_only_for_those_who_ask_for_it() {
        assert!(wanted(Size::Full) * NEEDED < 1 << 30, "half a gigabyte is modest");
        assert_eq!(wanted(Size::Million), 1_000_000);
    }

    #[test]
    fn the_kernel_is_asked_and_a_missing_field_is_named() {
        assert!(Memory::now().unwrap().resident > 0);
        let error = from_kernel("/proc/self/status", "VmNothing:").unwrap_err();
        assert!(error.to_string().contains("no VmNothing: in /proc/self/status"), "{error}");
    }
}
