//! Traces for Perfetto and Chrome: the JSON of the Trace Event Format.
//!
//! The trace shows two processes. The first has a track for each worker, with a slice for each turn
//! of a task. The second has a track for each task, with its states from beginning to end: *ready*,
//! running, or waiting, under the name of the wait. A wake-up is an arrow from the waking task's
//! turn to the turn that follows from it. Steals, cancellations, budgets and timers are marks.
//!
//! Events come in the order of time, and the writer's memory is bounded by the number of live
//! tasks. Slices are written when they end. Where events are missing, a slice begins or ends with
//! the nearest known event.

use super::Trace;
use super::event::{TraceEvent, What};
use super::recording::{Known, label};
use crate::base::error::TaskId;
use crate::base::json::JsonObject;
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

const WORKERS: u32 = 1;
const TASKS: u32 = 2;

impl Trace {
    /// Writes the trace as JSON that <https://ui.perfetto.dev> and `chrome://tracing` show.
    ///
    /// # Errors
    ///
    /// The error of the writer.
    pub fn write_chrome(&self, out: impl Write) -> io::Result<()> {
        let mut chrome = Chrome::new(out, self.workers, u64::MAX, Arc::clone(&self.known))?;
        for event in self.events() {
            chrome.event(&event)?;
        }
        chrome.finish(self.lost())?;
        Ok(())
    }
}

/// A file that is being written.
pub(super) struct Chrome<W> {
    /// Number of workers whose tracks have names.
    named: usize,
    known: Arc<Known>,
    out: W,
    workers: HashMap<Option<usize>, WorkerTrack>,
    tasks: HashMap<u64, TaskTrack>,
    /// Number of tasks with a track, which is also the number of the last track.
    tracks: u64,
    arrows: u64,
    /// The latest time so far.
    now: Duration,
    written: u64,
    most: u64,
    /// Entries that did not fit.
    left_out: u64,
    line: String,
}

#[derive(Default)]
struct WorkerTrack {
    /// The task whose turn it is, and the start of the turn.
    turn: Option<(u64, Duration)>,
    asleep: Option<Duration>,
}

struct TaskTrack {
    track: u64,
    label: String,
    doing: TrackState,
    since: Duration,
    /// The arrow that leads to its next turn.
    arrow: Option<u64>,
}

/// State of a task's track.
enum TrackState {
    Unknown,
    Ready,
    Running,
    Waiting(std::sync::Arc<str>),
}

const HEAD: &str = "{\"traceEvents\":[\n";
/// The most bytes that the end of a file takes.
const ENDING: u64 = 256;

impl<W: Write> Chrome<W> {
    /// Tasks in `known` were there before the first event.
    pub(super) fn new(
        out: W,
        workers: usize,
        most: u64,
        known: Arc<Known>,
    ) -> io::Result<Chrome<W>> {
        let mut chrome = Chrome {
            out,
            workers: HashMap::new(),
            named: 0,
            known,
            tasks: HashMap::new(),
            tracks: 0,
            arrows: 0,
            now: Duration::ZERO,
            written: HEAD.len() as u64,
            most: most.saturating_sub(ENDING),
            left_out: 0,
            line: String::new(),
        };
        chrome.out.write_all(HEAD.as_bytes())?;
        chrome.name("process_name", WORKERS, 0, "workers")?;
        chrome.name("process_name", TASKS, 0, "tasks")?;
        chrome.name("thread_name", WORKERS, track(None), "other threads")?;
        chrome.name_workers(workers)?;
        Ok(chrome)
    }

    /// Names the tracks of this many workers. Temporary workers come later, if at all.
    fn name_workers(&mut self, workers: usize) -> io::Result<()> {
        for worker in self.named..workers {
            let name = format!("worker {worker}");
            self.name("thread_name", WORKERS, track(Some(worker)), &name)?;
        }
        self.named = self.named.max(workers);
        Ok(())
    }

