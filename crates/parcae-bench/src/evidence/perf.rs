//! Counters and samples of the kernel, by `perf_event_open`: no library, no signals.
//!
//! All of them follow the calling thread and the threads that it and its threads start later
//! (`inherit`). A counter is one descriptor. Samples need one descriptor and one ring for each
//! processor, because the kernel shares a ring between threads only if they run on one processor.
//! The program that measures does not read the rings until the end, so that it does not disturb
//! itself. They have room for half a minute of each processor; later samples are lost, and counted
//! as far as the kernel says so.
//!
//! A refusal of the kernel is no error: a [`Reading`] says why it has no value.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first words of `struct perf_event_attr`, in the size of its fifth version (Linux 4.1).
type Attr = [u64; 14];

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;
/// Configurations of [`CACHE`]: misses of reads and writes of the data TLB, of the instruction TLB.
const MISS: u64 = 1 << 16;
const DTLB_LOADS: u64 = 3 | MISS;
const DTLB_STORES: u64 = 3 | 1 << 8 | MISS;
const ITLB_LOADS: u64 = 4 | MISS;
/// The event that counts time on a processor, of which every machine has one.
const CPU_CLOCK: u64 = 0;

/// Bits of the flags: the event is off at first, is inherited, leaves out the kernel, has a
/// frequency instead of a period.
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const FREQUENCY: u64 = 1 << 10;
/// Of the read format: the times that the event was wanted, and counted.
const TIMES: u64 = 1 | 2;
/// Of the sample type: the instruction.
const IP: u64 = 1;

/// Samples in a second of processor time. No divisor of the frequencies of timers.
pub(super) const HERTZ: u64 = 997;
/// Pages of a ring, without its first one: what every user may lock.
const RING_PAGES: usize = 128;

/// A kind of event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) name: &'static str,
    kind: u32,
    config: u64,
}

const fn event(name: &'static str, kind: u32, config: u64) -> Event {
    Event { name, kind, config }
}

/// The events that are counted. Those of the hardware are missing in most virtual machines.
pub(super) const EVENTS: [Event; 12] = [
    event("instructions", HARDWARE, 1),
    event("cycles", HARDWARE, 0),
    event("cache_misses", HARDWARE, 3),
    event("branch_misses", HARDWARE, 5),
    event("dtlb_load_misses", CACHE, DTLB_LOADS),
    event("dtlb_store_misses", CACHE, DTLB_STORES),
    event("itlb_load_misses", CACHE, ITLB_LOADS),
    event("cpu_nanos", SOFTWARE, 1),
    event("minor_faults", SOFTWARE, 5),
    event("major_faults", SOFTWARE, 6),
    event("context_switches", SOFTWARE, 3),
    event("migrations", SOFTWARE, 4),
];

/// Opens an event for a processor (−1: all of them). Replaced by tests.
pub(super) type Open = fn(&Attr, i32) -> io::Result<OwnedFd>;

/// The system call.
pub(super) fn open(attr: &Attr, cpu: i32) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    const THIS_THREAD: libc::pid_t = 0;
    const NO_GROUP: libc::c_int = -1;
    // SAFETY: `attr` says its own size and lives until the call returns.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attr.as_ptr(),
            THIS_THREAD,
            cpu,
            NO_GROUP,
            CLOSE_ON_EXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that has no other owner. It fits: descriptors are ints.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn attr(kind: u32, config: u64, flags: u64) -> Attr {
    let mut attr = [0; 14];
    attr[0] = u64::from(kind) | (size_of::<Attr>() as u64) << 32;
    attr[1] = config;
    attr[5] = flags;
    attr
}

/// Opens an event with the kernel's part, or without it where only that is permitted.
fn open_any(open: Open, attr: &mut Attr, cpu: i32) -> io::Result<(OwnedFd, bool)> {
    match open(attr, cpu) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            attr[5] |= EXCLUDE_KERNEL;
            open(attr, cpu).map(|fd| (fd, false))
        }
        found => found.map(|fd| (fd, true)),
    }
}

