//! Cases of a select that send or receive.

use super::case::{Call, CallOnce, Case, Finish, Goal, Payer, Round, opaque};
use crate::base::error::Result;
use crate::sync::channel::{
    ChannelCore, ChannelNode, Closed, Put, Reason, Receiver, RecvError, SendError, Sender, Side,
    Took, ValueAddress, ValueBox, charge, charge_and_wake, mark_empty,
};
use crate::wait::{Grant, WaitNode, WaitStanding, Waitable, Waiter};
use std::ptr::NonNull;

/// The part that sending and receiving cases have in common: the node in the channel's queue, and
/// the outcome.
struct ChannelCase<T> {
    node: ChannelNode<T, Waiter>,
    goal: Goal,
    outcome: Option<Result<(), Reason>>,
}

impl<T> ChannelCase<T> {
    fn new() -> ChannelCase<T> {
        let node = WaitNode::new(ValueAddress::WATCHER);
        ChannelCase { node, goal: Goal::Happen, outcome: None }
    }

    /// Queues the node, with the address of the value or to watch. Returns false if the case is
    /// possible.
    ///
    /// # Safety
    ///
    /// The case does not move, and the address is valid, until [`unregister`](Self::unregister).
    unsafe fn register(
        &mut self,
        core: &ChannelCore<T, Waiter>,
        side: Side,
        address: ValueAddress<T>,
        round: &Round<'_>,
    ) -> bool {
        self.goal = round.goal;
        let address = match round.goal {
            Goal::Happen => address,
            Goal::Watch => ValueAddress::WATCHER,
        };
        let claim = (round.claim, round.case);
        // SAFETY: the caller upholds the contract. The node is idle: `unregister` has left it so.
        unsafe { core.register(side, &self.node, address, round.waiter(), claim) }
    }

    /// Removes the node from its queue, if it was registered. `moved` is called if the channel has
    /// moved the value.
    fn unregister(&mut self, core: &ChannelCore<T, Waiter>, side: Side, moved: impl FnOnce()) {
        if self.node.standing() == WaitStanding::Idle {
            return;
        }
        // SAFETY: the node of this case.
        let grant = unsafe { core.waiters(side).withdraw(&self.node) };
        self.outcome = match (grant, self.goal) {
            (None, _) | (_, Goal::Watch) => None,
            (Some(Grant::Closed), Goal::Happen) => {
                let Closed(error) = core.closed().unwrap_or_default();
                Some(Err(Reason::Closed(error)))
            }
            (Some(_), Goal::Happen) => {
                moved();
                Some(Ok(()))
            }
        };
    }

    fn conclude(&self, payer: &Payer<'_>) -> bool {
        if let Some(Ok(())) = self.outcome {
            charge(payer.0);
        }
        debug_assert!(self.outcome.is_some(), "the case that was claimed");
        true
    }

    fn is_closed(&self) -> bool {
        matches!(self.outcome, Some(Err(Reason::Closed(_))))
    }
}

/// Values of up to this many words are stored in the case itself.
const WORDS: usize = 16;

/// Storage for the value of a case.
pub(super) type Stored<T> = ValueBox<T, WORDS>;

// ----- receiving ----------------------------------------------------------------------------

/// A receive.
pub struct RecvCase<'c, T> {
    receiver: &'c Receiver<T>,
    /// Memory for the value.
    value: Stored<T>,
    case: ChannelCase<T>,
}

impl<'c, T> RecvCase<'c, T> {
    /// A receive from this channel.
    pub fn new(receiver: &'c Receiver<T>) -> RecvCase<'c, T> {
        RecvCase { receiver, value: ValueBox::empty(), case: ChannelCase::new() }
    }

    /// The outcome of the winning case. The value stays here.
    pub(super) fn settle(&mut self) -> Result<&mut Stored<T>, RecvError> {
        match self.case.outcome.take() {
            Some(Err(reason)) => Err(RecvError::new(reason)),
            _ => Ok(&mut self.value),
        }
    }
}

impl<T> Finish for RecvCase<'_, T> {
    type Given = Result<T, RecvError>;

    fn finish(&mut self) -> Result<T, RecvError> {
        match self.settle() {
            Ok(value) => Ok(value.take()),
            Err(error) => Err(error),
        }
    }
}

