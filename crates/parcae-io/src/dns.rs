//! Names of hosts: resolved by the C library on the runtime's threads for blocking calls, so that
//! no worker waits for a name server.
//!
//! # A question
//!
//! Tasks that ask for the same name at the same time share one call: the first one makes it, the
//! others wait for its [`Flight`]. The call owns its data and fills in the answer itself, on its
//! thread. So a task that is cancelled leaves at once, and the call goes on for the others. A call
//! that was queued and is not made, because the task that submitted it was cancelled, ends the
//! flight without an answer: the others ask again, and one of them makes the call.
//!
//! | state of a flight | in the table | its event | its answer |
//! |---|---|---|---|
//! | asked | yes | not set | none |
//! | answered | no | set | one, for all that wait |
//! | abandoned | no | set | none |
//!
//! The call's [`Pilot`] makes each transition when it is dropped, under the lock of the table: the
//! flight leaves the table before its event is set. So no task joins a flight that has ended.
//!
//! At most [`CALLS`] calls run at one time: a name server that is slow must not take all threads
//! for blocking calls. Nothing is cached: that is the business of the system's resolver.
//!
//! Under the deterministic executor names are those of [`sim::set_name`](crate::sim::set_name).

use crate::authority::Authority;
use crate::cost;
use crate::error::from_task;
use crate::source::Charge;
use parcae::cap::CapNet;
use parcae::io::IoPlace;
use parcae::sync::{Event, Semaphore};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

/// The most calls at one time.
const CALLS: usize = 32;

/// Questions that were asked and not answered yet.
static FLIGHTS: Mutex<BTreeMap<String, Arc<Flight>>> = Mutex::new(BTreeMap::new());
static ROOM: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(CALLS)));

/// The error of a name server, for each task that waits: an `io::Error` cannot be cloned.
type Answer = Result<Vec<IpAddr>, (io::ErrorKind, String)>;

/// A question and its answer.
#[derive(Default)]
struct Flight {
    answer: OnceLock<Answer>,
    ended: Event,
}

fn flights() -> MutexGuard<'static, BTreeMap<String, Arc<Flight>>> {
    FLIGHTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part of a flight that the call has. The flight ends when it is dropped, however that
/// happens.
struct Pilot {
    host: String,
    flight: Arc<Flight>,
}

impl Drop for Pilot {
    fn drop(&mut self) {
        flights().remove(&self.host);
        self.flight.ended.set();
    }
}

/// The addresses of a host, in the order of preference of the system. A literal address is its own.
///
/// A cancel point: a cancelled task does not wait for the name server. The question costs ten ops
/// and syscalls, a literal nothing.
///
/// ```
/// use parcae::prelude::*;
/// use parcae_io::net::lookup_host;
///
/// let rt = Runtime::builder().build()?;
/// rt.run(|_| {
///     assert!(lookup_host("localhost")?.iter().all(|ip| ip.is_loopback()));
///     assert_eq!(lookup_host("::1")?, [std::net::IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])]);
///     Ok(())
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Errors
///
/// If the name is not known, or the task is cancelled.
pub fn lookup_host(host: &str) -> io::Result<Vec<IpAddr>> {
    if let Some(ip) = literal(host) {
        return Ok(vec![ip]);
    }
    Authority::implicit()?.names()?;
    lookup_name(host)
}

/// As [`lookup_host`], under a capability: the form of the sovereign profile.
///
/// # Errors
///
/// As for [`lookup_host`]; `PermissionDenied` if the capability does not allow names.
pub fn lookup_host_under(cap: &CapNet, host: &str) -> io::Result<Vec<IpAddr>> {
    if let Some(ip) = literal(host) {
        return Ok(vec![ip]);
    }
    Authority::shown(cap)?.names()?;
    lookup_name(host)
}

/// The addresses of a name, whose caller has checked that it may ask.
pub(crate) fn lookup_name(host: &str) -> io::Result<Vec<IpAddr>> {
    lookup(host, ask_system)
}

/// The address that a literal names.
pub(crate) fn literal(host: &str) -> Option<IpAddr> {
    host.parse().ok()
}

fn ask_system(host: &str) -> io::Result<Vec<IpAddr>> {
    let mut ips = Vec::new();
    for address in (host, 0).to_socket_addrs()? {
        if !ips.contains(&address.ip()) {
            ips.push(address.ip());
        }
    }
    Ok(ips)
}

fn lookup(
    host: &str,
    ask: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Clone + Send + 'static,
) -> io::Result<Vec<IpAddr>> {
    match parcae::io::place() {
        IoPlace::Thread => return ask(host),
        IoPlace::Simulated => return crate::sim::lookup(host, cost::NAME),
        IoPlace::Task => {}
    }
    let charge = Charge::new(cost::NAME)?;
    loop {
        let (flight, pilot) = join(host);
        if let Some(pilot) = pilot {
            let (room, ask) = (ROOM.acquire_owned(1).map_err(from_task)?, ask.clone());
            let call = move || {
                let answer = ask(&pilot.host).map_err(|error| (error.kind(), error.to_string()));
                let _ = pilot.flight.answer.set(answer); // set once, here
                drop((pilot, room));
            };
            parcae::io::blocking_static(call).map_err(from_task)?;
        }
        flight.ended.wait().map_err(from_task)?;
        if let Some(answer) = flight.answer.get() {
            charge.keep();
            let failed = |(kind, text): (io::ErrorKind, String)| io::Error::new(kind, text);
            return answer.clone().map_err(failed);
        }
    }
}

/// The flight for a host. With a pilot, if the caller has to make the call.
fn join(host: &str) -> (Arc<Flight>, Option<Pilot>) {
    let mut flights = flights();
    if let Some(flight) = flights.get(host) {
        return (Arc::clone(flight), None);
    }
    let flight = Arc::new(Flight::default());
    flights.insert(host.into(), Arc::clone(&flight));
    let pilot = Pilot { host: host.into(), flight: Arc::clone(&flight) };
    (flight, Some(pilot))
}

#[cfg(all(test, not(loom)))]
mod tests;
