//! Contexts and the chain of causes.

use super::*;
use std::fmt;

#[derive(Debug)]
struct Outer(std::num::ParseIntError);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no port")
    }
}

impl StdError for Outer {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

fn own() -> Error {
    Error::from(Outer("x".parse::<u16>().unwrap_err()))
}

/// All texts from an error down to its first cause.
fn chain(error: Error) -> Vec<String> {
    let error = error.into_std();
    let mut texts = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        texts.push(cause.to_string());
        next = cause.source();
    }
    texts
}

#[test]
fn contexts_stand_above_the_programs_own_error_and_its_causes() {
    let error = own().context("reading the settings").context("starting");
    let digits = "invalid digit found in string";
    assert_eq!(chain(error.clone()), ["starting", "reading the settings", "no port", digits]);
    let text = "starting: reading the settings: no port: invalid digit found in string";
    assert_eq!(error.to_string(), text);
    let lines = ["starting", "reading the settings", "no port", digits];
    assert_eq!(format!("{error:?}"), lines.join("\n  caused by: "));
    assert!(error.downcast_ref::<Outer>().is_some());
}

#[test]
fn contexts_stand_above_what_the_runtime_says() {
    let error = Error::cancelled(CancelReason::Timeout).context("waiting for the bus");
    assert!(error.is_cancelled());
    assert_eq!(chain(error), ["waiting for the bus", "cancelled: deadline exceeded"]);
}

#[test]
fn without_context_nothing_is_said_twice() {
    assert_eq!(format!("{:?}", own()), "no port\n  caused by: invalid digit found in string");
    assert_eq!(own().to_string(), "no port: invalid digit found in string");
}

/// Many errors print their cause themselves.
#[test]
fn a_cause_that_the_error_names_is_printed_once() {
    #[derive(Debug)]
    struct Naming(Outer);
    impl fmt::Display for Naming {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "cannot listen ({})", self.0)
        }
    }
    impl StdError for Naming {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.0)
        }
    }
    let error = Error::from(Naming(Outer("x".parse::<u16>().unwrap_err())));
    assert_eq!(error.to_string(), "cannot listen (no port): invalid digit found in string");
}

#[test]
fn contexts_survive_the_way_through_a_box() {
    let boxed = own().context("starting").into_std();
    let error = Error::from_boxed(boxed).context("again");
    assert_eq!(error.to_string(), "again: starting: no port: invalid digit found in string");
}

/// The first line contains the failure, not only its contexts.
#[test]
fn a_plain_text_names_the_failure() {
    let failed = crate::explore(0..3, |rt| {
        rt.run(|cx| cx.nursery(|n| n.spawn(|cx| cx.park())?.join())).map(drop)
    });
    let said = failed.unwrap_err().to_string();
    assert!(said.starts_with("failed with seed 0"), "{said}");
    assert!(said.contains("deadlock"), "{said}");
}

#[test]
fn a_context_does_not_make_it_another_failure() {
    let error = own();
    assert!(error.is_same(&error.clone().context("joining")));
}

#[test]
fn task_ids_say_where_a_task_was_spawned() {
    assert_eq!(TaskId(3 * TaskId::PER_WORKER + 41).to_string(), "3.41");
    assert_eq!(TaskId(TaskId::OUTSIDE + 5).to_string(), "root.5");
    assert_eq!(format!("{:?}", TaskId(7)), "TaskId(0.7)");
}
