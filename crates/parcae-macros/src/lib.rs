//! `#[budgeted]`: inserts checkpoints, so that a budget can stop a function.
//!
//! A fiber yields only where it calls the runtime. A function that never does can be neither
//! preempted nor cancelled, and exceeds every budget. The attribute inserts calls that bound the
//! work between two of them: at the entry, because recursion is a loop, and into every loop.
//!
//! # What is inserted
//!
//! | where | call | effect |
//! |---|---|---|
//! | start of the function | `let meter = unsafe { …::enter() };` | charges one op, checks the stack |
//! | start of each closure | the same | the same |
//! | top of the body of each loop | `meter.tick();` | charges one op per iteration |
//!
//! Both calls may unwind, when the task is cancelled or its budget is exhausted. Destructors run;
//! nothing is returned. The variable has a name that no other code can see.
//!
//! ```
//! # use parcae_macros::budgeted;
//! # mod runtime {
//! #     pub mod __private {
//! #         use std::cell::Cell;
//! #         thread_local!(pub(super) static OPS: Cell<u64> = const { Cell::new(0) });
//! #         #[derive(Clone, Copy)]
//! #         pub struct Meter;
//! #         pub unsafe fn enter() -> Meter { Meter.tick(); Meter }
//! #         impl Meter { pub fn tick(self) { OPS.set(OPS.get() + 1) } }
//! #     }
//! #     pub fn ops_charged() -> u64 { __private::OPS.get() }
//! # }
//! #[budgeted(crate = runtime)]
//! fn collatz(mut n: u64) -> u32 {
//!     let mut steps = 0;
//!     while n != 1 {
//!         n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
//!         steps += 1;
//!     }
//!     steps
//! }
//!
//! # fn main() {
//! assert_eq!(collatz(27), 111);
//! assert_eq!(runtime::ops_charged(), 112); // one for the entry
//! # }
//! ```
//!
//! which the compiler sees as
//!
//! ```
//! # mod parcae {
//! #     pub mod __private {
//! #         pub struct Meter;
//! #         pub unsafe fn enter() -> Meter { Meter }
//! #         impl Meter { pub fn tick(&self) {} }
//! #     }
//! # }
//! # use parcae::__private::enter;
//! fn collatz(mut n: u64) -> u32 {
//!     let meter = unsafe { enter() }; // by its full path
//!     let mut steps = 0;
//!     while n != 1 {
//!         meter.tick();
//!         n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
//!         steps += 1;
//!     }
//!     steps
//! }
//! # collatz(3);
//! ```
//!
//! ## Closures
//!
//! A closure may be called by another task, on another thread and long after the function that made
//! it has returned. It therefore enters by itself instead of using the meter of that function, and
//! is charged for each call. This also makes iterators stoppable: `(0..).map(|n| n * n).max()`
//! calls the closure for each element.
//!
//! # Where it can stand
//!
//! On functions and methods of every kind but the two below, and on `impl` blocks, traits and
//! inline modules, where it means every function with a body. A function that has the
//! attribute itself is charged once, by its own.
//!
//! Refused, because no fiber can be charged, or the wrong one would be:
//!
//! - `async fn`, and loops in `async` blocks and closures. Async code runs on the stack of the task
//!   that polls it, and that task would be charged and unwound. Async blocks without loops are left
//!   alone.
//! - `const fn`, which the compiler may run.
//!
//! # What is not seen
//!
//! The attribute sees the tokens of its item, and not their meaning.
//!
//! - **Items in the body**: `fn`, `impl` and `mod` in a function are functions of their own;
//!   annotate them.
//! - **Macros**: the tokens between their delimiters have no meaning before the expansion, so
//!   `vec![{ loop {} }]` and loops in your macros are not metered. Let the macro call a budgeted
//!   function.
//! - **Functions that are called**: a loop in a library, `sort`, `(0..n).sum()` or
//!   `iter.collect()` runs until it is done, unless it calls a closure that is metered.
//! - **Constants**: `const` blocks and items, statics, array lengths and constant arguments are
//!   run by the compiler, and are left alone.
//!
//! # Where unwinding ends
//!
//! A panic that would leave an `extern "C"` function aborts the process, by the rules of that ABI,
//! and so does being stopped. If the caller can be unwound, declare the function `extern
//! "C-unwind"`.
//!
//! # What the runtime provides
//!
//! `unsafe fn __private::enter() -> Meter`, and `Meter::tick(self)`, where `Meter` is `Copy` and
//! not `Send`. A budgeted function is an ordinary function that any code may call, so both calls
//! have to work on every thread, also where no task runs. A destructor may be budgeted too; while
//! its thread is panicking the calls must not unwind, because that would abort the process.
//!
//! # Arguments
//!
//! `#[budgeted(crate = path)]` names the runtime where it is not `::parcae`: renamed,
//! re-exported, or replaced in a test. The path is used in every function that is
//! instrumented, so a relative one has to mean the same in all of them.
//!
//! # Rejected
//!
//! - *One meter for a function and its closures.* It would make closures that are sent to
//!   other threads charge the wrong task, and the meter is not `Send` so that this does not
//!   compile.
//! - *Charging only closures with loops.* It would save an op for each element, and leave
//!   endless iterators unstoppable.
//! - *Charging by the size of a body.* An op is a unit that users have to be able to count.
//! - *Skipping a `const fn` or `async fn` of an annotated block.* The attribute on the block would
//!   be misleading; an error can be fixed by moving the function.

