//! The label at the top of every stack.

use crate::stack::arch::Context;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The label at the top of every stack, which names its user for the handler.
///
/// Written by the owner of the stack only. If a stray pointer of another thread hits the guard,
/// the handler reads the label there and prints what it finds. The fields are atomics so that this
/// is no data race. All accesses are Relaxed and have no partner: the handler uses the values for
/// its report only, except on the thread that wrote them, where program order suffices.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Label {
    pub(super) id: AtomicU64,
    len: AtomicU32,
    /// Distance from the top of the stack down to the context that a switch away saves; 0 if there
    /// is none. For debuggers, which have no other way to find the context without type
    /// information (`tools/gdb/parcae.py`).
    context: AtomicU32,
    name: [AtomicU64; NAME_WORDS],
}

/// The label id of a strand, on which a scheduler runs tasks.
pub(crate) const TASK: u64 = u64::MAX;

/// The label id of a stack whose closure may be abandoned.
pub(crate) const CONTAINED: u64 = u64::MAX - 1;

pub(super) const NAME_WORDS: usize = 6;

/// Bytes that a label takes at the top of a stack.
pub(crate) const LABEL_SIZE: usize = size_of::<Label>();

// The numbers in tools/gdb/parcae.py.
const _: () = {
    assert!(LABEL_SIZE == 64);
    assert!(std::mem::offset_of!(Label, id) == 0);
    assert!(std::mem::offset_of!(Label, len) == 8);
    assert!(std::mem::offset_of!(Label, context) == 12);
    assert!(std::mem::offset_of!(Label, name) == 16);
};

impl Label {
    /// Sets the stack's user; id 0 means none. A name is cut at 48 bytes.
    pub(crate) fn set(&self, id: u64, name: &str) {
        let mut end = name.len().min(NAME_WORDS * 8);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let bytes = &name.as_bytes()[..end];
        // Relaxed, here and in the rest of this type: see above.
        self.len.store(0, Ordering::Relaxed);
        for (word, chunk) in self.name.iter().zip(bytes.chunks(8)) {
            let mut full = [0; 8];
            full[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(full), Ordering::Relaxed); // see above
        }
        self.id.store(id, Ordering::Relaxed); // see above
        self.len.store(bytes.len() as u32, Ordering::Relaxed); // at most 48
    }

    /// Sets the address where the context of the stack's user is saved.
    pub(crate) fn set_context(&self, context: *const Context) {
        let top = std::ptr::from_ref(self).addr() + LABEL_SIZE;
        // The context is at the top of the stack, so the distance is small. Relaxed: see above.
        self.context.store((top - context.addr()) as u32, Ordering::Relaxed);
    }

    /// Marks the stack as unused.
    pub(crate) fn clear(&self) {
        self.set(0, "");
        self.context.store(0, Ordering::Relaxed); // see above
    }

    /// The name, cut at 48 bytes.
    pub(crate) fn to_name(&self) -> String {
        let mut buffer = [0; NAME_WORDS * 8];
        let len = self.name(&mut buffer);
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    /// The address where the context of the stack's user is saved.
    pub(super) fn context(&self) -> *mut Context {
        let top = std::ptr::from_ref(self).addr() + LABEL_SIZE;
        // Relaxed: read by the thread that wrote it.
        let below = self.context.load(Ordering::Relaxed) as usize;
        std::ptr::with_exposed_provenance_mut(top - below)
    }

    pub(super) fn name(&self, buffer: &mut [u8; NAME_WORDS * 8]) -> usize {
        for (word, out) in self.name.iter().zip(buffer.chunks_mut(8)) {
            // Relaxed: for the report only.
            out.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        // Relaxed: as above.
        (self.len.load(Ordering::Relaxed) as usize).min(buffer.len())
    }
}
