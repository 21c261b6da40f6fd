//! Faults of the simulated network: loss, duplication, resets, partitions.
//!
//! | fault | a datagram | a stream |
//! |---|---|---|
//! | loss | is gone | the segment comes later: it is sent again after 200 ms, 400 ms … |
//! | duplication | comes twice | – |
//! | partition | is gone | segments come after the partition is healed; a connect is tried again each second, for 127 s |
//! | reset | – | both ends fail with `ConnectionReset` |
//! | interruption | the call fails with `Interrupted` | the same |
//! | exhaustion | opening fails with EMFILE | connecting and accepting fail with EMFILE |
//!
//! Each connection and each mailbox has random numbers of its own, so the faults of one link do not
//! change when another one is used more. A link without faults draws no numbers for them.
//!
//! A segment that is sent during a partition gets a time that never comes ([`FAR`]); healing gives
//! each of them a time, in order.

use super::pipe::Pipe;
use super::random::Random;
use super::{Host, Name, Net, World};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// Longer than any run.
pub(super) const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// The first time after which a lost segment is sent again, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(60));
/// The time between attempts to connect during a partition, and the time of the last one.
pub(super) const CONNECTING: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_secs(127));

/// The faults of a link, each in cases of a thousand.
///
/// ```
/// use parcae::prelude::*;
/// use parcae_io::net::UdpSocket;
/// use parcae_io::sim::{self, Faults, Host};
///
/// let rt = Runtime::builder().deterministic(7).build()?;
/// rt.run(|_| {
///     let mut faults = Faults::default();
///     faults.loss = 500;
///     sim::set_faults(faults)?;
///     let (here, there) = (UdpSocket::bind("10.0.0.1:1")?, UdpSocket::bind("10.0.0.2:1")?);
///     (0..100_u8).try_for_each(|n| here.send_to(&[n], "10.0.0.2:1").map(drop))?;
///     there.set_read_timeout(Some(std::time::Duration::from_secs(1)))?;
///     let arrived = std::iter::from_fn(|| there.recv(&mut [0]).ok()).count();
///     assert!(arrived > 20 && arrived < 80, "{arrived}");
///     Ok(())
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Faults {
    /// The latency, if it differs from that of the network.
    pub latency: Option<Range<Duration>>,
    /// Segments and datagrams that are lost.
    pub loss: u32,
    /// Datagrams that come twice.
    pub duplication: u32,
    /// Writes after which the connection is reset.
    pub resets: u32,
    /// Reads and writes that fail with `Interrupted`.
    pub interruptions: u32,
    /// Sockets that cannot be opened, because there is no room for a descriptor.
    pub exhaustion: u32,
}

/// The faults of a network.
#[derive(Debug, Default)]
pub(super) struct Weather {
    everywhere: Faults,
    links: BTreeMap<(IpAddr, IpAddr), Faults>,
    cut: BTreeSet<(IpAddr, IpAddr)>,
    pipes: Vec<Weak<Pipe>>,
    /// Whether any link has had faults: most runs have none, and no need to look for them.
    rough: bool,
}

fn ips(from: &Name, to: &Name) -> Option<(IpAddr, IpAddr)> {
    match (from, to) {
        (Name::Inet(from), Name::Inet(to)) if from.ip() != to.ip() => Some((from.ip(), to.ip())),
        _ => None, // on one host
    }
}

impl Weather {
    /// The faults of a link; none within a host.
    pub(super) fn of(&self, from: &Name, to: &Name) -> Option<&Faults> {
        if !self.rough {
            return None;
        }
        let link = ips(from, to)?;
        Some(self.links.get(&link).unwrap_or(&self.everywhere))
    }

    pub(super) fn is_cut(&self, from: &Name, to: &Name) -> bool {
        !self.cut.is_empty() && ips(from, to).is_some_and(|link| self.cut.contains(&link))
    }

    pub(super) fn add(&mut self, pipe: Weak<Pipe>) {
        if self.pipes.len().is_power_of_two() {
            self.pipes.retain(|pipe| pipe.strong_count() > 0);
        }
        self.pipes.push(pipe);
    }
}

