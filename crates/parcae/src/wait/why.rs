//! The reason of a wait, for observers.
//!
//! A task records the reason in its frame before it parks, and only then: an operation that does
//! not wait pays nothing for it. An observer of the parked task (`inspect`) reads it there. The
//! references are valid until the waiting call returns, and a task does not return while it is
//! observed.
//!
//! The reason also names the task that could end the wait, as far as that is known: the wait-for
//! graph consists of these edges.

use crate::sched::Shared;
use crate::sched::events::WaitReason;
use crate::sched::events::kind::A_TASK;
use crate::sched::timers::Nanos;
use parcae_core::Resource;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The reason of a wait.
#[derive(Clone, Copy)]
pub(crate) enum Why<'w> {
    /// A wake-up from an unknown source.
    Wake,
    /// A point in time of the scheduler, if it is known.
    Sleep(Option<Nanos>),
    /// The children of the nursery that the task is leaving.
    Children,
    /// The end of the task with this number.
    Task(u64),
    /// The end of a task of another runtime.
    Elsewhere,
    /// A recharge.
    Budget(Resource),
    /// A blocking call on another thread.
    Blocking,
    /// A future.
    Future,
    /// One of this many cases.
    Select(usize),
    /// A lock with one holder at a time.
    Lock(&'static str, &'w Holder),
    /// An object that any task may signal: its name and address.
    Signal(&'static str, usize),
    /// A channel.
    Channel(&'static str, &'w dyn Channelled),
    /// A descriptor: the operation, and its object.
    #[cfg(feature = "io")]
    Io(&'static str, &'w dyn std::fmt::Display),
}

impl<'w> Why<'w> {
    /// The reason of a wait for an object that any task may signal.
    pub(crate) fn signal<T: ?Sized>(what: &'static str, object: &'w T) -> Why<'w> {
        Why::Signal(what, (&raw const *object).addr())
    }

    /// The reason as recorded in events.
    pub(crate) fn recorded(self) -> WaitReason {
        match self {
            Why::Wake => WaitReason::Fixed(0, 0),
            Why::Sleep(_) => WaitReason::Fixed(1, 0),
            Why::Children => WaitReason::Fixed(2, 0),
            Why::Task(id) => WaitReason::Fixed(A_TASK, id),
            Why::Elsewhere => WaitReason::Fixed(4, 0),
            Why::Budget(resource) => WaitReason::Fixed(5, resource as u64),
            Why::Blocking => WaitReason::Fixed(6, 0),
            Why::Future => WaitReason::Fixed(7, 0),
            Why::Select(_) => WaitReason::Fixed(8, 0),
            Why::Lock(word, _) | Why::Signal(word, _) | Why::Channel(word, _) => {
                WaitReason::Word(word)
            }
            #[cfg(feature = "io")]
            Why::Io(word, _) => WaitReason::Word(word),
        }
    }
}

/// The reason of a wait as two words, which are cheap to write: an object, and a function that
/// makes the reason of it.
#[derive(Clone, Copy)]
pub(crate) struct WhyLink<'w> {
    object: NonNull<()>,
    read: unsafe fn(NonNull<()>) -> Why<'w>,
}

impl<'w> WhyLink<'w> {
    /// A reason that is in memory.
    #[inline(always)]
    pub(crate) fn to(why: &'w Why<'w>) -> WhyLink<'w> {
        /// # Safety
        ///
        /// There is a reason at the address.
        unsafe fn read<'w>(object: NonNull<()>) -> Why<'w> {
            // SAFETY: as the caller says.
            unsafe { object.cast::<Why<'w>>().read() }
        }
        WhyLink { object: NonNull::from(why).cast(), read }
    }

    /// Waits to receive from a channel.
    #[inline(always)]
    pub(crate) fn receive<C: Channelled + 'w>(channel: &'w C) -> WhyLink<'w> {
        /// # Safety
        ///
        /// There is a channel at the address, for as long as the reason is used.
        unsafe fn read<'w, C: Channelled + 'w>(object: NonNull<()>) -> Why<'w> {
            // SAFETY: as the caller says.
            Why::Channel("receive", unsafe { object.cast::<C>().as_ref() })
        }
        WhyLink { object: NonNull::from(channel).cast(), read: read::<C> }
    }

    /// Waits to send into a channel.
    #[inline(always)]
    pub(crate) fn send<C: Channelled + 'w>(channel: &'w C) -> WhyLink<'w> {
        /// # Safety
        ///
        /// As above.
        unsafe fn read<'w, C: Channelled + 'w>(object: NonNull<()>) -> Why<'w> {
            // SAFETY: as the caller says.
            Why::Channel("send", unsafe { object.cast::<C>().as_ref() })
        }
        WhyLink { object: NonNull::from(channel).cast(), read: read::<C> }
    }

    /// The reason. The objects that it refers to outlive `'w`.
    pub(crate) fn why(self) -> Why<'w> {
        // SAFETY: the object outlives `'w`, as the constructors require.
        unsafe { (self.read)(self.object) }
    }

    /// The link with another lifetime.
    ///
    /// # Safety
    ///
    /// It is not used after its objects have ended.
    #[inline(always)]
    pub(crate) unsafe fn detach(self) -> WhyLink<'static> {
        // SAFETY: the types differ in the lifetime alone; the rest is the caller's obligation.
        unsafe { std::mem::transmute::<WhyLink<'w>, WhyLink<'static>>(self) }
    }
}

/// A channel as observers see it.
pub(crate) trait Channelled {
    /// Its figures, without waiting. `None` if the channel's lock is taken.
    fn stats(&self) -> Option<ChannelStats>;

    /// The task of this scheduler that made the channel.
    fn maker(&self, shared: &Shared) -> Option<u64>;

    /// The name that the program gave it.
    fn name(&self) -> Option<&Arc<str>>;
}

/// The figures of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChannelStats {
    pub(crate) values: usize,
    pub(crate) capacity: usize,
    pub(crate) senders: usize,
    pub(crate) receivers: usize,
}

/// The holder of a lock, as an address on its stack, because a name would have to be looked up. A
/// hint: the guard may have been sent to another task since.
#[derive(Debug)]
pub(crate) struct Holder(AtomicUsize);

impl Holder {
    pub(crate) const fn nobody() -> Holder {
        Holder(AtomicUsize::new(0))
    }

    /// Records the caller as the holder.
    #[inline(always)]
    pub(crate) fn take(&self) {
        let here = 0_u8;
        self.0.store((&raw const here).addr(), Ordering::Relaxed); // a hint: pairs with nothing
    }

    /// Records that there is no holder.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        self.0.store(0, Ordering::Relaxed); // as above
    }

    /// An address on the stack of the holder. 0 if there is none.
    pub(crate) fn address(&self) -> usize {
        self.0.load(Ordering::Relaxed) // as above
    }
}
