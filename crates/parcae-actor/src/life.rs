//! One incarnation of an actor, from its factory to its end.

use crate::actor::{Actor, ActorCx, Birth, Event, Helpers, Next};
use crate::address::{ACTOR, DEADLINE};
use crate::exit::{Exit, ExitKind};
use crate::letters::LetterReason;
use crate::opts::{ActorOpts, Child, Directive};
use crate::slot::{Core, News, Phase, Slot};
use parcae::profile::Cluster;
use parcae::{CancelToken, Cx, Error, NurseryOpts, Result, SpawnOpts, time};
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A place in a supervisor: what is needed to run a child again and again. The task of an
/// incarnation owns it while it runs, the supervisor in between.
pub(crate) trait Seat: Send {
    fn core(&self) -> &Arc<Core>;
    fn child(&self) -> &Child;
    fn spawn_opts(&self) -> SpawnOpts;

    /// Runs an incarnation to its end. `started` is called when it has started.
    fn live(&mut self, cx: &Cx<Cluster>, life: (u64, CancelToken), started: &dyn Fn()) -> Exit;
}

/// The seat of an actor.
pub(crate) struct ActorSeat<A: Actor, F> {
    slot: Arc<Slot<A::Msg>>,
    opts: ActorOpts,
    factory: F,
    last: Option<Exit>,
    handed: Option<Box<dyn Any + Send>>,
}

impl<A, F> ActorSeat<A, F>
where
    A: Actor,
    F: FnMut(&mut Birth) -> Result<A> + Send,
{
    pub(crate) fn new(slot: Arc<Slot<A::Msg>>, opts: ActorOpts, factory: F) -> ActorSeat<A, F> {
        ActorSeat { slot, opts, factory, last: None, handed: None }
    }

    /// The incarnation in its nursery.
    fn serve(
        &mut self,
        cx: &Cx<Cluster>,
        helpers: &dyn Helpers,
        started: &dyn Fn(),
        (incarnation, handled): (u64, &mut u64),
    ) -> Exit {
        let slot = Arc::clone(&self.slot);
        let mut cx = ActorCx {
            cx,
            slot: &slot,
            helpers,
            timers: Default::default(),
            stashed: VecDeque::new(),
            most_stashed: self.opts.stash,
            first: VecDeque::new(),
            handed: None,
        };
        let mut birth = Birth { incarnation, last: self.last.clone(), state: self.handed.take() };
        let made = caught(|| {
            let mut actor = (self.factory)(&mut birth)?;
            actor.started(&mut cx)?;
            Ok(actor)
        });
        let mut actor = match made {
            Ok(actor) => actor,
            Err(failure) => return Exit::new(ExitKind::NotStarted, failure.error().cloned()),
        };
        slot.core.has_started();
        started();
        let exit = loop {
            match caught(|| turns(&mut actor, &mut cx, handled)) {
                Ok(kind) => break Exit::new(kind, None),
                Err(failure) => {
                    if !self.resumes(&failure) {
                        break failure;
                    }
                }
            }
        };
        let grace = self.opts.child.stop_within;
        let task = cx.cx;
        let _ = task.shield_for(grace, || {
            caught(|| {
                actor.stopping(&mut cx, &exit);
                Ok(())
            })
        });
        self.handed = cx.handed.take();
        // The messages that were kept for later go the way of those in the mailbox of an actor that
        // has ended: the next incarnation knows nothing of them.
        for _ in cx.stashed.drain(..).chain(cx.first.drain(..).map(|envelope| envelope.msg)) {
            slot.core.shared.letters.add::<A::Msg>(LetterReason::Gone, &slot.core.name);
        }
        exit
    }

    /// Whether the actor goes on after a failure, with its state.
    fn resumes(&self, failure: &Exit) -> bool {
        let decide = self.opts.child.directive.as_ref();
        failure.kind() == ExitKind::Failed
            && decide.is_some_and(|decide| {
                caught(|| Ok(decide(failure))).is_ok_and(|answer| answer == Directive::Resume)
            })
    }
}

