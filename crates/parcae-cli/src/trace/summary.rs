//! `parcae trace summary`: times per worker and task name in a trace, and the longest waits.
//!
//! It reads the JSON of `Trace::write_chrome`, which has two processes: the first has a track for
//! each worker, with a slice for each turn of a task and for each sleep; the second has a track for
//! each task, with slices called `ready`, `running`, or by what was waited for. Tracks have names;
//! a task's is `NAME #NUMBER`.
//!
//! Tasks of the same name share one line: for a thousand requests the total matters.

use crate::args::SummaryArgs;
use crate::stage::{BOLD, DIM, Format, Stage, grouped, paint};
use crate::{Exit, complain};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;

const WORKERS: u64 = 1;
const TASKS: u64 = 2;

pub(crate) fn run(args: &SummaryArgs, format: Format) -> Result<(), Exit> {
    let file = File::open(&args.file).map_err(|error| {
        complain(format_args!("{}: {error}", args.file.display()));
        Exit::Missing
    })?;
    let trace: Value = serde_json::from_reader(BufReader::new(file)).unwrap_or_default();
    let Some(summary) = Summary::of(&trace, args.waits) else {
        complain(format_args!(
            "{}: not a trace of parcae; `parcae trace record` and `Trace::write_chrome` write \
             traces",
            args.file.display()
        ));
        return Err(Exit::Failed);
    };
    let stage = Stage::new(format);
    summary.say(&stage);
    stage.document(&summary.json());
    Ok(())
}

/// All times are in microseconds.
#[derive(Debug, Default)]
struct Summary {
    begin: f64,
    end: f64,
    lost: u64,
    workers: BTreeMap<u64, Worker>,
    /// Workers that ran nothing.
    quiet: usize,
    names: BTreeMap<String, Name>,
    longest: Vec<Wait>,
}

#[derive(Debug, Default)]
struct Worker {
    name: String,
    turns: u64,
    running: f64,
    asleep: f64,
}

/// Times of all tasks of one name.
#[derive(Debug, Default)]
struct Name {
    tasks: u64,
    running: f64,
    ready: f64,
    waiting: BTreeMap<String, f64>,
}

impl Name {
    fn waited(&self) -> f64 {
        self.waiting.values().fold(0.0, |sum, time| sum + time) // the sum of nothing is -0.0
    }
}

#[derive(Debug, Clone)]
struct Wait {
    task: String,
    reason: String,
    at: f64,
    time: f64,
}

impl Summary {
    /// `None` if it is no trace.
    fn of(trace: &Value, longest: usize) -> Option<Summary> {
        let events = trace["traceEvents"].as_array()?;
        let mut summary = Summary { begin: f64::INFINITY, ..Summary::default() };
        summary.lost = trace["otherData"]["lost_events"].as_u64().unwrap_or(0)
            + trace["otherData"]["left_out"].as_u64().unwrap_or(0);
        // Names first: a task may be named after its first slice.
        let mut labels: BTreeMap<u64, &str> = BTreeMap::new();
        for event in events.iter().filter(|event| event["name"] == "thread_name") {
            let (track, name) = (event["tid"].as_u64()?, event["args"]["name"].as_str()?);
            match event["pid"].as_u64()? {
                WORKERS => summary.workers.entry(track).or_default().name = name.to_owned(),
                TASKS => drop(labels.insert(track, name)),
                _ => return None,
            }
        }
        let mut tracks: BTreeMap<u64, ()> = BTreeMap::new();
        for event in events.iter().filter(|event| event["ph"] == "X") {
            let (at, time) = (event["ts"].as_f64()?, event["dur"].as_f64()?);
            let (name, track) = (event["name"].as_str()?, event["tid"].as_u64()?);
            summary.begin = summary.begin.min(at);
            summary.end = summary.end.max(at + time);
            match event["pid"].as_u64()? {
                WORKERS => summary.workers.entry(track).or_default().add(name, time),
                TASKS => {
                    let label = labels.get(&track).copied().unwrap_or("task without a name");
                    let first = tracks.insert(track, ()).is_none();
                    summary.add(label, u64::from(first), name, at, time);
                }
                _ => return None,
            }
        }
        summary.begin = summary.begin.min(summary.end);
        // Other threads only wake tasks. Every possible worker has a track.
        summary.workers.retain(|_, worker| worker.name.starts_with("worker "));
        let all = summary.workers.len();
        summary.workers.retain(|_, worker| worker.turns > 0 || worker.asleep > 0.0);
        summary.quiet = all - summary.workers.len();
        summary.longest.sort_by(|a, b| b.time.total_cmp(&a.time).then(a.at.total_cmp(&b.at)));
        summary.longest.truncate(longest);
        Some(summary)
    }

    fn add(&mut self, label: &str, new: u64, doing: &str, at: f64, time: f64) {
        let name = self.names.entry(family(label).to_owned()).or_default();
        name.tasks += new;
        match doing {
            "running" => name.running += time,
            "ready" => name.ready += time,
            reason => {
                *name.waiting.entry(reason.to_owned()).or_default() += time;
                let (task, reason) = (label.to_owned(), reason.to_owned());
                self.longest.push(Wait { task, reason, at, time });
            }
        }
    }

