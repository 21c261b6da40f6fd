//! All tasks of a runtime, as text and as JSON.

use super::look::{self, Stacks};
use super::{Children, Description, TaskSnapshot, described};
use crate::base::error::TaskId;
use crate::base::json;
use crate::sched::Shared;
use crate::sched::worker::stats::WorkerStats;
use crate::scope::budget::{Budget, UNLIMITED};
use crate::stack::frames::{Frames, Function, Shown};
use crate::view::stats::{TenantFigures, tenants};
use crate::view::sysmon::probe_running;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// All tasks of a runtime, see [`Runtime::dump`](crate::Runtime::dump).
///
/// Its text is a tree: the root nursery with the root tasks, under each task the nurseries that it
/// has opened, under these their children. Tasks of a nursery with the same wait and backtrace are
/// counted and shown once. Backtraces show the program's own functions; [`full`](Dump::full) adds
/// those of the runtime and of the standard library.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Dump {
    /// The tasks, ordered by id.
    pub tasks: Vec<TaskSnapshot>,
    /// The counters of each worker.
    pub workers: Vec<WorkerStats>,
    /// The runtime's root nursery, whose children are the root tasks. `None` once the runtime is
    /// gone.
    pub root: Option<Children>,
    /// For each worker the backends of its descriptors; `None` until a task there has waited for
    /// one.
    pub descriptors: Vec<Option<String>>,
    /// The tenants, as in [`Snapshot::tenants`](crate::stats::Snapshot::tenants); none if no
    /// nursery has ever had a share.
    pub tenants: Vec<TenantFigures>,
    /// Parts of the program that describe themselves, see [`Cx::describe`](crate::Cx::describe).
    pub parts: Vec<Description>,
    shown: Shown,
}

impl Dump {
    pub(crate) fn of(shared: &Shared) -> Dump {
        let mut tasks = look::all(shared, Stacks::Walked);
        name_running(shared, &mut tasks);
        Dump::with(shared, tasks, described::IN_A_DUMP)
    }

    /// A dump without backtraces.
    pub(crate) fn without_stacks(shared: &Shared) -> Dump {
        let mut tasks = Dump::tasks_of(shared);
        name_running(shared, &mut tasks);
        tasks.iter_mut().for_each(|task| task.frames = Frames::default());
        Dump::with(shared, tasks, described::IN_A_LIST)
    }

    fn with(shared: &Shared, mut tasks: Vec<TaskSnapshot>, items: usize) -> Dump {
        tasks.sort_by_key(|task| task.id);
        let (workers, root) = (shared.worker_stats(), look::root(shared));
        let descriptors = shared.remotes.iter().take(workers.len());
        let descriptors = descriptors.map(|remote| remote.poller.describe()).collect();
        let (tenants, parts) = (tenants::of(shared), described::of(shared, items));
        Dump { tasks, workers, root, descriptors, tenants, parts, shown: Shown::default() }
    }

    /// The tasks alone, without backtraces.
    pub(crate) fn tasks_of(shared: &Shared) -> Vec<TaskSnapshot> {
        look::all(shared, Stacks::Left)
    }

    /// One task, with its backtrace.
    pub(crate) fn task_of(shared: &Shared, id: u64) -> Option<TaskSnapshot> {
        let mut task = look::find(shared, id)?;
        name_running(shared, std::slice::from_mut(&mut task));
        Some(task)
    }

    /// Shows whole backtraces, as text and as JSON: also functions of the runtime and of the
    /// standard library. For text, `{:#}` does the same.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let asleep = rt.spawn(|cx| cx.sleep(std::time::Duration::MAX))?;
    /// while rt.dump().tasks.iter().all(|task| task.wait.is_none()) {}
    /// let dump = rt.dump();
    /// assert!(dump.clone().full().to_json().contains("parcae::"));
    /// assert_eq!(format!("{dump:#}"), dump.full().to_string());
    /// # asleep.cancel();
    /// # Ok::<(), parcae::Error>(())
    /// ```
    #[must_use]
    pub fn full(mut self) -> Dump {
        self.shown = Shown::All;
        self
    }

