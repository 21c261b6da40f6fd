//! Exploration: one test under many seeds of the deterministic executor.

use super::builder::seed_of_the_environment;
use super::{Builder, Runtime};
use crate::api::lab::run_seeds;
use crate::base::error::Result;
use crate::scope::cx::Preempt;
use crate::scope::profile::Profile;

/// Runs a test under many seeds, each on a new deterministic runtime with three workers and [random
/// preemption](Preempt::Randomly), at checkpoints and at the [points](crate::lab) of locks,
/// channels and other shared objects. [`check`](crate::check) has more strategies, and shrinks the
/// run that fails. It stops at the first seed with which the test fails, and the error says how to
/// repeat that run: with the environment variable `PARCAE_SEED`.
///
/// A test fails by an error or by a panic. [`Builder::explore`] takes other settings.
///
/// ```
/// use parcae::prelude::*;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// // Two tasks increment a counter; one of them can lose the increment of the other.
/// fn count(rt: &Runtime) -> parcae::Result<()> {
///     let counter = AtomicU64::new(0);
///     rt.run(|cx| {
///         cx.nursery(|n| {
///             for _ in 0..2 {
///                 n.spawn(|cx| {
///                     let seen = counter.load(Relaxed);
///                     cx.checkpoint()?; // yields, with some seeds
///                     counter.store(seen + 1, Relaxed);
///                     Ok(())
///                 })?;
///             }
///             Ok(())
///         })
///     })?;
///     assert_eq!(counter.into_inner(), 2);
///     Ok(())
/// }
///
/// let error = parcae::explore(0..100, count).unwrap_err();
/// assert!(error.is_panic());
/// assert!(error.to_string().contains("run it alone with PARCAE_SEED="));
/// ```
///
/// # Errors
///
/// The error of the test with the seed as its [context](crate::Error::context), or the error of
/// building the runtime.
pub fn explore(
    seeds: impl IntoIterator<Item = u64>,
    test: impl FnMut(&Runtime) -> Result<()>,
) -> Result<()> {
    Runtime::builder().workers(3).explore(seeds, test)
}

impl<P: Profile + Clone> Builder<P> {
    /// As [`explore`](crate::explore()), with the settings of this builder. A run depends on all
    /// settings, also on the number of workers: set it, because the default differs between
    /// machines.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// Runtime::builder().workers(2).budget(Budget::SERVICE).explore(0..10, |rt| {
    ///     rt.run(|cx| cx.nursery(|n| n.spawn(|_| Ok(()))?.join()))
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`explore`](crate::explore()).
    pub fn explore(
        self,
        seeds: impl IntoIterator<Item = u64>,
        mut test: impl FnMut(&Runtime<P>) -> Result<()>,
    ) -> Result<()> {
        let preempt = self.preempt.unwrap_or(Preempt::Randomly);
        let workers = self.worker_count();
        let builder = self.preempt(preempt);
        let ran = match seed_of_the_environment()? {
            Some(seed) => run_seeds(builder, workers, preempt, [seed], &mut test),
            None => run_seeds(builder, workers, preempt, seeds, &mut test),
        };
        ran.map_err(|(seed, error)| {
            error.context(format!("failed with seed {seed}; run it alone with PARCAE_SEED={seed}"))
        })
    }
}
