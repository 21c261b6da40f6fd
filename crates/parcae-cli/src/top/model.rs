//! The answers of a program, and the rates computed from two of them.
//!
//! Little is known about a running task, since its frame belongs to it. Its name and its place in
//! the tree do not change, so they are kept from an earlier answer.

use super::parts::{self, Part};
use super::tenants::{self, Tenant};
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

/// A task in an answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Task {
    pub(crate) id: u64,
    /// Its number in readable form.
    pub(crate) label: String,
    pub(crate) name: Option<String>,
    pub(crate) state: String,
    pub(crate) worker: Option<u64>,
    /// Its nursery; 0 for a root task; `None` if not known.
    pub(crate) nursery: Option<u64>,
    pub(crate) spawned_at: Option<String>,
    pub(crate) age: Option<Duration>,
    pub(crate) wait: Option<Wait>,
    pub(crate) left: Vec<(String, u64)>,
    pub(crate) nurseries: Vec<Nursery>,
    /// Its backtrace, innermost first; only if requested.
    pub(crate) frames: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Wait {
    /// The reason of the wait.
    pub(crate) what: String,
    pub(crate) time: Duration,
}

/// A nursery, from its owner's side.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Nursery {
    pub(crate) id: u64,
    pub(crate) name: Option<String>,
    pub(crate) state: String,
    pub(crate) live: u64,
    pub(crate) left: Vec<(String, u64)>,
    pub(crate) suspended: u64,
}

impl Task {
    /// `None` if that is no task.
    pub(crate) fn read(json: &Value) -> Option<Task> {
        let nurseries = json["nurseries"].as_array()?.iter().map(Nursery::read);
        let frames = json["frames"].as_array()?.iter().map(frame);
        Some(Task {
            id: json["id"].as_u64()?,
            label: text(&json["label"])?,
            name: text(&json["name"]),
            state: text(&json["state"])?,
            worker: json["worker"].as_u64(),
            nursery: json["nursery"].as_u64(),
            spawned_at: text(&json["spawned_at"]),
            age: json["age_ms"].as_u64().map(Duration::from_millis),
            wait: Wait::read(&json["wait"]),
            left: amounts(&json["budget"]),
            nurseries: nurseries.collect::<Option<_>>()?,
            frames: frames.collect::<Option<_>>()?,
        })
    }

    /// Its number and its name.
    pub(crate) fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("{} {name}", self.label),
            None => self.label.clone(),
        }
    }
}

impl Wait {
    fn read(json: &Value) -> Option<Wait> {
        let mut what = text(&json["what"])?;
        if let Some(name) = json["name"].as_str() {
            what += &format!(" `{name}`");
        }
        if let Some(note) = json["note"].as_str() {
            what += &format!(" ({note})");
        }
        if json["timed"] == true {
            what += ", with a timeout";
        }
        if json["external"] == true {
            what += ", declared external";
        }
        Some(Wait { what, time: Duration::from_millis(json["ms"].as_u64()?) })
    }
}

impl Nursery {
    fn read(json: &Value) -> Option<Nursery> {
        Some(Nursery {
            id: json["nursery"].as_u64()?,
            name: text(&json["name"]),
            state: text(&json["state"])?,
            live: json["live"].as_u64()?,
            left: amounts(&json["left"]),
            suspended: json["suspended"].as_u64().unwrap_or(0),
        })
    }

    /// Its name comes first: its number can be long, and a column may be too narrow.
    pub(crate) fn title(&self) -> String {
        let name = self.name.as_ref().map_or_else(String::new, |name| format!("{name} "));
        format!("nursery {name}{:#x}", self.id)
    }
}

fn text(json: &Value) -> Option<String> {
    Some(json.as_str()?.to_owned())
}

/// The components of a budget that are counted: `ops` first, which a narrow column must not cut
/// off, then the others as the library orders them.
fn amounts(json: &Value) -> Vec<(String, u64)> {
    const ORDER: [&str; 5] = ["ops", "memory", "spawn_count", "channel_ops", "syscalls"];
    let fields = json.as_object().into_iter().flatten();
    let mut amounts: Vec<(String, u64)> =
        fields.filter_map(|(name, amount)| Some((name.clone(), amount.as_u64()?))).collect();
    // Components of later versions come last.
    amounts.sort_by_key(|(name, _)| {
        ORDER.iter().position(|known| known == name).unwrap_or(ORDER.len())
    });
    amounts
}

fn frame(json: &Value) -> Option<String> {
    let name = json["name"].as_str()?;
    Some(match (json["file"].as_str(), json["line"].as_u64()) {
        (Some(file), Some(line)) => format!("{name} at {file}:{line}"),
        _ => name.to_owned(),
    })
}

/// The state of a program at one moment.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    pub(crate) tasks: Vec<Task>,
    /// The counters of each worker, by name.
    pub(crate) workers: Vec<HashMap<String, u64>>,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) parts: Vec<Part>,
    /// The same counters a while ago, and how long that is.
    before: Vec<HashMap<String, u64>>,
    passed: Duration,
}

impl Picture {
    /// Reads an answer to `tasks`, which came `later` than `before`. `None` if it is invalid.
    pub(crate) fn read(json: &Value, before: Option<Picture>, passed: Duration) -> Option<Picture> {
        let counters = |worker: &Value| -> Option<HashMap<String, u64>> {
            let fields = worker.as_object()?.iter();
            Some(fields.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect())
        };
        let workers = json["workers"].as_array()?.iter().map(counters).collect::<Option<_>>()?;
        let tasks = json["tasks"].as_array()?.iter().map(Task::read);
        let mut tasks = tasks.collect::<Option<Vec<Task>>>()?;
        let before = before.unwrap_or_default();
        remember(&before.tasks, &mut tasks);
        let (tenants, parts) = (tenants::read(json)?, parts::read(json)?);
        Some(Picture { tasks, workers, tenants, parts, before: before.workers, passed })
    }