    /// The dump as JSON:
    ///
    /// ```text
    /// { "workers": [ { "executed": 3, …, "descriptors": "sockets by epoll; …" } ],
    ///   "root": { "nursery": 0, "state": "Open", "live": 1, "left": { "ops": null, … },
    ///             "suspended": 0 },
    ///   "tenants": [ { "tenant": "paid", "number": 1, "weight": 2048, "wanted": 0.5,
    ///                  "feasible": 0.5, "got": 0.48, "ran": 12000000, … } ],
    ///   "parts": [ { "title": "actors `shop`", "figures": { "restarts left": 9, … },
    ///                "items": [ { "depth": 0, "title": "actor `till`", "state": "waiting",
    ///                             "task": 7, "label": "0.7", "figures": { "queued": 0, … },
    ///                             "notes": [ "…" ] } ], "left_out": 0 } ],
    ///   "tasks": [ { "id": 7, "label": "0.7", "name": "…", "state": "waiting", "worker": 0,
    ///                "nursery": 5, "owner": 1,
    ///                "spawned_at": "src/main.rs:7:9", "age_ms": 12,
    ///                "wait": { "what": "receiving from channel", "on": "0x…", "name": "…",
    ///                          "note": "…", "made_by": 1, "ms": 11, "timed": false,
    ///                          "external": false },
    ///                "budget": { "ops": 12, … },      // a component that is not counted is null
    ///                "nurseries": [ { "nursery": 9, "name": "…", "state": "Open", "live": 2,
    ///                                 "left": { "ops": 12, … }, "suspended": 0 } ],
    ///                "frames": [ { "name": "…", "file": "…", "line": 1 } ] } ] }
    /// ```
    ///
    /// Unknown fields are left out.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        let mut object = json::JsonObject::begin(&mut out);
        let workers = self.workers.iter().zip(&self.descriptors);
        object.list("workers", workers, |out, (worker, descriptors)| {
            let mut object = json::JsonObject::begin(out);
            object.numbers(worker.named()).text_if("descriptors", descriptors.as_deref()).end();
        });
        if let Some(root) = &self.root {
            nursery_json(object.field("root"), root);
        }
        tenants::write(&mut object, &self.tenants);
        described::write(&mut object, &self.parts);
        let task = |out: &mut String, task| task_json(out, task, self.shown);
        object.list("tasks", &self.tasks, task).end();
        out
    }
}

/// Probes the workers by a signal for the names and backtraces of running tasks.
fn name_running(shared: &Shared, tasks: &mut [TaskSnapshot]) {
    look::itself(shared, tasks);
    let Some(threads) = shared.thread_set() else { return };
    for (_, seen) in probe_running(&threads) {
        let frames = seen.frames();
        let Some(info) = seen.task else { continue };
        // A task that has ended since is not in the list.
        let same = |task: &&mut TaskSnapshot| task.id == info.id && task.spawned_at.is_none();
        if let Some(task) = tasks.iter_mut().find(same) {
            task.name = info.name;
            task.nursery_name = info.nursery;
            task.spawned_at = Some(info.spawned_at);
            task.frames = frames;
        }
    }
}

impl TaskSnapshot {
    /// The task as JSON, as in [`Dump::to_json`].
    pub(crate) fn to_json(&self) -> String {
        let mut out = String::new();
        task_json(&mut out, self, Shown::default());
        out
    }
}

pub(super) fn task_json(out: &mut String, task: &TaskSnapshot, shown: Shown) {
    let mut object = json::JsonObject::begin(out);
    object.plain("id", task.id.as_u64()).text("label", &task.id.to_string());
    object.text_if("name", task.name.as_deref());
    object.text("state", &task.state.to_string());
    if let Some(worker) = task.worker {
        object.plain("worker", worker);
    }
    // The nursery of a running task is not known.
    if task.age.is_some() {
        object.plain("nursery", task.nursery);
        object.plain("owner", task.owner.map_or(0, TaskId::as_u64));
    }
    if let Some(place) = task.spawned_at {
        object.text_if("nursery_name", task.nursery_name.as_deref());
        object.text("spawned_at", &place.to_string());
    }
    if let Some(age) = task.age {
        object.plain("age_ms", age.as_millis());
    }
    if let Some(wait) = &task.wait {
        let mut inner = json::JsonObject::begin(object.field("wait"));
        inner.text("what", wait.what);
        if let Some(on) = wait.on {
            inner.text("on", &format!("{on:#x}"));
        }
        inner.text_if("name", wait.name.as_deref());
        if let Some(until) = wait.until {
            inner.plain("until_ms", until.as_millis());
        }
        inner.text_if("note", wait.note.as_deref());
        if let Some(maker) = wait.made_by {
            inner.plain("made_by", maker.as_u64());
        }
        inner.plain("ms", wait.since.as_millis());
        inner.plain("timed", wait.timed).plain("external", wait.external).end();
    }
    if let Some(budget) = task.budget {
        budget_json(object.field("budget"), budget);
    }
    object.list("nurseries", &task.children, nursery_json);
    object.list("frames", task.frames.shown(shown), |out, function| {
        let mut object = json::JsonObject::begin(out);
        object.text("name", &function.name).text_if("file", function.file.as_deref());
        if let Some(line) = function.line {
            object.plain("line", line);
        }
        object.end();
    });
    object.end();
}