mod args;
mod instrument;
mod test;

use proc_macro::TokenStream;
use quote::quote;

use args::Arguments;

/// Makes a function stoppable by its budget: charges one op and checks the stack when the function
/// or a closure in it is called, and charges one op for each iteration of each loop.
///
/// Allowed on functions, and on `impl` blocks, traits and inline modules for all functions in them.
/// `#[budgeted(crate = path)]` names the runtime if it is not `::parcae`. The [crate](self)
/// documentation lists the code that is not instrumented.
///
/// ```
/// # use parcae_macros::budgeted;
/// # mod runtime {
/// #     pub mod __private {
/// #         #[derive(Clone, Copy)]
/// #         pub struct Meter;
/// #         pub unsafe fn enter() -> Meter { Meter }
/// #         impl Meter { pub fn tick(self) {} }
/// #     }
/// # }
/// struct Grid(Vec<Vec<u8>>);
///
/// #[budgeted(crate = runtime)]
/// impl Grid {
///     fn find(&self, wanted: u8) -> Option<(usize, usize)> {
///         for (y, row) in self.0.iter().enumerate() {
///             for (x, &cell) in row.iter().enumerate() {
///                 if cell == wanted {
///                     return Some((x, y));
///                 }
///             }
///         }
///         None
///     }
/// }
///
/// # fn main() {
/// assert_eq!(Grid(vec![vec![1, 2], vec![3, 4]]).find(3), Some((0, 1)));
/// # }
/// ```
#[proc_macro_attribute]
pub fn budgeted(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand(arguments, item.clone()).unwrap_or_else(|error| {
        let (error, item) = (error.to_compile_error(), proc_macro2::TokenStream::from(item));
        quote!(#error #item).into()
    })
}

fn expand(arguments: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let Arguments { runtime } = syn::parse(arguments)?;
    instrument::item(syn::parse(item)?, runtime).map(TokenStream::from)
}

/// A test under the lab: the function runs as a root task under many schedules, and once on
/// threads. `schedules = number` sets how many, `crate = path` names the runtime if it is not
/// `::parcae`.
///
/// ```
/// # use parcae_macros as parcae;
/// # mod runtime {
/// #     pub struct Cx;
/// #     pub mod __private {
/// #         pub fn test(_: Option<u64>, test: impl Fn(&super::Cx) -> Result<(), ()>) {
/// #             test(&super::Cx).unwrap();
/// #         }
/// #     }
/// # }
/// # use runtime::Cx;
/// #[parcae::test(schedules = 500, crate = crate::runtime)]
/// fn it_works(cx: &Cx) -> Result<(), ()> {
///     let _ = cx; // opens a nursery, and spawns
///     Ok(())
/// }
/// # fn main() {}
/// ```
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = syn::parse(arguments)
        .and_then(|arguments| test::expand(&arguments, &syn::parse(item.clone())?));
    match expanded {
        Ok(expanded) => expanded.into(),
        Err(error) => {
            let (error, item) = (error.to_compile_error(), proc_macro2::TokenStream::from(item));
            quote!(#error #item).into()
        }
    }
}
