//! Runs that can be repeated.

mod explore;
mod lab;
mod lab_run;
mod random;
