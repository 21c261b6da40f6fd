//! Tells Valgrind where stacks are, so that it does not take a switch for a wild
//! change of the stack pointer. Compiled in by `--cfg parcae_valgrind`.

pub(super) use imp::{deregister, register};

#[cfg(all(parcae_valgrind, target_arch = "x86_64"))]
mod imp {
    use std::arch::asm;

    /// Registers `[bottom, top)`; returns Valgrind's id for it (0 outside).
    pub(crate) fn register(bottom: *mut u8, top: *mut u8) -> u64 {
        request(0x1501, bottom.addr() as u64, top.addr() as u64 - 1)
    }

    /// Undoes [`register`].
    pub(crate) fn deregister(id: u64) {
        request(0x1502, id, 0);
    }

    /// A client request: rotations that add up to nothing and an exchange of a
    /// register with itself, which Valgrind recognises and a processor ignores.
    fn request(code: u64, arg1: u64, arg2: u64) -> u64 {
        let args: [u64; 6] = [code, arg1, arg2, 0, 0, 0];
        let result: u64;
        // SAFETY: reads `args`, changes rdx, and rdi back to what it was.
        unsafe {
            asm!(
                "rol rdi, 3",
                "rol rdi, 13",
                "rol rdi, 61",
                "rol rdi, 51",
                "xchg rbx, rbx",
                inlateout("rdx") 0u64 => result,
                in("rax") args.as_ptr(),
                inout("rdi") 0u64 => _,
                options(nostack),
            );
        }
        result
    }
}

#[cfg(not(all(parcae_valgrind, target_arch = "x86_64")))]
mod imp {
    pub(crate) fn register(_bottom: *mut u8, _top: *mut u8) -> u64 {
        0
    }

    pub(crate) fn deregister(_id: u64) {}
}
