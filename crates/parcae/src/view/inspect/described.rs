//! Described parts of a program in dumps, as lines of text and as JSON.

use super::TaskSnapshot;
use super::dump::left;
use crate::base::error::TaskId;
use crate::base::json::{JsonObject, string};
use crate::sched::Shared;
use crate::scope::described::{DescribedItem, DescribedParts, Description};
use std::fmt;

/// The most items of a part in a dump, and in the list of tasks for `top`.
pub(super) const IN_A_DUMP: usize = 10_000;
pub(super) const IN_A_LIST: usize = 500;

pub(in crate::view) fn of(shared: &Shared, most: usize) -> Vec<Description> {
    shared.part::<DescribedParts>().map_or_else(Vec::new, |parts| parts.read(most))
}

/// Writes the parts as a field of a JSON object.
pub(in crate::view) fn write(all: &mut JsonObject<'_>, parts: &[Description]) {
    all.list("parts", parts, |out, part| {
        let mut one = JsonObject::begin(out);
        one.text("title", &part.title);
        JsonObject::begin(one.field("figures")).numbers(part.figures.iter().copied()).end();
        one.list("items", &part.items, item_json).plain("left_out", part.left_out).end();
    });
}

fn item_json(out: &mut String, item: &DescribedItem) {
    let mut one = JsonObject::begin(out);
    one.plain("depth", item.depth).text("title", &item.title).text("state", &item.state);
    if let Some(task) = item.task {
        one.plain("task", task).text("label", &TaskId(task).to_string());
    }
    JsonObject::begin(one.field("figures")).numbers(item.figures.iter().copied()).end();
    one.list("notes", &item.notes, |out, note| string(out, note)).end();
}

/// Writes the parts as trees. The budget of an item is that of its task.
pub(super) fn print(
    f: &mut fmt::Formatter<'_>,
    parts: &[Description],
    tasks: &[TaskSnapshot],
) -> fmt::Result {
    for part in parts {
        writeln!(f, "{}{}", part.title, figures(": ", &part.figures))?;
        for item in &part.items {
            let DescribedItem { depth, title, state, figures: counted, .. } = item;
            write!(f, "{:indent$}{title}: {state}", "", indent = 2 + 2 * depth)?;
            write!(f, "{}", figures(", ", counted))?;
            if let Some(id) = item.task {
                let task = tasks.iter().find(|task| task.id.as_u64() == id);
                write!(f, ", task {}{}", TaskId(id), left(task.and_then(|task| task.budget)))?;
            }
            for note in &item.notes {
                write!(f, "; {note}")?;
            }
            writeln!(f)?;
        }
        if part.left_out > 0 {
            writeln!(f, "  and {} more", part.left_out)?;
        }
    }
    Ok(())
}

/// Figures with their names, behind this if there are any.
fn figures(before: &str, figures: &[(&str, u64)]) -> String {
    let named: Vec<_> = figures.iter().map(|(name, figure)| format!("{name} {figure}")).collect();
    if named.is_empty() { String::new() } else { format!("{before}{}", named.join(", ")) }
}
