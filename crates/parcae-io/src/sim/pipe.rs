//! Streams: two pipes, one for each direction.
//!
//! A pipe holds segments on their way and segments that have arrived; both count against its
//! buffer. A segment arrives at its time, and never before an earlier one. The end of the output
//! (FIN) travels as a segment does. A reset arrives after a latency, and destroys what has not
//! arrived by then.
//!
//! | event | the writer | the reader |
//! |---|---|---|
//! | the writer ends its output | writes fail with BrokenPipe | reads the rest, then 0 for ever |
//! | the reader's side is gone, all read | the next write succeeds and provokes a reset | – |
//! | the reader's side is gone, with bytes unread | is reset | – |
//! | reset | ConnectionReset once, then BrokenPipe | reads the rest, ConnectionReset once, then 0 |
//!
//! There are no timers: a reader that waits knows when the next segment arrives, and sleeps until
//! then.

use super::drive::{Stop, WaitList, operate};
use super::faults::{self, Faults};
use super::random::Random;
use super::{Name, Net, Portions, World};
use crate::source::Operation;
use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Whether a read takes the bytes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taking {
    Consume,
    Peek,
}

/// One direction of a stream.
#[derive(Debug)]
pub(super) struct Pipe {
    from: Name,
    to: Name,
    state: Mutex<PipeState>,
    pub(super) readable: WaitList,
    pub(super) writable: WaitList,
}

#[derive(Debug)]
struct PipeState {
    /// The bytes of all segments.
    bytes: VecDeque<u8>,
    segments: VecDeque<Segment>,
    buffer: usize,
    /// When the last segment or the end arrives.
    last: Instant,
    /// When the end of the output arrives.
    fin: Option<Instant>,
    /// When a reset arrives.
    reset: Option<Instant>,
    /// Whether the writer was told of the reset.
    told: bool,
    /// Whether the reader was.
    reader_told: bool,
    /// The reader reads no more.
    reader_gone: bool,
    portions: Portions,
    random: Random,
}

/// Bytes that arrive together.
#[derive(Debug)]
struct Segment {
    due: Instant,
    length: usize,
}

/// A segment that was sent.
pub(super) struct Written {
    count: usize,
    /// When it arrives; none during a partition.
    due: Option<Instant>,
}

impl Pipe {
    fn new(settings: (usize, Portions), random: Random, from: &Name, to: &Name) -> Arc<Pipe> {
        let (buffer, portions) = settings;
        let state = PipeState {
            bytes: VecDeque::new(),
            segments: VecDeque::new(),
            buffer,
            last: parcae::time::now(),
            fin: None,
            reset: None,
            told: false,
            reader_told: false,
            reader_gone: false,
            portions,
            random,
        };
        let (readable, writable) = (WaitList::default(), WaitList::default());
        let (from, to) = (from.clone(), to.clone());
        Arc::new(Pipe { from, to, state: Mutex::new(state), readable, writable })
    }

    /// The time at which something that is sent now arrives, behind all that was sent before.
    fn arrival(&self, state: &mut PipeState, net: &Net, now: Instant) -> Instant {
        let random = &mut state.random;
        state.last = faults::arrival(net, &self.from, &self.to, random, state.last, now);
        state.last
    }

    /// A partition has ended: gives times to all that was sent meanwhile.
    pub(super) fn heal(&self, world: &World, now: Instant) {
        let never = now + faults::FAR / 2;
        let mut state = self.lock();
        if state.last < never {
            return;
        }
        let net = world.net();
        let kept = state.segments.iter().map(|one| one.due).filter(|due| *due < never).max();
        state.last = kept.unwrap_or(now).max(now);
        for at in 0..state.segments.len() {
            if state.segments[at].due >= never {
                state.segments[at].due = self.arrival(&mut state, &net, now);
            }
        }
        if state.fin.is_some_and(|fin| fin >= never) {
            state.fin = Some(self.arrival(&mut state, &net, now));
        }
        if state.reset.is_some_and(|reset| reset >= never) {
            state.reset = Some(self.arrival(&mut state, &net, now));
        }
        drop((net, state));
        self.wake();
    }

    /// A reader that waits wakes up when the segment arrives. One that knows of an earlier segment
    /// does so anyway.
    pub(super) fn announce(&self, Written { count, due }: Written) -> usize {
        if let Some(due) = due {
            self.readable.wake_by(due);
        }
        count
    }

