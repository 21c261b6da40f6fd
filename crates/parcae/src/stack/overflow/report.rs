//! Reports of the handler: written from a fixed buffer, without allocation or locks.

use super::GuardHit;
use super::label::{CONTAINED, NAME_WORDS, TASK};
use crate::stack::StackSize;
use std::panic::Location;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// Returns the place where the task that runs on this thread was spawned, if one runs. The handler
/// calls it, so it must not allocate or lock.
pub(crate) type SpawnedAt = fn() -> Option<&'static Location<'static>>;

/// Set by the layer that knows about tasks.
static SPAWNED_AT: OnceLock<SpawnedAt> = OnceLock::new();

/// Has reports say where a task was spawned: many tasks have no name.
pub(crate) fn report_spawned_at(spawned_at: SpawnedAt) {
    let _ = SPAWNED_AT.set(spawned_at); // every runtime sets the same
}

/// Why an overflow was not contained. See the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// The stack is not that of a contained closure.
    NotContained,
    CLibrary,
    Unknown,
    Panicking,
    Signal,
    NoRoom,
    Stray,
}

impl Kept {
    fn text(self) -> &'static str {
        match self {
            Kept::NotContained => "",
            Kept::CLibrary => {
                "it happened in the allocator, the C library or the loader, whose locks would \
                 stay taken"
            }
            Kept::Unknown => {
                "the allocator is linked into the same file as the program, so it may have been \
                 interrupted"
            }
            Kept::Panicking => "the closure was panicking",
            Kept::Signal => "a signal handler was running, or the closure had blocked signals",
            Kept::NoRoom => {
                "the stack had no room for a signal frame, and the signal would be lost"
            }
            Kept::Stray => "the access was far below the stack pointer: a pointer was wrong",
        }
    }
}

/// Writes the report about a fault on a guard.
pub(super) fn report(hit: &GuardHit, sp: usize, kept: Kept) {
    let mut line = ReportBuffer::new();
    let Some(top) = hit.top() else {
        line.text("\nparcae: stray access at ").hex(hit.addr);
        line.text(", the guard at the end of an arena of fiber stacks\n");
        line.text("  It belongs to no fiber: a pointer ran past the top of a stack.\n");
        line.write();
        return;
    };
    let bottom = hit.guard + hit.arena.guard;
    let own = (hit.guard..=top).contains(&sp);
    let label = GuardHit::label(top);
    let mut name = [0; NAME_WORDS * 8];
    let len = label.name(&mut name);

    line.text("\nparcae: ");
    if !own {
        line.text("stray access to the guard below the stack of ");
    }
    let id = label.id.load(Ordering::Relaxed); // for the report only
    match id {
        0 => line.text("no fiber"),
        TASK => line.text("a task"),
        CONTAINED => line.text("a closure under Cx::contain_overflow"),
        id => line.text("fiber ").dec(id as usize),
    };
    if len > 0 && id == CONTAINED {
        line.text(" of task");
    }
    if len > 0 {
        line.text(" \"").bytes(&name[..len]).text("\"");
    }
    if own {
        line.text(" overflowed its stack of ").size(top - bottom);
    }
    // The thread runs on this stack, so the task that runs on the thread is the one.
    let known = SPAWNED_AT.get().filter(|_| own && (id == TASK || id == CONTAINED));
    if let Some(at) = known.and_then(|spawned_at| spawned_at()) {
        line.text("\n  The task was spawned at ").text(at.file());
        line.text(":").dec(at.line() as usize).text(":").dec(at.column() as usize);
    }
    line.text("\n  fault at ").hex(hit.addr);
    line.text(", stack ").hex(bottom).text("..").hex(top);
    line.text(", stack pointer ").hex(sp).text("\n");
    if kept != Kept::NotContained {
        line.text("  The overflow could not be contained: ").text(kept.text()).text(".\n");
    }
    if own {
        line.text("  Look for unbounded recursion or large local arrays; ");
        if top - bottom < StackSize::MAX.bytes() {
            line.text("to raise the limit, ask for a larger StackSize, e.g. ");
            line.size(2 * (top - bottom)).text(".\n");
        } else {
            line.text("this is the largest StackSize there is: keep large data on the heap.\n");
        }
    } else {
        line.text("  The thread runs on another stack: a pointer was wrong, or a frame without ");
        line.text("stack probes jumped over a guard (see StackOpts::guard_size).\n");
    }
    line.write();
}

/// A message in a fixed buffer; the part that does not fit is cut.
struct ReportBuffer {
    buffer: [u8; 1024],
    len: usize,
}

impl ReportBuffer {
    fn new() -> ReportBuffer {
        ReportBuffer { buffer: [0; 1024], len: 0 }
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut ReportBuffer {
        for &byte in bytes {
            if let Some(place) = self.buffer.get_mut(self.len) {
                *place = byte;
                self.len += 1;
            }
        }
        self
    }

    fn text(&mut self, text: &str) -> &mut ReportBuffer {
        self.bytes(text.as_bytes())
    }

    fn dec(&mut self, value: usize) -> &mut ReportBuffer {
        self.digits(value, 10)
    }

    /// Appends a size in the format of `StackSize`.
    fn size(&mut self, bytes: usize) -> &mut ReportBuffer {
        if bytes < 1 << 20 {
            self.dec(bytes >> 10).text(" KiB")
        } else {
            self.dec(bytes >> 20).text(" MiB")
        }
    }

    fn hex(&mut self, value: usize) -> &mut ReportBuffer {
        self.text("0x").digits(value, 16)
    }

    fn digits(&mut self, mut value: usize, base: usize) -> &mut ReportBuffer {
        let mut digits = [0; 20];
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = b"0123456789abcdef"[value % base];
            value /= base;
            if value == 0 {
                return self.bytes(&digits[first..]);
            }
        }
    }

    /// Writes the message to standard error. Async-signal-safe.
    fn write(&self) {
        let mut rest = &self.buffer[..self.len];
        while !rest.is_empty() {
            // SAFETY: writes bytes of the buffer.
            let written = unsafe { libc::write(2, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(n) if n > 0 => rest = &rest[n..],
                _ => return,
            }
        }
    }
}
