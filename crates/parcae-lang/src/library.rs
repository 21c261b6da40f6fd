//! Files and sockets: the functions of the library that need authority.
//!
//! They are functions of the host, which gives them to a run or does not. The front-end knows their
//! names, so that a program without the authority gets a fault with the way to give it, and one
//! below `:service` the fault of its profile.

use parcae_ir::{HostFunc, Type};

/// The authority that a function of the library needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Authority {
    /// To read files.
    Read,
    /// To write and remove files.
    Write,
    /// To use sockets.
    Net,
}

impl Authority {
    /// That of a function, by its name; none if there is no such function.
    pub fn of(name: &str) -> Option<Authority> {
        TABLE.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// The option of `parcae run` that gives it.
    pub fn option(self) -> &'static str {
        match self {
            Authority::Read => "--allow-read DIR",
            Authority::Write => "--allow-write DIR",
            Authority::Net => "--allow-net ADDRESSES",
        }
    }

    /// The feature that a profile allows.
    pub(crate) fn feature(self) -> &'static str {
        match self {
            Authority::Read | Authority::Write => "a file",
            Authority::Net => "a socket",
        }
    }
}

/// Name, authority, parameters, result.
type Row = (&'static str, Authority, &'static [Type], Type);

const TABLE: [Row; 13] = [
    ("read_file", Authority::Read, &[Type::Str], Type::Str),
    ("file_exists", Authority::Read, &[Type::Str], Type::Bool),
    ("write_file", Authority::Write, &[Type::Str, Type::Str], Type::Void),
    ("append_file", Authority::Write, &[Type::Str, Type::Str], Type::Void),
    ("remove_file", Authority::Write, &[Type::Str], Type::Void),
    ("tcp_listen", Authority::Net, &[Type::Str], Type::I64),
    ("tcp_port", Authority::Net, &[Type::I64], Type::I64),
    ("tcp_accept", Authority::Net, &[Type::I64], Type::I64),
    ("tcp_connect", Authority::Net, &[Type::Str], Type::I64),
    ("tcp_read", Authority::Net, &[Type::I64], Type::Str),
    ("tcp_read_line", Authority::Net, &[Type::I64], Type::Str),
    ("tcp_write", Authority::Net, &[Type::I64, Type::Str], Type::Void),
    ("tcp_close", Authority::Net, &[Type::I64], Type::Void),
];

/// Names and types of all functions for files and sockets: those that a run may use are given to
/// [`lower_with`](crate::lower_with).
///
/// ```
/// use parcae_lang::{Authority, Profile, Source, library, lower_with};
///
/// let text = "{.profile: service.}\nfunc main() do print(read_file(\"a.txt\")) end";
/// let source = Source::new("read.jan", text);
/// let faults = lower_with(&source, Profile::Core, &[]).unwrap_err();
/// assert_eq!(faults[0].code, "S3001");
///
/// let mut granted = library();
/// granted.retain(|func| Authority::of(&func.name) == Some(Authority::Read));
/// assert!(lower_with(&source, Profile::Core, &granted).is_ok());
/// ```
pub fn library() -> Vec<HostFunc> {
    let func = |(name, _, params, result): &Row| HostFunc {
        name: (*name).into(),
        params: params.to_vec(),
        result: result.clone(),
    };
    TABLE.iter().map(func).collect()
}
