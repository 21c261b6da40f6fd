//! Access to frames for the scheduler, which knows them by an opaque pointer.

use super::Frame;
use crate::base::error::TaskInfo;
use crate::sched::events::spans::Span;
use crate::sched::events::{TaskTimes, WaitReason};
use crate::sched::task::Task;
use crate::sched::task::frame::{FrameAccess, FramePtr};
use std::ops::Range;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

/// The implementation for [`Frame`]: every frame pointer in a record was set by `Frame::enter`.
pub(crate) struct FrameReader;

impl FrameAccess for FrameReader {
    unsafe fn times<'f>(&self, frame: FramePtr) -> &'f TaskTimes {
        // SAFETY: a live frame, as the caller says.
        unsafe { &(*frame.cast::<Frame>()).seen.times }
    }

    unsafe fn ops_left(&self, frame: FramePtr) -> u64 {
        // SAFETY: as above.
        unsafe { (*frame.cast::<Frame>()).ops_left() }
    }

    unsafe fn wait_reason(&self, frame: FramePtr) -> WaitReason {
        // SAFETY: as above.
        unsafe { (*frame.cast::<Frame>()).wait_reason() }
    }

    unsafe fn origin(&self, frame: FramePtr) -> (Option<Arc<str>>, &'static Location<'static>) {
        // SAFETY: as above.
        let origin = unsafe { &(*frame.cast::<Frame>()).origin };
        (origin.name.clone(), origin.spawned_at)
    }

    unsafe fn span<'f>(&self, frame: FramePtr) -> &'f Span {
        // SAFETY: as above.
        unsafe { &(*frame.cast::<Frame>()).span }
    }

    unsafe fn running_task(
        &self,
        frame: FramePtr,
        stack: Range<usize>,
        task: NonNull<Task>,
    ) -> Option<TaskInfo> {
        let frame = frame.cast::<Frame>();
        let stack = stack.start..stack.end.saturating_sub(size_of::<Frame>());
        if !stack.contains(&frame.addr()) || !frame.is_aligned() {
            return None;
        }
        // SAFETY: on the mapped stack. A frame that names this task was completely written: the
        // record points to it last, and no longer once it is left. Nothing here allocates or
        // locks: names are shared by counting references.
        let frame = unsafe { &*frame };
        (frame.task() == task).then(|| frame.info())
    }
}
