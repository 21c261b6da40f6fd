//! A channel for one value: its ends, and the memory that they share. `one` has the state, the
//! protocol and the reasons; `operation` has the steps of an operation.

use super::error::{Reason, RecvError, SendError};
use super::one::{Gone, OneCore, OnePut, OneStanding, OneTook};
use super::operation::{closed_or_cancelled, may_wait};
use super::sender::not_sent;
use super::state::ChannelNode;
use super::value_box::mark_empty;
use super::{Receiver, Sender, channel};
use crate::base::error::Result as CoreResult;
use crate::base::once_box::OnceBox;
use crate::sched;
use crate::sched::lab::OpKind;
use crate::sched::worker::blocks::LAYOUT;
use crate::sched::worker::ordered::unordered;
use crate::sched::worker::{forget_address, point_at};
use crate::scope::cx::parking::{Deadline, Ended, borrowed_waiter, wait_in_queue};
use crate::scope::cx::{Frame, Here};
use crate::sync::select::RecvCase;
use crate::wait::{ChannelStats, Channelled, Grant, Waitable, Waiter, WhyLink};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A channel for one value. The send never waits, and consumes the sender.
///
/// ```
/// use parcae::channel::oneshot;
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().build()?;
/// rt.run(|cx| {
///     let (answer, answered) = oneshot();
///     cx.nursery(|n| {
///         n.spawn(move |_| Ok(answer.send(42)?))?;
///         assert_eq!(answered.recv()?, 42);
///         Ok(())
///     })
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
#[inline]
pub fn oneshot<T>() -> (OneSender<T>, OneReceiver<T>) {
    let shared = OneShared::make();
    (OneSender { shared, _owns: PhantomData }, OneReceiver { shared, _owns: PhantomData })
}

/// The memory that both ends share.
struct OneShared<T> {
    core: OneCore<T, Waiter>,
    /// The task that made it, and the address of its scheduler, for the deadlock detector; 0 if a
    /// thread made or used it.
    maker: AtomicU64,
    home: usize,
    bridge: OnceBox<Bridge<T>>,
}

/// The channel of a oneshot whose receiver is used as one of a channel.
struct Bridge<T> {
    sender: Sender<T>,
    /// Dropped by the receiver of the oneshot.
    receiver: UnsafeCell<ManuallyDrop<Receiver<T>>>,
}

impl<T> OneShared<T> {
    const FITS: bool = {
        let own = Layout::new::<OneShared<T>>();
        own.size() <= LAYOUT.size() && own.align() <= LAYOUT.align()
    };

    #[inline]
    fn make() -> NonNull<OneShared<T>> {
        let here = Here::new();
        // SAFETY: nothing here switches.
        let place = unsafe { here.place() };
        let kept = match place {
            Some((worker, frame)) if Self::FITS && !frame.counts_memory() => worker.take_block(),
            _ => None,
        };
        let block = kept.unwrap_or_else(Self::allocate).cast::<OneShared<T>>();
        let (maker, home) = place.map_or((0, 0), |(_, frame)| {
            (frame.record().id(), Arc::as_ptr(&frame.settings().shared).addr())
        });
        // SAFETY: memory for it, which is ours. Every field is written, except for the slot.
        unsafe {
            let shared = block.as_ptr();
            OneCore::init(NonNull::new_unchecked(&raw mut (*shared).core));
            (&raw mut (*shared).maker).write(AtomicU64::new(maker));
            (&raw mut (*shared).home).write(home);
            (&raw mut (*shared).bridge).write(OnceBox::new());
            forget_address(&(*shared).core);
        }
        block
    }

    const LAYOUT: Layout = if Self::FITS { LAYOUT } else { Layout::new::<OneShared<T>>() };

    #[cold]
    #[inline(never)]
    fn allocate() -> NonNull<u8> {
        // SAFETY: not of size zero.
        NonNull::new(unsafe { alloc(Self::LAYOUT) })
            .unwrap_or_else(|| handle_alloc_error(Self::LAYOUT))
    }

