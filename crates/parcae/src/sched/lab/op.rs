//! Operations: their kinds, and which of them depend on each other.

/// The kind of an operation that a task is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum OpKind {
    /// The first instruction of a task, or the next one after a wait.
    #[default]
    Start,
    /// A [`point!`](crate::point!) of the program.
    Point,
    /// A checkpoint, or a yield.
    Checkpoint,
    /// A load of an [atomic](crate::sync::atomic).
    Load,
    /// A store to an atomic.
    Store,
    /// A read-modify-write of an atomic.
    Update,
    /// A lock, exclusive.
    Lock,
    /// A shared lock of a `RwLock`.
    Read,
    /// An unlock.
    Unlock,
    /// Permits of a semaphore are acquired.
    Acquire,
    /// Permits are returned or added.
    Release,
    /// A wait for a condition variable, a notification, an event, a barrier.
    Wait,
    /// A notification.
    Notify,
    /// A send on a channel.
    ChannelSend,
    /// A receive from a channel.
    ChannelReceive,
    /// A channel or one of its ends is closed.
    Close,
    /// A select over several operations.
    Select,
    /// A task is spawned.
    Spawn,
    /// A wait for the end of tasks.
    Join,
    /// A cancellation.
    Cancel,
    /// A sleep or a timer.
    Timer,
    /// A budget is recharged, or a task that has used up its budget asks for more.
    Recharge,
}

impl OpKind {
    /// All of them, by their numbers in tokens: new ones come last.
    const ALL: [OpKind; 22] = [
        OpKind::Start,
        OpKind::Point,
        OpKind::Checkpoint,
        OpKind::Load,
        OpKind::Store,
        OpKind::Update,
        OpKind::Lock,
        OpKind::Read,
        OpKind::Unlock,
        OpKind::Acquire,
        OpKind::Release,
        OpKind::Wait,
        OpKind::Notify,
        OpKind::ChannelSend,
        OpKind::ChannelReceive,
        OpKind::Close,
        OpKind::Select,
        OpKind::Spawn,
        OpKind::Join,
        OpKind::Cancel,
        OpKind::Timer,
        OpKind::Recharge,
    ];

    /// The number in tokens.
    pub(crate) fn number(self) -> u64 {
        OpKind::ALL.iter().position(|&kind| kind == self).unwrap_or(0) as u64
    }

    /// The kind with this number; `Start` for a number of a later version.
    pub(crate) fn of_number(number: u64) -> OpKind {
        OpKind::ALL.get(number as usize).copied().unwrap_or_default()
    }

    /// The name, as timelines show it.
    pub fn name(self) -> &'static str {
        match self {
            OpKind::Start => "start",
            OpKind::Point => "point",
            OpKind::Checkpoint => "checkpoint",
            OpKind::Load => "load",
            OpKind::Store => "store",
            OpKind::Update => "update",
            OpKind::Lock => "lock",
            OpKind::Read => "read lock",
            OpKind::Unlock => "unlock",
            OpKind::Acquire => "acquire",
            OpKind::Release => "release",
            OpKind::Wait => "wait",
            OpKind::Notify => "notify",
            OpKind::ChannelSend => "send",
            OpKind::ChannelReceive => "receive",
            OpKind::Close => "close",
            OpKind::Select => "select",
            OpKind::Spawn => "spawn",
            OpKind::Join => "join",
            OpKind::Cancel => "cancel",
            OpKind::Timer => "timer",
            OpKind::Recharge => "recharge",
        }
    }

    /// Whether a task may have to wait in it.
    pub(crate) fn may_wait(self) -> bool {
        use OpKind::*;
        let ends_by_itself =
            matches!(self, Start | Point | Checkpoint | Load | Store | Update | Unlock | Release);
        !ends_by_itself && !matches!(self, Notify | Close | Spawn | Cancel)
    }

    /// Whether it counts for the place of an operation in a turn, in a journal: it has a point on
    /// threads too, and always.
    pub(crate) fn counts_in_turn(self) -> bool {
        use OpKind::*;
        matches!(
            self,
            Point
                | Load
                | Store
                | Update
                | Lock
                | Read
                | Unlock
                | Acquire
                | Release
                | Wait
                | Notify
                | Close
                | Cancel
        )
    }

    /// Whether it touches nothing that another operation could change.
    pub(super) fn is_local(self) -> bool {
        matches!(self, OpKind::Start | OpKind::Checkpoint)
    }

    /// Whether it touches its object and nothing else.
    fn is_of_object(self) -> bool {
        use OpKind::*;
        matches!(
            self,
            Load | Store
                | Update
                | Lock
                | Read
                | Unlock
                | Acquire
                | Release
                | Wait
                | Notify
                | ChannelSend
                | ChannelReceive
        )
    }

    /// Whether its object says when it begins or ends. Atomics, tokens and budgets do not.
    pub(super) fn is_of_lasting(self) -> bool {
        use OpKind::*;
        !matches!(self, Load | Store | Update | Cancel | Recharge)
    }

    fn only_reads(self) -> bool {
        matches!(self, OpKind::Load | OpKind::Read)
    }
}

/// An operation on an object. Objects are numbered in the order of their first use; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Op {
    pub(crate) kind: OpKind,
    pub(crate) object: u32,
}

impl Op {
    /// Whether the order of the two may matter. Of operations whose objects are not known, it
    /// always may.
    pub(crate) fn conflicts(self, other: Op) -> bool {
        if self.kind.is_local() || other.kind.is_local() {
            return false;
        }
        if !self.kind.is_of_object() || !other.kind.is_of_object() {
            return true;
        }
        self.object == other.object && !(self.kind.only_reads() && other.kind.only_reads())
    }
}
