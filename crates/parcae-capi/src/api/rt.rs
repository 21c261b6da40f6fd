//! The runtime: start, configuration, shutdown.

use crate::decl::{Int, c_api};
use crate::global;
use crate::types::*;

c_api! {
    /// Starts the runtime. Calls that need a runtime start one with default settings. On failure
    /// the last error has the reason. During a shutdown it waits until the old runtime is gone.
    fn janus_rt_init(config: RuntimeConfig) -> () {
        global::init(expand(config.worker_count, config.deterministic_seed)).map(drop)
    }

    /// Ends the runtime: cancels the remaining tasks, waits for them, and ends the workers. Does
    /// nothing if there is no runtime. The next call that needs a runtime starts another, with
    /// default settings. Not allowed on a task or in a callback.
    fn janus_rt_shutdown() -> () {
        global::shutdown(None)
    }

    /// The runtime, which is started if there is none. NULL on failure.
    fn janus_rt_get() -> *mut Runtime {
        Ok(global::get()?.pointer().cast())
    }
}

/// The part of the header that does not change.
pub const FROZEN: &[crate::decl::Function] = FUNCTIONS;

/// A configuration in the frozen form, in full.
pub(crate) fn expand(worker_count: u32, deterministic_seed: u64) -> Config {
    let executor = if deterministic_seed == 0 { THREADS } else { DETERMINISTIC };
    Config { workers: worker_count, executor, seed: deterministic_seed, ..global::defaults() }
}

/// Functions beyond the frozen ones.
pub mod more {
    use super::*;
    use crate::api::nursery::Argument;
    use crate::boundary::sized;
    use crate::fault::Fault;
    use std::ffi::{c_char, c_void};

    c_api! {
        /// Starts the runtime with default settings. 0, or -1 on failure or if it runs already.
        fn janus_rt_init_default() -> Int {
            global::init(global::defaults()).map(|_| Int(0))
        }

        /// Whether the runtime runs: 1 or 0.
        fn janus_rt_is_running() -> Int {
            Ok(Int(global::running().is_ok().into()))
        }

        /// Fills a configuration with the defaults: the service profile, threads, nothing counted.
        fn parcae_config_init(config: *mut Config) -> Int {
            if config.is_null() {
                return Err(Fault::new(E_NULL, "a parcae_config is required, not NULL"));
            }
            // SAFETY: the caller's.
            unsafe { config.write(global::defaults()) };
            Ok(Int(0))
        }

        /// Starts the runtime; NULL: with default settings. 0, or -1 on failure or if it runs
        /// already.
        fn parcae_rt_init(config: *const Config) -> Int {
            // SAFETY: the caller's.
            let config = unsafe { sized(config)? };
            global::init(config.unwrap_or_else(global::defaults)).map(|_| Int(0))
        }

        /// The profile of the runtime, or -1 if there is none.
        fn parcae_rt_profile() -> Int {
            Ok(Int(global::running()?.profile as i32))
        }

        /// How many tasks have not ended. 0 if there is no runtime.
        fn parcae_rt_live_tasks() -> u64 {
            Ok(global::running()?.runtime.live_tasks())
        }

        /// How many workers run tasks, or -1 if there is no runtime.
        fn parcae_rt_workers() -> Int {
            Ok(Int(global::running()?.runtime.stats().workers.len() as i32))
        }

        /// Sets the function that is called when a worker of the current runtime is stuck: a task
        /// computes without a yield check, or blocks its thread, for a second or more. It is called
        /// once for each stall, on a thread of the runtime that runs no tasks, and must not wait
        /// for long. NULL is the default: the report is written to standard error. When this call
        /// has returned, the previous function is not running. The setting ends with the runtime.
        /// 0, or -1 if there is no runtime.
        fn parcae_rt_on_stall(callback: StallFn, arg: *mut c_void) -> Int {
            global::running()?.stall.set(callback, Argument::new(arg))?;
            Ok(Int(0))
        }

        /// The version of the library: major, minor and patch in two decimal digits each.
        /// PARCAE_VERSION is that of the header.
        fn parcae_version() -> Int {
            Ok(Int(crate::header::VERSION))
        }

        /// The same as a text.
        fn parcae_version_text() -> *const c_char {
            Ok(crate::header::VERSION_TEXT.as_ptr())
        }
    }
}
