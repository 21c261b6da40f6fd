//! Counters that need no permission: `getrusage`, `/proc/self`, and those of the whole machine.

use super::perf::Reading;
use crate::noise::CpuTimes;
use std::fs;

/// Counters of this process.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Process {
    user_nanos: u64,
    system_nanos: u64,
    minor_faults: u64,
    major_faults: u64,
    voluntary: u64,
    involuntary: u64,
    /// Moves of living threads to another processor; none if the kernel does not say.
    migrations: Option<u64>,
}

/// The counters of the kernel at one moment.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    process: Process,
    interrupts: Vec<(&'static str, u64)>,
    times: Option<CpuTimes>,
}

/// Rows of `/proc/interrupts`, with their names here.
const INTERRUPTS: [(&str, &str); 4] = [
    ("LOC", "timer_interrupts"),
    ("RES", "reschedule_interrupts"),
    ("CAL", "call_interrupts"),
    ("TLB", "tlb_shootdowns"),
];

impl Moment {
    pub(super) fn now() -> Moment {
        let text = fs::read_to_string("/proc/interrupts").unwrap_or_default();
        Moment { process: Process::now(), interrupts: interrupts(&text), times: CpuTimes::read() }
    }

    /// Counters of this process since an earlier moment.
    pub(super) fn process_since(&self, start: &Moment) -> Vec<Reading> {
        let (now, old) = (self.process, start.process);
        let reading = |name, now: u64, old: u64| Reading {
            name,
            value: Ok(now.saturating_sub(old)),
            source: "getrusage",
        };
        vec![
            reading("user_nanos", now.user_nanos, old.user_nanos),
            reading("system_nanos", now.system_nanos, old.system_nanos),
            reading("voluntary_switches", now.voluntary, old.voluntary),
            reading("involuntary_switches", now.involuntary, old.involuntary),
        ]
    }

    /// Replaces readings that perf refused by what there is without permission.
    pub(super) fn replace(&self, start: &Moment, readings: &mut [Reading]) {
        let (now, old) = (self.process, start.process);
        for reading in readings.iter_mut().filter(|reading| reading.value.is_err()) {
            let since = |field: fn(&Process) -> u64| Some(field(&now).saturating_sub(field(&old)));
            let (value, source) = match reading.name {
                "cpu_nanos" => (since(|p| p.user_nanos + p.system_nanos), "getrusage"),
                "minor_faults" => (since(|p| p.minor_faults), "getrusage"),
                "major_faults" => (since(|p| p.major_faults), "getrusage"),
                "context_switches" => (since(|p| p.voluntary + p.involuntary), "getrusage"),
                "migrations" => (
                    now.migrations.zip(old.migrations).map(|(now, old)| now.saturating_sub(old)),
                    "/proc/self/task/*/sched, without threads that have ended",
                ),
                _ => (None, ""),
            };
            if let Some(value) = value {
                (reading.value, reading.source) = (Ok(value), source);
            }
        }
    }

    /// Counters of the whole machine since an earlier moment.
    pub(super) fn machine_since(&self, start: &Moment) -> Vec<Reading> {
        let of = |(short, name): (&str, &'static str)| {
            let find = |moment: &Moment| {
                moment.interrupts.iter().find(|row| row.0 == name).map(|row| row.1)
            };
            let value = find(self).zip(find(start)).map(|(now, old)| now.saturating_sub(old));
            let value = value.ok_or_else(|| format!("/proc/interrupts has no row {short}"));
            Reading { name, value, source: "/proc/interrupts" }
        };
        INTERRUPTS.map(of).into()
    }

    /// The share of the machine's time that the hypervisor gave to others.
    pub(super) fn steal_since(&self, start: &Moment) -> Option<f64> {
        Some(self.times?.since(start.times?, 0)?.0)
    }
}

impl Process {
    fn now() -> Process {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: a place for the answer. Zeros are a value of it, should the call fail.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        let nanos = |time: libc::timeval| {
            u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
                + u64::try_from(time.tv_usec).unwrap_or(0) * 1_000
        };
        let count = |count: libc::c_long| u64::try_from(count).unwrap_or(0);
        Process {
            user_nanos: nanos(usage.ru_utime),
            system_nanos: nanos(usage.ru_stime),
            minor_faults: count(usage.ru_minflt),
            major_faults: count(usage.ru_majflt),
            voluntary: count(usage.ru_nvcsw),
            involuntary: count(usage.ru_nivcsw),
            migrations: all_migrations(),
        }
    }
}

