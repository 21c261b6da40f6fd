//! How noisy the machine is: whether differences between two figures can be believed.
//!
//! Three signs, each of which makes ratios worthless:
//!
//! - **spin**: a loop of always the same instructions, on as many threads as there are cores,
//!   before the run. Its ninetieth percentile over its best time is 1.0 on a quiet machine. Other
//!   processes, a hypervisor and a changing frequency make it larger.
//! - **steal**: the share of the machine that the hypervisor has given to others, from
//!   `/proc/stat`, during the run.
//! - **others**: the share that other processes of this machine have used, during the run.
//!
//! A noisy run still shows its figures, but no verdicts about targets.
//!
//! **line** is no sign of noise, but the unit of everything that two workers do with each other:
//! the time in which a cache line goes to another core and back. A hypervisor that moves the cores
//! of a machine changes it from one hour to the next, by factors.

use crate::machine;
use std::fmt;
use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Largest spin of a quiet machine. A core that two threads share shows 2, a change of the
/// frequency up to 1.2.
const SPIN: f64 = 1.25;
/// Largest share of steal time. The kernel counts in hundredths of a second, so very little is
/// noise of the count.
const STEAL: f64 = 0.02;
/// Largest share of other processes: an editor and a few services, but no compiler.
const OTHERS: f64 = 0.10;

/// How long each thread spins.
const CALIBRATION: Duration = Duration::from_millis(100);
/// Rounds of the loop in one sample: a few dozen microseconds, shorter than a time slice.
const ROUNDS: u64 = 40_000;
/// The unit of `/proc/stat`, in nanoseconds: hundredths of a second on every architecture.
const TICK: u64 = 10_000_000;

/// A run that is being watched.
#[derive(Debug)]
pub struct NoiseWatch {
    spin: f64,
    line: Option<f64>,
    start: Option<CpuTimes>,
    own: u64,
}

/// The noise of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Ninetieth percentile over best time of the same loop.
    pub spin: f64,
    /// Share of the hypervisor; none if the system does not say.
    pub steal: Option<f64>,
    /// Share of other processes; none if the system does not say.
    pub others: Option<f64>,
}

impl NoiseWatch {
    /// Calibrates, and begins to watch.
    pub fn start() -> NoiseWatch {
        let (spin, line) = (spin(), line());
        NoiseWatch { spin, line, start: CpuTimes::read(), own: machine::cpu_nanos().unwrap_or(0) }
    }

    /// The part that is known before the run.
    pub fn calibration(&self) -> String {
        let line =
            self.line.map_or(String::new(), |line| format!(", line {line:.0} ns there and back"));
        format!("spin {:.2}{line}, before the run", self.spin)
    }

    /// The noise since the start.
    pub fn finish(&self) -> Noise {
        let own = machine::cpu_nanos().unwrap_or(0).saturating_sub(self.own) / TICK;
        let now = CpuTimes::read();
        let shares = self.start.zip(now).and_then(|(start, now)| now.since(start, own));
        Noise { spin: self.spin, steal: shares.map(|s| s.0), others: shares.map(|s| s.1) }
    }
}

impl Noise {
    /// Why ratios cannot be trusted; none if they can.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.spin > SPIN {
            reasons.push(format!("the same loop takes up to {:.2} times its best time", self.spin));
        }
        if let Some(steal) = self.steal.filter(|&steal| steal > STEAL) {
            reasons.push(format!("the hypervisor took {:.0} % of the machine", 100.0 * steal));
        }
        if let Some(others) = self.others.filter(|&others| others > OTHERS) {
            reasons.push(format!("other processes used {:.0} % of the machine", 100.0 * others));
        }
        reasons
    }

    /// Whether ratios can be trusted.
    pub fn is_quiet(&self) -> bool {
        self.reasons().is_empty()
    }
}

impl fmt::Display for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |share: Option<f64>| {
            share.map_or_else(|| "unknown".to_owned(), |share| format!("{:.0} %", 100.0 * share))
        };
        let (spin, steal, others) = (self.spin, share(self.steal), share(self.others));
        write!(f, "spin {spin:.2}, steal {steal}, other processes {others}")?;
        let reasons = self.reasons();
        if reasons.is_empty() {
            return write!(f, ": quiet");
        }
        write!(f, ": ratios cannot be trusted, because {}", reasons.join(" and "))
    }
}

/// Times of all processors, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    total: u64,
    busy: u64,
    steal: u64,
}

impl CpuTimes {
    pub(crate) fn read() -> Option<CpuTimes> {
        CpuTimes::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// The first line: `cpu user nice system idle iowait irq softirq steal …`. The times of guests
    /// are contained in user and nice.
    fn parse(stat: &str) -> Option<CpuTimes> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let fields: Vec<u64> =
            line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let [user, nice, system, idle, iowait, irq, softirq, steal] = fields[..] else {
            return None;
        };
        let busy = user + nice + system + irq + softirq;
        Some(CpuTimes { total: busy + idle + iowait + steal, busy, steal })
    }

