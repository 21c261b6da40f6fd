//! The frame of a task, as the scheduler knows it.
//!
//! A started task has a frame on its stack, and its record points to it. Frames belong to
//! `scope::cx`; the scheduler and the observers of a worker reach the few things they need through
//! [`FrameAccess`], which the host of the scheduler provides. All of them are off the hot path.

use super::Task;
use crate::base::error::TaskInfo;
use crate::sched::events::spans::Span;
use crate::sched::events::{TaskTimes, WaitReason};
use std::ops::Range;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

/// Stands for the frame's type in pointers.
pub(crate) enum OpaqueFrame {}

/// A pointer to the frame of a task; null if the task has none.
pub(crate) type FramePtr = *const OpaqueFrame;

/// Reads frames.
///
/// # Safety
///
/// For all methods but `running_task`: the frame is that of a started task, not null, and the
/// caller owns the task or is the task. The references are not used after the task has ended.
pub(crate) trait FrameAccess: Sync {
    /// The times of the task.
    ///
    /// # Safety
    ///
    /// See the trait.
    unsafe fn times<'f>(&self, frame: FramePtr) -> &'f TaskTimes;

    /// Ops that are left in the turn of the task.
    ///
    /// # Safety
    ///
    /// See the trait.
    unsafe fn ops_left(&self, frame: FramePtr) -> u64;

    /// Reason of the task's wait.
    ///
    /// # Safety
    ///
    /// See the trait.
    unsafe fn wait_reason(&self, frame: FramePtr) -> WaitReason;

    /// The name of the task, and the place where it was spawned.
    ///
    /// # Safety
    ///
    /// See the trait.
    unsafe fn origin(&self, frame: FramePtr) -> (Option<Arc<str>>, &'static Location<'static>);

    /// The span of the task.
    ///
    /// # Safety
    ///
    /// See the trait.
    unsafe fn span<'f>(&self, frame: FramePtr) -> &'f Span;

    /// Name and origin of the task that runs on this thread, read by a signal handler. `None` if
    /// `frame` is not a frame of `task` on its stack: the record may be half-written.
    ///
    /// # Safety
    ///
    /// `stack` is mapped, and the calling thread is on it.
    unsafe fn running_task(
        &self,
        frame: FramePtr,
        stack: Range<usize>,
        task: NonNull<Task>,
    ) -> Option<TaskInfo>;
}
