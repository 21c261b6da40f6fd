//! One call of a task that is a future, and its state between two calls. The header of the folder
//! has the protocol.

use super::cell::{FutureCell, FutureHead, OwnedFuture};
use crate::base::error::{DeadlockReport, Error, ErrorKind, Result};
use crate::sched::events::spans::Span;
use crate::sched::task::{Outcome, Start, Task, TaskRef, Traits};
use crate::scope::budget::Budget;
use crate::scope::cx::parking::checkpoint;
use crate::scope::cx::{
    Cx, Frame, Origin, PackedAccount, PackedFrame, PackedLocals, PoolOwner, TaskSettings,
};
use crate::scope::life;
use crate::scope::nursery::NurseryCore;
use crate::scope::nursery::spawn::{Extra, keep, leave_result, settle_own};
use crate::scope::profile::Profile;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The state of a task that is a future, between two calls. In its record.
pub(crate) struct ParkedFuture {
    head: NonNull<FutureHead>,
    spawned_at: &'static Location<'static>,
    /// State that most of them do not have.
    rare: Option<Box<RareState>>,
    frame: PackedFrame,
    span: Span,
}

#[cfg(not(any(feature = "tracing", loom)))]
const _: () = assert!(size_of::<ParkedFuture>() <= 64, "fits into a record");

#[derive(Default)]
struct RareState {
    extra: Option<Extra>,
    account: Option<PackedAccount>,
    locals: Option<PackedLocals>,
    /// Of an observer that found a deadlock.
    verdict: Option<DeadlockReport>,
}

/// Whether the task is called for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallTurn {
    First,
    Again,
}

/// The first call.
///
/// # Safety
///
/// The caller is a child of a nursery, called for the first time. The account was paid.
pub(super) unsafe fn first<P: Profile, T, F: Future<Output = Result<T>>>(
    record: NonNull<Task>,
    start: Start,
    future: OwnedFuture<F>,
    spawned_at: &'static Location<'static>,
    extra: Option<Extra>,
) {
    // SAFETY: the running task.
    let generation = unsafe { record.as_ref().state.generation() };
    let head = future.start(TaskRef { task: record, generation });
    let rare = extra.map(|extra| Box::new(RareState { extra: Some(extra), ..Default::default() }));
    let parked =
        ParkedFuture { head, spawned_at, rare, frame: PackedFrame::default(), span: Span::new() };
    // SAFETY: as the caller says.
    unsafe { call::<P, T, F>(record, start, parked, CallTurn::First) };
}

/// A further call.
///
/// # Safety
///
/// As a [`Call`](crate::sched::task::Call) of a record with a [`ParkedFuture`] in it, whose future
/// is an `F`.
unsafe fn again<P: Profile, T, F: Future<Output = Result<T>>>(
    record: NonNull<Task>,
    start: Start,
) -> Outcome {
    // SAFETY: as the caller says.
    unsafe {
        let parked = Task::take_again::<ParkedFuture>(record);
        catch_unwind(AssertUnwindSafe(|| call::<P, T, F>(record, start, parked, CallTurn::Again)))
    }
}

/// One call: polls the future, if there is a reason to. Leaves the state for the next call in the
/// record, or the result.
///
/// # Safety
///
/// The caller is the task, a child of a nursery; the future is an `F`.
unsafe fn call<P: Profile, T, F: Future<Output = Result<T>>>(
    record: NonNull<Task>,
    start: Start,
    mut parked: ParkedFuture,
    turn: CallTurn,
) {
    // SAFETY: the running task, a child of this nursery.
    let (task, core) = unsafe { (record.as_ref(), NurseryCore::of(record)) };
    // A task that waits in the poll has a stack, and stays on its worker.
    let traits = task.traits.get();
    task.traits.set(Traits { binding: traits.binding.polled(), ..traits });
    // Reached by this pointer alone until the frame is gone.
    let rare: *mut RareState = match &mut parked.rare {
        Some(rare) => &raw mut **rare,
        None => std::ptr::null_mut(),
    };
    // SAFETY: as above, if it is not null. `extra` is not written before the frame is gone, and
    // there are no references to the other fields.
    let (extra, kept, locals, verdict) = unsafe {
        match rare.is_null() {
            true => (None, None, None, None),
            false => {
                let (locals, verdict) = ((*rare).locals.take(), (*rare).verdict.take());
                (Option::as_ref(&(*rare).extra), (*rare).account, locals, verdict)
            }
        }
    };
    let own = extra.and_then(|extra| extra.own.as_ref());
    let (settings, owner) = match own {
        Some(own) => (own, PoolOwner::Other),
        None => (&core.settings, PoolOwner::Nursery),
    };
    let account = match (kept, own, extra) {
        (Some(kept), ..) => kept.balance,
        // Its pool is unlimited, or it would have been kept.
        (None, ..) if turn == CallTurn::Again => settings.default_grant,
        (None, Some(own), _) => own.pool.draw_all(),
        (None, None, Some(extra)) => extra.account,
        (None, None, None) => settings.default_grant,
    };
    let name = extra.and_then(|extra| extra.origin.name.clone());
    let origin = Origin { name, spawned_at: parked.spawned_at };
    let mut place = MaybeUninit::<Cx<P>>::uninit();
    // SAFETY: memory for a frame on the stack of the call. The settings outlive it, and the account
    // was drawn from their pool.
    let cx = unsafe {
        Cx::made_in(&mut place, |frame| {
            Frame::init(frame, record, settings, &account, owner, origin, None);
        })
    };
    let frame = cx.frame();
    match turn {
        CallTurn::First => frame.enter(),
        CallTurn::Again => {
            frame.enter_again(parked.frame, kept.as_ref(), locals, verdict, &parked.span);
        }
    }
    let head = parked.head;
    let polled = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: as the caller says.
        unsafe { poll::<T, F>(frame, start, head, turn) }
    }));
    let output = match polled {
        Ok(Ok(Poll::Pending)) => {
            let (packed, account, locals) = frame.pack();
            parked.span = frame.span().clone();
            drop(cx);
            if account.is_some() || locals.is_some() || parked.rare.is_some() {
                let rare = parked.rare.get_or_insert_default();
                (rare.account, rare.locals) = (account, locals);
            }
            parked.frame = packed;
            task.traits.set(Traits { binding: traits.binding.moving(locals.is_none()), ..traits });
            // SAFETY: the task itself, which returns now and has no frame. The future is `Send`,
            // and so is what is kept with it, except for local values, with which it does not move.
            unsafe { Task::call_again(record, parked, again::<P, T, F>) };
            return;
        }
        Ok(Ok(Poll::Ready(value))) => Ok(Ok(value)),
        Ok(Err(error)) => Ok(Err(error)),
        Err(payload) => Err(payload),
    };
    // SAFETY: not polled any more.
    let output = unsafe { end_future::<T, F>(frame, head, output) };
    let sign = |error, frame: &Frame| core.sign(error, frame);
    let keep = |frame: &Frame, output, ending| keep(core, frame, output, ending);
    // SAFETY: the frame of the running task, which ends.
    let (kept, leaving) = unsafe { life::conclude(frame, output, sign, keep) };
    drop(cx);
    if let Some(rare) = parked.rare
        && let Some(Extra { own: Some(own), account, .. }) = &rare.extra
    {
        settle_own(core, own, *account);
    }
    // SAFETY: the task itself, which has left its frame; the reference is the task's.
    unsafe {
        FutureHead::release(head);
        leave_result(record, kept, leaving);
    }
}