/// Why an event is not there.
fn refusal(error: &io::Error) -> String {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned());
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "this processor, or its hypervisor, has no such counter".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => {
            format!("not permitted; kernel.perf_event_paranoid is {paranoid}")
        }
        Some(libc::ENOSYS) => "this kernel has no perf events".to_owned(),
        _ => error.to_string(),
    }
}

/// A counter's value, or why it has none.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reading {
    pub(super) name: &'static str,
    pub(super) value: Result<u64, String>,
    /// The origin of the value, and what it leaves out.
    pub(super) source: &'static str,
}

/// Running counters.
pub(super) struct Counters(Vec<(Event, Opened)>);

/// An open event, with whether the kernel's part is in it; or why there is none.
type Opened = Result<(OwnedFd, bool), String>;

impl Counters {
    /// Starts to count.
    pub(super) fn start(open: Open) -> Counters {
        let start = |event: Event| {
            let mut attr = attr(event.kind, event.config, INHERIT);
            attr[4] = TIMES;
            let opened = open_any(open, &mut attr, -1);
            (event, opened.map_err(|error| refusal(&error)))
        };
        Counters(EVENTS.map(start).into())
    }

    /// The counts since the start.
    pub(super) fn read(&self) -> Vec<Reading> {
        let read = |(event, opened): &(Event, Opened)| {
            let (value, source) = match opened {
                Ok((fd, true)) => (read_scaled(fd), "perf"),
                Ok((fd, false)) => (read_scaled(fd), "perf, without the kernel"),
                Err(why) => (Err(why.clone()), "perf"),
            };
            Reading { name: event.name, value, source }
        };
        self.0.iter().map(read).collect()
    }
}

/// The value of a counter, scaled up if it had to share its place in the processor.
fn read_scaled(fd: &OwnedFd) -> Result<u64, String> {
    let mut words = [0_u64; 3];
    let bytes = size_of_val(&words);
    // SAFETY: the buffer has room for that many bytes.
    let read = unsafe { libc::read(fd.as_raw_fd(), words.as_mut_ptr().cast(), bytes) };
    if read != bytes as isize {
        return Err(format!("cannot be read: {}", io::Error::last_os_error()));
    }
    scaled(words).ok_or_else(|| "never counted: other events had its place".to_owned())
}

/// Of value, time wanted and time counted.
fn scaled([value, wanted, counted]: [u64; 3]) -> Option<u64> {
    match counted {
        0 if wanted > 0 => None,
        0 => Some(value),
        _ => Some((u128::from(value) * u128::from(wanted) / u128::from(counted)) as u64),
    }
}

/// Running samples.
pub(super) struct Sampler {
    rings: Vec<Ring>,
    has_kernel: bool,
}

/// The instructions that were sampled.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Samples {
    /// How often each address was found, with whether the kernel ran.
    pub(super) found: HashMap<(u64, bool), u64>,
    /// Samples that the kernel had no room for, as far as it says.
    pub(super) lost: u64,
    /// Whether a ring was full at the end.
    pub(super) is_full: bool,
    /// Whether time in the kernel was sampled.
    pub(super) has_kernel: bool,
}

impl Samples {
    pub(super) fn total(&self) -> u64 {
        self.found.values().sum()
    }
}

impl Sampler {
    /// Starts to take samples.
    pub(super) fn start(open: Open) -> Result<Sampler, String> {
        // SAFETY: asks for a number.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as i32;
        let mut sampler = Sampler { rings: Vec::new(), has_kernel: true };
        for cpu in 0..cpus {
            let mut attr = attr(SOFTWARE, CPU_CLOCK, DISABLED | INHERIT | FREQUENCY);
            (attr[2], attr[3]) = (HERTZ, IP);
            let (fd, kernel) = open_any(open, &mut attr, cpu).map_err(|error| refusal(&error))?;
            sampler.has_kernel &= kernel;
            sampler.rings.push(Ring::map(fd).map_err(|error| format!("no ring: {error}"))?);
        }
        for ring in &sampler.rings {
            ring.enable(true);
        }
        Ok(sampler)
    }

