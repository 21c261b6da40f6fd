//! Why a fiber could not be made or switched to.

use crate::stack::StackError;
use std::error::Error;
use std::fmt;

/// Why a switch did not happen. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The thread is unwinding from a panic. Whatever needs to wait has to do so without
    /// leaving its stack, or after the unwind.
    Panicking,
    /// `start` on a fiber whose closure has not ended: resume it until it has.
    Busy,
    /// `resume` on a fiber that has nothing to go on with: start it.
    Idle,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Panicking => {
                "no switch while the thread is panicking: wait without leaving the stack, or \
                 after the unwind"
            }
            Refused::Busy => "the fiber's closure has not ended: resume it until it has",
            Refused::Idle => "the fiber has no closure to go on with: start it",
        })
    }
}

impl Error for Refused {}

/// Why a fiber could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FiberError {
    /// Hardware keeps a second copy of all return addresses on this thread, which a
    /// switch of stacks would contradict.
    ShadowStack,
    /// There is no stack, or the thread could not be prepared for running on it.
    Stack(StackError),
}

impl fmt::Display for FiberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FiberError::ShadowStack => f.write_str(
                "fibers cannot run on this thread: a hardware shadow stack is active, and the \
                 context switch does not maintain it; turn it off for this program with \
                 GLIBC_TUNABLES=glibc.cpu.x86_shstk=off (x86_64) or glibc.cpu.aarch64_gcs=0",
            ),
            FiberError::Stack(_) => f.write_str("no fiber without its stack"),
        }
    }
}

impl Error for FiberError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            FiberError::ShadowStack => None,
            FiberError::Stack(error) => Some(error),
        }
    }
}

impl From<StackError> for FiberError {
    fn from(error: StackError) -> FiberError {
        FiberError::Stack(error)
    }
}
