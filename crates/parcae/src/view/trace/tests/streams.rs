//! Recording into files.

use super::chrome::check;
use super::*;
use std::path::PathBuf;

/// A file that is gone with the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        Temporary(std::env::temp_dir().join(format!("parcae-{}-{name}.json", std::process::id())))
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_file_has_everything_that_happened() {
    let file = Temporary::new("everything");
    for workers in [1, 3] {
        let rt = Runtime::builder().workers(workers).build().unwrap();
        calm_down(&rt);
        let streaming = rt.trace_to(&file.0, TraceOpts::new().events(1 << 16)).unwrap();
        (0..10).for_each(|seed| program(&rt, seed));
        calm_down(&rt);
        let streamed = streaming.stop().unwrap();
        assert_eq!((streamed.lost, streamed.left_out), (0, 0));
        let text = file.text();
        assert_eq!(streamed.bytes, text.len() as u64);
        let turns = check(&text)
            .iter()
            .filter(|e| e.text("ph") == "X" && e.number("pid") == 1.0 && e.get("args").is_some())
            .count();
        let executed: u64 = rt.stats().counters().executed;
        assert_eq!(turns as u64, executed);
    }
}

#[test]
fn a_virtual_run_can_be_recorded_into_a_file() {
    let file = Temporary::new("virtual");
    let rt = Runtime::builder().deterministic(9).workers(2).build().unwrap();
    let streaming = rt.trace_to(&file.0, TraceOpts::new()).unwrap();
    program(&rt, 9);
    let streamed = streaming.stop().unwrap();
    assert_eq!(streamed.events * 32, rt.event_log().len() as u64);
    check(&file.text());
}

#[test]
fn a_file_does_not_grow_beyond_its_bound() {
    let file = Temporary::new("bounded");
    let rt = Runtime::builder().workers(2).build().unwrap();
    let most = 20_000;
    let streaming = rt.trace_to(&file.0, TraceOpts::new().max_bytes(most)).unwrap();
    (0..20).for_each(|seed| program(&rt, seed));
    let streamed = streaming.stop().unwrap();
    assert!(streamed.left_out > 0 && streamed.bytes <= most, "{streamed:?}");
    let text = file.text();
    assert_eq!(streamed.bytes, text.len() as u64);
    let parsed = super::chrome::parse(&text);
    let other = parsed.get("otherData").unwrap();
    assert_eq!(other.number("left_out"), streamed.left_out as f64);
}

#[test]
fn what_is_overwritten_is_counted() {
    let file = Temporary::new("lossy");
    let rt = Runtime::builder().workers(1).build().unwrap();
    let streaming = rt.trace_to(&file.0, TraceOpts::new().events(64)).unwrap();
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..2 {
                n.spawn(|cx| (0..20_000).try_for_each(|_| cx.yield_now()))?;
            }
            Ok(())
        })
    })
    .unwrap();
    let streamed = streaming.stop().unwrap();
    assert!(streamed.lost > 0, "{streamed:?}");
    let parsed = super::chrome::parse(&file.text());
    assert_eq!(parsed.get("otherData").unwrap().number("lost_events"), streamed.lost as f64);
}

#[test]
fn a_file_that_cannot_be_made_is_an_error_and_leaves_nothing_on() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let nowhere = Temporary::new("no/such/folder");
    let error = rt.trace_to(&nowhere.0, TraceOpts::new()).unwrap_err();
    assert!(matches!(&error, TraceError::Io(_)) && error.to_string().contains("file"), "{error}");
    drop(rt.trace(TraceOpts::new()).unwrap());
}
