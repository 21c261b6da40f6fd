//! The capability to start programs.

use super::super::permits::{CapPermit, NodeRef, Refusal};
use super::super::{Attenuate, CapError, CapLimit, Delegation, Identity, Limits, Usage, not_wider};
use super::common_methods;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The programs that a [`CapExec`] allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramSet(Programs);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Programs {
    Any,
    Some(Arc<[PathBuf]>),
}

impl ProgramSet {
    /// All programs.
    pub const ANY: ProgramSet = ProgramSet(Programs::Any);

    /// These programs, by absolute paths. A name that is searched in `PATH` is not in the set: the
    /// caller sets the child's `PATH`.
    pub fn of<P: Into<PathBuf>>(programs: impl IntoIterator<Item = P>) -> ProgramSet {
        ProgramSet(Programs::Some(programs.into_iter().map(Into::into).collect()))
    }

    /// Whether this program is allowed.
    pub fn contains(&self, program: &Path) -> bool {
        match &self.0 {
            Programs::Any => true,
            Programs::Some(programs) => {
                program.is_absolute() && programs.iter().any(|allowed| allowed == program)
            }
        }
    }

    fn is_within(&self, wider: &ProgramSet) -> bool {
        match (&self.0, &wider.0) {
            (_, Programs::Any) => true,
            (Programs::Any, _) => false,
            (Programs::Some(own), Programs::Some(wider)) => {
                own.iter().all(|program| wider.contains(program))
            }
        }
    }

    /// Number of programs, for the audit log; `u32::MAX` without limits.
    fn len(&self) -> u32 {
        match &self.0 {
            Programs::Any => u32::MAX,
            Programs::Some(programs) => programs.len() as u32,
        }
    }
}

/// The limits of a [`CapExec`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecLimits {
    /// The programs. A shell or an interpreter among them is any program: arguments are not
    /// limited.
    pub programs: ProgramSet,
    /// Largest number of children that were started and not dropped.
    pub max_children: u32,
}

impl Attenuate for ExecLimits {
    fn within(&self, parent: &ExecLimits) -> Result<(), CapError> {
        if !self.programs.is_within(&parent.programs) {
            return Err(CapError::WiderSet { limit: CapLimit::Programs });
        }
        not_wider(CapLimit::MaxChildren, self.max_children.into(), parent.max_children.into())
    }
}

impl From<ExecLimits> for Limits {
    fn from(limits: ExecLimits) -> Limits {
        Limits::Exec { max_children: limits.max_children, programs: limits.programs.len() }
    }
}

pub(in crate::scope::cap) type ExecNode = NodeRef<ExecLimits>;

/// The capability to start programs, with a set of them and a limit for their number.
///
/// ```no_run
/// use parcae::cap::{CapError, CapExec, ExecLimits, ProgramSet};
///
/// fn only_sort(cap: &CapExec) -> Result<CapExec, CapError> {
///     cap.attenuate(ExecLimits { programs: ProgramSet::of(["/usr/bin/sort"]), max_children: 2 })
/// }
/// ```
///
/// ```compile_fail,E0277
/// fn clone<T: Clone>() {}
/// clone::<parcae::cap::CapExec>();
/// ```
pub struct CapExec {
    node: ExecNode,
}

/// The place of one child under a [`CapExec`] and all its ancestors. Dropping it returns the place,
/// even after the capability was revoked or dropped.
#[must_use = "dropping a permit gives the child's place back"]
pub struct ChildPermit(CapPermit<ExecLimits>);

common_methods!(CapExec, ExecLimits, Exec, "Children");

impl CapExec {
    pub(in crate::scope::cap) fn root(id: Identity, limits: ExecLimits) -> CapExec {
        CapExec { node: NodeRef::root(id, limits.max_children, limits) }
    }

    /// Derives a weaker capability, which cannot be delegated further. Children under it count
    /// against this one too.
    ///
    /// # Errors
    ///
    /// If this one is revoked or not delegable, the tree would get too deep, or a limit is wider
    /// than its own.
    pub fn attenuate(&self, limits: ExecLimits) -> Result<CapExec, CapError> {
        self.derive(limits, Delegation::Forbidden)
    }

    /// Derives a weaker capability that can be delegated further.
    ///
    /// # Errors
    ///
    /// As [`attenuate`](CapExec::attenuate).
    pub fn attenuate_delegable(&self, limits: ExecLimits) -> Result<CapExec, CapError> {
        self.derive(limits, Delegation::Allowed)
    }

    fn derive(&self, limits: ExecLimits, delegation: Delegation) -> Result<CapExec, CapError> {
        let node = self.node.derive(limits.max_children, limits, delegation)?;
        Ok(CapExec { node })
    }

    /// Its limits. An ancestor's may bind first.
    pub fn limits(&self) -> ExecLimits {
        self.node.limits.clone()
    }

    /// Takes a place for a child that runs this program.
    ///
    /// # Errors
    ///
    /// If the program is not in the set, or this one or an ancestor is revoked or has no place
    /// left.
    pub fn admit(&self, program: &Path) -> Result<ChildPermit, CapError> {
        let id = &self.node.id;
        if !self.node.limits.programs.contains(program) {
            return Err(id.denied(CapError::ProgramDenied { cap: id.serial }));
        }
        match self.node.enter() {
            Ok((place, live)) => {
                id.used(Usage::Child { live });
                Ok(ChildPermit(place))
            }
            Err(refusal) => Err(id.denied(match refusal {
                Refusal::Revoked { cap } => CapError::Revoked { cap },
                Refusal::Full { cap, limit } => {
                    CapError::ChildLimitExceeded { cap, limit, live: limit }
                }
            })),
        }
    }
}

impl fmt::Debug for ChildPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildPermit").field("cap", &self.0.node().id.serial).finish_non_exhaustive()
    }
}
