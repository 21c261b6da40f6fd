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
use super::{Name, World};
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
    segments: VecDeque<Segment>,
    /// Bytes in all segments.
    held: usize,
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
    random: Random,
}

#[derive(Debug)]
struct Segment {
    due: Instant,
    bytes: VecDeque<u8>,
}

impl Pipe {
    fn new(buffer: usize, random: Random, from: &Name, to: &Name) -> Arc<Pipe> {
        let state = PipeState {
            segments: VecDeque::new(),
            held: 0,
            buffer,
            last: parcae::time::now(),
            fin: None,
            reset: None,
            told: false,
            reader_told: false,
            reader_gone: false,
            random,
        };
        let (readable, writable) = (WaitList::default(), WaitList::default());
        let (from, to) = (from.clone(), to.clone());
        Arc::new(Pipe { from, to, state: Mutex::new(state), readable, writable })
    }

    /// The time at which something that is sent now arrives, behind all that was sent before.
    fn arrival(&self, state: &mut PipeState, world: &World) -> Instant {
        let net = world.net();
        state.last = faults::arrival(&net, &self.from, &self.to, &mut state.random, state.last);
        state.last
    }

    /// A partition has ended: gives times to all that was sent meanwhile, which has one after
    /// `never`.
    pub(super) fn heal(&self, world: &World, never: Instant) {
        let mut state = self.lock();
        if state.last < never {
            return;
        }
        let kept = state.segments.iter().map(|one| one.due).filter(|due| *due < never).max();
        state.last = kept.unwrap_or_else(parcae::time::now).max(parcae::time::now());
        for at in 0..state.segments.len() {
            if state.segments[at].due >= never {
                state.segments[at].due = self.arrival(&mut state, world);
            }
        }
        if state.fin.is_some_and(|fin| fin >= never) {
            state.fin = Some(self.arrival(&mut state, world));
        }
        if state.reset.is_some_and(|reset| reset >= never) {
            state.reset = Some(self.arrival(&mut state, world));
        }
        drop(state);
        self.wake();
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
    fn is_reset(&self, now: Instant) -> bool {
        self.reset.is_some_and(|at| at <= now)
    }

    fn read(&mut self, buffer: &mut [u8], taking: Taking) -> Result<usize, Stop> {
        let now = parcae::time::now();
        if self.reader_gone && !self.is_reset(now) {
            return Ok(0);
        }
        // Bytes that have arrived before a reset are read before the error.
        let until = self.reset.map_or(now, |reset| reset.min(now));
        let before = self.segments.iter().take_while(|one| one.due <= until);
        let arrived: usize = before.map(|one| one.bytes.len()).sum();
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
                _ => Err(Stop::Wait(faults::soonest([next, self.fin, self.reset]))),
            };
        }
        let count = self.random.portion(arrived.min(buffer.len()));
        let mut bytes = self.segments.iter().flat_map(|one| &one.bytes);
        buffer.iter_mut().zip(&mut bytes).take(count).for_each(|(place, byte)| *place = *byte);
        if taking == Taking::Consume {
            self.consume(count);
        }
        Ok(count)
    }

    fn consume(&mut self, count: usize) {
        self.held -= count;
        let mut left = count;
        while left > 0 {
            let Some(front) = self.segments.front_mut() else { return };
            let here = left.min(front.bytes.len());
            front.bytes.drain(..here);
            left -= here;
            if front.bytes.is_empty() {
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
    let buffer = world.net().buffer;
    let there = Pipe::new(buffer, world.link(&from, &to), &from, &to);
    let back = Pipe::new(buffer, world.link(&to, &from), &to, &from);
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
        self.world.interrupt(&pipe.from, &pipe.to, &mut state.random).map_err(Stop::Failed)?;
        state.read(buffer, taking)
    }

    pub(crate) fn write(&self, operation: Operation<'_>, bytes: &[u8]) -> io::Result<usize> {
        let pipe = &self.outgoing;
        let count = operate(operation, &pipe.writable, || self.try_write(bytes))?;
        pipe.readable.wake();
        Ok(count)
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> Result<usize, Stop> {
        let Pipe { from, to, .. } = &*self.outgoing;
        let mut state = self.outgoing.lock();
        self.world.interrupt(from, to, &mut state.random).map_err(Stop::Failed)?;
        if state.fin.is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if state.is_reset(parcae::time::now()) {
            let told = std::mem::replace(&mut state.told, true);
            let kind =
                if told { io::ErrorKind::BrokenPipe } else { io::ErrorKind::ConnectionReset };
            return Err(kind.into());
        }
        if state.reader_gone {
            // It arrives where no one is, and a reset comes back.
            if state.reset.is_none() {
                let there = self.outgoing.arrival(&mut state, &self.world);
                let back = there + self.world.net().latency(&mut state.random);
                state.reset = Some(back);
                drop(state);
                self.incoming.lock().reset.get_or_insert(back);
                self.incoming.wake();
            }
            return Ok(bytes.len());
        }
        let room = state.buffer.saturating_sub(state.held);
        if room == 0 {
            return Err(Stop::Wait(faults::soonest([state.reset])));
        }
        let count = state.random.portion(bytes.len().min(room));
        let due = self.outgoing.arrival(&mut state, &self.world);
        state.held += count;
        state.segments.push_back(Segment { due, bytes: bytes[..count].iter().copied().collect() });
        let often = self.world.net().weather.of(from, to).map_or(0, |faults| faults.resets);
        if Faults::strikes(often, &mut state.random) {
            state.reset.get_or_insert(due);
            drop(state);
            self.incoming.lock().reset.get_or_insert(due);
            self.incoming.wake();
        }
        Ok(count)
    }

    pub(crate) fn shutdown(&self, how: Shutdown) {
        if matches!(how, Shutdown::Write | Shutdown::Both) {
            let mut state = self.outgoing.lock();
            if state.fin.is_none() {
                let due = self.outgoing.arrival(&mut state, &self.world);
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
        let at = self.incoming.arrival(&mut self.incoming.lock(), &self.world);
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
        let unread = incoming.held > 0;
        incoming.reader_gone = true;
        if unread && incoming.reset.is_none() {
            let at = self.incoming.arrival(&mut incoming, &self.world);
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
