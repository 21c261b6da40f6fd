//! The simulated world of a deterministic runtime: network, names, disks, signals.
//!
//! Under the deterministic executor the sockets of [`net`](crate::net) talk to this network. Each
//! runtime has one of its own, made from the runtime's seed. It has TCP connections with buffers of
//! bounded size, a queue of connections for each listener, half-close, reset, UDP and Unix sockets.
//!
//! # Chosen by the seed
//!
//! - the latency of each segment and datagram. Datagrams overtake each other, segments do not;
//! - how much a read or a write takes: often less than it could ([`Portions`]).
//!
//! Each connection has random numbers of its own, split from the seed by its addresses and its
//! number between them. So a connection that is added does not change the others.
//!
//! ```
//! use parcae_io::net::{TcpListener, TcpStream};
//! use std::io::{Read, Write};
//!
//! // A bug: it takes a message for the result of one read.
//! fn receive(stream: &mut TcpStream) -> std::io::Result<String> {
//!     let mut buffer = [0; 64];
//!     let length = stream.read(&mut buffer)?;
//!     Ok(String::from_utf8_lossy(&buffer[..length]).into())
//! }
//!
//! let found = (0..100_u64).find(|seed| {
//!     let rt = parcae::Runtime::builder().deterministic(*seed).build().unwrap();
//!     let message = rt.run(|cx| {
//!         let listener = TcpListener::bind("10.0.0.1:80")?; // any address will do
//!         cx.nursery(|n| {
//!             n.spawn(|_| Ok(TcpStream::connect("10.0.0.1:80")?.write_all(b"hello world")?))?;
//!             Ok(receive(&mut listener.accept()?.0)?)
//!         })
//!     });
//!     message.unwrap() != "hello world"
//! });
//! assert!(found.is_some(), "some seed splits the message");
//! ```
//!
//! # Hosts
//!
//! A host is an address. A task is on the host that [`Host::enter`] says, at first on `127.0.0.1`.
//! Loopback and unspecified addresses mean the task's own host, so two hosts may listen on the same
//! port of `0.0.0.0`.
//!
//! # Faults
//!
//! None, unless the program asks for them: [`set_faults`], [`Host::set_faults_to`],
//! [`Host::part_from`] and [`heal`], [`Host::power_cut`], [`Host::set_disk_space`].
//!
//! # Not simulated
//!
//! Descriptors: [`as_fd`](std::os::fd::AsFd)
//! panics and `into_std` fails. A real socket under the deterministic executor is an error.

mod child;
mod disk;
mod drive;
mod faults;
mod listener;
mod mailbox;
mod names;
mod pipe;
mod polled;
mod random;

pub use child::{ProgramCall, ProgramEnd, set_program};
pub(crate) use child::{ScriptEnd, SimChild, start};
pub(crate) use disk::{
    Removed, SimFile, copy, create_dir, create_dir_all, metadata, open_file, read_dir, remove,
    rename,
};
pub use faults::{Faults, heal, set_faults};
pub(crate) use listener::{InLine, SimConnecting, SimListener, connect, listen, listen_alone};
pub(crate) use mailbox::{Mailbox, mailbox};
pub(crate) use names::lookup;
pub use names::set_name;
pub(crate) use pipe::{SimStream, Taking, pair};
pub(crate) use polled::SimWait;

use crate::net::Name;
use listener::Backlog;
use mailbox::Mail;
use random::Random;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The first port that the network chooses.
const FIRST_PORT: u16 = 49_152;

parcae::task_local! {
    /// The host that the task is on.
    static HOST: Cell<IpAddr> = Cell::new(IpAddr::V4(Ipv4Addr::LOCALHOST));
}

/// The network of one runtime.
pub(crate) struct World {
    seed: u64,
    net: Mutex<Net>,
}

