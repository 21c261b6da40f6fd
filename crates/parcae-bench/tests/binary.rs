//! The program as a user runs it. No test looks at how large a figure is.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parcae-bench"));
    command.env_remove("PARCAE_BENCH_OUT").env_remove("PARCAE_REQUIRE_TOOLS");
    command.args(args).output().expect("it starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

// rule: S0-PERF-1
#[test]
fn switch_prints_a_positive_figure_of_every_peer() {
    let output = bench(&["--quick", "--tsv", "switch"]);
    assert!(output.status.success(), "{}", text(&output.stderr));

    let mut peers = Vec::new();
    for line in text(&output.stdout).lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [workload, peer, _variant, value, unit] = fields[..] else {
            panic!("not five fields: {line:?}")
        };
        assert_eq!(workload, "switch");
        assert!(value.parse::<f64>().is_ok_and(|value| value > 0.0), "{line:?}");
        assert!(unit.starts_with("ns/"), "{line:?}");
        peers.push(peer);
    }
    for peer in ["parcae", "corosensei", "generator"] {
        assert!(peers.contains(&peer), "no figure of {peer}");
    }
    let conditions = text(&output.stderr);
    for line in ["cpu ", "kernel ", "compiler ", "date ", "rounds "] {
        assert!(conditions.lines().any(|l| l.starts_with(line)), "{conditions}");
    }
}

#[test]
fn yield_prints_a_positive_figure_of_every_scheduler() {
    let output = bench(&["--quick", "--rounds", "1", "--tsv", "yield"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Vec<&str>> =
        text(&output.stdout).lines().map(|line| line.split('\t').collect()).collect();
    for peer in ["parcae", "tokio", "async-executor", "may"] {
        for variant in ["t1", "t2", "t1000"] {
            let line = lines.iter().find(|line| line[..3] == ["yield", peer, variant]);
            let value = line.and_then(|line| line[3].parse::<f64>().ok());
            assert!(value.is_some_and(|value| value > 0.0), "{peer} {variant}: {line:?}");
        }
    }
}

/// A debug build is within the floors, too: they are far away.
// rule: S0-PERF-1, S0-PERF-2, S0-PERF-4
#[test]
fn floors_are_told_and_a_run_without_any_fails() {
    let output = bench(&["--quick", "--rounds", "1", "--tsv", "--floors", "switch"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("floors    0 of 1 broken"), "{}", text(&output.stderr));
    let output = bench(&["--quick", "--rounds", "1", "--tsv", "--floors", "stack"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("has one"), "{}", text(&output.stderr));
}

#[test]
fn a_pipe_gets_lines_and_the_flag_gives_a_table() {
    let lines = bench(&["--quick", "--rounds", "1", "--peer", "corosensei", "stack"]);
    assert!(lines.status.success(), "{}", text(&lines.stderr));
    let lines = text(&lines.stdout);
    assert!(lines.contains("stack\tcorosensei\tcold\t"), "{lines}");

    let table = bench(&["--quick", "--rounds", "1", "--table", "stack"]);
    assert!(table.status.success(), "{}", text(&table.stderr));
    let table = text(&table.stdout);
    assert!(table.starts_with("workload "), "{table}");
    assert!(table.contains('×'), "{table}");
}

#[test]
fn a_report_is_a_page_and_the_figures_beside_it() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report");
    let _ = std::fs::remove_dir_all(&folder);
    let path = folder.to_str().unwrap();
    let output = bench(&["--quick", "--rounds", "2", "--json", "--out", path, "switch"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("report.html"), "{}", text(&output.stderr));

    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    for field in ["cpu", "kernel", "compiler", "peers", "date"] {
        assert!(document["conditions"][field].is_string(), "{document:#}");
    }
    let figures = document["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 12, "four variants, three peers");
    for figure in figures {
        assert_eq!(figure["workload"], "switch");
        assert_eq!(figure["better"], "lower");
        assert_eq!(figure["samples"].as_array().unwrap().len(), 2);
        assert!(figure["median"].as_f64().is_some_and(|median| median > 0.0), "{figure:#}");
        assert!(figure["ratio_to_parcae"].is_f64(), "{figure:#}");
    }
    let quiet = document["noise"]["trusted"].as_bool().unwrap();
    assert_eq!(quiet, document["noise"]["reasons"].as_array().unwrap().is_empty());
    let targets = document["targets"].as_array().unwrap();
    assert_eq!(targets.len(), 3, "a floor and two goals");
    assert!(targets.iter().all(|target| target["pass"].is_boolean() || !quiet), "{targets:#?}");
    assert_eq!(document["failures"], Value::Array(vec![]));

    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&read("figures.json")).unwrap(), document);
    assert_eq!(read("figures.tsv").lines().count(), figures.len());
    let page = read("report.html");
    assert_eq!(page.matches("<svg").count(), 4, "a plot for each variant");
    assert_eq!(page.matches("<circle").count(), 2 * figures.len());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_report_that_cannot_be_written_is_named() {
    let output = bench(&["--quick", "--rounds", "1", "--out", "/proc/nowhere", "allocator"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/proc/nowhere"), "{}", text(&output.stderr));
}

#[test]
fn counting_names_what_is_missing() {
    let output = bench(&["count", "switch", "--baseline", "/nowhere.tsv"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    if !out.starts_with("skipped: ") {
        assert_eq!(output.status.code(), Some(1));
        assert!(err.contains("baseline /nowhere.tsv"), "{err}");
    }
    let output = bench(&["count", "swich"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("'switch'"), "{}", text(&output.stderr));
}

#[test]
fn the_filter_leaves_parcae_in() {
    let output = bench(&["--quick", "--rounds", "1", "--tsv", "--peer", "generator", "switch"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    assert!(lines.contains("\tparcae\t") && lines.contains("\tgenerator\t"), "{lines}");
    assert!(!lines.contains("corosensei"), "{lines}");
}

#[test]
fn the_list_measures_nothing() {
    let output = bench(&["--list"]);
    assert!(output.status.success());
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    let workloads = [
        "switch",
        "stack",
        "memory",
        "yield",
        "spawn_join",
        "nursery",
        "skynet",
        "checkpoint",
        "allocator",
        "cancel",
        "wake",
        "steal",
        "deque",
        "pingpong",
        "channel",
        "select",
        "herd",
        "blocking",
        "scale",
        "parked",
    ];
    for workload in workloads {
        assert!(text(&output.stdout).lines().any(|line| line.starts_with(workload)));
    }
    let list: Value = serde_json::from_slice(&bench(&["--list", "--json"]).stdout).unwrap();
    assert_eq!(list["variants"].as_array().unwrap().len(), text(&output.stdout).lines().count());
}

#[test]
fn unknown_names_are_answered_with_the_known_ones() {
    for (args, known) in [(&["swich"][..], "memory"), (&["--peer", "boost"][..], "corosensei")] {
        let output = bench(args);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(known), "{}", text(&output.stderr));
    }
}
