//! A recorded run, as a test writes it (`PARCAE_RECORD`): one line of JSON.

use serde_json::Value;

/// A recorded run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recording {
    pub(crate) token: String,
    /// The test that wrote it.
    pub(crate) test: Option<String>,
    /// Kind and place of the failure; none if the run passes.
    pub(crate) signature: Option<String>,
    pub(crate) error: String,
    pub(crate) forced: u64,
    pub(crate) timeline: String,
    pub(crate) notes: Vec<String>,
    /// The step after which no continuation passed.
    pub(crate) lost_after: Option<usize>,
    pub(crate) tasks: Vec<Task>,
    /// Kinds of objects, from number 1 on.
    kinds: Vec<String>,
    pub(crate) steps: Vec<Step>,
    events: Vec<Event>,
    /// A step, and all tasks before it.
    pub(crate) dump: Option<(usize, String)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) spawned_at: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) task: usize,
    /// The operation, with the number of its object.
    pub(crate) op: String,
    pub(crate) object: usize,
    pub(crate) site: String,
    pub(crate) forced: bool,
}

#[derive(Debug, Clone)]
struct Event {
    after: usize,
    task: usize,
    change: String,
    reason: String,
}

/// A task before a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// "ready", "running", "waiting", "ended", "not spawned".
    pub(crate) name: &'static str,
    /// Reason of a wait.
    pub(crate) reason: String,
    /// Its last step; of a waiting task, the operation in which it waits.
    pub(crate) last: Option<usize>,
}

