//! The JSON for Perfetto, parsed again and checked.

use super::*;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(HashMap<String, Json>),
}

impl Json {
    pub(super) fn get(&self, name: &str) -> Option<&Json> {
        let Json::Object(fields) = self else { panic!("no object: {self:?}") };
        fields.get(name)
    }

    pub(super) fn text(&self, name: &str) -> &str {
        let Some(Json::Text(text)) = self.get(name) else { panic!("no text {name}: {self:?}") };
        text
    }

    pub(super) fn number(&self, name: &str) -> f64 {
        let Some(Json::Number(number)) = self.get(name) else { panic!("no {name}: {self:?}") };
        *number
    }

    pub(super) fn list(&self, name: &str) -> &[Json] {
        let Some(Json::List(list)) = self.get(name) else { panic!("no list {name}") };
        list
    }
}

/// A strict parser: panics at what is no JSON.
pub(super) fn parse(text: &str) -> Json {
    let mut rest = text.trim_end();
    let value = value(&mut rest);
    assert!(rest.is_empty(), "something after the end: {rest:.40}");
    value
}

fn skip(rest: &mut &str) {
    *rest = rest.trim_start();
}

fn eat(rest: &mut &str, token: &str) -> bool {
    skip(rest);
    match rest.strip_prefix(token) {
        Some(after) => {
            *rest = after;
            true
        }
        None => false,
    }
}

fn value(rest: &mut &str) -> Json {
    if eat(rest, "{") {
        let mut fields = HashMap::new();
        while !eat(rest, "}") {
            assert!(fields.is_empty() || eat(rest, ","), "no comma: {rest:.40}");
            let Json::Text(name) = value(rest) else { panic!("no name: {rest:.40}") };
            assert!(eat(rest, ":"), "no colon: {rest:.40}");
            let value = value(rest);
            assert!(fields.insert(name, value).is_none(), "twice the same name");
        }
        return Json::Object(fields);
    }
    if eat(rest, "[") {
        let mut items = Vec::new();
        while !eat(rest, "]") {
            assert!(items.is_empty() || eat(rest, ","), "no comma: {rest:.40}");
            items.push(value(rest));
        }
        return Json::List(items);
    }
    for (word, value) in
        [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))]
    {
        if eat(rest, word) {
            return value;
        }
    }
    if eat(rest, "\"") {
        let mut text = String::new();
        let mut chars = rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    *rest = &rest[at + 1..];
                    return Json::Text(text);
                }
                '\\' => match chars.next().map(|next| next.1) {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('u') => {
                        let code: String = chars.by_ref().take(4).map(|next| next.1).collect();
                        let code = u32::from_str_radix(&code, 16).unwrap();
                        text.push(char::from_u32(code).unwrap());
                    }
                    Some(c @ ('"' | '\\')) => text.push(c),
                    other => panic!("escape {other:?}"),
                },
                c => {
                    assert!(c >= ' ', "control character");
                    text.push(c);
                }
            }
        }
        panic!("a text without end");
    }
    let end = rest.find(|c: char| !"+-.eE0123456789".contains(c)).unwrap_or(rest.len());
    let (number, after) = rest.split_at(end);
    *rest = after;
    Json::Number(number.parse().unwrap_or_else(|_| panic!("no number: {number} {after:.40}")))
}

