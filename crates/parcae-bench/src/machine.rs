//! The conditions of a run, and memory and time of this process as the kernel counts them.

use crate::case::{Failure, Peer};
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

/// The conditions of a run, without which its results mean nothing.
#[derive(Debug)]
pub struct Conditions {
    cpu: String,
    cores: usize,
    /// The load average of the last minute.
    load: String,
    kernel: String,
    date: String,
}

impl Conditions {
    /// The current conditions.
    pub fn read() -> Conditions {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        Conditions {
            cpu: cpu_model(&cpuinfo),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            load: load.split(' ').next().unwrap_or_default().to_owned(),
            kernel: kernel.trim().to_owned(),
            date: utc(now),
        }
    }
}

/// The compiler that this was built with.
pub(crate) const COMPILER: &str = match option_env!("PARCAE_BENCH_RUSTC") {
    Some(version) => version,
    None => "unknown compiler",
};

impl Conditions {
    /// Names and values, in the order in which they are shown.
    pub fn lines(&self) -> [(&'static str, String); 5] {
        let build = if cfg!(debug_assertions) {
            "DEBUG BUILD: the results mean nothing, use --release"
        } else {
            "optimised"
        };
        let peers = Peer::ALL.map(|peer| format!("{} {}", peer.name(), peer.version()));
        [
            ("cpu", format!("{}, {} cores, load {}", self.cpu, self.cores, self.load)),
            ("kernel", format!("{} ({})", self.kernel, std::env::consts::ARCH)),
            ("compiler", format!("{COMPILER}, {build}")),
            ("peers", peers.join(", ")),
            ("date", self.date.clone()),
        ]
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|(name, value)| writeln!(f, "{name:<10}{value}"))
    }
}

/// The processor's name. Not every architecture has one in /proc/cpuinfo; then the identifying
/// numbers are used.
fn cpu_model(cpuinfo: &str) -> String {
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    field("model name")
        .or_else(|| {
            Some(format!("implementer {} part {}", field("CPU implementer")?, field("CPU part")?))
        })
        .unwrap_or_else(|| "unknown processor".to_owned())
}

/// Seconds since 1970 as a date and time in UTC.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Days since 1 January 1970 as year, month, day of the Gregorian calendar.
///
/// Counts in years that begin on 1 March, so that the leap day is the last day of a
/// year, and in cycles of 400 years, which all have the same number of days.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_IN_400_YEARS: u64 = 146_097;
    const FROM_MARCH_0000_TO_1970: u64 = 719_468;
    let days = days + FROM_MARCH_0000_TO_1970;
    let (cycle, day) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
    // Without the leap days before it, the day lies in a grid of 365-day years: one leap
    // day every 4 years (1461 days), none every 100 (36524), the last day of the cycle.
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, five months have 153 days: 31, 30, 31, 30, 31, and again.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * cycle + year + next_year, month, day)
}

/// Bytes of this process that are in memory.
///
/// The same count as in `/proc/self/statm`, but in kilobytes rather than in pages of a
/// size that would have to be asked for.
pub(crate) fn resident_bytes() -> Result<u64, Failure> {
    kilobytes(&fs::read_to_string("/proc/self/status")?, "VmRSS:")
}

/// Bytes of this process that are in memory, to the page.
///
/// The function above reads counters that lag behind by dozens of pages per core. This one walks
/// the page tables.
pub(crate) fn resident_bytes_exact() -> Result<u64, Failure> {
    kilobytes(&fs::read_to_string("/proc/self/smaps_rollup")?, "Rss:")
}

/// CPU time of all threads of this process, also of those that have ended.
pub(crate) fn cpu_nanos() -> Result<u64, Failure> {
    unsafe extern "C" {
        // Of the C library: microseconds, on every system that is POSIX.
        safe fn clock() -> std::ffi::c_long;
    }
    let micros = u64::try_from(clock()).map_err(|_| "the system does not report CPU time")?;
    Ok(micros * 1_000)
}

/// Available memory of the system, in bytes.
pub(crate) fn available_bytes() -> Result<u64, Failure> {
    kilobytes(&fs::read_to_string("/proc/meminfo")?, "MemAvailable:")
}

/// Bytes of page tables that the kernel keeps for this process.
pub(crate) fn page_table_bytes() -> Result<u64, Failure> {
    kilobytes(&fs::read_to_string("/proc/self/status")?, "VmPTE:")
}

/// How many mappings this process has; `vm.max_map_count` limits them.
pub(crate) fn mappings() -> Result<u64, Failure> {
    // Counted in pieces: a string of them all would itself be a mapping.
    let mut file = File::open("/proc/self/maps")?;
    let mut piece = [0; 4096];
    let mut lines = 0;
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(lines),
            len => lines += piece[..len].iter().filter(|&&byte| byte == b'\n').count() as u64,
        }
    }
}

/// The field of this name, which is given in kilobytes, in bytes.
fn kilobytes(status: &str, name: &str) -> Result<u64, Failure> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix("kB"));
    let value = value.ok_or_else(|| format!("no {name} in what the kernel says"))?;
    Ok(value.trim().parse::<u64>()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_around_leap_days_and_the_ends_of_years() {
        // The seconds are those of `date -u -d "…" +%s`.
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (68_255_999, "1972-02-29 23:59:59 UTC"),
            (68_256_000, "1972-03-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (978_307_199, "2000-12-31 23:59:59 UTC"),
            (978_307_200, "2001-01-01 00:00:00 UTC"),
            (1_794_787_445, "2026-11-16 00:04:05 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut last = civil(0);
        for day in 1..DAYS_TO_2400 {
            let (year, month, date) = civil(day);
            let next_day = (last.0, last.1, last.2 + 1);
            let next_month = (last.0, last.1 + 1, 1);
            let next_year = (last.0 + 1, 1, 1);
            let today = (year, month, date);
            assert!(
                today == next_day
                    || (today == next_month && last.2 >= 28)
                    || (today == next_year && (last.1, last.2) == (12, 31)),
                "{last:?} was followed by {today:?}"
            );
            last = today;
        }
        assert_eq!(last, (2399, 12, 31));
    }

    const DAYS_TO_2400: u64 = 430 * 365 + 104; // 104 leap days from 1972 to 2396

    #[test]
    fn processors_are_named_by_what_there_is() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: Xeon: a CPU\n"), "Xeon: a CPU");
        let arm = "CPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
        assert_eq!(cpu_model(arm), "implementer 0x41 part 0xd40");
        assert_eq!(cpu_model(""), "unknown processor");
    }

    #[test]
    fn this_process_has_memory_and_mappings() {
        assert!(resident_bytes().unwrap() > 0);
        assert!(resident_bytes_exact().unwrap() > 0);
        assert!(available_bytes().unwrap() > 0);
        assert!(page_table_bytes().unwrap() > 0);
        assert!(mappings().unwrap() > 1);
    }

    #[test]
    fn a_missing_field_is_named() {
        let error = kilobytes("VmRSS:\t 12 kB\n", "VmPTE:").unwrap_err();
        assert_eq!(error.to_string(), "no VmPTE: in what the kernel says");
        assert_eq!(kilobytes("VmRSS:\t 12 kB\n", "VmRSS:").unwrap(), 12 * 1024);
    }
}
