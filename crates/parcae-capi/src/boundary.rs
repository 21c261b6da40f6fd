//! The boundary: what every exported function does besides its work.
//!
//! Nothing unwinds into C: a panic inside of the runtime becomes the last error of the caller, and the value
//! that means failure. (Two functions unwind on purpose, to end the task that calls them; they are in
//! [`api::task`](crate::api::task).) After a fork there are no workers in the child, so there every call fails.

use crate::decl::{Int, Long, Status};
use crate::fault::Fault;
use crate::types::*;
use crate::{flow, global};
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a call returns that has failed.
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
    *mut Meter => std::ptr::null_mut(),
}

impl Answer for Status {
    fn failed(fault: &Fault) -> Status {
        Status(fault.status())
    }
}

/// What can be asked in the child of a fork, too.
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
    flow::current(|flow| flow.note(name, fault));
    answer
}

/// What somebody has to hear who cannot be told by a value: it cannot go on.
pub(crate) fn abort(what: &str) -> ! {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "parcae: {what}");
    std::process::abort()
}

/// A structure of C whose size says which version it is.
///
/// # Safety
///
/// `repr(C)`, begins with its size, and all zeros are a value of it, which means that nothing was
/// said. A version that has more fields has them at the end.
pub(crate) unsafe trait Versioned: Copy {
    /// What errors call it.
    const NAME: &'static str;
    /// The size of its first version.
    const FIRST: usize;
}

// SAFETY: as declared in `types`; numbers and pointers. `global::start` refuses a configuration
// of zeros, so there is one version of it.
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

/// A structure that the caller filled, by what it says of its own size. What an older version does
/// not have is zero.
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
    // SAFETY: the caller's structure is as large as it says, and no larger than ours; zeros and
    // what it has are a value, by the contract of the trait.
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
