//! The exported functions, a file for each section of the header.

pub mod blocking;
pub mod budget;
pub mod cap;
pub mod channel;
pub mod error;
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
];
