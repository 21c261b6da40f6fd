//! Errors of the `anyhow` crate, in both directions.

use anyhow::Context;
use parcae::Error;
use parcae::prelude::*;
use std::num::ParseIntError;

fn parse(text: &str) -> anyhow::Result<u16> {
    Ok(text.parse()?)
}

/// `?` in a function of the program that returns `anyhow::Result`.
fn out() -> anyhow::Result<u16> {
    let rt = Runtime::builder().deterministic(1).build()?;
    let sum = rt.run(|cx| {
        cx.nursery(|n| {
            let one = n.spawn(|_| parse("1").map_err(Error::from_anyhow))?;
            Ok(one.join()? + parse("2").map_err(Error::from_anyhow)?)
        })
    })?;
    Ok(sum)
}

#[test]
fn both_directions_by_question_mark() {
    assert_eq!(out().unwrap(), 3);
}

#[test]
fn an_error_of_the_program_keeps_its_type() {
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let error = rt.run(|_| parse("x").map_err(Error::from_anyhow)).unwrap_err();
    assert!(error.downcast_ref::<ParseIntError>().is_some());
    assert!(error.to_string().starts_with("invalid digit"), "{error}");
    let error = anyhow::Error::from(error);
    assert!(error.chain().any(|cause| cause.is::<ParseIntError>()));
    let error = Error::from_anyhow(error.context("counting"));
    assert!(error.downcast_ref::<ParseIntError>().is_some(), "there and back again");
    assert!(error.to_string().starts_with("counting: invalid digit"), "{error}");
    assert!(error.task().is_some());
}

#[test]
fn the_way_there_and_back_keeps_kind_task_and_contexts() {
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let error = rt.run(|cx| {
        cx.token().cancel();
        cx.checkpoint().map_err(|error| error.context("innermost"))
    });
    let there = anyhow::Error::from(error.unwrap_err()).context("middle").context("outermost");
    let texts: Vec<String> = there.chain().map(ToString::to_string).collect();
    assert_eq!(texts[..2], ["outermost", "middle"]);
    assert!(texts[2].starts_with("innermost (task "), "{texts:?}");
    assert_eq!(texts.len(), 4, "{texts:?}");
    let back = Error::from_anyhow(there);
    assert!(back.is_cancelled() && back.task().is_some());
    assert!(back.to_string().starts_with("outermost: middle: innermost: "), "{back}");
}

/// A context of an error that never was ours is its outermost text; the alternate form has all of
/// them.
#[test]
fn contexts_of_other_errors_are_their_causes() {
    let error = Error::from_anyhow(parse("x").context("reading the port").unwrap_err());
    assert_eq!(error.to_string(), "reading the port");
    assert_eq!(format!("{error:#}"), "reading the port: invalid digit found in string");
}

/// An error of the program that has one of ours as its source is the program's own.
#[test]
fn an_error_around_ours_is_not_ours() {
    #[derive(Debug)]
    struct Wrapped(Box<dyn std::error::Error + Send + Sync>);
    impl std::fmt::Display for Wrapped {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("wrapped")
        }
    }
    impl std::error::Error for Wrapped {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&*self.0)
        }
    }
    let wrapped = anyhow::Error::new(Wrapped(Error::msg("inside").into_std()));
    let error = Error::from_anyhow(wrapped);
    assert!(error.downcast_ref::<Wrapped>().is_some());
}