/// Polls the future, if there is a reason to. After `Pending` the task is ready to be parked.
///
/// # Safety
///
/// As for [`call`]; the frame is that of the call.
unsafe fn poll<T, F: Future<Output = Result<T>>>(
    frame: &Frame,
    start: Start,
    head: NonNull<FutureHead>,
    turn: CallTurn,
) -> Result<Poll<T>> {
    if let Start::Refused(error) = start {
        return Err(Error::new(ErrorKind::NoStack(*error)));
    }
    frame.check_cancelled()?; // before its first poll it ends without one
    // SAFETY: the task has a reference.
    let this = unsafe { head.as_ref() };
    if turn == CallTurn::First || this.word.is_notified() {
        checkpoint(frame)?; // the op of a poll; may wait
        this.word.begin_poll();
        let waker = FutureHead::waker(head);
        // SAFETY: pinned in its cell, and the task's own.
        let future = unsafe { Pin::new_unchecked(FutureCell::<F>::future(head)) };
        if let Poll::Ready(output) = future.poll(&mut Context::from_waker(&waker)) {
            return output.map(Poll::Ready);
        }
        frame.pay_for_memory()?;
    }
    this.watch(frame)?;
    if this.word.is_notified() {
        // The worker finds a wake, also if a wait in the poll has consumed it.
        let TaskRef { task, generation } = frame.task_ref();
        // SAFETY: the running task: noted, and nothing to follow up.
        unsafe { task.as_ref() }.state.unpark(generation);
    }
    Ok(Poll::Pending)
}

/// Drops the future, on the task. The result of the task: a panic of a destructor is one of it.
///
/// # Safety
///
/// As for [`call`]; the future is not used again.
unsafe fn end_future<T, F>(
    frame: &Frame,
    head: NonNull<FutureHead>,
    output: std::thread::Result<Result<T>>,
) -> std::thread::Result<Result<T>> {
    // SAFETY: the task has a reference.
    let this = unsafe { head.as_ref() };
    this.word.end();
    this.unwatch(frame.settings());
    // SAFETY: as the caller says.
    let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { FutureCell::<F>::drop_future(head) }));
    match (output, dropped) {
        (Ok(Ok(value)), Ok(())) => Ok(frame.pay_for_memory().map(|()| value)),
        (Ok(Ok(value)), Err(payload)) => {
            crate::base::error::discard(value);
            Err(payload)
        }
        (output, dropped) => {
            if let Err(payload) = dropped {
                crate::base::error::discard(payload);
            }
            output
        }
    }
}

impl ParkedFuture {
    /// Name and origin.
    pub(crate) fn origin(&self) -> (Option<&Arc<str>>, &'static Location<'static>) {
        let name = self.rare.as_ref().and_then(|rare| rare.extra.as_ref()?.origin.name.as_ref());
        (name, self.spawned_at)
    }

    /// The settings of the task: those of its nursery, or its own.
    ///
    /// # Safety
    ///
    /// The caller observes the task of this record, in which this is.
    pub(crate) unsafe fn settings(&self, task: NonNull<Task>) -> &TaskSettings {
        let own = self.rare.as_ref().and_then(|rare| rare.extra.as_ref()?.own.as_ref());
        // SAFETY: a child that has not ended: its nursery is there.
        own.unwrap_or_else(|| unsafe { &NurseryCore::of(task).settings })
    }

    /// The rest of its account; `None` if that is unlimited.
    pub(crate) fn balance(&self) -> Option<Budget> {
        Some(self.rare.as_ref()?.account?.balance)
    }

    /// Its age and its waits.
    pub(crate) fn frame(&self) -> &PackedFrame {
        &self.frame
    }

    /// Ends its wait with the report of a deadlock. The caller observes the task, and cancels it.
    pub(crate) fn sentence(&mut self, verdict: DeadlockReport) {
        self.rare.get_or_insert_default().verdict = Some(verdict);
    }
}
