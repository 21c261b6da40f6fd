//! The files that a user has asked for: a run as JSON (`PARCAE_RECORD`), for the program `parcae`,
//! and as a page of HTML (`PARCAE_HTML`).
//!
//! A recording is one line: [`Publication::to_json`]. A test that hunts twice appends a second
//! line, as do other tests of the same program; readers take the run of their token.

use super::failure::{Failure, test_name};
use super::picture;
use super::timeline::Run;
use crate::base::json::{self, JsonObject};
use crate::sched::lab::{RunEvent, TaskChange};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A run with everything that is known about it.
pub(super) struct Publication<'p> {
    pub(super) run: &'p Run,
    pub(super) token: &'p str,
    /// None if the run passes.
    pub(super) failure: Option<&'p Failure>,
    pub(super) notes: &'p [String],
    pub(super) dump: Option<DumpAtStep>,
}

/// All tasks, before a step.
pub(super) struct DumpAtStep {
    step: usize,
    text: String,
}

impl DumpAtStep {
    pub(super) fn new(step: usize, text: &Mutex<String>) -> DumpAtStep {
        DumpAtStep { step, text: text.lock().unwrap_or_else(PoisonError::into_inner).clone() }
    }
}

/// Prints a line to standard error; if that is closed, the line is lost.
pub(super) fn tell(line: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "parcae: {line}");
}

/// Writes the files that the environment names. A file that cannot be written is reported to
/// standard error: the failure of the test is more important.
pub(super) fn publish(publication: &Publication<'_>) {
    let report = |name: &str, write: &dyn Fn(&Path) -> io::Result<()>| {
        let Some(path) = std::env::var_os(name) else { return };
        if let Err(error) = write(path.as_ref()) {
            let path = Path::new(&path).display();
            tell(format_args!("{name}: cannot write {path}: {error}"));
        }
    };
    report("PARCAE_RECORD", &|path| {
        let mut file = File::options().create(true).append(true).open(path)?;
        file.write_all(format!("{}\n", publication.to_json()).as_bytes())
    });
    report("PARCAE_HTML", &|path| fs::write(path, picture::page(publication)));
}

impl<'p> Publication<'p> {
    pub(super) fn of(failure: &'p Failure) -> Publication<'p> {
        Publication {
            run: failure.run(),
            token: failure.token(),
            failure: Some(failure),
            notes: failure.notes(),
            dump: None,
        }
    }

    pub(super) fn of_passed(run: &'p Run, token: &'p str, notes: &'p [String]) -> Publication<'p> {
        Publication { run, token, failure: None, notes, dump: None }
    }

    /// The run as one line of JSON:
    ///
    /// ```text
    /// { "parcae_run": 1, "test": "…", "token": "pcr1.…", "signature": "…", "error": "…",
    ///   "forced": 2, "notes": [ "…" ], "lost_after": 7,
    ///   "timeline": "…", "shown": [ 3, 4 ],
    ///   "tasks": [ { "name": "0.1", "spawned_at": "src/lib.rs:7" } ],
    ///   "objects": [ { "number": 1, "kind": "lock" } ],
    ///   "steps": [ { "task": 1, "op": "lock #1", "object": 1, "site": "src/lib.rs:9",
    ///                "forced": true } ],
    ///   "events": [ { "after": 3, "task": 1, "change": "waits", "reason": "mutex" } ],
    ///   "dump": { "before": 5, "text": "…" } }
    /// ```
    ///
    /// Unknown fields are left out. A run that passes has no signature and no error.
    pub(super) fn to_json(&self) -> String {
        let run = self.run;
        let mut out = String::new();
        let mut object = JsonObject::begin(&mut out);
        object.plain("parcae_run", 1).text("token", self.token);
        object.text_if("test", test_name().as_deref());
        if let Some(failure) = self.failure {
            object.text("signature", failure.signature());
            object.text("error", &failure.error().to_string());
            object.plain("forced", failure.forced_switches());
            object.text("timeline", &run.to_string());
        }
        object.list("notes", self.notes, |out, note| json::string(out, note));
        if let Some(step) = run.lost_after {
            object.plain("lost_after", step);
        }
        object.list("shown", run.shown(), |out, at| *out += &at.to_string());
        object.list("tasks", 0..run.tasks.len() as u32, |out, task| {
            let label = &run.tasks[task as usize];
            let site = label.spawned_at.map(|site| format!("{}:{}", site.file(), site.line()));
            let mut object = JsonObject::begin(out);
            object.text("name", &run.name(task)).text_if("spawned_at", site.as_deref()).end();
        });
        let objects = run.steps.iter().map(|step| step.object).max().unwrap_or(0);
        object.list("objects", 1..=objects, |out, number| {
            JsonObject::begin(out).plain("number", number).text("kind", run.kind(number)).end();
        });
        object.list("steps", 0..run.steps.len(), |out, at| {
            let step = &run.steps[at];
            let mut object = JsonObject::begin(out);
            object.plain("task", step.task).text("op", &run.operation(at));
            object.plain("object", step.object).text_if("site", run.place(at).as_deref());
            object.plain("forced", step.forced).end();
        });
        object.list("events", &run.events, event_json);
        if let Some(dump) = &self.dump {
            let mut inner = JsonObject::begin(object.field("dump"));
            inner.plain("before", dump.step).text("text", &dump.text).end();
        }
        object.end();
        out
    }
}

fn event_json(out: &mut String, event: &RunEvent) {
    let mut object = JsonObject::begin(out);
    object.plain("after", event.after).plain("task", event.task);
    let (change, by, reason) = match &event.change {
        TaskChange::Spawned { by } => ("spawned", *by, None),
        TaskChange::Runs => ("runs", None, None),
        TaskChange::Yields => ("yields", None, None),
        TaskChange::Waits { reason } => ("waits", None, Some(reason)),
        TaskChange::Woken { by } => ("woken", *by, None),
        TaskChange::TimerFired => ("timer", None, None),
        TaskChange::Cancelled => ("cancelled", None, None),
        TaskChange::Ended => ("ended", None, None),
    };
    object.text("change", change);
    if let Some(by) = by {
        object.plain("by", by);
    }
    object.text_if("reason", reason.map(|reason| &**reason)).end();
}
