//! The strategies, by name.

/// A way to choose the task that goes on at each point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Strategy {
    /// At each point, any ready task with the same probability.
    RandomWalk,
    /// The running task goes on for a random number of operations, mostly few, sometimes many.
    RandomSlices,
    /// Random priorities of tasks, changed at a few random operations (PCT). Finds each bug of
    /// depth d with a known probability.
    Pct,
    /// Random priorities of operations, drawn again for those that conflict with the last one
    /// (POS).
    Pos,
    /// Each task with a probability in proportion to the operations that it has left (URW), which
    /// makes all interleavings equally likely.
    Urw,
    /// All tasks in turn, with a random number of operations for each turn.
    RoundRobin,
    /// One task after another is kept waiting for as long as others can go on.
    Starvation,
    /// All schedules of a small test, one after another, without those that differ only in the
    /// order of independent operations.
    Exhaustive,
}
