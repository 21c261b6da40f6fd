//! Rows of tasks and nurseries: their order and their cells.

use super::model::{Nursery, Picture, Task};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Sort keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Number,
    Name,
    State,
    Age,
    Wait,
    Left,
}

impl Sort {
    pub(crate) const ALL: [Sort; 6] =
        [Sort::Number, Sort::Name, Sort::State, Sort::Age, Sort::Wait, Sort::Left];

    pub(crate) fn next(self) -> Sort {
        let at = Sort::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Sort::ALL[(at + 1) % Sort::ALL.len()]
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Sort::Number => "number",
            Sort::Name => "name",
            Sort::State => "state",
            Sort::Age => "age",
            Sort::Wait => "time waited",
            Sort::Left => "ops left",
        }
    }

    /// The most interesting come first: the oldest, the longest waiting, the least budget left.
    fn compare(self, a: &Task, b: &Task) -> Ordering {
        let waited = |task: &Task| task.wait.as_ref().map(|wait| wait.time);
        let ops = |task: &Task| {
            let ops = task.left.iter().find(|(name, _)| name == "ops");
            ops.map_or(u64::MAX, |(_, amount)| *amount)
        };
        let order = match self {
            Sort::Number => Ordering::Equal,
            // Tasks without a name come last.
            Sort::Name => (a.name.is_none(), &a.name).cmp(&(b.name.is_none(), &b.name)),
            Sort::State => a.state.cmp(&b.state),
            Sort::Age => b.age.cmp(&a.age),
            Sort::Wait => waited(b).cmp(&waited(a)),
            Sort::Left => ops(a).cmp(&ops(b)),
        };
        order.then(a.id.cmp(&b.id))
    }
}

/// The sort direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Tasks under the nurseries that they belong to.
    Tree,
    /// Tasks alone.
    Flat,
}

/// How the tasks are shown.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) sort: Sort,
    pub(crate) direction: Direction,
    pub(crate) layout: Layout,
    /// Show only rows that contain this, ignoring case.
    pub(crate) filter: String,
}

impl Default for Order {
    fn default() -> Order {
        let (sort, direction) = (Sort::Number, Direction::Forward);
        Order { sort, direction, layout: Layout::Tree, filter: String::new() }
    }
}

/// The identity of a row, which is stable when rows move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Task(u64),
    Nursery(u64),
}

/// A row.
#[derive(Debug, Clone)]
pub(crate) struct Row<'p> {
    depth: usize,
    pub(crate) what: What<'p>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum What<'p> {
    Task(&'p Task),
    Nursery(&'p Nursery),
}

pub(crate) const COLUMNS: [&str; 7] = ["TASK", "STATE", "WORKER", "AGE", "WAITED", "WAIT", "LEFT"];

impl Row<'_> {
    pub(crate) fn key(&self) -> Key {
        match self.what {
            What::Task(task) => Key::Task(task.id),
            What::Nursery(nursery) => Key::Nursery(nursery.id),
        }
    }

    /// A text for each of [`COLUMNS`].
    pub(crate) fn cells(&self) -> [String; 7] {
        let indent = "  ".repeat(self.depth);
        match self.what {
            What::Task(task) => {
                let wait = task.wait.as_ref();
                [
                    format!("{indent}{}", task.title()),
                    task.state.clone(),
                    task.worker.map_or_else(String::new, |worker| worker.to_string()),
                    task.age.map_or_else(String::new, rough),
                    wait.map_or_else(String::new, |wait| rough(wait.time)),
                    wait.map_or_else(String::new, |wait| wait.what.clone()),
                    amounts(&task.left),
                ]
            }
            What::Nursery(nursery) => {
                let mut about = format!("{} live", nursery.live);
                if nursery.suspended > 0 {
                    about += &format!(", {} out of budget", nursery.suspended);
                }
                let (state, left) = (nursery.state.to_lowercase(), amounts(&nursery.left));
                let title = format!("{indent}{}", nursery.title());
                [title, state, String::new(), String::new(), String::new(), about, left]
            }
        }
    }
}

/// The rows of a picture, from top to bottom.
pub(crate) fn rows<'p>(picture: &'p Picture, order: &Order) -> Vec<Row<'p>> {
    let mut tasks: Vec<&Task> = picture.tasks.iter().collect();
    tasks.sort_by(|a, b| match order.direction {
        Direction::Forward => order.sort.compare(a, b),
        Direction::Backward => order.sort.compare(b, a),
    });
    let filter = order.filter.to_lowercase();
    let row = |depth, what| Row { depth, what };
    match order.layout {
        Layout::Flat => {
            let flat = tasks.into_iter().map(|task| row(0, What::Task(task)));
            flat.filter(|row| matches(row, &filter)).collect()
        }
        Layout::Tree => with_ancestors(tree(&tasks), &filter),
    }
}

