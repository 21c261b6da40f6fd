//! Examining a worker's thread: its state in the kernel, and its backtrace.

use super::probe::{ProbeAnswer, probe};
use super::report::{Pinned, StallKind, StallReport};
use super::system_call::blocked_in;
use super::thread_state::{ThreadState, on_cpu, thread_state};
use crate::sched::executor::thread_set::ThreadSet;
use crate::sched::worker;
use crate::stack::frames::Frames;
use std::time::Duration;

/// Whether the thread of this worker sleeps in the kernel.
pub(super) fn is_blocked(threads: &ThreadSet, slot: usize) -> bool {
    let tid = threads.shared().remotes[slot].thread.tid();
    tid != 0 && thread_state(tid) == Some(ThreadState::Blocked)
}

/// Processor time of this worker's thread.
pub(super) fn cpu_time(threads: &ThreadSet, slot: usize) -> Option<Duration> {
    let tid = threads.shared().remotes[slot].thread.tid();
    if tid == 0 { None } else { on_cpu(tid) }
}

/// Probes a worker by a signal. `None` if it has no thread, cannot be probed, or does not answer.
fn probe_worker(threads: &ThreadSet, slot: usize) -> Option<ProbeAnswer> {
    let signal = threads.shared().config.probe_signal?;
    threads.with_thread(slot, |tid| probe(tid, signal))
}

/// Probes every worker that does not rest, except the calling one.
pub(crate) fn probe_running(threads: &ThreadSet) -> Vec<(usize, ProbeAnswer)> {
    let shared = threads.shared();
    let own = worker::with_current_of(shared, |here| here.map(|worker| worker.index));
    let others = (0..shared.active_slots()).filter(|&slot| Some(slot) != own);
    let busy = others.filter(|&slot| !shared.remotes[slot].thread.rests());
    busy.filter_map(|slot| Some((slot, probe_worker(threads, slot)?))).collect()
}

/// Reports a worker whose heartbeat has not changed for this time. `None` if it has changed.
pub(super) fn examine(
    threads: &ThreadSet,
    slot: usize,
    pulse: u64,
    age: Duration,
    cpu_time_before: Option<Duration>,
) -> Option<StallReport> {
    let remote = &threads.shared().remotes[slot];
    // Before the probe, which interrupts what the thread does.
    let blocked_in = blocked_in(remote.thread.tid());
    let kind = match thread_state(remote.thread.tid()) {
        Some(ThreadState::Blocked) => StallKind::Blocked,
        Some(ThreadState::Runs) => {
            let used = cpu_time_before.zip(cpu_time(threads, slot));
            let used = used.map(|(before, now)| now.saturating_sub(before));
            // A tenth: less than a fair share among as many threads as a busy machine has.
            let starved = used.is_some_and(|used| used < age / 10);
            if starved { StallKind::Starved } else { StallKind::Computing }
        }
        None => StallKind::Unknown,
    };
    let answer = probe_worker(threads, slot);
    let evidence = match &answer {
        Some(ProbeAnswer { pulse, task: Some(_), .. }) => StallEvidence::InTask { pulse: *pulse },
        Some(answer) => StallEvidence::OutsideTask { pulse: answer.pulse },
        None => StallEvidence::NoAnswer { pulse: remote.stats.pulse() },
    };
    if !evidence.shows_stall(pulse, remote.thread.rests()) {
        return None;
    }
    let queues = &threads.shared().queues;
    let pinned = if queues.has_pinned(slot) { Pinned::Waiting } else { Pinned::None };
    let frames = answer.as_ref().map_or_else(Frames::default, ProbeAnswer::frames);
    let task = answer.and_then(|answer| answer.task);
    Some(StallReport {
        worker: slot,
        task,
        still_for: age,
        kind,
        blocked_in: blocked_in.filter(|_| kind == StallKind::Blocked),
        stealable_behind: queues.stealable(slot),
        pinned_behind: pinned,
        neglected_descriptors: remote.poller.neglected(),
        frames,
    })
}

/// How a worker that seems stuck has answered a probe, with its pulse at that moment.
#[derive(Debug, Clone, Copy)]
pub(super) enum StallEvidence {
    /// It answered inside of a task.
    InTask { pulse: u64 },
    /// It answered outside of a task.
    OutsideTask { pulse: u64 },
    /// It could not be probed, or has not answered.
    NoAnswer { pulse: u64 },
}

impl StallEvidence {
    /// Whether the worker was stuck since its pulse was `since`; `rests` is its present state.
    ///
    /// The probe ends calls that the system does not restart (`nanosleep`, `poll`): the worker may
    /// be done with the task, and rest, before the report is made. An answer from inside the task
    /// counts nevertheless.
    pub(super) fn shows_stall(self, since: u64, rests: bool) -> bool {
        match self {
            StallEvidence::InTask { pulse } => pulse == since,
            StallEvidence::OutsideTask { pulse } | StallEvidence::NoAnswer { pulse } => {
                pulse == since && !rests
            }
        }
    }
}