    /// Frees the memory, with a value that was not received.
    ///
    /// # Safety
    ///
    /// Both ends are gone; `last` is the last state.
    #[inline]
    unsafe fn free(this: NonNull<OneShared<T>>, last: OneStanding) {
        // Freed also if the destructor of a value unwinds.
        let ended = EndedOne(this);
        if last == OneStanding::Full {
            // SAFETY: as the caller says.
            unsafe { ended.drop_value() };
        }
    }

    /// # Safety
    ///
    /// As for [`free`](OneShared::free).
    #[cold]
    unsafe fn drop_bridge(this: NonNull<OneShared<T>>) {
        // SAFETY: as the caller says. Without a bridge there is nothing to drop.
        unsafe { this.drop_in_place() };
    }

    /// Step 1. Returns the frame of the paying task, if the caller is a task.
    fn prepare<'h>(&self, kind: OpKind, here: &'h Here) -> CoreResult<Option<&'h Frame>> {
        let Some(frame) = here.frame() else {
            // A thread uses it: there are holders of its ends that are unknown.
            self.maker.store(0, Ordering::Relaxed); // for reports, as in `handles`
            return Ok(None);
        };
        frame.prepare_channel_point(kind, (&raw const self.core).addr())?;
        Ok(Some(frame))
    }

    /// The channel that it is bridged to, from now on at the latest.
    #[cold]
    fn bridge(&self) -> &Bridge<T>
    where
        T: Sized,
    {
        let bridge = match self.bridge.get() {
            Some(bridge) => bridge,
            None => {
                let (sender, receiver) = channel(1);
                let receiver = UnsafeCell::new(ManuallyDrop::new(receiver));
                self.bridge.fill(Box::new(Bridge { sender, receiver }))
            }
        };
        let core = &bridge.sender.shared().core;
        // SAFETY: a value, which the core does not use again. There is room: it is the first, and
        // no receiver waits, as none has left this function.
        let push = |value| unsafe {
            let pushed = core.push(value).is_ok();
            debug_assert!(pushed, "a new channel");
        };
        // Under the lock of the oneshot: a part of this operation.
        self.core.bridge(|value| unordered(|| push(value)), || unordered(|| core.close(None)));
        bridge
    }
}

/// Memory of a oneshot whose ends are gone, to be freed.
struct EndedOne<T>(NonNull<OneShared<T>>);

impl<T> EndedOne<T> {
    /// # Safety
    ///
    /// Both ends are gone.
    #[cold]
    unsafe fn drop_value(&self) {
        // SAFETY: as the caller says; an initialised value, which is dropped once.
        unsafe {
            if let Some(value) = self.0.as_ref().core.take_value() {
                value.drop_in_place();
            }
        }
    }
}

impl<T> Drop for EndedOne<T> {
    #[inline]
    fn drop(&mut self) {
        let EndedOne(this) = *self;
        // SAFETY: both ends are gone, and it is freed once.
        unsafe {
            if this.as_ref().bridge.get().is_some() {
                OneShared::drop_bridge(this);
            }
            let block = this.cast::<u8>();
            let here = Here::new();
            let kept = match here.place() {
                Some((worker, frame)) if OneShared::<T>::FITS && !frame.counts_memory() => {
                    worker.give_block(block)
                }
                _ => false,
            };
            if !kept {
                dealloc(block.as_ptr(), OneShared::<T>::LAYOUT);
            }
        }
    }
}

impl<T> Channelled for OneShared<T> {
    fn stats(&self) -> Option<ChannelStats> {
        let (standing, handles) = self.core.look()?;
        let values = usize::from(standing == OneStanding::Full);
        // Asked while the receiver waits: it is there.
        Some(ChannelStats { values, capacity: 1, senders: usize::from(handles) - 1, receivers: 1 })
    }

