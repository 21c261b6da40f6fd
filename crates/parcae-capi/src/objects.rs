//! The objects that handles refer to.

use crate::actors::{ActorsRef, AddressRef, ChildrenRef, ReplyRef, WatchRef};
use crate::fault::Fault;
use crate::table::{Kind, Object};
use crate::types::E_NOT_YOURS;
use parcae::CancelToken;
use parcae::cancel::OnCancel;
use parcae::cap::{CapBudget, CapChannel, CapSpawn, ChannelPermit};
use parcae::channel::{Receiver, Sender};
use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An object. A clone is another reference to it.
#[derive(Clone)]
pub(crate) enum Thing {
    Runtime,
    /// A nursery, as other callers may use it: to cancel it. The nursery itself belongs to its
    /// owner (see [`caller`](crate::caller)).
    Nursery(CancelToken),
    Task(Arc<TaskRef>),
    Token(Arc<TokenRef>),
    Numbers(Arc<Channel<i64>>),
    Pointers(Arc<Channel<Pointer>>),
    Select(Arc<Mutex<crate::api::select::Cases>>),
    CapSpawn(Arc<CapSpawn>),
    CapBudget(Arc<CapBudget>),
    CapChannel(Arc<CapChannel>),
    Lock(Arc<Lock>),
    Actors(Arc<ActorsRef>),
    Address(Arc<AddressRef>),
    Reply(Arc<ReplyRef>),
    Watch(Arc<WatchRef>),
    Children(Arc<ChildrenRef>),
}

/// A mutex. C unlocks it by a separate call, so the guard is kept here, with its owner.
#[derive(Default)]
pub(crate) struct Lock {
    // Declared before the mutex that it borrows from. A lock never moves: it is always behind an
    // `Arc`.
    held: Mutex<Option<(usize, Held)>>,
    mutex: parcae::sync::Mutex<()>,
}

/// The guard of a [`Lock`]. It is not really `'static`: it is kept in the lock, or dropped before
/// the lock is.
pub(crate) struct Held(
    #[allow(dead_code, reason = "dropped")] parcae::sync::MutexGuard<'static, ()>,
);

impl Held {
    /// # Safety
    ///
    /// The lock outlives it, and stays where it is.
    unsafe fn new(guard: parcae::sync::MutexGuard<'_, ()>) -> Held {
        // SAFETY: only the lifetime changes; the rest is as the caller says.
        Held(unsafe {
            std::mem::transmute::<
                parcae::sync::MutexGuard<'_, ()>,
                parcae::sync::MutexGuard<'static, ()>,
            >(guard)
        })
    }
}

impl Lock {
    fn held(&self) -> MutexGuard<'_, Option<(usize, Held)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the mutex and takes it for this caller. `wait` runs the closure that waits.
    pub(crate) fn lock(
        self: &Arc<Lock>,
        caller: usize,
        wait: impl FnOnce(
            &(dyn Fn() -> parcae::Result<Held> + Sync),
        ) -> Result<parcae::Result<Held>, Fault>,
    ) -> Result<(), Fault> {
        if self.is_held_by(caller) {
            let text = "the caller holds the mutex already, and would wait for itself";
            return Err(Fault::argument(text));
        }
        // SAFETY: it is kept in the lock, below; or dropped before this returns, and the caller has
        // the lock.
        let held = wait(&|| Ok(unsafe { Held::new(self.mutex.lock()?) }))??;
        *self.held() = Some((caller, held));
        Ok(())
    }

    /// Takes the mutex for this caller if it is free; returns whether it did.
    pub(crate) fn try_lock(self: &Arc<Lock>, caller: usize) -> bool {
        let Some(guard) = self.mutex.try_lock() else { return false };
        // SAFETY: it is kept in the lock.
        *self.held() = Some((caller, unsafe { Held::new(guard) }));
        true
    }

    fn is_held_by(&self, caller: usize) -> bool {
        matches!(&*self.held(), Some((owner, _)) if *owner == caller)
    }

