//! `parcae trace`: what a program did, and where its time went.

pub(crate) mod record;
pub(crate) mod summary;
