//! Parts of a program that describe themselves: trees of actors and others.

use super::model::Task;
use serde_json::Value;

/// A part in an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    title: String,
    figures: Vec<(String, u64)>,
    items: Vec<Item>,
    left_out: u64,
}

/// An item of a part.
#[derive(Debug, Clone, PartialEq)]
struct Item {
    depth: usize,
    title: String,
    state: String,
    task: Option<u64>,
    figures: Vec<(String, u64)>,
    notes: Vec<String>,
}

/// Reads the parts of an answer: none if the program has none, or is of an older version. `None` if
/// they are invalid.
pub(crate) fn read(json: &Value) -> Option<Vec<Part>> {
    match &json["parts"] {
        Value::Null => Some(Vec::new()),
        all => all.as_array()?.iter().map(Part::read).collect(),
    }
}

impl Part {
    fn read(json: &Value) -> Option<Part> {
        Some(Part {
            title: json["title"].as_str()?.to_owned(),
            figures: figures(&json["figures"])?,
            items: json["items"].as_array()?.iter().map(Item::read).collect::<Option<_>>()?,
            left_out: json["left_out"].as_u64()?,
        })
    }
}

impl Item {
    fn read(json: &Value) -> Option<Item> {
        let notes = json["notes"].as_array()?.iter().map(|note| note.as_str().map(str::to_owned));
        Some(Item {
            depth: usize::try_from(json["depth"].as_u64()?).ok()?,
            title: json["title"].as_str()?.to_owned(),
            state: json["state"].as_str()?.to_owned(),
            task: json["task"].as_u64(),
            figures: figures(&json["figures"])?,
            notes: notes.collect::<Option<_>>()?,
        })
    }

    /// The item in a line. Its budget is that of its task.
    fn line(&self, tasks: &[Task]) -> String {
        let mut line = format!("{}{}", "  ".repeat(self.depth + 1), self.title);
        line = format!("{line:<32}  {:<10}", self.state);
        line += &listed(&self.figures);
        let task = self.task.and_then(|id| tasks.iter().find(|task| task.id == id));
        if let Some(task) = task {
            line += &format!("  task {}", task.label);
            if !task.left.is_empty() {
                line += &format!("  left: {}", listed(&task.left).trim_start());
            }
        }
        for note in &self.notes {
            line += &format!("  {note}");
        }
        line.trim_end().to_owned()
    }
}

fn figures(json: &Value) -> Option<Vec<(String, u64)>> {
    json.as_object()?.iter().map(|(name, figure)| Some((name.clone(), figure.as_u64()?))).collect()
}

fn listed(figures: &[(String, u64)]) -> String {
    figures.iter().map(|(name, figure)| format!("  {name} {figure}")).collect()
}

/// Lines of the parts, each with at most `most` items. No line if there are no parts.
pub(crate) fn lines(parts: &[Part], tasks: &[Task], most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for part in parts {
        lines.push(format!("{}{}", part.title, listed(&part.figures)));
        lines.extend(part.items.iter().take(most).map(|item| item.line(tasks)));
        let more = part.left_out + part.items.len().saturating_sub(most) as u64;
        if more > 0 {
            lines.push(format!("  and {more} more"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::picture;
    use super::*;
    use serde_json::json;

    fn answer() -> Value {
        json!({"parts": [{"title": "actors `shop`", "figures": {"restarts left": 9}, "items": [
            {"depth": 0, "title": "supervisor", "state": "running", "task": 1, "figures": {},
             "notes": []},
            {"depth": 1, "title": "actor `till`", "state": "exhausted", "task": 2,
             "figures": {"incarnation": 2, "queued": 3}, "notes": ["last exit: failed"]},
        ], "left_out": 4}]})
    }

    #[test]
    fn items_stand_under_their_part_with_the_budget_of_their_task() {
        let parts = read(&answer()).unwrap();
        let lines = lines(&parts, &picture().tasks, 10);
        assert_eq!(lines[0], "actors `shop`  restarts left 9");
        assert!(lines[1].starts_with("  supervisor  ") && lines[1].contains("task root.1"));
        let till = "incarnation 2  queued 3  task 0.2  left: ops 0  memory 4096  last exit: failed";
        assert!(lines[2].starts_with("    actor `till`") && lines[2].ends_with(till), "{lines:?}");
        assert_eq!(lines[3], "  and 4 more");
        assert_eq!(super::lines(&parts, &[], 1)[2], "  and 5 more");
    }

    #[test]
    fn programs_without_parts_have_no_lines_and_invalid_ones_are_refused() {
        assert_eq!(read(&json!({})), Some(Vec::new()));
        assert!(lines(&[], &[], 10).is_empty());
        for broken in [json!({"parts": 7}), json!({"parts": [{"title": "x"}]})] {
            assert_eq!(read(&broken), None, "{broken}");
        }
    }
}
