//! The boundary: the wrapper of every exported function.
//!
//! Nothing unwinds into C: a panic inside of the runtime becomes the last error of the caller, and
//! the call returns its failure value. (Two functions unwind on purpose, to end the calling task;
//! they are in [`api::task`](crate::api::task).) The child of a fork has no workers, so every call
//! fails there.

use crate::decl::{Int, Long, Status};
use crate::fault::Fault;
use crate::types::*;
use crate::{caller, global};
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The value that a failed call returns.
pub(crate) trait Answer {
    fn failed(fault: &Fault) -> Self;
}

macro_rules! fails_with {
    ($($ty:ty => $value:expr),* $(,)?) => {
        $(impl Answer for $ty { fn failed(_: &Fault) -> $ty { $value } })*
    };
}

fails_with! {
    () => (),
    Int => Int(-1),
    Long => Long(-1),
    i32 => -1,
    i64 => i64::MIN,
    u64 => 0,
    usize => 0,
    Budget => parcae::Budget::ZERO.into(),
    *mut c_void => std::ptr::null_mut(),
    *const c_char => std::ptr::null(),
    *mut Runtime => std::ptr::null_mut(),
    *mut Task => std::ptr::null_mut(),
    *mut Token => std::ptr::null_mut(),
    *mut Cap => std::ptr::null_mut(),
    *mut Actors => std::ptr::null_mut(),
    *mut Address => std::ptr::null_mut(),
    *mut Watch => std::ptr::null_mut(),
    *mut MeterWords => std::ptr::null_mut(),
}

impl Answer for Status {
    fn failed(fault: &Fault) -> Status {
        Status(fault.status())
    }
}

/// Functions that work in the child of a fork, too.
const ALWAYS: [&str; 6] = [
    "parcae_last_error",
    "parcae_last_error_copy",
    "parcae_last_error_kind",
    "parcae_clear_error",
    "parcae_version",
    "parcae_version_text",
];

/// Runs the body of an exported function.
#[inline]
pub(crate) fn guard<R: Answer>(name: &str, body: impl FnOnce() -> Result<R, Fault>) -> R {
    if global::is_forked() && !ALWAYS.contains(&name) {
        return fail(name, global::forked());
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(fault)) => fail(name, fault),
        Err(payload) => {
            let text = (payload.downcast_ref::<&str>().copied())
                .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            fail(name, Fault::new(E_PANIC, text.unwrap_or("the runtime failed")))
        }
    }
}

#[cold]
fn fail<R: Answer>(name: &str, fault: Fault) -> R {
    let answer = R::failed(&fault);
    caller::current(|caller| caller.note(name, fault));
    answer
}

/// Prints a message and aborts, where no return value can report the failure.
pub(crate) fn abort(what: &str) -> ! {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "parcae: {what}");
    std::process::abort()
}

/// A structure of C whose size identifies its version.
///
/// # Safety
///
/// `repr(C)`, begins with its size, and all zeros are a valid value that means the defaults. Later
/// versions add fields at the end.
pub(crate) unsafe trait Versioned: Copy {
    /// Its name in errors.
    const NAME: &'static str;
    /// The size of its first version.
    const FIRST: usize;
}

// SAFETY: as declared in `types`; numbers and pointers. `global::start` refuses a configuration of
// zeros, so it has one version.
unsafe impl Versioned for Config {
    const NAME: &'static str = "parcae_config";
    const FIRST: usize = size_of::<Config>();
}

// SAFETY: as declared in `types`; numbers and pointers.
unsafe impl Versioned for NurseryOpts {
    const NAME: &'static str = "parcae_nursery_opts";
    const FIRST: usize = std::mem::offset_of!(NurseryOpts, slice);
}

// SAFETY: as above.
unsafe impl Versioned for SpawnOpts {
    const NAME: &'static str = "parcae_spawn_opts";
    const FIRST: usize = size_of::<SpawnOpts>();
}

// SAFETY: as above.
unsafe impl Versioned for TenantFigures {
    const NAME: &'static str = "parcae_tenant";
    const FIRST: usize = size_of::<TenantFigures>();
}

// SAFETY: as above; `actor_opts` refuses options without a handler.
unsafe impl Versioned for ActorOpts {
    const NAME: &'static str = "parcae_actor_opts";
    const FIRST: usize = size_of::<ActorOpts>();
}

// SAFETY: as above.
unsafe impl Versioned for ActorsOpts {
    const NAME: &'static str = "parcae_actors_opts";
    const FIRST: usize = size_of::<ActorsOpts>();
}

// SAFETY: as above.
unsafe impl Versioned for SuperviseOpts {
    const NAME: &'static str = "parcae_supervise_opts";
    const FIRST: usize = size_of::<SuperviseOpts>();
}

/// Reads a structure that the caller filled, by the size that it states. Fields that an older
/// version lacks are zero.
///
/// # Safety
///
/// NULL, or a pointer to a structure that begins with its size.
pub(crate) unsafe fn sized<T: Versioned>(given: *const T) -> Result<Option<T>, Fault> {
    if given.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller says: the first field is the size.
    let size = unsafe { given.cast::<usize>().read() };
    if !(T::FIRST..=size_of::<T>()).contains(&size) {
        let (name, most) = (T::NAME, size_of::<T>());
        let text = format!("{name}.size is {size}; it takes sizeof({name}), which is {most}");
        return Err(Fault::argument(text));
    }
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: the caller's structure is as large as it states, and no larger than ours; its fields
    // followed by zeros are a valid value, by the contract of the trait.
    Ok(Some(unsafe {
        value.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(given.cast(), size);
        value.assume_init()
    }))
}

/// A text that may be NULL.
///
/// # Safety
///
/// NULL, or a string that ends with a 0.
pub(crate) unsafe fn text(given: *const c_char) -> Option<String> {
    if given.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    Some(unsafe { std::ffi::CStr::from_ptr(given) }.to_string_lossy().into_owned())
}
