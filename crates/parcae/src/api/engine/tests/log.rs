//! Virtual engines and their event logs, as tests of the scheduler read them.

use super::*;
use crate::sched::events::EventKind;

pub(super) fn virtual_engine(workers: usize, seed: u64, victims: Victims) -> Engine {
    let deterministic = true;
    Engine::new(EngineOpts { workers, seed, victims, deterministic, ..EngineOpts::default() })
        .unwrap()
}

/// An event of the log, as far as these tests look at it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Logged {
    pub(super) worker: u64,
    pub(super) kind: u64,
    pub(super) task: u64,
    pub(super) detail: u64,
}

impl Logged {
    pub(super) fn is(&self, kind: EventKind) -> bool {
        self.kind == kind as u64
    }
}

pub(super) fn events(engine: &Engine) -> Vec<Logged> {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
    let event = |e: &[u8]| Logged {
        kind: number(&e[8..9]),
        worker: number(&e[9..11]),
        task: number(&e[16..24]),
        detail: number(&e[24..32]),
    };
    engine.log().chunks(32).map(event).collect()
}

pub(super) fn sum_of(engine: &Engine, count: impl Fn(&WorkerStats) -> u64) -> u64 {
    engine.stats().iter().map(count).sum()
}

pub(super) fn my_id() -> u64 {
    // SAFETY: the running task is live.
    unsafe { current_task().task.as_ref().id() }
}