    fn lock(&self) -> MutexGuard<'_, PipeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.readable.wake();
        self.writable.wake();
    }
}

impl PipeState {
    /// How much an operation takes of so many bytes.
    fn portion(&mut self, bytes: usize) -> usize {
        match self.portions {
            Portions::Random => self.random.portion(bytes),
            Portions::Whole => bytes,
        }
    }

    fn is_reset(&self, now: Instant) -> bool {
        self.reset.is_some_and(|at| at <= now)
    }

    fn read(&mut self, buffer: &mut [u8], taking: Taking, now: Instant) -> Result<usize, Stop> {
        if self.reader_gone && !self.is_reset(now) {
            return Ok(0);
        }
        // Bytes that have arrived before a reset are read before the error.
        let until = self.reset.map_or(now, |reset| reset.min(now));
        let before = self.segments.iter().take_while(|one| one.due <= until);
        let arrived: usize = before.map(|one| one.length).sum();
        if arrived == 0 && self.is_reset(now) {
            // The end came first: that is all there was to read.
            let ended = self.fin.is_some_and(|fin| fin <= until);
            return match std::mem::replace(&mut self.reader_told, true) || ended {
                true => Ok(0),
                false => Err(io::ErrorKind::ConnectionReset.into()),
            };
        }
        if arrived == 0 {
            let next = self.segments.front().map(|one| one.due);
            return match (next, self.fin) {
                (None, Some(fin)) if fin <= now => Ok(0),
                _ => Err(Stop::Wait(faults::soonest([next, self.fin, self.reset], now))),
            };
        }
        let count = self.portion(arrived.min(buffer.len()));
        let (first, second) = self.bytes.as_slices();
        let cut = count.min(first.len());
        buffer[..cut].copy_from_slice(&first[..cut]);
        buffer[cut..count].copy_from_slice(&second[..count - cut]);
        if taking == Taking::Consume {
            self.consume(count);
        }
        Ok(count)
    }

    fn consume(&mut self, count: usize) {
        self.bytes.drain(..count);
        let mut left = count;
        while let Some(front) = self.segments.front_mut()
            && left > 0
        {
            let here = left.min(front.length);
            front.length -= here;
            left -= here;
            if front.length == 0 {
                self.segments.pop_front();
            }
        }
    }
}

/// One end of a simulated stream.
#[derive(Debug)]
pub(crate) struct SimStream {
    world: Arc<World>,
    pub(super) incoming: Arc<Pipe>,
    pub(super) outgoing: Arc<Pipe>,
    local: Name,
    peer: Name,
}

/// A stream between two names: the end of the first, then that of the second.
pub(super) fn ends(world: &Arc<World>, from: Name, to: Name) -> (SimStream, SimStream) {
    let net = world.net();
    let settings = (net.buffer, net.portions);
    drop(net);
    let there = Pipe::new(settings, world.link(&from, &to), &from, &to);
    let back = Pipe::new(settings, world.link(&to, &from), &to, &from);
    for pipe in [&there, &back] {
        world.net().weather.add(Arc::downgrade(pipe));
    }
    let near = SimStream {
        world: Arc::clone(world),
        incoming: Arc::clone(&back),
        outgoing: Arc::clone(&there),
        local: from.clone(),
        peer: to.clone(),
    };
    let world = Arc::clone(world);
    (near, SimStream { world, incoming: there, outgoing: back, local: to, peer: from })
}

/// Two connected ends without a name.
pub(crate) fn pair() -> io::Result<(SimStream, SimStream)> {
    Ok(ends(&World::here()?, Name::Unnamed, Name::Unnamed))
}

impl SimStream {
    pub(crate) fn local(&self) -> &Name {
        &self.local
    }

    pub(crate) fn peer(&self) -> &Name {
        &self.peer
    }

    pub(crate) fn read(
        &self,
        operation: Operation<'_>,
        buffer: &mut [u8],
        taking: Taking,
    ) -> io::Result<usize> {
        let pipe = &self.incoming;
        let count = operate(operation, &pipe.readable, || self.try_read(buffer, taking))?;
        pipe.writable.wake(); // there is room
        Ok(count)
    }

