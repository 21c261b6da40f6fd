//! The text of the report, made from its document.

use crate::report::significant;
use serde_json::Value;
use std::fmt::Write;

const HOW_TO_READ: &str = "\
clean       medians of processes in which nothing was watched; least and most in parentheses
diagnostic  measured while something was watched, or of the whole machine: it explains a figure, and
            is none. Counters cost time at each switch of threads, a sample is an interrupt.
recorded    the same with a recording of all events
unpadded    the same by a program whose words of different writers share cache lines";

/// The report, for people.
pub(super) fn text(document: &Value) -> String {
    let mut out = String::new();
    write(document, &mut out).expect("strings can be written to");
    out
}

fn write(document: &Value, out: &mut String) -> std::fmt::Result {
    writeln!(out, "{HOW_TO_READ}\n")?;
    for (name, value) in document["conditions"].as_object().into_iter().flatten() {
        writeln!(out, "{name:<12}{}", value.as_str().unwrap_or_default())?;
    }
    writeln!(out, "{:<12}{}", "noise", document["noise"]["text"].as_str().unwrap_or_default())?;
    writeln!(out, "{:<12}{}", "rounds", document["rounds"])?;
    if let Some(why) = document["unpadded"]["absent"].as_str() {
        writeln!(out, "{:<12}not measured: {why}", "unpadded")?;
    }
    for case in document["cases"].as_array().into_iter().flatten() {
        writeln!(out)?;
        write_case(case, out)?;
    }
    Ok(())
}

fn write_case(case: &Value, out: &mut String) -> std::fmt::Result {
    let word = |name: &str| case[name].as_str().unwrap_or_default().to_owned();
    let arrow = if case["better"] == "lower" { '↓' } else { '↑' };
    writeln!(
        out,
        "{} {}, {} {arrow}: {}",
        word("workload"),
        word("variant"),
        word("unit"),
        word("about")
    )?;
    let plain = Figure::of(&case["clean"]["plain"]);
    for name in ["plain", "recorded", "unpadded"] {
        let Some(figure) = Figure::of(&case["clean"][name]) else { continue };
        write!(out, "  clean       {name:<10}{}", figure.text())?;
        if let Some(plain) = plain.filter(|plain| name != "plain" && plain.median > 0.0) {
            write!(out, "  ×{}", significant(figure.median / plain.median, 3))?;
        }
        match (name, case["event_bytes"].as_u64()) {
            ("recorded", Some(0)) => write!(out, "  there were no events")?,
            ("recorded", Some(bytes)) => write!(out, "  {bytes} bytes of events")?,
            _ => {}
        }
        writeln!(out)?;
    }
    let found = &case["diagnostic"];
    line(out, "runtime", &runtime(&found["runtime"]))?;
    line(out, "process", &readings(&found["process"]))?;
    let steal = found["steal"].as_f64();
    let steal = steal.map_or("steal unknown".to_owned(), |s| format!("steal {:.1} %", 100.0 * s));
    line(out, "machine", &format!("{}, {steal}", readings(&found["machine"])))?;
    for (why, names) in absent(&found["process"]).into_iter().chain(absent(&found["machine"])) {
        line(out, "absent", &format!("{}: {why}", names.join(", ")))?;
    }
    samples(&found["samples"], out)?;
    for failure in case["failures"].as_array().into_iter().flatten() {
        writeln!(out, "  failed      {}", failure.as_str().unwrap_or_default())?;
    }
    Ok(())
}

fn line(out: &mut String, name: &str, text: &str) -> std::fmt::Result {
    writeln!(out, "  diagnostic  {name:<10}{text}")
}

/// Values of several rounds.
#[derive(Clone, Copy)]
struct Figure {
    median: f64,
    least: f64,
    most: f64,
}

impl Figure {
    fn of(values: &Value) -> Option<Figure> {
        let mut values: Vec<f64> = values.as_array()?.iter().filter_map(Value::as_f64).collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Figure { median: f64::midpoint(low, high), least, most })
    }

    fn text(self) -> String {
        let [median, least, most] = [self.median, self.least, self.most].map(|v| significant(v, 3));
        format!("{median} ({least}–{most})")
    }
}

/// The scheduler's own counters, without zeros.
fn runtime(runtime: &Value) -> String {
    let counters = runtime["counters"].as_object().into_iter().flatten();
    let counters = counters.filter(|(_, value)| value.as_u64() != Some(0));
    let counters: Vec<String> = counters.map(|(name, value)| format!("{name} {value}")).collect();
    match runtime["schedulers"].as_u64() {
        Some(0) => "no scheduler has run".to_owned(),
        _ if counters.is_empty() => "nothing was counted".to_owned(),
        _ => counters.join(", "),
    }
}

/// Values with their sources, where those are not the usual ones.
fn readings(readings: &Value) -> String {
    let one = |reading: &Value| {
        let (name, value) = (reading["name"].as_str()?, reading["value"].as_u64()?);
        let source = match reading["source"].as_str()? {
            "perf" | "/proc/interrupts" => String::new(),
            source => format!(" ({source})"),
        };
        Some(format!("{name} {value}{source}"))
    };
    let found: Vec<String> = readings.as_array().into_iter().flatten().filter_map(one).collect();
    if found.is_empty() { "nothing was counted".to_owned() } else { found.join(", ") }
}

