//! Channels under the deterministic executor with many seeds, on worker threads, and on plain
//! threads.

mod apart;
mod basics;
mod budgets;
pub(crate) mod cancelling;
mod cancelling_others;
mod causes;
mod closing;
mod futures;
mod mixed;
mod operations;
mod ordered;
mod others;
mod patterns;
mod pools;
mod random;
mod timers;

use super::*;
use crate::Result;
use crate::prelude::*;
pub(crate) use crate::support::{
    deterministic_seeded as deterministic, everywhere_seeded as everywhere, pause,
    threads_numbered as threads,
};