    fn maker(&self, shared: &sched::Shared) -> Option<u64> {
        let here = (&raw const *shared).addr() == self.home;
        // Relaxed: for a report.
        Some(self.maker.load(Ordering::Relaxed)).filter(|&maker| here && maker != 0)
    }

    fn name(&self) -> Option<&Arc<str>> {
        None
    }
}

/// The sender of a [`oneshot`]. Dropping it without a send closes the channel.
pub struct OneSender<T> {
    shared: NonNull<OneShared<T>>,
    _owns: PhantomData<OneShared<T>>,
}

/// The receiver of a [`oneshot`].
pub struct OneReceiver<T> {
    shared: NonNull<OneShared<T>>,
    _owns: PhantomData<OneShared<T>>,
}

// SAFETY: the state is shared by lock, and moves values between threads if they are `Send`.
unsafe impl<T: Send> Send for OneSender<T> {}
// SAFETY: as above; a shared sender is only asked whether it is closed.
unsafe impl<T: Send> Sync for OneSender<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for OneReceiver<T> {}
// SAFETY: as above; several threads may receive, and one of them gets the value.
unsafe impl<T: Send> Sync for OneReceiver<T> {}

impl<T> OneSender<T> {
    #[inline(always)]
    fn shared(&self) -> &OneShared<T> {
        // SAFETY: this end is there.
        unsafe { self.shared.as_ref() }
    }

    /// Sends the value.
    ///
    /// # Errors
    ///
    /// If the receiver is gone, the task is cancelled, or its budget is exhausted. The value is in
    /// the error.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn send(self, value: T) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        let sent = self.send_from(&mut value);
        not_sent(&mut value, sent)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn send_from(self, value: &mut Option<T>) -> Result<(), Reason> {
        let Some(address) = value.as_mut().map(NonNull::from) else { return Ok(()) };
        let here = Here::new();
        // SAFETY: an initialised value, which is marked as moved once it is. The worker is not used
        // after a switch: a send does not wait.
        unsafe {
            if let Some((worker, frame)) = here.place()
                && frame.begins_free_channel_op()
            {
                match self.shared().core.send(address, Some(worker)) {
                    OnePut::Handed(task) => {
                        self.moved(value);
                        worker.unpark(task);
                        return Ok(());
                    }
                    put => return self.send_otherwise(put, Some(frame), value),
                }
            }
            self.send_counted(value, address)
        }
    }

    /// The value was moved, and the handle is gone.
    ///
    /// # Safety
    ///
    /// It is so.
    #[inline(always)]
    unsafe fn moved(self, value: &mut Option<T>) {
        // SAFETY: as the caller says.
        unsafe { mark_empty(value) };
        std::mem::forget(self);
    }

    /// A send where step 1 has more to do: on a thread, in the lab, at the end of a turn, if
    /// operations are counted.
    ///
    /// # Safety
    ///
    /// The address is that of the value.
    #[inline(never)]
    unsafe fn send_counted(self, value: &mut Option<T>, address: NonNull<T>) -> Result<(), Reason> {
        let here = Here::new();
        let payer =
            self.shared().prepare(OpKind::ChannelSend, &here).map_err(Reason::Interrupted)?;
        // SAFETY: an initialised value. `send_otherwise` marks it as moved.
        unsafe {
            let put = self.shared().core.send(address, None);
            self.send_otherwise(put, payer, value)
        }
    }

    /// The result of a send that no task of the same worker waited for.
    ///
    /// # Safety
    ///
    /// The outcome of a send of this value.
    #[inline(never)]
    unsafe fn send_otherwise(
        self,
        put: OnePut<Waiter>,
        payer: Option<&Frame>,
        value: &mut Option<T>,
    ) -> Result<(), Reason> {
        let wakes = match put {
            OnePut::Done(wakes) => {
                // SAFETY: it is so.
                unsafe { self.moved(value) };
                wakes
            }
            OnePut::Beside(wakes) => {
                // SAFETY: the value was moved.
                unsafe { mark_empty(value) };
                drop(self);
                wakes
            }
            OnePut::Bridged => return self.send_over_bridge(payer, value),
            OnePut::Closed => return Err(closed_or_cancelled(Reason::Closed(None))),
            OnePut::Handed(_) => unreachable!("to a task of this worker"),
        };
        payer.inspect(|frame| frame.charge_channel_op());
        wakes.wake();
        Ok(())
    }

