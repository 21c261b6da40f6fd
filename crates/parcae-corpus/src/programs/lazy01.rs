//! `lazy01`: a checker that assumes it comes before one of two updates.
//!
//! Two tasks add their part to a counter under its lock. A third one reads it, under the lock too,
//! and expects that at most one of the parts is there: nothing makes it so.
//!
//! Order that shows it: both updates come before the check. Kind: order. Tasks: 3.

use parcae::sync::{Event, Mutex};
use parcae::{Result, Runtime};

#[derive(Default)]
struct Parts {
    sum: Mutex<u32>,
    checked: Event,
}

impl Parts {
    fn add(&self, part: u32) -> Result<()> {
        *self.sum.lock()? += part;
        Ok(())
    }

    fn add_after_the_check(&self, part: u32) -> Result<()> {
        self.checked.wait()?;
        self.add(part)
    }

    fn check(&self) -> Result<()> {
        assert!(*self.sum.lock()? < 3, "both parts are there");
        self.checked.set();
        Ok(())
    }
}

fn run(rt: &Runtime, add_second: fn(&Parts, u32) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let parts = Parts::default();
        cx.nursery(|n| {
            n.spawn(|_| parts.add(1))?;
            n.spawn(|_| parts.check())?;
            n.spawn(|_| add_second(&parts, 2))?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Parts::add)
}

/// The second update waits for the check.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Parts::add_after_the_check)
}
