//! Capabilities for the world outside of the process: network, files, programs.
//!
//! | capability | lets its holder | up to |
//! |---|---|---|
//! | [`CapNet`] | open sockets | two sets of addresses, and a number open at once |
//! | [`CapFs`] | use the files beneath a directory | reading or writing, a number open at once |
//! | [`CapExec`] | start programs | a set of programs, and a number alive at once |
//!
//! They are counted trees like that of [`CapSpawn`](super::CapSpawn): a socket that is open under a
//! derived capability is counted in all its ancestors, revoking is one write, and every grant,
//! refusal and revocation is in the audit log. A permit lies in the socket, file or child, and
//! returns the place after the descriptor is closed. So descriptors are bounded: code that may open
//! ten sockets cannot use up those of the process.
//!
//! # Implicit authority
//!
//! A task calls `TcpStream::connect` without an argument. Its authority is then that of its
//! nursery ([`NurseryOpts::net`](crate::NurseryOpts::net) and its siblings), which nurseries inside
//! of it inherit. Without one it is the profile's: all of it, except in
//! [`Sovereign`](crate::profile::Sovereign), where the call is refused with
//! [`CapError::NotShown`]: there each call shows its capability (`connect_under(&cap, …)`), or the
//! opener of a nursery has shown it for all calls inside.
//!
//! An explicit capability counts instead of the implicit one, not in addition to it: a capability
//! is authority by itself, and code that holds one was given it.

mod address;
mod exec;
mod fs;
mod net;

pub use address::{AddressRule, AddressSet, BadAddressRule};
pub use exec::{CapExec, ChildPermit, ExecLimits, ProgramSet};
pub use fs::{CapFs, FilePermit, FsAccess, FsLimits};
pub use net::{CapNet, NetLimits, SocketPermit};

pub(super) use exec::ExecNode;
#[cfg(feature = "io")]
pub(crate) use fs::open_beneath;
pub(super) use fs::{FsNode, grant};
pub(super) use net::NetNode;

use super::{CapError, Issuer};
use std::sync::Arc;

/// The authority of tasks whose calls show none.
#[derive(Debug, Clone, Default)]
pub(crate) struct IoAuthority {
    net: Option<Arc<CapNet>>,
    fs: Option<Arc<CapFs>>,
    exec: Option<Arc<CapExec>>,
    otherwise: Otherwise,
}

/// The authority where no capability was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Otherwise {
    #[default]
    All,
    Nothing,
}

impl IoAuthority {
    /// No authority that was not shown.
    pub(crate) fn none() -> IoAuthority {
        IoAuthority { otherwise: Otherwise::Nothing, ..IoAuthority::default() }
    }

    pub(crate) fn set_net(&mut self, cap: &CapNet) {
        self.net = Some(Arc::new(cap.share()));
    }

    pub(crate) fn set_fs(&mut self, cap: &CapFs) {
        self.fs = Some(Arc::new(cap.share()));
    }

    pub(crate) fn set_exec(&mut self, cap: &CapExec) {
        self.exec = Some(Arc::new(cap.share()));
    }

    /// An error if a capability is another runtime's.
    pub(crate) fn check_issuer(&self, issuer: &Arc<Issuer>) -> Result<(), CapError> {
        self.net.as_ref().map_or(Ok(()), |cap| cap.check_issuer(issuer))?;
        self.fs.as_ref().map_or(Ok(()), |cap| cap.check_issuer(issuer))?;
        self.exec.as_ref().map_or(Ok(()), |cap| cap.check_issuer(issuer))
    }

    /// That of a nursery inside: its own capabilities, and the outer ones for the other kinds.
    pub(crate) fn inside(self, outer: Option<&Arc<IoAuthority>>) -> IoAuthority {
        let Some(outer) = outer else { return self };
        IoAuthority {
            net: self.net.or_else(|| outer.net.clone()),
            fs: self.fs.or_else(|| outer.fs.clone()),
            exec: self.exec.or_else(|| outer.exec.clone()),
            otherwise: outer.otherwise,
        }
    }
}

#[cfg(feature = "io")]
impl IoAuthority {
    /// The capability for the network; `None` if there is no limit.
    pub(crate) fn net(&self) -> Result<Option<Arc<CapNet>>, CapError> {
        self.of(&self.net, "CapNet")
    }

    /// The capability for files; `None` if there is no limit.
    pub(crate) fn fs(&self) -> Result<Option<Arc<CapFs>>, CapError> {
        self.of(&self.fs, "CapFs")
    }

    /// The capability for programs; `None` if there is no limit.
    pub(crate) fn exec(&self) -> Result<Option<Arc<CapExec>>, CapError> {
        self.of(&self.exec, "CapExec")
    }

    fn of<C>(&self, cap: &Option<Arc<C>>, name: &'static str) -> Result<Option<Arc<C>>, CapError> {
        match (cap, self.otherwise) {
            (Some(cap), _) => Ok(Some(Arc::clone(cap))),
            (None, Otherwise::All) => Ok(None),
            (None, Otherwise::Nothing) => Err(CapError::NotShown { cap: name }),
        }
    }
}

/// The methods that the three kinds have in common.
macro_rules! common_methods {
    ($cap:ident, $limits:ty, $revocable:ident, $things:literal) => {
        impl $cap {
            #[doc = concat!("Revokes it and all capabilities derived from it, from any thread. Uses
            that start after this has returned are refused. ", $things, " that are open remain.")]
            ///
            /// Any holder of a capability can revoke it. Lend an attenuated one to code that must
            /// not do so.
            pub fn revoke(&self) {
                self.node.revoke();
            }

            /// The right to revoke it, for its giver to keep.
            pub fn revoker(&self) -> super::super::Revoker {
                super::super::Revoker(super::super::Revocable::$revocable(self.node.clone()))
            }

            /// Whether it or an ancestor was revoked.
            pub fn is_revoked(&self) -> bool {
                self.node.revoked().is_some()
            }

            #[doc = concat!($things, " that are open under it and all capabilities derived from it,
            in number.")]
            pub fn live(&self) -> u32 {
                self.node.live()
            }

            /// Whether weaker capabilities can be derived from it.
            pub fn delegation(&self) -> super::super::Delegation {
                self.node.id.delegation
            }

            /// The number that identifies it in errors and in the audit log.
            pub fn serial(&self) -> u64 {
                self.node.id.serial
            }

            /// An error if it was minted by another runtime.
            pub(crate) fn check_issuer(
                &self,
                issuer: &std::sync::Arc<super::super::Issuer>,
            ) -> Result<(), super::super::CapError> {
                self.node.id.check_issuer(issuer)
            }

            /// The same capability, for the runtime's own bookkeeping.
            pub(crate) fn share(&self) -> $cap {
                $cap { node: self.node.clone() }
            }
        }

        impl std::fmt::Debug for $cap {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                super::super::debug(f, stringify!($cap), &self.node.id, &self.node.limits)
            }
        }
    };
}

use common_methods;
