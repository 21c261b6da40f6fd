//! Errors of the `anyhow` crate, in both directions.
//!
//! Out: an [`Error`] becomes an `anyhow::Error` that holds an [`AsStd`], whose sources are the
//! contexts. In: `anyhow` finds that type again, below the contexts that it has added, so a round
//! trip loses nothing. Any other `anyhow::Error` comes in as an error of the program's own.
//!
//! Rejected: `From<anyhow::Error>`. It overlaps with the conversion of all standard errors, because
//! `anyhow::Error` might become one, and that conversion is worth more.

use super::show::AsStd;
use super::{Error, StdError};

impl From<Error> for anyhow::Error {
    fn from(error: Error) -> anyhow::Error {
        anyhow::Error::new(AsStd::new(error))
    }
}

impl Error {
    /// Converts an error of the `anyhow` crate: `work().map_err(Error::from_anyhow)?`. With the
    /// feature `anyhow`.
    ///
    /// An `anyhow::Error` that was made from an [`Error`] becomes that again, with the contexts
    /// that were added meanwhile. Any other becomes an error of the program's own, and
    /// [`downcast_ref`](Error::downcast_ref) finds it unless it has a context.
    ///
    /// ```
    /// use anyhow::Context;
    /// use parcae::prelude::*;
    ///
    /// fn work(cx: &Cx) -> anyhow::Result<()> {
    ///     cx.token().cancel();
    ///     cx.checkpoint().map_err(anyhow::Error::from).context("counting sheep")
    /// }
    ///
    /// let rt = Runtime::builder().build()?;
    /// let error = rt.run(|cx| work(cx).map_err(parcae::Error::from_anyhow)).unwrap_err();
    /// assert!(error.is_cancelled() && error.to_string().starts_with("counting sheep: "));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn from_anyhow(error: anyhow::Error) -> Error {
        // Sees through contexts, but not through errors of the program whose source is one of
        // ours: those are the program's own.
        if let Some(ours) = error.downcast_ref::<AsStd>() {
            let contexts = error.chain().take_while(|cause| !cause.is::<AsStd>());
            let contexts: Vec<String> = contexts.map(ToString::to_string).collect();
            return contexts.into_iter().rev().fold(ours.error.clone(), Error::context);
        }
        let own: Box<dyn StdError + Send + Sync> =
            error.reallocate_into_boxed_dyn_error_without_backtrace();
        Error::from_boxed(own)
    }
}
