//! Supervisors whose children are started while they run.

use super::{BoxedSeat, Inbox};
use crate::actor::{Actor, Birth};
use crate::address::Address;
use crate::life::ActorSeat;
use crate::opts::ActorOpts;
use crate::system::Shared;
use parcae::Result;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A supervisor whose children are started while it runs: one for each session, room or device.
/// From [`System::dynamic`](crate::System::dynamic) or
/// [`Children::dynamic`](crate::Children::dynamic).
///
/// Any task may start children, actors included. A child that fails is restarted alone. When the
/// supervisor stops, all children are asked to stop at once. A supervisor that is restarted itself
/// begins without children.
pub struct Dynamic<'env> {
    shared: Arc<Shared>,
    shards: Arc<[Arc<Inbox<'env>>]>,
    /// The shard that starts the next child.
    turn: Arc<AtomicUsize>,
}

impl<'env> Dynamic<'env> {
    pub(crate) fn new(shared: &Arc<Shared>, shards: Vec<Arc<Inbox<'env>>>) -> Dynamic<'env> {
        Dynamic { shared: Arc::clone(shared), shards: shards.into(), turn: Arc::default() }
    }

    /// Starts an actor, and waits until it has started. The factory is called again for each
    /// restart.
    ///
    /// # Errors
    ///
    /// If the name is taken, the actor does not start, the supervisor has as many children as it
    /// [may](crate::Supervise::at_most), or it has ended.
    pub fn start<A, F>(&self, opts: ActorOpts, factory: F) -> Result<Address<A::Msg>>
    where
        A: Actor + 'env,
        F: FnMut(&mut Birth) -> Result<A> + Send + 'env,
    {
        let slot = self.shared.new_slot::<A>(&opts)?;
        let address = Address::new(Arc::clone(&slot));
        self.request(Box::new(ActorSeat::new(slot, opts, factory)))?;
        Ok(address)
    }

    pub(crate) fn request(&self, seat: BoxedSeat<'env>) -> Result<()> {
        let shards = &self.shards;
        if let [inbox] = &**shards {
            return inbox.start(seat);
        }
        // Relaxed: a turn, which guards nothing. That a shard is closed is looked up again by
        // `start`, under its lock.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let inbox = |at: usize| &shards[turn.wrapping_add(at) % shards.len()];
        let open = (0..shards.len()).map(inbox).find(|inbox| !inbox.is_closed());
        open.unwrap_or_else(|| inbox(0)).start(seat)
    }
}

impl Clone for Dynamic<'_> {
    fn clone(&self) -> Self {
        Dynamic {
            shared: Arc::clone(&self.shared),
            shards: Arc::clone(&self.shards),
            turn: Arc::clone(&self.turn),
        }
    }
}

impl fmt::Debug for Dynamic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dynamic").finish_non_exhaustive()
    }
}
