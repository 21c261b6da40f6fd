//! `kubernetes#70277`: a poller that ends with its caller's caller.
//!
//! A helper waits for a condition and checks it at each tick of a poller, a task of its own. It
//! gives the poller the stop token that it was called with. When the condition holds, the helper
//! returns, and the poller ticks on for as long as that token is not cancelled.
//!
//! Order that shows it: any. Kind: leak, time. Tasks: 2.

use parcae::channel::channel;
use parcae::prelude::*;
use parcae::{Result, Runtime};
use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(100);

/// Checks a condition at every tick until it holds. Gets the token that ends the poller.
fn wait_for<'s>(
    n: &'s Nursery<'s, '_>,
    poll_until: &CancelToken,
    mut condition: impl FnMut() -> bool,
) -> Result<()> {
    let (tick, ticks) = channel(1);
    let stop = poll_until.clone();
    n.spawn(move |_| {
        while !parcae::select! {
            cancelled(stop) -> _ => true,
            timeout(PERIOD) => false,
        }? {
            tick.try_send(()).ok(); // a tick that is not wanted is dropped
        }
        Ok(())
    })?;
    while !condition() {
        ticks.recv()?;
    }
    Ok(())
}

fn wait_with_the_token_of_the_caller<'s>(n: &'s Nursery<'s, '_>, stop: &CancelToken) -> Result<()> {
    let mut left = 3;
    wait_for(n, stop, || {
        left -= 1;
        left == 0
    })
}

fn wait_with_a_token_of_its_own<'s>(n: &'s Nursery<'s, '_>, stop: &CancelToken) -> Result<()> {
    let mut left = 3;
    let poller = stop.child();
    let waited = wait_for(n, &poller, || {
        left -= 1;
        left == 0
    });
    poller.cancel();
    waited
}

type Wait = for<'s, 'e> fn(&'s Nursery<'s, 'e>, &CancelToken) -> Result<()>;

fn run(rt: &Runtime, wait: Wait) -> Result<()> {
    rt.run(|cx| {
        let stop = CancelToken::new();
        cx.nursery(|n| wait(n, &stop))
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, wait_with_the_token_of_the_caller)
}

/// The poller has a token of its own, which the helper cancels.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, wait_with_a_token_of_its_own)
}