/// Tasks below their nurseries, and nurseries below their owners. Tasks without a known place are
/// at the root.
fn tree<'p>(tasks: &[&'p Task]) -> Vec<Row<'p>> {
    let open: HashSet<u64> =
        tasks.iter().flat_map(|task| &task.nurseries).map(|nursery| nursery.id).collect();
    let mut under: HashMap<u64, Vec<&'p Task>> = HashMap::new();
    let mut pending: Vec<Row<'p>> = Vec::new();
    for task in tasks {
        match task.nursery.filter(|nursery| open.contains(nursery)) {
            Some(nursery) => under.entry(nursery).or_default().push(task),
            None => pending.push(Row { depth: 0, what: What::Task(task) }),
        }
    }
    // Iterative, since the nesting depth is unbounded. The next row is the last pending one.
    pending.reverse();
    let mut rows = Vec::with_capacity(tasks.len());
    while let Some(row) = pending.pop() {
        let depth = row.depth + 1;
        match row.what {
            What::Task(task) => {
                let inner = task.nurseries.iter().map(What::Nursery);
                pending.extend(inner.rev().map(|what| Row { depth, what }));
            }
            What::Nursery(nursery) => {
                // Removed, so that a task that claims to be its own ancestor is shown once.
                let inner = under.remove(&nursery.id).unwrap_or_default().into_iter();
                pending.extend(inner.rev().map(|task| Row { depth, what: What::Task(task) }));
            }
        }
        rows.push(row);
    }
    rows
}

/// The matching rows and their ancestors.
fn with_ancestors<'p>(rows: Vec<Row<'p>>, filter: &str) -> Vec<Row<'p>> {
    let mut kept = Vec::new();
    // From the bottom up: a row is kept if a deeper row was kept after it, with no row of the same
    // depth between.
    let mut wanted = usize::MAX;
    for row in rows.into_iter().rev() {
        let ancestor = wanted != usize::MAX && row.depth < wanted;
        if ancestor || matches(&row, filter) {
            wanted = if row.depth == 0 { usize::MAX } else { row.depth };
            kept.push(row);
        }
    }
    kept.reverse();
    kept
}

/// Whether a row contains a text, which is in lower case.
fn matches(row: &Row<'_>, filter: &str) -> bool {
    filter.is_empty() || row.cells().iter().any(|cell| cell.to_lowercase().contains(filter))
}

/// A time in few characters.
pub(crate) fn rough(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        1..100 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 100..6_000 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

fn amounts(amounts: &[(String, u64)]) -> String {
    let texts: Vec<String> =
        amounts.iter().map(|(name, amount)| format!("{name} {}", short(*amount as f64))).collect();
    texts.join(", ")
}

/// A number in few characters.
pub(crate) fn short(number: f64) -> String {
    match number {
        n if n < 10_000.0 => format!("{n:.0}"),
        n if n < 10_000_000.0 => format!("{:.0}k", n / 1e3),
        n if n < 10_000_000_000.0 => format!("{:.0}M", n / 1e6),
        n => format!("{:.0}G", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::picture;
    use super::*;

    fn first_cells(order: &Order) -> Vec<String> {
        rows(&picture(), order).iter().map(|row| row.cells()[0].clone()).collect()
    }

    #[test]
    fn tasks_stand_under_their_nurseries() {
        let order = Order::default();
        assert_eq!(
            first_cells(&order),
            ["root.1 main", "  nursery tenant 0x9", "    0.2 miner", "0.3"]
        );
        let flat = Order { layout: Layout::Flat, ..order };
        assert_eq!(first_cells(&flat), ["root.1 main", "0.2 miner", "0.3"]);
    }

    #[test]
    fn every_column_sorts_both_ways() {
        let mut order = Order { layout: Layout::Flat, ..Order::default() };
        let expected = [
            (Sort::Number, "root.1 main"),
            (Sort::Name, "root.1 main"),
            (Sort::State, "0.2 miner"),
            (Sort::Age, "root.1 main"),
            (Sort::Wait, "root.1 main"),
            (Sort::Left, "0.2 miner"),
        ];
        for (sort, first) in expected {
            assert_eq!(order.sort, sort);
            let forward = first_cells(&order);
            assert_eq!(forward[0], first, "{sort:?}");
            order.direction = Direction::Backward;
            let mut backward = first_cells(&order);
            backward.reverse();
            assert_eq!(forward, backward, "{sort:?}");
            order = Order { direction: Direction::Forward, sort: sort.next(), ..order };
        }
        assert_eq!(order.sort, Sort::Number, "and round again");
    }

    #[test]
    fn what_matches_is_shown_with_what_it_stands_under() {
        let order = Order { filter: "OUT of OPS".into(), ..Order::default() };
        assert_eq!(first_cells(&order), ["root.1 main", "  nursery tenant 0x9", "    0.2 miner"]);
        let order = Order { filter: "running".into(), ..Order::default() };
        assert_eq!(first_cells(&order), ["0.3"]);
        let order = Order { filter: "tenant".into(), layout: Layout::Flat, ..order };
        assert!(first_cells(&order).is_empty());
    }

    #[test]
    fn who_claims_to_be_its_own_ancestor_is_shown_once_or_not_at_all() {
        let mut picture = picture();
        picture.tasks[0].nursery = Some(9); // of its own
        let rows = rows(&picture, &Order::default());
        assert_eq!(rows.len(), 1, "only the one with no known place");
    }

    #[test]
    fn cells_say_what_one_wants_to_know() {
        let picture = picture();
        let rows = rows(&picture, &Order::default());
        assert_eq!(
            rows[0].cells()[1..],
            ["waiting", "0", "61.5 s", "1.5 s", "for its children", ""]
        );
        assert_eq!(rows[1].cells()[1..], ["open", "", "", "", "2 live, 1 out of budget", "ops 0"]);
        assert_eq!(rows[2].cells()[6], "ops 0, memory 4096");
        assert_eq!(rows[3].cells()[1..], ["running", "1", "", "", "", ""]);
        assert_eq!(rough(Duration::from_secs(120)), "2 min");
        assert_eq!(rough(Duration::from_secs(7_300)), "2 h");
        assert_eq!((short(12_345.0), short(2e7)), ("12k".into(), "20M".into()));
    }
}
