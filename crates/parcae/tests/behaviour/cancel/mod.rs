//! Cancellation: its reach, its causes, tokens and shields.

mod causes;
mod reach;
mod shields;
mod tokens;
