//! Runtimes and root tasks, from start to end.

mod ctrl_c;
mod lifetime;
mod roots;
