//! The unit of time.

/// A point in time, or a duration: nanoseconds. Points count from the start of the scheduler.
pub(crate) type Nanos = u64;
