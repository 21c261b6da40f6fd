//! Lingering: a task that waits keeps its worker for a moment, if the worker has nothing else to
//! do.
//!
//! Two tasks on two workers that answer each other within a microsecond would each leave their
//! stack, be published as parked, be woken into an inbox, and be picked, claimed and resumed: six
//! cache lines that go from one processor to the other, on each way. If the waiting task is still
//! on its stack when the wake comes, the waker only sets WAKE in the task's state word, and the
//! task sees that and goes on.
//!
//! # Protocol
//!
//! The task is OWNED and on its stack, as a task that runs. A wake sets WAKE (`task::state`, case
//! 2), and lingering takes it out (`StateWord::take_wake`), as a park would. If none comes, the
//! task leaves its stack and parks; a wake that comes between the last look and the park aborts the
//! park. So lingering adds no state and no way to lose a wake.
//!
//! # Price
//!
//! At most [`LOOKS`] looks at a word that stays in the cache until the waker writes it. Nothing
//! that this worker could do is delayed for longer: it looks at its inboxes, too, and lingers only
//! when it found no task anywhere and another worker is awake. After [`CREDIT`] vain attempts in a
//! row it lingers only once in [`RETRY`] waits, so that the time is spent where it pays.

use std::cell::Cell;
use std::time::Duration;

/// Looks of one attempt: 0.7 µs where a spin-loop hint takes 11 ns, 3 µs where it takes 45.
const LOOKS: u32 = 64;
/// Vain attempts in a row after which most waits do without. Not measured.
const CREDIT: u32 = 8;
/// Waits between two attempts then. Not measured.
const RETRY: u32 = 64;

/// Whether it pays for one worker to linger. Used by the worker alone.
#[derive(Debug)]
pub(crate) struct Linger {
    /// Vain attempts that are left.
    credit: Cell<u32>,
    /// Waits until the next attempt without credit.
    rest: Cell<u32>,
    /// A program that wants no spinning gets none.
    off: bool,
}

impl Linger {
    /// For a worker that spins for so long.
    pub(crate) fn new(spin: Duration) -> Linger {
        Linger { credit: Cell::new(CREDIT), rest: Cell::new(RETRY), off: spin.is_zero() }
    }

    /// Whether to try. Called once for each wait.
    pub(crate) fn is_worth_it(&self) -> bool {
        if self.off || self.credit.get() > 0 {
            return !self.off;
        }
        let rest = self.rest.get() - 1;
        self.rest.set(if rest == 0 { RETRY } else { rest });
        rest == 0
    }

    /// Looks until there is an answer: `Some(true)` if lingering has paid.
    pub(crate) fn look(&self, mut answer: impl FnMut() -> Option<bool>) -> Option<bool> {
        let found = (0..LOOKS).find_map(|_| {
            std::hint::spin_loop();
            answer()
        });
        self.credit.set(match found {
            Some(true) => CREDIT,
            _ => self.credit.get().saturating_sub(1),
        });
        found
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SPIN: Duration = Duration::from_micros(20);

    fn attempts(linger: &Linger, waits: u32, answer: Option<bool>) -> u32 {
        let mut attempts = 0;
        for _ in 0..waits {
            if linger.is_worth_it() {
                attempts += 1;
                assert_eq!(linger.look(|| answer), answer);
            }
        }
        attempts
    }

    #[test]
    fn it_is_given_up_where_it_does_not_pay_and_tried_now_and_then() {
        let linger = Linger::new(SPIN);
        assert_eq!(attempts(&linger, 1_000, Some(true)), 1_000);
        assert_eq!(attempts(&linger, CREDIT + 10 * RETRY, None), CREDIT + 10);
        assert_eq!(attempts(&linger, 2 * RETRY, Some(false)), 2);
        assert_eq!(attempts(&linger, RETRY, Some(true)), 1);
        assert_eq!(attempts(&linger, 1_000, Some(true)), 1_000, "it pays again");
    }

    #[test]
    fn the_number_of_looks_is_limited() {
        let linger = Linger::new(SPIN);
        let mut looks = 0;
        let look = || {
            looks += 1;
            None
        };
        assert_eq!((linger.look(look), looks), (None, LOOKS));
    }

    #[test]
    fn without_spinning_there_is_no_lingering() {
        assert_eq!(attempts(&Linger::new(Duration::ZERO), 1_000, Some(true)), 0);
    }
}
