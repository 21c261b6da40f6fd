//! Listeners, and connecting to them.
//!
//! A connection is in the queue of its listener from the moment at which the first segment of the
//! client arrives. The client's `connect` returns one latency later, whether or not the connection
//! was accepted, as with TCP. While the queue is full a client waits. Of several listeners at one
//! address, the seed chooses one for each connection.

use super::drive::{Stop, WaitList, operate};
use super::faults::CONNECTING;
use super::pipe::{SimStream, ends};
use super::{Name, World, host};
use crate::source::{Charge, Operation};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections that wait for `accept`.
const LONGEST: usize = 128;

/// The queue of a listener.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    state: Mutex<BacklogState>,
    arrivals: WaitList,
    room: WaitList,
}

#[derive(Debug, Default)]
struct BacklogState {
    waiting: VecDeque<(Instant, SimStream)>,
    closed: bool,
}

impl Backlog {
    fn lock(&self) -> MutexGuard<'_, BacklogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A listener of the simulated network.
#[derive(Debug)]
pub(crate) struct SimListener {
    world: Arc<World>,
    backlog: Arc<Backlog>,
    local: Name,
    /// Its name in the network.
    key: Name,
}

/// Listens at a name, with one listener.
pub(crate) fn listen_alone(at: Name) -> io::Result<SimListener> {
    listen(at, 1)?.pop().ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Listens at a name with so many listeners. Each connection goes to one of them.
pub(crate) fn listen(at: Name, listeners: usize) -> io::Result<Vec<SimListener>> {
    let world = World::here()?;
    let mut net = world.net();
    let local = net.with_port(at);
    let key = local.at(host());
    if net.listeners.contains_key(&key) {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let backlogs: Vec<_> = (0..listeners).map(|_| Arc::new(Backlog::default())).collect();
    net.listeners.insert(key.clone(), backlogs.clone());
    drop(net);
    let listener = |backlog| {
        let (world, local, key) = (Arc::clone(&world), local.clone(), key.clone());
        SimListener { world, backlog, local, key }
    };
    Ok(backlogs.into_iter().map(listener).collect())
}

impl super::Net {
    /// The name, with a port of its own if it has none.
    pub(super) fn with_port(&mut self, name: Name) -> Name {
        match name {
            Name::Inet(address) if address.port() == 0 => {
                Name::Inet(SocketAddr::new(address.ip(), self.port(host())))
            }
            other => other,
        }
    }
}

impl SimListener {
    pub(crate) fn local(&self) -> &Name {
        &self.local
    }

    pub(crate) fn accept(&self, operation: Operation<'_>) -> io::Result<SimStream> {
        let stream = operate(operation, &self.backlog.arrivals, || {
            let mut state = self.backlog.lock();
            match state.waiting.front().map(|(due, stream)| (*due, stream.peer().clone())) {
                Some((due, peer)) if due <= parcae::time::now() => {
                    let mut random = self.world.stream("accept");
                    self.world.exhaust(&peer, &self.key, &mut random).map_err(Stop::Failed)?;
                    state.waiting.pop_front().map(|(_, stream)| stream).ok_or(Stop::Wait(None))
                }
                front => Err(Stop::Wait(front.map(|(due, _)| due))),
            }
        })?;
        self.backlog.room.wake();
        Ok(stream)
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut net = self.world.net();
        if let Some(backlogs) = net.listeners.get_mut(&self.key) {
            backlogs.retain(|backlog| !Arc::ptr_eq(backlog, &self.backlog));
            if backlogs.is_empty() {
                net.listeners.remove(&self.key);
            }
        }
        drop(net);
        let mut state = self.backlog.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for (_, stream) in waiting {
            stream.abort(); // no one will serve it
        }
        self.backlog.room.wake();
    }
}

/// Connects to a listener.
pub(crate) fn connect(operation: Operation<'_>, to: Name) -> io::Result<SimStream> {
    let begun = SimConnecting::begin(to);
    if begun.is_err() {
        Charge::new(operation.cost)?.keep(); // it has happened, and failed
    }
    let mut connecting = begun?;
    let (unused, backlog) = (WaitList::default(), connecting.backlog.clone());
    let room = backlog.as_ref().map_or(&unused, |backlog| &backlog.room);
    operate(operation, room, || connecting.step())
}

/// A connection attempt that has begun.
#[derive(Debug)]
pub(crate) struct SimConnecting {
    world: Arc<World>,
    from: Name,
    to: Name,
    began: Instant,
    /// When the first segment arrives, and the time of the answer's way back.
    arrival: Instant,
    back: Duration,
    state: Connecting,
    near: Option<SimStream>,
    backlog: Option<Arc<Backlog>>,
}

/// A task's place in the line of a listener whose queue is full.
#[derive(Debug)]
pub(crate) struct InLine {
    backlog: Arc<Backlog>,
    ticket: u64,
}

impl Drop for InLine {
    fn drop(&mut self) {
        self.backlog.room.leave(self.ticket);
    }
}

impl SimConnecting {
    pub(crate) fn begin(to: Name) -> io::Result<SimConnecting> {
        let world = World::here()?;
        let key = to.at(host());
        let from = local_for(&world, &to);
        let mut random = world.link(&from, &to);
        world.exhaust(&from, &to, &mut random)?;
        let mut travel = |from, to| world.net().travel(from, to, &mut random);
        // During a partition the first segment is sent again, see `step`.
        let there = travel(&from, &to).unwrap_or(CONNECTING.0);
        let back = travel(&to, &from).unwrap_or(CONNECTING.0);
        let began = parcae::time::now();
        let arrival = began + there;
        let backlog = world.net().listeners.get(&key).map(|backlogs| {
            // A number is drawn only where there is a choice.
            let chosen = if backlogs.len() > 1 { random.below(backlogs.len() as u64) } else { 0 };
            Arc::clone(&backlogs[chosen as usize])
        });
        let (state, near) = (Connecting::Sent, None);
        Ok(SimConnecting { world, from, to, began, arrival, back, state, near, backlog })
    }

    /// An attempt of a task that waits for several: if it has to wait, it stands in line.
    #[expect(clippy::type_complexity, reason = "a place in line, and the time of the answer")]
    pub(crate) fn try_or_join(
        &mut self,
    ) -> io::Result<Result<SimStream, (Option<InLine>, Option<Instant>)>> {
        match self.step() {
            Ok(stream) => Ok(Ok(stream)),
            Err(Stop::Failed(error)) => Err(error),
            Err(Stop::Wait(due)) => {
                let in_line = |backlog: &Arc<Backlog>| InLine {
                    ticket: backlog.room.enter(None),
                    backlog: Arc::clone(backlog),
                };
                Ok(Err((self.backlog.as_ref().map(in_line), due)))
            }
        }
    }

    fn step(&mut self) -> Result<SimStream, Stop> {
        loop {
            match self.state {
                Connecting::Sent if self.world.net().weather.is_cut(&self.from, &self.to) => {
                    let now = parcae::time::now();
                    if now >= self.began + CONNECTING.1 {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    self.arrival = now + CONNECTING.0;
                    return Err(Stop::Wait(Some(self.arrival)));
                }
                Connecting::Sent => {
                    let refused = Connecting::Refused(self.arrival + self.back);
                    let Some(backlog) = &self.backlog else {
                        self.state = refused;
                        continue;
                    };
                    let mut queue = backlog.lock();
                    if queue.closed {
                        self.state = refused;
                    } else if queue.waiting.len() >= LONGEST {
                        return Err(Stop::Wait(None));
                    } else {
                        let due = self.arrival.max(parcae::time::now());
                        let (client, server) =
                            ends(&self.world, self.from.clone(), self.to.clone());
                        // In the order of arrival, whatever the order of departure.
                        let place = queue.waiting.partition_point(|(other, _)| *other <= due);
                        queue.waiting.insert(place, (due, server));
                        self.near = Some(client);
                        self.state = Connecting::Queued(due + self.back);
                        drop(queue);
                        backlog.arrivals.wake_by(due);
                    }
                }
                Connecting::Queued(done) if done <= parcae::time::now() => {
                    return self.near.take().ok_or(Stop::Wait(None));
                }
                Connecting::Refused(done) if done <= parcae::time::now() => {
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                Connecting::Queued(done) | Connecting::Refused(done) => {
                    return Err(Stop::Wait(Some(done)));
                }
            }
        }
    }
}

/// Where a connection attempt is.
#[derive(Debug, Clone, Copy)]
enum Connecting {
    Sent,
    /// In the queue; the answer arrives then.
    Queued(Instant),
    /// Refused; the answer arrives then.
    Refused(Instant),
}

/// The name of the near end of a connection.
fn local_for(world: &World, to: &Name) -> Name {
    match to {
        Name::Inet(address) => {
            let ip = if address.ip().is_loopback() { address.ip() } else { host() };
            Name::Inet(SocketAddr::new(ip, world.net().port(host())))
        }
        _ => Name::Unnamed,
    }
}
