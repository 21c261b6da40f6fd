//! Points in time that a program names by a length of time, which may be endless.

use std::time::{Duration, Instant};

/// Later than any deadline that a program waits for.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The point in time that is this long after another one; a century after it, if the clock cannot
/// tell.
pub(crate) fn after(start: Instant, time: Duration) -> Instant {
    start.checked_add(time).unwrap_or_else(|| start + CENTURY)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_endless_time_ends_late() {
        let start = Instant::now();
        assert_eq!(after(start, Duration::from_secs(1)), start + Duration::from_secs(1));
        assert_eq!(after(start, Duration::MAX), start + CENTURY);
    }
}
