//! A handle starts tasks of a runtime from any thread, and has no other authority over it.

use super::{RootTask, RuntimeInner, root};
use crate::base::error::Result;
use crate::scope::cap::CapSpawn;
use crate::scope::cx::{Cx, TaskSettings};
use crate::scope::nursery::SpawnOpts;
use crate::scope::profile::{Profile, Service, Sovereign, SpawnsFreely};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// Starts tasks of a [`Runtime`](super::Runtime) from any thread.
///
/// A handle is cheap to clone and may be given away: it can neither cancel the tasks of others nor
/// shut the runtime down, inspect it or mint capabilities. The workers stay as long as there is a
/// handle; after the runtime is dropped, its handles refuse new tasks.
pub struct Handle<P: Profile = Service> {
    inner: Arc<RuntimeInner>,
    _profile: PhantomData<P>,
}

impl<P: Profile> Handle<P> {
    pub(super) fn new(inner: Arc<RuntimeInner>) -> Handle<P> {
        Handle { inner, _profile: PhantomData }
    }

    pub(crate) fn inner(&self) -> &Arc<RuntimeInner> {
        &self.inner
    }

    pub(super) fn into_inner(self) -> Arc<RuntimeInner> {
        self.inner
    }

    pub(super) fn settings(&self) -> &Arc<TaskSettings> {
        &self.inner.settings
    }

    /// The same handle under the default profile, for adapters.
    pub(super) fn erase(self) -> Handle<Service> {
        Handle::new(self.inner)
    }
}

impl<P: SpawnsFreely> Handle<P> {
    /// Starts a root task. It belongs to the runtime, which waits for it when it is dropped.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let handle = rt.handle();
    /// let task = std::thread::spawn(move || handle.spawn(|_| Ok(42))).join().unwrap()?;
    /// assert_eq!(task.join()?, 42);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the runtime is shutting down, or has no budget or memory for another task.
    #[track_caller]
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl FnOnce(&Cx<P>) -> Result<T> + Send + 'static,
    ) -> Result<RootTask<T>> {
        self.spawn_with(SpawnOpts::new(), task)
    }

    /// As [`spawn`](Handle::spawn), with options: a name, a priority, a stack size, a budget of its
    /// own out of the runtime's.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let urgent = SpawnOpts::new().name("heartbeat").priority(Priority::High);
    /// assert_eq!(rt.spawn_with(urgent, |_| Ok(1))?.join()?, 1);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Handle::spawn), and if the runtime has less than the requested budget.
    #[track_caller]
    pub fn spawn_with<T: Send + 'static>(
        &self,
        opts: SpawnOpts,
        task: impl FnOnce(&Cx<P>) -> Result<T> + Send + 'static,
    ) -> Result<RootTask<T>> {
        root::spawn(&self.inner, opts, None, task)
    }
}

impl Handle<Sovereign> {
    /// Starts a root task by the authority of a capability.
    ///
    /// # Errors
    ///
    /// As in the other profiles, and if the capability does not permit it.
    #[track_caller]
    pub fn spawn<T: Send + 'static>(
        &self,
        cap: &CapSpawn,
        task: impl FnOnce(&Cx<Sovereign>) -> Result<T> + Send + 'static,
    ) -> Result<RootTask<T>> {
        self.spawn_with(cap, SpawnOpts::new(), task)
    }

    /// As [`spawn`](Handle::spawn), with options. The capability's `task_budget` bounds the budget
    /// of the task.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Handle::spawn), and if the runtime has less than the requested budget.
    #[track_caller]
    pub fn spawn_with<T: Send + 'static>(
        &self,
        cap: &CapSpawn,
        opts: SpawnOpts,
        task: impl FnOnce(&Cx<Sovereign>) -> Result<T> + Send + 'static,
    ) -> Result<RootTask<T>> {
        cap.check_issuer(&self.inner.settings.issuer)?;
        let permit = cap.admit()?;
        root::spawn(&self.inner, opts, Some((cap.ceiling(), permit)), task)
    }
}

impl<P: Profile> Clone for Handle<P> {
    fn clone(&self) -> Handle<P> {
        Handle::new(Arc::clone(&self.inner))
    }
}

impl<P: Profile> fmt::Debug for Handle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("profile", &P::ID).finish_non_exhaustive()
    }
}
