//! One incarnation of an actor, from its factory to its end.

use crate::actor::{Actor, ActorCx, Birth, Event, Helpers, Nest, Next};
use crate::address::{ActorTask, OWN, OnLoan};
use crate::exit::{Exit, ExitKind};
use crate::letters::LetterReason;
use crate::mailbox::Envelope;
use crate::opts::{ActorAccount, ActorOpts, Child, Directive, KeptOpts};
use crate::overrun::MessageLimit;
use crate::slot::{Core, News, Phase, Slot};
use crate::tree::Shown;
use parcae::profile::Cluster;
use parcae::{Cx, Error, Result, SpawnOpts, time};
use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A place in a supervisor: what is needed to run a child again and again. The task of an
/// incarnation owns it while it runs, the supervisor in between.
pub(crate) trait Seat: Send {
    fn core(&self) -> &Arc<Core>;
    /// The child, for observers.
    fn shown(&self) -> Arc<dyn Shown>;
    fn child(&self) -> &Child;
    fn spawn_opts(&self) -> SpawnOpts;
    fn account(&self) -> ActorAccount;

    /// Runs an incarnation to its end, or until it sleeps: then there is no exit, and the next call
    /// for the same incarnation goes on. `started` is called when it has started.
    fn live(&mut self, cx: &Cx<Cluster>, incarnation: u64, started: &dyn Fn()) -> Option<Exit>;
}

/// The seat of an actor.
pub(crate) struct ActorSeat<A: Actor, F> {
    slot: Arc<Slot<A::Msg>>,
    opts: KeptOpts,
    factory: F,
    last: Option<Exit>,
    /// Handed over to the next incarnation; or, by one that sleeps, to itself.
    handed: Option<Box<dyn Any + Send>>,
    /// A message that an incarnation failed on, and how many did.
    again: Option<(A::Msg, u32)>,
    asleep: Option<Asleep<A>>,
}

/// An incarnation that sleeps.
struct Asleep<A: Actor> {
    incarnation: u64,
    actor: A,
    stashed: VecDeque<A::Msg>,
    handled: u64,
}

