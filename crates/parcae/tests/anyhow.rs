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
            let one = n.spawn(|_| Ok(parse("1")?))?;
            Ok(one.join()? + parse("2")?)
        })
    })?;
    Ok(sum)
}

#[test]
fn both_directions_by_question_mark() {
    assert_eq!(out().unwrap(), 3);
}

/// The conversion of other errors is the same with the feature as without it.
#[test]
fn standard_errors_are_converted_as_without_the_feature() {
    fn generic<E: std::error::Error + Send + Sync + 'static>(error: E) -> Error {
        error.into()
    }
    fn ours(cx: &Cx) -> parcae::Result<()> {
        cx.charge(Budget::ZERO.with_syscalls(1))?;
        let (tx, _) = parcae::channel::channel(0);
        Ok(tx.try_send(1)?)
    }
    let error = generic("x".parse::<u16>().unwrap_err());
    assert!(error.downcast_ref::<ParseIntError>().is_some());
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let error = rt.run(ours).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ChannelClosed), "{error}");
    let short = { Budget::ZERO }.charge(Budget::OP).unwrap_err();
    assert!(matches!(Error::from(short).kind(), ErrorKind::BudgetExceeded(_)));
}

#[test]
fn an_error_of_the_program_keeps_its_type() {
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let error = rt.run(|_| Ok(parse("x")?)).unwrap_err();
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

#[test]
fn contexts_of_other_errors_are_printed_with_their_causes() {
    let error = Error::from_anyhow(parse("x").context("reading the port").unwrap_err());
    assert_eq!(error.to_string(), "reading the port: invalid digit found in string");
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
