//! Handlers that use more ops than a message may cost.
//!
//! The bound is one on the task ([`Cx::limit_ops`](parcae::Cx::limit_ops)), set for each message
//! and event. Where it is used up the handler fails, or pleads for more: it puts a [`Plea`] on the
//! desk of its supervisor (`crate::desk`) and waits for the answer, which the policy of the
//! supervisor gives (`crate::recharge`). The wait is a cancel point, so a stop with a grace period
//! reaches a handler that pleads. The supervisor answers each plea that it hears; one that is
//! dropped is refused. So no handler waits for an answer that does not come.

use crate::actor::{ActorCx, Next};
use crate::slot::Core;
use parcae::profile::Cluster;
use parcae::sync::Event as Flag;
use parcae::{Cx, Error, Result};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The fate of a handler that has used the ops of its message; see
/// [`ActorOpts::message_ops`](crate::ActorOpts::message_ops).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overrun {
    /// It fails with [`ExitKind::Exhausted`](crate::ExitKind::Exhausted): checkpoints fail from
    /// then on, and it has failed even if it ignores that.
    Fail,
    /// It is suspended at its next checkpoint, and the supervisor decides by its
    /// [policy](crate::Recharge): the handler goes on with more ops, later, or ends. Without a
    /// policy it fails.
    Suspend,
}

/// The ops of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageLimit {
    pub(crate) ops: u64,
    pub(crate) overrun: Overrun,
}

impl MessageLimit {
    /// Runs a handler under the limit of its actor, if it has one.
    #[inline]
    pub(crate) fn run<M: Send + 'static>(
        cx: &mut ActorCx<'_, M>,
        handler: impl FnOnce(&mut ActorCx<'_, M>) -> Result<Next>,
    ) -> Result<Next> {
        match cx.limit {
            None => handler(cx),
            Some(limit) => limit.run_limited(cx, handler),
        }
    }

    fn run_limited<M: Send + 'static>(
        self,
        cx: &mut ActorCx<'_, M>,
        handler: impl FnOnce(&mut ActorCx<'_, M>) -> Result<Next>,
    ) -> Result<Next> {
        let (task, core) = (cx.cx, &cx.slot.core);
        let mut had = Had { ops: self.ops, extensions: 0, last: None };
        let mut refused = None;
        let overrun = |error: Error| {
            let answer = match self.overrun {
                Overrun::Fail => Err(had.explain(error, core, "")),
                Overrun::Suspend => had.plead(task, core, error),
            };
            answer.inspect_err(|error| refused = Some(error.clone()))
        };
        let handled = task.limit_ops(self.ops, overrun, || handler(cx));
        match refused {
            // It has ignored the error, or an operation that cannot fail has: a reply, say.
            Some(error) if handled.is_ok() => Err(error),
            _ => handled,
        }
    }
}

/// The ops that a handler has had for its message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Had {
    pub(crate) ops: u64,
    /// How often it got more, and when last.
    pub(crate) extensions: u64,
    pub(crate) last: Option<Instant>,
}

impl Had {
    fn explain(&self, error: Error, core: &Core, why: &str) -> Error {
        error.context(format!(
            "the handler of `{}` has used the {} ops that a message may cost{why}; allow more with \
             `ActorOpts::message_ops`",
            core.name, self.ops
        ))
    }

    /// Asks the supervisor for more, and waits for the answer.
    fn plead(&mut self, task: &Cx<Cluster>, core: &Core, error: Error) -> Result<u64> {
        let shared = Arc::new(Pleading { answer: Mutex::new(None), answered: Flag::new() });
        let plea = Plea { had: *self, task: task.info(), pleading: Arc::clone(&shared) };
        core.plead(plea);
        shared.answered.wait()?;
        let answer = shared.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        match answer.unwrap_or_else(|| Err("its supervisor has ended".to_owned())) {
            Ok(more) => {
                self.ops = self.ops.saturating_add(more);
                (self.extensions, self.last) = (self.extensions + 1, Some(parcae::time::now()));
                Ok(more)
            }
            Err(why) => Err(self.explain(error, core, &format!(", and got no more: {why}"))),
        }
    }
}

/// A handler that waits for more ops, as its supervisor sees it.
pub(crate) struct Plea {
    pub(crate) had: Had,
    pub(crate) task: parcae::task::TaskInfo,
    pleading: Arc<Pleading>,
}

struct Pleading {
    answer: Mutex<Option<Result<u64, String>>>,
    answered: Flag,
}

impl Plea {
    /// Whether the handler still waits.
    pub(crate) fn is_awaited(&self) -> bool {
        Arc::strong_count(&self.pleading) > 1
    }

    /// Answers with more ops, or why there are none.
    pub(crate) fn answer(self, answer: Result<u64, String>) {
        *self.pleading.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }
}

impl Drop for Plea {
    fn drop(&mut self) {
        self.pleading.answered.set();
    }
}