/// Counters that are missing, by reason.
fn absent(readings: &Value) -> Vec<(&str, Vec<&str>)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for reading in readings.as_array().into_iter().flatten() {
        let (Some(why), Some(name)) = (reading["absent"].as_str(), reading["name"].as_str()) else {
            continue;
        };
        match reasons.iter_mut().find(|reason| reason.0 == why) {
            Some(reason) => reason.1.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    reasons
}

fn samples(samples: &Value, out: &mut String) -> std::fmt::Result {
    if let Some(why) = samples["absent"].as_str() {
        return line(out, "samples", &format!("absent: {why}"));
    }
    let Some(taken) = samples["taken"].as_u64() else {
        return line(out, "samples", "absent: the process failed");
    };
    let share = |count: &Value| 100.0 * count.as_u64().unwrap_or(0) as f64 / taken.max(1) as f64;
    let parts = samples["parts"].as_object().into_iter().flatten();
    let parts: Vec<String> =
        parts.map(|(part, count)| format!("{part} {:.0} %", share(count))).collect();
    let mut text = format!("{taken} at {} Hz: {}", samples["hertz"], parts.join(", "));
    if samples["kernel"] == false {
        text += "; the kernel could not be sampled";
    }
    if samples["full"] == true || samples["lost"].as_u64().is_some_and(|lost| lost > 0) {
        text += "; the ring was full, the end of the run is missing";
    }
    line(out, "samples", &text)?;
    for symbol in samples["symbols"].as_array().into_iter().flatten() {
        let name = symbol[0].as_str().unwrap_or_default();
        writeln!(out, "                {:5.1} %  {name}", share(&symbol[1]))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn case() -> Value {
        json!({
            "workload": "yield", "variant": "t2", "about": "two tasks", "unit": "ns/yield",
            "better": "lower",
            "clean": { "plain": [2.0, 4.0, 3.0], "recorded": [6.0], "unpadded": [3.3, 3.3] },
            "event_bytes": 4096,
            "diagnostic": {
                "steal": 0.025,
                "runtime": { "schedulers": 1, "counters": { "yielded": 12, "parked": 0 } },
                "process": [
                    { "name": "instructions", "absent": "not permitted" },
                    { "name": "cycles", "absent": "not permitted" },
                    { "name": "minor_faults", "value": 7, "source": "getrusage" },
                    { "name": "migrations", "value": 2, "source": "perf" },
                ],
                "machine": [{ "name": "tlb_shootdowns", "value": 3, "source": "/proc/interrupts" }],
                "samples": {
                    "hertz": 997, "taken": 200, "lost": 0, "full": false, "kernel": true,
                    "parts": { "kernel": 50, "runtime": 150 },
                    "symbols": [["parcae::step", 150], ["[kernel] futex", 50]],
                },
            },
            "failures": [],
        })
    }

    fn report(cases: Value) -> String {
        text(&json!({
            "conditions": { "cpu": "a processor" },
            "noise": { "text": "quiet" },
            "rounds": 3,
            "unpadded": { "absent": "there is no program" },
            "cases": cases,
        }))
    }

    #[track_caller]
    fn has(text: &str, line: &str) {
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.lines().any(|found| squeeze(found) == line), "no line {line:?} in\n{text}");
    }

    // rule: S3-ACCT-6, S3-EVID-5
    #[test]
    fn each_figure_says_whether_it_is_clean() {
        let text = report(json!([case()]));
        has(&text, "yield t2, ns/yield ↓: two tasks");
        has(&text, "clean plain 3.00 (2.00–4.00)");
        has(&text, "clean recorded 6.00 (6.00–6.00) ×2.00 4096 bytes of events");
        has(&text, "clean unpadded 3.30 (3.30–3.30) ×1.10");
        has(&text, "diagnostic runtime yielded 12");
        has(&text, "diagnostic process minor_faults 7 (getrusage), migrations 2");
        has(&text, "diagnostic machine tlb_shootdowns 3, steal 2.5 %");
        has(&text, "diagnostic absent instructions, cycles: not permitted");
        has(&text, "diagnostic samples 200 at 997 Hz: kernel 25 %, runtime 75 %");
        has(&text, "75.0 % parcae::step");
        has(&text, "unpadded not measured: there is no program");
        has(&text, "cpu a processor");
    }

    #[test]
    fn a_workload_without_a_scheduler_and_a_failed_one_say_so() {
        let mut case = case();
        case["event_bytes"] = json!(0);
        case["diagnostic"] = json!({
            "runtime": { "schedulers": 0, "counters": {} },
            "samples": { "absent": "not permitted" },
        });
        case["failures"] = json!(["counters: out of luck"]);
        let text = report(json!([case]));
        has(&text, "clean recorded 6.00 (6.00–6.00) ×2.00 there were no events");
        has(&text, "diagnostic runtime no scheduler has run");
        has(&text, "diagnostic process nothing was counted");
        has(&text, "diagnostic machine nothing was counted, steal unknown");
        has(&text, "diagnostic samples absent: not permitted");
        has(&text, "failed counters: out of luck");
    }

    #[test]
    fn samples_that_are_missing_are_mentioned() {
        let mut case = case();
        case["diagnostic"]["samples"]["full"] = json!(true);
        case["diagnostic"]["samples"]["kernel"] = json!(false);
        let text = report(json!([case]));
        assert!(text.contains("the kernel could not be sampled; the ring was full"), "{text}");
    }
}