/// Of all living threads.
fn all_migrations() -> Option<u64> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    let of = |thread: std::io::Result<fs::DirEntry>| {
        migrations(&fs::read_to_string(thread.ok()?.path().join("sched")).ok()?)
    };
    threads.map(of).sum()
}

/// The field of a `sched` file.
fn migrations(sched: &str) -> Option<u64> {
    sched.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "se.nr_migrations").then(|| value.trim().parse().ok())?
    })
}

/// The sums over all processors of the rows that are wanted.
fn interrupts(text: &str) -> Vec<(&'static str, u64)> {
    let rows = text.lines().filter_map(|line| {
        let (short, rest) = line.trim_start().split_once(':')?;
        let (_, name) = INTERRUPTS.into_iter().find(|row| row.0 == short)?;
        let counts = rest.split_whitespace().map_while(|word| word.parse::<u64>().ok());
        Some((name, counts.sum()))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_summed_over_processors() {
        let text = "           CPU0       CPU1\n  38:   0   3111 PCI-MSIX 1-edge virtio\n\
                    LOC:     204044     192110   Local timer interrupts\n\
                    TLB:     121089     110583   TLB shootdowns\nERR:          0\n";
        let expected = [("timer_interrupts", 396_154), ("tlb_shootdowns", 231_672)];
        assert_eq!(interrupts(text), expected);
        assert!(interrupts("").is_empty());
    }

    #[test]
    fn migrations_are_a_field_among_others() {
        let sched =
            "cat (1, #threads: 1)\n---\nse.exec_start  :  737.0\nse.nr_migrations   :    17\n";
        assert_eq!(migrations(sched), Some(17));
        assert_eq!(migrations("se.vruntime : 1.0\n"), None);
        assert_eq!(migrations("se.nr_migrations : many\n"), None);
    }

    fn moment(factor: u64) -> Moment {
        let process = Process {
            user_nanos: factor,
            system_nanos: 2 * factor,
            minor_faults: 3 * factor,
            major_faults: 4 * factor,
            voluntary: 5 * factor,
            involuntary: 6 * factor,
            migrations: Some(7 * factor),
        };
        Moment { process, interrupts: vec![("timer_interrupts", 8 * factor)], times: None }
    }

    #[test]
    fn what_perf_refuses_is_replaced_where_that_is_possible() {
        let refused = |name| Reading { name, value: Err("refused".into()), source: "perf" };
        let names = super::super::perf::EVENTS.map(|event| event.name);
        let mut readings: Vec<Reading> = names.into_iter().map(refused).collect();
        readings.push(Reading { name: "minor_faults", value: Ok(1), source: "perf" });
        moment(30).replace(&moment(20), &mut readings);
        let found = |name| readings.iter().find(|r| r.name == name).unwrap().value.clone();
        assert_eq!(found("cpu_nanos"), Ok(30));
        assert_eq!(found("minor_faults"), Ok(30));
        assert_eq!(found("major_faults"), Ok(40));
        assert_eq!(found("context_switches"), Ok(110));
        assert_eq!(found("migrations"), Ok(70));
        for hardware in ["instructions", "cycles", "dtlb_load_misses"] {
            assert_eq!(found(hardware), Err("refused".into()));
        }
        assert_eq!(readings.last().unwrap().value, Ok(1), "what perf counted stays");
    }

    #[test]
    fn a_row_that_is_missing_is_named() {
        let rows = moment(3).machine_since(&moment(1));
        assert_eq!(rows.len(), INTERRUPTS.len());
        assert_eq!(rows[0].value, Ok(16));
        assert!(rows[3].value.as_ref().is_err_and(|why| why.contains("no row TLB")), "{rows:?}");
        assert_eq!(moment(3).steal_since(&moment(1)), None);
    }

    #[test]
    fn this_process_has_used_time_and_touched_memory() {
        let start = Moment::now();
        let touched = std::hint::black_box(vec![1_u8; 64 << 20]);
        let end = Moment::now();
        assert!(end.process.minor_faults > start.process.minor_faults);
        assert!(end.process.user_nanos + end.process.system_nanos > 0);
        drop(touched);
    }
}
