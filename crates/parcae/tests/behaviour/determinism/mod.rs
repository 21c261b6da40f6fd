//! Runs that can be repeated.

mod explore;
mod faults;
mod lab;
mod lab_run;
mod oracles;
mod random;