    /// The rate of a worker's counter, per second; `None` before there are two answers.
    pub(crate) fn rate(&self, worker: usize, counter: &str) -> Option<f64> {
        let before = self.before.get(worker)?.get(counter)?;
        let now = self.workers.get(worker)?.get(counter)?;
        Some(now.saturating_sub(*before) as f64 / self.passed.as_secs_f64().max(1e-6))
    }

    /// The same of all workers.
    pub(crate) fn total_rate(&self, counter: &str) -> Option<f64> {
        (0..self.workers.len()).map(|worker| self.rate(worker, counter)).sum()
    }

    pub(crate) fn count(&self, worker: usize, counter: &str) -> u64 {
        self.workers.get(worker).and_then(|it| it.get(counter)).copied().unwrap_or(0)
    }

    pub(crate) fn task(&self, id: u64) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id == id)
    }
}

/// Names and places of tasks that run now and were seen before.
fn remember(before: &[Task], tasks: &mut [Task]) {
    let known: HashMap<u64, &Task> = before.iter().map(|task| (task.id, task)).collect();
    for task in tasks.iter_mut().filter(|task| task.nursery.is_none()) {
        let Some(seen) = known.get(&task.id) else { continue };
        task.nursery = seen.nursery;
        if task.spawned_at.is_none() {
            task.name.clone_from(&seen.name);
            task.spawned_at.clone_from(&seen.spawned_at);
        }
        // Its nurseries place its children; their state may be old.
        task.nurseries.clone_from(&seen.nurseries);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// Three tasks: a root, its child in a nursery with a budget, and one that runs.
    pub(in crate::top) fn answer() -> Value {
        json!({
            "workers": [{"executed": 100, "spawned_here": 3}, {"executed": 50, "spawned_here": 0}],
            "tasks": [
                {"id": 1, "label": "root.1", "name": "main", "state": "waiting", "worker": 0, "nursery": 0, "owner": 0,
                 "spawned_at": "src/main.rs:7:9", "age_ms": 61_500,
                 "wait": {"what": "for its children", "ms": 1_500, "timed": false, "external": false},
                 "budget": {"ops": null, "memory": null},
                 "nurseries": [{"nursery": 9, "name": "tenant", "state": "Open", "live": 2,
                     "left": {"ops": 0, "memory": null}, "suspended": 1}],
                 "frames": []},
                {"id": 2, "label": "0.2", "name": "miner", "state": "exhausted", "worker": 1, "nursery": 9, "owner": 1,
                 "spawned_at": "src/main.rs:8:9", "age_ms": 40,
                 "wait": {"what": "for a recharge", "note": "out of ops", "ms": 12, "timed": true, "external": false},
                 "budget": {"ops": 0, "memory": 4096}, "nurseries": [], "frames": []},
                {"id": 3, "label": "0.3", "state": "running", "worker": 1, "nurseries": [], "frames": []},
            ],
        })
    }

    pub(in crate::top) fn picture() -> Picture {
        Picture::read(&answer(), None, Duration::ZERO).unwrap()
    }

    #[test]
    fn answers_are_read_as_a_whole_or_not_at_all() {
        let picture = picture();
        assert_eq!(picture.tasks[1].title(), "0.2 miner");
        assert_eq!(
            picture.tasks[1].wait.as_ref().unwrap().what,
            "for a recharge (out of ops), with a timeout"
        );
        let named =
            json!({"what": "receiving from channel", "name": "orders", "note": "empty", "ms": 1});
        assert_eq!(Wait::read(&named).unwrap().what, "receiving from channel `orders` (empty)");
        assert_eq!(picture.tasks[0].left, []);
        assert_eq!(picture.tasks[0].nurseries[0].left, [("ops".to_owned(), 0)]);
        let all = json!({"channel_ops": 1, "memory": 2, "new": 9, "ops": 3, "spawn_count": 4, "syscalls": null});
        let names: Vec<_> = amounts(&all).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["ops", "memory", "spawn_count", "channel_ops", "new"]);
        assert_eq!(picture.tasks[2].title(), "0.3");
        for broken in [json!({}), json!({"workers": [], "tasks": [{"id": "x"}]}), json!(null)] {
            assert!(Picture::read(&broken, None, Duration::ZERO).is_none(), "{broken}");
        }
    }

    #[test]
    fn rates_need_two_answers() {
        let first = picture();
        assert_eq!(first.total_rate("executed"), None);
        let mut later = answer();
        later["workers"][0]["executed"] = json!(300);
        let second = Picture::read(&later, Some(first), Duration::from_secs(2)).unwrap();
        assert_eq!(second.rate(0, "executed"), Some(100.0));
        assert_eq!(second.rate(1, "executed"), Some(0.0));
        assert_eq!(second.total_rate("executed"), Some(100.0));
        assert_eq!(second.rate(0, "no such counter"), None);
        assert_eq!(second.count(0, "executed"), 300);
    }

    #[test]
    fn who_runs_now_is_known_from_before() {
        let mut later = answer();
        later["tasks"][1] = json!({"id": 2, "label": "0.2", "state": "running", "worker": 0, "nurseries": [], "frames": []});
        let second = Picture::read(&later, Some(picture()), Duration::from_secs(1)).unwrap();
        assert_eq!(
            (second.tasks[1].title(), second.tasks[1].nursery),
            ("0.2 miner".into(), Some(9))
        );
        assert_eq!(second.tasks[1].state, "running");
    }
}
