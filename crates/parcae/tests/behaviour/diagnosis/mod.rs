//! Finding out why a program does not go on.

mod deadlock;
mod dump_signal;
mod idle;