    /// Adds an event.
    pub(super) fn event(&mut self, event: &TraceEvent) -> io::Result<()> {
        let &TraceEvent { at, worker, task, ref what } = event;
        self.now = self.now.max(at);
        self.name_workers(worker.map_or(0, |worker| worker + 1))?;
        match what {
            What::Spawned { .. } => self.change(task, TrackState::Ready, at),
            What::Started { name, spawned_at } => {
                let label = label(TaskId(task), name.as_deref(), *spawned_at);
                self.begin_turn(worker, task, at, Some(label))
            }
            What::Resumed => self.begin_turn(worker, task, at, None),
            What::Yielded => self.end_turn(worker, task, at, "yielded", TrackState::Ready),
            What::Parked { reason, .. } => {
                self.end_turn(worker, task, at, "waits", TrackState::Waiting(reason.clone()))
            }
            What::Finished => {
                self.end_turn(worker, task, at, "ended", TrackState::Unknown)?;
                self.tasks.remove(&task);
                Ok(())
            }
            What::WokenEarly => self.change(task, TrackState::Ready, at),
            What::Woken { by, .. } => self.wake(worker, task, at, *by),
            What::YieldedToNobody => Ok(()),
            What::Slept => {
                self.workers.entry(worker).or_default().asleep = Some(at);
                Ok(())
            }
            What::Awoke => match self.workers.entry(worker).or_default().asleep.take() {
                Some(since) => self.slice(WORKERS, track(worker), "asleep", since, at, |_| ()),
                None => Ok(()),
            },
            What::Stolen { from } => {
                let name = format!("stole from worker {from}");
                self.mark(WORKERS, track(worker), &name, at)
            }
            What::Exhausted { resource } => self.mark_task(task, &format!("out of {resource}"), at),
            What::Recharged { resource } => {
                self.mark_task(task, &format!("recharged: {resource}"), at)
            }
            What::Cancelled { reason } => {
                self.mark_task(task, &format!("cancelled: {reason:?}"), at)
            }
            What::TimerFired => self.mark_task(task, "timer", at),
        }
    }

    /// Events are missing: the known turns and states may be wrong.
    pub(super) fn gap(&mut self) {
        self.workers.clear();
        self.tasks.clear();
    }

    /// Ends the file, and all open slices. Returns the writer, the bytes written and the number of
    /// entries that did not fit.
    pub(super) fn finish(mut self, lost: u64) -> io::Result<(W, u64, u64)> {
        let now = self.now;
        let mut turns: Vec<_> =
            self.workers.iter().filter_map(|(worker, w)| Some((*worker, w.turn?.0))).collect();
        turns.sort_unstable();
        for (worker, task) in turns {
            self.end_turn(worker, task, now, "goes on", TrackState::Unknown)?;
        }
        let mut waiting: Vec<_> = self.tasks.keys().copied().collect();
        waiting.sort_unstable();
        for task in waiting {
            self.change(task, TrackState::Unknown, now)?;
        }
        let left_out = self.left_out;
        let ending = format!(
            "\n],\n\"displayTimeUnit\":\"ns\",\"otherData\":{{\"lost_events\":{lost},\"left_out\":{left_out}}}}}\n"
        );
        self.out.write_all(ending.as_bytes())?;
        self.out.flush()?;
        Ok((self.out, self.written + ending.len() as u64, left_out))
    }

    // ----- tracks of tasks ----------------------------------------------------------------

    /// The task, which has a track from now on.
    fn task(&mut self, id: u64, at: Duration) -> io::Result<&mut TaskTrack> {
        if !self.tasks.contains_key(&id) {
            self.tracks += 1;
            let known = self.known.get(&id).cloned();
            let (track, doing) = (self.tracks, TrackState::Unknown);
            if let Some(label) = &known {
                self.name("thread_name", TASKS, track, label)?;
            }
            let label = known.unwrap_or_else(|| label(TaskId(id), None, None));
            self.tasks.insert(id, TaskTrack { track, label, doing, since: at, arrow: None });
        }
        self.tasks.get_mut(&id).ok_or_else(|| unreachable!("just inserted"))
    }

    /// Ends the task's state, and begins the next one.
    fn change(&mut self, id: u64, next: TrackState, at: Duration) -> io::Result<()> {
        let task = self.task(id, at)?;
        let since = std::mem::replace(&mut task.since, at);
        let track = task.track;
        let name = match std::mem::replace(&mut task.doing, next) {
            TrackState::Unknown => return Ok(()),
            TrackState::Ready => "ready".into(),
            TrackState::Running => "running".into(),
            TrackState::Waiting(reason) => reason,
        };
        self.slice(TASKS, track, &name, since, at, |_| ())
    }

