//! `grpc#660`: the result of a helper that its caller does not wait for any more.
//!
//! A benchmark starts a helper for each call and waits for its result or for the stop signal. The
//! results go through a rendezvous channel that lives as long as the benchmark. If the signal
//! wins, the helper offers its result for ever.
//!
//! Order that shows it: the stop signal comes before the result. Kind: leak. Tasks: 3.

use parcae::channel::channel;
use parcae::prelude::*;
use parcae::{Result, Runtime};

fn run(rt: &Runtime, capacity: usize) -> Result<()> {
    rt.run(|cx| {
        let (result, results) = channel(capacity);
        let stop = CancelToken::new();
        cx.nursery(|n| {
            n.spawn(|_| {
                let mut calls = 0;
                loop {
                    let result = &result;
                    n.spawn(move |_| Ok(result.send(calls * 2)?))?;
                    calls += 1;
                    let stopped = parcae::select! {
                        recv(results) -> answer => answer? < 0 || calls == 2,
                        cancelled(stop) -> _ => true,
                    }?;
                    if stopped {
                        return Ok(());
                    }
                }
            })?;
            n.spawn(|_| {
                stop.cancel();
                Ok(())
            })?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, 0)
}

/// The channel has room for the result that is not waited for.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, 1)
}
