//! Cancellation: its reach, its causes, its tokens.

mod causes;
mod reach;
mod tokens;