impl<A, F> ActorSeat<A, F>
where
    A: Actor,
    F: FnMut(&mut Birth) -> Result<A> + Send,
{
    pub(crate) fn new(slot: Arc<Slot<A::Msg>>, opts: ActorOpts, factory: F) -> ActorSeat<A, F> {
        let opts = opts.kept;
        ActorSeat { slot, opts, factory, last: None, handed: None, again: None, asleep: None }
    }

    /// The incarnation in its nursery. No exit if it sleeps.
    fn serve(
        &mut self,
        cx: &Cx<Cluster>,
        helpers: &dyn Helpers,
        started: &dyn Fn(),
        (incarnation, handled): (u64, &mut u64),
    ) -> Option<Exit> {
        let slot = Arc::clone(&self.slot);
        let mut cx = ActorCx {
            cx,
            slot: &slot,
            helpers,
            timers: Default::default(),
            stashed: VecDeque::new(),
            most_stashed: self.opts.stash,
            limit: self.opts.limit,
            first: VecDeque::new(),
            handed: None,
            again: self.again.take(),
            again_taken: None,
            copy: None,
            helping: None,
        };
        // One that the supervisor could not wake is not that of this incarnation.
        let asleep = self.asleep.take().filter(|asleep| asleep.incarnation == incarnation);
        let is_back = asleep.is_some();
        let mut actor = match asleep {
            Some(asleep) => {
                (cx.stashed, cx.handed) = (asleep.stashed, self.handed.take());
                *handled = asleep.handled;
                asleep.actor
            }
            None => match self.begin(&mut cx, incarnation) {
                Ok(actor) => {
                    slot.core.has_started();
                    started();
                    actor
                }
                Err(exit) => return Some(exit),
            },
        };
        let mut next = if is_back { Next::Hibernate } else { Next::Continue };
        let sleeps = self.opts.account == ActorAccount::Shared;
        let exit = loop {
            let turns = |own: &ActorTask| {
                let redelivers = self.opts.redeliver > 0;
                caught(|| turns(&mut actor, &mut cx, own, handled, (next, sleeps, redelivers)))
            };
            match OWN.with(turns) {
                Ok(None) => {
                    (self.handed, cx.handed) = (cx.handed.take(), None);
                    let (stashed, handled) = (cx.stashed, *handled);
                    self.asleep = Some(Asleep { incarnation, actor, stashed, handled });
                    return None;
                }
                Ok(Some(kind)) => break Exit::new(kind, None),
                Err(failure) => {
                    if !self.resumes(&failure) {
                        break failure;
                    }
                    if cx.copy.take().is_some() {
                        slot.core
                            .shared
                            .letters
                            .add::<A::Msg>(LetterReason::Failed, &slot.core.name);
                    }
                }
            }
            next = Next::Continue;
        };
        slot.core.lower();
        let grace = self.opts.child.stop_within;
        let task = cx.cx;
        let _ = task.shield_for(grace, || {
            caught(|| {
                actor.stopping(&mut cx, &exit);
                Ok(())
            })
        });
        self.handed = cx.handed.take();
        self.again = cx.again.take();
        if let Some((msg, failures)) = cx.copy.take() {
            if failures < self.opts.redeliver {
                self.again = Some((msg, failures + 1));
            } else {
                slot.core.shared.letters.add::<A::Msg>(LetterReason::Poison, &slot.core.name);
            }
        }
        // The messages that were kept for later go the way of those in the mailbox of an actor that
        // has ended: the next incarnation knows nothing of them.
        for _ in cx.stashed.drain(..).chain(cx.first.drain(..).map(|envelope| envelope.msg)) {
            slot.core.shared.letters.add::<A::Msg>(LetterReason::Gone, &slot.core.name);
        }
        Some(exit)
    }

    /// Makes the state of an incarnation, and starts it.
    fn begin(&mut self, cx: &mut ActorCx<'_, A::Msg>, incarnation: u64) -> Result<A, Exit> {
        let mut birth = Birth { incarnation, last: self.last.clone(), state: self.handed.take() };
        let made = caught(|| {
            let mut actor = (self.factory)(&mut birth)?;
            actor.started(cx)?;
            Ok(actor)
        });
        made.map_err(|failure| Exit::new(ExitKind::NotStarted, failure.error().cloned()))
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

    fn shown(&self) -> Arc<dyn Shown> {
        let slot: Arc<Slot<A::Msg>> = Arc::clone(&self.slot);
        slot
    }

    fn child(&self) -> &Child {
        &self.opts.child
    }

    fn spawn_opts(&self) -> SpawnOpts {
        self.opts.spawn.clone()
    }

    fn account(&self) -> ActorAccount {
        self.opts.account
    }

    fn live(&mut self, cx: &Cx<Cluster>, incarnation: u64, started: &dyn Fn()) -> Option<Exit> {
        OWN.with(|own| own.actor.set(Arc::clone(&self.slot.core))).ok(); // a task is one actor
        let mut handled = 0;
        let mut served = None;
        let ended = cx.nursery(|nursery| {
            self.slot.core.attach(&nursery.token());
            let counts = (incarnation, &mut handled);
            let helpers = Nest { nursery, is_used: Cell::new(false) };
            served = Some(self.serve(cx, &helpers, started, counts));
            self.slot.core.detach();
            if helpers.is_used.get() {
                nursery.cancel(); // they end with the incarnation
            }
            Ok(())
        });
        let exit = match (served, ended) {
            // A helper has failed, and the actor was cancelled for that.
            (Some(Some(exit)), Err(error))
                if exit.kind() == ExitKind::Cancelled && !error.is_cancelled() =>
            {
                Exit::from_error(error)
            }
            (Some(Some(exit)), _) => exit,
            (Some(None), _) => return None,
            (None, ended) => Exit::new(ExitKind::NotStarted, ended.err()),
        };
        let exit = exit.of_life(incarnation, handled);
        self.last = Some(exit.clone());
        Some(exit)
    }
}

impl<A: Actor, F> Drop for ActorSeat<A, F> {
    /// No further incarnation: the mailbox is closed, and callers that wait hear of it.
    fn drop(&mut self) {
        let core = &self.slot.core;
        let again = self.again.take().map(|(msg, _)| Envelope::told(msg));
        let close = || {
            for _ in again.into_iter().chain(self.slot.lane.close()) {
                core.shared.letters.add::<A::Msg>(LetterReason::Gone, &core.name);
            }
        };
        match core.state() {
            (Phase::Ended, ..) => close(),
            (_, _, last) => {
                let exit = last.unwrap_or_else(|| Exit::new(ExitKind::Cancelled, None));
                core.ended_for_good(&exit, close);
            }
        }
    }
}

/// The state of the task, as the actor has told its senders.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Runs,
    Waits,
    Sleeps,
}

