//! gdb's JIT interface: a list of objects in memory, and a function that a debugger stops in to see
//! changes of it. A debugger that attaches later reads the list.
//!
//! The symbols are weak: all code generators of a process share the debugger's list. Entries of
//! this crate are linked and unlinked under a lock; the interface has none for the others.

use std::ptr;
use std::sync::{Mutex, PoisonError};

/// An object that the debugger knows, until it is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    /// Allocated as a box; in the list.
    #[cfg(target_os = "linux")]
    node: ptr::NonNull<Node>,
    _object: Box<[u8]>,
}

// SAFETY: the node is used under `LOCK` alone, by any thread.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

static LOCK: Mutex<()> = Mutex::new(());

// As the interface lays it out.
#[repr(C)]
#[derive(Debug)]
struct Node {
    next: *mut Node,
    previous: *mut Node,
    object: *const u8,
    size: u64,
}

#[repr(C)]
struct Descriptor {
    version: u32,
    action: u32,
    relevant: *mut Node,
    first: *mut Node,
}

const REGISTER: u32 = 1;
const UNREGISTER: u32 = 2;

#[cfg(target_os = "linux")]
std::arch::global_asm!(
    ".pushsection .text.__jit_debug_register_code,\"ax\",%progbits",
    ".weak __jit_debug_register_code",
    ".type __jit_debug_register_code,%function",
    ".balign 16",
    "__jit_debug_register_code:",
    "nop",
    "ret",
    ".size __jit_debug_register_code, . - __jit_debug_register_code",
    ".popsection",
    ".pushsection .data.__jit_debug_descriptor,\"aw\",%progbits",
    ".weak __jit_debug_descriptor",
    ".type __jit_debug_descriptor,%object",
    ".balign 8",
    "__jit_debug_descriptor:",
    ".long 1", // the version of the interface
    ".long 0",
    ".quad 0",
    ".quad 0",
    ".size __jit_debug_descriptor, . - __jit_debug_descriptor",
    ".popsection",
);

#[cfg(target_os = "linux")]
unsafe extern "C" {
    fn __jit_debug_register_code();
    static mut __jit_debug_descriptor: Descriptor;
}

impl Entry {
    pub(super) fn new(object: Vec<u8>) -> Entry {
        let object = object.into_boxed_slice();
        #[cfg(target_os = "linux")]
        {
            let (null, size) = (ptr::null_mut(), object.len() as u64);
            let node = Node { next: null, previous: null, object: object.as_ptr(), size };
            let node = Box::into_raw(Box::new(node));
            let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the lock is held; nodes of the list exist until they are unlinked.
            unsafe {
                let list = &raw mut __jit_debug_descriptor;
                (*node).next = (*list).first;
                if let Some(next) = (*node).next.as_mut() {
                    next.previous = node;
                }
                ((*list).first, (*list).relevant, (*list).action) = (node, node, REGISTER);
                __jit_debug_register_code();
                Entry { node: ptr::NonNull::new_unchecked(node), _object: object }
            }
        }
        #[cfg(not(target_os = "linux"))]
        Entry { _object: object }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Entry {
    fn drop(&mut self) {
        let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let node = self.node.as_ptr();
        // SAFETY: as in `new`; the node was made from a box, and nothing refers to it behind this.
        unsafe {
            let list = &raw mut __jit_debug_descriptor;
            match (*node).previous.as_mut() {
                Some(previous) => previous.next = (*node).next,
                None => (*list).first = (*node).next,
            }
            if let Some(next) = (*node).next.as_mut() {
                next.previous = (*node).previous;
            }
            ((*list).relevant, (*list).action) = (node, UNREGISTER);
            __jit_debug_register_code();
            (*list).relevant = ptr::null_mut();
            drop(Box::from_raw(node));
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The objects of the list, the newest first; of those, the ones that begin with `mark`.
    fn listed(mark: u8) -> Vec<Vec<u8>> {
        let _lock = LOCK.lock().unwrap();
        let mut found = Vec::new();
        // SAFETY: as in `Entry::new`.
        unsafe {
            let mut node = (&raw const __jit_debug_descriptor.first).read();
            let mut previous = ptr::null_mut();
            while let Some(here) = node.as_ref() {
                assert_eq!(here.previous, previous, "linked both ways");
                let object = std::slice::from_raw_parts(here.object, here.size as usize);
                found.extend((object.first() == Some(&mark)).then(|| object.to_vec()));
                (previous, node) = (node, here.next);
            }
        }
        found
    }

    #[test]
    fn objects_are_listed_until_they_are_dropped_in_any_order() {
        let mark = 0xa5;
        let object = |n| Entry::new(vec![mark, n]);
        let (one, two, three) = (object(1), object(2), object(3));
        assert_eq!(listed(mark), [[mark, 3], [mark, 2], [mark, 1]]);
        drop(two);
        assert_eq!(listed(mark), [[mark, 3], [mark, 1]]);
        drop(three);
        assert_eq!(listed(mark), [[mark, 1]]);
        drop(one);
        assert!(listed(mark).is_empty());
    }
}