    fn begin_turn(
        &mut self,
        worker: Option<usize>,
        id: u64,
        at: Duration,
        label: Option<String>,
    ) -> io::Result<()> {
        self.change(id, TrackState::Running, at)?;
        let task = self.task(id, at)?;
        let arrow = task.arrow.take();
        if let Some(label) = label {
            task.label.clone_from(&label);
            let track = task.track;
            self.name("thread_name", TASKS, track, &label)?;
        }
        self.workers.entry(worker).or_default().turn = Some((id, at));
        match arrow {
            Some(arrow) => self.entry("f", "wake", WORKERS, track(worker), at, |entry| {
                entry.text("cat", "wake").plain("id", arrow).text("bp", "e");
            }),
            None => Ok(()),
        }
    }

    fn end_turn(
        &mut self,
        worker: Option<usize>,
        id: u64,
        at: Duration,
        how: &str,
        next: TrackState,
    ) -> io::Result<()> {
        self.change(id, next, at)?;
        let turn = self.workers.entry(worker).or_default().turn.take();
        let Some((_, since)) = turn.filter(|turn| turn.0 == id) else { return Ok(()) };
        let label = self.task(id, at)?.label.clone();
        self.slice(WORKERS, track(worker), &label, since, at, |entry| {
            let mut args = JsonObject::begin(entry.field("args"));
            args.text("task", &id.to_string()).text("then", how).end();
        })
    }

    fn wake(&mut self, worker: Option<usize>, id: u64, at: Duration, by: u64) -> io::Result<()> {
        self.change(id, TrackState::Ready, at)?;
        self.arrows += 1;
        let arrow = self.arrows;
        self.task(id, at)?.arrow = Some(arrow);
        let from = track(worker);
        // An arrow begins at a slice.
        if self.workers.get(&worker).is_none_or(|worker| worker.turn.is_none()) {
            self.slice(WORKERS, from, "wakes", at, at, |_| ())?;
        }
        self.entry("s", "wake", WORKERS, from, at, |entry| {
            entry.text("cat", "wake").plain("id", arrow);
            let mut args = JsonObject::begin(entry.field("args"));
            args.text("by", &by.to_string()).text("task", &id.to_string()).end();
        })
    }

    fn mark_task(&mut self, id: u64, name: &str, at: Duration) -> io::Result<()> {
        let track = self.task(id, at)?.track;
        self.mark(TASKS, track, name, at)
    }

    // ----- entries ------------------------------------------------------------------------

    fn slice(
        &mut self,
        process: u32,
        track: u64,
        name: &str,
        from: Duration,
        to: Duration,
        more: impl FnOnce(&mut JsonObject<'_>),
    ) -> io::Result<()> {
        self.entry("X", name, process, track, from, |entry| {
            entry.plain("dur", micros(to.saturating_sub(from)));
            more(entry);
        })
    }

    fn mark(&mut self, process: u32, track: u64, name: &str, at: Duration) -> io::Result<()> {
        self.entry("i", name, process, track, at, |entry| {
            entry.text("s", "t");
        })
    }

    fn name(&mut self, what: &str, process: u32, track: u64, name: &str) -> io::Result<()> {
        self.entry("M", what, process, track, Duration::ZERO, |entry| {
            let mut args = JsonObject::begin(entry.field("args"));
            args.text("name", name).end();
        })
    }

    fn entry(
        &mut self,
        phase: &str,
        name: &str,
        process: u32,
        track: u64,
        at: Duration,
        more: impl FnOnce(&mut JsonObject<'_>),
    ) -> io::Result<()> {
        self.line.clear();
        if self.written > HEAD.len() as u64 {
            self.line.push_str(",\n");
        }
        let mut entry = JsonObject::begin(&mut self.line);
        entry.text("ph", phase).text("name", name).plain("ts", micros(at));
        entry.plain("pid", process).plain("tid", track);
        more(&mut entry);
        entry.end();
        let length = self.line.len() as u64;
        if self.written + length > self.most {
            self.left_out += 1;
            return Ok(());
        }
        self.written += length;
        self.out.write_all(self.line.as_bytes())
    }
}

/// The track of a worker; 0 is that of other threads.
fn track(worker: Option<usize>) -> u64 {
    worker.map_or(0, |worker| worker as u64 + 1)
}

/// Microseconds with three digits, as the format wants them.
fn micros(time: Duration) -> String {
    let nanos = time.as_nanos();
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}
