//! Refusals of realtime islands.

use std::fmt;
use std::time::Duration;

/// Why an island was not admitted or did not start, and the breaches of its stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IslandRefused {
    /// The plan has no stage.
    Empty,
    /// A stage of the plan got no code, or got it twice.
    Code {
        /// Its number in the plan.
        stage: usize,
    },
    /// The island runs already, or has run.
    Running,
    /// The island was stopped, or a context of it revoked.
    Stopped,
    /// A stage has ended before its first period.
    Early,
    /// The stack of a stage could not be locked in memory.
    Unlocked {
        /// The number of the system's error.
        os_error: i32,
    },
    /// A stage has allocated memory.
    Allocation {
        /// How often.
        times: u64,
        /// How much.
        bytes: u64,
    },
    /// A stage has made a blocking call.
    Blocking,
    /// A stage had to wait without a deadline.
    Wait,
    /// A stage has spawned a task.
    Spawn,
    /// A stage has opened a nursery.
    Nursery,
    /// A job has ended after its deadline.
    Missed {
        /// By how much.
        by: Duration,
    },
    /// A stage has used more than its budget.
    Overrun,
}

impl fmt::Display for IslandRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IslandRefused::Empty => f.write_str("the island has no stage: add one to its plan"),
            IslandRefused::Code { stage } => {
                write!(f, "stage {stage} of the island has no code, or has it twice: give it once")
            }
            IslandRefused::Running => {
                f.write_str("the island runs already, or has run: admit another one")
            }
            IslandRefused::Stopped => f.write_str("the island was stopped: admit another one"),
            IslandRefused::Early => f.write_str(
                "a stage of the island has ended before its first period: call \
                 `Stage::next_period` at least once",
            ),
            IslandRefused::Unlocked { os_error } => write!(
                f,
                "a stack could not be locked in memory: {}; raise RLIMIT_MEMLOCK, or do not \
                 require it",
                std::io::Error::from_raw_os_error(*os_error)
            ),
            IslandRefused::Allocation { times, bytes } => write!(
                f,
                "a stage of a realtime island has allocated memory, {times} times and {bytes} \
                 bytes: allocate before its first period"
            ),
            IslandRefused::Blocking => f.write_str(
                "a stage of a realtime island cannot make blocking calls: make them outside, and \
                 hand the result over by a pipe",
            ),
            IslandRefused::Wait => f.write_str(
                "a stage of a realtime island cannot wait without a deadline: use an operation \
                 that does not wait, or one with a timeout",
            ),
            IslandRefused::Spawn => f.write_str(
                "a stage of a realtime island cannot spawn tasks: make it a stage of the plan",
            ),
            IslandRefused::Nursery => f.write_str(
                "a stage of a realtime island cannot open a nursery: make its tasks stages of the \
                 plan",
            ),
            IslandRefused::Missed { by } => {
                write!(f, "a job of a realtime island has ended {by:?} after its deadline")
            }
            IslandRefused::Overrun => {
                f.write_str("a stage of a realtime island has used more than its budget")
            }
        }
    }
}

impl std::error::Error for IslandRefused {}