fn nursery_json(out: &mut String, nursery: &Children) {
    let mut object = json::JsonObject::begin(out);
    object.plain("nursery", nursery.nursery).text_if("name", nursery.name.as_deref());
    object.text("state", &format!("{:?}", nursery.state)).plain("live", nursery.live);
    budget_json(object.field("left"), nursery.budget.left);
    object.plain("suspended", nursery.budget.suspended).end();
}

fn budget_json(out: &mut String, budget: Budget) {
    let mut object = json::JsonObject::begin(out);
    for (name, amount) in named(budget) {
        match amount {
            UNLIMITED => object.plain(name, "null"),
            amount => object.plain(name, amount),
        };
    }
    object.end();
}

fn named(budget: Budget) -> [(&'static str, u64); 5] {
    [
        ("ops", budget.ops),
        ("memory", budget.memory),
        ("spawn_count", budget.spawn_count),
        ("channel_ops", budget.channel_ops),
        ("syscalls", budget.syscalls),
    ]
}

/// A task's id and name.
pub(super) fn title(task: &TaskSnapshot) -> String {
    match &task.name {
        Some(name) => format!("task {} `{name}`", task.id),
        None => format!("task {}", task.id),
    }
}

/// A task in a few lines, with its backtrace; the whole of it for `{:#}`.
pub(crate) fn write_task(
    f: &mut fmt::Formatter<'_>,
    task: &TaskSnapshot,
    indent: &str,
) -> fmt::Result {
    writeln!(f, "{indent}{}", summary(task))?;
    write_frames(f, &task.frames.shown(Shown::by(f)), indent)
}

fn write_frames(f: &mut fmt::Formatter<'_>, functions: &[Function], indent: &str) -> fmt::Result {
    for function in functions {
        writeln!(f, "{indent}      {function}")?;
    }
    Ok(())
}

/// A task in one line.
fn summary(task: &TaskSnapshot) -> String {
    let mut line = title(task);
    if let Some(place) = task.spawned_at {
        line += &format!(", spawned at {place}");
    }
    line += &format!(": {}", task.state);
    if let Some(worker) = task.worker {
        line += &format!(" (worker {worker})");
    }
    if let Some(wait) = &task.wait {
        line += &format!(", {}", wait.what);
        match (&wait.name, wait.on) {
            (Some(name), _) => line += &format!(" `{name}`"),
            (None, Some(on)) => line += &format!(" {on:#x}"),
            (None, None) => {}
        }
        if let Some(until) = wait.until {
            line += &format!(" until {}", rough(until));
        }
        let made_by = wait.made_by.map(|maker| format!("made by task {maker}"));
        let notes: Vec<_> = wait.note.iter().chain(&made_by).map(String::as_str).collect();
        if !notes.is_empty() {
            line += &format!(" ({})", notes.join("; "));
        }
        line += &format!(", for {}", rough(wait.since));
        if wait.timed {
            line += ", with a timeout";
        }
        if wait.external {
            line += ", declared external";
        }
    }
    if let Some(age) = task.age {
        line += &format!(", age {}", rough(age));
    }
    line + &left(task.budget)
}

/// The components of a budget that are counted.
pub(super) fn left(budget: Option<Budget>) -> String {
    let counted: Vec<String> = budget
        .into_iter()
        .flat_map(named)
        .filter(|&(_, amount)| amount != UNLIMITED)
        .map(|(name, amount)| format!("{name} {amount}"))
        .collect();
    if counted.is_empty() { String::new() } else { format!(", left: {}", counted.join(", ")) }
}

/// A tenant in one line: its shares in percent of all workers.
fn tenant_line(tenant: &TenantFigures) -> String {
    let TenantFigures { weight, queued, turns, .. } = tenant;
    let name = match (&tenant.name, tenant.number) {
        (Some(name), _) => format!("tenant `{name}`"),
        (None, 0) => "tasks without a tenant".into(),
        (None, _) => format!("tenant {}", tenant.label()),
    };
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    format!(
        "{name}: weight {weight}, wanted {}, feasible {}, got {}; {turns} turns, {queued} queued",
        percent(tenant.wanted),
        percent(tenant.feasible),
        percent(tenant.got),
    )
}

fn rough(time: Duration) -> String {
    if time.as_secs() > 0 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} ms", time.as_millis())
    }
}

