//! Counted permits in a tree: the base of spawn and channel capabilities.
//!
//! Each capability has a node. A use is counted in the node and in all its ancestors until
//! its permit is dropped. Besides immutable fields, a node is one shared word:
//!
//! ```text
//!    63     62              32 31              0
//! ┌─────────┬─────────────────┬─────────────────┐
//! │ REVOKED │ references      │ live            │
//! └─────────┴─────────────────┴─────────────────┘
//! ```
//!
//! - `live`: permits taken. Raised only by a CAS that found it below `max_live` and REVOKED
//!   unset; lowered by the permit, or by the use itself if an ancestor refuses.
//! - `references`: the capability, its revokers, and nodes derived from it.
//! - `REVOKED`: set once, by revoke; never cleared. From then on `live` only falls.
//!
//! # Who owns a node
//!
//! Every permit and every reference that its word counts. The thread that brings the sum of both to
//! 0 frees the node. Because a permit keeps its node alive, it is one pointer, and a task
//! costs one read-modify-write per level when it starts and one when it ends. An `Arc` would add
//! one at each end.
//!
//! # Why the limits hold
//!
//! `live` of a node counts the permits below it, and uses that are still climbing. The CAS that
//! raises it compares the value it was computed from, so it never exceeds `max_live`, not even for
//! a moment. An optimistic `fetch_add` that is undone would be cheaper, but for that moment other
//! threads see a full node that is not full: one tenant could make another fail by failing often
//! enough.
//!
//! A use climbs from its own node to the root, so the permits that it returns after a refusal lie
//! below the node that refused, where all uses were refused at that time. The tightest limits,
//! which are nearest, refuse first; a tenant at its own limit does not touch nodes that it shares
//! with others. One effect remains: a node may refuse a use because of a permit that another use
//! took in it and is about to return, since an ancestor of the node was full.
//!
//! # Why revoking holds
//!
//! The mark is in the word that uses count in. A use that arrives after the mark is refused. A use
//! that was counted before it is visible to the revoker in `live`. So "revoke, then wait until
//! `live` is 0" waits for all uses.

use super::{Attenuate, AuditEvent, CapError, Delegation, Identity};
use crate::base::shim::atomic::{AtomicU64, Ordering, fence};
use std::ops::Deref;
use std::ptr::NonNull;

/// One permit.
const PLACE: u64 = 1;
const LIVE: u64 = (1 << 32) - 1;
/// One reference.
const REFERENCE: u64 = 1 << 32;
const REFERENCES: u64 = REVOKED - REFERENCE;
const REVOKED: u64 = 1 << 63;
/// Largest number of references to a node.
pub(super) const MAX_REFERENCES: u64 = REFERENCES / REFERENCE;

/// The reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Revoked { cap: u64 },
    Full { cap: u64, limit: u32 },
}

/// A capability's node. Only `word` ever changes.
pub(super) struct CapNode<L> {
    word: AtomicU64,
    max_live: u32,
    pub(super) limits: L,
    pub(super) id: Identity,
    parent: Option<NodeRef<L>>,
}

/// A reference to a node.
pub(super) struct NodeRef<L>(NonNull<CapNode<L>>);

/// A permit in a node and in all its ancestors, returned on drop.
pub(super) struct CapPermit<L>(NonNull<CapNode<L>>);

// SAFETY: a node is shared like one in an `Arc`: `word` is atomic, and the rest is read-only until
// it is freed, which may happen on any thread. So its contents must be both.
unsafe impl<L: Send + Sync> Send for NodeRef<L> {}
// SAFETY: as above.
unsafe impl<L: Send + Sync> Sync for NodeRef<L> {}
// SAFETY: as above.
unsafe impl<L: Send + Sync> Send for CapPermit<L> {}
// SAFETY: as above.
unsafe impl<L: Send + Sync> Sync for CapPermit<L> {}

