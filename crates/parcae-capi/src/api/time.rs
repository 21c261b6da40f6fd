//! Time.

use crate::decl::{Status, c_api};
use crate::global;
use crate::types::OK;
use std::time::Duration;

c_api! {
    /// Sleeps. On a task the task is parked, and the sleep is a cancel point; elsewhere the thread
    /// sleeps.
    fn parcae_sleep_ns(nanoseconds: u64) -> Status {
        let time = Duration::from_nanos(nanoseconds);
        match global::driven() {
            Some(global) => global.wait(move || parcae::time::sleep(time))??,
            None => parcae::time::sleep(time)?,
        }
        Ok(Status(OK))
    }
}