/// The state of the network. No order of a hash anywhere: each run is the same.
struct Net {
    latency: Range<Duration>,
    buffer: usize,
    portions: Portions,
    /// The queues of the listeners at an address: mostly one.
    listeners: BTreeMap<Name, Vec<Arc<Backlog>>>,
    mailboxes: BTreeMap<Name, Arc<Mail>>,
    /// The next port of each host.
    ports: BTreeMap<IpAddr, u16>,
    /// Connections and mailboxes made so far between two hosts, and questions for a name.
    links: BTreeMap<String, u64>,
    /// Addresses by name of the host.
    names: BTreeMap<String, Vec<IpAddr>>,
    /// The disks of the hosts that have used one.
    disks: BTreeMap<IpAddr, disk::Disk>,
    /// Scripted programs, by name.
    programs: BTreeMap<String, child::Program>,
    /// Children started so far.
    processes: u32,
    /// Faults and partitions.
    weather: faults::Weather,
    /// Subscriptions to signals.
    signals: Vec<(i32, parcae::channel::Sender<i32>)>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl World {
    fn new(seed: u64) -> World {
        World {
            seed,
            net: Mutex::new(Net {
                latency: Duration::from_micros(20)..Duration::from_millis(2),
                buffer: 64 << 10,
                portions: Portions::Random,
                listeners: BTreeMap::new(),
                mailboxes: BTreeMap::new(),
                ports: BTreeMap::new(),
                links: BTreeMap::new(),
                names: BTreeMap::new(),
                disks: BTreeMap::new(),
                programs: BTreeMap::new(),
                weather: faults::Weather::default(),
                processes: 0,
                signals: Vec::new(),
            }),
        }
    }

    /// The network of the running task's runtime.
    fn here() -> io::Result<Arc<World>> {
        parcae::io::world(World::new).ok_or_else(|| {
            let text = "there is a simulated network only in tasks of a deterministic runtime";
            io::Error::new(io::ErrorKind::Unsupported, text)
        })
    }

    fn net(&self) -> MutexGuard<'_, Net> {
        self.net.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The random numbers of a new link between two ends.
    fn link(&self, from: &Name, to: &Name) -> Random {
        self.stream(&format!("{} {}", from.host(), to.host()))
    }

    /// Random numbers that belong to this name.
    fn seeded(&self, name: &str) -> Random {
        Random::of(self.seed, name)
    }

    /// Random numbers for the next use of this name.
    fn stream(&self, name: &str) -> Random {
        let mut net = self.net();
        let number = net.links.entry(name.into()).or_insert(0);
        *number += 1;
        Random::of(self.seed, &format!("{name} {number}"))
    }
}

impl Net {
    /// A free port of the host.
    fn port(&mut self, host: IpAddr) -> u16 {
        let next = self.ports.entry(host).or_insert(FIRST_PORT);
        let port = *next;
        *next = next.checked_add(1).unwrap_or(FIRST_PORT);
        port
    }

    /// A latency of the network.
    fn latency(&self, random: &mut Random) -> Duration {
        between(&self.latency, random)
    }
}

/// A time in a range.
fn between(range: &Range<Duration>, random: &mut Random) -> Duration {
    let spread = range.end.saturating_sub(range.start).as_nanos() as u64;
    range.start + Duration::from_nanos(random.below(spread.max(1)))
}

impl Name {
    /// The same name for all links of a host.
    fn host(&self) -> Name {
        match self {
            Name::Inet(address) => Name::Inet(SocketAddr::new(address.ip(), 0)),
            Name::Unix(_) | Name::Unnamed => Name::Unnamed,
        }
    }

    /// The name by which sockets are found: loopback and unspecified addresses are the host's own.
    fn at(&self, host: IpAddr) -> Name {
        match self {
            Name::Inet(address) if address.ip().is_loopback() || address.ip().is_unspecified() => {
                Name::Inet(SocketAddr::new(host, address.port()))
            }
            other => other.clone(),
        }
    }
}

/// The host of the running task.
fn host() -> IpAddr {
    HOST.try_with(Cell::get).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// A host of the simulated network.
///
/// ```
/// use parcae::prelude::*;
/// use parcae_io::net::{TcpListener, TcpStream};
/// use parcae_io::sim::Host;
///
/// let rt = Runtime::builder().deterministic(1).build()?;
/// rt.run(|cx| {
///     let (shop, customer) = (Host::new("10.0.0.1"), Host::new("10.0.0.2"));
///     let listener = shop.enter(|| TcpListener::bind("0.0.0.0:80"))?;
///     cx.nursery(|n| {
///         n.spawn(move |_| customer.enter(|| Ok(TcpStream::connect("10.0.0.1:80").map(drop)?)))?;
///         let (_, from) = listener.accept()?;
///         assert_eq!(from.ip(), customer.ip());
///         Ok(())
///     })
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    ip: IpAddr,
}

impl Host {
    /// The host with this address.
    ///
    /// # Panics
    ///
    /// If it is no address.
    pub fn new(ip: &str) -> Host {
        match ip.parse() {
            Ok(ip) => Host { ip },
            Err(error) => panic!("`{ip}` is no address of a host: {error}"),
        }
    }