    fn say(&self, stage: &Stage) {
        let span = self.end - self.begin;
        stage.say(format_args!("{} of a trace", micros(span)));
        if self.lost > 0 {
            let lost = format!("{} events were lost: the figures are too low", grouped(self.lost));
            stage.say(paint(DIM, lost));
        }
        stage.say("");
        stage.say(paint(BOLD, heading("worker", ["turns", "running", "asleep", "between"])));
        for worker in self.workers.values() {
            let between = (span - worker.running - worker.asleep).max(0.0);
            let part = |time| format!("{} {:>3}%", micros(time), percent(time, span));
            let cells = [part(worker.running), part(worker.asleep), part(between)];
            stage.say(line(&worker.name, &grouped(worker.turns), cells));
        }
        if self.quiet > 0 {
            stage.say(paint(DIM, format!("and {} that ran no task", self.quiet)));
        }
        stage.say("");
        stage.say(paint(BOLD, heading("tasks", ["count", "running", "ready", "waiting"])));
        for (name, tasks) in self.by_time() {
            let cells = [tasks.running, tasks.ready, tasks.waited()].map(micros);
            stage.say(line(name, &grouped(tasks.tasks), cells));
            let mut reasons: Vec<_> = tasks.waiting.iter().collect();
            reasons.sort_by(|a, b| b.1.total_cmp(a.1));
            for (reason, time) in reasons {
                let cells = [String::new(), String::new(), micros(*time)];
                stage.say(paint(DIM, line(&format!("  {reason}"), "", cells)));
            }
        }
        if !self.longest.is_empty() {
            stage.say("");
            stage.say(paint(
                BOLD,
                format!("{:>12}  {:<28}  {:<24}  {}", "longest waits", "task", "for", "since"),
            ));
        }
        for wait in &self.longest {
            let (time, since) = (micros(wait.time), micros(wait.at - self.begin));
            stage.say(format_args!("{time:>13}  {:<28}  {:<24}  {since}", wait.task, wait.reason));
        }
    }

    /// The longest running come first.
    fn by_time(&self) -> Vec<(&String, &Name)> {
        let mut names: Vec<_> = self.names.iter().collect();
        names.sort_by(|a, b| b.1.running.total_cmp(&a.1.running));
        names
    }

    fn json(&self) -> Value {
        let workers = self.workers.values().map(|worker| {
            json!({"name": worker.name, "turns": worker.turns,
                "running_us": worker.running, "asleep_us": worker.asleep})
        });
        let names = self.by_time().into_iter().map(|(name, tasks)| {
            json!({"name": name, "count": tasks.tasks, "running_us": tasks.running,
                "ready_us": tasks.ready, "waiting_us": tasks.waiting})
        });
        let waits = self.longest.iter().map(|wait| {
            json!({"task": wait.task, "for": wait.reason, "us": wait.time, "since_us": wait.at - self.begin})
        });
        json!({
            "span_us": self.end - self.begin,
            "missing_events": self.lost,
            "workers": workers.collect::<Vec<_>>(),
            "quiet_workers": self.quiet,
            "tasks": names.collect::<Vec<_>>(),
            "longest_waits": waits.collect::<Vec<_>>(),
        })
    }
}

impl Worker {
    fn add(&mut self, slice: &str, time: f64) {
        match slice {
            "asleep" => self.asleep += time,
            "wakes" => {} // has no length: arrows begin there
            _ => {
                self.turns += 1;
                self.running += time;
            }
        }
    }
}

/// A task's label without its number.
fn family(label: &str) -> &str {
    match label.rsplit_once(" #") {
        Some((name, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => label,
    }
}

fn heading(first: &str, rest: [&str; 4]) -> String {
    line(first, rest[0], [rest[1], rest[2], rest[3]].map(str::to_owned))
}

fn line(first: &str, count: &str, cells: [String; 3]) -> String {
    let [a, b, c] = cells;
    format!("{first:<30}  {count:>9}  {a:>14}  {b:>14}  {c:>14}").trim_end().to_owned()
}

/// A time with a unit that leaves one to four digits before the point.
fn micros(time: f64) -> String {
    match time {
        t if t < 10_000.0 => format!("{t:.1} µs"),
        t if t < 10_000_000.0 => format!("{:.1} ms", t / 1e3),
        t => format!("{:.1} s", t / 1e6),
    }
}

fn percent(part: f64, whole: f64) -> u64 {
    if whole > 0.0 { (100.0 * part / whole).round() as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_lose_their_numbers_and_nothing_else() {
        assert_eq!(family("request #17"), "request");
        assert_eq!(family("src/main.rs:7 #3"), "src/main.rs:7");
        assert_eq!(family("number #one"), "number #one");
        assert_eq!(family("plain"), "plain");
    }

    #[test]
    fn times_have_a_unit_that_fits() {
        assert_eq!(micros(0.25), "0.2 µs");
        assert_eq!(micros(12_345.0), "12.3 ms");
        assert_eq!(micros(65_000_000.0), "65.0 s");
        assert_eq!((percent(1.0, 3.0), percent(1.0, 0.0)), (33, 0));
    }

    #[test]
    fn what_is_no_trace_is_not_taken_for_one() {
        for text in ["null", "{}", "[]", r#"{"traceEvents":[{"ph":"X","pid":1}]}"#] {
            assert!(Summary::of(&serde_json::from_str(text).unwrap(), 1).is_none(), "{text}");
        }
    }
}
