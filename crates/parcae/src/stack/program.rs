//! Which functions of a backtrace are the program's own.
//!
//! A sleeping task has some forty frames of the runtime and the standard library above the
//! program's innermost frame, and as many below. By default only the program's frames are shown.
//!
//! # How a function is classified
//!
//! 1. *By its object*: the C library and the unwinder are never the program's.
//! 2. *By its file*, where debug information names it: the sources of the runtime and of the
//!    standard library are recognised by their folders. So a closure of the program that the
//!    standard library calls counts as the program's, and the glue that calls it does not, whatever
//!    their names are.
//! 3. *By its name* otherwise: by the crate at the start of its path. Crate names are compared as a
//!    whole: `parcae_demo` is not `parcae`. For `<A as B>::f` both paths count: if either belongs
//!    to the program, so does the function.
//!
//! A closure that was inlined into the runtime has no name of its own without debug information
//! (`debug = "line-tables-only"` is enough). If no frame belongs to the program, all are shown.

use crate::stack::frames::Function;
use std::ffi::CStr;

/// The folder of this crate's sources, as the compiler writes it into debug information.
const OWN_FOLDER: &str = {
    let (file, name) = (file!(), "stack/program.rs");
    match file.as_bytes().split_at_checked(file.len() - name.len()) {
        Some((folder, _)) => match std::str::from_utf8(folder) {
            Ok(folder) => folder,
            Err(_) => panic!("the path of this file is UTF-8"),
        },
        None => panic!("this file has its name"),
    }
};

/// The author of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    Program,
    /// The runtime, the standard library or the C library.
    Other,
}

/// The program's own functions; all functions if there are none.
pub(crate) fn own(functions: Vec<(Function, Author)>) -> Vec<Function> {
    let any = functions.iter().any(|(_, author)| *author == Author::Program);
    let shown = |author| !any || author == Author::Program;
    functions.into_iter().filter(|(_, author)| shown(*author)).map(|(f, _)| f).collect()
}

/// Classifies the function that an address belongs to.
pub(crate) fn author(address: usize, function: &Function) -> Author {
    if cfg!(test) && is_of_a_test(function) {
        return Author::Program;
    }
    let other = is_of_a_system_library(address)
        || match &function.file {
            Some(file) => is_of_a_library(file) || is_of_another_crate_of_ours(&function.name),
            None => is_named_as_a_library(&function.name),
        };
    if other { Author::Other } else { Author::Program }
}

/// Whether a function is one of this crate's own tests, which count as the program. With less than
/// full debug information a name has no path, but it has generic arguments, which may name a test.
fn is_of_a_test(function: &Function) -> bool {
    let path = function.name.split_once('<').map_or(&*function.name, |(path, _)| path);
    let in_file = |file: &String| file.ends_with("/tests.rs") || file.contains("/tests/");
    path.contains("::tests::") || function.file.as_ref().is_some_and(in_file)
}

/// Whether a source file belongs to the runtime or the standard library.
fn is_of_a_library(file: &str) -> bool {
    let standard = ["/rustlib/src/rust/library/", "/rust/deps/"];
    file.contains(OWN_FOLDER)
        || file.contains("/rustc/") && file.contains("/library/")
        || standard.iter().any(|folder| file.contains(folder))
}

/// Whether a name belongs to another crate of this project that tasks run code of.
fn is_of_another_crate_of_ours(name: &str) -> bool {
    crates(name).any(|name| matches!(name, "parcae_core" | "parcae_capi"))
        // Its traits are implemented by programs.
        || crates(name).next() == Some("parcae_actor")
}

/// Whether a function belongs to the engines that run generated code.
pub(crate) fn is_of_an_engine(function: &Function) -> bool {
    let folders = ["parcae-interp/src/", "parcae-jit/src/"];
    let in_folder = |file: &String| folders.iter().any(|folder| file.contains(folder));
    function.file.as_ref().is_some_and(in_folder)
        || crates(&function.name).any(|name| matches!(name, "parcae_interp" | "parcae_jit"))
}

