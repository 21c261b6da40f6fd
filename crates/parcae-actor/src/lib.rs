//! Actors and supervisors on the tasks of Parcae.
//!
//! An actor is a task with a mailbox: it handles one message at a time, in ordinary code that may
//! wait. A supervisor starts actors, and starts them again when they fail. Both live in a nursery,
//! so no actor outlives the call that opened its system, and actors may borrow from around it.
//!
//! ```
//! use parcae::prelude::*;
//! use parcae::profile::Cluster;
//! use parcae_actor::{Actor, ActorCx, ActorOpts, Actors, ActorsOpts, Next, Reply};
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use std::time::Duration;
//!
//! enum Msg {
//!     Add(u64),
//!     Get(Reply<u64>),
//! }
//!
//! struct Counter<'a> {
//!     log: &'a AtomicU64, // borrowed from the caller
//!     count: u64,
//! }
//!
//! impl Actor for Counter<'_> {
//!     type Msg = Msg;
//!
//!     fn handle(&mut self, _cx: &mut ActorCx<'_, Msg>, msg: Msg) -> parcae::Result<Next> {
//!         match msg {
//!             Msg::Add(n) => self.count += n,
//!             Msg::Get(reply) => reply.send(self.count),
//!         }
//!         self.log.fetch_add(1, Ordering::Relaxed);
//!         Ok(Next::Continue)
//!     }
//! }
//!
//! let handled = AtomicU64::new(0);
//! let rt = Runtime::builder().profile::<Cluster>().build()?;
//! let count = rt.run(|cx| {
//!     cx.actors(ActorsOpts::new(), |system| {
//!         let opts = ActorOpts::new("counter");
//!         let counter = system.start(opts, |_| Ok(Counter { log: &handled, count: 0 }))?;
//!         counter.tell(Msg::Add(2))?;
//!         counter.tell(Msg::Add(3))?;
//!         Ok(counter.call(Duration::from_secs(1), Msg::Get)?)
//!     })
//! })?; // all actors have ended
//! assert_eq!((count, handled.into_inner()), (5, 3));
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! Only the [`Cluster`](parcae::profile::Cluster) profile has actors; elsewhere `cx.actors` does
//! not compile:
//!
//! ```compile_fail,E0599
//! use parcae::prelude::*;
//! use parcae_actor::{Actors, ActorsOpts};
//!
//! let rt = Runtime::builder().build().unwrap();
//! rt.run(|cx| cx.actors(ActorsOpts::new(), |_| Ok(()))).unwrap();
//! ```
//!
//! # Where to find things
//!
//! | subject | names |
//! |---|---|
//! | open and end a system | [`Actors::actors`], [`System`] |
//! | write an actor | [`Actor`], [`ActorCx`], [`Next`], [`Event`] |
//! | reach it | [`Address`]: `tell`, `call`, `stop`; [`Reply`] |
//! | switch its behaviour | [`Machine`] |
//! | bound its mailbox | [`Mailbox`] |
//! | start it again | [`Supervise`], [`Child`], [`Restart`], [`Backoff`] |
//! | start many while the program runs | [`System::dynamic`], [`Dynamic`] |
//! | recharge its budget | [`Recharge`], [`Exhausted`] |
//! | bound the ops of a message | [`ActorOpts::message_ops`], [`Overrun`] |
//! | see the tree | [`Runtime::dump`](parcae::Runtime::dump), `parcae top` |
//! | hear of its end | [`ActorCx::monitor`], [`Address::watch`], [`Exit`] |
//! | find it, address many | [`System::find`], [`System::group`] |
//! | messages that no handler saw | [`System::dead_letters`] |
//! | weaker addresses, and their refusals | [`System::audit`] |
//!
//! # Two lanes
//!
//! A mailbox has two lanes. Messages take the user lane, which is bounded. Events of the system
//! (stop, the end of a monitored actor, timers) take a lane of their own: it cannot be full, it
//! allocates nothing when an event is delivered, and it is served first.

mod actor;
mod address;
mod audit;
mod clock;
mod desk;
mod exit;
mod group;
mod letters;
mod life;
mod machine;
mod mailbox;
mod monitor;
mod opts;
mod overrun;
mod posture;
mod recharge;
mod shim;
mod slot;
mod supervisor;
mod system;
mod timers;
mod tree;

pub use actor::{Actor, ActorCx, Birth, Event, Next};
pub use address::{Address, CallError, Refusal, Reply, TellError};
pub use audit::{AddressAudit, AddressEvent, AddressLimit, AddressRecord};
pub use exit::{Exit, ExitKind};
pub use group::Group;
pub use letters::{DeadLetter, DeadLetters, LetterReason};
pub use machine::{Behaviour, Machine, OnEvent, Step};
pub use mailbox::Mailbox;
pub use monitor::{Down, MonitorId, Watch};
pub use opts::{ActorOpts, ActorsOpts, Backoff, Child, Directive, Restart, Strategy, Supervise};
pub use overrun::Overrun;
pub use recharge::{Answer, Exhausted, Recharge};
pub use supervisor::{Children, Dynamic};
pub use system::{Actors, System};
