//! The host of a runtime's scheduler: the parts that its workers do not need.
//!
//! | part | used by |
//! |---|---|
//! | threads for blocking calls | `sync::blocking`, shutdown |
//! | tallies of nurseries | `scope`, `view::stats` |
//! | parts of the program that describe themselves | `scope::described`, `view` |
//! | the policy, if there is one | `view::policy`, `view::sysmon` |
//! | options of the monitor, deadlock policy | `view::sysmon`, `view::inspect` |

use crate::base::time::Nanos;
use crate::sched::Shared;
use crate::sched::executor::thread_set::ThreadSet;
use crate::sched::host::Host;
use crate::sched::task::frame::FrameAccess;
use crate::sched::timers::NEVER;
use crate::sched::worker::Deferred;
use crate::scope::budget::ReturnedAccounts;
use crate::scope::cancel::CancelReason;
use crate::scope::cx::{FrameReader, TaskSettings};
use crate::scope::described::DescribedParts;
use crate::scope::tally::Tallies;
use crate::sync::blocking;
use crate::view::inspect::{self, OnDeadlock};
use crate::view::policy::PolicyPart;
use crate::view::sysmon::{self, MonitorOpts};
use std::any::{Any, TypeId};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// The host of a runtime's scheduler.
pub(super) struct RuntimeHost {
    blocking: blocking::BlockingPool,
    tallies: Tallies,
    described: DescribedParts,
    policy: PolicyPart,
    monitor: MonitorOpts,
    on_deadlock: OnDeadlock,
}

impl RuntimeHost {
    pub(super) fn new(
        blocking: blocking::BlockingLimits,
        monitor: MonitorOpts,
        on_deadlock: OnDeadlock,
    ) -> RuntimeHost {
        RuntimeHost {
            blocking: blocking::BlockingPool::new(blocking),
            tallies: Tallies::default(),
            described: DescribedParts::default(),
            policy: PolicyPart::default(),
            monitor,
            on_deadlock,
        }
    }
}

impl Host for RuntimeHost {
    fn part(&self, of: TypeId) -> Option<&(dyn Any + Send + Sync)> {
        let parts: [&(dyn Any + Send + Sync); 4] =
            [&self.blocking, &self.tallies, &self.described, &self.policy];
        parts.into_iter().find(|part| Any::type_id(*part) == of)
    }

    fn frames(&self) -> &'static dyn FrameAccess {
        &FrameReader
    }

    fn deferred(&self) -> Box<dyn Deferred> {
        Box::new(ReturnedAccounts::default())
    }

    fn start_monitor(&self, threads: &Arc<ThreadSet>) -> io::Result<JoinHandle<()>> {
        sysmon::start(threads, &self.monitor, self.on_deadlock)
    }

    fn all_asleep(&self, shared: &Shared, before: usize) -> usize {
        let on = self.on_deadlock;
        if on == OnDeadlock::Ignore || (on == OnDeadlock::Report && before > 0) {
            return 0;
        }
        inspect::all_asleep(shared).map_or(0, |found| inspect::act(shared, found, on))
    }

    fn some_asleep(&self, shared: &Shared) -> usize {
        let found = inspect::some_asleep(shared).filter(|_| self.on_deadlock == OnDeadlock::Fail);
        found.map_or(0, |found| inspect::act(shared, found, OnDeadlock::Fail))
    }

    fn tick(&self, shared: &Shared) -> Nanos {
        self.policy.tick(shared).unwrap_or(NEVER)
    }

    fn abandon(&self, shared: &Shared) {
        let settings = shared.root().and_then(|root| root.downcast::<TaskSettings>().ok());
        if let Some(settings) = settings {
            settings.node.cancel(CancelReason::Shutdown);
        }
    }

    fn stop(&self) {
        self.blocking.stop();
    }

    fn stop_and_wait(&self, deadline: Option<Instant>) -> usize {
        self.blocking.stop_and_wait(deadline)
    }
}