/// The tree that a dump is printed as.
struct Tree<'d> {
    tasks: &'d [TaskSnapshot],
    by_nursery: HashMap<u64, Vec<&'d TaskSnapshot>>,
    /// Numbers for backtraces that are shown alike; they may differ in functions that are not
    /// shown.
    looks: HashMap<&'d Frames, usize>,
    shown: Shown,
}

impl<'d> Tree<'d> {
    fn new(tasks: &'d [TaskSnapshot], shown: Shown) -> Tree<'d> {
        let (mut looks, mut seen) = (HashMap::new(), HashMap::new());
        for task in tasks {
            looks.entry(&task.frames).or_insert_with(|| {
                let next = seen.len();
                *seen.entry(format!("{:?}", task.frames.shown(shown))).or_insert(next)
            });
        }
        Tree { tasks, by_nursery: HashMap::new(), looks, shown }
    }

    /// The features that tasks share which are shown once.
    fn likeness(&self, task: &'d TaskSnapshot) -> Likeness<'d> {
        // A task with children of its own is shown by itself.
        let own = (!task.children.is_empty()).then_some(task.id.as_u64());
        let looks = self.looks.get(&task.frames).copied();
        let wait = task.wait.as_ref().map(|wait| (wait.what, wait.name.as_deref()));
        (task.name.as_deref(), task.state, wait, looks, own)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, nursery: u64, depth: usize) -> fmt::Result {
        let indent = "  ".repeat(depth);
        let mut alike: HashMap<Likeness<'_>, usize> = HashMap::new();
        let tasks = self.by_nursery.get(&nursery).map_or(&[][..], Vec::as_slice);
        for task in tasks {
            *alike.entry(self.likeness(task)).or_default() += 1;
        }
        for task in tasks {
            // The first stands for all that are alike.
            let Some(count) = alike.remove(&self.likeness(task)) else { continue };
            writeln!(f, "{indent}{}", summary(task))?;
            if count > 1 {
                writeln!(f, "{indent}      and {} more like it", count - 1)?;
            }
            write_frames(f, &task.frames.shown(self.shown), &indent)?;
            for Children { nursery, name, state, live, .. } in &task.children {
                let name = name.as_ref().map_or_else(String::new, |name| format!(" `{name}`"));
                writeln!(f, "{indent}  nursery {nursery:#x}{name}: {state:?}, {live} live")?;
                self.write(f, *nursery, depth + 2)?;
            }
        }
        Ok(())
    }
}

/// Features of tasks that are shown once: name, state, wait, backtrace; or an id of its own.
type Likeness<'t> = (
    Option<&'t str>,
    super::TaskState,
    Option<(&'static str, Option<&'t str>)>,
    Option<usize>,
    Option<u64>,
);

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |state| self.tasks.iter().filter(|task| task.state == state).count();
        writeln!(
            f,
            "{} tasks: {} running, {} ready, {} waiting, {} out of budget; {} workers",
            self.tasks.len(),
            count(super::TaskState::Running),
            count(super::TaskState::Ready),
            count(super::TaskState::Waiting),
            count(super::TaskState::Exhausted),
            self.workers.len(),
        )?;
        if let Some(Children { state, live, budget, .. }) = &self.root {
            writeln!(f, "root nursery: {state:?}, {live} live{}", left(Some(budget.left)))?;
        }
        for (worker, described) in self.descriptors.iter().enumerate() {
            if let Some(described) = described {
                writeln!(f, "worker {worker}: {described}")?;
            }
        }
        for tenant in &self.tenants {
            writeln!(f, "{}", tenant_line(tenant))?;
        }
        described::print(f, &self.parts, &self.tasks)?;
        let shown = if f.alternate() { Shown::All } else { self.shown };
        let mut tree = Tree::new(&self.tasks, shown);
        for task in tree.tasks.iter().filter(|task| task.spawned_at.is_some()) {
            // A task whose parent is not known is shown at the root.
            let known = self.tasks.iter().any(|owner| {
                Some(owner.id) == task.owner
                    && owner.children.iter().any(|c| c.nursery == task.nursery)
            });
            tree.by_nursery.entry(if known { task.nursery } else { 0 }).or_default().push(task);
        }
        tree.write(f, 0, 0)?;
        for task in self.tasks.iter().filter(|task| task.spawned_at.is_none()) {
            writeln!(f, "{}", summary(task))?;
        }
        Ok(())
    }
}
