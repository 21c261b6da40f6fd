//! Errors of creating a fiber and of switching to it.

use crate::stack::StackError;
use std::error::Error;
use std::fmt;

/// Why a switch was refused. The fiber is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The thread is unwinding from a panic. Wait without leaving the stack, or after the unwind.
    Panicking,
    /// `start` on a fiber whose closure has not ended: resume it until it has.
    Busy,
    /// `resume` on an idle fiber: start it first.
    Idle,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Panicking => {
                "a fiber cannot be switched while the thread is panicking: wait without leaving \
                 the stack, or after the unwind"
            }
            Refused::Busy => "the fiber's closure has not ended: resume it until it has",
            Refused::Idle => "the fiber has no suspended closure to resume: start it first",
        })
    }
}

impl Error for Refused {}

/// Why a fiber could not be created.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FiberError {
    /// A hardware shadow stack is active on this thread: it keeps a second copy of all return
    /// addresses, which the context switch does not maintain.
    ShadowStack,
    /// No stack could be allocated, or the thread could not be prepared for running on it.
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
            FiberError::Stack(_) => f.write_str("no stack for the fiber"),
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
