//! Structures of the actors: messages, ends, events, options.

use super::{Budget, Cap, Children, Replying};
use crate::decl::{CType, c_struct, c_types};
use std::ffi::{c_char, c_void};

/// Makes the state of an incarnation.
pub type StartFn =
    Option<unsafe extern "C-unwind" fn(*mut c_void, *const Birth, *mut *mut c_void) -> i64>;
/// Handles a message.
pub type HandleFn =
    Option<unsafe extern "C-unwind" fn(*mut c_void, *mut Message, *mut Replying) -> i64>;
/// Handles an event.
pub type EventFn = Option<unsafe extern "C-unwind" fn(*mut c_void, *const Event) -> i64>;
/// Runs at the end of an incarnation.
pub type StopFn = Option<unsafe extern "C-unwind" fn(*mut c_void, *const Exit)>;
/// Destroys a state, or the data of a message.
pub type DropFn = Option<unsafe extern "C" fn(*mut c_void)>;
/// Names the children of a supervisor.
pub type ChildrenFn = Option<unsafe extern "C-unwind" fn(*mut c_void, *mut Children) -> i64>;

c_types! {
    StartFn => "parcae_actor_start_fn",
    HandleFn => "parcae_actor_handle_fn",
    EventFn => "parcae_actor_event_fn",
    StopFn => "parcae_actor_stop_fn",
    DropFn => "parcae_drop_fn",
    ChildrenFn => "parcae_children_fn",
}

c_struct! {
    /// A message to an actor, or its answer.
    struct Message as "parcae_message" {
        /// The program's own number: the kind of the message, or all of it.
        tag: u64,
        /// A pointer, which is not dereferenced; or the bytes, if there is a size.
        data: *mut c_void,
        /// How many bytes belong to the message. They are copied when it is sent. 0: data itself
        /// is the message.
        size: usize,
        /// Destroys data; may be NULL. Called once, when the message was handled or lost. Ignored
        /// when bytes are sent. Must not wait.
        drop: DropFn,
    }
}

c_struct! {
    /// How an incarnation of an actor ended.
    struct Exit as "parcae_exit" {
        /// PARCAE_EXIT_FINISHED and so on.
        kind: i32,
        /// The negative code that its function returned; 0 if it ended otherwise.
        code: i64,
        /// The number of the incarnation, from 1.
        incarnation: u64,
        /// How many messages it handled.
        handled: u64,
        /// The same in words. Valid during the callback, or as long as the parcae_watch.
        text: *const c_char,
    }
}

c_struct! {
    /// The circumstances of an incarnation.
    struct Birth as "parcae_birth" {
        /// Its number, from 1.
        incarnation: u64,
        /// The end of the one before; NULL for the first.
        last: *const Exit,
    }
}

c_struct! {
    /// An event, which goes before all messages.
    struct Event as "parcae_event" {
        /// PARCAE_EVENT_DOWN: a monitored actor has ended; or PARCAE_EVENT_TIMER.
        kind: i32,
        /// The number of the monitor.
        monitor: u64,
        /// The name of the actor that has ended, or the key of the timer.
        name: *const c_char,
        /// How that actor ended; NULL for a timer.
        exit: *const Exit,
        /// Ticks of a periodic timer that were left out because the actor was busy.
        missed: u64,
    }
}

c_struct! {
    /// Options of a supervisor. Zeros, except for the size, are the defaults.
    struct SuperviseOpts as "parcae_supervise_opts" {
        /// sizeof(parcae_supervise_opts).
        size: usize,
        /// Its name, which must be free in its system; NULL: none.
        name: *const c_char,
        /// PARCAE_ONE_FOR_ONE, _ONE_FOR_ALL or _REST_FOR_ONE.
        strategy: i32,
        /// The most restarts within a period; with one more it gives up. 0, and no period: 3 within
        /// 30 seconds.
        restarts: u32,
        /// That period.
        period_ns: u64,
        /// The delay before the first restart of a child, which doubles with each further one, up
        /// to the next field; 0: none.
        backoff_least_ns: u64,
        /// The longest such delay.
        backoff_most_ns: u64,
        /// Restarts that are moved out of the allowance of the supervisor above; 0: it is shared.
        allowance: u64,
        /// PARCAE_END_NEVER, _WITH_ANY or _WITH_ALL of its significant children.
        end: i32,
        /// The most children at a time; 0: no limit.
        at_most: usize,
        /// Supervisors among which the children of a dynamic one are divided; 0: one.
        shards: u32,
        /// A capability to recharge: children that run out of budget are suspended and get a slice.
        /// NULL: they fail.
        recharge: *mut Cap,
        /// That slice.
        recharge_slice: *const Budget,
        /// The least time between two slices of one account; 0: none.
        recharge_period_ns: u64,
    }
}

