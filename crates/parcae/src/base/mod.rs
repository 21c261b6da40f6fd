//! The ground floor: what knows nothing of tasks. Errors, a small lock, random numbers, and the shim
//! by which loom replaces atomics in models.

pub(crate) mod error;
pub(crate) mod json;
pub(crate) mod lock;
pub(crate) mod reason;
pub(crate) mod rng;
pub(crate) mod shim;
