//! Capabilities, and the profile that demands them.

mod sovereign;