/// The rules of a viewer: slices of a track do not overlap, arrows begin and end in slices, one
/// after the other; every track has a name. Returns all entries.
pub(super) fn check(text: &str) -> Vec<Json> {
    let file = parse(text);
    let entries = file.list("traceEvents").to_vec();
    let of = |phase: &'static str| entries.iter().filter(move |e| e.text("ph") == phase);
    let track = |e: &Json| (e.number("pid") as u64, e.number("tid") as u64);
    let nanos = |e: &Json, name: &str| (e.number(name) * 1000.0).round() as i64;
    let mut slices: HashMap<_, Vec<(i64, i64)>> = HashMap::new();
    for slice in of("X") {
        let from = nanos(slice, "ts");
        slices.entry(track(slice)).or_default().push((from, from + nanos(slice, "dur")));
    }
    for (track, slices) in &mut slices {
        slices.sort_unstable();
        for pair in slices.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "track {track:?}: {pair:?} overlap");
        }
    }
    let inside = |e: &Json| {
        let at = nanos(e, "ts");
        let slices = slices.get(&track(e)).map(Vec::as_slice).unwrap_or_default();
        slices.iter().any(|&(from, to)| from <= at && at <= to)
    };
    let mut begun = HashMap::new();
    for arrow in of("s") {
        assert!(inside(arrow), "{arrow:?} begins nowhere");
        assert!(begun.insert(arrow.number("id") as u64, nanos(arrow, "ts")).is_none());
    }
    for arrow in of("f") {
        assert!(inside(arrow), "{arrow:?} ends nowhere");
        let from = begun.remove(&(arrow.number("id") as u64)).expect("an arrow that did not begin");
        assert!(from <= nanos(arrow, "ts"), "an arrow into the past");
    }
    let known = ["X", "s", "f", "i", "M"];
    assert!(entries.iter().all(|e| known.contains(&e.text("ph"))));
    entries
}

pub(super) fn written(trace: &Trace) -> String {
    let mut out = Vec::new();
    trace.write_chrome(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn files_of_virtual_runs_are_well_formed() {
    for seed in 0..25 {
        let rt = Runtime::builder().deterministic(seed).workers(3).build().unwrap();
        let recording = rt.trace(TraceOpts::new()).unwrap();
        program(&rt, seed);
        let trace = recording.stop();
        let entries = check(&written(&trace));
        let turns = entries
            .iter()
            .filter(|e| e.text("ph") == "X" && e.number("pid") == 1.0 && e.get("args").is_some());
        assert_eq!(turns.count() as u64, trace.counts().executed, "a slice for each turn");
        let arrows = entries.iter().filter(|e| e.text("ph") == "s").count();
        let wakes = trace.events().filter(|e| matches!(e.what, What::Woken { .. })).count();
        assert_eq!(arrows, wakes, "an arrow for each wake-up");
        let names: Vec<_> = entries
            .iter()
            .filter(|e| e.text("ph") == "M")
            .map(|e| e.get("args").unwrap().text("name").to_owned())
            .collect();
        assert!(names.iter().any(|name| name.starts_with("sender 0 #")), "{names:?}");
        assert!(names.iter().any(|name| name.contains("tests.rs:")), "{names:?}");
        let same = Runtime::builder().deterministic(seed).workers(3).build().unwrap();
        let recording = same.trace(TraceOpts::new()).unwrap();
        program(&same, seed);
        assert!(written(&recording.stop()) == written(&trace), "seed {seed}: not the same file");
    }
}

#[test]
fn files_of_threads_are_well_formed() {
    for workers in [1, 2, 4] {
        let rt = Runtime::builder().workers(workers).build().unwrap();
        let recording = rt.trace(TraceOpts::new().events(1 << 15)).unwrap();
        (0..10).for_each(|seed| program(&rt, seed));
        calm_down(&rt);
        let trace = recording.stop();
        // A start is published together with its origin.
        let origin = |event: TraceEvent| match event.what {
            What::Started { spawned_at, .. } => spawned_at.is_some(),
            _ => true,
        };
        assert!(trace.events().all(origin), "a start without its origin");
        let entries = check(&written(&trace));
        let waits = ["receive", "its children", "time", "ready", "running"];
        for wait in waits {
            assert!(entries.iter().any(|e| e.text("name") == wait), "nothing waits for {wait}");
        }
    }
}

#[test]
fn what_is_missing_makes_no_nonsense() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let mut recording = rt.trace(TraceOpts::new().events(64)).unwrap();
    for seed in 0..20 {
        program(&rt, seed);
        let trace = recording.snapshot();
        let file = parse(&written(&trace));
        assert_eq!(file.get("otherData").unwrap().number("lost_events"), trace.lost() as f64);
    }
}