    #[cold]
    fn send_over_bridge(self, payer: Option<&Frame>, value: &mut Option<T>) -> Result<(), Reason> {
        self.shared().bridge().sender.send_last(payer, value)
    }

    /// Whether the receiver is gone, so that a send would fail. Not a checkpoint.
    pub fn is_closed(&self) -> bool {
        match self.shared().core.standing() {
            OneStanding::Bridged => self.shared().bridge().sender.is_closed(),
            standing => standing != OneStanding::Open,
        }
    }
}

impl<T> Drop for OneSender<T> {
    #[cold]
    fn drop(&mut self) {
        let shared = self.shared();
        point_at(OpKind::Close, &shared.core);
        let gone = shared.core.leave_open().unwrap_or_else(|| {
            shared.bridge().sender.shared().core.close(None);
            shared.core.leave()
        });
        if gone == Gone::Last {
            // SAFETY: both ends are gone.
            unsafe { OneShared::free(self.shared, shared.core.standing()) };
        }
    }
}

impl<T> OneReceiver<T> {
    #[inline(always)]
    fn shared(&self) -> &OneShared<T> {
        // SAFETY: this end is there.
        unsafe { self.shared.as_ref() }
    }

    /// Waits for the value. The call can be repeated after a cancellation or timeout.
    ///
    /// # Errors
    ///
    /// If the sender was dropped without a send, the value was received before, the task is
    /// cancelled, or its budget is exhausted.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_until(|| Deadline::Never)
    }

    /// Like [`recv`](OneReceiver::recv), with a timeout.
    ///
    /// # Errors
    ///
    /// As for [`recv`](OneReceiver::recv), or the time is up.
    pub fn recv_timeout(&self, time: Duration) -> Result<T, RecvError> {
        self.recv_until(|| Deadline::after(time))
    }

    /// Like [`recv`](OneReceiver::recv), with a deadline on the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// As for [`recv`](OneReceiver::recv), or the time is up.
    pub fn recv_deadline(&self, at: Instant) -> Result<T, RecvError> {
        self.recv_until(|| Deadline::at(at))
    }

    #[inline]
    fn recv_until(&self, deadline: impl FnOnce() -> Deadline) -> Result<T, RecvError> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: uninitialised memory for a value, which outlives the call.
        match unsafe { self.recv_to(NonNull::from(&mut value).cast(), deadline) } {
            // SAFETY: initialised by the call, and moved out once.
            Ok(()) => Ok(unsafe { value.as_ptr().read() }),
            Err(reason) => Err(RecvError::new(reason)),
        }
    }

    /// Receives to an address, which is initialised on success.
    ///
    /// # Safety
    ///
    /// The address is uninitialised memory for a value, owned by the caller until this returns.
    #[inline]
    unsafe fn recv_to(
        &self,
        into: NonNull<T>,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), Reason> {
        let here = Here::new();
        // SAFETY: the caller upholds the contract.
        unsafe {
            let deadline = deadline();
            let frame = match here.frame() {
                Some(frame)
                    if matches!(deadline, Deadline::Never) && frame.begins_free_channel_op() =>
                {
                    frame
                }
                _ => return self.recv_counted(into, deadline),
            };
            let core = &self.shared().core;
            let locked = match core.recv(into) {
                OneTook::Done => return Ok(()),
                OneTook::Empty(locked) => locked,
                _ => return self.recv_otherwise(into, Some(frame), deadline),
            };
            let mut place = MaybeUninit::<ChannelNode<T, Waiter>>::uninit();
            let at = NonNull::from(&mut place).cast();
            // Node and waiter stay here until the node is granted or withdrawn, by `OneWithdraw` at
            // the latest.
            locked.join(at, into, borrowed_waiter(Some(frame)));
            let node = place.assume_init_ref();
            let unwinding = OneWithdraw { core, node };
            let why = WhyLink::receive(self.shared());
            // Without a drop of the result on the usual way.
            let waited = ManuallyDrop::new(frame.wait_until_final(node.state(), why));
            std::mem::forget(unwinding);
            if waited.is_ok() && node.state().is_granted(Grant::Own) {
                return Ok(());
            }
            not_served(core, node, frame, ManuallyDrop::into_inner(waited))
        }
    }

    /// A receive where step 1 has more to do: on a thread, in the lab, at the end of a turn, if
    /// operations are counted; or with a deadline.
    ///
    /// # Safety
    ///
    /// As for [`recv_to`](OneReceiver::recv_to).
    #[inline(never)]
    unsafe fn recv_counted(&self, into: NonNull<T>, deadline: Deadline) -> Result<(), Reason> {
        let here = Here::new();
        let frame =
            self.shared().prepare(OpKind::ChannelReceive, &here).map_err(Reason::Interrupted)?;
        // SAFETY: the caller upholds the contract.
        unsafe { self.recv_otherwise(into, frame, deadline) }
    }

    /// A receive on a thread, with a deadline, of a oneshot that is closed, or over a bridge. After
    /// step 1; charges the task.
    ///
    /// # Safety
    ///
    /// As for [`recv_to`](OneReceiver::recv_to). `frame` is the caller's.
    #[cold]
    #[inline(never)]
    unsafe fn recv_otherwise(
        &self,
        into: NonNull<T>,
        frame: Option<&Frame>,
        deadline: Deadline,
    ) -> Result<(), Reason> {
        let core = &self.shared().core;
        // SAFETY: the caller upholds the contract. The node stays here until it is granted or
        // withdrawn, by `wait_in_queue` at the latest.
        unsafe {
            match core.recv(into) {
                OneTook::Done => {}
                OneTook::Closed => return Err(closed_or_cancelled(Reason::Closed(None))),
                OneTook::Bridged => self.as_receiver().recv_to(into, frame, || deadline)?,
                OneTook::Empty(locked) => {
                    let mut place = MaybeUninit::<ChannelNode<T, Waiter>>::uninit();
                    let at = NonNull::from(&mut place).cast();
                    locked.join(at, into, borrowed_waiter(frame));
                    let node = place.assume_init_ref();
                    let why = WhyLink::receive(self.shared()).why();
                    let refused = || may_wait(frame).err().map(Err);
                    match wait_in_queue(core, node, frame, why, || deadline, refused) {
                        (Some(Grant::Own), Ok(_)) => {}
                        waited => not_granted(frame, waited)?,
                    }
                }
            }
        }
        frame.inspect(|frame| frame.charge_channel_op());
        Ok(())
    }

    /// Receives the value if it has been sent.
    ///
    /// # Errors
    ///
    /// As for [`recv`](OneReceiver::recv), or the call would have to wait.
    pub fn try_recv(&self) -> Result<T, RecvError> {
        let here = Here::new();
        let frame = self
            .shared()
            .prepare(OpKind::ChannelReceive, &here)
            .map_err(|error| RecvError::new(Reason::Interrupted(error)))?;
        let core = &self.shared().core;
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: uninitialised memory for a value.
        match unsafe { core.recv(NonNull::from(&mut value).cast()) } {
            OneTook::Done => {
                frame.inspect(|frame| frame.charge_channel_op());
                // SAFETY: initialised, and moved out once.
                Ok(unsafe { value.as_ptr().read() })
            }
            OneTook::Empty(_) => Err(RecvError::new(Reason::WouldWait)),
            OneTook::Closed => Err(RecvError::new(closed_or_cancelled(Reason::Closed(None)))),
            OneTook::Bridged => {
                let received = self.as_receiver().try_recv_uncharged();
                if received.is_ok() {
                    frame.inspect(|frame| frame.charge_channel_op());
                }
                received
            }
        }
    }

    /// This receiver as a case of `select!`.
    #[doc(hidden)]
    pub fn __select(&self) -> RecvCase<'_, T> {
        RecvCase::new(self.as_receiver())
    }

    /// Closes the channel: a send fails from now on.
    pub fn close(&self) {
        point_at(OpKind::Close, &self.shared().core);
        match self.shared().core.standing() {
            OneStanding::Bridged => self.as_receiver().close(),
            _ => self.shared().core.close(),
        }
    }

    /// The underlying receiver, for a [`Select`](crate::select::Select). `select!` takes a
    /// `OneReceiver` directly.
    pub fn as_receiver(&self) -> &Receiver<T> {
        // SAFETY: dropped with this end, which is borrowed.
        unsafe { &*self.shared().bridge().receiver.get() }
    }
}