    /// Ends it.
    pub(super) fn stop(self) -> Samples {
        let mut samples = Samples { has_kernel: self.has_kernel, ..Samples::default() };
        for ring in &self.rings {
            ring.enable(false);
        }
        for ring in &self.rings {
            let bytes = ring.written();
            samples.is_full |= bytes.len() + 64 > ring.room();
            parse(&bytes, &mut samples);
        }
        samples
    }
}

/// Adds the records of a ring.
fn parse(bytes: &[u8], samples: &mut Samples) {
    const SAMPLE: u32 = 9;
    const LOST: u32 = 2;
    const HEADER: usize = 8;
    let word = |at: usize| -> Option<u64> {
        Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
    };
    let mut at = 0;
    while let Some(header) = word(at) {
        // struct perf_event_header: u32 type, u16 misc, u16 size.
        let parts = header.to_ne_bytes();
        let kind = u32::from_ne_bytes([parts[0], parts[1], parts[2], parts[3]]);
        let misc = u16::from_ne_bytes([parts[4], parts[5]]);
        let size = usize::from(u16::from_ne_bytes([parts[6], parts[7]]));
        if size < HEADER {
            return; // no record: what follows cannot be found
        }
        match kind {
            SAMPLE => {
                let in_kernel = misc & 7 != 2;
                if let Some(ip) = word(at + HEADER) {
                    *samples.found.entry((ip, in_kernel)).or_default() += 1;
                }
            }
            LOST => samples.lost += word(at + HEADER + 8).unwrap_or(0),
            _ => {}
        }
        at += size;
    }
}

/// A ring that the kernel writes, with its event.
struct Ring {
    event: OwnedFd,
    base: NonNull<u8>,
    page: usize,
}