impl<L> NodeRef<L> {
    pub(super) fn root(id: Identity, max_live: u32, limits: L) -> NodeRef<L> {
        NodeRef::new(id, max_live, limits, None)
    }

    fn new(id: Identity, max_live: u32, limits: L, parent: Option<NodeRef<L>>) -> NodeRef<L> {
        let word = AtomicU64::new(REFERENCE);
        let node = Box::new(CapNode { word, max_live, limits, id, parent });
        NodeRef(NonNull::from(Box::leak(node)))
    }

    /// A new node below this one, if that is allowed.
    pub(super) fn derive(
        &self,
        max_live: u32,
        limits: L,
        delegation: Delegation,
    ) -> Result<NodeRef<L>, CapError>
    where
        L: Attenuate,
    {
        let checked = match self.revoked() {
            Some(cap) => Err(CapError::Revoked { cap }),
            None => self.id.derive(&limits, &self.limits, delegation),
        };
        let id = checked.map_err(|error| self.id.denied(error))?;
        Ok(NodeRef::new(id, max_live, limits, Some(self.clone())))
    }

    /// Takes a permit here and in all ancestors, or none. Also returns the number of permits taken
    /// here.
    #[inline]
    pub(super) fn enter(&self) -> Result<(CapPermit<L>, u32), Refusal> {
        let live = self.take_permit()?;
        let mut node = self;
        while let Some(parent) = &node.parent {
            if let Err(refusal) = parent.take_permit() {
                self.retreat(parent);
                return Err(refusal);
            }
            node = parent;
        }
        Ok((CapPermit(self.0), live))
    }

    /// Returns the permits that were taken below `refused`.
    #[cold]
    fn retreat(&self, refused: &NodeRef<L>) {
        let mut node = self;
        loop {
            // Relaxed: nothing was done in this permit that its next holder would have to see, and
            // earlier work in it reaches the next holder through any read-modify-write. Not the
            // last count: the caller's reference is still there.
            node.word.fetch_sub(PLACE, Ordering::Relaxed);
            match &node.parent {
                Some(parent) if parent.0 != refused.0 => node = parent,
                _ => return,
            }
        }
    }
}

impl<L> CapNode<L> {
    #[inline]
    fn take_permit(&self) -> Result<u32, Refusal> {
        // Acquire: pairs with the Release in `revoke`: a refused use sees the revoker's earlier
        // writes.
        let mut seen = self.word.load(Ordering::Acquire);
        loop {
            if seen & REVOKED != 0 {
                return Err(Refusal::Revoked { cap: self.id.serial });
            }
            let live = live_in(seen);
            if live >= self.max_live {
                return Err(Refusal::Full { cap: self.id.serial, limit: self.max_live });
            }
            let next = seen + PLACE;
            // Acquire, on success: pairs with the Release in `release`: work in a returned permit
            // comes before work in the same permit later. On failure: as for the load above. No
            // carry into the references: `live` is below a u32.
            match self.word.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => return Ok(live + 1),
                Err(now) => seen = now,
            }
        }
    }

    /// Marks the node: uses of it and of all nodes below are refused from now on.
    pub(super) fn revoke(&self) {
        // Release: pairs with the Acquires in `take_permit` and `revoked`.
        if self.word.fetch_or(REVOKED, Ordering::Release) & REVOKED == 0 {
            self.id.record(AuditEvent::Revoked);
        }
    }

    /// The nearest revoked node on the way up, this one included.
    pub(super) fn revoked(&self) -> Option<u64> {
        let mut node = self;
        loop {
            // Acquire: pairs with the Release in `revoke`.
            if node.word.load(Ordering::Acquire) & REVOKED != 0 {
                return Some(node.id.serial);
            }
            node = node.parent.as_deref()?;
        }
    }

    /// Number of permits taken.
    pub(super) fn live(&self) -> u32 {
        // Acquire: pairs with the Release in `release`: a reader of 0 sees all work that was done.
        live_in(self.word.load(Ordering::Acquire))
    }

    /// Sets the number of references, for a test.
    #[cfg(all(test, not(loom)))]
    pub(super) fn set_references(&self, references: u64) {
        // Relaxed: one thread.
        let word = self.word.load(Ordering::Relaxed);
        self.word.store((word & !REFERENCES) + references * REFERENCE, Ordering::Relaxed);
    }
}