impl<T> Drop for OneReceiver<T> {
    #[inline]
    fn drop(&mut self) {
        let shared = self.shared();
        if let Some(bridge) = shared.bridge.get() {
            // SAFETY: dropped once, and not used any more: this end goes.
            unsafe { ManuallyDrop::drop(&mut *bridge.receiver.get()) };
        }
        match shared.core.leave_last() {
            // SAFETY: both ends are gone.
            Some(last) => unsafe { OneShared::free(self.shared, last) },
            None => self.leave_first(),
        }
    }
}

impl<T> OneReceiver<T> {
    /// This end goes, most likely as the first.
    #[cold]
    #[inline(never)]
    fn leave_first(&mut self) {
        let core = &self.shared().core;
        point_at(OpKind::Close, core);
        if core.leave() == Gone::Last {
            // SAFETY: both ends are gone.
            unsafe { OneShared::free(self.shared, core.standing()) };
        }
    }
}

/// Withdraws the node of a wait that unwinds.
struct OneWithdraw<'n, T> {
    core: &'n OneCore<T, Waiter>,
    node: &'n ChannelNode<T, Waiter>,
}

impl<T> Drop for OneWithdraw<'_, T> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: the node was queued by the caller, to whose wait it belongs.
        unsafe { self.core.withdraw(self.node) };
    }
}