impl<T> Case for RecvCase<'_, T> {
    fn attempt(&mut self, payer: &Payer<'_>) -> bool {
        self.value.clear(); // of an earlier round, if it was not fetched
        // SAFETY: uninitialised memory of this case.
        self.case.outcome =
            match unsafe { self.receiver.shared().core.try_recv(self.value.address()) } {
                Took::Empty => None,
                Took::Done(wakes) => {
                    // SAFETY: the memory was initialised.
                    unsafe { self.value.set_full() };
                    charge_and_wake(payer.0, wakes);
                    Some(Ok(()))
                }
                Took::Closed(Closed(error)) => Some(Err(Reason::Closed(error))),
            };
        self.case.outcome.is_some()
    }

    fn is_possible(&mut self) -> bool {
        self.receiver.shared().core.can_recv()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        let core = &self.receiver.shared().core;
        let address = ValueAddress::of(self.value.address());
        // SAFETY: uninitialised memory of this case. Node and memory stay in place until the case
        // is unregistered.
        unsafe { self.case.register(core, Side::Receivers, address, round) }
    }

    fn unregister(&mut self) {
        let core = &self.receiver.shared().core;
        // SAFETY: the memory was initialised.
        self.case.unregister(core, Side::Receivers, || unsafe { self.value.set_full() });
    }

    fn conclude(&mut self, payer: &Payer<'_>) -> bool {
        self.case.conclude(payer)
    }

    fn is_fleeting(&self) -> bool {
        true
    }

    fn is_closed(&self) -> bool {
        self.case.is_closed()
    }
}

// ----- sending ------------------------------------------------------------------------------

/// A send.
pub struct SendCase<'c, T> {
    sender: &'c Sender<T>,
    value: Offer<'c, T>,
    case: ChannelCase<T>,
}

/// Storage of the value until it is sent.
enum Offer<'c, T> {
    Own(Stored<T>),
    Lent(&'c mut Option<T>),
}

impl<T> Offer<'_, T> {
    /// Address of the value, if there is one.
    fn address(&mut self) -> Option<NonNull<T>> {
        match self {
            Offer::Own(value) => value.is_full().then(|| value.address()),
            Offer::Lent(value) => value.as_mut().map(NonNull::from),
        }
    }

    /// Marks the value as moved.
    ///
    /// # Safety
    ///
    /// The value was moved away from its address.
    unsafe fn set_empty(&mut self) {
        match self {
            Offer::Own(value) => value.set_empty(),
            // SAFETY: the caller upholds the contract.
            Offer::Lent(value) => unsafe { mark_empty(value) },
        }
    }

    fn clear(&mut self) {
        match self {
            Offer::Own(value) => value.clear(),
            Offer::Lent(value) => **value = None,
        }
    }
}

impl<'c, T> SendCase<'c, T> {
    /// A send of this value, which is dropped if another case happens.
    pub fn new(sender: &'c Sender<T>, value: T) -> SendCase<'c, T> {
        let mut value = Some(value);
        let value = ValueBox::from_option(&mut value).unwrap_or_else(ValueBox::empty);
        SendCase::of(sender, Offer::Own(value))
    }

    /// A send of a borrowed value, which stays in place if another case happens. Without a value
    /// the case never happens.
    pub fn offer(sender: &'c Sender<T>, value: &'c mut Option<T>) -> SendCase<'c, T> {
        SendCase::of(sender, Offer::Lent(value))
    }

    /// Registers with the address of the value, or to watch.
    fn register_with(&mut self, address: ValueAddress<T>, round: &Round<'_>) -> bool {
        let core = &self.sender.shared().core;
        // SAFETY: the value of this case, if there is one. Node and value stay in place until the
        // case is unregistered.
        unsafe { self.case.register(core, Side::Senders, address, round) }
    }

    fn of(sender: &'c Sender<T>, value: Offer<'c, T>) -> SendCase<'c, T> {
        SendCase { sender, value, case: ChannelCase::new() }
    }
}

impl<T> Finish for SendCase<'_, T> {
    type Given = Result<(), SendError<T>>;

    fn finish(&mut self) -> Result<(), SendError<T>> {
        let Some(Err(reason)) = self.case.outcome.take() else { return Ok(()) };
        let Some(address) = self.value.address() else { unreachable!("neither sent nor kept") };
        // SAFETY: an initialised value, which is marked as moved.
        unsafe {
            let error = SendError::from_address(address, reason);
            self.value.set_empty();
            Err(error)
        }
    }
}

