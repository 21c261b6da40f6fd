//! Sockets, files, pipes, processes and signals for the tasks of [`parcae`]: calls as in `std`,
//! which park the task instead of the thread.
//!
//! # A first server
//!
//! ```
//! use parcae::prelude::*;
//! use parcae_io::net::{TcpListener, TcpStream};
//! use std::io::{Read, Write};
//!
//! let rt = Runtime::builder().workers(2).build()?;
//! rt.run(|cx| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     cx.nursery(|n| {
//!         n.spawn(move |_| {
//!             let (mut stream, _) = listener.accept()?;
//!             let mut word = [0; 5];
//!             stream.read_exact(&mut word)?; // parks the task
//!             stream.write_all(&word)?;
//!             Ok(())
//!         })?;
//!         let mut client = TcpStream::connect(address)?;
//!         client.write_all(b"hello")?;
//!         let mut echo = String::new();
//!         client.read_to_string(&mut echo)?;
//!         assert_eq!(echo, "hello");
//!         Ok(())
//!     })
//! })?;
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! # Waiting
//!
//! The same call works in a task, where it parks the task, and outside of tasks, where it blocks
//! the thread. In a task every call
//!
//! - is a *cancel point*: it returns an error of which [`is_cancelled`] is true, at once, and has
//!   had no effect: no byte and no connection is lost. `?` turns that error back into the
//!   [`parcae::Error`] that it was;
//! - honours the deadlines of scopes ([`Cx::timeout`](parcae::Cx::timeout)) and its own
//!   (`set_read_timeout`, as in std, with the error `TimedOut`);
//! - is *charged*: one op and one syscall for an operation, one more for each full 64 KiB, two for
//!   a connect or an open, ten for a name, fifty for a process; the same whatever the kernel was
//!   asked, and nothing if it has not happened;
//! - shows in dumps: ``reading from `127.0.0.1:1234` ``.
//!
//! # The simulated network
//!
//! Under the deterministic executor ([`Builder::deterministic`](parcae::runtime::Builder)) the same
//! calls talk to a simulated network: [`sim`]. Latency and the sizes of reads and writes come from
//! the seed, so a whole service can be tested under many seeds, and a failure replayed.
//!
//! # Features
//!
//! All are off by default. `tls`: streams by rustls. `futures-io`, `tokio-io`, `hyper`, `http2` and
//! `tokio`: async crates, see [`compat`].
//!
//! # Limits
//!
//! Linux only. Names of hosts are resolved by `getaddrinfo` on the runtime's threads for
//! blocking calls; a question that was left by a cancelled task holds up the end of the runtime.

pub mod compat;
pub mod fs;
pub mod http;
pub mod net;
pub mod pipe;
pub mod process;
pub mod rate;
pub mod signal;
pub mod sim;
pub mod stdio;
#[cfg(feature = "tls")]
pub mod tls;

mod authority;
mod cost;
mod dns;
mod error;
mod poller;
mod shim;
mod source;
mod sys;

pub use error::is_cancelled;
