//! `--evidence`, as a user runs it: its report, its raw logs, and what it says where the kernel
//! refuses counters.

use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// An empty folder for the report of one test.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn evidence(out: &Path, unpadded: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parcae-bench"));
    command.env_remove("PARCAE_BENCH_OUT");
    command.args(["--evidence", "--quick", "--unpadded", unpadded]).args(more);
    command.arg("--out").arg(out).arg("yield");
    command
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[track_caller]
fn success(output: &Output) {
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

/// The reading of this name.
fn reading<'v>(list: &'v Value, name: &str) -> &'v Value {
    let list = list.as_array().expect("a list of readings");
    list.iter().find(|reading| reading["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

// rule: S3-GOAL-8, S3-ACCT-6, S3-EVID-1, S3-EVID-2, S3-EVID-3, S3-EVID-6, S3-GATE-2
#[test]
fn each_case_has_clean_and_diagnostic_figures_and_all_logs_are_kept() {
    let folder = folder("evidence");
    let stale = folder.join("evidence/raw/stale.json");
    fs::create_dir_all(stale.parent().unwrap()).unwrap();
    fs::write(&stale, "of an earlier run").unwrap();
    let output = evidence(&folder, "/nowhere", &["--rounds", "2"]).output().unwrap();
    success(&output);
    let report = folder.join("evidence");
    assert_eq!(fs::read_to_string(report.join("evidence.txt")).unwrap(), text(&output.stdout));
    let document = json(&report.join("evidence.json"));
    assert!(document["conditions"]["kernel"].is_string());
    assert!(document["unpadded"]["absent"].as_str().unwrap().contains("/nowhere"));
    let cases = document["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 3);
    for case in cases {
        let name =
            format!("{}.{}", case["workload"].as_str().unwrap(), case["variant"].as_str().unwrap());
        for condition in ["plain", "recorded"] {
            let values = case["clean"][condition].as_array().unwrap();
            assert_eq!(values.len(), 2, "{name} {condition}");
            assert!(values.iter().all(|value| value.as_f64().is_some_and(|value| value > 0.0)));
        }
        assert!(case["event_bytes"].as_u64().unwrap() > 0, "a recorded yield is an event");
        assert!(case["clean"]["unpadded"].is_null());
        let found = &case["diagnostic"];
        assert!(found["runtime"]["counters"]["yielded"].as_u64().unwrap() > 0);
        assert_eq!(found["runtime"]["event_bytes"], 0, "counters are of a run without a recording");
        assert!(reading(&found["process"], "user_nanos")["value"].as_u64().is_some());
        assert!(reading(&found["process"], "minor_faults")["value"].as_u64().is_some());
        for machine in ["timer_interrupts", "tlb_shootdowns"] {
            let row = reading(&found["machine"], machine);
            assert!(row["value"].is_u64() || row["absent"].is_string(), "{row}");
        }
        let tlb = reading(&found["process"], "dtlb_load_misses");
        assert!(tlb["value"].is_u64() || tlb["absent"].is_string(), "{tlb}");
        for run in ["plain.1", "plain.2", "recorded.1", "recorded.2", "counters.1", "samples.1"] {
            let raw = json(&report.join(format!("raw/{name}.{run}.json")));
            assert!(raw["value"].as_f64().is_some_and(|value| value > 0.0), "{raw:#}");
        }
    }
    assert!(!stale.exists(), "a log of an earlier run was left");
    let report = text(&output.stdout);
    for line in ["clean       plain", "clean       recorded", "diagnostic  process", "noise "] {
        assert!(report.contains(line), "no {line:?} in {report}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// Samples are there or absent with a reason; where they are there, names are those of functions.
// rule: S3-EVID-4
#[test]
fn samples_name_functions_and_parts() {
    let folder = folder("evidence-samples");
    let output = evidence(&folder, "/nowhere", &["--json"]).output().unwrap();
    success(&output);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    for case in document["cases"].as_array().unwrap() {
        let samples = &case["diagnostic"]["samples"];
        if let Some(why) = samples["absent"].as_str() {
            assert!(!why.is_empty());
            continue;
        }
        let taken = samples["taken"].as_u64().unwrap();
        let parts = samples["parts"].as_object().unwrap();
        assert_eq!(parts.values().filter_map(Value::as_u64).sum::<u64>(), taken);
        let symbols = samples["symbols"].as_array().unwrap();
        assert!(symbols.iter().all(|symbol| symbol[0].is_string() && symbol[1].is_u64()));
        let named = |part: &str| symbols.iter().any(|s| s[0].as_str().unwrap().contains(part));
        assert!(taken < 20 || named("parcae"), "yields are time of the runtime: {samples:#}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// The system call is refused by a filter, as containers do it.
// rule: S3-EVID-3, S3-EVID-4
#[test]
fn a_refusal_is_reported_and_replaced_by_what_needs_no_permission() {
    let folder = folder("evidence-refused");
    let mut command = evidence(&folder, "/nowhere", &["--json", "--rounds", "1"]);
    // SAFETY: only system calls between fork and exec.
    unsafe { command.pre_exec(refuse_perf_events) };
    let output = command.output().unwrap();
    success(&output);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    for case in document["cases"].as_array().unwrap() {
        let process = &case["diagnostic"]["process"];
        for name in ["instructions", "cycles", "dtlb_load_misses"] {
            let why = reading(process, name)["absent"].as_str().unwrap();
            assert!(why.contains("not permitted"), "{why}");
        }
        for name in ["cpu_nanos", "minor_faults", "context_switches"] {
            let reading = reading(process, name);
            assert!(reading["value"].is_u64() && reading["source"] == "getrusage", "{reading}");
        }
        let why = case["diagnostic"]["samples"]["absent"].as_str().unwrap();
        assert!(why.contains("not permitted"), "{why}");
    }
    let report = fs::read_to_string(folder.join("evidence/evidence.txt")).unwrap();
    assert!(report.contains("diagnostic  samples   absent: not permitted"), "{report}");
    fs::remove_dir_all(&folder).unwrap();
}

/// Makes `perf_event_open` fail with `EACCES` in this process and its children.
fn refuse_perf_events() -> std::io::Result<()> {
    const LOAD: u16 = 0x20;
    const IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        step(LOAD, 0, 0, 0), // the number of the call
        step(IF_EQUAL, 0, 1, libc::SYS_perf_event_open as u32),
        step(RETURN, 0, 0, ERRNO | libc::EACCES as u32),
        step(RETURN, 0, 0, ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter lives until the calls return.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
    };
    if refused { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

// rule: S3-EVID-5
#[test]
fn a_program_with_padding_is_no_baseline_without_it() {
    let folder = folder("evidence-padding");
    let own = env!("CARGO_BIN_EXE_parcae-bench");
    let output = evidence(&folder, own, &["--rounds", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("has the wrong padding"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("failed      unpadded: "), "{}", text(&output.stdout));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn evidence_is_no_comparison_with_peers() {
    for other in [&["--peer", "tokio"][..], &["--floors"], &["--tsv"], &["--table"]] {
        let output = evidence(Path::new("/nowhere"), "/nowhere", other).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("cannot be used with"), "{}", text(&output.stderr));
    }
}
