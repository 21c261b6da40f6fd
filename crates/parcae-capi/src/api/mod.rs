//! The exported functions, a file for each section of the header.

pub mod actor;
pub mod address;
pub mod blocking;
pub mod budget;
pub mod cap;
pub mod channel;
pub mod error;
pub mod handling;
pub mod nursery;
pub mod rt;
pub mod scheduler;
pub mod select;
pub mod share;
pub mod task;
pub mod time;
pub mod token;

use crate::decl::Function;

/// A section: title, introduction, functions.
pub type Section = (&'static str, &'static str, &'static [&'static [Function]]);

/// All of the header's sections.
pub const SECTIONS: &[Section] = &[
    (
        "Frozen: runtime and nurseries",
        "These names, signatures and results do not change within a major version.",
        &[rt::FROZEN, nursery::FROZEN],
    ),
    (
        "Adapters for compilers",
        "The scheduler under the names that generated code uses. It is the same runtime.",
        &[scheduler::FUNCTIONS],
    ),
    ("Runtime", "", &[rt::more::FUNCTIONS]),
    ("Errors", "Each task and each thread has its own last error.", &[error::FUNCTIONS]),
    ("Nurseries", "", &[nursery::more::FUNCTIONS]),
    (
        "Shares",
        "A nursery with a share is a tenant: its tasks get time by weight, beside other tenants.",
        &[share::FUNCTIONS],
    ),
    ("Tasks", "", &[task::FUNCTIONS, task::ENDING]),
    ("Budgets", "", &[budget::FUNCTIONS]),
    ("Time", "", &[time::FUNCTIONS]),
    ("Blocking calls and mutexes", "", &[blocking::FUNCTIONS]),
    ("Tokens", "", &[token::FUNCTIONS]),
    ("Channels", "", &[channel::numbers::FUNCTIONS, channel::pointers::FUNCTIONS]),
    ("Select", "", &[select::FUNCTIONS]),
    (
        "Capabilities",
        "The owner of the runtime has all authority in it, and passes on parts of it as capabilities.",
        &[cap::FUNCTIONS],
    ),
    (
        "Actors: systems and supervisors",
        "Only in the cluster profile. A system, an address and the functions below may be used by any \
         task or thread.",
        &[actor::FUNCTIONS],
    ),
    (
        "Actors: messages, calls, monitors",
        "A call that is not answered says why by parcae_last_error_kind: PARCAE_E_FULL, _EXPIRED, \
         _RESTARTING, _GONE,\n * _REFUSED, _CYCLE, _NO_REPLY or _FAILED.",
        &[address::FUNCTIONS],
    ),
    (
        "Actors: in a function of an actor",
        "These fail elsewhere, in other tasks that the actor has spawned too.",
        &[handling::FUNCTIONS],
    ),
];
