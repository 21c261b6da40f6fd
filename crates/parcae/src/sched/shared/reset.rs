//! The state of a scheduler as it was when the scheduler was made, for the next schedule of the
//! lab. See `worker::reset`.

use super::{OUTSIDE, Shared};
use crate::sched::timers::NEVER;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Shared {
    /// Whether nothing of a schedule is left that [`reset`](Shared::reset) does not remove.
    pub(crate) fn is_clean(&self) -> bool {
        #[cfg(feature = "io")]
        let has_world = self.world.get().is_some();
        #[cfg(not(feature = "io"))]
        let has_world = false;
        self.config.deterministic
            && self.live() == 0
            && self.roots.live() == 0
            && self.gate.is_empty()
            && !self.is_stopping()
            && !self.has_deadlines()
            && !self.queues.has_work()
            && !self.queues.has_tenants()
            && !self.queues.has_contexts()
            && !self.tracer.traces()
            && !self.tracer.measures()
            && self.tracer.recording().is_untouched()
            && !has_world
    }

    /// Makes the scheduler as a new one with this seed. It is [clean](Shared::is_clean), and no
    /// other thread uses it.
    pub(crate) fn reset(&self, seed: u64) {
        debug_assert!(self.is_clean(), "a scheduler is reset in the middle of its work");
        let Shared {
            config: _,
            #[cfg(feature = "record")]
                journal: _, // a lab has none
            seed: own_seed,
            remotes,
            monitor: _, // for threads
            gate,
            roots,
            queues,
            idle,
            slab: _,
            looking: _,
            stacks: _,
            stopping: _, // clean
            outside,
            conductor,
            log,
            lab,
            tracer: _, // clean
            started,
            epoch,
            timers,
            timer_thread: _, // for threads
            signal_timer: _, // as above
            me: _,
            root,
            #[cfg(feature = "io")]
                world: _, // clean
            coarse: _, // for threads
            next_tick,
            host: _,
            thread_set: _, // for threads
            #[cfg(test)]
                faults: _,
        } = self;
        // Relaxed, all of them: one thread uses the scheduler.
        own_seed.store(seed, Ordering::Relaxed);
        let since = Instant::now().saturating_duration_since(*started);
        epoch.store(since.as_nanos() as u64, Ordering::Relaxed); // as above
        outside.store(OUTSIDE, Ordering::Relaxed); // as above
        next_tick.store(NEVER, Ordering::Relaxed); // as above
        remotes.iter().for_each(|remote| remote.stats.reset());
        gate.reset();
        roots.reset();
        queues.reset();
        idle.reset();
        conductor.clear();
        timers.reset();
        if let Some(log) = log {
            log.reset(lab.as_ref().is_some_and(|lab| lab.lock().recorder().is_some()));
        }
        *root.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }
}