impl Ring {
    fn map(event: OwnedFd) -> io::Result<Ring> {
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize;
        let (len, access) = ((1 + RING_PAGES) * page, libc::PROT_READ | libc::PROT_WRITE);
        let fd = event.as_raw_fd();
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { event, base, page })
    }

    /// Bytes that it has room for.
    fn room(&self) -> usize {
        RING_PAGES * self.page
    }

    fn enable(&self, on: bool) {
        const ENABLE: libc::c_ulong = 0x2400;
        const DISABLE: libc::c_ulong = 0x2401;
        let request = if on { ENABLE } else { DISABLE };
        // SAFETY: takes no pointer. It can only fail for descriptors that are no events.
        unsafe { libc::ioctl(self.event.as_raw_fd(), request as _, 0) };
    }

    /// All records. Nothing is ever taken out, so that the first one is at the beginning.
    fn written(&self) -> Vec<u8> {
        /// Where `data_head` is in `struct perf_event_mmap_page`.
        const HEAD: usize = 1024;
        // SAFETY: in the first page of the mapping, aligned. The kernel writes it: atomic.
        let head = unsafe { self.base.add(HEAD).cast::<AtomicU64>().as_ref() };
        // Acquire: pairs with the kernel's store after it has written the records.
        let len = (head.load(Ordering::Acquire) as usize).min(self.room());
        // SAFETY: the records follow the first page; the event is off, and writes no more.
        unsafe { std::slice::from_raw_parts(self.base.add(self.page).as_ptr(), len) }.to_vec()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, with this length; nothing refers to it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), (1 + RING_PAGES) * self.page) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(_: &Attr, _: i32) -> io::Result<OwnedFd> {
        Err(io::Error::from_raw_os_error(libc::EACCES))
    }

    /// As an ordinary user may: his own program, without the kernel.
    fn user_only(attr: &Attr, _: i32) -> io::Result<OwnedFd> {
        if attr[5] & EXCLUDE_KERNEL == 0 {
            return denied(attr, 0);
        }
        Ok(fs::File::open("/dev/null")?.into())
    }

    fn unknown(_: &Attr, _: i32) -> io::Result<OwnedFd> {
        Err(io::Error::from_raw_os_error(libc::ENOENT))
    }

    #[test]
    fn a_refusal_says_why_for_each_counter() {
        for (open, word) in
            [(denied as Open, "perf_event_paranoid is"), (unknown as Open, "has no such counter")]
        {
            let readings = Counters::start(open).read();
            assert_eq!(readings.len(), EVENTS.len());
            for reading in readings {
                assert!(reading.value.as_ref().is_err_and(|why| why.contains(word)), "{reading:?}");
            }
            let why = Sampler::start(open).err().expect("refused");
            assert!(why.contains(word), "{why}");
        }
    }

    #[test]
    fn the_kernel_is_left_out_where_only_that_is_permitted() {
        for reading in Counters::start(user_only).read() {
            assert_eq!(reading.source, "perf, without the kernel");
            assert!(reading.value.is_err_and(|why| why.contains("cannot be read")), "/dev/null");
        }
    }

    #[test]
    fn a_counter_that_had_to_share_is_scaled() {
        assert_eq!(scaled([100, 50, 50]), Some(100));
        assert_eq!(scaled([100, 60, 20]), Some(300));
        assert_eq!(scaled([u64::MAX / 4, 1 << 40, 1 << 39]), Some(u64::MAX / 4 * 2));
        assert_eq!(scaled([0, 60, 0]), None);
        assert_eq!(scaled([7, 0, 0]), Some(7));
    }

    fn record(kind: u32, misc: u16, body: &[u64]) -> Vec<u8> {
        let size = 8 + 8 * body.len() as u16;
        let mut bytes =
            [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &size.to_ne_bytes()].concat();
        body.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn records_are_counted_by_address_and_others_are_skipped() {
        let ring = [
            record(9, 2, &[0x1000]),
            record(9, 1, &[0x1000]),
            record(3, 2, &[1, 2, 3]), // the name of a thread
            record(9, 2, &[0x1000]),
            record(2, 0, &[77, 5]),
        ];
        let mut samples = Samples::default();
        parse(&ring.concat(), &mut samples);
        assert_eq!(samples.found, HashMap::from([((0x1000, false), 2), ((0x1000, true), 1)]));
        assert_eq!((samples.total(), samples.lost), (3, 5));
    }

    #[test]
    fn a_torn_ring_ends_the_records() {
        let whole = record(9, 2, &[0x1000]);
        for len in 0..=whole.len() {
            let mut samples = Samples::default();
            parse(&whole[..len], &mut samples);
            assert_eq!(samples.total(), u64::from(len == whole.len()));
        }
        let mut samples = Samples::default();
        parse(&[0; 64], &mut samples); // a record of no size would never end
        assert_eq!(samples, Samples::default());
    }

    /// Where the kernel permits it: this thread is counted and sampled, and so are threads of it.
    #[test]
    fn what_is_permitted_counts_this_thread_and_its_threads() {
        let counters = Counters::start(open);
        let sampler = Sampler::start(open);
        let spin = || {
            let start = std::time::Instant::now();
            let mut sum = 1_u64;
            while start.elapsed().as_millis() < 100 {
                sum = std::hint::black_box(sum.wrapping_mul(3));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(spin);
        });
        for reading in counters.read() {
            match (reading.name, &reading.value) {
                ("cpu_nanos", Ok(value)) => assert!(*value > 1_000_000, "{reading:?}"),
                (_, Err(why)) => assert!(!why.is_empty(), "{reading:?}"),
                _ => {}
            }
        }
        match sampler.map(Sampler::stop) {
            Ok(samples) => assert!(samples.total() > 0 && !samples.is_full, "{samples:?}"),
            Err(why) => assert!(!why.is_empty()),
        }
    }
}
