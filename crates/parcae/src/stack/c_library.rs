//! Code that must not be abandoned: the allocator, the C library, the loader, the unwinder.
//!
//! This code holds process-wide locks while it runs. A thread that abandons it half-way leaves such
//! a lock taken forever, and the next allocation of any thread hangs. The overflow handler must
//! therefore decide, from the interrupted program counter alone, whether the thread is in such
//! code.
//!
//! A signal handler cannot ask the loader, so the answer is prepared: [`learn`] finds the objects
//! that define a few characteristic symbols, and stores the address ranges of their code. It looks
//! for symbols and not for file names, so that a preloaded allocator is found too.
//!
//! Where the allocator is in the same object as this code (a static executable, or a program with
//! its own `malloc`), the program counter does not tell them apart, and no overflow is contained.
//! A Rust allocator under names of its own cannot be found at all; the contract of
//! [`Cx::contain_overflow`](crate::Cx::contain_overflow) covers that case.

use std::ffi::CStr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Which code an interrupted instruction belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    /// In none of the objects that must not be abandoned.
    Program,
    /// In one of them.
    CLibrary,
    /// The program and those objects cannot be told apart.
    Unknown,
}

/// Symbols that are defined by objects whose code must not be abandoned. If one of the first two is
/// missing, every answer is [`Code::Unknown`].
const SYMBOLS: [&CStr; 7] = [
    c"malloc",
    c"qsort",
    c"free",
    c"dl_iterate_phdr",
    c"pthread_mutex_lock",
    c"_Unwind_RaiseException",
    c"__cxa_throw",
];
const REQUIRED: usize = 2;

/// Capacity of the table: more than the objects with those symbols times the code segments of each.
const RANGES: usize = 24;

static KNOWN: AtomicBool = AtomicBool::new(false);
/// First and last address; both 0 where there is none.
static CODE: [[AtomicUsize; 2]; RANGES] = [const { [const { AtomicUsize::new(0) }; 2] }; RANGES];

/// Finds the ranges, once per process. Not for signal handlers.
pub(super) fn learn() {
    static LEARNED: Once = Once::new();
    LEARNED.call_once(|| {
        let mut search = Search { target: 0, own: learn as *const () as usize, found: Vec::new() };
        let mut known = !cfg!(target_feature = "crt-static");
        for (index, symbol) in SYMBOLS.iter().enumerate() {
            // SAFETY: looks for a symbol by name.
            let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) }.addr();
            known &= search.add(address) || index >= REQUIRED;
        }
        // SAFETY: asks for a constant: where the loader is; 0 if there is none.
        search.add(unsafe { libc::getauxval(libc::AT_BASE) } as usize);
        for (place, range) in CODE.iter().zip(&search.found) {
            // Relaxed, here and below: ordered by the Release of `KNOWN`.
            place[0].store(range.0, Ordering::Relaxed);
            place[1].store(range.1, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `look_up`.
        KNOWN.store(known && search.found.len() <= RANGES, Ordering::Release);
    });
}

/// Where an instruction is. Async-signal-safe.
pub(super) fn look_up(instruction: usize) -> Code {
    // Acquire: pairs with the Release in `learn`.
    if !KNOWN.load(Ordering::Acquire) {
        return Code::Unknown;
    }
    let within = |range: &[AtomicUsize; 2]| {
        // Relaxed: ordered by the Acquire load above.
        let [first, end] = [0, 1].map(|bound: usize| range[bound].load(Ordering::Relaxed));
        (first..end).contains(&instruction)
    };
    if CODE.iter().any(within) { Code::CLibrary } else { Code::Program }
}

struct Search {
    /// An address in the object to find.
    target: usize,
    /// An address in the object of this code.
    own: usize,
    /// Ranges of code, each once.
    found: Vec<(usize, usize)>,
}

impl Search {
    /// Adds the code of the object that contains `target`. Returns false if there is no such
    /// object, or if it is the object of this code.
    fn add(&mut self, target: usize) -> bool {
        self.target = target;
        // SAFETY: the callback is given this very search, and uses it before the call returns.
        target != 0 && unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut *self).cast()) } == 1
    }
}

/// # Safety
///
/// Called by `dl_iterate_phdr` with a [`Search`].
unsafe extern "C" fn visit(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    search: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: as the caller says; the headers are the loader's, and there are as many as it says.
    let (search, base, headers) = unsafe {
        let object = &*object;
        let headers = std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
        (&mut *search.cast::<Search>(), object.dlpi_addr as usize, headers)
    };
    let segments = || {
        headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
            let first = base.wrapping_add(header.p_vaddr as usize);
            (first, first.wrapping_add(header.p_memsz as usize), header.p_flags & libc::PF_X != 0)
        })
    };
    let has = |address| segments().any(|(first, end, _)| (first..end).contains(&address));
    if !has(search.target) {
        return 0; // the next object
    }
    if has(search.own) {
        return 2;
    }
    for (first, end, _) in segments().filter(|&(.., code)| code) {
        if !search.found.contains(&(first, end)) {
            search.found.push((first, end));
        }
    }
    1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    // Sanitizers bring an allocator of their own, in the same file as this test.
    #[cfg(not(any(parcae_asan, parcae_tsan)))]
    #[test]
    fn the_allocator_is_told_from_the_program() {
        learn();
        let code_of = |symbol: &CStr| {
            // SAFETY: looks for a symbol by name.
            look_up(unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) }.addr())
        };
        for symbol in [c"malloc", c"free", c"realloc", c"printf", c"dlopen", c"_Unwind_Backtrace"] {
            assert_eq!(code_of(symbol), Code::CLibrary, "{symbol:?}");
        }
        assert_eq!(look_up(learn as *const () as usize), Code::Program);
        assert_eq!(look_up(0), Code::Program);
        // SAFETY: asks for a constant. Not its very first address, which is no code.
        let loader = unsafe { libc::getauxval(libc::AT_BASE) } as usize;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let range = |line: &str| {
            let (first, rest) = line.split_once('-')?;
            let first = usize::from_str_radix(first, 16).ok()?;
            (first > loader && rest.contains(" r-xp ")).then_some(first)
        };
        assert_eq!(look_up(maps.lines().find_map(range).unwrap()), Code::CLibrary);
    }

    #[test]
    fn an_object_that_this_code_is_part_of_says_nothing() {
        let mut search = Search { target: 0, own: learn as *const () as usize, found: Vec::new() };
        assert!(!search.add(learn as *const () as usize));
        assert!(!search.add(0));
        assert!(search.found.is_empty());
    }
}
