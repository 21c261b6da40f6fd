//! The lab finds each bug of the corpus, and nothing in the repairs. Seeds are fixed: a run is
//! always the same.

use parcae::lab::Explore;
use parcae_corpus::{CORPUS, Entry};
use std::time::Duration;

/// The lab at its defaults, with a bound that a loaded machine does not reach.
fn lab(schedules: u64) -> Explore {
    Explore::new().schedules(schedules).time(Duration::from_secs(600)).seed(1)
}

/// All programs, so that one test names every program that misbehaves.
fn each(check: impl Fn(&Entry) -> Result<(), String>) {
    let complaint = |entry: &Entry| Some(format!("{}: {}", entry.name, check(entry).err()?));
    let complaints: Vec<String> = CORPUS.iter().filter_map(complaint).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn every_bug_is_found_as_the_failure_that_it_is() {
    each(|entry| match lab(5_000).run(entry.buggy) {
        Ok(_) => Err("not found".into()),
        Err(failure) if failure.kind() == entry.failing => Ok(()),
        Err(failure) => Err(format!("found as {:?}: {failure}", failure.kind())),
    });
}

#[test]
fn no_schedule_of_a_repair_fails() {
    each(|entry| match lab(200).run(entry.fixed) {
        Ok(report) if report.schedules == 200 => Ok(()),
        Ok(report) => Err(format!("{} schedules", report.schedules)),
        Err(failure) => Err(failure.to_string()),
    });
}

#[test]
fn names_are_unique() {
    for (at, entry) in CORPUS.iter().enumerate() {
        assert!(CORPUS[..at].iter().all(|other| other.name != entry.name), "{}", entry.name);
    }
}