/// The outcome of a wait without a deadline that failed, or did not end with a value.
///
/// # Safety
///
/// The node was queued by the caller, whose frame this is, and does not move.
#[cold]
unsafe fn not_served<T>(
    core: &OneCore<T, Waiter>,
    node: &ChannelNode<T, Waiter>,
    frame: &Frame,
    waited: CoreResult<()>,
) -> Result<(), Reason> {
    // SAFETY: as the caller says.
    let grant = unsafe { core.withdraw(node) };
    not_granted(Some(frame), (grant, waited.map(|()| Ended::Woken)))
}

/// The outcome of a wait that was interrupted, or ended without a value.
#[cold]
fn not_granted(
    frame: Option<&Frame>,
    (grant, ended): (Option<Grant>, CoreResult<Ended>),
) -> Result<(), Reason> {
    match (grant, ended) {
        (Some(Grant::Closed), Ok(_)) => Err(closed_or_cancelled(Reason::Closed(None))),
        // Cancellation takes precedence over a closed channel.
        (Some(Grant::Closed) | None, Err(error)) => Err(Reason::Interrupted(error)),
        (None, Ok(_)) => Err(Reason::TimedOut),
        // The value is there, so the receive succeeds. The next cancel point reports the
        // cancellation.
        (Some(_), _) => {
            frame.inspect(|frame| frame.untell());
            Ok(())
        }
    }
}

impl<T> fmt::Debug for OneSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneSender").field("closed", &self.is_closed()).finish()
    }
}

impl<T> fmt::Debug for OneReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let standing = self.shared().core.standing();
        f.debug_struct("OneReceiver").field("standing", &standing).finish()
    }
}