fn is_named_as_a_library(name: &str) -> bool {
    if !name.contains("::") {
        // The switch, and functions that the compiler adds. Other plain names are C functions.
        return ["janus_", "__rust", "rust_begin_unwind", "_start"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
    }
    let mut crates = crates(name).peekable();
    // Bare generic parameters name no crate.
    crates.peek().is_some()
        && crates.all(|name| {
            let ours = matches!(name, "parcae" | "parcae_core" | "parcae_capi" | "parcae_actor");
            ours || matches!(name, "std" | "core" | "alloc" | "std_detect" | "hashbrown")
        })
}

/// The crates of a function's path: one, or those of a type and of a trait.
fn crates(name: &str) -> impl Iterator<Item = &str> {
    let mut paths = [Some(name), None];
    if let Some(inner) = name.strip_prefix('<') {
        let mut depth = 0_u32;
        // The position of ` as ` or of the closing bracket, outside of nested brackets.
        let end = inner.char_indices().find(|&(at, letter)| {
            match letter {
                '<' | '(' | '[' => depth += 1,
                // Part of an arrow, in a function type.
                '>' if inner[..at].ends_with('-') => {}
                '>' | ')' | ']' if depth > 0 => depth -= 1,
                '>' => return true,
                ' ' if depth == 0 => return inner[at..].starts_with(" as "),
                _ => {}
            }
            false
        });
        let (kind, rest) = end.map_or((inner, ""), |(at, _)| inner.split_at(at));
        paths = [Some(kind), rest.strip_prefix(" as ")];
    }
    paths.into_iter().flatten().filter_map(first_crate)
}

/// The crate at the start of a path; `None` for a parameter, a reference to one, or a tuple.
fn first_crate(path: &str) -> Option<&str> {
    let start = path.trim_start_matches(['<', '&', '*', '[', '(', ' ']);
    let start = ["mut ", "const ", "dyn "].iter().fold(start, |s, word| s.trim_start_matches(word));
    let (first, _) = start.split_once("::")?;
    // Newer manglings append a hash: `core[5e2f…]`.
    let first = first.split_once('[').map_or(first, |(name, _)| name);
    let is_name = first.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    (is_name && !first.is_empty()).then_some(first)
}

/// Whether an address is in the C library, the loader, the unwinder, or the kernel's vDSO.
fn is_of_a_system_library(address: usize) -> bool {
    const LIBRARIES: [&str; 5] = ["libc.so", "libc-", "ld-linux", "libgcc_s", "linux-vdso"];
    // SAFETY: `info` is filled if the call succeeds; the loader owns the name and keeps it.
    let object = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let found = libc::dladdr(std::ptr::without_provenance(address), &mut info) != 0;
        if !found || info.dli_fname.is_null() {
            return false;
        }
        CStr::from_ptr(info.dli_fname).to_string_lossy()
    };
    let name = object.rsplit('/').next().unwrap_or_default();
    LIBRARIES.iter().any(|library| name.starts_with(library))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[track_caller]
    fn is(author_expected: Author, name: &str, file: Option<&str>) {
        let function =
            Function { name: name.to_owned(), file: file.map(str::to_owned), line: Some(1) };
        assert_eq!(author(0, &function), author_expected, "{name} {file:?}");
    }

    #[test]
    fn the_file_decides_where_it_is_known() {
        use Author::{Other, Program};
        let runtime = format!("/home/u/x/{OWN_FOLDER}time/mod.rs");
        let core = "/rustc/0123abcd/library/core/src/ops/function.rs";
        is(Other, "parcae::time::sleep", Some(&runtime));
        is(
            Other,
            "<demo::main::{closure#0} as core::ops::function::FnOnce<()>>::call_once",
            Some(core),
        );
        is(Other, "core::ops::function::FnOnce::call_once", Some(core));
        let sources = "/opt/rust/lib/rustlib/src/rust/library/std/src/panicking.rs";
        is(Other, "std::panicking::catch_unwind", Some(sources));
        is(Program, "parcae_demo::serve", Some("/home/u/parcae_demo/src/main.rs"));
        is(Program, "<alloc::vec::Vec<T> as demo::Work>::work", Some("src/main.rs"));
        // The command-line program has the name of the library.
        is(Program, "parcae::demo::million::run", Some("/x/crates/parcae-cli/src/demo/million.rs"));
        // Names without a path.
        is(Other, "live<parcae::profile::Service, demo::tests::work::{closure#0}>", Some(&runtime));
        is(Program, "work", Some(&format!("/home/u/x/{OWN_FOLDER}sysmon/tests.rs")));
        is(Other, "parcae_core::fair::Queue::pick", Some("/x/crates/parcae-core/src/fair/mod.rs"));
        is(Other, "parcae_actor::actor::run", Some("/x/crates/parcae-actor/src/actor.rs"));
        is(Program, "<demo::Room as parcae_actor::Actor>::handle", Some("src/main.rs"));
    }

    #[test]
    fn the_crate_decides_otherwise() {
        use Author::{Other, Program};
        for name in [
            "parcae::task::call",
            "parcae::nursery::spawn::<impl parcae::nursery::Nursery<P>>::spawn::{{closure}}",
            "<parcae::nursery::Nursery<P> as core::ops::Drop>::drop",
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
            "<alloc::boxed::Box<F,A> as core::ops::function::FnOnce<Args>>::call_once",
            "<T as core::convert::Into<U>>::into",
            "<&mut F as core::ops::function::FnOnce<(A, fn(B) -> C)>>::call_once",
            "<core[5e2f]::panic::AssertUnwindSafe<F> as core[5e2f]::ops::FnOnce<()>>::call_once",
            "janus_context_switch",
        ] {
            is(Other, name, None);
        }
        for name in [
            "parcae_demo::serve",
            "parcae_demo::serve::{{closure}}",
            "parcaenot::run",
            "demo::main",
            "<demo::Server as core::ops::function::FnOnce<()>>::call_once",
            "<alloc::vec::Vec<u8> as demo::Work>::work",
            "<T as demo::Work>::work",
            "<demo::f::{closure#0} as core::ops::function::FnOnce<()>>::call_once",
            "a_function_in_c",
            "coreutils::cp",
        ] {
            is(Program, name, None);
        }
    }

    #[test]
    fn the_c_library_is_nobodys_own() {
        let pid = libc::getpid as *const () as usize;
        let function = Function { name: "getpid".into(), file: Some("./x.c".into()), line: None };
        assert_eq!(author(pid + 1, &function), Author::Other);
        let here = the_c_library_is_nobodys_own as *const () as usize;
        assert!(!is_of_a_system_library(here + 1));
    }

    #[test]
    fn where_nothing_is_the_programs_all_is_shown() {
        let function = |name: &str| Function { name: name.into(), file: None, line: None };
        let all = vec![(function("a"), Author::Other), (function("b"), Author::Program)];
        assert_eq!(own(all), [function("b")]);
        let none = vec![(function("a"), Author::Other), (function("b"), Author::Other)];
        assert_eq!(own(none).len(), 2);
    }
}