impl Faults {
    /// Whether a fault that happens so often happens now. Draws no number if it never does.
    pub(super) fn strikes(often: u32, random: &mut Random) -> bool {
        often > 0 && random.below(1000) < u64::from(often)
    }
}

impl Net {
    /// The time of a segment on its way, losses included; none during a partition.
    pub(super) fn travel(&self, from: &Name, to: &Name, random: &mut Random) -> Option<Duration> {
        if self.weather.is_cut(from, to) {
            return None;
        }
        let Some(faults) = self.weather.of(from, to) else { return Some(self.latency(random)) };
        let mut time = match &faults.latency {
            Some(range) => super::between(range, random),
            None => self.latency(random),
        };
        let mut again = AGAIN.0;
        while Faults::strikes(faults.loss.min(900), random) {
            time += again;
            again = (again * 2).min(AGAIN.1);
        }
        Some(time)
    }
}

impl Net {
    /// Fails as the faults of a link say, before an operation takes effect.
    pub(super) fn interrupt(&self, from: &Name, to: &Name, random: &mut Random) -> io::Result<()> {
        let often = self.weather.of(from, to).map_or(0, |faults| faults.interruptions);
        if Faults::strikes(often.min(900), random) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(())
    }
}

impl World {
    /// Fails if the faults say that there is no room for a descriptor.
    pub(super) fn exhaust(&self, from: &Name, to: &Name, random: &mut Random) -> io::Result<()> {
        let often = self.net().weather.of(from, to).map_or(0, |faults| faults.exhaustion);
        if Faults::strikes(often.min(900), random) {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        Ok(())
    }
}

/// Sets the faults of all links between hosts that have none of their own, for what is sent later.
///
/// # Errors
///
/// Outside of deterministic runtimes.
pub fn set_faults(faults: Faults) -> io::Result<()> {
    let world = World::here()?;
    let weather = &mut world.net().weather;
    (weather.everywhere, weather.rough) = (faults, true);
    Ok(())
}

/// Ends all partitions: what streams have sent meanwhile arrives.
///
/// # Errors
///
/// Outside of deterministic runtimes.
pub fn heal() -> io::Result<()> {
    let world = World::here()?;
    let mut net = world.net();
    net.weather.cut.clear();
    let pipes: Vec<_> = net.weather.pipes.iter().filter_map(Weak::upgrade).collect();
    drop(net);
    for pipe in pipes {
        pipe.heal(&world, parcae::time::now());
    }
    Ok(())
}

impl Host {
    /// Sets the faults of the link from this host to another one.
    ///
    /// # Errors
    ///
    /// Outside of deterministic runtimes.
    pub fn set_faults_to(&self, other: &Host, faults: Faults) -> io::Result<()> {
        let world = World::here()?;
        let weather = &mut world.net().weather;
        weather.links.insert((self.ip(), other.ip()), faults);
        weather.rough = true;
        Ok(())
    }

    /// Nothing that is sent from now on between the two hosts arrives, in either direction, until
    /// [`heal`].
    ///
    /// # Errors
    ///
    /// Outside of deterministic runtimes.
    pub fn part_from(&self, other: &Host) -> io::Result<()> {
        let world = World::here()?;
        let mut net = world.net();
        net.weather.cut.insert((self.ip(), other.ip()));
        net.weather.cut.insert((other.ip(), self.ip()));
        Ok(())
    }
}

/// The time at which something that is sent now arrives, if it is not before `last`.
pub(super) fn arrival(
    net: &Net,
    from: &Name,
    to: &Name,
    random: &mut Random,
    last: Instant,
    now: Instant,
) -> Instant {
    match net.travel(from, to, random) {
        Some(time) => last.max(now + time),
        None => last.max(now + FAR),
    }
}

/// The first of these times that will come by itself: a partition has to be healed.
pub(super) fn soonest<const N: usize>(
    times: [Option<Instant>; N],
    now: Instant,
) -> Option<Instant> {
    let never = now + FAR / 2;
    times.into_iter().flatten().filter(|time| *time < never).min()
}
