//! `parcae trace`: what is recorded from a program, and what is said of it.

mod attached;

use attached::{Folder, Program};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::{self, JoinHandle};

/// Two workers, three tasks: `TRACE` in the JSON that `Trace::write_chrome` writes. Times are in
/// microseconds.
const TRACE: &str = r##"{"traceEvents":[
{"ph":"M","name":"process_name","ts":0.000,"pid":1,"tid":0,"args":{"name":"workers"}},
{"ph":"M","name":"process_name","ts":0.000,"pid":2,"tid":0,"args":{"name":"tasks"}},
{"ph":"M","name":"thread_name","ts":0.000,"pid":1,"tid":0,"args":{"name":"other threads"}},
{"ph":"M","name":"thread_name","ts":0.000,"pid":1,"tid":1,"args":{"name":"worker 0"}},
{"ph":"M","name":"thread_name","ts":0.000,"pid":1,"tid":2,"args":{"name":"worker 1"}},
{"ph":"M","name":"thread_name","ts":0.000,"pid":1,"tid":3,"args":{"name":"worker 2"}},
{"ph":"X","name":"ready","ts":1000.000,"pid":2,"tid":1,"dur":500.000},
{"ph":"M","name":"thread_name","ts":1500.000,"pid":2,"tid":1,"args":{"name":"request #7"}},
{"ph":"X","name":"running","ts":1500.000,"pid":2,"tid":1,"dur":1000.000},
{"ph":"X","name":"request #7","ts":1500.000,"pid":1,"tid":1,"dur":1000.000,"args":{"task":"7","then":"waits"}},
{"ph":"X","name":"receive","ts":2500.000,"pid":2,"tid":1,"dur":6000.000},
{"ph":"M","name":"thread_name","ts":2500.000,"pid":2,"tid":2,"args":{"name":"request #8"}},
{"ph":"X","name":"running","ts":2500.000,"pid":2,"tid":2,"dur":500.000},
{"ph":"X","name":"request #8","ts":2500.000,"pid":1,"tid":1,"dur":500.000,"args":{"task":"8","then":"waits"}},
{"ph":"X","name":"time","ts":3000.000,"pid":2,"tid":2,"dur":2000.000},
{"ph":"X","name":"asleep","ts":1000.000,"pid":1,"tid":2,"dur":10000.000},
{"ph":"X","name":"wakes","ts":8500.000,"pid":1,"tid":0,"dur":0.000},
{"ph":"s","name":"wake","ts":8500.000,"pid":1,"tid":0,"cat":"wake","id":1,"args":{"by":"0","task":"7"}},
{"ph":"i","name":"timer","ts":5000.000,"pid":2,"tid":2,"s":"t"},
{"ph":"X","name":"running","ts":8500.000,"pid":2,"tid":3,"dur":2500.000},
{"ph":"X","name":"task #9","ts":8500.000,"pid":1,"tid":1,"dur":2500.000,"args":{"task":"9","then":"goes on"}}
],
"displayTimeUnit":"ns","otherData":{"lost_events":0,"left_out":0}}
"##;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn summary(folder: &Folder, trace: &str, args: &[&str]) -> Output {
    let file = folder.socket("trace.json");
    std::fs::write(&file, trace).unwrap();
    let mut command = folder.parcae();
    command.args(["trace", "summary"]).args(args).arg(&file).output().unwrap()
}