impl<A, F> Seat for ActorSeat<A, F>
where
    A: Actor,
    F: FnMut(&mut Birth) -> Result<A> + Send,
{
    fn core(&self) -> &Arc<Core> {
        &self.slot.core
    }

    fn child(&self) -> &Child {
        &self.opts.child
    }

    fn spawn_opts(&self) -> SpawnOpts {
        self.opts.spawn.clone()
    }

    fn live(&mut self, cx: &Cx<Cluster>, life: (u64, CancelToken), started: &dyn Fn()) -> Exit {
        let (incarnation, token) = life;
        ACTOR.with(|actor| *actor.borrow_mut() = Some(Arc::clone(&self.slot.core)));
        let mut handled = 0;
        let mut served = None;
        let opts = NurseryOpts::new().name(Arc::clone(&self.opts.name)).token(&token);
        let ended = cx.nursery_with(opts, |helpers| {
            let counts = (incarnation, &mut handled);
            served = Some(self.serve(cx, &helpers, started, counts));
            helpers.cancel(); // they end with the incarnation
            Ok(())
        });
        let exit = match (served, ended) {
            // A helper has failed, and the actor was cancelled for that.
            (Some(exit), Err(error))
                if exit.kind() == ExitKind::Cancelled && !error.is_cancelled() =>
            {
                Exit::from_error(error)
            }
            (Some(exit), _) => exit,
            (None, ended) => Exit::new(ExitKind::NotStarted, ended.err()),
        };
        let exit = exit.of_life(incarnation, handled);
        self.last = Some(exit.clone());
        exit
    }
}

impl<A: Actor, F> Drop for ActorSeat<A, F> {
    /// No further incarnation: the mailbox is closed, and callers that wait hear of it.
    fn drop(&mut self) {
        let core = &self.slot.core;
        let (phase, _, last) = core.state();
        if phase != Phase::Ended {
            core.gave_up(&last.unwrap_or_else(|| Exit::new(ExitKind::Cancelled, None)));
        }
        for _ in self.slot.lane.close() {
            core.shared.letters.add::<A::Msg>(LetterReason::Gone, &core.name);
        }
    }
}

/// Handles messages and events until the actor ends.
fn turns<A: Actor>(
    actor: &mut A,
    cx: &mut ActorCx<'_, A::Msg>,
    handled: &mut u64,
) -> Result<ExitKind> {
    let slot = cx.slot;
    let core = &slot.core;
    let mut is_raised = false;
    loop {
        let next = if let Some(news) = core.take_news() {
            match news {
                News::Stop => return Ok(ExitKind::Stopped),
                News::Event(event) => actor.event(cx, event)?,
            }
        } else if let Some(tick) = due(cx) {
            actor.event(cx, tick)?
        } else if let Some(envelope) = next_message(cx)? {
            if envelope.deadline.is_some_and(|at| at <= time::now()) {
                core.shared.letters.add::<A::Msg>(LetterReason::Expired, &core.name);
                continue;
            }
            let _failed = Unhandled::<A::Msg>::new(core);
            DEADLINE.set(envelope.deadline);
            let next = actor.handle(cx, envelope.msg);
            DEADLINE.set(None);
            let next = next?;
            *handled += 1;
            std::mem::forget(_failed);
            next
        } else if !is_raised {
            core.raise();
            is_raised = true;
            continue; // looks once more
        } else {
            core.wait(cx.timers.earliest())?;
            is_raised = false;
            continue;
        };
        if is_raised {
            core.lower();
            is_raised = false;
        }
        if next == Next::Stop {
            return Ok(ExitKind::Finished);
        }
    }
}

/// Counts a message whose handler did not return successfully.
struct Unhandled<'c, M>(&'c Core, std::marker::PhantomData<fn(M)>);

impl<M> Unhandled<'_, M> {
    fn new(core: &Core) -> Unhandled<'_, M> {
        Unhandled(core, std::marker::PhantomData)
    }
}

impl<M> Drop for Unhandled<'_, M> {
    fn drop(&mut self) {
        DEADLINE.set(None);
        self.0.shared.letters.add::<M>(LetterReason::Failed, &self.0.name);
    }
}

fn due<M>(cx: &mut ActorCx<'_, M>) -> Option<Event> {
    cx.timers.earliest()?;
    let tick = cx.timers.take_due(time::now())?;
    Some(Event::Timer { key: tick.key, missed: tick.missed })
}

fn next_message<M>(cx: &mut ActorCx<'_, M>) -> Result<Option<crate::mailbox::Envelope<M>>> {
    match cx.first.pop_front() {
        Some(envelope) => Ok(Some(envelope)),
        None => cx.slot.lane.take(),
    }
}

/// Runs code of the program; an error or a panic becomes an exit.
pub(crate) fn caught<R>(code: impl FnOnce() -> Result<R>) -> Result<R, Exit> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(result) => result.map_err(Exit::from_error),
        Err(payload) => {
            let text = payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned());
            let text = text.unwrap_or_else(|| "a value that is no text".to_owned());
            let error = Error::msg(format!("panicked: {text}"));
            Err(Exit::new(ExitKind::Panicked, Some(error)))
        }
    }
}
