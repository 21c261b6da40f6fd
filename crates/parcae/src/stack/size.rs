//! Stack sizes: powers of two from 8 KiB to 64 MiB, one size class each.

use super::StackError;
use std::fmt;

/// How much address space a stack reserves. The constants are named after the
/// [profiles](crate::profile) of tasks: `Core` computes, `Service` is the default, `Cluster`
/// supervises, `Sovereign` manages every capability itself.
///
/// Reserved is not resident: a stack of 256 KiB that only ever used its first
/// page costs one page. Up to 1 KiB at the top is used by the runtime itself.
///
/// ```
/// use parcae::stack::StackSize;
///
/// let size = StackSize::new(100_000)?;
/// assert_eq!(size.bytes(), 128 * 1024); // rounded up to a size class
/// assert!(StackSize::new(1).is_ok_and(|s| s == StackSize::MIN));
/// assert!(StackSize::new(1 << 30).is_err());
/// # Ok::<(), parcae::stack::StackError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackSize {
    /// log2 of the size in bytes, less [`MIN_LOG2`].
    class: u8,
}

const MIN_LOG2: u32 = 13;
const MAX_LOG2: u32 = 26;

/// Number of size classes.
pub(super) const CLASSES: usize = (MAX_LOG2 - MIN_LOG2 + 1) as usize;

impl StackSize {
    /// 8 KiB: enough for code with shallow calls. A panic with a backtrace overflows it; that
    /// needs 64 KiB.
    pub const MIN: StackSize = StackSize { class: 0 };
    /// 64 MiB.
    pub const MAX: StackSize = StackSize { class: (CLASSES - 1) as u8 };
    /// 64 KiB, for compute with little I/O (the default of the `Core` profile).
    pub const CORE: StackSize = StackSize { class: 3 };
    /// 256 KiB, the default (the `Service` profile).
    pub const SERVICE: StackSize = StackSize { class: 5 };
    /// 256 KiB (the `Cluster` profile).
    pub const CLUSTER: StackSize = StackSize { class: 5 };
    /// 512 KiB (the `Sovereign` profile).
    pub const SOVEREIGN: StackSize = StackSize { class: 6 };

    /// The smallest size class that holds `bytes`.
    ///
    /// # Errors
    ///
    /// [`StackError::Size`] for 0 and for more than [`StackSize::MAX`].
    pub const fn new(bytes: usize) -> Result<StackSize, StackError> {
        if bytes == 0 || bytes > StackSize::MAX.bytes() {
            return Err(StackError::Size { requested: bytes });
        }
        let log2 = bytes.next_power_of_two().trailing_zeros();
        Ok(StackSize { class: log2.saturating_sub(MIN_LOG2) as u8 })
    }

    /// The size in bytes.
    pub const fn bytes(self) -> usize {
        1 << (self.class as u32 + MIN_LOG2)
    }

    pub(super) fn class(self) -> usize {
        usize::from(self.class)
    }

    pub(super) fn all() -> impl Iterator<Item = StackSize> {
        (0..CLASSES as u8).map(|class| StackSize { class })
    }
}

impl Default for StackSize {
    /// [`StackSize::SERVICE`].
    fn default() -> StackSize {
        StackSize::SERVICE
    }
}

impl fmt::Display for StackSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = self.bytes() / 1024;
        if kib < 1024 { write!(f, "{kib} KiB") } else { write!(f, "{} MiB", kib / 1024) }
    }
}

impl fmt::Debug for StackSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StackSize({self})")
    }
}