    /// Releases the mutex, if this caller holds it.
    pub(crate) fn unlock(&self, caller: usize) -> Result<(), Fault> {
        if !self.is_held_by(caller) {
            return Err(Fault::new(E_NOT_YOURS, "the caller does not hold the mutex"));
        }
        let held = self.held().take();
        drop(held); // after the place is empty: the next owner stores itself there
        Ok(())
    }
}

/// The task of a handle, and the caller and nursery that it belongs to.
pub(crate) struct TaskRef {
    pub(crate) caller: usize,
    pub(crate) nursery: *mut c_void,
    pub(crate) number: u64,
}

// SAFETY: the handle of the nursery is a number.
unsafe impl Send for TaskRef {}
// SAFETY: as above.
unsafe impl Sync for TaskRef {}

/// A token, and its callback.
pub(crate) struct TokenRef {
    pub(crate) token: CancelToken,
    pub(crate) callbacks: Mutex<Vec<OnCancel>>,
}

/// A channel: both ends, and the permit of the capability that allowed it.
pub(crate) struct Channel<T> {
    pub(crate) sender: Sender<T>,
    pub(crate) receiver: Receiver<T>,
    /// Taken when the channel is destroyed, even if references to it remain.
    pub(crate) permit: Mutex<Option<ChannelPermit>>,
}

/// A pointer on its way through a channel. Its target belongs to the program.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(transparent)]
pub(crate) struct Pointer(pub(crate) *mut c_void);

// SAFETY: only carried.
unsafe impl Send for Pointer {}
// SAFETY: as above.
unsafe impl Sync for Pointer {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThingKind {
    Runtime,
    Nursery,
    Task,
    Token,
    Numbers,
    Pointers,
    Select,
    CapSpawn,
    CapBudget,
    CapChannel,
    Lock,
    Actors,
    Address,
    Reply,
    Watch,
    Children,
}

impl Kind for ThingKind {
    fn code(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for ThingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ThingKind::Runtime => "a runtime",
            ThingKind::Nursery => "a nursery",
            ThingKind::Task => "a task",
            ThingKind::Token => "a token",
            ThingKind::Numbers => "a channel of int64_t",
            ThingKind::Pointers => "a channel of pointers",
            ThingKind::Select => "a select",
            ThingKind::CapSpawn => "a capability to spawn",
            ThingKind::CapBudget => "a capability to recharge",
            ThingKind::CapChannel => "a capability to make channels",
            ThingKind::Lock => "a mutex",
            ThingKind::Actors => "a system of actors",
            ThingKind::Address => "the address of an actor",
            ThingKind::Reply => "an answer",
            ThingKind::Watch => "a monitor",
            ThingKind::Children => "the children of a supervisor",
        })
    }
}

impl Object for Thing {
    type Kind = ThingKind;

    fn kind(&self) -> ThingKind {
        match self {
            Thing::Runtime => ThingKind::Runtime,
            Thing::Nursery(_) => ThingKind::Nursery,
            Thing::Task(_) => ThingKind::Task,
            Thing::Token(_) => ThingKind::Token,
            Thing::Numbers(_) => ThingKind::Numbers,
            Thing::Pointers(_) => ThingKind::Pointers,
            Thing::Select(_) => ThingKind::Select,
            Thing::CapSpawn(_) => ThingKind::CapSpawn,
            Thing::CapBudget(_) => ThingKind::CapBudget,
            Thing::CapChannel(_) => ThingKind::CapChannel,
            Thing::Lock(_) => ThingKind::Lock,
            Thing::Actors(_) => ThingKind::Actors,
            Thing::Address(_) => ThingKind::Address,
            Thing::Reply(_) => ThingKind::Reply,
            Thing::Watch(_) => ThingKind::Watch,
            Thing::Children(_) => ThingKind::Children,
        }
    }
}

/// Looks an object of one kind up.
macro_rules! find {
    ($handle:expr, $kind:ident) => {
        match crate::global::ROOT.objects.get($handle, crate::objects::ThingKind::$kind)? {
            crate::objects::Thing::$kind(thing) => thing,
            _ => unreachable!("the table compares kinds"),
        }
    };
}
pub(crate) use find;