fn live_in(word: u64) -> u32 {
    (word & LIVE) as u32
}

/// Subtracts `count` from a node's word, and frees the node when nothing is left.
///
/// # Safety
///
/// The caller owns this permit or reference and does not touch the node afterwards.
#[inline]
unsafe fn release<L>(node: NonNull<CapNode<L>>, count: u64) {
    // Release: pairs with the Acquire of the CAS in `take_permit` (the next holder), of
    // `live`, and with the fence below (the thread that frees). SAFETY: the caller's count keeps
    // the node alive up to here.
    let before = unsafe { node.as_ref() }.word.fetch_sub(count, Ordering::Release);
    debug_assert!(before & !REVOKED >= count, "gave back more than was taken");
    if before & !REVOKED == count {
        // Acquire: this fence pairs with the Release above in all threads that returned their
        // counts before: their last access to the node comes before its end.
        fence(Ordering::Acquire);
        // SAFETY: the counts are 0, so there is no other pointer to the node; it was made by a box.
        #[cfg_attr(not(loom), expect(unused_mut, reason = "for the model's check"))]
        let mut node = unsafe { Box::from_raw(node.as_ptr()) };
        #[cfg(loom)]
        node.word.with_mut(|_| ()); // a model fails here if any access is not ordered before
        drop(node);
    }
}

impl<L> Deref for NodeRef<L> {
    type Target = CapNode<L>;

    #[inline]
    fn deref(&self) -> &CapNode<L> {
        // SAFETY: the reference keeps the node alive, and the node is not borrowed exclusively
        // before its end.
        unsafe { self.0.as_ref() }
    }
}

impl<L> Clone for NodeRef<L> {
    fn clone(&self) -> NodeRef<L> {
        // Relaxed: the caller's reference keeps the node alive, and this orders no other access.
        let counted = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            (word & REFERENCES != REFERENCES).then(|| word + REFERENCE)
        });
        // A CAS, not an addition: leaking two billion revokers is a panic, not a revoked
        // capability.
        assert!(counted.is_ok(), "more than {MAX_REFERENCES} references to a capability");
        NodeRef(self.0)
    }
}

impl<L> Drop for NodeRef<L> {
    fn drop(&mut self) {
        // SAFETY: this reference, once. The depth of a tree bounds the recursion.
        unsafe { release(self.0, REFERENCE) };
    }
}

impl<L> CapPermit<L> {
    /// Takes another permit through the same node.
    pub(super) fn enter_again(&self) -> Result<(CapPermit<L>, u32), Refusal> {
        // Not a reference of its own: this permit keeps the node alive meanwhile.
        let node = std::mem::ManuallyDrop::new(NodeRef(self.0));
        node.enter()
    }

    /// The node that the permit was taken through.
    pub(super) fn node(&self) -> &CapNode<L> {
        // SAFETY: the permit keeps the node alive, and the node is not borrowed exclusively before
        // its end.
        unsafe { self.0.as_ref() }
    }
}

impl<L> Drop for CapPermit<L> {
    #[inline]
    fn drop(&mut self) {
        let mut next = Some(self.0);
        while let Some(node) = next {
            // SAFETY: the permit here has not been returned yet, so the node is alive. Its parent
            // outlives it: a permit is still to be returned there too.
            next = unsafe { node.as_ref() }.parent.as_ref().map(|parent| parent.0);
            // SAFETY: this permit, once; `node` is not used afterwards.
            unsafe { release(node, PLACE) };
        }
    }
}
