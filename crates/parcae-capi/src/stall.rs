//! Stall reports for C.
//!
//! The runtime's monitor detects a worker that does not return from a task, and passes a report to
//! [`Stall`], which belongs to one runtime. Without a callback the report is written to standard
//! error, as in Rust, with the remedies that C has.
//!
//! A callback is called under the lock: when `parcae_rt_on_stall` has returned, the previous
//! callback is not running, and its argument may be freed. It runs on the monitor's thread, for
//! which a shutdown waits. So it runs under [`caller::serve`], and calls that would wait for either
//! are refused.

use crate::api::nursery::Argument;
use crate::caller;
use crate::fault::{Fault, number};
use crate::types::*;
use parcae::stall::{StallKind, StallReport};
use std::ffi::CString;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

/// The receiver of stall reports.
#[derive(Default)]
pub(crate) struct Stall {
    callback: Mutex<Option<(Callback, Argument)>>,
}

type Callback = unsafe extern "C" fn(*mut std::ffi::c_void, *const StallInfo);

impl Stall {
    /// Sets the callback; without one, reports go to standard error.
    pub(crate) fn set(&self, callback: StallFn, arg: Argument) -> Result<(), Fault> {
        if caller::current(|caller| caller.is_serving()) {
            return Err(Fault::argument("a callback cannot replace itself: do it elsewhere"));
        }
        *self.callback.lock().unwrap_or_else(PoisonError::into_inner) =
            callback.map(|callback| (callback, arg));
        Ok(())
    }

    /// Delivers a report. Called on the monitor's thread.
    pub(crate) fn tell(&self, report: &StallReport) {
        let (kind, remedy) = kind(report.kind);
        // The runtime's text, with C's remedy in place of Rust's.
        let mut plain = report.clone();
        let call = plain.blocked_in.take().and_then(|call| call.name);
        let remedy = match call {
            Some(call) => remedy.replace("in a system call", &format!("in {call}()")),
            None => remedy.into(),
        };
        let text = plain.to_string().replace(&report.kind.to_string(), &remedy);
        let callback = self.callback.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((call, arg)) = &*callback else {
            // In one write, so that no other output comes in between. A failure cannot be reported.
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
            return;
        };
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        let info = StallInfo {
            size: size_of::<StallInfo>(),
            kind,
            worker: report.worker as u32,
            task: report.task.as_ref().map_or(0, |task| number(task.id())),
            still_for_ns: report.still_for.as_nanos() as u64,
            text: text.as_ptr(),
        };
        // SAFETY: as the program has promised in `parcae_rt_on_stall`.
        caller::serve(|| unsafe { call(arg.get(), &raw const info) });
    }
}

fn kind(kind: StallKind) -> (i32, &'static str) {
    match kind {
        StallKind::Computing => (
            STALL_COMPUTING,
            "it computes without a yield check: call parcae_yield_check in its loops, or compile \
             it with -fsanitize-coverage=trace-pc and parcae_trace_pc.c",
        ),
        StallKind::Blocked => (
            STALL_BLOCKED,
            "it is blocked in a system call: hand such calls to parcae_blocking, or wait by \
             channels, parcae_mutex_lock and parcae_sleep_ns",
        ),
        StallKind::Starved => (
            STALL_STARVED,
            "it is ready to run, but the operating system gives it no processor: lower the load, \
             or parcae_config.workers",
        ),
        _ => (
            STALL_UNKNOWN,
            "it computes without a yield check (parcae_yield_check), or blocks its thread \
             (parcae_blocking)",
        ),
    }
}