/// Handles messages and events until the actor ends, or sleeps: then there is no kind of an end.
/// The actor sleeps if its last step was to, and if it `may_sleep` at all.
fn turns<A: Actor>(
    actor: &mut A,
    cx: &mut ActorCx<'_, A::Msg>,
    own: &ActorTask,
    handled: &mut u64,
    (mut next, may_sleep, redelivers): (Next, bool, bool),
) -> Result<Option<ExitKind>> {
    let slot = cx.slot;
    let core = &slot.core;
    let mut told = Told::Runs;
    // Whether the clock of the worker is as late as the last handler took.
    let mut is_late = false;
    loop {
        next = if let Some(news) = core.take_news() {
            match news {
                News::Stop => return Ok(Some(ExitKind::Stopped)),
                News::Event(event) => MessageLimit::run(cx, |cx| actor.event(cx, event))?,
            }
        } else if let Some(tick) = due(cx) {
            MessageLimit::run(cx, |cx| actor.event(cx, tick))?
        } else if let Some(envelope) = next_message(cx, told)? {
            core.has_taken();
            // The sender of a message that ends a wait has just read the clock.
            let passed = |at| if is_late { at <= time::now() } else { time::has_passed(at) };
            if envelope.deadline.is_some_and(passed) {
                core.shared.letters.add::<A::Msg>(LetterReason::Expired, &core.name);
                continue;
            }
            if redelivers {
                let failures = cx.again_taken.take().unwrap_or(0);
                cx.copy = A::copy(&envelope.msg).map(|copy| (copy, failures));
            }
            let _lent = envelope.loan.map(|loan| OnLoan::begin(own, loan));
            let _failed = Unhandled::<A::Msg>::new(core, own, cx.copy.is_none());
            own.deadline.set(envelope.deadline);
            let next = MessageLimit::run(cx, |cx| actor.handle(cx, envelope.msg));
            own.deadline.set(None);
            let next = next?;
            *handled += 1;
            std::mem::forget(_failed);
            if redelivers {
                cx.copy = None;
            }
            next
        } else if told == Told::Runs {
            if next == Next::Hibernate && may_sleep && cx.may_sleep() {
                core.lie_down();
                told = Told::Sleeps;
            } else {
                core.raise();
                told = Told::Waits;
            }
            continue; // looks once more
        } else if core.is_draining() {
            return Ok(Some(ExitKind::Stopped));
        } else if told == Told::Sleeps {
            return Ok(None);
        } else {
            core.wait(cx.timers.earliest())?;
            told = Told::Runs;
            is_late = false;
            continue;
        };
        is_late = true;
        if told != Told::Runs {
            core.lower();
            told = Told::Runs;
        }
        if next == Next::Stop {
            return Ok(Some(ExitKind::Finished));
        }
    }
}

/// Counts a message whose handler did not return successfully.
struct Unhandled<'c, M> {
    core: &'c Core,
    own: &'c ActorTask,
    is_lost: bool,
    _messages: std::marker::PhantomData<fn(M)>,
}

impl<'c, M> Unhandled<'c, M> {
    fn new(core: &'c Core, own: &'c ActorTask, is_lost: bool) -> Unhandled<'c, M> {
        Unhandled { core, own, is_lost, _messages: std::marker::PhantomData }
    }
}

impl<M> Drop for Unhandled<'_, M> {
    fn drop(&mut self) {
        self.own.deadline.set(None);
        if self.is_lost {
            self.core.shared.letters.add::<M>(LetterReason::Failed, &self.core.name);
        }
    }
}

#[inline]
fn due<M>(cx: &mut ActorCx<'_, M>) -> Option<Event> {
    cx.timers.earliest()?;
    let tick = cx.timers.take_due(time::now())?;
    Some(Event::Timer { key: tick.key, missed: tick.missed })
}

#[inline]
fn next_message<M>(cx: &mut ActorCx<'_, M>, told: Told) -> Result<Option<Envelope<M>>> {
    if let Some((msg, failures)) = cx.again.take() {
        cx.again_taken = Some(failures);
        return Ok(Some(Envelope::told(msg)));
    }
    match cx.first.pop_front() {
        Some(envelope) => Ok(Some(envelope)),
        // The second look, which mostly finds nothing either.
        None if told != Told::Runs && cx.slot.lane.is_empty() => Ok(None),
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
