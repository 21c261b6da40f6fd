//! Hooks around a switch for sanitizers. They do nothing unless a cfg enables them.
//!
//! `--cfg parcae_asan` with `-Zsanitizer=address`, `--cfg parcae_tsan` with
//! `-Zsanitizer=thread`; HACKING.md has the commands. The calls stand directly beside
//! the switch, in functions that are inlined there: an instrumented frame in between
//! would be recorded on the wrong stack. Valgrind needs no hook at a switch; stacks are registered
//! with it in `stack/valgrind.rs`.
//!
//! The three `imp` modules have the same functions. The first one documents them; their
//! obligations are the same in all three.

pub(super) use imp::{Hooks, SwitchHooks};

#[cfg(not(any(parcae_asan, parcae_tsan)))]
mod imp {
    use crate::stack::Stack;

    /// Hooks of a fiber, which switches only to its resumer and back.
    pub(in crate::stack::fiber) struct Hooks;

    #[allow(clippy::unused_self)]
    impl Hooks {
        pub(in crate::stack::fiber) fn new(_stack: &Stack) -> Hooks {
            Hooks
        }

        /// Called by the resumer before it switches to the fiber.
        ///
        /// # Safety
        ///
        /// On the resumer's stack, directly before the switch to the fiber.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn before_enter(&self) {}

        /// Called by the resumer when it has control again.
        ///
        /// # Safety
        ///
        /// On the resumer's stack, directly after the fiber's switch to it.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn after_enter(&self) {}

        /// Called by the fiber before it switches to its resumer.
        ///
        /// # Safety
        ///
        /// On the fiber's stack, directly before the switch to the resumer.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn before_leave(&self) {}

        /// Called by the fiber when it has control again or for the first time.
        ///
        /// # Safety
        ///
        /// On the fiber's stack, directly after the resumer's switch to it.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn after_leave(&self) {}

        /// Called by the fiber before its last switch.
        ///
        /// # Safety
        ///
        /// On the fiber's stack, directly before the switch to the resumer; the fiber is never
        /// entered again.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn before_exit(&self) {}

        /// Called by the resumer after the fiber's last switch.
        #[inline(always)]
        pub(in crate::stack::fiber) fn destroy(&self) {}
    }

    /// Hooks of a stack that switches to any other.
    pub(in crate::stack::fiber) struct SwitchHooks;

    #[allow(clippy::unused_self)]
    impl SwitchHooks {
        pub(in crate::stack::fiber) fn new(_stack: &Stack) -> SwitchHooks {
            SwitchHooks
        }

        /// Hooks of the thread's own stack.
        pub(in crate::stack::fiber) fn thread_stack() -> SwitchHooks {
            SwitchHooks
        }

        /// Called on this stack before the switch to another.
        ///
        /// # Safety
        ///
        /// On this stack, directly before the switch to the stack of `_to`.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn before_switch_to(&self, _to: &SwitchHooks) {}

        /// Called on this stack when it is entered, for the first time or again.
        ///
        /// # Safety
        ///
        /// On this stack, directly after the switch to it.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn after_switch(&self) {}

        /// Called on another stack when this one is not entered again.
        #[inline(always)]
        pub(in crate::stack::fiber) fn destroy(&self) {}
    }
}

#[cfg(all(parcae_asan, not(parcae_tsan)))]
mod imp {
    use crate::stack::Stack;
    use std::cell::Cell;
    use std::ffi::c_void;
    use std::ptr;

    unsafe extern "C" {
        fn __sanitizer_start_switch_fiber(
            save: *mut *mut c_void,
            bottom: *const c_void,
            size: usize,
        );
        fn __sanitizer_finish_switch_fiber(
            restore: *mut c_void,
            old_bottom: *mut *const c_void,
            old_size: *mut usize,
        );
        fn __asan_unpoison_memory_region(addr: *const c_void, size: usize);
    }

