//! `parcae trace`: recording and summarising traces.

pub(crate) mod record;
pub(crate) mod summary;
