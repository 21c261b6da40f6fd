//! Channels, as far as the unit tests in `src/sync` do not cover them.

mod large_values;
mod watch;