    /// AddressSanitizer tracks the current stack, and keeps a fake stack for each stack to detect
    /// use after return.
    pub(in crate::stack::fiber) struct Hooks {
        bottom: *const c_void,
        size: usize,
        inner_fake: Cell<*mut c_void>,
        outer_fake: Cell<*mut c_void>,
        outer_bottom: Cell<*const c_void>,
        outer_size: Cell<usize>,
    }

    impl Hooks {
        pub(in crate::stack::fiber) fn new(stack: &Stack) -> Hooks {
            let bottom = stack.bottom().cast_const().cast();
            let size = stack.top().addr() - stack.bottom().addr();
            // Frames of the last user may have left poison behind.
            // SAFETY: the fiber owns the stack, and nothing on it is in use.
            unsafe { __asan_unpoison_memory_region(bottom, size) };
            Hooks {
                bottom,
                size,
                inner_fake: Cell::new(ptr::null_mut()),
                outer_fake: Cell::new(ptr::null_mut()),
                outer_bottom: Cell::new(ptr::null()),
                outer_size: Cell::new(0),
            }
        }

        /// # Safety
        ///
        /// As in the first module.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn before_enter(&self) {
            // SAFETY: on the stack that is about to be left, directly before the switch.
            unsafe {
                __sanitizer_start_switch_fiber(self.outer_fake.as_ptr(), self.bottom, self.size);
            }
        }

        /// # Safety
        ///
        /// As in the first module.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn after_enter(&self) {
            let fake = self.outer_fake.get();
            // SAFETY: first thing on the stack that was switched to.
            unsafe { __sanitizer_finish_switch_fiber(fake, ptr::null_mut(), ptr::null_mut()) };
        }

        /// # Safety
        ///
        /// As in the first module.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn before_leave(&self) {
            let (bottom, size) = (self.outer_bottom.get(), self.outer_size.get());
            // SAFETY: on the stack that is about to be left, directly before the switch.
            unsafe { __sanitizer_start_switch_fiber(self.inner_fake.as_ptr(), bottom, size) };
        }

        /// # Safety
        ///
        /// As in the first module.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn after_leave(&self) {
            // SAFETY: first thing on the stack that was switched to.
            unsafe {
                __sanitizer_finish_switch_fiber(
                    self.inner_fake.get(),
                    self.outer_bottom.as_ptr(),
                    self.outer_size.as_ptr(),
                );
            }
        }

        /// # Safety
        ///
        /// As in the first module.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn before_exit(&self) {
            let (bottom, size) = (self.outer_bottom.get(), self.outer_size.get());
            // A null pointer destroys the fake stack.
            // SAFETY: on the stack that is about to be left, directly before the switch.
            unsafe { __sanitizer_start_switch_fiber(ptr::null_mut(), bottom, size) };
        }

        #[inline(always)]
        pub(in crate::stack::fiber) fn destroy(&self) {}
    }

    /// The same for stacks that switch to one another freely.
    pub(in crate::stack::fiber) struct SwitchHooks {
        bottom: *const c_void,
        size: usize,
        fake: Cell<*mut c_void>,
    }

    impl SwitchHooks {
        pub(in crate::stack::fiber) fn new(stack: &Stack) -> SwitchHooks {
            let bottom = stack.bottom().cast_const().cast();
            let size = stack.top().addr() - stack.bottom().addr();
            // SAFETY: the stack is ours, and nothing on it is in use.
            unsafe { __asan_unpoison_memory_region(bottom, size) };
            SwitchHooks { bottom, size, fake: Cell::new(ptr::null_mut()) }
        }

        pub(in crate::stack::fiber) fn thread_stack() -> SwitchHooks {
            let (mut bottom, mut size) = (ptr::null_mut(), 0);
            // SAFETY: asks for the bounds of this thread's own stack.
            unsafe {
                let mut attributes = std::mem::zeroed();
                libc::pthread_getattr_np(libc::pthread_self(), &mut attributes);
                libc::pthread_attr_getstack(&attributes, &mut bottom, &mut size);
                libc::pthread_attr_destroy(&mut attributes);
            }
            SwitchHooks { bottom, size, fake: Cell::new(ptr::null_mut()) }
        }

        /// # Safety
        ///
        /// As in the first module.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn before_switch_to(&self, to: &SwitchHooks) {
            // SAFETY: on the stack that is about to be left, directly before the switch.
            unsafe { __sanitizer_start_switch_fiber(self.fake.as_ptr(), to.bottom, to.size) };
        }

        /// # Safety
        ///
        /// As in the first module.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn after_switch(&self) {
            let fake = self.fake.get();
            // SAFETY: first thing on the stack that was switched to.
            unsafe { __sanitizer_finish_switch_fiber(fake, ptr::null_mut(), ptr::null_mut()) };
        }

        pub(in crate::stack::fiber) fn destroy(&self) {}
    }
}

