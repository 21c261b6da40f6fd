//! `token_ring`: a ring of stations that is right in one order only.
//!
//! Each station reads the token of the station before it and passes on the next number. Nothing
//! makes a station wait for its predecessor, so that it may pass on an old number.
//!
//! Order that shows it: any in which a station runs before its predecessor. Kind: order. Tasks: 4.

use parcae::sync::{Event, Mutex};
use parcae::{Result, Runtime};

#[derive(Default)]
struct Station {
    token: Mutex<u32>,
    passed: Event,
}

fn pass(before: &Station, station: &Station) -> Result<()> {
    let token = *before.token.lock()?;
    *station.token.lock()? = token + 1;
    station.passed.set();
    Ok(())
}

fn wait_and_pass(before: &Station, station: &Station) -> Result<()> {
    before.passed.wait()?;
    pass(before, station)
}

fn run(rt: &Runtime, pass_on: fn(&Station, &Station) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let ring: [Station; 5] = Default::default();
        ring[0].passed.set();
        cx.nursery(|n| {
            for pair in ring.windows(2) {
                n.spawn(move |_| pass_on(&pair[0], &pair[1]))?;
            }
            Ok(())
        })?;
        assert_eq!(*ring[4].token.lock()?, 4, "the token has not gone round");
        Ok(())
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, pass)
}

/// A station waits for its predecessor.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, wait_and_pass)
}
