//! Leaves that know nothing of tasks: errors, a small lock, values that are lent, random numbers,
//! JSON, and the shim by which loom replaces atomics in models.

pub(crate) mod cpu;
pub(crate) mod error;
pub(crate) mod json;
pub(crate) mod lent;
pub(crate) mod lock;
pub(crate) mod once_box;
pub(crate) mod reason;
pub(crate) mod rng;
pub(crate) mod shim;
pub(crate) mod time;
