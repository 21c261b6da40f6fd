//! Errors of the `anyhow` crate, in both directions.
//!
//! Out: an [`Error`] becomes an `anyhow::Error` that holds an [`AsStd`], whose sources are the
//! contexts. In: `anyhow` finds that type again, below the contexts that it has added, so a round
//! trip loses nothing. Any other `anyhow::Error` comes in as an error of the program's own.
//!
//! # One conversion for standard errors and for those of `anyhow`
//!
//! `From<anyhow::Error>` beside the conversion of all standard errors is refused by the compiler:
//! `anyhow::Error` might implement [`StdError`] one day, and then the two would overlap. So both
//! are one `impl`, for the errors that [`anyhow::Context`] can be called on: exactly the standard
//! errors and `anyhow::Error`, since that trait is sealed. [`Error`] itself is neither, so the
//! `impl` does not overlap with `From<Error> for Error`. Every error that `?` converts without the
//! feature is converted with it, and in the same way.

use super::show::AsStd;
use super::{Error, StdError};
use std::any::Any;

impl<E> From<E> for Error
where
    E: Into<Box<dyn StdError + Send + Sync>> + 'static,
    Result<(), E>: anyhow::Context<(), E>,
{
    fn from(error: E) -> Error {
        let mut error = Some(error);
        let any: &mut dyn Any = &mut error;
        if let Some(error) = any.downcast_mut::<Option<anyhow::Error>>().and_then(Option::take) {
            return Error::from_anyhow(error);
        }
        match error {
            Some(error) => Error::from_std(error.into()),
            None => unreachable!("taken only if it is of the other type"),
        }
    }
}

impl From<Error> for anyhow::Error {
    fn from(error: Error) -> anyhow::Error {
        anyhow::Error::new(AsStd::new(error))
    }
}

impl Error {
    /// Converts an error of the `anyhow` crate, as `?` does. With the feature `anyhow`.
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
    /// let error = rt.run(|cx| Ok(work(cx)?)).unwrap_err();
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