impl Recording {
    /// Reads a line; `None` if it is no recording of this version.
    pub(crate) fn read(json: &Value) -> Option<Recording> {
        if json["parcae_run"] != 1 {
            return None;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let number = |value: &Value| Some(value.as_u64()? as usize);
        let list = |name: &str| json[name].as_array().map(Vec::as_slice).unwrap_or_default();
        let tasks = list("tasks")
            .iter()
            .map(|task| Task { name: text(&task["name"]), spawned_at: text(&task["spawned_at"]) });
        let tasks: Vec<Task> = tasks.collect();
        let known = |task: usize| (task < tasks.len()).then_some(task);
        let steps = list("steps").iter().map(|step| {
            Some(Step {
                task: known(number(&step["task"])?)?,
                op: text(&step["op"]),
                object: number(&step["object"])?,
                site: text(&step["site"]),
                forced: step["forced"] == true,
            })
        });
        let events = list("events").iter().map(|event| {
            Some(Event {
                after: number(&event["after"])?,
                task: known(number(&event["task"])?)?,
                change: text(&event["change"]),
                reason: text(&event["reason"]),
            })
        });
        let dump = &json["dump"];
        Some(Recording {
            token: json["token"].as_str()?.to_owned(),
            test: json["test"].as_str().map(str::to_owned),
            signature: json["signature"].as_str().map(str::to_owned),
            error: text(&json["error"]),
            forced: json["forced"].as_u64().unwrap_or(0),
            timeline: text(&json["timeline"]),
            notes: list("notes").iter().map(text).collect(),
            lost_after: number(&json["lost_after"]),
            steps: steps.collect::<Option<_>>()?,
            events: events.collect::<Option<_>>()?,
            kinds: list("objects").iter().map(|object| text(&object["kind"])).collect(),
            dump: number(&dump["before"]).map(|before| (before, text(&dump["text"]))),
            tasks,
        })
    }

    /// All tasks before a step; with the number of steps, at the end.
    pub(crate) fn states(&self, step: usize) -> Vec<State> {
        let unborn = State { name: "not spawned", reason: String::new(), last: None };
        let mut states = vec![unborn; self.tasks.len()];
        for event in self.events.iter().take_while(|event| event.after <= step) {
            let state = &mut states[event.task];
            state.name = match &*event.change {
                "runs" => "running",
                "waits" => "waiting",
                "ended" => "ended",
                "spawned" | "yields" | "woken" => "ready",
                _ => continue,
            };
            state.reason.clone_from(&event.reason);
        }
        for (at, step) in self.steps.iter().enumerate().take(step) {
            states[step.task].last = Some(at);
        }
        states
    }

    /// The wait of a task: its reason, and the operation with its object.
    pub(crate) fn waits_for(&self, state: &State) -> String {
        if state.name != "waiting" {
            return String::new();
        }
        // A wait for the children of a nursery is no operation of its own.
        let step = state.last.map(|last| &self.steps[last]);
        match step.filter(|_| state.reason != "its children") {
            Some(step) if step.object > 0 => {
                format!("{}: {} ({})", state.reason, step.op, self.kind(step.object))
            }
            _ => state.reason.clone(),
        }
    }

    /// The kind of an object.
    pub(crate) fn kind(&self, object: usize) -> &str {
        object.checked_sub(1).and_then(|at| self.kinds.get(at)).map_or("object", String::as_str)
    }

    /// The first line of a title: the failure, or that there is none.
    pub(crate) fn verdict(&self) -> &str {
        self.signature.as_deref().unwrap_or("the run passes")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// Two tasks take two locks in different orders.
    pub(crate) fn deadlock() -> Recording {
        let step = |task: usize, object: usize, line: usize, forced: bool| {
            json!({"task": task, "op": format!("lock #{object}"), "object": object,
                   "site": format!("src/lib.rs:{line}"), "forced": forced})
        };
        let event = |after: usize, task: usize, change: &str, reason: &str| {
            json!({
            "after": after, "task": task, "change": change, "reason": reason})
        };
        let recording = json!({
            "parcae_run": 1, "token": "pcr1.abc", "test": "locks", "signature": "deadlock",
            "error": "all tasks wait", "forced": 1, "lost_after": 1, "timeline": "the timeline",
            "notes": [], "tasks": [{"name": "0"}, {"name": "0.0", "spawned_at": "src/lib.rs:3"},
                                   {"name": "0.1", "spawned_at": "src/lib.rs:4"}],
            "objects": [{"number": 1, "kind": "lock"}, {"number": 2, "kind": "lock"}],
            "steps": [step(1, 1, 7, false), step(2, 2, 9, true), step(2, 1, 9, false),
                      step(1, 2, 7, false)],
            "events": [event(0, 0, "spawned", ""), event(0, 0, "runs", ""),
                       event(0, 1, "spawned", ""), event(0, 2, "spawned", ""),
                       event(0, 0, "waits", "its children"), event(0, 1, "runs", ""),
                       event(1, 1, "yields", ""), event(1, 2, "runs", ""),
                       event(3, 2, "waits", "mutex"), event(4, 1, "runs", ""),
                       event(4, 1, "waits", "mutex")],
        });
        Recording::read(&recording).expect("a recording")
    }

    #[test]
    fn states_and_waits_follow_the_events() {
        let run = deadlock();
        let names = |step| run.states(step).iter().map(|state| state.name).collect::<Vec<_>>();
        assert_eq!(names(0), ["waiting", "running", "ready"]);
        assert_eq!(names(1), ["waiting", "ready", "running"]);
        assert_eq!(names(4), ["waiting", "waiting", "waiting"]);
        let waits: Vec<String> = run.states(4).iter().map(|state| run.waits_for(state)).collect();
        assert_eq!(waits, ["its children", "mutex: lock #2 (lock)", "mutex: lock #1 (lock)"]);
    }

    #[test]
    fn text_that_is_no_recording_is_refused() {
        let task_that_is_not_there = json!({"parcae_run": 1, "token": "t", "tasks": [],
            "steps": [{"task": 0, "op": "lock", "object": 0}]});
        for wrong in [json!({}), json!({"parcae_run": 2, "token": "t"}), task_that_is_not_there] {
            assert!(Recording::read(&wrong).is_none(), "{wrong}");
        }
    }
}
