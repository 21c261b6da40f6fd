//! The tenants of a program: the share that each is due, could have, and got.

use super::rows::short;
use serde_json::Value;

/// The columns behind the name.
const HEADINGS: [&str; 8] =
    ["weight", "wanted", "feasible", "got", "ops", "turns", "preempted", "queued"];
/// The width of the column for names; longer ones move the others of their line.
const NAME: usize = 22;
/// Feasible shares that differ by less are called whole.
const WHOLE: f64 = 0.005;

/// A tenant in an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tenant {
    name: String,
    number: u64,
    parent: u64,
    weight: u64,
    open: u64,
    queued: u64,
    ops: u64,
    turns: u64,
    preempted: u64,
    wanted: f64,
    feasible: f64,
    got: f64,
}

impl Tenant {
    fn read(json: &Value) -> Option<Tenant> {
        let count = |field: &str| json[field].as_u64();
        let share = |field: &str| json[field].as_f64();
        Some(Tenant {
            name: json["tenant"].as_str()?.to_owned(),
            number: count("number")?,
            parent: count("parent")?,
            weight: count("weight")?,
            open: count("open")?,
            queued: count("queued")?,
            ops: count("ops")?,
            turns: count("turns")?,
            preempted: count("preempted")?,
            wanted: share("wanted")?,
            feasible: share("feasible")?,
            got: share("got")?,
        })
    }

    /// The difference between weight and outcome, in a word.
    fn note(&self) -> &'static str {
        match self {
            _ if self.open == 0 => "closed",
            _ if self.feasible == 0.0 => "idle",
            _ if self.feasible + WHOLE < self.wanted => "cut: ready on too few workers",
            _ => "",
        }
    }

    fn line(&self, depth: usize) -> String {
        let percent = |share: f64| format!("{:.1}%", 100.0 * share);
        let cells = [
            self.weight.to_string(),
            percent(self.wanted),
            percent(self.feasible),
            percent(self.got),
            short(self.ops as f64),
            short(self.turns as f64),
            short(self.preempted as f64),
            short(self.queued as f64),
        ];
        let name = format!("{}{}", "  ".repeat(depth), self.name);
        format!("{}  {}", columns(&name, &cells), self.note()).trim_end().to_owned()
    }
}

/// Reads the tenants of an answer: none if the program has none, or is of an older version. `None`
/// if they are invalid.
pub(crate) fn read(json: &Value) -> Option<Vec<Tenant>> {
    match &json["tenants"] {
        Value::Null => Some(Vec::new()),
        all => all.as_array()?.iter().map(Tenant::read).collect(),
    }
}

fn columns<T: AsRef<str>>(name: &str, cells: &[T; 8]) -> String {
    let cells = cells.iter().map(|cell| format!("{:>10}", cell.as_ref()));
    format!("{name:<NAME$}{}", cells.collect::<String>())
}

/// Lines of a table of tenants, the heading first: each under the one that it was opened in. No
/// line if there are no tenants; at most `most` tenants.
pub(crate) fn lines(tenants: &[Tenant], most: usize) -> Vec<String> {
    if tenants.is_empty() {
        return Vec::new();
    }
    let mut ordered = Vec::new();
    for (at, tenant) in tenants.iter().enumerate() {
        // Also those whose parent is closed and forgotten.
        let has_parent = tenants.iter().any(|other| is_inside(tenant, other));
        if !has_parent {
            order(tenants, at, 0, &mut ordered);
        }
    }
    let mut lines = vec![columns("tenant", &HEADINGS)];
    lines.extend(ordered.iter().take(most).map(|&(at, depth)| tenants[at].line(depth)));
    if tenants.len() > most {
        lines.push(format!("and {} more", tenants.len() - most));
    }
    lines
}

/// Whether a tenant was opened in this one. Number 0 stands for all tasks without a tenant.
fn is_inside(tenant: &Tenant, outer: &Tenant) -> bool {
    outer.number != 0 && tenant.number != outer.number && tenant.parent == outer.number
}

fn order(tenants: &[Tenant], at: usize, depth: usize, ordered: &mut Vec<(usize, usize)>) {
    ordered.push((at, depth));
    // A program cannot make this endless.
    if depth > tenants.len() {
        return;
    }
    for inner in (0..tenants.len()).filter(|&inner| is_inside(&tenants[inner], &tenants[at])) {
        order(tenants, inner, depth + 1, ordered);
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Picture;
    use super::super::model::tests::answer;
    use super::*;
    use parcae::policy::Weight;
    use parcae::prelude::*;
    use serde_json::json;
    use std::time::Duration;

    /// The answer of a runtime with two tenants, one of which has another inside.
    fn answered() -> Value {
        let rt = Runtime::builder().deterministic(3).workers(1).build().unwrap();
        let share =
            |name: &str, weight| NurseryOpts::new().name(name).share(Weight::new(weight).unwrap());
        let dump = rt.run(|cx| {
            cx.nursery_with(share("gold", 3072), |n| {
                n.spawn(|cx| {
                    cx.nursery_with(share("mine", 512), |n| {
                        n.spawn(|cx| (0..20_000).try_for_each(|_| cx.checkpoint()))?;
                        Ok(())
                    })
                })?;
                cx.sleep(Duration::from_micros(50))?;
                Ok(rt.dump())
            })
        });
        serde_json::from_str(&dump.unwrap().to_json()).unwrap()
    }

    #[test]
    fn tenants_stand_under_those_that_opened_them() {
        let picture = Picture::read(&answered(), None, Duration::ZERO).unwrap();
        let lines = lines(&picture.tenants, 8);
        let first = |line: &String| line.get(..14).unwrap_or(line).trim_end().to_owned();
        let names: Vec<String> = lines.iter().map(first).collect();
        assert_eq!(names, ["tenant", "(no tenant)", "gold", "  mine"], "{lines:#?}");
        // Weights 1024 and 3072.
        let words: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(words[1..3], ["3072", "75.0%"], "{lines:#?}");
        assert!(lines[3].contains("512"), "{lines:#?}");
    }

    #[test]
    fn shares_that_cannot_be_had_are_explained() {
        let mut all = answered();
        let tenants = &mut all["tenants"];
        tenants[1]["wanted"] = json!(0.75);
        tenants[1]["feasible"] = json!(0.5);
        (tenants[2]["open"], tenants[2]["feasible"]) = (json!(1), json!(0.0));
        let read = read(&all).unwrap();
        let shown = lines(&read, 8);
        assert!(shown[2].ends_with("cut: ready on too few workers"), "{shown:#?}");
        assert!(shown[3].ends_with("idle"), "{shown:#?}");
        let few = lines(&read, 1);
        assert_eq!((few.len(), few[2].as_str()), (3, "and 2 more"), "{few:#?}");
    }

    #[test]
    fn programs_without_tenants_have_no_table_and_invalid_ones_are_refused() {
        assert_eq!(lines(&read(&answer()).unwrap(), 8), [""; 0]);
        for broken in [json!({"tenants": 7}), json!({"tenants": [{"tenant": "x"}]})] {
            assert_eq!(read(&broken), None, "{broken}");
        }
        // Each claims to be inside of the other.
        let mut all = answered();
        all["tenants"][1]["parent"] = json!(2);
        all["tenants"][2]["parent"] = json!(1);
        assert!(lines(&read(&all).unwrap(), 8).len() <= 9);
    }
}
