//! Declarations of functions and structures for C, as values.
//!
//! Functions are written inside of `c_api!`, structures inside of `c_struct!`. Each writes the Rust
//! item and a declaration of it; the [header](crate::header) is printed from the declarations, so
//! it always agrees with the code. The layout of structures goes into the header as assertions.

use std::ffi::{c_char, c_int, c_long, c_void};

/// A function as C sees it.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Lines of documentation.
    pub docs: &'static [&'static str],
    /// Names and types of the parameters.
    pub params: &'static [(&'static str, &'static str)],
    /// The type of the result.
    pub result: &'static str,
    /// Whether it returns.
    pub returns: Returns,
}

/// Whether a function returns to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// It does.
    Yes,
    /// It ends the task.
    Never,
}

/// A structure as C sees it.
#[derive(Debug, Clone, Copy)]
pub struct Structure {
    /// Its name.
    pub name: &'static str,
    /// Lines of documentation.
    pub docs: &'static [&'static str],
    /// Its size.
    pub size: usize,
    /// The fields in order.
    pub fields: &'static [Field],
}

/// A field of a structure.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: &'static str,
    /// Lines of documentation.
    pub docs: &'static [&'static str],
    /// Its offset in bytes.
    pub offset: usize,
}

/// A type that crosses the boundary.
pub trait CType {
    /// Its name in C.
    const NAME: &'static str;
}

macro_rules! c_types {
    ($($ty:ty => $name:literal),* $(,)?) => { $(impl CType for $ty { const NAME: &'static str = $name; })* };
}

/// `int`, which for Rust is an `i32` like `int32_t`.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Int(pub c_int);

/// `long`.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Long(pub c_long);

/// A result by the table of codes.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub i32);

c_types! {
    () => "void",
    Int => "int",
    Long => "long",
    Status => "parcae_status",
    i32 => "int32_t",
    i64 => "int64_t",
    u32 => "uint32_t",
    u64 => "uint64_t",
    usize => "size_t",
    f64 => "double",
    *mut c_void => "void *",
    *const c_char => "const char *",
    *mut c_char => "char *",
    *mut i32 => "int32_t *",
    *mut i64 => "int64_t *",
    *mut *mut c_void => "void **",
    *const u64 => "const uint64_t *",
    *const u32 => "const uint32_t *",
}
pub(crate) use c_types;

/// Exported functions. Their bodies return a `Result`; an error becomes the last error of the
/// caller, and the function returns its failure value. Panics are caught.
macro_rules! c_api {
    ($(
        $(#[doc = $doc:literal])*
        fn $name:ident($($param:ident: $ty:ty),* $(,)?) -> $result:ty $body:block
    )*) => {
        $(
            $(#[doc = $doc])*
            #[unsafe(no_mangle)]
            #[allow(clippy::missing_safety_doc, reason = "the contract is the header's, for C")]
            pub unsafe extern "C" fn $name($($param: $ty),*) -> $result {
                $crate::boundary::guard(stringify!($name), move || $body)
            }
        )*
        /// The functions of this file, for the header.
        pub const FUNCTIONS: &[$crate::decl::Function] = &[$(
            $crate::decl::Function {
                name: stringify!($name),
                docs: &[$($doc),*],
                params: &[$((stringify!($param), <$ty as $crate::decl::CType>::NAME)),*],
                result: <$result as $crate::decl::CType>::NAME,
                returns: $crate::decl::Returns::Yes,
            }
        ),*];
    };
}
pub(crate) use c_api;

/// A structure with the layout of C.
macro_rules! c_struct {
    (
        $(#[doc = $doc:literal])*
        struct $name:ident as $cname:literal {
            $($(#[doc = $fdoc:literal])* $field:ident: $ty:ty,)*
        }
    ) => {
        $(#[doc = $doc])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy)]
        pub struct $name { $($(#[doc = $fdoc])* pub $field: $ty),* }

        impl $crate::decl::CType for $name { const NAME: &'static str = $cname; }
        impl $crate::decl::CType for *const $name {
            const NAME: &'static str = concat!("const ", $cname, " *");
        }
        impl $crate::decl::CType for *mut $name {
            const NAME: &'static str = concat!($cname, " *");
        }
        impl $name {
            /// The declaration in the header.
            pub const DECLARATION: $crate::decl::Structure = $crate::decl::Structure {
                name: $cname,
                docs: &[$($doc),*],
                size: size_of::<$name>(),
                fields: &[$($crate::decl::Field {
                    name: stringify!($field),
                    kind: <$ty as $crate::decl::CType>::NAME,
                    docs: &[$($fdoc),*],
                    offset: std::mem::offset_of!($name, $field),
                }),*],
            };
        }
    };
}
pub(crate) use c_struct;
