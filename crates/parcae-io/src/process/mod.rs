//! Child processes, as in `std::process`.
//!
//! ```
//! use parcae::prelude::*;
//! use parcae_io::process::Command;
//!
//! let rt = Runtime::builder().build()?;
//! rt.run(|_| {
//!     let output = Command::new("echo").arg("hello").output()?;
//!     assert!(output.status.success());
//!     assert_eq!(output.stdout, b"hello\n");
//!     Ok(())
//! })?;
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! # How a task waits for a child
//!
//! The child has a *pidfd*, a descriptor that becomes readable when the child ends: the poller
//! waits for it as for a socket. There is no handler for SIGCHLD, which other libraries may want.
//! The number of a child that was not waited for is not given to another process, so the pidfd is
//! that of the child; its status is taken by the same `Child`, once.
//!
//! A child is started on a thread of the pool for blocking calls, because the call copies the page
//! tables of the parent. It gets the default signal mask and the default action of SIGPIPE.
//!
//! Starting costs 50 ops and syscalls, waiting 1.
//!
//! Under the deterministic executor children are scripted: [`sim::set_program`](crate::sim).

mod child;
mod command;

pub use child::{Child, ChildStderr, ChildStdin, ChildStdout};
pub use command::{Command, OnDrop, Stdio};
pub use std::process::{ExitStatus, Output};