#[cfg(parcae_tsan)]
mod imp {
    use crate::stack::Stack;
    use std::cell::Cell;
    use std::ffi::c_void;
    use std::ptr;

    unsafe extern "C" {
        fn __tsan_create_fiber(flags: u32) -> *mut c_void;
        fn __tsan_destroy_fiber(fiber: *mut c_void);
        fn __tsan_get_current_fiber() -> *mut c_void;
        fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: u32);
    }

    /// ThreadSanitizer keeps a shadow stack and a clock per fiber.
    pub(in crate::stack::fiber) struct Hooks {
        inner: *mut c_void,
        outer: Cell<*mut c_void>,
    }

    impl Hooks {
        pub(in crate::stack::fiber) fn new(_stack: &Stack) -> Hooks {
            // SAFETY: makes a record; nothing is switched.
            let inner = unsafe { __tsan_create_fiber(0) };
            Hooks { inner, outer: Cell::new(ptr::null_mut()) }
        }

        /// # Safety
        ///
        /// As in the first module.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn before_enter(&self) {
            // SAFETY: asks for this thread's record.
            self.outer.set(unsafe { __tsan_get_current_fiber() });
            // SAFETY: directly before the switch to that stack; its record exists.
            unsafe { __tsan_switch_to_fiber(self.inner, 0) };
        }

        /// # Safety
        ///
        /// As in the first module.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn after_enter(&self) {}

        /// # Safety
        ///
        /// As in the first module.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn before_leave(&self) {
            // SAFETY: directly before the switch to that stack; its record exists.
            unsafe { __tsan_switch_to_fiber(self.outer.get(), 0) };
        }

        /// # Safety
        ///
        /// As in the first module.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn after_leave(&self) {}

        /// # Safety
        ///
        /// As in the first module.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn before_exit(&self) {
            // SAFETY: directly before the switch to that stack; its record exists.
            unsafe { __tsan_switch_to_fiber(self.outer.get(), 0) };
        }

        pub(in crate::stack::fiber) fn destroy(&self) {
            // SAFETY: called from another stack, and the record is not used again.
            unsafe { __tsan_destroy_fiber(self.inner) };
        }
    }

    /// The same for stacks that switch to one another freely.
    pub(in crate::stack::fiber) struct SwitchHooks {
        fiber: *mut c_void,
    }

    impl SwitchHooks {
        pub(in crate::stack::fiber) fn new(_stack: &Stack) -> SwitchHooks {
            // SAFETY: makes a record; nothing is switched.
            SwitchHooks { fiber: unsafe { __tsan_create_fiber(0) } }
        }

        pub(in crate::stack::fiber) fn thread_stack() -> SwitchHooks {
            // SAFETY: asks for this thread's record.
            SwitchHooks { fiber: unsafe { __tsan_get_current_fiber() } }
        }

        /// # Safety
        ///
        /// As in the first module.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn before_switch_to(&self, to: &SwitchHooks) {
            // SAFETY: directly before the switch to that stack; its record exists.
            unsafe { __tsan_switch_to_fiber(to.fiber, 0) };
        }

        /// # Safety
        ///
        /// As in the first module.
        #[inline(always)]
        pub(in crate::stack::fiber) unsafe fn after_switch(&self) {}

        pub(in crate::stack::fiber) fn destroy(&self) {
            // SAFETY: called from another stack, and the record is not used again.
            unsafe { __tsan_destroy_fiber(self.fiber) };
        }
    }
}
