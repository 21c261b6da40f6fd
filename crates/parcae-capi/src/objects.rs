//! What handles name.

use crate::table::{Kind, Object};
use parcae::cap::{CapBudget, CapChannel, CapSpawn, ChannelPermit};
use parcae::channel::{Receiver, Sender};
use parcae::{CancelToken, OnCancel};
use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Mutex};

/// An object. To clone one is to count a reference.
#[derive(Clone)]
pub(crate) enum Thing {
    Runtime,
    /// What others may do with a nursery: cancel it. The nursery itself is its owner's (see [`flow`](crate::flow)).
    Nursery(CancelToken),
    Task(Arc<TaskRef>),
    Token(Arc<TokenRef>),
    Numbers(Arc<Channel<i64>>),
    Pointers(Arc<Channel<Pointer>>),
    Select(Arc<Mutex<crate::api::select::Cases>>),
    CapSpawn(Arc<CapSpawn>),
    CapBudget(Arc<CapBudget>),
    CapChannel(Arc<CapChannel>),
}

/// Which task a handle means, and whose child it is.
pub(crate) struct TaskRef {
    pub(crate) flow: usize,
    pub(crate) nursery: *mut c_void,
    pub(crate) number: u64,
}

// SAFETY: the handle of the nursery is a number.
unsafe impl Send for TaskRef {}
// SAFETY: as above.
unsafe impl Sync for TaskRef {}

/// A token, and what it calls.
pub(crate) struct TokenRef {
    pub(crate) token: CancelToken,
    pub(crate) callbacks: Mutex<Vec<OnCancel>>,
}

/// A channel: both ends, and its place among those that a capability allows.
pub(crate) struct Channel<T> {
    pub(crate) sender: Sender<T>,
    pub(crate) receiver: Receiver<T>,
    /// Taken when the channel is destroyed, whoever still has it.
    pub(crate) permit: Mutex<Option<ChannelPermit>>,
}

/// A pointer on its way through a channel. What it points to is the program's business.
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