#[test]
fn a_summary_says_where_time_went() {
    let folder = Folder::new("summary");
    let output = summary(&folder, TRACE, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let expected = "\
10.0 ms of a trace

worker                              turns         running          asleep         between
worker 0                                3  4000.0 µs  40%     0.0 µs   0%  6000.0 µs  60%
worker 1                                0     0.0 µs   0%    10.0 ms 100%     0.0 µs   0%
and 1 that ran no task

tasks                               count         running           ready         waiting
task without a name                     1       2500.0 µs          0.0 µs          0.0 µs
request                                 2       1500.0 µs        500.0 µs       8000.0 µs
  receive                                                                       6000.0 µs
  time                                                                          2000.0 µs

longest waits  task                          for                       since
    6000.0 µs  request #7                    receive                   1500.0 µs
    2000.0 µs  request #8                    time                      2000.0 µs
";
    assert_eq!(text(&output.stdout), expected);

    let one = summary(&folder, TRACE, &["--json", "--waits", "1"]);
    let one: Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(one["span_us"], 10_000.0);
    assert_eq!(one["workers"][0]["running_us"], 4_000.0);
    assert_eq!(one["workers"].as_array().unwrap().len(), 2);
    assert_eq!(one["quiet_workers"], 1);
    assert_eq!(one["tasks"][1]["waiting_us"]["receive"], 6_000.0);
    assert_eq!(one["longest_waits"].as_array().unwrap().len(), 1);
    assert_eq!(one["longest_waits"][0]["task"], "request #7");
}

#[test]
fn a_summary_says_if_something_is_missing() {
    let folder = Folder::new("missing");
    let lossy = TRACE.replace("\"lost_events\":0", "\"lost_events\":1234");
    let output = summary(&folder, &lossy, &[]);
    let out = text(&output.stdout);
    assert!(out.contains("1 234 events were lost: the figures are too low\n"), "{out}");
}

#[test]
fn what_is_no_trace_is_refused() {
    let folder = Folder::new("refused");
    for wrong in ["", "{}", "[1,2]", &TRACE[..500], r#"{"traceEvents":7}"#] {
        let output = summary(&folder, wrong, &[]);
        assert_eq!(output.status.code(), Some(1), "{wrong}");
        let err = text(&output.stderr);
        assert!(err.contains(": not a trace of parcae; `parcae trace record` "), "{err}");
        assert!(output.stdout.is_empty());
    }
    let output = folder.parcae().args(["trace", "summary", "/nowhere/at.all"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(
        text(&output.stderr),
        "error: /nowhere/at.all: No such file or directory (os error 2)\n"
    );
}

/// A program that records, as far as the protocol goes. Returns what it was asked.
fn records(path: &Path, bytes: usize, lost: u64) -> JoinHandle<Vec<String>> {
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let hello = r#"{"parcae":"0.1.0","pid":7,"program":"bin/fake","workers":2,"may":[]}"#;
        let mut asked = Vec::new();
        for line in BufReader::new(stream.try_clone().unwrap()).lines() {
            let line = line.unwrap();
            match line.as_str() {
                "hello" => writeln!(stream, "{hello}").unwrap(),
                "trace stop" => {
                    writeln!(stream, r#"{{"bytes":{},"lost":{lost}}}"#, TRACE.len()).unwrap();
                    stream.write_all(&TRACE.as_bytes()[..bytes]).unwrap();
                    if bytes < TRACE.len() {
                        return asked; // and is gone
                    }
                }
                _ => writeln!(stream, r#"{{"ok":true}}"#).unwrap(),
            }
            asked.push(line);
        }
        asked
    })
}

fn record(folder: &Folder, args: &[&str]) -> (Command, std::path::PathBuf) {
    let file = folder.socket("out.json");
    let mut command = folder.parcae();
    command.args(["trace", "record", "-o"]).arg(&file).args(args);
    (command, file)
}

#[test]
fn what_a_program_records_is_kept_byte_for_byte() {
    let folder = Folder::new("record");
    let server = records(&folder.socket("7-0.sock"), TRACE.len(), 5);
    let (mut command, file) = record(&folder, &["--seconds", "0.1", "--events", "128"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), TRACE);
    let out = text(&output.stdout);
    assert!(out.starts_with(&format!("fake (pid 7): {} B in ", TRACE.len())), "{out}");
    assert!(
        out.contains("5 events were overwritten by later ones; --events, now 128, keeps more"),
        "{out}"
    );
    assert_eq!(server.join().unwrap(), ["hello", "trace start events=128", "trace stop"]);

    std::fs::remove_file(folder.socket("7-0.sock")).unwrap();
    let server = records(&folder.socket("7-0.sock"), TRACE.len(), 0);
    let (mut command, _) = record(&folder, &["--seconds", "0.1", "--json"]);
    let document: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!((&document["bytes"], &document["lost"]), (&TRACE.len().into(), &0.into()));
    server.join().unwrap();
}

#[test]
fn a_program_that_goes_leaves_what_there_is_and_no_empty_file() {
    let folder = Folder::new("goes");
    let server = records(&folder.socket("7-0.sock"), 100, 0);
    let (mut command, file) = record(&folder, &["--seconds", "0.1"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(text(&output.stderr), "error: fake (pid 7) has ended, or has closed its socket\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), TRACE[..100]);
    server.join().unwrap();

    std::fs::remove_file(folder.socket("7-0.sock")).unwrap();
    std::fs::remove_file(&file).unwrap();
    let server = records(&folder.socket("7-0.sock"), 0, 0);
    let (mut command, file) = record(&folder, &["--seconds", "0.1"]);
    assert_eq!(command.output().unwrap().status.code(), Some(4));
    assert!(!file.exists());
    server.join().unwrap();
}

#[test]
fn a_place_that_cannot_be_written_is_said_before_anything_is_recorded() {
    let folder = Folder::new("place");
    let server = records(&folder.socket("7-0.sock"), 0, 0);
    let output =
        folder.parcae().args(["trace", "record", "-o", "/nowhere/at.all"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "error: /nowhere/at.all: No such file or directory (os error 2)\n"
    );
    assert_eq!(server.join().unwrap(), ["hello"]);
}

#[test]
fn a_running_program_is_recorded_and_summed_up() {
    if attached::played() {
        return;
    }
    let program = Program::start("a_running_program_is_recorded_and_summed_up");
    let (mut command, file) = record(&program.folder, &["--seconds", "2"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut command = program.folder.parcae();
    let output = command.args(["trace", "summary", "--json"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let workers = summary["workers"].as_array().unwrap();
    assert!(workers.iter().any(|worker| worker["running_us"].as_f64() > Some(0.0)), "{summary:#}");
    assert_eq!(summary["missing_events"], 0);
    // The clock was there before: only what it does is known, not its name.
    let waits = summary["longest_waits"].as_array().unwrap();
    assert!(!waits.is_empty(), "the clock waits over and over: {summary:#}");
    assert!(waits.iter().all(|wait| wait["for"] == "time"), "{summary:#}");
}
