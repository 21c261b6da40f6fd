//! Which task runs next, and for how long.

mod fairness;
mod order;
mod turns;
mod yielding;
