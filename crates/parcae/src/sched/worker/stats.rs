//! Counters of a worker. Written by the worker alone, on a cache line of their own; read by any
//! thread.

use crate::sched::events::counter::Counter;

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one worker. Relaxed: statistics, on which nothing depends but `live`, which
        /// says how.
        #[derive(Debug, Default)]
        #[cfg_attr(not(feature = "unpadded"), repr(align(128)))]
        pub(crate) struct Stats {
            $(pub(crate) $name: Counter,)*
        }

        /// A snapshot of a worker's counters.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct WorkerStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            pub(crate) fn snapshot(&self) -> WorkerStats {
                WorkerStats { $($name: self.$name.get(),)* }
            }

            /// All zero. Called by the lab, between two schedules.
            pub(crate) fn reset(&self) {
                $(self.$name.reset();)*
            }
        }

        impl WorkerStats {
            /// All counters with their names.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }

        impl std::ops::Add for WorkerStats {
            type Output = WorkerStats;
            fn add(self, other: WorkerStats) -> WorkerStats {
                WorkerStats { $($name: self.$name + other.$name,)* }
            }
        }
    };
}

stats! {
    /// Tasks spawned by tasks on this worker.
    spawned_here,
    /// Times that a task was started or resumed.
    executed,
    /// Tasks that ended here.
    ended,
    /// Yields.
    yielded,
    /// Parks that took effect.
    parked,
    /// Tasks woken by this worker into its own queues.
    woken,
    /// Times that tasks were stolen from another worker: one or a batch each.
    stolen,
    /// Attempts to steal that found nothing.
    failed_steals,
    /// Tasks taken from the global queue.
    injected,
    /// Times that the worker fell asleep.
    slept,
    /// Deadlines of its own that the worker has acted on.
    fired,
    /// Times that the worker was restarted after a panic in the runtime.
    restarts,
}

impl Stats {
    /// A number that changes with every step of the worker, also with yields that find no other
    /// task, and with spawns.
    pub(crate) fn pulse(&self) -> u64 {
        let Stats { spawned_here, executed, yielded, slept, restarts, .. } = self;
        [spawned_here, executed, yielded, slept, restarts].map(Counter::get).into_iter().sum()
    }

    pub(crate) fn completed(&self) -> u64 {
        self.ended.get_ordered()
    }

    pub(crate) fn spawned(&self) -> u64 {
        self.spawned_here.get_ordered()
    }
}