    /// Its address.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Runs a closure with the task on this host. Children of the task begin on `127.0.0.1` again.
    pub fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        struct Back(Option<IpAddr>);
        impl Drop for Back {
            fn drop(&mut self) {
                if let Some(ip) = self.0 {
                    let _ = HOST.try_with(|host| host.set(ip)); // the task may be ending
                }
            }
        }
        let _back = Back(HOST.try_with(|host| host.replace(self.ip)).ok());
        body()
    }
}

/// Sets the latencies between which the seed chooses, for segments and datagrams that are sent
/// later. At first from 20 µs to 2 ms.
///
/// # Errors
///
/// Outside of deterministic runtimes.
pub fn set_latency(range: Range<Duration>) -> io::Result<()> {
    World::here()?.net().latency = range;
    Ok(())
}

/// Sets how many bytes a connection that is made later holds in each direction. At first 64 KiB.
///
/// # Errors
///
/// Outside of deterministic runtimes.
pub fn set_buffer(bytes: usize) -> io::Result<()> {
    World::here()?.net().buffer = bytes.max(1);
    Ok(())
}

/// How much a read or a write of a simulated stream takes of what it could.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Portions {
    /// All, a part or one byte, as the seed says: for tests. A message often comes in several
    /// segments, and a segment in several reads.
    #[default]
    Random,
    /// All: for models of a load, where each step counts.
    Whole,
}

/// Sets how much reads and writes of connections that are made later take.
///
/// ```
/// use parcae::prelude::*;
/// use parcae_io::net::{TcpListener, TcpStream};
/// use parcae_io::sim::{self, Portions};
/// use std::io::{Read, Write};
///
/// for seed in 0..50 {
///     let rt = Runtime::builder().deterministic(seed).build()?;
///     let length = rt.run(|_| {
///         sim::set_portions(Portions::Whole)?;
///         let listener = TcpListener::bind("10.0.0.1:80")?;
///         TcpStream::connect("10.0.0.1:80")?.write_all(b"hello world")?;
///         Ok(listener.accept()?.0.read(&mut [0; 64])?)
///     })?;
///     assert_eq!(length, 11); // with any seed
/// }
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Errors
///
/// Outside of deterministic runtimes.
pub fn set_portions(portions: Portions) -> io::Result<()> {
    World::here()?.net().portions = portions;
    Ok(())
}

/// Sends a signal to the simulated process: to the [subscriptions](crate::signal) of this runtime.
///
/// ```
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().deterministic(1).build()?;
/// rt.run(|_| {
///     let stop = parcae_io::signal::ctrl_c()?;
///     parcae_io::sim::raise(2)?; // SIGINT
///     assert_eq!(stop.recv()?, 2);
///     Ok(())
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Errors
///
/// Outside of deterministic runtimes.
pub fn raise(signal: i32) -> io::Result<()> {
    let world = World::here()?;
    let subscribed: Vec<_> =
        world.net().signals.iter().filter(|(one, _)| *one == signal).cloned().collect();
    for (signal, sender) in subscribed {
        // One is kept until it is received, as by the kernel.
        let _ = sender.try_send(signal);
    }
    Ok(())
}

/// Subscribes to a signal of the simulated process.
pub(crate) fn subscribe(signal: i32, sender: parcae::channel::Sender<i32>) -> io::Result<()> {
    World::here()?.net().signals.push((signal, sender));
    Ok(())
}
