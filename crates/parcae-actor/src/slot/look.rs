//! A slot as observers see it (`crate::tree`), and what its task counts for them.

use super::{Core, Phase};
use crate::desk::Desk;
use crate::exit::Exit;
use crate::shim::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// A slot at one moment, for observers.
pub(crate) struct Look {
    pub(crate) phase: Phase,
    pub(crate) incarnation: u64,
    pub(crate) exit: Option<Exit>,
    /// Of a supervisor.
    pub(crate) desk: Option<Arc<Desk>>,
    pub(crate) is_waiting: bool,
    pub(crate) is_asleep: bool,
    pub(crate) task: Option<u64>,
    pub(crate) taken: u64,
}

impl Core {
    /// The actor has taken a message.
    #[inline]
    pub(crate) fn has_taken(&self) {
        // Relaxed, with the load in `look`: one task writes it, and observers read a count.
        self.taken.store(self.taken.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The task of the incarnation that begins, or of one that was woken; 0 when it has ended.
    pub(crate) fn set_task(&self, task: u64) {
        self.task.store(task, Ordering::Relaxed); // with the load in `look`: for observers
    }

    pub(crate) fn look(&self) -> Look {
        let (is_waiting, is_asleep) = self.posture.look();
        // Relaxed, both: as at the stores in `set_task` and `has_taken`.
        let task = Some(self.task.load(Ordering::Relaxed)).filter(|task| *task != 0);
        let taken = self.taken.load(Ordering::Relaxed);
        let life = self.life();
        Look {
            phase: life.phase,
            incarnation: life.incarnation,
            exit: life.exit.clone(),
            desk: life.desk.clone(),
            is_waiting,
            is_asleep,
            task,
            taken,
        }
    }

    /// For how long, as far as observers have seen, no message was taken although there were some.
    pub(crate) fn unmoved(&self, taken: u64, queued: usize, now: Instant) -> Duration {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if queued == 0 {
            *looked = None;
            return Duration::ZERO;
        }
        match *looked {
            Some((then, since)) if then == taken => now.saturating_duration_since(since),
            _ => {
                *looked = Some((taken, now));
                Duration::ZERO
            }
        }
    }
}