c_struct! {
    /// Options of a system of actors. Zeros, except for the size, are the defaults.
    struct ActorsOpts as "parcae_actors_opts" {
        /// sizeof(parcae_actors_opts).
        size: usize,
        /// For errors and tools; may be NULL.
        name: *const c_char,
        /// The budget that all actors share, moved out of the opener's; may be NULL.
        budget: *const Budget,
        /// Restarts that the whole tree may make; 0: 1000.
        restarts: u64,
        /// How many dead letters are kept for tools; 0: 128.
        dead_letters: usize,
        /// The supervisor of actors that parcae_actor_start starts in the system; may be NULL.
        root: *const SuperviseOpts,
    }
}

c_struct! {
    /// An actor: its functions and options. Zeros, except for size and handle, are the defaults.
    struct ActorOpts as "parcae_actor_opts" {
        /// sizeof(parcae_actor_opts).
        size: usize,
        /// Its name, which must be free in its system; NULL: none.
        name: *const c_char,
        /// Makes the state of an incarnation, and stores it to *state. A negative code is a failed
        /// start. NULL: the state of all incarnations is arg.
        start: StartFn,
        /// Handles a message. The data of the message is destroyed afterwards; a handler that keeps
        /// it sets message->drop to NULL. reply is NULL for a message that was told. Returns
        /// PARCAE_NEXT_CONTINUE, _HIBERNATE or _STOP; a negative code is a failure, as
        /// parcae_task_panic is.
        handle: HandleFn,
        /// Handles an event, with the same results; may be NULL.
        event: EventFn,
        /// Runs at the end of every incarnation that has started; may be NULL. Shielded from
        /// cancellation for stop_within_ns.
        stop: StopFn,
        /// Destroys a state that start has made; may be NULL. Called once for each. Must not wait.
        drop: DropFn,
        /// The argument of start. It must live until the system has ended.
        arg: *mut c_void,
        /// PARCAE_MAILBOX_BLOCK, _REFUSE, _DROP_OLDEST, _DROP_NEWEST, _LATEST (by tag) or
        /// _RENDEZVOUS.
        mailbox: i32,
        /// How many messages the mailbox holds; 0: 64.
        capacity: u32,
        /// PARCAE_TRANSIENT, _PERMANENT or _TEMPORARY.
        restart: i32,
        /// Whether its end can end its supervisor: 1 or 0.
        significant: i32,
        /// Time that it has to stop before it is cancelled; 0: 5 seconds.
        stop_within_ns: u64,
        /// Time that it has to start; 0: a minute.
        start_within_ns: u64,
        /// A budget of its own for each incarnation, moved out of its supervisor's; may be NULL.
        budget: *const Budget,
        /// The ops that a handler may use for one message; one that uses more fails. 0: no limit.
        message_ops: u64,
    }
}

impl Message {
    /// The message of all zeros.
    pub const EMPTY: Message = Message { tag: 0, data: std::ptr::null_mut(), size: 0, drop: None };
}

/// The structures of the actors, in the order of the header.
pub const ACTOR_STRUCTURES: [crate::decl::Structure; 7] = [
    Message::DECLARATION,
    Exit::DECLARATION,
    Birth::DECLARATION,
    Event::DECLARATION,
    SuperviseOpts::DECLARATION,
    ActorsOpts::DECLARATION,
    ActorOpts::DECLARATION,
];