    /// The shares of steal and of other processes since an earlier reading, if this process has
    /// used so many ticks.
    pub(crate) fn since(self, start: CpuTimes, own: u64) -> Option<(f64, f64)> {
        let total = self.total.checked_sub(start.total).filter(|&total| total > 0)? as f64;
        let others = self.busy.saturating_sub(start.busy).saturating_sub(own) as f64;
        Some((self.steal.saturating_sub(start.steal) as f64 / total, others / total))
    }
}

/// Nanoseconds in which a cache line goes to another core and back: the best of many short samples,
/// for at most [`CALIBRATION`]. None where there is one core.
fn line() -> Option<f64> {
    const SAMPLES: u32 = 1000;
    const TRIPS: u32 = 20;
    const END: u32 = u32::MAX;
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return None;
    }
    let word = AtomicU32::new(0);
    // Release and Acquire as a program would; the word carries nothing else. No hints: they take as
    // long as the line travels.
    let answer = || {
        for number in (1..).step_by(2) {
            loop {
                match word.load(Ordering::Acquire) {
                    END => return,
                    found if found == number => break,
                    _ => {}
                }
            }
            word.store(number + 1, Ordering::Release);
        }
    };
    let ask = |trip: u32| {
        word.store(2 * trip + 1, Ordering::Release);
        while word.load(Ordering::Acquire) != 2 * trip + 2 {}
    };
    let mut best = f64::INFINITY;
    std::thread::scope(|scope| {
        scope.spawn(answer);
        let begin = Instant::now();
        for sample in 0..SAMPLES {
            let start = Instant::now();
            (sample * TRIPS..(sample + 1) * TRIPS).for_each(ask);
            best = best.min(start.elapsed().as_nanos() as f64 / f64::from(TRIPS));
            if begin.elapsed() > CALIBRATION {
                break;
            }
        }
        word.store(END, Ordering::Release);
    });
    // Longer: the threads took turns on one core.
    (best < 10_000.0).then_some(best)
}

/// Spins on as many threads as there are cores.
fn spin() -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut samples: Vec<Duration> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(spin_alone)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    samples.sort_unstable();
    match samples.as_slice() {
        [] => f64::INFINITY,
        sorted => sorted[sorted.len() * 9 / 10].as_secs_f64() / sorted[0].as_secs_f64().max(1e-9),
    }
}

fn spin_alone() -> Vec<Duration> {
    let (begin, mut samples, mut mixed) = (Instant::now(), Vec::new(), 1_u64);
    while begin.elapsed() < CALIBRATION {
        let start = Instant::now();
        for round in 0..ROUNDS {
            mixed = black_box(mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ round);
        }
        samples.push(start.elapsed());
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Noise = Noise { spin: 1.05, steal: Some(0.0), others: Some(0.03) };

    #[test]
    fn each_sign_alone_makes_a_run_noisy_and_is_named() {
        assert!(QUIET.is_quiet());
        assert!(QUIET.to_string().ends_with(": quiet"));
        assert!(Noise { steal: None, others: None, ..QUIET }.is_quiet());
        for (noise, word) in [
            (Noise { spin: 1.9, ..QUIET }, "1.90 times"),
            (Noise { steal: Some(0.2), ..QUIET }, "the hypervisor took 20 %"),
            (Noise { others: Some(0.5), ..QUIET }, "other processes used 50 %"),
        ] {
            let text = noise.to_string();
            assert!(!noise.is_quiet());
            assert!(text.contains("cannot be trusted") && text.contains(word), "{text}");
        }
    }

    #[test]
    fn the_first_line_of_the_kernel_is_all_processors() {
        let stat = "cpu  100 10 50 800 20 5 5 10 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        let times = CpuTimes::parse(stat).unwrap();
        assert_eq!(times, CpuTimes { total: 1_000, busy: 170, steal: 10 });
        let later = CpuTimes { total: 2_000, busy: 670, steal: 60 };
        assert_eq!(later.since(times, 300), Some((0.05, 0.2)));
        assert_eq!(times.since(times, 0), None, "no time has passed");
        assert_eq!(CpuTimes::parse("cpu  1 2 3\n"), None);
        assert_eq!(CpuTimes::parse(""), None);
    }

    #[test]
    fn this_machine_has_some_noise() {
        let watch = NoiseWatch::start();
        assert!(watch.spin >= 1.0);
        let noise = watch.finish();
        assert!(noise.steal.is_none_or(|steal| (0.0..=1.0).contains(&steal)), "{noise:?}");
        assert!(noise.others.is_none_or(|others| (0.0..=1.0).contains(&others)), "{noise:?}");
    }
}