    pub(super) fn try_read(&self, buffer: &mut [u8], taking: Taking) -> Result<usize, Stop> {
        let pipe = &self.incoming;
        let mut state = pipe.lock();
        let random = &mut state.random;
        self.world.net().interrupt(&pipe.from, &pipe.to, random).map_err(Stop::Failed)?;
        state.read(buffer, taking, parcae::time::now())
    }

    pub(crate) fn write(&self, operation: Operation<'_>, bytes: &[u8]) -> io::Result<usize> {
        let pipe = &self.outgoing;
        let written = operate(operation, &pipe.writable, || self.try_write(bytes))?;
        Ok(pipe.announce(written))
    }

    /// Returns the number of bytes, and when they arrive, if that is known.
    pub(super) fn try_write(&self, bytes: &[u8]) -> Result<Written, Stop> {
        let Pipe { from, to, .. } = &*self.outgoing;
        let mut state = self.outgoing.lock();
        let (net, now) = (self.world.net(), parcae::time::now());
        net.interrupt(from, to, &mut state.random).map_err(Stop::Failed)?;
        if state.fin.is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if state.is_reset(now) {
            let told = std::mem::replace(&mut state.told, true);
            let kind =
                if told { io::ErrorKind::BrokenPipe } else { io::ErrorKind::ConnectionReset };
            return Err(kind.into());
        }
        if state.reader_gone {
            // It arrives where no one is, and a reset comes back.
            if state.reset.is_none() {
                let there = self.outgoing.arrival(&mut state, &net, now);
                let back = there + net.latency(&mut state.random);
                state.reset = Some(back);
                drop((net, state));
                self.incoming.lock().reset.get_or_insert(back);
                self.incoming.wake();
            }
            return Ok(Written { count: bytes.len(), due: None });
        }
        let room = state.buffer.saturating_sub(state.bytes.len());
        if room == 0 {
            return Err(Stop::Wait(faults::soonest([state.reset], now)));
        }
        let count = state.portion(bytes.len().min(room));
        let due = self.outgoing.arrival(&mut state, &net, now);
        state.bytes.extend(&bytes[..count]);
        state.segments.push_back(Segment { due, length: count });
        let often = net.weather.of(from, to).map_or(0, |faults| faults.resets);
        if Faults::strikes(often, &mut state.random) {
            state.reset.get_or_insert(due);
            drop((net, state));
            self.incoming.lock().reset.get_or_insert(due);
            self.incoming.wake();
        }
        Ok(Written { count, due: faults::soonest([Some(due)], now) })
    }

    pub(crate) fn shutdown(&self, how: Shutdown) {
        if matches!(how, Shutdown::Write | Shutdown::Both) {
            let mut state = self.outgoing.lock();
            if state.fin.is_none() {
                let now = parcae::time::now();
                let due = self.outgoing.arrival(&mut state, &self.world.net(), now);
                state.fin = Some(due);
            }
            drop(state);
            self.outgoing.wake();
        }
        if matches!(how, Shutdown::Read | Shutdown::Both) {
            self.incoming.lock().reader_gone = true;
            self.incoming.wake();
        }
    }
}

impl SimStream {
    /// Closes by a reset.
    pub(super) fn abort(self) {
        let now = parcae::time::now();
        let at = self.incoming.arrival(&mut self.incoming.lock(), &self.world.net(), now);
        self.incoming.lock().reset.get_or_insert(at);
        self.outgoing.lock().reset.get_or_insert(at);
    }
}

/// Closing: the output ends; bytes that were not read make it a reset. If such bytes have arrived,
/// the reset comes in place of the end.
impl Drop for SimStream {
    fn drop(&mut self) {
        let mut incoming = self.incoming.lock();
        let now = parcae::time::now();
        let arrived = incoming.segments.front().is_some_and(|one| one.due <= now);
        let unread = !incoming.bytes.is_empty();
        incoming.reader_gone = true;
        if unread && incoming.reset.is_none() {
            let at = self.incoming.arrival(&mut incoming, &self.world.net(), now);
            incoming.reset = Some(at);
            drop(incoming);
            self.outgoing.lock().reset.get_or_insert(at);
            if arrived {
                self.incoming.wake();
                self.outgoing.wake();
                return;
            }
        } else {
            drop(incoming);
        }
        self.shutdown(Shutdown::Both);
    }
}