impl<T> Case for SendCase<'_, T> {
    fn attempt(&mut self, payer: &Payer<'_>) -> bool {
        self.case.outcome = None;
        let Some(address) = self.value.address() else { return false };
        // SAFETY: the value of this case.
        self.case.outcome = match unsafe { self.sender.shared().core.try_send(address) } {
            Put::Full => None,
            Put::Done(wakes) => {
                // SAFETY: the value was moved into the channel.
                unsafe { self.value.set_empty() };
                charge_and_wake(payer.0, wakes);
                Some(Ok(()))
            }
            Put::Displaced => {
                charge(payer.0);
                self.value.clear(); // the value that made room
                Some(Ok(()))
            }
            Put::Refused => Some(Err(Reason::WouldWait)),
            Put::Closed(Closed(error)) => Some(Err(Reason::Closed(error))),
        };
        self.case.outcome.is_some()
    }

    fn is_possible(&mut self) -> bool {
        self.value.address().is_some() && self.sender.shared().core.can_send()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        let Some(address) = self.value.address() else { return true };
        self.register_with(ValueAddress::of(address), round)
    }

    fn unregister(&mut self) {
        let core = &self.sender.shared().core;
        // SAFETY: a receiver has moved the value away.
        self.case.unregister(core, Side::Senders, || unsafe { self.value.set_empty() });
    }

    fn conclude(&mut self, payer: &Payer<'_>) -> bool {
        self.case.conclude(payer)
    }

    fn is_fleeting(&self) -> bool {
        true
    }

    fn is_closed(&self) -> bool {
        self.case.is_closed()
    }
}

/// A send of a value that is made when there is room.
pub struct SendWithCase<'c, T, F> {
    send: SendCase<'c, T>,
    make: F,
    /// Whether the case is registered as a watcher, without a value.
    watches: bool,
}

impl<'c, T, F: Call<(), Output = T>> SendWithCase<'c, T, F> {
    pub(super) fn of(sender: &'c Sender<T>, make: F) -> Self {
        let send = SendCase::of(sender, Offer::Own(ValueBox::empty()));
        SendWithCase { send, make, watches: false }
    }

    fn has_value(&mut self) -> bool {
        self.send.value.address().is_some()
    }

    fn can_send(&self) -> bool {
        self.send.sender.shared().core.can_send()
    }
}

/// A send of the closure's result. The closure is called at most once.
pub fn send_with<'c, T>(
    sender: &'c Sender<T>,
    make: impl FnOnce() -> T + 'c,
) -> SendWithCase<'c, T, CallOnce<impl FnOnce(()) -> T + 'c>> {
    SendWithCase::of(sender, CallOnce::new(move |()| make()))
}

impl<T, F: Call<(), Output = T>> Finish for SendWithCase<'_, T, F> {
    type Given = Result<(), SendError<T>>;

    fn finish(&mut self) -> Result<(), SendError<T>> {
        self.send.finish()
    }
}

impl<T, F: Call<(), Output = T>> Case for SendWithCase<'_, T, F> {
    fn attempt(&mut self, payer: &Payer<'_>) -> bool {
        if !self.has_value() {
            if !self.can_send() {
                return false;
            }
            self.send.value = Offer::Own(ValueBox::new(self.make.call(())));
        }
        // If another sender was faster, the value waits like any other.
        self.send.attempt(payer)
    }

    fn is_possible(&mut self) -> bool {
        self.can_send()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        self.watches = round.goal == Goal::Watch || !self.has_value();
        if !self.watches {
            return self.send.register(round);
        }
        self.send.register_with(ValueAddress::WATCHER, &Round { goal: Goal::Watch, ..*round })
    }

    fn unregister(&mut self) {
        self.send.unregister();
    }

    fn conclude(&mut self, payer: &Payer<'_>) -> bool {
        // The closure is user code: all cases are unregistered by now.
        if self.watches { self.attempt(payer) } else { self.send.conclude(payer) }
    }

    fn is_fleeting(&self) -> bool {
        true
    }

    fn is_closed(&self) -> bool {
        self.send.is_closed()
    }
}

opaque!(RecvCase<'c, T>, SendCase<'c, T>, SendWithCase<'c, T, F>);
