//! Datagrams: mailboxes, into which datagrams fall at their time, in any order.

use super::drive::{Stop, WaitList, operate};
use super::faults::Faults;
use super::random::Random;
use super::{Name, World, between, host};
use crate::source::Operation;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The most bytes of a datagram.
const LONGEST: usize = 65_507;
/// The most datagrams that a mailbox holds: further ones are lost, or wait for room if they come
/// from a Unix socket.
const CAPACITY: usize = 256;

/// The datagrams of one socket.
#[derive(Debug)]
pub(super) struct Mail {
    state: Mutex<MailState>,
    arrivals: WaitList,
    room: WaitList,
}

#[derive(Debug)]
struct MailState {
    /// By time of arrival, then in the order in which they were sent.
    datagrams: BTreeMap<(Instant, u64), (Name, Vec<u8>)>,
    sent: u64,
    random: Random,
}

impl Mail {
    fn lock(&self) -> MutexGuard<'_, MailState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket for datagrams of the simulated network.
#[derive(Debug)]
pub(crate) struct Mailbox {
    world: Arc<World>,
    mail: Arc<Mail>,
    name: Name,
    key: Option<Name>,
}

/// A socket at a name, or without one.
pub(crate) fn mailbox(at: Name) -> io::Result<Mailbox> {
    let world = World::here()?;
    let name = world.net().with_port(at);
    let random = world.link(&name, &name);
    let state = MailState { datagrams: BTreeMap::new(), sent: 0, random };
    let (arrivals, room) = (WaitList::default(), WaitList::default());
    let mail = Arc::new(Mail { state: Mutex::new(state), arrivals, room });
    let key = (name != Name::Unnamed).then(|| name.at(host()));
    if let Some(key) = &key {
        let mut net = world.net();
        if net.mailboxes.contains_key(key) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        net.mailboxes.insert(key.clone(), Arc::clone(&mail));
    }
    Ok(Mailbox { world, mail, name, key })
}

impl Mailbox {
    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    pub(crate) fn receive(
        &self,
        operation: Operation<'_>,
        buffer: &mut [u8],
    ) -> io::Result<(usize, Name)> {
        let received = operate(operation, &self.mail.arrivals, || {
            let mut state = self.mail.lock();
            let Some(first) = state.datagrams.first_entry() else { return Err(Stop::Wait(None)) };
            let due = first.key().0;
            if due > parcae::time::now() {
                return Err(Stop::Wait(Some(due)));
            }
            let (from, bytes) = first.remove();
            let length = bytes.len().min(buffer.len());
            buffer[..length].copy_from_slice(&bytes[..length]);
            Ok((length, from))
        })?;
        self.mail.room.wake();
        Ok(received)
    }

    pub(crate) fn send(
        &self,
        operation: Operation<'_>,
        bytes: &[u8],
        to: &Name,
    ) -> io::Result<usize> {
        let mail = self.world.net().mailboxes.get(&to.at(host())).cloned();
        let unused = WaitList::default();
        let list = mail.as_ref().map_or(&unused, |mail| &mail.room);
        operate(operation, list, || {
            if bytes.len() > LONGEST {
                return Err(Stop::Failed(io::Error::from_raw_os_error(libc::EMSGSIZE)));
            }
            let Some(mail) = &mail else {
                return match to {
                    Name::Inet(_) => Ok(bytes.len()), // lost
                    _ => Err(io::ErrorKind::NotFound.into()),
                };
            };
            let mut state = mail.lock();
            if state.datagrams.len() >= CAPACITY {
                return match to {
                    Name::Inet(_) => Ok(bytes.len()), // lost
                    _ => Err(Stop::Wait(None)),
                };
            }
            let net = self.world.net();
            let (from, there) = (self.name.at(host()), to.at(host()));
            if net.weather.is_cut(&from, &there) {
                return Ok(bytes.len()); // lost
            }
            let faults = net.weather.of(&from, &there).cloned().unwrap_or_default();
            if Faults::strikes(faults.loss, &mut state.random) {
                return Ok(bytes.len()); // lost
            }
            let range = faults.latency.as_ref().unwrap_or(&net.latency).clone();
            drop(net);
            if Faults::strikes(faults.duplication, &mut state.random) {
                let due = parcae::time::now() + between(&range, &mut state.random);
                let number = state.sent;
                state.sent += 1;
                state.datagrams.insert((due, number), (self.name.clone(), bytes.to_vec()));
            }
            let mut due = parcae::time::now() + between(&range, &mut state.random);
            if !matches!(to, Name::Inet(_)) {
                // Unix sockets keep the order.
                due = state.datagrams.last_key_value().map_or(due, |((last, _), _)| due.max(*last));
            }
            let number = state.sent;
            state.sent += 1;
            state.datagrams.insert((due, number), (self.name.clone(), bytes.to_vec()));
            let soonest = state.datagrams.first_key_value().map_or(due, |((first, _), _)| *first);
            drop(state);
            mail.arrivals.wake_by(soonest);
            Ok(bytes.len())
        })
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.world.net().mailboxes.remove(key);
        }
    }
}
